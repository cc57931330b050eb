"""The causal mask, weights under it, the padding mask."""

from __future__ import annotations

import torch
from torch import Tensor

from ..functions import FunctionJudge, Wrong
from ..inputs import numbers


def _causal(num_tokens: int) -> Tensor:
    positions = torch.arange(num_tokens)
    return positions[:, None] >= positions


def _masked(scores: Tensor, keep: Tensor) -> Tensor:
    return torch.where(keep, scores, -torch.inf).softmax(-1)


def _with(keep_of: object) -> object:
    return lambda scores: _masked(scores, keep_of(_causal(scores.shape[-1])))


CAUSAL_MASK = FunctionJudge(
    reference=_causal,
    inputs=lambda: [(5,), (3,)],
    axes="query key",
    wrong=(
        Wrong("the mask upside down: it is True where a token must not look", lambda n: ~_causal(n), "mask-inverted"),
        Wrong("the mask with queries and keys exchanged", lambda n: _causal(n).T, "mask-transposed"),
        Wrong(
            "a mask that shows each token the next one, too",
            lambda n: torch.ones(n, n).tril(1).bool(),
            "mask-off-by-one",
        ),
        Wrong(
            "a mask that hides each token from itself", lambda n: torch.ones(n, n).tril(-1).bool(), "mask-off-by-one"
        ),
        Wrong("a mask that hides nothing", lambda n: torch.ones(n, n).bool(), "no-causal-mask"),
        Wrong("a mask in which each token sees itself and nothing else", lambda n: torch.eye(n).bool()),
        Wrong(
            "the mask as numbers 0 and 1; it should be bool, with True = may attend",
            lambda n: torch.ones(n, n).tril(),
            hint="Which dtype does `masked_fill` ask for?",
        ),
        Wrong(
            "the mask as numbers to be added to the scores; here it should be bool",
            lambda n: torch.zeros(n, n).masked_fill(~_causal(n), -torch.inf),
        ),
    ),
)


CAUSAL_WEIGHTS = FunctionJudge(
    reference=_with(lambda keep: keep),
    inputs=lambda: [(numbers(2, 5, 5, spread=2.0),), (numbers(3, 4, 4, spread=2.0),)],
    axes="batch query key",
    wrong=(
        Wrong("softmax without a mask", lambda s: s.softmax(-1), "mask-discarded"),
        Wrong("softmax masked afterwards", lambda s: s.softmax(-1).tril(), "mask-after-softmax"),
        Wrong("softmax of scores whose hidden ones are 0", lambda s: s.tril().softmax(-1), "mask-with-zero"),
        Wrong("softmax with the mask upside down", lambda s: _masked(s, ~_causal(s.shape[-1])), "mask-inverted"),
        Wrong("softmax with the mask transposed", _with(lambda keep: keep.T), "mask-transposed"),
        Wrong(
            "softmax that sees one token too many",
            lambda s: _masked(s, torch.ones_like(s).tril(1).bool()),
            "mask-off-by-one",
        ),
        Wrong(
            "softmax in which no token sees itself",
            lambda s: _masked(s, torch.ones_like(s).tril(-1).bool()),
            "mask-off-by-one",
        ),
        Wrong(
            "softmax over the queries",
            lambda s: torch.where(_causal(s.shape[-1]), s, -torch.inf).softmax(-2),
            "softmax-wrong-axis",
        ),
        Wrong(
            "the masked scores, before softmax",
            lambda s: torch.where(_causal(s.shape[-1]), s, -torch.inf),
            "no-softmax",
        ),
    ),
)


def _padding(lengths: list[int], num_tokens: int) -> Tensor:
    return (torch.arange(num_tokens) < torch.tensor(lengths)[:, None])[:, None, None]


PADDING_MASK = FunctionJudge(
    reference=_padding,
    inputs=lambda: [([5, 3], 7), ([1, 4, 2], 4)],
    axes="batch 1 1 key",
    wrong=(
        Wrong("the mask upside down: it is True at the padding", lambda n, t: ~_padding(n, t), "mask-inverted"),
        Wrong(
            "a mask that shows one token of padding",
            lambda n, t: _padding([one + 1 for one in n], t),
            "mask-off-by-one",
        ),
        Wrong(
            "a mask that hides the last real token", lambda n, t: _padding([one - 1 for one in n], t), "mask-off-by-one"
        ),
        Wrong(
            "a mask for padding on the left; here it stands on the right",
            lambda n, t: _padding(n, t).flip(-1),
            hint="Where does a sentence of three stand in a row of seven?",
        ),
        Wrong(
            "a mask that hides padding as queries; nobody must look at it, so it is hidden as a key",
            lambda n, t: _padding(n, t).transpose(2, 3),
            "mask-transposed",
        ),
        Wrong(
            "the right rows without axes for heads and queries: (batch, key) would line up with (query, key)",
            lambda n, t: _padding(n, t)[:, 0, 0],
            "mask-rank",
        ),
        Wrong(
            "the right rows with one axis too few: (batch, 1, key) would line up with (head, query, key)",
            lambda n, t: _padding(n, t)[:, 0],
            "mask-rank",
        ),
        Wrong("the mask as numbers 0 and 1; it should be bool", lambda n, t: _padding(n, t).float()),
        Wrong("the mask as whole numbers 0 and 1; it should be bool", lambda n, t: _padding(n, t).long()),
    ),
)
