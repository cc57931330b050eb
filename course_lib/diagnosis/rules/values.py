"""Each weight must multiply the value of the token whose key it was computed from."""

from collections.abc import Iterator

import torch
from torch import Tensor

from course_lib.diagnosis.finding import Finding
from course_lib.diagnosis.locate import WRITES
from course_lib.diagnosis.measure import SEVERAL, Scores
from course_lib.diagnosis.registry import rule
from course_lib.tracing import UNLABELLED, Contraction, SourceLine, Value

# Operations that can put rows in another place.
REORDERING = {
    "cat", "stack", "flip", "roll", "index", "index_select", "gather", "slice", "constant_pad_nd", "sort", "copy_",
    "index_put_", "scatter", "scatter_", "slice_scatter", "select_scatter",
}  # fmt: skip


@rule()
def check_tokens_of_values(scores: Scores) -> Iterator[Finding]:
    """Whether keys and values belong to the same tokens."""
    for product in scores.structure.value_products:
        keys, values = _tokens_of_terms(scores, product)
        rows = (keys != values).nonzero()
        if not len(rows):
            continue
        row, term = rows[0].tolist()
        lost = int((values[row] == UNLABELLED).sum()) > int((keys[row] == UNLABELLED).sum())
        evidence = (
            f"the weight of the key of {_named(int(keys[row, term]))} multiplies the value of "
            f"{_named(int(values[row, term]))}: the keys are of the tokens {_listed(keys[row])}, the values of "
            f"{_listed(values[row])}"
        )
        mistake = "stale-cache" if lost and len(scores.structure.value_products) > 1 else "values-misaligned"
        yield Finding.named(mistake, evidence, _locate(scores, product))
        return


def have_own_order(scores: Scores) -> bool:
    """Return whether all keys are in the order of their tokens, and the same tokens' values in another one."""
    both = [_tokens_of_terms(scores, product) for product in scores.structure.value_products]
    rows = [(key.tolist(), value.tolist()) for keys, values in both for key, value in zip(keys, values, strict=True)]
    ordered = all(keys == sorted(set(keys)) == sorted(values) for keys, values in rows)
    return ordered and any(keys != values for keys, values in rows)


def _tokens_of_terms(scores: Scores, product: Contraction) -> tuple[Tensor, Tensor]:
    """Return the token of the key and of the value of each term of each sum, (sum, term); none if they aren't known.

    The keys are the factors of the scores that differ from term to term.
    """
    (weights, weights_at), (values, values_at) = scores.weights_and_values(product)
    labels = scores.labels[weights.number].flatten()[weights_at]
    none = torch.empty(0, 1, dtype=torch.int64)
    if (labels == UNLABELLED).any():
        return none, none
    sides = [one.tokens[labels] for one in (scores.left, scores.right)]
    tokens = scores.dependence.token_of(values).flatten()[values_at]
    varied = [side for side in sides if bool((side != side[:, :1]).any())]
    if len(varied) != 1 or any(bool((one == SEVERAL).any()) for one in (*sides, tokens)):
        return none, none
    whole = (tokens != UNLABELLED).any(1)  # columns that only pad the values belong to no token
    return (varied[0][whole], tokens[whole]) if _are_rows(weights_at[whole], tokens[whole]) else (none, none)


def _are_rows(weights_at: Tensor, tokens: Tensor) -> bool:
    """Return whether sums with the same weights read the same tokens, so that a row of the values is one token's."""
    _, group = torch.unique(weights_at[:, 0], return_inverse=True)
    first = torch.zeros(len(group), dtype=torch.int64).scatter_(0, group, torch.arange(len(group)))
    return torch.equal(tokens, tokens[first[group]])


def _named(token: int) -> str:
    return "no token" if token == UNLABELLED else f"token {token}"


def _listed(tokens: Tensor) -> str:
    return ", ".join("-" if one == UNLABELLED else str(one) for one in tokens.tolist())


def _locate(scores: Scores, product: Contraction) -> SourceLine | None:
    """Find the last line that puts the rows of the values, and not those of the keys, in another place."""
    trace = scores.trace
    values: Value = scores.weights_and_values(product)[1][0]
    own = trace.ancestors([values]) - trace.ancestors(scores.structure.score_factors)
    found = [one for one in scores.run.in_order(own) if one.name in (*REORDERING, *WRITES) and one.where]
    return found[-1].where if found else product.operation.where
