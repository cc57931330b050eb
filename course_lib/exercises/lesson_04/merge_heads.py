"""Put the heads back."""

from typing import Any

from course_lib.exercises.function_exercise import FunctionExercise


def merge_heads(x):
    # (head, batch, token, head_dim) -> (batch, token, num_heads * head_dim)
    num_heads, batch, num_tokens, head_dim = x.shape
    by_token = x.permute(1, 2, 0, 3)  # (h, b, t, d) -> (b, t, h, d)
    # (b, t, h, d) -> (b, t, h * d)
    return by_token.reshape(batch, num_tokens, num_heads * head_dim)


PROMPT = (
    "And back: each token's row holds the elements of head 0, then those of head 1, and so on. Mind the order of "
    "the axes: here {}."
)
HINTS = (
    "First bring the axes into an order in which the two that are to be joined are neighbours. Then join.",
    "`permute` takes all axes in their new order. Which order of the four makes (batch, token, head, head_dim)?",
    "After `x.permute(1, 2, 0, 3)` comes `reshape`, which copies: `view` refuses, because the elements don't lie "
    "in the order of the axes.",
)


def _wrong(head: int, by_token: str, in_turn: str, other: str, swapped: str = "0, 1") -> str:
    """List wrong answers for heads on one axis; the permutations bring them together, in turn, and from elsewhere."""
    return f"""
by_token. => x.
    a reshape of the heads as they are: a row holds several tokens of one head [merge-without-transpose]
x.permute({in_turn}).flatten(2)
    the elements of the heads in turn; those of one head should stay together
    ? In which order stand head and head_dim before you join them?
x.mean({head})
    the mean of the heads [heads-averaged]
    ? How many numbers does a token have in all heads together, and how many has a row of your result?
x.sum({head})
    the sum of the heads [heads-averaged]
    ? How many numbers does a token have in all heads together, and how many has a row of your result?
x.permute({by_token})
    the new order without the join: (batch, token, head, head_dim)
    ? The axes are in the right order. Which two are neighbours now, to become one?
x.select({head}, 0)
    the first head alone
torch.cat(x.unbind({head}), 1)
    the heads one below the other
    ? How many rows should a sample have?
x.permute({other}).flatten(2)
    the merge of heads that stand on another axis
    ? Which axis of `x` are the heads here?
by_token.reshape => x.transpose({swapped}).reshape
    a reshape after two axes were exchanged: a row holds several tokens of one head [merge-without-transpose]
"""


def _variant(axes: str, wrong: str) -> dict[str, Any]:
    """Return the exercise for another order of the axes."""
    names = axes.split()
    order = [names.index(name) for name in ("batch", "token", "head", "head_dim")]
    sizes = {"head": "num_heads", "token": "num_tokens"}
    called = f"({', '.join(names)})"
    return {
        "solution": (
            f"num_heads, batch, num_tokens, head_dim = => {', '.join(sizes.get(name, name) for name in names)} ="
            f" && permute(1, 2, 0, 3) => permute{tuple(order)}"
            f" && (head, batch, token, head_dim) => {called}"
            f" && (h, b, t, d) => ({', '.join('d' if name == 'head_dim' else name[0] for name in names)})"
        ),
        "prompt": PROMPT.format(f"`x` is {called}"),
        "hints": (HINTS[0], HINTS[1], f"After `x.permute{tuple(order)}` comes `reshape`, which copies where it must."),
        "arguments": {"x": axes},
        "wrong": wrong,
    }


EXERCISE = FunctionExercise(
    merge_heads,
    title="Put the heads back",
    difficulty=2,
    minutes=4,
    prompt=PROMPT.format(
        "the **heads come first**, (head, batch, token, head_dim), as after a `torch.stack` of what each head gave"
    ),
    hints=HINTS,
    also=({"head": 1}, {"batch": 1}, {"head_dim": 1}, {"token": 1}),
    draw_edges=({"head": 1, "head_dim": 1},),
    arguments={"x": "head batch token head_dim"},
    axes="batch token width",
    gradients=("x",),
    wrong=_wrong(head=0, by_token="1, 2, 0, 3", in_turn="1, 2, 3, 0", other="0, 2, 1, 3"),
    variants=(
        _variant("batch head token head_dim", _wrong(1, "0, 2, 1, 3", "0, 2, 3, 1", "1, 2, 0, 3")),
        _variant("token batch head head_dim", _wrong(2, "1, 0, 2, 3", "1, 0, 3, 2", "0, 2, 1, 3", "0, 2")),
    ),
)
