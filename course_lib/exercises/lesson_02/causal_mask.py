"""The causal mask."""

import torch

from course_lib.exercises.function_exercise import FunctionExercise


def causal_mask(num_tokens, num_prompt=0):
    # two ints -> (query, key), bool, True = may attend
    keep = torch.ones(num_tokens, num_tokens, dtype=torch.bool).tril()
    keep[:, :num_prompt] = True
    return keep


EXERCISE = FunctionExercise(
    causal_mask,
    title="The causal mask",
    difficulty=2,
    minutes=6,
    prompt=(
        "Who may look at whom? The first `num_prompt` tokens are a prompt, which is known from the start: **every** "
        "token may look at all of them. The other tokens are written one by one: a token may look at itself and at "
        "those before it. Without a prompt, `num_prompt=0`, it is the causal mask of the lesson."
    ),
    hints=(
        "Row q says what query q may look at: itself, everything before it, and the whole prompt.",
        "Begin with the causal mask: `torch.ones(n, n, dtype=torch.bool).tril()` keeps the lower triangle with the "
        "diagonal. Which columns belong to the prompt?",
        "The prompt is the first columns, in every row: `keep[:, :num_prompt] = True`.",
    ),
    inputs={"num_tokens": lambda num_prompt, more: num_prompt + more},
    calls=4,
    first={"num_prompt": 3, "more": 3},  # small enough to be drawn on paper
    also=({"num_prompt": 0, "more": 40}, {"more": 0}, {"num_prompt": 0, "more": 1}),
    least={"num_prompt": 0},
    most={"num_tokens": 300},
    axes="query key",
    wrong="""
keep[:, :num_prompt] = True => pass
    the causal mask, without the prompt
    ? May the first token of the prompt look at the second one?
~result
    the mask upside down: it is True where a token must not look [mask-inverted]
.tril() => .triu(1)
    the upper triangle without its diagonal, with the prompt: a token sees what comes after it alone [mask-inverted]
result.T
    the mask with queries and keys exchanged [mask-transposed]
:, :num_prompt => :
    a mask that hides nothing [no-causal-mask]
:, :num_prompt => :num_prompt
    a mask in which the tokens of the prompt see everything: it is seen, and doesn't see what comes later
    ? Is a row a query or a key? Which of the two is the prompt here?
:num_prompt => :num_prompt + 1
    a mask that shows one token after the prompt to all
    ? Tokens are counted from 0. Which one is the last of the prompt?
.tril() => .tril(num_prompt) && keep[:, :num_prompt] = True => pass
    a causal mask whose whole diagonal is moved by `num_prompt`: each token sees as many later ones [mask-off-by-one]
    ? May the last but one token see the last one?
result.float()
    the mask as numbers 0 and 1; it should be bool, with True = may attend
    ? Which dtype does `masked_fill` ask for?
:num_prompt => :max(num_prompt - 1, 0)
    a mask that hides the last token of the prompt from those before it
    ? Tokens are counted from 0. Which one is the last of the prompt?
:num_prompt => num_tokens - num_prompt:
    a causal mask that shows the last tokens to all; the prompt comes first
    ? Which columns belong to the prompt?
""",
)
