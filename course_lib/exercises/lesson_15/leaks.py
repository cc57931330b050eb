"""A probe for the future."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from course_lib.exercises.answering.from_source import FromSource
from course_lib.exercises.exercise import Case
from course_lib.exercises.function_exercise import FunctionExercise
from course_lib.exercises.input_generator import InputGenerator


def leaks(code, x):
    # code of (batch, token, width), which keeps the shape, x -> list of token indices
    before = code(x)
    found = set()
    for token in range(1, x.shape[1]):
        changed = x.clone()
        changed[:, token] += 1.0
        # (b, t, m) -> (t)
        moved = ~torch.isclose(code(changed), before).all(dim=2).all(dim=0)
        found |= {earlier for earlier in range(token) if moved[earlier]}
    return sorted(found)


def _moved(code: Callable[[Tensor], Tensor], x: Tensor, token: int) -> list[int]:
    """Return the tokens whose output moves when one token is changed."""
    changed = x.clone()
    changed[:, token] += 1.0
    moved = ~torch.isclose(code(changed), code(x)).all(dim=2).all(dim=0)
    return moved.nonzero().flatten().tolist()


def _rising(code: Callable[[Tensor], Tensor], x: Tensor) -> list[int]:
    """Return what a probe finds that takes a difference with its sign."""
    found = set()
    for token in range(1, x.shape[1]):
        changed = x.clone()
        changed[:, token] += 1.0
        rose = (code(changed) - code(x)).amax(dim=(0, 2)) > 1e-9
        found |= {earlier for earlier in range(token) if rose[earlier]}
    return sorted(found)


def _probe(*tokens: int, seen: Callable[[int, int], bool]) -> Callable[..., list[int]]:
    """Return a probe that changes some tokens, all if there are none, and looks at the outputs that `seen` tells."""

    def probe(code: Callable[[Tensor], Tensor], x: Tensor) -> list[int]:
        changed = [token % x.shape[1] for token in tokens] or range(x.shape[1])
        return sorted({out for token in changed for out in _moved(code, x, token) if seen(out, token)})

    return probe


def _as_tokens(result: object, *_: object) -> object:
    """Turn a collection of indices into a sorted tuple; what else was given back is compared as it is."""
    if isinstance(result, Tensor):
        result = (result.nonzero().flatten() if result.dtype == torch.bool else result).tolist()
    if not isinstance(result, (list, tuple, set, range)):
        return result
    return tuple(sorted(int(token) for token in result))


MASKED_ATTENTION = """
import torch

def masked_by(keep, part=1.0, channel=-1, seen_as=""):
    def code(x):
        leaky = (x[:, 0, 0] > 0)[:, None, None]  # what is later can only be seen in these samples
        kept = (keep.tril() | keep & leaky)[:, : x.shape[1], : x.shape[1]]
        if seen_as == "direction":
            x = x / (x.square().mean(-1, keepdim=True) + 1e-6).sqrt()
        elif seen_as == "size":
            x = x.abs()
        scores = x @ x.transpose(1, 2) * x.shape[-1] ** -0.5
        seen, causal = (torch.where(one, scores, -torch.inf).softmax(-1) @ x for one in (kept, kept.tril()))
        mixed = part * seen + (1 - part) * causal
        if channel < 0:
            return mixed
        # What is later is seen in one channel only, or in two, or as the difference of neighbours.
        later = kept.triu(1).to(x.dtype) @ (x - x.roll(-1, 1) if seen_as == "neighbours" else x)
        into = (torch.arange(x.shape[-1]) == channel).to(x.dtype)
        into = into - into.roll(1) if seen_as == "sum" else into
        return causal + part * later[:, :, channel : channel + 1] * into

    return code
"""


IN_SOME = "one token sees a later one, in some of the samples"
CHANNEL = "one token depends on a later one, in a single channel"
CANCELS = "one token depends on a later one, in two channels whose changes cancel out in a sum"
NEIGHBOURS = "the first token depends on the difference of the two after it"
FIRST_SAMPLE = "one token sees a later one, in the first sample alone"
FALLING = "one token depends on a later one, in a single channel that falls"
DIRECTION = "one token depends on a later one, and tokens are normalized first"
SIZE = "one token depends on a later one, and signs do not count"
ZERO = "the first token depends on a later one whose elements are 0"
LONG = "the first of many tokens also sees the last"
WEAK = "one token depends on a later one a little"


def _causal(num_tokens: int, rng: InputGenerator) -> Tensor:
    """Draw a mask without a leak: all earlier tokens, a band of them, some, the token itself, or the first."""
    causal = torch.ones(num_tokens, num_tokens).tril().bool()
    some = (rng.normal(num_tokens, num_tokens) > 0).fill_diagonal_(True)
    first = torch.arange(num_tokens) == 0
    return causal & rng.choice([causal, causal.triu(-1 - rng.integer(3)), some, causal.triu(), first])


def _leaky(num_tokens: int, rng: InputGenerator) -> Tensor:
    keep = _causal(num_tokens, rng)
    query = rng.integer(num_tokens - 1)
    keep[query, query + 1 + rng.integer(num_tokens - 1 - query)] = True
    return keep


def _seen(query: int, key: int) -> Callable[[int, InputGenerator], Tensor]:
    def keep(num_tokens: int, rng: InputGenerator) -> Tensor:
        mask = _causal(num_tokens, rng)
        mask[query, key] = True
        return mask

    return keep


def _draw(rng: InputGenerator) -> list[Case]:
    kinds = [
        ("the code has no mask", lambda n, _: torch.ones(n, n).bool()),
        ("the code has a causal mask", lambda n, _: torch.ones(n, n).tril().bool()),
        ("each token also sees the next one", lambda n, _: torch.ones(n, n).tril(1).bool()),
        ("the first token also sees the second", _seen(0, 1)),  # not found by changing the last token alone
        ("the last but one also sees the last", _seen(-2, -1)),  # not found by changing one of the first tokens
        ("the first token also sees the last", _seen(0, -1)),  # not found by looking at neighbours alone
        *[(IN_SOME, _leaky)] * 4,
        (WEAK, _leaky),
        (CHANNEL, _leaky),
        (FALLING, _leaky),
        (DIRECTION, _leaky),
        (SIZE, _leaky),
        (ZERO, _seen(0, -1)),
        ("each token sees the first one only", lambda n, _: (torch.arange(n) == 0).expand(n, n)),
        *[("no token sees a later one", _causal)] * 6,
    ]
    return _cases(rng.shuffled(kinds), rng)


def _draw_hidden(rng: InputGenerator) -> list[Case]:
    """Draw leaks that a sum, a change of all later tokens or a look at some samples or tokens overlooks."""
    return _cases([(CANCELS, _leaky), (NEIGHBOURS, _seen(0, 1)), (FIRST_SAMPLE, _leaky), (LONG, _seen(0, -1))], rng)


def _cases(kinds: list[tuple[str, Callable[[int, InputGenerator], Tensor]]], rng: InputGenerator) -> list[Case]:
    cases = []
    for about, kind in kinds:
        batch, num_tokens, width = rng.sizes(3, 4, 9)
        num_tokens += 16 * (about == LONG)
        # Tokens close to each other, so that no attention weight is too small to matter.
        x = rng.normal(batch, num_tokens, width, std=0.6)
        x[:, 0, 0] = x[:, 0, 0].abs()
        if about == IN_SOME:
            x[0, 0, 0] *= -1
        if about == FIRST_SAMPLE:
            x[1:, 0, 0] *= -1
        part = {WEAK: 0.0005, FALLING: -1.0}.get(about, 1.0)
        by_channel = about in (CHANNEL, FALLING, CANCELS, NEIGHBOURS)
        channel = 1 + rng.integer(width - 1 - (about == CANCELS)) if by_channel else -1
        if about == ZERO:
            x[:, -1] = 0.0
        seen_as = {DIRECTION: "direction", SIZE: "size", CANCELS: "sum", NEIGHBOURS: "neighbours"}.get(about, "")
        made = FromSource(MASKED_ATTENTION, "masked_by", (kind(num_tokens, rng), part, channel, seen_as))
        cases.append(Case((made, x), about))
    return cases


EXERCISE = FunctionExercise(
    leaks,
    title="A probe for the future",
    difficulty=3,
    minutes=8,
    prompt=(
        "`code` is a function or a module that should be causal. Give back the list of all tokens whose output depends "
        "on a later token, in any sample of the batch: their indices, counted from 0, each once and in any order; a "
        "set or a tensor will do. If nothing leaks, it is empty. `x` is to stay as it is."
    ),
    hints=(
        "Run the code twice: on x, and on a copy of x, `x.clone()`, in which one token was changed.",
        "If token t was changed, the outputs of tokens 0 to t - 1 must stay as they were. Those that moved belong on "
        "the list. Try every t: a leak from token 1 to token 0 can't be seen by changing the last token.",
        "`(code(changed) - before).abs().amax(dim=(0, 2))` is one number per token: how far its output moved. Collect "
        "the indices below t where it is more than 1e-9, each once.",
    ),
    draw=_draw,
    draw_edges=_draw_hidden,
    wrong="""
1.0 => 0.0
    a probe that never finds anything
    ? Does it find a module without a mask?
[out for t in range(x.shape[1]) for out in _moved(code, x, t) if out < t]
    a list that names a token once for each later token it depends on
    ? How often may one token stand on the list?
[t for t in range(x.shape[1]) if _moved(code, x, t)]
    the tokens on which any output depends, their own included
    ? A sum over all outputs can't say whose output depends on a token. Which outputs come before it?
list(range(x.shape[1]))
    a probe that finds a leak at every token
    ? What does it say of a causal module?
_probe(-1, seen=lambda out, token: out < token)(code, x)
    a probe that changes the last token only: a leak from token 1 to token 0 goes unseen
    ? Which tokens could leak?
_probe(seen=lambda out, token: out <= token)(code, x)
    a probe that looks at the changed token's own output, too: that one may move
    ? May the output of token t depend on token t?
_probe(seen=lambda out, token: out > token)(code, x)
    a probe that lists whoever looks at an earlier token
    ? Is a look at an earlier token a leak?
_probe(0, seen=lambda out, token: out != token)(code, x)
    a probe that changes the first token: whoever moves then only looks back
    ? Is a look at an earlier token a leak?
{earlier => {token
    the tokens that are seen by earlier ones; asked for are those that see them
    ? You changed one token, and the output of another moved. Which of the two depends on the other?
_probe(seen=lambda out, token: out == 0 < token)(code, x)
    a probe that finds a leak into the first token only
    ? Which tokens come before token t?
_probe(seen=lambda out, token: out == token - 1)(code, x)
    a probe that looks at the output of the token just before the changed one
    ? Which tokens come before token t?
right(lambda x: code(x)[:1], x)
    a probe that looks at the first sample only
    ? Which samples of the batch does it look at?
right(lambda x: code(x)[..., :1], x)
    a probe of the first channel only, in what it changes or in what it looks at
    ? In which channels can a leak begin, and in which can it show?
sorted({*range(x.shape[1])} - {*result})
    the tokens that don't leak
    ? Which of the two lists is the suspicious one?
_rising(code, x)
    a probe that overlooks outputs that move down
    ? How large is a difference of -5 without its sign?
""",
    extract=_as_tokens,
)
