"""Find out how code takes its tokens in pieces with a cache, from what it does with what it is given and returns."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, fields, is_dataclass, replace
from itertools import islice, pairwise, product
from typing import Any, NamedTuple, Self

import torch
from torch import Tensor

from course_lib.calling import first_tensor
from course_lib.tracing import tensors_in

from .cache_stand_in import StandIn

MOST_TRIED = 120  # ways to give the pieces to code with many arguments


class Result(NamedTuple):
    """What code returns for a piece: its output, and the parts besides it by index or by name."""

    output: Tensor
    parts: dict[Any, Any]


class Arguments(NamedTuple):
    """The optional arguments of code that may have to do with a cache, by their defaults."""

    free: Sequence[str]  # None
    flags: Sequence[str]  # False
    numbers: Sequence[str]  # an integer

    @classmethod
    def of(cls, values: Mapping[str, Any]) -> Self:
        """Sort arguments by what they are given, or by their defaults."""
        kinds = (lambda value: value is None, lambda value: value is False, lambda value: type(value) is int)
        return cls(*([name for name, value in values.items() if is_such(value)] for is_such in kinds))


Run = Callable[..., Result]  # (some tokens of x, **arguments) -> result
Begin = Callable[[], Run]  # makes a fresh copy of the code
Empty = Callable[[Tensor], Any]  # x -> a cache of no tokens

# Caches that the caller makes for the code to fill.
EMPTY: tuple[Empty, ...] = (lambda x: [], lambda x: {}, lambda x: StandIn())


@dataclass(frozen=True)
class Decoding:
    """A way to give code its tokens in pieces, each of which sees the earlier ones.

    Attributes:
        taken: argument -> the part of what the code returned for the piece before, or None for the object that it got
            before, which the code changes in place. Empty if the code keeps its cache in itself.
        options: what is given with every piece.
        position: the argument that gets the number of earlier tokens; "" for none.
        indices: whether that argument gets the index of each token of the piece instead.
        empty: makes the cache for the first piece; None if the code does.
    """

    taken: Mapping[str, Any] = field(default_factory=dict)
    options: Mapping[str, Any] = field(default_factory=dict)
    position: str = ""
    indices: bool = False
    empty: Empty | None = None

    @property
    def name(self) -> str:
        """The arguments that get the cache, or else those with which the code keeps one in itself."""
        kept = [*self.options, *filter(None, [self.position])]
        return " and ".join(f"`{name}`" for name in self.taken or kept) or "the module"

    def results(
        self, run: Run, x: Tensor, pieces: Sequence[slice], more: Callable[[slice], dict[str, Any]] = lambda piece: {}
    ) -> Iterator[Result]:
        """Yield what the code returns for each piece of x, (batch, token, ...), in turn.

        Args:
            more: further arguments for a piece.

        Raises:
            LookupError: the code does not return what the next piece gets.
        """
        held: dict[str, Any] = {} if self.empty is None else dict.fromkeys(self.taken, self.empty(x))
        for piece in pieces:
            for one in held.values():
                if isinstance(one, StandIn):
                    one.begin(piece)
            given = {**self.options, **held, **more(piece)}
            if self.position:
                indices = torch.arange(piece.start, piece.stop, device=x.device)
                given[self.position] = indices if self.indices else piece.start
            result = run(x[:, piece], **given)
            yield result
            held |= {name: result.parts[part] for name, part in self.taken.items() if part is not None}

    def outputs(self, run: Run, x: Tensor, pieces: Sequence[slice]) -> Tensor:
        """Return the outputs of the pieces of x, joined along the tokens.

        Raises:
            LookupError: an output has no row for each token of its piece, or the code does not return a cache.
        """
        found = []
        for piece, result in zip(pieces, self.results(run, x, pieces), strict=True):
            output = result.output
            if not isinstance(output, Tensor) or output.dim() < 3 or output.shape[:2] != x[:, piece].shape[:2]:
                raise LookupError("its output has no row for each token of a piece")
            found.append(output)
        return torch.cat(found, dim=1)


def parts_of(result: Any) -> dict[Any, Any]:
    """Return what code returns besides its output, by index or by name."""
    if isinstance(result, Mapping):
        found = dict(result)
    elif is_dataclass(result):
        found = {one.name: getattr(result, one.name) for one in fields(result)}
    elif isinstance(result, (tuple, list)):
        found = dict(enumerate(result))
    else:
        found = {} if isinstance(result, Tensor) else dict(getattr(result, "__dict__", {}))
    output = first_tensor(result)
    return {name: one for name, one in found.items() if one is not output and one is not None}


def in_steps(num_tokens: int) -> list[slice]:
    """Return a prompt of all but the last two tokens, and these one at a time."""
    first = max(1, num_tokens - 2)
    return [slice(0, first), *(slice(at, at + 1) for at in range(first, num_tokens))]


def in_chunks(num_tokens: int) -> list[slice]:
    """Return two pieces of several tokens, the second of which is at least as long."""
    first = max(min(2, num_tokens - 1), (num_tokens - 1) // 2)  # a mask of one pair would be broadcast
    return [slice(0, first), slice(first, num_tokens)] if num_tokens > 1 else [slice(0, num_tokens)]


def find_decodings(begin: Begin, arguments: Arguments, x: Tensor, empty: Iterable[Empty] = ()) -> Iterator[Decoding]:
    """Yield the ways in which code takes x in pieces, so that what comes later depends on the pieces before.

    Args:
        begin: returns a function that runs a fresh copy of the code.
        arguments: of the code.
        x: (batch, token, width), or ids, (batch, token).
        empty: further caches that the code may take.
    """
    ways = islice(_ways(begin, arguments, x, (*empty, *EMPTY)), MOST_TRIED)
    yield from (one for one in ways if _carries(begin, one, x))


def _ways(begin: Begin, arguments: Arguments, x: Tensor, empty: Sequence[Empty]) -> Iterator[Decoding]:
    free, flags, numbers = arguments
    yield from (Decoding(position=name) for name in (*numbers, *free))
    yield from (Decoding(position=name, indices=True) for name in free)
    yield Decoding()
    for options in ({}, *({name: True} for name in flags)):
        ways = [Decoding(taken, options) for taken in _returned(begin, x, options, free)]
        ways += [Decoding({name: None}, options, empty=make) for name, make in product(free, empty)]
        ways += [Decoding(options=options)] if options else []
        for way in ways:
            yield from (replace(way, position=name) for name in numbers)
            yield way
            others = [name for name in free if name not in way.taken]
            yield from (replace(way, position=name, indices=True) for name in others if way.taken and not way.empty)


def _returned(begin: Begin, x: Tensor, options: Mapping[str, Any], free: Sequence[str]) -> Iterator[dict[str, Any]]:
    """Yield which arguments may take which parts of what the code returns: each alone, or two in order."""
    try:
        result = begin()(x[:, in_steps(x.shape[1])[0]], **options)
    except Exception:  # whatever the code raises, with an option that it may not take alone
        return
    found = [name for name, one in result.parts.items() if _holds_tensors(one)]
    yield from ({name: part} for part, name in product(found, free))
    if len(found) == 2:
        yield from (dict(zip(names, found, strict=True)) for names in pairwise(free))


def _holds_tensors(value: Any) -> bool:
    """Return whether a value holds tensors, or is an object, as a cache of its own class is."""
    return hasattr(value, "__dict__") or next(tensors_in(value), None) is not None


def _carries(begin: Begin, way: Decoding, x: Tensor) -> bool:
    """Return whether code runs so, and its later outputs depend on the prompt."""
    pieces = in_steps(x.shape[1])
    first = pieces[0].stop
    other = x.flip(1)
    other = other * 0.5 + 0.25 if x.is_floating_point() else other
    other = torch.cat([other[:, :first], x[:, first:]], dim=1)
    try:
        one, changed = (way.outputs(begin(), given, pieces)[:, first:] for given in (x, other))
    except Exception:  # whatever the code raises where it is not meant to be run so
        return False
    return bool((one - changed).abs().nan_to_num().max() > 1e-9)


def arguments_that_keep(begin: Begin, arguments: Arguments, x: Tensor) -> list[str]:
    """Return the arguments that act as a cache: code stores tensors in them, or joins tensors to them."""
    found = []
    for name in arguments.free:
        cache = StandIn()
        cache.begin(slice(0, x.shape[1]))
        with suppress(Exception):  # a stand-in goes so far only
            begin()(x, **{name: cache})
        found += [name] if cache.keeps or cache.joins or (cache.takes_pairs and _goes_on(begin, name, x)) else []
    return found


def _goes_on(begin: Begin, name: str, x: Tensor) -> bool:
    """Return whether code with a stand-in has an output for just the tokens of a second piece."""
    try:
        Decoding({name: None}, empty=EMPTY[-1]).outputs(begin(), x, (slice(0, 1), slice(1, x.shape[1])))
    except Exception:  # whatever the code raises where it is not meant to be run so
        return False
    return True
