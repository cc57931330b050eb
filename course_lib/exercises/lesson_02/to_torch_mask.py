"""Masks for PyTorch's own attention."""

from __future__ import annotations

from course_lib.exercises.exercise import Case
from course_lib.exercises.function_exercise import FunctionExercise
from course_lib.exercises.input_generator import InputGenerator

FUSED, MODULE, PADDING = "scaled_dot_product_attention", "attn_mask", "key_padding_mask"


def to_torch_mask(keep, target):
    # (query, key) or (batch, 1, 1, key) bool, str -> the mask that the target takes
    if target == "scaled_dot_product_attention":
        return keep
    if target == "attn_mask":
        return ~keep
    return ~keep[:, 0, 0]  # (batch, 1, 1, key) -> (batch, key)


def _draw(rng: InputGenerator) -> list[Case]:
    cases = []
    for batch, queries, keys in [*rng.size_rows(2, 3), (1, 4, 5)]:
        square, padding = rng.normal(queries, keys) > 0, rng.normal(batch, 1, 1, keys) > 0
        square[0, 0] = padding[0] = True
        square[-1, -1] = padding[-1, 0, 0, -1] = False
        cases += [Case((square, FUSED)), Case((padding, FUSED)), Case((square, MODULE)), Case((padding, PADDING))]
    alone = rng.normal(1, 1, 1, cases[0].arguments[0].shape[1] + 1) > 0
    alone[..., 0], alone[..., -1] = True, False
    return rng.shuffled([*cases, Case((alone, PADDING), "the batch is a single sample")])


EXERCISE = FunctionExercise(
    to_torch_mask,
    title="Masks for PyTorch's own attention",
    difficulty=2,
    minutes=6,
    prompt=(
        "`keep` is a mask as in this course: bool, True = may attend. Turn it into what PyTorch takes. `target` says "
        "where it goes:\n\n"
        '- `"scaled_dot_product_attention"`: the argument `attn_mask` of this function. True means *may attend*. '
        "`keep` is (query, key) or (batch, 1, 1, key), and the shape stays.\n"
        '- `"attn_mask"`: the argument of that name when an `nn.MultiheadAttention` is called. True means *hidden*. '
        "`keep` is (query, key), and the shape stays.\n"
        '- `"key_padding_mask"`: the other mask of `nn.MultiheadAttention`. True means *hidden*. `keep` is '
        "(batch, 1, 1, key), and the result must be (batch, key)."
    ),
    hints=(
        "Write down for each target what True means there. In how many of the three is it the opposite of `keep`?",
        "`~keep` turns every True into False and every False into True.",
        "`keep[:, 0, 0]` takes the two axes of size 1 away. Only `key_padding_mask` needs that, and `~` as well.",
    ),
    draw=_draw,
    arguments={},
    wrong="""
~keep => keep
    `keep` as it is, in two targets of which True means hidden [mask-inverted]
return keep => return ~keep
    the opposite of `keep` for every target: in one of them True means *may attend* [mask-inverted]
    ? What does True mean in `scaled_dot_product_attention`?
~result
    each mask in the wrong sense [mask-inverted]
:, 0, 0 => :
    the right values, but `key_padding_mask` is still (batch, 1, 1, key)
    ? Which two axes does `key_padding_mask` not have?
~keep[:, 0, 0] => keep[:, 0, 0]
    the right mask for two targets, and `key_padding_mask` in the wrong sense [mask-inverted]
    ? What does True mean in `key_padding_mask`?
keep if target == MODULE else result
    the right mask for two targets, and `attn_mask` in the wrong sense [mask-inverted]
    ? What does True mean in the `attn_mask` of `nn.MultiheadAttention`?
keep if target == FUSED else (~keep).squeeze()
    the right masks, except in a batch of one sample, whose axis is gone as well
    ? Which axes does `squeeze()` without an argument take away?
keep
    `keep` untouched, whatever the target is [mask-inverted]
    ? What does True mean in each of the three targets?
~keep
    the opposite of `keep`, whatever the target is [mask-inverted]
    ? What does True mean in `scaled_dot_product_attention`?
""",
)
