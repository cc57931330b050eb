"""What the cache of latent attention costs."""

from __future__ import annotations

from course_lib.exercises.exercise import Case, Wrong
from course_lib.exercises.function_exercise import FunctionExercise
from course_lib.exercises.input_generator import InputGenerator


def latent_cache_bytes(
    num_tokens,
    num_layers,
    num_heads,
    latent_dim,
    rotary_dim,
    bytes_per_number,
):  # six ints -> int
    numbers_per_token = latent_dim + rotary_dim  # for any number of heads
    return num_tokens * num_layers * numbers_per_token * bytes_per_number


def _draw(rng: InputGenerator) -> list[Case]:
    cases = []
    for tokens, layers, heads, latent, rotary in rng.size_rows(4, 5, 3, 200):
        cases.append(Case((16 * tokens, layers, heads, latent, 2 * rotary, rng.choice((1, 2, 4)))))
    return cases


EXERCISE = FunctionExercise(
    latent_cache_bytes,
    title="What a latent cache costs",
    difficulty=1,
    minutes=4,
    prompt=(
        "A model with multi-head latent attention keeps, for each token, one latent vector with `latent_dim` numbers "
        "and one key with rotary positions, with `rotary_dim` numbers, in every layer. How many bytes does it keep "
        "for a text of `num_tokens` tokens?"
    ),
    hints=(
        "What is kept per token in one layer? Which of it do the heads share?",
        "Keys and values are both made from the same latent vector.",
        "DeepSeek-V3 keeps (512 + 64) * 61 numbers per token.",
    ),
    draw=_draw,
    least={"num_tokens": 1, "num_layers": 1, "num_heads": 1, "latent_dim": 1, "rotary_dim": 1},
    wrong=(
        Wrong(
            "a latent vector and a rotary key for each head",
            lambda t, n, h, latent, rotary, size: t * n * h * (latent + rotary) * size,
            hint="How many heads share one latent vector?",
        ),
        Wrong(
            "a rotary key for each head",
            lambda t, n, h, latent, rotary, size: t * n * (latent + h * rotary) * size,
            hint="How many heads share one rotary key?",
        ),
        Wrong(
            "two latent vectors per token, one for the keys and one for the values",
            lambda t, n, h, latent, rotary, size: 2 * t * n * (latent + rotary) * size,
            hint="From what are the values made?",
        ),
        Wrong(
            "two latent vectors and one rotary key",
            lambda t, n, h, latent, rotary, size: t * n * (2 * latent + rotary) * size,
            hint="From what are the values made?",
        ),
        Wrong(
            "the latent vectors without the rotary keys",
            lambda t, n, h, latent, rotary, size: t * n * latent * size,
            hint="Can the key with its position be made from the latent vector?",
        ),
        Wrong(
            "the number of elements, not of bytes",
            lambda t, n, h, latent, rotary, size: t * n * (latent + rotary),
            hint="How many bytes has an element?",
        ),
        Wrong(
            "the cache of a single layer",
            lambda t, n, h, latent, rotary, size: t * (latent + rotary) * size,
            hint="Does every layer keep its own?",
        ),
        Wrong(
            "the cost of one token",
            lambda t, n, h, latent, rotary, size: n * (latent + rotary) * size,
            hint="How many tokens are kept?",
        ),
    ),
)
