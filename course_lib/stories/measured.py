"""How likely a model makes the facts of stories that it has never read, and how fast it writes."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from .language import CHOICES, KINDS, PRONOUNS, stories
from .storyteller import Storyteller

HELD_OUT_SEED = 2_000_000  # of stories that no model is trained on
HELD_OUT = 500


class Speed(NamedTuple):
    """How fast a model writes.

    Attributes:
        with_cache: Tokens per second; nan if its attention takes no cache.
        without_cache: Tokens per second, where each token is computed from all before it.
        bytes_per_token: Of keys and values that its caches keep of a token.
    """

    with_cache: float
    without_cache: float
    bytes_per_token: float


@torch.no_grad()
def fact_probabilities(model: Storyteller, count: int = HELD_OUT) -> dict[str, float]:
    """How sure a model is of the right word where a story that it has never read says a fact again.

    At each such place the probability of the right word is divided by that of all words that could stand there: of all
    animals, say, or of "she" and "he".

    Args:
        model: A storyteller of the course's language.
        count: How many stories are read.

    Returns:
        Kind of fact -> mean over all such words of that kind, and "loss" -> the mean of -log(probability) over all words.
    """
    found: dict[str, list[Tensor]] = {kind: [] for kind in KINDS}
    losses: list[Tensor] = []
    for story in stories(count, seed=HELD_OUT_SEED):
        tokens = model.encode(story.text)  # (1, t): the token before the story, then its words
        logs = F.log_softmax(model(tokens)[0].float(), dim=-1)  # (t, v): row i predicts word i
        losses.append(-logs[:-1].gather(1, tokens[0, 1:, None])[:, 0])
        for fact in story.facts:
            for place in fact.repeats:
                word = model.vocabulary[int(tokens[0, place + 1])]
                among = torch.tensor([model.numbers[each] for each in alternatives(fact.kind, word)])
                found[fact.kind].append((logs[place, model.numbers[word]] - logs[place, among].logsumexp(0)).exp())
    means = {kind: float(torch.stack(values).mean()) for kind, values in found.items()}
    return {**means, "loss": float(torch.cat(losses).mean())}


def alternatives(kind: str, word: str) -> Sequence[str]:
    """The words, itself among them, of which one is right where a fact says this word."""
    if kind != "pronoun":
        return CHOICES[KINDS[kind][0]]
    found = next(pair for pair in PRONOUNS.values() if word.lower() in pair)
    return [each.capitalize() if word[0].isupper() else each for each in found]


def tokens_per_second(model: Storyteller, *, num_tokens: int = 100, rounds: int = 3) -> Speed:
    """Measure how fast a storyteller writes, with a cache and without.

    Args:
        model: A storyteller, with any attention.
        num_tokens: How many tokens are written in a round.
        rounds: The median round counts.
    """
    caches = model.new_caches()
    num_tokens = min(num_tokens, model.max_len)

    def speed(use_cache: bool) -> float:
        times: list[float] = []
        for _ in range(rounds):
            start = time.perf_counter()
            list(model.generate(model.encode(""), num_tokens, use_cache=use_cache))
            times.append(time.perf_counter() - start)
        return num_tokens / sorted(times)[rounds // 2]

    return Speed(
        speed(True) if caches else float("nan"),
        speed(False),
        sum(cache.nbytes for cache in caches) / model.max_len if caches else 0.0,
    )
