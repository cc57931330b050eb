"""A model or attention module that can be run in several ways, on copies of its own."""

import inspect
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import nullcontext, suppress
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import Any

import torch
from torch import Tensor, nn

from course_lib.calling import CACHE, MASKS, WEIGHTS, parameters_of
from course_lib.diagnosis import (
    Arguments,
    Decoding,
    Result,
    StandIn,
    arguments_that_keep,
    copy_of,
    find_decodings,
    handing,
    in_steps,
    parts_of,
)
from course_lib.tracing import tensors_in, torch_private, without_gradients

from .compare import SAME, difference
from .encoder_decoder import masks_of_sides, names_of_sides
from .kernels import Kernel, implemented, switched
from .recurrent import recurrent_modules

NO_ROWS = "no tensor in its result has a row per token"
ASKING = re.compile("use_cache")
CUT = 3  # tokens of the first chunk, or of padding
ANSWERS = re.compile(r"(targets?|labels?)(_ids)?")  # with which a model gives outputs for all tokens, and a loss


class CannotRun(RuntimeError):
    """A way of running that fails or can't be looked into; the message says why."""


class NotOffered(CannotRun):
    """A way of running that the model does not have, which is no fault of it."""


@dataclass(frozen=True, eq=False)
class Model:
    """A module in evaluation mode, and the input that every path starts from.

    Attributes:
        module: a copy in float64 where it runs so, else in its own dtype.
        x: (batch, token) ids or (batch, token, width) embeddings.
        call: (module, x, **options) -> output, or None to call the module itself; with a context, which comes after x.
        make_cache: x -> empty cache, for modules that take one as an argument; None if they make it themselves.
        causal: whether a token must not see later ones.
        context: (batch, ...), what an encoder is given besides x, or None.
        answers: the argument that gets x, too, because without it there is no output for each token; "" for none.
        meant: options of `diagnose` that say what is meant, such as a scale.
    """

    module: nn.Module
    x: Tensor
    call: Callable[..., Any] | None = None
    make_cache: Callable[[Tensor], Any] | None = None
    causal: bool = True
    context: Tensor | None = None
    answers: str = ""
    meant: Mapping[str, Any] = field(default_factory=dict)

    @cached_property
    def parameters(self) -> list[inspect.Parameter]:
        """The arguments that the model takes besides its inputs."""
        if self.call is not None:
            return parameters_of(self.call)[1 if self.context is None else 2 :][1:]
        parameters = parameters_of(self.module)
        return parameters[1:] if self.context is None else [p for p in parameters if p.name not in self.sides]

    @cached_property
    def sides(self) -> tuple[str, str]:
        """The names of the arguments for x and for the context."""
        return names_of_sides(self.module, pretrained=self.is_pretrained)

    def argument_like(self, pattern: re.Pattern[str]) -> str | None:
        """Return the first argument that the model takes and that has such a name."""
        if self.is_pretrained and pattern is WEIGHTS:  # among the keyword arguments of all its models
            return "output_attentions"
        return next((param.name for param in self.parameters if pattern.fullmatch(param.name)), None)

    @cached_property
    def masks(self) -> tuple[list[str], list[str]]:
        """The names of the masks of x, those of its keys last, and of the context."""
        names = [p.name for p in self.parameters if MASKS.fullmatch(p.name) and not isinstance(p.default, bool)]
        if self.is_pretrained:  # whose other masks are those of pictures and sound
            names = [name for name in names if name.endswith("attention_mask")]
        of_x, of_context = masks_of_sides([name for name in names if "head" not in name])
        return (sorted(of_x, key=lambda name: "pad" in name), of_context)

    def on(self, x: Tensor, context: Tensor | None) -> "Model":
        """Return the model with other inputs."""
        return replace(self, x=x, context=context)

    def with_answers(self) -> "Model | None":
        """Return the model with x given as its targets, too; None if it takes none of its own accord."""
        if self.call is not None or self.context is not None or self.x.is_floating_point():
            return None
        names = [param.name for param in self.parameters if ANSWERS.fullmatch(param.name) and param.default is None]
        return replace(self, answers=names[0]) if names else None

    @property
    def is_pretrained(self) -> bool:
        """Whether it follows the conventions of transformers."""
        return hasattr(self.module, "config") and hasattr(self.module, "set_attn_implementation")

    @property
    def caches_by_default(self) -> bool:
        """Whether it is an encoder-decoder with a cache by default; asked for one, its encoder may refuse."""
        return self.context is not None and bool(getattr(getattr(self.module, "config", None), "use_cache", False))

    def result(self, x: Tensor, *, module: nn.Module | None = None, seed: int = 0, **options: Any) -> Any:
        """Run the module or a copy of it, with the random numbers of a seed.

        Raises:
            CannotRun: it raised.
        """
        module = self.module if module is None else module
        eager = nullcontext() if torch_private.is_compiled_in_place(module) else torch_private.without_compiling()
        with torch.random.fork_rng(devices=[]), without_gradients(), eager:
            torch.default_generator.manual_seed(seed)
            try:
                return self.run(module, x, **options)
            except Exception as error:
                raise CannotRun(f"{type(error).__name__}: {error}".splitlines()[0]) from error

    def run(self, module: nn.Module, x: Tensor, **options: Any) -> Any:
        """Run a copy of the module on x, and on a row of the context for each of its samples."""
        inputs = [x.clone()]
        if self.context is not None:
            context = self.context[torch.arange(len(x)) % len(self.context)].to(x.device)
            dtype = next((param.dtype for param in module.parameters() if param.is_floating_point()), x.dtype)
            inputs.append(context.to(dtype) if context.is_floating_point() else context)
        if self.call is not None:
            return self.call(module, *inputs, **options)
        if self.context is None:
            return module(*inputs, **({self.answers: x.clone()} if self.answers else {}), **options)
        return module(**dict(zip(self.sides, inputs, strict=True)), **options)

    def output(self, x: Tensor, *, module: nn.Module | None = None, **options: Any) -> Tensor:
        """Run it and return its output, (batch, token, ...).

        Raises:
            CannotRun: it raised, or no tensor in its result has a row per token.
        """
        return first_output(self.result(x, module=module, **options), x)

    @cached_property
    def recurrent(self) -> dict[str, str]:
        """Name -> class of the layers that carry a state from token to token instead of attending."""
        return recurrent_modules(self.module)

    @cached_property
    def plain_output(self) -> Tensor:
        """The output of the plain pass on x."""
        return self.output(self.x)

    @cached_property
    def keeps_state(self) -> float:
        """How much a second run with the same x and the same random numbers differs from the plain pass."""
        return difference(self.plain_output, self.output(self.x))

    @cached_property
    def is_random(self) -> float:
        """How much a run with other random numbers differs from the plain pass."""
        return difference(self.plain_output, self.output(self.x, seed=1))

    def run_chunk(self, x: Tensor, *, module: nn.Module | None = None, **options: Any) -> Result:
        """Run it on a piece of x; the cache that it returns is among the parts of the result.

        Raises:
            CannotRun: as `output`.
        """
        module = self.module if module is None else module
        inner_options = {name: options.pop(name) for name in [*options] if name in self._beyond_call}
        with nullcontext([]) if self.call is None else handing(module, inner_options) as results:
            result = self.result(x, module=module, **options)
        return Result(first_output(result, x), parts_of(result) or parts_of(next(iter(results), result)))

    @cached_property
    def decoding(self) -> Decoding:
        """How it is given its tokens in pieces: the first way in which it agrees with the plain pass, or else any.

        Raises:
            NotOffered: it takes no cache.
            CannotRun: nothing shows how its cache is made.
        """
        best, nearest, errors = None, torch.inf, list[CannotRun]()
        for decoding in self._decodings():
            try:
                outputs = decoding.outputs(self.begin(), self.x, in_steps(self.x.shape[1]))
            except (CannotRun, LookupError) as error:
                errors += [error] if isinstance(error, CannotRun) else []
                continue
            deviation = difference(self.plain_output, outputs)
            if best is None or deviation < nearest:
                best, nearest = decoding, deviation
            if deviation <= SAME:
                break
        if best is not None:
            return best
        if errors and (self.make_cache is not None or self.is_pretrained):
            raise errors[0]
        raise self._no_decoding()

    @property
    def takes_chunks(self) -> bool:
        """Whether paths give it tokens in pieces, or say why they can't."""
        try:
            return bool(self.decoding)
        except CannotRun as error:
            return not isinstance(error, NotOffered)

    def _no_decoding(self) -> CannotRun:
        name = self.argument_like(CACHE)
        if name and self.make_cache is None and self._asks:
            return NotOffered("it returns no cache")
        acting = [name] if name else arguments_that_keep(self.begin, self._arguments, self.x)
        if not acting:
            return NotOffered("none of its arguments acts as a cache")
        return CannotRun(f"its cache `{acting[0]}` must be made: give `make_cache`, on the command line `--cache`")

    def _decodings(self) -> Iterator[Decoding]:
        asking: dict[str, Any] = {"use_cache": True} if self._asks else {}
        name = self.argument_like(CACHE)
        if self.make_cache is None:
            returned = [key for key in self._parts_with_cache(asking) if CACHE.fullmatch(str(key))]
            if name and returned:
                yield Decoding({name: returned[0]}, asking)
            if self.is_pretrained:  # which has no other way
                return
            for decoding in find_decodings(self.begin, self._arguments, self.x):
                if decoding.empty is None or not isinstance(decoding.empty(self.x), StandIn):
                    yield decoding
            return
        for argument in [name] if name else self._arguments.free:
            decoding = Decoding({argument: None}, asking, empty=self.empty_cache)
            yield decoding
            with suppress(CannotRun):
                result = self.begin()(self.x[:, :CUT], **asking, **{argument: self.empty_cache(self.x)})
                yield from (replace(decoding, taken={argument: part}) for part in result.parts)

    def _parts_with_cache(self, asking: dict[str, Any]) -> list[Any]:
        try:
            return list(self.begin()(self.x[:, :CUT], **asking).parts)  # a copy, in which it may keep its cache
        except CannotRun:
            return []

    def empty_cache(self, x: Tensor) -> Any:
        """Return what `make_cache` makes for x.

        Raises:
            CannotRun: it raised.
        """
        try:
            return None if self.make_cache is None else self.make_cache(x)
        except Exception as error:
            raise CannotRun(f"make_cache raised {type(error).__name__}: {error}") from error

    @property
    def _asks(self) -> bool:
        """Whether it is asked for a cache; of transformers some models take that as a keyword."""
        return (self.argument_like(ASKING) is not None or self.is_pretrained) and not self.caches_by_default

    @property
    def _arguments(self) -> Arguments:
        parameters = [*self.parameters, *self._beyond_call.values()]
        kinds = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
        return Arguments.of({param.name: param.default for param in parameters if param.kind in kinds})

    @cached_property
    def _beyond_call(self) -> dict[str, inspect.Parameter]:
        """The module's arguments that `call` neither takes nor passes."""
        calls: list[dict[str, Any]] = []
        if self.call is not None:
            with suppress(CannotRun), handing(module := self.copy(), {}, calls):
                self.result(self.x, module=module)
        known = {*(param.name for param in self.parameters), *(calls[0] if len(calls) == 1 else ())}
        return {p.name: p for p in parameters_of(self.module)[1:] if len(calls) == 1 and p.name not in known}

    def begin(self) -> Callable[..., Result]:
        """Return what runs a fresh copy of it on a piece."""
        return partial(self.run_chunk, module=self.copy())

    def copy(self) -> nn.Module:
        """Return a copy of the module."""
        return copy_of(self.module)

    def changed(self, x: Tensor, at: Any) -> Tensor:
        """Return x, or the context, with other tokens at an index of (batch, token)."""
        other = x.clone()
        if not x.is_floating_point():  # the next of the ids that occur, so that it is in the vocabulary
            known = self.x.unique() if not self.x.is_floating_point() else x.unique()
            other[at] = known[(torch.searchsorted(known, other[at].contiguous()) + 1) % len(known)]
        else:
            other[at] = other[at] * -0.5 + 1.5
        return other

    def with_other_last(self) -> Tensor:
        """Return x with another last token."""
        return self.changed(self.x, (slice(None), -1))

    @cached_property
    def sees_the_future(self) -> float:
        """How much earlier outputs change with the last token in the plain pass; 0 if it is not causal."""
        if not self.causal:
            return 0.0
        return difference(self.plain_output[:, :-1], self.output(self.with_other_last())[:, :-1])

    def with_kernel(self, kernel: Kernel) -> tuple[nn.Module, dict[str, bool]]:
        """Return a copy of the module that uses a kernel, and the options of its call that choose it.

        Raises:
            NotOffered: it has no such switch.
        """
        if self.is_pretrained:
            try:
                return implemented(self.module, kernel), {}
            except (ValueError, ImportError, NotImplementedError) as error:
                raise NotOffered(str(error).splitlines()[0].partition(". ")[0]) from error
        copy_and_options = switched(self.module, kernel, self.call or self.module)
        if copy_and_options is None:
            raise NotOffered(
                f"it has no switch for {'flex_attention' if kernel == 'flex_attention' else 'a fused kernel'}"
            )
        return copy_and_options


def first_output(result: Any, x: Tensor) -> Tensor:
    """Return the first tensor of a result with a row for each token of x.

    Raises:
        CannotRun: there is none.
    """
    result = [result.logits] if hasattr(result, "logits") else result
    outputs = [tensor for tensor in tensors_in(result) if tensor.dim() > 2 and tensor.shape[:2] == x.shape[:2]]
    if not outputs:
        raise CannotRun(NO_ROWS)
    return outputs[0]
