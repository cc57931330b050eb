"""How many tiles a causal mask saves."""

from course_lib.exercises.function_exercise import FunctionExercise


def tiles_skipped(num_tokens, size):  # two ints -> int
    side = -(-num_tokens // size)  # tiles a side; the last may be smaller
    return side * (side - 1) // 2  # those above the diagonal


EXERCISE = FunctionExercise(
    tiles_skipped,
    title="Tiles that are skipped",
    difficulty=2,
    minutes=2,
    prompt=(
        "A kernel cuts the scores of `num_tokens` queries and as many keys into tiles of `size` by `size`; the last "
        "ones may be smaller. With a causal mask, how many tiles hold nothing but hidden scores?"
    ),
    hints=(
        "Draw three by three tiles. Which of them lie above the diagonal?",
        "A smaller tile at the end is a tile, too: 5 tokens in tiles of 2 are 3 tiles a side.",
        "With n tiles a side, the first row skips n - 1 tiles, the second n - 2, and the last none.",
    ),
    inputs={"num_tokens": lambda size, side: size * side},
    calls=4,
    sizes=(3, 12),
    also=(
        *[{"num_tokens": lambda rng, size, side: size * side + 1 + rng.integer(size - 1)}] * 4,
        {"num_tokens": 13, "size": 1},
        {"num_tokens": 7, "size": 16},
    ),
    least={"num_tokens": 1, "size": 1},
    wrong="""
1 => -1
    the tiles that are computed, not those that are skipped
    ? On which side of the diagonal are the hidden scores?
side * (side - 1) // 2 => side**2 / 2
    half of all tiles: those on the diagonal are needed
    ? Does a tile on the diagonal hold a visible score?
1 => 0
    half of all tiles, rounded down: those on the diagonal are needed
    ? Does a tile on the diagonal hold a visible score?
num_tokens // size * (num_tokens // size - 1) // 2
    the number without the smaller tiles at the end
    ? How many tiles a side are there for 5 tokens in tiles of 2?
-num_tokens // size => -num_tokens
    the number of hidden scores
    ? Does it count scores or tiles?
2 => 1
    the number of all tiles that are not on the diagonal
    ? Are the tiles below the diagonal hidden?
side * (side - 1) // 2 => side**2
    the number of all tiles
    ? Which of them hide everything?
""",
)
