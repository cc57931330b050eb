"""Cut a training batch from a text."""

import torch

from course_lib.exercises.function_exercise import FunctionExercise


def cut_batch(tokens, starts, length):
    # (text,) and (batch,) of integers, an int -> two of (batch, length)
    steps = torch.arange(length + 1, device=starts.device)
    places = starts[:, None] + steps  # (b, 1) + (t + 1) -> (b, t + 1)
    pieces = tokens[places]
    return pieces[:, :-1], pieces[:, 1:]


EXERCISE = FunctionExercise(
    cut_batch,
    title="Cut a training batch from a text",
    difficulty=2,
    minutes=2,
    prompt=(
        "`tokens` is a whole text as integers. For each start give back the `length` tokens from there on, and the "
        "`length` tokens that are to be predicted from them: those one place later. Both are (batch, length)."
    ),
    hints=(
        "What a model reads is `tokens[start : start + length]`. What comes after its last token?",
        "`starts[:, None] + torch.arange(length + 1)` are the places of each piece and of one token more.",
    ),
    inputs={
        "tokens": lambda rng: torch.tensor(rng.shuffled(range(97))),  # all different: no piece is taken for another
        "starts": lambda rng, batch, length: torch.tensor([96 - length, 0, *rng.sizes(batch, 1, 70)]),
    },
    least={"length": 1},
    arguments={"tokens": "text", "starts": "batch"},
    axes="inputs targets",
    fixed="text",
    wrong="""
pieces[:, :-1], pieces[:, 1:] => (pieces[:, :-1], pieces[:, :-1])
    the same pieces twice: the targets are not shifted
    ? Which token should the model predict after it has read the first one?
(result[0], right(tokens.roll(1), starts, length)[0])
    targets that are one place earlier than the inputs
    ? Does the token to be predicted stand before or after the one that was read last?
(result[0], right(tokens.roll(-length), starts, length)[0])
    targets that begin where the inputs end
    ? How many predictions do `length` tokens allow: one after each, or one at the end?
pieces[:, :-1], pieces[:, 1:] => (pieces[:, 1:], pieces[:, :-1])
    inputs and targets exchanged
    ? Which of the two does the model read?
pieces = tokens[int(starts[0]):][: len(starts) * (length + 1)].view(-1, length + 1); return pieces[:, :-1], pieces[:, 1:]
    pieces that lie one after the other from the first start on
    ? Where does the second sample begin?
""",
)
