"""Count which word follows which."""

from course_lib.exercises.function_exercise import FunctionExercise


def count_pairs(tokens, num_words):
    # (token,) of integers, an int -> (first word, next word)
    pairs = num_words * tokens[:-1] + tokens[1:]  # (token - 1,), one for each pair
    return pairs.bincount(minlength=num_words**2).view(num_words, num_words)


EXERCISE = FunctionExercise(
    count_pairs,
    title="Count which word follows which",
    difficulty=2,
    minutes=2,
    prompt=(
        "`tokens` is a text as integers below `num_words`. Count its pairs of neighbours: element (first, next) of the "
        "result says how often `next` comes directly after `first`. The result is (num_words, num_words)."
    ),
    hints=(
        "A loop over the places of the text is right, but slow: the lesson's text has half a million tokens.",
        "`num_words * tokens[:-1] + tokens[1:]` gives each pair of words a number of its own.",
        "`torch.bincount(pairs, minlength=num_words**2)` counts them; `view` makes a table of it.",
    ),
    inputs={
        "tokens": lambda rng, token, num_words: rng.integers(num_words, 9 * token),
    },
    calls=3,
    axes="first next",
    extract=lambda counts, tokens, num_words: counts.double(),  # floats count, too
    own_dtype=True,
    wrong="""
result.T
    the table with its axes exchanged: how often `first` comes after `next`
    ? Which of the two words chooses the row?
result > 0
    whether a pair occurs, not how often
    ? What do you do when a pair comes for the second time?
result / result.sum(1, keepdim=True).clamp(min=1)
    shares in place of counts
    ? Is a count divided by anything?
right(tokens, num_words) + right(tokens[:1].expand(2), num_words)
    one pair too many: the first word after itself
    ? How many pairs of neighbours does a text of n words have?
""",
)
