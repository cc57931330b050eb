"""What a model learns to predict in a row of several texts."""

from course_lib.exercises.function_exercise import FunctionExercise


def packed_targets(tokens, lengths):
    # (token) integers, list of ints -> (token) integers
    targets = tokens.roll(-1)  # the next token of the row
    end = 0
    for length in lengths:
        end += length
        targets[end - 1] = -100  # nothing follows the last token of a text
    return targets


EXERCISE = FunctionExercise(
    packed_targets,
    title="Targets of packed texts",
    difficulty=2,
    minutes=5,
    prompt=(
        "`tokens` are the tokens of several texts in one row, and `lengths` says how many each text has. A model is "
        "trained to predict, at each token, the next one of the same text. Return these targets, as many as tokens. "
        "At the last token of each text there is nothing to predict: its target is -100, which PyTorch's "
        "`cross_entropy` leaves out. Leave `tokens` as they are."
    ),
    hints=(
        "`tokens.roll(-1)` is a new tensor that holds, at each place, the next token of the row. At which places is "
        "that a token of another text?",
        "The last token of each text stands at `sum(lengths[:n]) - 1`, for n from 1 to the number of texts.",
    ),
    inputs={
        "lengths": lambda rng, count: [*rng.sizes(count, 1, count + 4)],
        "tokens": lambda rng, lengths: 1 + rng.integers(90, sum(lengths)),
    },
    calls=4,
    draw_edges=({"lengths": [1]}, {"lengths": [1, 1, 30]}),
    axes="token",
    wrong="""
targets[end - 1] = -100 => targets[sum(lengths) - 1] = -100
    targets across the border: each text's last token should predict the first token of the next text
    ? Does anything in a text say which text comes next?
right(tokens, lengths).masked_fill(right(tokens, lengths) == -100, 0)
    a 0 in place of -100: the model would learn to predict token 0
    ? Which target does `cross_entropy` leave out?
targets[end - 1] = -100 => targets[end % len(tokens)] = -100
    the first token of each text left out, in place of the last
    ? Which token of a text has no next one?
tokens.roll(-1) => tokens.clone()
    the tokens themselves as targets; they are not shifted
    ? Which token should be predicted at the first one?
tokens.roll(-1) => tokens.roll(1)
    the token before as target
    ? Which token should be predicted at the first one?
""",
)
