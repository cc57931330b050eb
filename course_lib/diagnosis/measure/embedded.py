"""Examine a model that takes token ids as a function of its embeddings, which can be changed one token at a time."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from course_lib.tracing import ModuleCall, Trace, replay

from .place import Place
from .placed import PlacedSubject, forward_replaced, resized
from .subject import Subject


class EmbeddedSubject(PlacedSubject):
    """A model of token ids, run on x in place of their embeddings.

    Args:
        whole: the model, as it runs on ids.
        place: of the module that embeds ids.
        template: ids, (batch, token), which are cut or repeated to the sizes of x.
        added: how many tokens the model puts to them before it embeds them, such as one for the start.
    """

    makes_x = True

    def __init__(self, whole: Subject, place: Place, template: Tensor, added: int = 0) -> None:
        super().__init__(whole, place, template)
        self.added = added

    def examined_in(self, code: Callable[..., Any]) -> Callable[..., Any]:
        return code

    def call(self, code: Callable[..., Any], x: Tensor) -> Any:
        """Run the model, in which x takes the place of the embeddings."""
        module, ids = self._module_of(code), resized(self.template, x.shape[0], x.shape[1] - self.added)
        rows = _Embeddings(x, ids, self.place.tokens_first)
        with self.as_wide_as(x), forward_replaced(module, partial(rows.of, module.forward)):
            output = self.whole.call(code, ids)
        cut = self.added and isinstance(output, Tensor) and output.dim() == 3 and output.shape[1] == ids.shape[1]
        return F.pad(output, (0, 0, 0, self.added)) if cut else output

    trace = Subject.trace


class _Embeddings:
    """Returns x for its ids, in the pieces in which they come, or all of it for ids (token, batch).

    A piece goes on where the last one ended, unless its ids are those of a start that comes again, as where the whole
    prefix is given for each new token.
    """

    def __init__(self, x: Tensor, ids: Tensor, tokens_first: bool) -> None:
        self._x, self._ids, self._start, self._tokens_first = x, ids, 0, tokens_first

    def of(self, usual: Callable[..., Tensor], ids: Tensor, *more: Any, **named: Any) -> Tensor:
        """Return rows for ids; what else a module is asked for, as a head that is tied to it, it does itself."""
        if more or named or ids.is_floating_point():
            return usual(ids, *more, **named)
        batch, num_tokens, _ = self._x.shape
        if self._tokens_first:
            return self._x.transpose(0, 1) if ids.shape == (num_tokens, batch) else usual(ids)
        if ids.dim() != 2 or len(ids) != batch or ids.shape[1] > num_tokens:
            return usual(ids)
        starts = (self._start if self._start + ids.shape[1] <= num_tokens else 0, 0)
        start = next((one for one in starts if self._are_at(one, ids)), starts[0])
        self._start = start + ids.shape[1]
        return self._x[:, start : self._start].to(self._x.dtype)

    def _are_at(self, start: int, ids: Tensor) -> bool:
        return torch.equal(self._ids[:, start : start + ids.shape[1]], ids)


def embedded(
    whole: Subject, ids: Tensor, fewest: int = 0, *, fixed: bool = False
) -> tuple[EmbeddedSubject, Tensor] | Exception | None:
    """Return a model as a function of its embeddings, and the embeddings of some ids.

    If it embeds none, the exception that it raised instead, or None.

    Args:
        whole: the model.
        ids: (batch, token).
        fewest: how many tokens to run at least, if the model takes as many.
        fixed: whether to run all of these ids and no others.
    """
    few = resized(ids, max(2, min(3, len(ids))), max(5, fewest, min(8, ids.shape[1])))
    result = None
    for tried in (ids,) if fixed else (few, ids):
        code = whole.copy(torch.float64)
        trace, result = whole.trace(tried, code, modules=True)
        paths = {module: name for name, module in code.named_modules()} if isinstance(code, nn.Module) else {}
        failed = isinstance(result, Exception)
        found = _embedding(trace.calls, tried, failed=failed) or _of_changed_ids(trace, tried)
        if found is not None and (tried is ids or not failed):
            module, rows, first = found
            place = Place(type(module).__name__, module, paths.get(module), tokens_first=first)
            return EmbeddedSubject(whole, place, tried, rows.shape[1] - tried.shape[1]), rows
    return result if isinstance(result, Exception) else None


def _embedding(calls: Sequence[ModuleCall], ids: Tensor, *, failed: bool) -> tuple[nn.Module, Tensor, bool] | None:
    """Return the module that makes a row of numbers for each of the ids, at once or in pieces, and the rows.

    Also whether it is given (token, batch). Of a run that `failed`, the first pieces are enough.
    """
    made: dict[nn.Module, list[tuple[Tensor, Tensor]]] = {}
    for call in calls:
        given, output = call.inputs.get(0), call.output
        if given is None or output is None or not _embeds(call, given.tensor, output.tensor):
            continue
        if given.tensor.dim() == 2 and torch.equal(given.tensor.mT, ids):
            return call.module, output.tensor.transpose(0, 1).contiguous(), True
        pieces = made.setdefault(call.module, [])
        pieces.append((given.tensor, output.tensor))
        last = _last(pieces, ids.shape[1])
        if _are(last, ids):
            return call.module, torch.cat([rows for _, rows in last], dim=-2), False
    for module, pieces in made.items() if failed else ():
        if _are(pieces, ids[:, : sum(piece.shape[-1] for piece, _ in pieces)]):
            return module, module(ids).detach(), False
    return None


def _of_changed_ids(trace: Trace, ids: Tensor) -> tuple[nn.Module, Tensor, bool] | None:
    """Return the module that makes a row of numbers for each of some ids that the model makes of these, and the rows.

    Wherever an id is another, its own must be another, too: with a number added to it, or one place further on, behind
    a token for the start, as those of positions are not.
    """
    other = ids.roll(1, dims=1)
    differ, now = other != ids, replay(trace, other) if trace.calls else []
    for call in trace.calls:
        given, output = call.inputs.get(0), call.output
        if given is None or output is None or not _embeds(call, given.tensor, output.tensor):
            continue
        if given.tensor.dim() != 2 or given.tensor.shape[1] - ids.shape[1] not in (0, 1) or not differ.any():
            continue
        moved = now[given.number] != given.tensor
        behind = moved[:, 1:]
        if any(torch.equal(one, differ[:, : one.shape[1]]) for one in (moved[:, : ids.shape[1]], behind)):
            return call.module, output.tensor.contiguous(), False
    return None


def _embeds(call: ModuleCall, ids: Tensor, rows: Tensor) -> bool:
    """Return whether a call made rows of ids: of an nn.Embedding, or of a module without parts inside the model."""
    if ids.dim() == 0 or ids.is_floating_point() or ids.shape != rows.shape[:-1] or not rows.is_floating_point():
        return False
    return isinstance(call.module, nn.Embedding) or (call.outer is not None and not any(call.module.children()))


def _last(pieces: list[tuple[Tensor, Tensor]], num_tokens: int) -> list[tuple[Tensor, Tensor]]:
    """Return the last pieces, as far as they hold no more tokens; an encoder may have embedded other ids before."""
    start, count = len(pieces), 0
    while start > 0 and count + pieces[start - 1][0].shape[-1] <= num_tokens:
        start -= 1
        count += pieces[start][0].shape[-1]
    return pieces[start:]


def _are(pieces: list[tuple[Tensor, Tensor]], ids: Tensor) -> bool:
    """Return whether the ids of some pieces, one after the other, are these."""
    alike = len({piece.shape[:-1] for piece, _ in pieces}) == 1
    return alike and torch.equal(torch.cat([piece for piece, _ in pieces], dim=-1), ids)
