"""Run trainings side by side and store what they give."""

import hashlib
import json
import time
from collections.abc import Callable, Iterable
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import torch

from course_lib.stories import (
    FORMS,
    TRAINED,
    file_of,
    new_storyteller,
    read_held_out,
    save_weights,
    stories,
    with_shared_keys,
)

from .consequences import (
    EDITED,
    FORM,
    RATES,
    RIGHT,
    RIGHT_ROTARY,
    ROTARY_FORM,
    TRAINED_WITH,
    WRITTEN,
    attention_with,
    put_into,
    trained_with,
)
from .training import NUM_STORIES, SEEDS, TRAINING_SEED, measured, trained

PROCESSES = 2
CARD, CONSEQUENCES, SHARING = (TRAINED / f"{name}.json" for name in ("card", "consequences", "sharing"))
Job = tuple[str, int, float]  # form or mistake, seed, rate


def train_forms(forms: Iterable[str], scratch: Path) -> None:
    """Train forms under each seed; store the weights of the first and describe all of them in the card."""
    jobs = [(form, seed, 1.0) for form in forms for seed in SEEDS]
    card = json.loads(CARD.read_text(encoding="utf-8")) if CARD.exists() else {}
    for (form, seed, _), result in side_by_side(partial(_train_form, scratch), jobs):
        row = card.setdefault(form, {"seeds": []})
        if seed == SEEDS[0]:
            (scratch / f"{form}.npz").replace(file_of(form))
            row.update(
                parameters=sum(one.numel() for one in new_storyteller(form).parameters()),
                steps=FORMS[form].steps,
                sha256=hashlib.sha256(file_of(form).read_bytes()).hexdigest(),
                seeds=[],
            )
        row["seeds"].append(result)
        _write(CARD, {name: card[name] for name in FORMS if name in card})


def _train_form(scratch: Path, job: Job) -> dict[str, Any]:
    form, seed, _ = job
    model, loss = trained(form, seed=seed)
    model.half().float()  # as it is stored
    if seed == SEEDS[0]:
        save_weights(model, scratch / f"{form}.npz")
    return measured(model, loss)._asdict()


def train_sharing() -> None:
    """Train the form llama with the keys and values of its first block in both, and store how it reads."""
    runs = side_by_side(_train_sharing, [("llama, shared keys", seed, 1.0) for seed in SEEDS])
    _write(SHARING, {"form": "llama", "seeds": [result for _, result in runs]})


def _train_sharing(job: Job) -> dict[str, Any]:
    torch.set_num_threads(1)
    model = with_shared_keys(new_storyteller("llama", seed=job[1]))
    texts = [story.text for story in stories(NUM_STORIES, seed=TRAINING_SEED)]
    model.train_on(texts, steps=FORMS["llama"].steps, seed=job[1])
    return read_held_out(model)._asdict()


def measure_consequences(scratch: Path) -> None:
    """Measure what each mistake does, under each seed and learning rate."""
    runs = [(seed, rate) for rate in RATES for seed in SEEDS]
    names = (RIGHT, RIGHT_ROTARY, *TRAINED_WITH[1:], *EDITED)
    found: dict[str, dict[str, list[Any]]] = {each: {"trained": [], "put_in": []} for each in names}
    for mistakes in ((RIGHT, RIGHT_ROTARY), (*EDITED, *TRAINED_WITH[1:])):  # they are put into the right ones
        jobs = [(mistake, *run) for run in runs for mistake in mistakes]
        for (mistake, seed, rate), results in side_by_side(partial(_measure_mistake, scratch), jobs):
            for column, result in results.items():
                found[mistake][column].append({"seed": seed, "rate": rate, **result})
            _write(CONSEQUENCES, found)


def _measure_mistake(scratch: Path, job: Job) -> dict[str, dict[str, Any]]:
    mistake, seed, rate = job
    torch.set_num_threads(1)
    rotary = mistake == RIGHT_ROTARY or mistake in EDITED
    weights = scratch / f"{rotary}-{seed}-{rate}.pt"
    results: dict[str, dict[str, Any]] = {}
    if mistake not in EDITED:
        model, loss = trained_with(mistake, seed, rate)
        results["trained"] = measured(model, loss, count=WRITTEN, use_cache=rotary)._asdict()
        if mistake in (RIGHT, RIGHT_ROTARY):
            torch.save(model.state_dict(), weights)
            return results
    right = new_storyteller(ROTARY_FORM if rotary else FORM).like(attention_with(RIGHT, rotary=rotary))
    right.load_state_dict(torch.load(weights, weights_only=True), strict=not rotary)  # its angles are in no table
    results["put_in"] = put_into(right, mistake)._asdict()
    return results


def side_by_side(work: Callable[[Job], Any], jobs: list[Job]) -> Iterable[tuple[Job, Any]]:
    """Run jobs in processes of their own, and yield each with its result, in their order."""
    start = time.perf_counter()
    with get_context("spawn").Pool(PROCESSES, maxtasksperchild=1) as pool:
        for job, result in zip(jobs, pool.imap(work, jobs), strict=True):
            print(f"{time.perf_counter() - start:6.0f} s  {job[0]}, seed {job[1]}, rate {job[2]}", flush=True)
            yield job, result


def _write(path: Path, found: Any) -> None:
    path.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
