"""Who shares with whom."""

from course_lib.exercises.function_exercise import FunctionExercise


def kv_head_of(query_head, num_heads, num_kv_heads):  # three ints -> int
    heads_per_group = num_heads // num_kv_heads
    return query_head // heads_per_group


EXERCISE = FunctionExercise(
    kv_head_of,
    title="Who shares with whom",
    difficulty=1,
    minutes=2,
    prompt=(
        "With groups, several query heads read one kv head. Which one does a query head read? All are counted from 0."
    ),
    hints=(
        "Consecutive query heads share: with 6 heads and 2 kv heads, 0, 1, 2 share one and 3, 4, 5 the other.",
        "The size of a group is num_heads // num_kv_heads.",
        "The number of the group is query_head // size of a group.",
    ),
    inputs={"num_heads": lambda num_kv_heads, group: num_kv_heads * group, "query_head": lambda num_heads: num_heads},
    calls=4,
    sizes=(2, 7),
    also=({"num_kv_heads": 1}, {"group": 1}),
    each=("query_head",),
    wrong="""
query_head % num_kv_heads
    the kv heads dealt out in turn, 0, 1, 0, 1: neighbours should share [kv-heads-tiled]
0
    kv head 0 for everyone [kv-head-zero-only]
query_head
    the query head's own index: with fewer kv heads there is no such head
    ? How many kv heads are there?
/ heads_per_group => / num_kv_heads
    head // num_kv_heads: that divides by the number of groups, not by their size
    ? How many query heads share one kv head?
query_head % (num_heads // num_kv_heads)
    the index within the group, not that of the group [kv-heads-tiled]
query_head // (num_heads // num_kv_heads) + 1
    the groups counted from 1
    ? From what number do you count?
num_kv_heads - 1 - query_head // (num_heads // num_kv_heads)
    the groups counted from the end
query_head / (num_heads // num_kv_heads)
    a fraction: the index of a kv head is an integer
    ? `/` or `//`?
""",
)
