"""From many heads to a few."""

from typing import Any

from course_lib.exercises.function_exercise import FunctionExercise


def pool_heads(weight, num_heads, num_kv_heads):
    # (num_heads * head_dim, d_in) -> (num_kv_heads * head_dim, d_in)
    rows, d_in = weight.shape
    heads_per_group = num_heads // num_kv_heads
    grouped = weight.view(num_kv_heads, heads_per_group, rows // num_heads, d_in)
    # (g, h / g, d, m) -> (g, d, m) -> (g * d, m)
    return grouped.mean(dim=1).flatten(0, 1)


PROMPT = (
    "`weight` is `k_proj.weight` or `v_proj.weight` of multi-head attention; head i is its i-th block of "
    "`head_dim` rows. Make the matrix of grouped-query attention from it: {groups}, there "
    "are `num_kv_heads` groups, and the matrix of a group is {of_group}."
)
NEIGHBOURS, APART = (
    "consecutive heads form a group",
    "heads whose numbers differ by `num_kv_heads` form a group (with 6 heads in 2 groups, heads 0, 2 and 4)",
)
MEAN, FIRST = "the mean of the matrices of its heads", "that of its first head, the other heads' are dropped"
HINTS = (
    "`head_dim` is the number of rows divided by `num_heads`; a group has `num_heads // num_kv_heads` heads.",
    "Split the rows by a `view` into three axes: two that count the heads, and the row within the head. Of the first "
    "two, which one counts the heads of one group?",
)


def _variant(groups: str, of_group: str) -> dict[str, Any]:
    """Return the exercise for other groups, or for another matrix of a group."""
    axis, other = (1, 0) if groups == NEIGHBOURS else (0, 1)
    view = "num_kv_heads, heads_per_group" if groups == NEIGHBOURS else "heads_per_group, num_kv_heads"
    turned = "heads_per_group, num_kv_heads" if groups == NEIGHBOURS else "num_kv_heads, heads_per_group"
    right = f"grouped.mean(dim={axis})" if of_group == MEAN else f"grouped.select({axis}, 0)"
    back = f"grouped.mean(dim={other})" if of_group == MEAN else f"grouped.select({other}, 0)"
    wrong_matrix = (
        (f"grouped.sum({axis})", "the sum of each group's heads")
        if of_group == MEAN
        else (f"grouped.mean({axis})", "the mean of each group's heads")
    )
    return {
        "solution": f"num_kv_heads, heads_per_group, => {view}, && grouped.mean(dim=1) => {right}"
        f" && (g, h / g, d, m) => {'(g, h / g, d, m)' if groups == NEIGHBOURS else '(h / g, g, d, m)'}",
        "prompt": PROMPT.format(groups=groups, of_group=of_group),
        "hints": (*HINTS, f"`weight.view({view}, head_dim, d_in)` is `grouped`; take `{right}`, and join two axes."),
        "wrong": f"""
{right} => {wrong_matrix[0]}
    {wrong_matrix[1]}
    ? What is the matrix of a group here?
{view} => {turned} && {right} => {back}
    other groups: the heads of each are not those that are asked for
    ? With 4 heads in 2 groups: which heads belong to group 0?
{right} => {back}
    as many heads as there were in one group
    ? Which axis counts the heads of one group?
{right} => grouped.select({axis}, -1)
    the last head of each group
    ? What is the matrix of a group here?
{right} => grouped.amax({axis})
    the largest elements of each group's heads
    ? What is the matrix of a group here?
""",
    }


EXERCISE = FunctionExercise(
    pool_heads,
    title="From many heads to a few",
    difficulty=3,
    minutes=8,
    prompt=PROMPT.format(groups=NEIGHBOURS, of_group=MEAN),
    hints=(
        *HINTS,
        "`weight.view(num_kv_heads, heads_per_group, head_dim, d_in).mean(dim=1)`; then join the first two axes.",
    ),
    inputs={
        "weight": "num_kv_heads*group*head_dim d_in",
        "num_heads": lambda num_kv_heads, group: num_kv_heads * group,
    },
    also=({"num_kv_heads": 1}, {"group": 1}),
    draw_edges=({"num_kv_heads": 1, "head_dim": 1},),
    least={"num_kv_heads": 1},
    arguments={"weight": "num_heads*head_dim d_in"},
    axes="num_kv_heads*head_dim d_in",
    variants=(_variant(NEIGHBOURS, FIRST), _variant(APART, MEAN), _variant(APART, FIRST)),
    wrong="""
grouped.mean => grouped.sum
    the sum of each group's heads; it should be their mean
    ? By what is a sum divided to become a mean?
grouped.mean(dim=1) => grouped[:, 0]
    the first head of each group
    ? What becomes of the other heads of the group?
num_kv_heads, heads_per_group, => heads_per_group, num_kv_heads, && dim=1 => dim=0
    groups of heads that are not neighbours: with 4 heads in 2 groups, heads 0 and 2 and heads 1 and 3 [kv-heads-tiled]
weight.unflatten(0, (-1, num_heads // num_kv_heads)).mean(1)
    the mean of neighbouring rows; a row belongs to one head, and heads are averaged
    ? Which rows of the matrix are head 0, and which are head 1?
grouped.mean(dim=1) => grouped.mean(dim=(0, 1)).repeat(num_kv_heads, 1, 1)
    the mean of all heads in every group
    ? Which heads belong to a group?
0 => 1
    the mean of each group on axes of its own: (kv head, head_dim, d_in)
    ? Which two axes have to become one?
.mean(dim=1).flatten(0, 1) => .mean(dim=(1, 2))
    one row per group: the rows of a head were averaged, too
    ? Which of the axes are to stay?
=1 => =0
    the mean over the groups: as many heads as there were in one group
    ? Which axis counts the heads of one group?
.mean(dim=1) => .mean(dim=1).repeat_interleave(heads_per_group, 0)
    the means put back at each head, (num_heads * head_dim, d_in): right, but nothing is saved
    ? How many kv heads should remain?
.mean(dim=1) => .mean(dim=1).flip(0)
    the groups in reverse order
grouped.mean(dim=1) => grouped[:, -1]
    the last head of each group
    ? What becomes of the other heads of the group?
.mean => .amax
    the largest elements of each group's heads; it should be their mean
    ? What is a mean?
""",
)
