"""Write a text with the cache."""

from __future__ import annotations

import torch

from course_lib.exercises.answering.from_source import FromSource
from course_lib.exercises.function_exercise import FunctionExercise


def write_greedily(model, tokens, num_new):
    # (batch, token) of integers -> (batch, token + num_new)
    unread, caches = tokens, None
    for _ in range(num_new):
        scores, caches = model(unread, caches)  # (b, t) -> (b, t, v)
        unread = scores[:, -1].argmax(dim=-1, keepdim=True)  # (b, v) -> (b, 1)
        tokens = torch.cat([tokens, unread], dim=1)
    return tokens


RECURRENT_MODEL = """
import torch

def model_of(embedding, mixing, naming, limit):
    read = []

    def model(tokens, caches=None):  # a stand-in for a GPT: what it read is in its cache
        read.append(tokens.shape[1])
        if sum(read) > limit:
            raise ValueError(f"the model has read {sum(read)} tokens of a text of {limit}; each must go in once")
        state = embedding.new_zeros(len(tokens), embedding.shape[1]) if caches is None else caches
        states = []
        for token in tokens.T:
            state = (state @ mixing + embedding[token]).tanh()
            states.append(state)
        return torch.stack(states, 1) @ naming, state

    return model
"""


EXERCISE = FunctionExercise(
    write_greedily,
    title="Write a text with the cache",
    difficulty=3,
    minutes=4,
    prompt=(
        "`model(tokens, caches)` gives back the scores of the next token after each token, (batch, token, vocabulary), "
        "and the grown caches; without caches the text begins. Add `num_new` tokens to each text, always the one with "
        "the largest score, and give back the texts with them. Each token may go into the model once only."
    ),
    hints=(
        "What goes into the first call, and what into every later one?",
        "Only the last token's scores matter: `scores[:, -1].argmax(dim=-1, keepdim=True)` is (batch, 1).",
    ),
    inputs={
        "model": lambda rng, token, num_new: FromSource(
            RECURRENT_MODEL,
            "model_of",
            (rng.normal(19, 13), rng.normal(13, 13, std=0.5), rng.normal(13, 19, std=2.0), token + num_new),
        ),
        "tokens": lambda rng, batch, token: rng.integers(19, batch, token),
    },
    arguments={"tokens": "batch token"},
    axes="batch token",
    wrong="""
model(unread, caches) => model(unread)
    the new tokens of a model that forgets: its caches aren't given to the next call
    ? What does the model know of the earlier tokens in the second call?
scores, caches = model(unread, caches) => scores, new_caches = model(unread, caches); caches = new_caches if caches is None else caches
    the new tokens of a model that gets the first call's caches again and again
    ? Which caches hold the token that was added last?
result[:, tokens.shape[1] :]
    the new tokens alone, without the text that they go on with
    ? With which text do you begin?
scores[:, -1].argmax => scores[:, -1].argmin
    the tokens with the smallest score
    ? Which score belongs to the likeliest token?
1] => 0]
    tokens chosen after the first token of the call, not after the last
    ? Which token's scores name what comes next?
""",
)
