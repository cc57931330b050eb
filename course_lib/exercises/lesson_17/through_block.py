"""The way through a block."""

from course_lib.exercises.answering.from_source import FromSource
from course_lib.exercises.function_exercise import FunctionExercise


def through_block(x, attention_norm, attention, mlp_norm, mlp, cache):
    # (batch, token, width), four parts, a cache -> (batch, token, width), the new cache
    found, cache = attention(attention_norm(x), cache)
    x = x + found  # residual: (b, t, m) + (b, t, m)
    return x + mlp(mlp_norm(x)), cache


ATTENTION = """
import torch

def attention_of(mixing):
    def attention(x, cache):  # a stand-in: the running sum of all tokens so far
        total = (x @ mixing).cumsum(1)
        if cache is not None:
            total = total + cache[:, None]
        return total, total[:, -1]

    return attention
"""
LAYER = """
import torch

def layer_of(weight, shift):
    def layer(x):
        return (x @ weight + shift).tanh()

    return layer
"""


def _layer(rng, width):
    return FromSource(LAYER, "layer_of", (rng.normal(width, width), rng.normal(width)))


EXERCISE = FunctionExercise(
    through_block,
    title="The way through a block",
    difficulty=2,
    minutes=3,
    prompt=(
        "A block has four parts: `attention_norm`, `attention`, `mlp_norm` and `mlp`. The first norm stands before the "
        "attention, the second before the MLP, and what attention and MLP return is added to what came in (a residual "
        "connection). `attention(x, cache)` returns its output and the new cache. Return what comes out of the block, "
        "and the new cache."
    ),
    hints=(
        "Two steps of the same form: x plus what a part makes of the norm of x.",
        "The second step starts from the result of the first.",
        "`found, cache = attention(attention_norm(x), cache)`, then `x = x + found`.",
    ),
    inputs={
        "x": "batch token width",
        "attention_norm": _layer,
        "attention": lambda rng, width: FromSource(ATTENTION, "attention_of", (rng.normal(width, width),)),
        "mlp_norm": _layer,
        "mlp": _layer,
        "cache": "batch width",
    },
    calls=2,
    special={"the text begins: cache is None": {"cache": lambda: None}},
    arguments={"x": "batch token width", "cache": "batch width"},
    axes="output cache",
    fixed="width batch",
    wrong="""
x = x + found => x = found
    a block without the first residual connection
    ? What is left of x after the attention, if you don't add it?
return x + mlp => return mlp
    a block without the second residual connection
    ? What is left of x after the MLP, if you don't add it?
attention(attention_norm(x), cache) => attention(x, cache)
    a block whose attention reads x without its norm
    ? What stands before the attention?
mlp(mlp_norm(x)) => mlp(x)
    a block whose MLP reads x without its norm
    ? What stands before the MLP?
mlp_norm(x) => attention_norm(x)
    a block in which one norm serves twice
    ? Which of the two norms belongs to the MLP?
attention(attention_norm(x), cache) => attention(attention_norm(x), None)
    a block that forgets its cache
    ? What does the attention know of the tokens before this call?
x = x + found => x = attention_norm(x) + found
    a block in which the norm of x is added, in place of x
    ? Which of the two goes past the attention: x or its norm?
found, cache = attention(attention_norm(x), cache) => normed = attention_norm; found, cache = attention(x, cache); found = normed(found)
    a block with the norm behind the attention
    ? Does the norm stand before the attention or behind it?
found, cache = attention(x, cache); x = attention_norm(x + found); return mlp_norm(x + mlp(x)), cache
    a block whose norms stand behind the additions (post-norm, as in the first transformer)
    ? Does a norm change what goes past the attention here, or only what goes into it?
x = x + found => before, x = x, x + found && return x + mlp(mlp_norm(x)) => return x + mlp(mlp_norm(before))
    a block whose MLP reads what came into the block
    ? Should the MLP see what attention found?
""",
)
