"""Stand in for packages that a file imports and that are not installed, such as a tokenizer or a logger.

Most attention runs without them. Where a stand-in meets a tensor after all, it says which package is needed.
"""

from __future__ import annotations

import importlib.machinery
import sys
import types
from collections.abc import Iterator, Sequence
from typing import Any


class StandInUsed(RuntimeError):
    """Raised where the run needs what only stands in for a package that is not installed."""

    def __init__(self, name: object) -> None:
        package = str(name).split(".")[0].split("(")[0]
        super().__init__(
            f"{name} is needed here, and {package} is not installed: install it, by the name that the code's "
            f"requirements give it, or examine code that does without it"
        )


def refusal_of(error: Exception) -> Exception:
    """Turn an error of PyTorch about a stand-in into StandInUsed; return any other error as it is."""
    trace = error.__traceback__
    while StandIn.__name__ in str(error) and trace is not None:
        stand_in = next(_stand_ins(trace.tb_frame.f_locals.values()), None)
        if trace.tb_next is None and stand_in is not None:
            return StandInUsed(stand_in).with_traceback(error.__traceback__)
        trace = trace.tb_next
    return error


class StandIn:
    """Stands in for a name of a missing package: as a decorator, a base class, an annotation or a logger."""

    def __init__(self, name: str) -> None:
        self.__dict__["stand_in_name"] = name

    def __repr__(self) -> str:
        return self.stand_in_name

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return StandIn(f"{self}.{name}")

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if args and _is_parameter(args[0]) and self.stand_in_name.endswith("_"):
            return args[0]  # it would have initialised a parameter, as trunc_normal_ does; any values will do
        _refuse_tensors(self, (*args, *kwargs.values()))
        if len(args) == 1 and not kwargs and isinstance(args[0], (type, types.FunctionType)):
            return args[0]  # it decorates a function or a class
        return StandIn(str(self) if str(self).endswith("(...)") else f"{self}(...)")

    def __getitem__(self, key: Any) -> StandIn:
        _refuse_tensors(self, (key,))
        return self

    def __setitem__(self, key: Any, value: Any) -> None:
        _refuse_tensors(self, (key, value))

    def __iter__(self) -> Iterator[Any]:
        raise StandInUsed(self)

    def __bool__(self) -> bool:  # such as flash_attn.is_available()
        return False

    def __or__(self, other: Any) -> Any:  # in annotations
        return self

    __ror__ = __or__

    def __enter__(self) -> StandIn:
        return self

    def __exit__(self, *error: object) -> None:
        return None

    def __instancecheck__(self, instance: Any) -> bool:
        return False

    def __subclasscheck__(self, cls: type) -> bool:
        return False

    def __mro_entries__(self, bases: tuple[Any, ...]) -> tuple[type, ...]:
        """Return what a class has as its base instead: a module if the name says so."""
        from torch import nn

        if self.stand_in_name.endswith(("Module", "Model", "Layer")) and nn.Module not in bases:
            return (nn.Module,)
        return ()

    def __deepcopy__(self, memory: dict[int, Any]) -> StandIn:
        return self

    @classmethod
    def __torch_function__(cls, func: Any, kinds: Any, args: tuple = (), kwargs: dict[str, Any] | None = None) -> Any:
        stand_in = next(_stand_ins((*args, *(kwargs or {}).values())), None)
        raise StandInUsed("a package that is stood in for" if stand_in is None else stand_in)


def _refuse(self: StandIn, *others: Any) -> Any:
    raise StandInUsed(self)


OPERATORS = ["add", "sub", "mul", "matmul", "truediv", "floordiv", "mod", "pow"]
for _name in [
    *OPERATORS,
    *(f"r{name}" for name in OPERATORS),
    *["lt", "le", "gt", "ge", "int", "float", "index", "len"],
]:
    setattr(StandIn, f"__{_name}__", _refuse)


class StandInModule(types.ModuleType):
    """A missing package or module, whose names are all there."""

    __version__ = "0"

    def __getattr__(self, name: str) -> StandIn:
        if name.startswith("__"):
            raise AttributeError(name)
        return StandIn(f"{self.__name__}.{name}")


class StandIns:
    """Finds modules of the packages in `names` that no other finder finds."""

    def __init__(self) -> None:
        self.names: set[str] = set()  # of packages, or of modules in packages that are installed
        self.single: set[str] = set()  # names that an installed module lacks

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> importlib.machinery.ModuleSpec | None:
        """Return how to make a module of a missing package; called by the import system."""
        if not any(name == package or name.startswith(f"{package}.") for package in self.names):
            return None
        return importlib.machinery.ModuleSpec(name, self, is_package=True)  # type: ignore[arg-type]

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> types.ModuleType:
        return StandInModule(spec.name)

    def exec_module(self, module: types.ModuleType) -> None:
        """There is nothing to run."""

    def install(self) -> None:
        """Begin to answer, after every other finder; the stand-ins of earlier files are forgotten."""
        for name, module in list(sys.modules.items()):
            if isinstance(module, StandInModule):
                del sys.modules[name]
        sys.meta_path[:] = [finder for finder in sys.meta_path if not isinstance(finder, StandIns)] + [self]


def _is_parameter(value: Any) -> bool:
    from torch import nn

    return isinstance(value, nn.Parameter)


def _refuse_tensors(stand_in: StandIn, values: Sequence[Any]) -> None:
    import torch

    if any(isinstance(value, torch.Tensor) for value in values):
        raise StandInUsed(stand_in)


def _stand_ins(values: Any) -> Iterator[StandIn]:
    for value in values:
        if isinstance(value, StandIn):
            yield value
        elif isinstance(value, (tuple, list)):
            yield from _stand_ins(value)
