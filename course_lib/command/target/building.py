"""Build a class, call a factory, and leave everything else as it is, to get what is examined."""

from __future__ import annotations

import ast
import functools
import inspect
import types
from collections.abc import Callable
from types import ModuleType
from typing import Any

from course_lib.command.clone import CourseError

from .errors import because
from .examples import example_of
from .importing import Target, callables


def evaluate(option: str, text: str, module: ModuleType, **more: Any) -> Any:
    """Evaluate the text of an option as if it were at the end of the module.

    Besides the names of the module it may use `torch`, `nn`, `SimpleNamespace` and `more`, which hides the others.

    Raises:
        CourseError: it can't be evaluated.
    """
    import torch

    known = {"torch": torch, "nn": torch.nn, "SimpleNamespace": types.SimpleNamespace, **vars(module), **more}
    try:
        return eval(compile(text, f"<{option}>", "eval"), known)
    except Exception as error:
        names = f"it may use torch and the names of {module.__name__}: {callables(module)}"
        remedy = names if isinstance(error, NameError) else ""
        shown = text.removeprefix("_(").removesuffix(")") if text.startswith("_(") else text
        raise because(f"{option} {shown!r} can't be evaluated", error, remedy) from error


def build(thing: Any, target: Target, text: str | None, module: ModuleType) -> Any:
    """Build a class or call a factory, unless what was named computes attention already.

    The text holds the arguments, as in a call, which are evaluated in the module; it is None if none were given.

    Raises:
        CourseError: it cannot be built or run.
    """
    from torch import nn

    name = target.name
    if inspect.isclass(thing):
        made = _called(thing, name, text, module)
    elif isinstance(thing, nn.Module) or not isinstance(thing, (types.FunctionType, functools.partial)):
        if text is not None:
            raise CourseError(
                f"{name} is neither a class nor a function, so there is nothing to build: leave out --args."
            )
        made = thing
    else:
        made = _from_factory(thing, name, text, module)
    if not callable(made):
        raise CourseError(
            f"{name} is {_a(made)}, not attention code: name a class, a module, a function or a factory of "
            f"{target.place}, which has {callables(module)}."
        )
    return made


def _from_factory(function: Callable, name: str, text: str | None, module: ModuleType) -> Any:
    """Return the module that a function returns, or the function if it returns something else."""
    from torch import nn

    if text is None and not _accepts(function):
        return function
    may_be_attention = text is None and inspect.signature(function).parameters  # x is an argument with a default
    try:
        made = _called(function, name, text, module)
    except CourseError:
        if may_be_attention:
            return function
        raise
    if isinstance(made, nn.Module):
        return made
    if may_be_attention:
        return function
    raise CourseError(
        f"{name}({text or ''}) returned {_a(made)}, not a module: leave out --args and say how to run {name} on x, "
        f'for example --call "lambda f, x: f(x, 3)".'
    )


def _called(thing: Callable, name: str, text: str | None, module: ModuleType) -> Any:
    words, options = _arguments(text or "", module)
    try:
        return thing(*words, **options)
    except Exception as error:
        remedy = "change --args" if text else ""
        if not _accepts(thing, *words, **options):
            remedy = f'give --args, such as --args "{example_of(thing, module)}"'
        raise because(f"{name}({text or ''}) could not be built", error, remedy) from error


def _arguments(text: str, module: ModuleType) -> tuple[tuple[Any, ...], dict[str, Any]]:
    try:
        call = ast.parse(f"_({text})", mode="eval").body
        if not isinstance(call, ast.Call) or ast.unparse(call.func) != "_":
            raise SyntaxError("its brackets don't match")
    except SyntaxError as error:
        what = f"--args {text!r} is not what stands between the brackets of a call"
        raise because(what, error, 'write it as in "3, 4, num_heads=2"') from None
    return evaluate("--args", f"_({text})", module, _=lambda *words, **options: (words, options))


def _accepts(thing: Callable, *words: Any, **options: Any) -> bool:
    try:
        inspect.signature(thing).bind(*words, **options)
    except TypeError:
        return False
    except ValueError:  # it has no signature
        pass
    return True


def _a(thing: Any) -> str:
    kind = type(thing).__name__
    return f"a{'n' * (kind[0] in 'aeiouAEIOU')} {kind}"
