"""Exchange what one head found by that of another run."""

from __future__ import annotations

from torch import Tensor

from course_lib.exercises.exercise import Case, Wrong
from course_lib.exercises.function_exercise import FunctionExercise
from course_lib.exercises.input_generator import InputGenerator

from .mean_ablate import draw_contexts, output_with


def patch_head(contexts, others, w_o, head):
    # 2 x (batch, head, token, d), (d_out, head * d), int -> (b, t, d_out)
    patched = contexts.clone()
    patched[:, head] = others[:, head]
    merged = patched.transpose(1, 2).flatten(2)  # (b, h, t, d) -> (b, t, h * d)
    return merged @ w_o.T


def _scrambled(contexts: Tensor, others: Tensor, w_o: Tensor, head: int) -> Tensor:
    patched = contexts.clone()
    patched[:, head] = others[:, head]
    return patched.reshape(len(contexts), contexts.shape[2], -1) @ w_o.T


def _draw(rng: InputGenerator) -> list[Case]:
    cases = []
    for contexts, w_o, head in draw_contexts(rng):
        cases.append(Case((contexts, rng.normal(*contexts.shape), w_o, head)))
    return cases


EXERCISE = FunctionExercise(
    patch_head,
    title="Exchange what one head found",
    difficulty=2,
    minutes=5,
    prompt=(
        "Activation patching: `contexts` is what the heads of a layer found in one run, `others` what they found in "
        "another, both (batch, head, token, head_dim). Give back the layer's output, (batch, token, d_out), for the "
        "first run, but with head number `head` taken from the other one. `w_o` is (d_out, head * head_dim). Leave "
        "`contexts` as it is."
    ),
    hints=(
        "Nearly everything is the first run. Which slice comes from the other?",
        "`others[:, head]` is (batch, token, head_dim). Write it into a copy of `contexts`, not into the argument.",
        "`patched = contexts.clone()`, `patched[:, head] = others[:, head]`, then merge the heads and multiply by "
        "`w_o.T`.",
    ),
    draw=_draw,
    least={"head": 0},
    arguments={
        "contexts": "batch head token head_dim",
        "others": "batch head token head_dim",
        "w_o": "d_out head*head_dim",
    },
    axes="batch token d_out",
    wrong=(
        Wrong(
            "the output of the first run: nothing was exchanged",
            lambda c, o, w, h: output_with(c, w, h, c[:, h]),
            hint="Where does `others` enter?",
        ),
        Wrong(
            "the output of the other run: all heads were exchanged",
            lambda c, o, w, h: output_with(o, w, h, o[:, h]),
            hint="Which heads stay as they were?",
        ),
        Wrong(
            "the other run with one head of the first: the two runs are exchanged",
            lambda c, o, w, h: output_with(o, w, h, c[:, h]),
            hint="Which run gives one head, and which gives the rest?",
        ),
        Wrong(
            "the output with the head of both runs added",
            lambda c, o, w, h: output_with(c, w, h, c[:, h] + o[:, h]),
            hint="What is left of the first run's head?",
        ),
        Wrong(
            "the output with the mean of both runs in the head's place",
            lambda c, o, w, h: output_with(c, w, h, (c[:, h] + o[:, h]) / 2),
            hint="What is left of the first run's head?",
        ),
        Wrong(
            "the output with zeros in the head's place: that is an ablation",
            lambda c, o, w, h: output_with(c, w, h, 0.0),
            hint="Where does `others` enter?",
        ),
        Wrong(
            "the output with the other run's mean in the head's place",
            lambda c, o, w, h: output_with(c, w, h, o[:, h].mean((0, 1))),
            hint="Which token of the other run belongs to which token of this one?",
        ),
        Wrong(
            "the output with the next head exchanged",
            lambda c, o, w, h: patch_head(c, o, w, (h + 1) % c.shape[1]),
            hint="From what number are the heads counted?",
        ),
        Wrong(
            "what the exchanged head alone gives to the output",
            lambda c, o, w, h: o[:, h] @ w[:, h * c.shape[-1] : (h + 1) * c.shape[-1]].T,
            hint="What became of the other heads?",
        ),
        Wrong("heads that are merged by a reshape alone", _scrambled, "merge-without-transpose"),
    ),
)
