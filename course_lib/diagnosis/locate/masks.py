"""Find the line that made a mask, aligned it or applied it to the scores."""

import ast
import re

import torch
from torch import Tensor, nn

from course_lib.diagnosis.measure import SoftmaxPath, Subject
from course_lib.tracing import Operation, SourceLine, Trace, Value, call_at, statement_of, storage_of

from .attributes import attributes_in, statements_that_set
from .callers import locate_constructed, locate_flag, locate_number_given
from .skipped import locate_decision
from .sources import assignments, assignments_above, function_of, last_line_of, names_in, nodes_in
from .statements import locate_assignment

PATTERNS = ("triu", "tril", "triu_", "tril_", "triu_indices", "tril_indices", "lt", "gt", "le", "ge")
NEGATIONS = ("logical_not", "bitwise_not", "eq", "ne", "masked_fill", "masked_fill_", "where")
TRANSPOSES = ("transpose", "t", "permute", "flip", "rot90", "numpy_T")
COMBINES = ("bitwise_and", "bitwise_or", "logical_and", "logical_or", "repeat", "__and", "__or")
AXES = ("view", "_unsafe_view", "unsqueeze", "transpose", "permute", "expand", "stack", "cat")
MASKS_SCORES = re.compile(r"masked_fill|where\(|mask|-inf|bias")
CAUSAL = re.compile("causal|tri[ul]|future|subsequent|autoregress", re.I)
MADE = re.compile(r"tri[ul]|ones|zeros|full|arange")


def locate_masking(path: SoftmaxPath) -> SourceLine | None:
    """Find the line that masks, or else that of softmax."""
    found = path.hiding or path.softmaxes
    return found[0].where if found else None


def locate_fill(operation: Operation) -> SourceLine | None:
    """Find where the number was set that a masked_fill reads from a variable or an argument, or else its line."""
    call = call_at(*operation.frames[0]) if operation.frames else None
    values = [] if call is None else [*call.args[-1:], *(one.value for one in call.keywords if one.arg == "value")]
    name = values[-1].id if values and isinstance(values[-1], ast.Name) else None
    made = [one.line for one in assignments_above(operation) if name in one.targets]
    given = locate_number_given(operation) if name and not made else None
    return last_line_of(function_of(operation), made) or given or operation.where


def locate_negation(path: SoftmaxPath) -> SourceLine | None:
    """Find the last line that negates the mask or turns it into numbers, or else the one that masks."""
    ancestors = _ancestors_of_mask(path, path.hiding[0]) if path.hiding else []
    negated = [one for one in ancestors if one.name in NEGATIONS and one.where and _is_of_code(path, one)]
    return negated[-1].where if negated else locate_masking(path)


def locate_next_shown(path: SoftmaxPath, product: int) -> SourceLine | None:
    """Find the line that made the pattern of the mask before a value product, in which tokens see the next one."""
    own = [one for one in path.hiding if one.number < product]
    made = [one for one in _ancestors_of_mask(path, own[-1]) if one.name in PATTERNS] if own else []
    shown = [one for one in made if _shows_the_next(one.outputs[0].tensor)]
    return (shown or made)[0].where if made else locate_pattern(path)


def _shows_the_next(mask: Tensor) -> bool:
    """Return whether all elements right of the diagonal of a square mask are True."""
    if mask.dtype != torch.bool or mask.dim() < 2 or mask.shape[-1] != mask.shape[-2]:
        return False
    return bool(mask.diagonal(1, -2, -1).all()) and not bool(mask.all())


def locate_pattern(path: SoftmaxPath, *, transposed: bool = False) -> SourceLine | None:
    """Find the line that gave the mask its pattern: a triangle, comparison or loop; with `transposed`, a transpose."""
    if not path.hiding:  # a loop over queries that slices the keys
        return locate_assignment(path.scores.structure.score_products[0].operation, r"slice|range|\[[^\]]*:[^\]]*\]")
    masking = next((one for one in path.hiding if _differs_between_queries(path, one)), path.hiding[0])
    ancestors = _ancestors_of_mask(path, masking)
    made = [one for one in ancestors if transposed and one.name in TRANSPOSES]
    made = made or [one for one in ancestors if one.name in PATTERNS] or [one for one in ancestors if one.in_place]
    if made:
        return (None if transposed else locate_flag(made[-1])) or made[-1].where
    before = [one.where for one in ancestors if one.where and one.where != masking.where]
    if any(_is_right(value.tensor) for one in ancestors for value in one.inputs if value.made_by is None):
        return before[-1] if before else masking.where  # the buffer is a triangle, and its use is wrong
    return locate_mask_buffer(masking, path.scores.run.subject) or (before[-1] if before else None)


def _is_right(mask: Tensor) -> bool:
    """Return whether a mask is a triangle whose edge is the diagonal, as a causal mask of any sense is."""
    if mask.dim() < 2 or mask.shape[-1] != mask.shape[-2] or mask.shape[-1] < 2:
        return False
    table = mask.reshape(-1, *mask.shape[-2:])[0]
    below, above = torch.ones_like(table, dtype=torch.bool).tril(), torch.ones_like(table, dtype=torch.bool).triu(1)
    seen, hidden = table[below], table[above]
    return bool((seen == seen[0]).all() and (hidden == hidden[0]).all() and seen[0] != hidden[0])


def locate_window(path: SoftmaxPath) -> SourceLine | None:
    """Find the line that made the mask which hides earlier tokens from some queries only, as a window does."""
    for operation in path.hiding:
        made = [one for one in _ancestors_of_mask(path, operation) if one.name in PATTERNS and one.outputs]
        bands = [one for one in made if _is_band(one.outputs[0].tensor)]
        if bands:
            return bands[0].where
    given = (one for one in path.hiding if any(_is_band(v.tensor) for v in one.inputs if not path.scores.reaches(v)))
    masking = next(given, None)
    buffer = None if masking is None else locate_mask_buffer(masking, path.scores.run.subject)
    return buffer or locate_pattern(path) or locate_masking(path)


def _is_band(mask: Tensor) -> bool:
    """Return whether a mask differs among the pairs of a query with itself and earlier tokens."""
    if mask.dim() < 2 or mask.shape[-1] != mask.shape[-2]:
        return False
    square = mask.reshape(-1, *mask.shape[-2:])[0]
    earlier = square[torch.ones_like(square, dtype=torch.bool).tril()]
    return bool((earlier != earlier[0]).any())


def _differs_between_queries(path: SoftmaxPath, operation: Operation) -> bool:
    """Return whether a mask has rows that differ, unlike one that hides padded keys from all queries."""
    masks = [v.tensor for v in operation.inputs if not path.scores.reaches(v) and v.tensor.dim() >= 2]
    return any(bool((mask != mask[..., :1, :]).any()) for mask in masks)


def locate_made_mask(path: SoftmaxPath, operation: Operation) -> SourceLine | None:
    """Find the triangle or comparison that made an operation's mask: one that is the same for all, if there is one."""
    made = [one for one in _ancestors_of_mask(path, operation) if one.name in PATTERNS and one.outputs]
    idle = [one for one in made if bool((one.outputs[0].tensor == one.outputs[0].tensor.flatten()[:1]).all())]
    return next((one.where for one in reversed(idle or [one for one in made if _is_of_code(path, one)])), None)


def _is_of_code(path: SoftmaxPath, operation: Operation) -> bool:
    """Return whether an operation ran inside the code that was called, rather than to make what it is given."""
    caller = path.trace.caller
    own = {code for code, _ in path.scores.structure.score_products[0].operation.frames} - {caller}
    return not own or any(code in own for code, _ in operation.frames)


def locate_combination(path: SoftmaxPath, *, of_axes: bool = True) -> SourceLine | None:
    """Find the line where a mask argument meets the code's own mask, gets its axes, or is applied to the scores.

    Unless `of_axes`, it does not matter where it gets its axes.
    """
    if not path.masking:
        return None
    late = path.masking_after_softmax
    masking = ([one for one in path.masking if one not in late] or path.masking)[-1]
    ancestors = [one for one in _ancestors_of_mask(path, masking) if one.where]
    both = [one for one in ancestors if one.name.rstrip("_") in COMBINES]
    axes = [one for one in ancestors if one.name in AXES and one.where != masking.where and _is_of_code(path, one)]
    return (both or (axes if of_axes else []) or [masking])[-1].where


def locate_alignment(path: SoftmaxPath, product: Operation, num_queries: int) -> SourceLine | None:
    """Find the line that aligns a value product's mask with queries: its slice, its padding, or their positions."""
    masking = [one for one in path.masking if one.number < product.number]
    if not masking:
        return None
    own, made = masking[-1].where, _ancestors_of_mask(path, masking[-1])
    if any(one.name.startswith(("triu", "tril")) and one.where == own for one in made):
        return own  # the triangle is made where it is used
    made_whole = [one for one in made if _is_triangle_of(one, num_queries)]
    if made_whole:
        return made_whole[-1].where
    ancestors = [one for one in made if one.where and one.where != own]
    positions = [one for one in ancestors if one.name == "arange" and one.outputs[0].tensor.numel() == num_queries]
    return positions[-1].where if positions else ancestors[-1].where if ancestors else own


def _is_triangle_of(operation: Operation, num_queries: int) -> bool:
    """Return whether an operation cuts the triangle of a mask with a row for each query and more columns."""
    if not operation.name.startswith(("triu", "tril")) or not operation.outputs or not operation.where:
        return False
    shape = operation.outputs[0].tensor.shape
    return len(shape) >= 2 and shape[-2] == num_queries < shape[-1]


def locate_skipped_mask(softmax: Operation, trace: Trace, subject: Subject | None = None) -> SourceLine | None:
    """Find the last `if` above a softmax, in its function, whose block would mask the scores and did not run.

    If it tests an argument, or an attribute of the subject, it is the line that gives this to the function, or to the
    constructor.
    """
    above = _skipped_masks(softmax, trace)
    named = [one for one in above if CAUSAL.search(ast.unparse(one))]
    last = max(named or above, key=lambda one: one.lineno, default=None)
    if last is None:
        return None
    attribute = re.fullmatch(r"self\.(\w+)", ast.unparse(last.test))
    made = locate_constructed(subject, attribute[1]) if attribute and subject else None
    decided = locate_decision(last, [one for one in softmax.frames if one[0] is not trace.caller])
    return made or decided or last_line_of(function_of(softmax), [last.lineno])


def _skipped_masks(softmax: Operation, trace: Trace) -> list[ast.If]:
    read = names_in(re.sub(r"^[\w, ]+ = ", "", softmax.statement.source))
    blocks = skipped_blocks(softmax, trace, read, MASKS_SCORES)
    return [one for one in blocks if _end_of(one) < softmax.statement.line]


def locate_unused_triangle(softmax: Operation, trace: Trace, unused: list[Operation]) -> SourceLine | None:
    """Find the last line of a softmax's functions that arranges a causal mask which nothing reads; None without one.

    What a skipped block would apply is right.
    """
    codes = {code for code, _ in softmax.frames} - {trace.caller}
    made = [one for one in unused if one.outputs and any(code in codes for code, _ in one.frames)]
    triangles = [one for one in made if _is_right(one.outputs[0].tensor)]
    skipped = {name for one in _skipped_masks(softmax, trace) for name in names_in(ast.unparse(one))}
    last = triangles[-1] if triangles else None
    return last.where if last and (last.code is not softmax.code or skipped.isdisjoint(last.statement.names)) else None


def skipped_blocks(operation: Operation, trace: Trace, names: set[str], wanted: re.Pattern[str]) -> list[ast.If]:
    """Return the `if`s in an operation's function whose block did not run and would change some names, as wanted."""
    own = (frame for one in trace.operations for frame in one.frames if frame[0] is operation.code)
    ran = {statement_of(*frame).line for frame in set(own)}
    found = []
    for node in nodes_in(function_of(operation)):
        if isinstance(node, ast.If) and not ran.intersection(range(node.body[0].lineno, _end_of(node) + 1)):
            parts = [one for part in node.body for one in ast.walk(part)]
            if any(names & _set_by(one) and wanted.search(ast.unparse(one)) for one in parts):
                found.append(node)
    return found


def _end_of(node: ast.If) -> int:
    return node.body[-1].end_lineno or 0


def _set_by(node: ast.AST) -> set[str]:
    """Return the names that a statement assigns to or, as `scores.masked_fill_(mask, -inf)`, changes in place."""
    if isinstance(node, ast.Expr) and isinstance(node.value, ast.Call) and isinstance(node.value.func, ast.Attribute):
        return names_in(ast.unparse(node.value.func.value)) if node.value.func.attr.endswith("_") else set()
    if not isinstance(node, (ast.Assign, ast.AugAssign)):
        return set()
    targets = node.targets if isinstance(node, ast.Assign) else [node.target]
    return {one.id for target in targets for one in ast.walk(target) if isinstance(one, ast.Name)}


def _ancestors_of_mask(path: SoftmaxPath, operation: Operation) -> list[Operation]:
    """Return the operations behind an operation's mask, in order; the operation itself if it makes the triangle."""
    scores, on_input = path.scores, path.scores.dependence.on_input
    masks = [v for v in operation.inputs if not scores.reaches(v) and not on_input(v)]
    own = [one for one in _behind(path, masks) if one.outputs and not one.by(scores.trace.caller)]
    ancestors = [one for one in own if not on_input(one.outputs[0])]
    return [*ancestors, operation] if operation.name in PATTERNS else ancestors


def _behind(path: SoftmaxPath, values: list[Value]) -> list[Operation]:
    """Return the operations behind some values, in order; of what `ones_like` reads, only the shape counts."""
    trace, waiting = path.trace, list(values)
    found: set[int] = set()
    while waiting:
        for number in trace.writers_of(waiting.pop(), len(trace.operations)):
            if number not in found:
                found.add(number)
                operation = trace.operations[number]
                of_shape = operation.name.endswith("_like") or operation.name.startswith("new_")
                waiting.extend([] if of_shape else operation.inputs)
    return path.scores.run.in_order(found)


def locate_mask_buffer(operation: Operation, subject: Subject) -> SourceLine | None:
    """Find where the triangle of the buffer was made that an operation's statement reads, perhaps by a variable."""
    text = " ".join([operation.statement.source, *(one.value for one in assignments_above(operation))])
    for name, value in attributes_in(text, subject):
        if isinstance(value, Tensor) and value.dim() >= 2 and not isinstance(value, nn.Parameter):
            return _locate_triangle(subject, name)
    return None


def locate_held(subject: Subject, storages: set[int]) -> SourceLine | None:
    """Find where the buffer or the attribute of a module was made whose memory is one of some storages."""
    for module in subject.modules.values():
        for name, held in {**dict(module.named_buffers(recurse=False)), **vars(module)}.items():
            if isinstance(held, Tensor) and storage_of(held) in storages:
                return locate_made_attribute(subject, name)
    return None


def locate_made_attribute(subject: Subject, name: str) -> SourceLine | None:
    """Find where an attribute is set, or the variable that is registered under its name."""
    for source, node in statements_that_set(subject, name):
        call = node.value if isinstance(node, ast.Expr) else None
        given = call.args[1] if isinstance(call, ast.Call) and len(call.args) > 1 else None
        variable = given.id if isinstance(given, ast.Name) else ""
        lines = [one.line for one in assignments(source) if one.line < node.lineno and variable in one.targets]
        return last_line_of(source, [*lines, node.lineno][: max(1, len(lines))])
    return None


def _locate_triangle(subject: Subject, name: str) -> SourceLine | None:
    """Find where the triangle that is registered under a name was made."""
    for source, node in statements_that_set(subject, name):
        names = {one.id for one in ast.walk(node) if isinstance(one, ast.Name)}
        functions = (one for one in ast.walk(source.tree) if isinstance(one, ast.FunctionDef) and node in ast.walk(one))
        above = [
            one for one in assignments(source._replace(tree=next(functions, source.tree))) if one.line < node.lineno
        ]
        made = [one.line for one in above if one.names & names and MADE.search(one.value)]
        return last_line_of(source, made or [node.lineno])
    return None
