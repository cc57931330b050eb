"""A model or attention module that can be run in several ways, on copies of its own."""

import copy
import inspect
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import torch
from torch import Tensor, nn

from course_lib.tracing import tensors_in

from .compare import difference
from .recurrent import recurrent_modules

MASKS = ("attention_mask", "attn_mask", "mask", "keep")
KEY_MASKS = ("key_padding_mask", "padding_mask")
WEIGHTS = ("output_attentions", "need_weights", "return_weights", "return_attention", "return_attn")
CACHES = ("past_key_values", "past_key_value", "layer_past", "kv_cache", "cache")
FUSED = ("flash", "use_flash", "use_flash_attn", "fused_attn", "use_sdpa", "use_fused", "fused")  # attributes
WRITTEN_OUT, KERNELS = ("explicit", "eager", "math", "naive"), ("fused", "sdpa", "flash")  # values of an attribute
POSITIONS = "position_ids"


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
        call: (module, x, **options) -> output, or None to call the module itself.
        make_cache: x -> empty cache, for modules that take one as an argument; None if they make it themselves.
        causal: whether a token must not see later ones.
    """

    module: nn.Module
    x: Tensor
    call: Callable[..., Any] | None = None
    make_cache: Callable[[Tensor], Any] | None = None
    causal: bool = True

    @cached_property
    def parameters(self) -> set[str]:
        """The names of the arguments that the model takes besides x."""
        target = self.module.forward if self.call is None else self.call
        return set(inspect.signature(target).parameters)

    def offers(self, *names: str) -> str | None:
        """Return the first of some arguments that the model takes."""
        if self.is_pretrained and names == WEIGHTS:  # among the keyword arguments of all its models
            return names[0]
        return next((name for name in names if name in self.parameters), None)

    @property
    def takes_ids(self) -> bool:
        return not self.x.is_floating_point()

    @property
    def is_pretrained(self) -> bool:
        """Whether it follows the conventions of transformers."""
        return hasattr(self.module, "config") and hasattr(self.module, "set_attn_implementation")

    def result(self, x: Tensor, *, module: nn.Module | None = None, seed: int = 0, **options: Any) -> Any:
        """Run the module or a copy of it, with the random numbers of a seed.

        Raises:
            CannotRun: it raised.
        """
        module = self.module if module is None else module
        run = module if self.call is None else lambda *given, **more: self.call(module, *given, **more)  # type: ignore[misc]
        with torch.random.fork_rng(devices=[]), torch.no_grad():
            torch.default_generator.manual_seed(seed)
            try:
                return run(x.clone(), **options)
            except Exception as error:
                raise CannotRun(f"{type(error).__name__}: {error}".splitlines()[0]) from error

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

    def copy(self) -> nn.Module:
        """Return a copy of the module."""
        return copy.deepcopy(self.module)

    def changed(self, x: Tensor, at: Any) -> Tensor:
        """Return x with other tokens at an index of (batch, token)."""
        other = x.clone()
        if self.takes_ids:  # the next of the ids that occur in x, so that it is in the vocabulary
            known = self.x.unique()
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

    @contextmanager
    def fused(self, on: bool) -> Iterator[nn.Module]:
        """Give a copy of the module that uses the fused kernel, or the formula written out.

        Raises:
            NotOffered: it has no such switch.
        """
        if self.is_pretrained:
            yield self._with_implementation("sdpa" if on else "eager")
            return
        module = self.copy()
        if not sum(_switch(one, on) for one in module.modules()):
            raise NotOffered("it has no switch for a fused kernel")
        yield module

    def _with_implementation(self, name: str) -> nn.Module:
        """Return a model of transformers with the same weights that was built for another kernel.

        It is built anew because some families choose the classes of their attention when they are built.
        """
        try:
            config = copy.deepcopy(self.module.config)
            module = type(self.module)._from_config(config, attn_implementation=name)  # type: ignore[operator]
        except (ValueError, ImportError, NotImplementedError) as error:
            raise NotOffered(str(error).splitlines()[0].partition(". ")[0]) from error
        module.load_state_dict(self.module.state_dict(), strict=False)
        module = module.to(next(self.module.parameters()).dtype)
        module.eval()
        return module


def _switch(module: nn.Module, on: bool) -> bool:
    """Switch the fused kernel of one module on or off; return whether it has a switch."""
    for name, value in list(vars(module).items()):
        if name in FUSED and isinstance(value, bool):
            setattr(module, name, on)
            return True
        if isinstance(value, str) and value in (*WRITTEN_OUT, *KERNELS):
            # Its other values are unknown; the usual word of the same vocabulary is tried.
            pairs: dict[str, str] = {"explicit": "fused", "eager": "sdpa", "math": "flash"}
            other = pairs if on else {kernel: plain for plain, kernel in pairs.items()}
            setattr(module, name, other.get(value, value))
            return True
    return False


def first_output(result: Any, x: Tensor) -> Tensor:
    """Return the first tensor of a result with a row for each token of x.

    Raises:
        CannotRun: there is none.
    """
    if hasattr(result, "logits"):
        result = [result.logits]
    found = [one for one in tensors_in(result) if one.dim() > 2 and one.shape[:2] == x.shape[:2]]
    if not found:
        raise CannotRun("no tensor in its result has a row per token")
    return found[0]


def cache_in(result: Any) -> Any:
    """Return the cache in a result of transformers' conventions; None if there is none."""
    return next((getattr(result, name) for name in CACHES if getattr(result, name, None) is not None), None)
