"""Find the smallest module that computes each attention of a run, and the input that it computes it from."""

from collections.abc import Iterator, Mapping
from dataclasses import replace

from torch import Tensor, nn

from course_lib.tracing import ModuleCall, Trace, Value

from .context import joined as as_one
from .dataflow import Dataflow
from .module_inputs import Names, entries_of, projects, with_values
from .operation_names import LAYER_NORMS
from .place import Place, Sizes, joined
from .score_products import ScoreProduct, find_score_products
from .segment import find_segments

# The score products of one attention, by the largest call that holds no other attention; None without any.
Group = dict[ModuleCall | None, list[ScoreProduct]]
FUNCTIONS = "its code is in functions, or in a module that computes more than this attention: put it into a module"
OTHER_INPUTS = "its queries or keys are not made from an input of its module that x changes: let `call` make all from x"


def find_locations(trace: Trace, paths: Mapping[nn.Module, str], sizes: Sizes, num_context: int = 0) -> list[Place]:
    """Return the place of each attention, in the order of their first products.

    Args:
        trace: with the calls of modules.
        paths: of the modules of the code.
        sizes: batch and num_tokens of x.
        num_context: how many of these tokens, the last ones, are a context's; modules are given the others alone.
    """
    own_sizes = sizes[0], sizes[1] - num_context
    all_products, behind_memory = find_score_products(trace), set[int]()
    found: list[Place] = []
    flow: Dataflow | None = None
    for group in _groups(trace, all_products)[::-1]:  # a memory is made before it is read
        products = [product for some in group.values() for product in some]
        places = [(*_place(trace, group, paths, own_sizes, num_context), products)]
        if places[0][0].missing:
            flow = flow or Dataflow(trace, all_products)
            places = find_segments(flow, products, sizes)[::-1]
        for place, memory, own in places:
            behind_memory |= trace.ancestors(memory)
            makes_memory = behind_memory.issuperset(product.operation.number for product in own)
            of_memory = bool(memory) or makes_memory or num_context > 0
            found.append(replace(place, of_memory=of_memory, products=own))
    return _numbered(found[::-1])


def _numbered(found: list[Place]) -> list[Place]:
    """Number attentions of the same name, such as those of a function that is called for each layer."""
    names = [place.name for place in found]
    counts = [names[:index].count(name) + 1 for index, name in enumerate(names)]
    return [
        replace(place, name=f"{place.name}, pass {count}") if names.count(place.name) > 1 else place
        for place, count in zip(found, counts, strict=True)
    ]


def _groups(trace: Trace, products: list[ScoreProduct]) -> list[Group]:
    chains = {product: list(_chain(trace, product)) for product in products}
    depths: dict[ModuleCall, set[int]] = {}
    for product, chain in chains.items():
        for call in chain:
            depths.setdefault(call, set()).add(product.depth)
    groups: dict[tuple[nn.Module | None, int], Group] = {}
    for product, chain in chains.items():
        alone = [call for call in chain if depths[call] == {product.depth}]
        largest = alone[-1] if alone else None
        group = groups.setdefault((largest.module if largest else None, product.depth), {})
        group.setdefault(largest, []).append(product)
    return list(groups.values())


def _chain(trace: Trace, product: ScoreProduct) -> Iterator[ModuleCall]:
    """Yield the calls around a product, from the inside outwards."""
    around = [call for call in trace.calls if call.first <= product.operation.number < call.last]
    return iter(around[::-1])


def _place(
    trace: Trace, group: Group, paths: Mapping[nn.Module, str], sizes: Sizes, num_context: int
) -> tuple[Place, list[Value]]:
    """Return the place of an attention, and the memories that its keys come from if its queries do not."""
    first, products = next(iter(group.items()))
    if first is None:
        where = products[0].operation.where
        return Place(f"the one at {where}" if where else "one without a module", missing=FUNCTIONS), []
    inside = [call for call in _chain(trace, products[0]) if call.first >= first.first and call.last <= first.last]
    numbers = [product.operation.number for product in products]
    able = [call for call in inside if call.first <= min(numbers) and max(numbers) < call.last]
    chosen = _choice(trace, able, products)
    if chosen is None:
        return Place(paths.get(able[0].module) or type(able[0].module).__name__, missing=OTHER_INPUTS), []
    call, entries = chosen
    same = [one for one in trace.calls if one.module is call.module]
    mine = [one for one in same if any(outer in group for outer in one.chain())]
    calls = () if len(mine) == len(same) else tuple(same.index(one) for one in mine)
    path = paths.get(call.module)
    name = f"{path or type(call.module).__name__}{f', call {calls[0] + 1}' if calls else ''}"
    where = products[0].operation.where
    place = Place(name, call.module, path, calls, in_pieces=len(mine) > 1, called=where)
    pairs = [tuple(one.inputs.get(names[0]) for names in entries[:2]) for one in mine] if entries[1:] else []
    memories = [keys for queries, keys in pairs if keys is not None and not _is_norm_of(trace, queries, keys)]
    groups = with_values(trace, call, entries, products)
    of_context = [_is_of_context(trace, call.inputs[names[0]], num_context) for names in groups]
    if of_context in ([True, False], [False, True]):  # the context may have as many tokens as x
        crossed = _with_context(place, call, groups[::-1] if of_context[0] else groups, sizes)
        return crossed or _with_input(place, mine, groups, sizes), memories
    return _with_input(place, mine, groups, sizes), memories


def _is_norm_of(trace: Trace, queries: Value | None, keys: Value) -> bool:
    """Return whether one of two inputs is the norm of the other, so that both are the same tokens."""
    both = [] if queries is None else [queries, keys]
    for normed, plain in (both, both[::-1]) if both else ():
        path = [trace.operations[one] for one in trace.ancestors([normed]) - trace.ancestors([plain])]
        if path and all(one.name in LAYER_NORMS and plain in one.inputs for one in path):
            return True
    return False


def _choice(
    trace: Trace, calls: list[ModuleCall], products: list[ScoreProduct]
) -> tuple[ModuleCall, tuple[Names, ...]] | None:
    """Return the smallest call with an input that queries and keys are projected from, or else that they come from."""
    alone = [(call, entries) for call in calls if (entries := entries_of(trace, call, products))]
    for count in (1, 2):
        for call, entries in alone:
            if len(entries) == count and projects(trace, call, entries, products):
                return call, entries
    return next((one for one in alone if len(one[1]) == 1), alone[-1] if alone else None)


def _with_input(place: Place, calls: list[ModuleCall], entries: tuple[Names, ...], sizes: Sizes) -> Place:
    """Add the tokens that the calls were given, and the arguments that brought them."""
    first, last = (
        [c.inputs[names[0]].tensor for c in calls if names[0] in c.inputs] for names in (entries[0], entries[-1])
    )
    if [one.shape for one in first] != [one.shape for one in last]:
        crossed = _with_context(place, calls[0], entries, sizes) if len(calls) == 1 else None
        if crossed is not None:
            return crossed
        shapes = f"{tuple(last[0].shape)} for queries of {tuple(first[0].shape)}"
        return replace(place, missing=f"its keys come from another input, of the shape {shapes}")
    tokens, tokens_first = joined(first, sizes)
    if tokens is None:
        return replace(place, missing=f"its module is given {tuple(first[0].shape)}, which is not one row per token")
    names = tuple(name for group in entries for name in group)
    return replace(place, entries=names, given=tokens, tokens_first=tokens_first)


def _is_of_context(trace: Trace, value: Value, num_context: int) -> bool:
    """Return whether a value comes from the last rows of x, which are a context's, and from no others."""
    read = [trace.operations[number] for number in trace.ancestors([value])]
    starts = {one.args[2] for one in read if one.name == "slice" and one.inputs[0] is trace.x and one.args[1] == 1}
    return num_context > 0 and starts == {-num_context}


def _with_context(place: Place, call: ModuleCall, entries: tuple[Names, ...], sizes: Sizes) -> Place | None:
    """Add the tokens of queries and, as a context, those of keys; None if neither has a row for each token of x."""
    for queries, keys in (entries, entries[::-1]):
        tokens, tokens_first = joined([call.inputs[queries[0]].tensor], sizes)
        memory = call.inputs[keys[0]].tensor
        memory = memory.transpose(0, 1) if tokens_first and memory.dim() == 3 else memory
        if tokens is not None and memory.dim() == 3 and len(memory) == sizes[0] and not _answers(call, memory, tokens):
            return replace(
                place,
                entries=queries,
                context=keys,
                num_context=memory.shape[1],
                widths=(tokens.shape[2], memory.shape[2]),
                given=as_one(tokens, memory.contiguous()),
                tokens_first=tokens_first,
            )
    return None


def _answers(call: ModuleCall, memory: Tensor, tokens: Tensor) -> bool:
    """Return whether a call gives a row for each row of the memory, which then holds the queries, and not of tokens."""
    rows = set() if call.output is None else set(call.output.tensor.shape[:-1])
    return memory.shape[1] in rows and tokens.shape[1] not in rows
