"""LayerNorm by hand."""

from __future__ import annotations

from course_lib.exercises.edges import FLOAT32, in_float32
from course_lib.exercises.exercise import Case
from course_lib.exercises.function_exercise import FunctionExercise
from course_lib.exercises.input_generator import InputGenerator


def layer_norm(x, gain, shift):
    # (batch, token, width), two of (width) -> (batch, token, width)
    centred = x - x.mean(dim=-1, keepdim=True)
    variance = (centred**2).mean(dim=-1, keepdim=True)  # (b, t, 1)
    return centred / (variance + 1e-5).sqrt() * gain + shift


def _draw_large(rng: InputGenerator) -> list[Case]:
    """Draw float32 elements whose squares leave no digits for their variance."""
    batch, num_tokens, width = rng.sizes(3, 3, 9)
    x = 1000.0 + rng.normal(batch, num_tokens, width, std=3.0)
    return [Case(in_float32((x, rng.normal(width), rng.normal(width))), FLOAT32)]


EXERCISE = FunctionExercise(
    layer_norm,
    title="LayerNorm by hand",
    difficulty=2,
    minutes=5,
    prompt=(
        "For each token by itself: take away the mean of its elements, divide by the square root of their variance "
        "plus 1e-5, multiply by `gain` and add `shift`. The variance is the mean of the squared distances from the "
        "mean: divide by the width, not by the width minus one. Use neither `nn.LayerNorm` nor `F.layer_norm`, if you "
        "want to learn something."
    ),
    hints=(
        "Over which axis are mean and variance taken, if each token is on its own? Keep that axis, with size 1.",
        "`x.var(dim=-1, keepdim=True)` divides by the width minus one, unless you say `correction=0`.",
        "`(x - mean) / (variance + 1e-5).sqrt() * gain + shift`.",
    ),
    inputs={"x": lambda x: 3.0 + 3.0 * x},
    calls=2,
    special={"the elements of x are about 0.01": {"x": lambda x: x / 300.0}},
    draw_edges=_draw_large,
    arguments={"x": "batch token width", "gain": "width", "shift": "width"},
    axes="batch token width",
    gradients=("x", "gain", "shift"),
    wrong="""
(centred**2).mean(dim=-1, keepdim=True) => x.var(dim=-1, keepdim=True)
    a variance divided by the width minus one
    ? By what does `var` or `std` divide, if you don't tell it?
dim=-1 => dim=1
    mean and variance over the tokens, not over each token's elements
    ? Which axis is the width?
dim=-1 => dim=(0, 1)
    mean and variance over the whole batch's tokens
    ? May one token's result depend on another token?
dim=-1 => dim=(1, 2)
    mean and variance over tokens and width together
    ? May one token's result depend on another token?
1e-5 => 0.0
    the same without 1e-5, which matters for small elements
    ? What is added to the variance?
(variance + 1e-5).sqrt() => (variance.sqrt() + 1e-5)
    1e-5 added after the square root
    ? To what is 1e-5 added: to the variance, or to its root?
(variance + 1e-5).sqrt() => (variance + 1e-5)
    a division by the variance, without its square root
    ? What would happen to your result if x were twice as large?
x - x.mean(dim=-1, keepdim=True) => x
    a division by the root of the mean square: the mean was not taken away
    ? This is RMSNorm, which Llama uses. What does LayerNorm do before?
.sqrt() * gain => .sqrt()
    the normalized tokens without gain
    ? What is `gain` for?
* gain + shift => * gain
    the normalized tokens without shift
    ? What is `shift` for?
right(x, gain, shift * gain)
    a result whose shift is multiplied by the gain, too
    ? Which of the two comes last, the gain or the shift?
.sqrt() * gain + shift => .sqrt()
    the normalized tokens without gain and shift
    ? What are `gain` and `shift` for?
""",
)
