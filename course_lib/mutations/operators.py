"""What can go wrong in the source of attention: for each mistake, the forms of right code and what becomes of them."""

import ast
import re
from collections.abc import Callable, Iterator, Mapping
from functools import lru_cache
from typing import NamedTuple

from .pattern import Found, fill_in, literal, match, method, walk
from .source import Edit, Node, Source


class Mutation(NamedTuple):
    """One mistake at one place.

    Attributes:
        mistake: Its id in the catalogue.
        line: The line of the source, counted from 1, on which it is made.
        edits: What changes in the source.
    """

    mistake: str
    line: int
    edits: tuple[Edit, ...]


# mistake -> (form, what stands in its place), or only in the place of some of its parts; Z is the whole.
FORMS: Mapping[str, tuple[tuple[str, str | Mapping[str, str]], ...]] = {
    "missing-scale": (("X / ROOT", "X"), ("X * ROOT", "X"), ("ROOT * X", "X")),
    "wrong-scale": (("X ** 0.5", "X"), ("X ** -0.5", "X ** -1"), ("sqrt(X)", "X")),
    "softmax-wrong-axis": (("softmax(X, dim=LAST)", {"LAST": "-2"}),),
    "double-softmax": (("softmax(X, dim=D)", "Z.softmax(D)"),),
    "no-softmax": (("softmax(X, dim=D)", "X"),),
    "mask-off-by-one": (
        ("triu(X, diagonal=ONE)", {"ONE": "2"}),
        ("tril(X)", "X.tril(1)"),
        ("triu(X, diagonal=1 + N)", {"N": "N + 1"}),
        ("triu(X, diagonal=N + 1)", {"N": "N + 1"}),
        ("tril(X, diagonal=N - M)", {"M": "M + 1"}),
    ),
    "mask-inverted": (
        ("masked_fill(X, ~A, LOW)", "X.masked_fill(A, LOW)"),
        ("masked_fill(X, A == 0, LOW)", "X.masked_fill(A != 0, LOW)"),
        ("masked_fill(X, A, LOW)", "X.masked_fill(~A, LOW)"),
        ("where(A, X, LOW)", "torch.where(A, LOW, X)"),
        ("where(A, LOW, X)", "torch.where(A, X, LOW)"),
    ),
    "mask-with-zero": (
        ("masked_fill(X, A, LOW)", {"LOW": "0.0"}),
        ("where(A, X, LOW)", {"LOW": "0.0"}),
        ("where(A, LOW, X)", {"LOW": "0.0"}),
    ),
    "mask-transposed": (
        ("masked_fill(X, ~A, LOW)", {"A": "A.mT"}),
        ("masked_fill(X, A == 0, LOW)", {"A": "A.mT"}),
        ("masked_fill(X, A, LOW)", {"A": "A.mT"}),
    ),
    "mask-after-softmax": (("softmax(masked_fill(X, A, LOW), dim=D)", "X.softmax(D).masked_fill(A, 0.0)"),),
    "mask-discarded": (
        ("X = masked_fill(X, A, B)", "X.masked_fill(A, B)"),
        ("X = where(A, X, B)", "torch.where(A, X, B)"),
        ("X = where(A, B, X)", "torch.where(A, B, X)"),
    ),
    "no-causal-mask": (
        ("softmax(masked_fill(X, A, LOW), dim=D)", "X.softmax(D)"),
        ("X = masked_fill(X, A, LOW)", "pass"),
    ),
    "output-projection-missing": (("return DROP(LAYER(X))", "return DROP(X)"), ("return LAYER(X)", "return X")),
    "returns-none": (("return X", "result = X"),),
    "weights-transposed": (("W @ V", "W.mT @ V"), ("matmul(W, V)", "W.mT @ V")),
    "weights-not-applied": (("W @ V", "V"), ("matmul(W, V)", "V")),
    "kv-heads-tiled": (("repeat_interleave(X, N, dim=1)", "X.repeat(1, N, 1, 1)"),),
    "merge-without-transpose": (
        ("X.transpose(1, 2).contiguous().view(A, B, C)", "X.reshape(A, B, C)"),
        ("X.transpose(1, 2).contiguous().reshape(A, B, C)", "X.reshape(A, B, C)"),
        ("X.transpose(1, 2).reshape(A, B, C)", "X.reshape(A, B, C)"),
        ("X.transpose(1, 2).contiguous().flatten(2)", "X.reshape(X.shape[0], X.shape[2], -1)"),
        ("X.transpose(1, 2).flatten(2)", "X.reshape(X.shape[0], X.shape[2], -1)"),
    ),
    "split-without-transpose": (
        ("X.view(B, T, H, D).transpose(1, 2)", "X.view(B, H, T, D)"),
        ("X.reshape(B, T, H, D).transpose(1, 2)", "X.reshape(B, H, T, D)"),
        ("X.unflatten(A, (H, D)).transpose(1, 2)", "X.reshape(len(X), H, X.shape[1], D)"),
    ),
    "heads-share-scores": (("softmax(X, dim=LAST)", "Z[:, :1].expand_as(X)"),),
    "heads-averaged": (("X.transpose(1, 2).flatten(2)", {"X": "X.mean(1, keepdim=True).expand_as(X)"}),),
    "dropout-at-eval": (("dropout(X, P, training=T)", {"T": "True"}), ("P if self.training else N", "P")),
    "nan-on-hidden-rows": (("nan_to_num(X)", "X"), ("nan_to_num(X, N)", "X")),
}
NEIGHBOURS = {"key": "value", "keys": "values", "k": "v", "K": "V"}  # what stands beside keys, in names
KEYS = {value: key for key, value in NEIGHBOURS.items()}


def mutations(text: str, mistake: str, *, within: tuple[int, int] | None = None) -> Iterator[Mutation]:
    """Find everything in a source by which a mistake can be made.

    Args:
        text: Python code.
        mistake: An id of the catalogue.
        within: The first and the last line that may be changed; None for all.

    Raises:
        ValueError: If no operator makes this mistake.
    """
    if mistake not in MADE:
        raise ValueError(f"mistake is {mistake!r}, which no operator makes; these can be planted: {', '.join(MADE)}")
    source, nodes = _read(text)
    for node in nodes:
        if within is None or within[0] <= node.lineno <= (node.end_lineno or node.lineno) <= within[1]:
            for edits in _edits(source, node, mistake):
                yield Mutation(mistake, source.line(edits[0]), edits)


@lru_cache(maxsize=8)  # a module in which any of forty mistakes may be planted is read once
def _read(text: str) -> tuple[Source, tuple[Node, ...]]:
    source = Source(text)
    return source, tuple(walk(source.tree))


def _edits(source: Source, node: Node, mistake: str) -> Iterator[tuple[Edit, ...]]:
    for pattern, change in FORMS.get(mistake, ()):
        if (found := match(pattern, node)) is not None and GUARDS.get(mistake, _always)(source, found):
            found |= {"Z": node}
            parts = {"Z": change} if isinstance(change, str) else change
            yield tuple(source.replace(found[name], fill_in(new, found, source.text_of)) for name, new in parts.items())
            break
    for operator in STATEMENTS.get(mistake, ()):
        yield from operator(source, node)


def _always(source: Source, found: Found) -> bool:
    return True


def _is_value_product(source: Source, found: Found) -> bool:
    """Whether the left factor of a product holds attention weights."""
    left = source.value_of(found["W"])
    return any(method(node) in ("softmax", "dropout", "attn_dropout") for node in ast.walk(left))


GUARDS: Mapping[str, Callable[[Source, Found], bool]] = {
    "weights-transposed": _is_value_product,
    "weights-not-applied": _is_value_product,
    "returns-none": lambda source, found: source.function_of(found["X"]) == "forward",
}


def _mask_later(source: Source, node: Node) -> Iterator[tuple[Edit, ...]]:
    """`scores = scores.masked_fill(hidden, -inf)`, then softmax -> softmax, then `masked_fill(hidden, 0.0)`."""
    if found := match("X = masked_fill(X, A, LOW)", node):
        for later in walk(source.tree):
            into = match("softmax(X, dim=D)", later) if later.lineno > node.lineno else None
            if into and ast.unparse(into["X"]) == ast.unparse(found["X"]):
                filled = fill_in("Z.masked_fill(A, 0.0)", {"Z": later, **found}, source.text_of)
                yield source.replace(later, filled), source.replace(node, "pass")
                return


def _unset_flag(source: Source, node: Node) -> Iterator[tuple[Edit, ...]]:
    """`is_causal=True` -> `is_causal=False`."""
    if isinstance(node, ast.keyword) and node.arg == "is_causal" and literal(node.value) is True:
        yield (source.replace(node.value, "False"),)


def _renamed(old: str) -> str:
    """`keys` -> `values`, `k_proj` -> `v_proj`."""
    return re.sub(r"[A-Za-z]+", lambda word: NEIGHBOURS.get(word[0], word[0]), old, count=1)


def _score_values(source: Source, node: Node) -> Iterator[tuple[Edit, ...]]:
    """The product of queries and keys reads the values."""
    for pattern in ("Q @ K.mT", "Q @ K.transpose(N, M)", "matmul(Q, K.mT)", "matmul(Q, K.transpose(N, M))"):
        found = match(pattern, node)
        if found and isinstance(found["K"], ast.Name) and _renamed(found["K"].id) in source.names:
            yield (source.replace(found["K"], _renamed(found["K"].id)),)
            return


def _reuse(source: Source, node: Node) -> Iterator[tuple[Edit, ...]]:
    """The layer of the keys is used for the values, too: `self.v_proj(x)` -> `self.k_proj(x)`."""
    found = match("LAYER(X)", node)
    layer = source.text_of(found["LAYER"]).removeprefix("self.") if found else ""
    other = re.sub(r"[A-Za-z]+?(?=_|$)", lambda word: KEYS.get(word[0], word[0]), layer)
    if found and other != layer and f"self.{other}" in source.text:
        yield (source.replace(found["LAYER"], f"self.{other}"),)


def _pin_device(source: Source, node: Node) -> Iterator[tuple[Edit, ...]]:
    """A tensor is made without `device=x.device`."""
    if isinstance(node, ast.Call):
        for keyword in node.keywords:
            if keyword.arg == "device":
                yield (source.without_argument(node, keyword),)


STATEMENTS: Mapping[str, tuple[Callable[[Source, Node], Iterator[tuple[Edit, ...]]], ...]] = {
    "mask-after-softmax": (_mask_later,),
    "no-causal-mask": (_unset_flag,),
    "scores-from-values": (_score_values,),
    "projection-reused": (_reuse,),
    "device-pinned": (_pin_device,),
}
MADE = tuple(dict.fromkeys((*FORMS, *STATEMENTS)))
