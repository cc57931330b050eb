"""Name code that is no softmax attention over tokens, which the other rules can't examine."""

from collections.abc import Iterator
from dataclasses import replace

from course_lib.diagnosis.finding import NOT_JUDGED, Finding, NotJudged
from course_lib.diagnosis.measure import (
    SOFTMAXES,
    Dependence,
    NoStructure,
    Structure,
    find_channel_weights,
    find_distance,
    find_elementwise,
    find_leak,
    find_pair_scores,
    find_token_sum,
)
from course_lib.diagnosis.registry import rule
from course_lib.tracing import Operation, Value, contractions

DISTANCE = "this is attention by distance: its scores are distances of queries and keys, and no dot products"
ELEMENTWISE = "its scores are no dot products: products of a query's and a key's elements are changed before the sum"
CHANNEL = "this is channel attention: softmax compares columns, each of which is summed over the tokens"
ADDITIVE = "this is additive attention: each score is computed from a query and a key, but not as their dot product"
NO_PRODUCT = "no dot product compares one token with another"
REDUCED = "this is attention over reduced tokens: each key, or each query, is made of several tokens"
VECTOR = "this is vector attention: each pair of tokens has a weight for every channel, and not one for a head"
LINEAR = "this is linear attention: keys and values are summed over the tokens before a query reads them"


@rule()
def check_kind(dependence: Dependence, missing: NoStructure) -> Iterator[Finding]:
    """Whether it is softmax attention over tokens."""
    distance, found = find_distance(dependence), find_token_sum(dependence)
    if (channels := find_channel_weights(dependence)) is not None:
        evidence = (
            "softmax runs over the tokens, for each channel apart, and so no pair of tokens has one weight to examine"
        )
        yield replace(_not_examined(VECTOR, channels), evidence=evidence)
    elif distance is not None:
        yield _not_examined(DISTANCE, distance)
    elif (elementwise := find_elementwise(dependence)) is not None:
        yield _not_examined(ELEMENTWISE, elementwise)
    elif found is not None and not any(_compares_tokens(dependence, operation) for operation in found.before):
        square = any(_compares_columns(dependence, operation) for operation in found.before)
        yield _not_examined(CHANNEL if square else LINEAR, found.operation)
    elif (pairs := find_pair_scores(dependence)) is not None:
        yield from _leaking(dependence, pairs)
        yield replace(_not_examined(ADDITIVE, pairs), evidence=NO_PRODUCT)
    elif (reduced := _reduced(dependence)) is not None:
        yield _not_examined(REDUCED, reduced)


@rule()
def check_sums(structure: Structure) -> Iterator[str]:
    """Scores that are no dot products."""
    if structure.is_additive:
        yield NotJudged(f"{ADDITIVE}, so {NOT_JUDGED}, nor were projections, norms, biases and rotary positions")


def _leaking(dependence: Dependence, softmax: Operation) -> Iterator[Finding]:
    """Yield the finding of a token that is seen although it should be hidden."""
    options = dependence.run.options
    leak = None if options.has_call else find_leak(dependence)  # `call` may bring a second sequence
    if leak is None:
        return
    if options.causal and options.keep is None and bool((softmax.outputs[0].tensor > 0).all()):
        yield Finding.named("no-causal-mask", leak.evidence, softmax.where)
    else:
        yield Finding.unnamed("hidden tokens are seen", leak.evidence, leak.where)


def _reduced(dependence: Dependence) -> Operation | None:
    """Return the product, with a softmax after it, of rows with rows of several tokens each; None without."""
    trace = dependence.run.trace
    softmaxes = {one.number for one in dependence.run.live_operations if one.name in SOFTMAXES}
    for product in contractions(trace):
        for (single, _), (several, _) in (product.sides(), product.sides()[::-1]):
            meets = dependence.on_input(single) and dependence.combines_tokens(several)
            first = softmaxes.isdisjoint(trace.ancestors([single, several]))
            if meets and first and softmaxes & trace.descendants({product.operation.number}):
                return product.operation
    return None


def _not_examined(kind: str, operation: Operation) -> Finding:
    evidence = f"{NO_PRODUCT}, and so there are no weights of tokens to examine"
    return Finding.unseen(kind, evidence, operation.where)


def _compares_tokens(dependence: Dependence, operation: Operation) -> bool:
    """Return whether an operation is a softmax of a table of tokens, or of sums over some of them, and no columns."""
    if operation.name not in SOFTMAXES:
        return False
    table, num_tokens = operation.inputs[0], dependence.sizes[1]
    square = table.tensor.shape[-2:] == (num_tokens, num_tokens)
    return square or (dependence.combines_tokens(table) and not _has_all_everywhere(dependence, table))


def _compares_columns(dependence: Dependence, operation: Operation) -> bool:
    """Return whether an operation is a softmax of a square table of columns, every element of which has all tokens."""
    if operation.name not in SOFTMAXES:
        return False
    table = operation.inputs[0]
    square = table.tensor.shape[-1] == table.tensor.shape[-2]
    return square and dependence.combines_tokens(table) and _has_all_everywhere(dependence, table)


def _has_all_everywhere(dependence: Dependence, table: Value) -> bool:
    """Return whether all elements of each table, of the last two axes, come from the same tokens."""
    tokens = dependence.tokens[table.number]
    return bool((tokens == tokens[..., :1, :1]).all())
