"""A probe for the future, asked about functions that do and don't leak."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from ..functions import FunctionJudge, Wrong
from ..inputs import numbers


def _looks_at(keep: Callable[[int], Tensor]) -> Callable[[Tensor], Tensor]:
    """Attention without projections that looks where a mask says."""

    def code(x: Tensor) -> Tensor:
        scores = torch.where(keep(x.shape[1]), x @ x.transpose(1, 2) * x.shape[-1] ** -0.5, -torch.inf)
        return scores.softmax(-1) @ x

    return code


def _start_sees_next(num_tokens: int) -> Tensor:
    keep = torch.ones(num_tokens, num_tokens).tril().bool()
    keep[0, 1] = True
    return keep


def _last_but_one_sees_next(num_tokens: int) -> Tensor:
    return _start_sees_next(num_tokens).flip(0, 1).T


def _leaks(code: Callable[[Tensor], Tensor], x: Tensor) -> bool:
    before = code(x)
    for token in range(1, x.shape[1]):
        changed = x.clone()
        changed[:, token] += 1.0
        if not torch.allclose(code(changed)[:, :token], before[:, :token]):
            return True
    return False


_MASKS = (
    lambda n: torch.ones(n, n).tril().bool(),
    lambda n: torch.ones(n, n).bool(),
    lambda n: torch.ones(n, n).tril(1).bool(),
    _start_sees_next,
    _last_but_one_sees_next,
    lambda n: torch.eye(n).bool(),
    lambda n: torch.ones(n, n).tril().triu(-1).bool(),  # itself and the token before it
    lambda n: torch.eye(n)[:1].expand(n, -1).bool(),  # the first token only
)


def _change(token: int, rows: slice) -> Callable[..., bool]:
    """A probe that changes one token and looks at some rows only."""

    def probe(code: Callable[[Tensor], Tensor], x: Tensor) -> bool:
        changed = x.clone()
        changed[:, token] += 1.0
        return not torch.allclose(code(changed)[:, rows], code(x)[:, rows])

    return probe


LEAKS = FunctionJudge(
    reference=_leaks,
    inputs=lambda: [(_looks_at(mask), numbers(2, 5, 7)) for mask in _MASKS],
    wrong=(
        Wrong("a probe that never finds anything", lambda code, x: False, hint="Does it find a module without a mask?"),
        Wrong(
            "a probe that finds a leak everywhere", lambda code, x: True, hint="What does it say of a causal module?"
        ),
        Wrong(
            "a probe that changes the last token only: a leak from token 1 to token 0 goes unseen",
            _change(-1, slice(0, -1)),
            hint="Which tokens could leak?",
        ),
        Wrong(
            "a probe that looks at the last token's output, which may see everything",
            _change(0, slice(-1, None)),
            hint="Whose output must not move?",
        ),
        Wrong(
            "a probe that looks at the changed token's own output, too: that one may move",
            _change(-1, slice(None)),
            hint="May the output of token t depend on token t?",
        ),
        Wrong(
            "a probe that changes the first token: whoever moves then only looks back",
            _change(0, slice(1, None)),
            hint="Is a look at an earlier token a leak?",
        ),
        Wrong("the opposite: True where nothing leaks", lambda code, x: not _leaks(code, x)),
        Wrong(
            "a probe that changes the second token only: a leak from later ones to later ones goes unseen",
            _change(1, slice(0, 1)),
            hint="Which tokens could leak?",
        ),
    ),
    see=lambda result, *_: bool(result) if isinstance(result, Tensor) and result.numel() == 1 else result,
)
