"""From the named thing to what is examined: a class is built, a factory called, all else taken as it is."""

from __future__ import annotations

import ast
import functools
import inspect
import types
from collections.abc import Callable
from types import ModuleType
from typing import Any

from course_lib.command.root import CourseError

from .errors import because
from .examples import example_of
from .importing import callables
from .naming import Target


def evaluate(option: str, text: str, module: ModuleType, **more: Any) -> Any:
    """Evaluate what was given as an option as if it stood at the end of the module.

    Args:
        option: its name, for the error.
        text: a Python expression.
        module: whose names may be used, besides `torch`, `nn` and `SimpleNamespace`.
        more: names that hide those of the module.

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
        raise because(f"{option} {_inner(text)!r} can't be evaluated", error, remedy) from error


def build(thing: Any, target: Target, text: str | None, module: ModuleType) -> Any:
    """Build or call what was named, where it is not yet what computes attention.

    Args:
        thing: a class, a module, a function of x, or a function that gives back a module.
        target: its name.
        text: the arguments, as in a call; None if none were given.
        module: in which the arguments are evaluated.

    Raises:
        CourseError: it can't be built, or what there is can't be run.
    """
    from torch import nn

    name = target.name
    if inspect.isclass(thing):
        made = _called(thing, name, text, module)
    elif isinstance(thing, nn.Module) or not isinstance(thing, (types.FunctionType, functools.partial)):
        if text is not None:
            raise CourseError(f"{name} is no class and no function, so there is nothing to build: leave --args out.")
        made = thing
    else:
        made = _from_factory(thing, name, text, module)
    if not callable(made):
        raise CourseError(
            f"{name} is no attention code but {_a(made)}: name a class, a module, a function or a factory of "
            f"{target.place}, which has {callables(module)}."
        )
    return made


def _from_factory(function: Callable, name: str, text: str | None, module: ModuleType) -> Any:
    """What a function gives back, if that is a module; else the function."""
    from torch import nn

    if text is None and not _runs_alone(function):
        return function
    try:
        made = _called(function, name, text, module)
    except CourseError:
        if text is None and inspect.signature(function).parameters:  # x is an argument with a default
            return function
        raise
    if isinstance(made, nn.Module) or (text is None and inspect.signature(function).parameters):
        return made if isinstance(made, nn.Module) else function
    raise CourseError(
        f"{name}({text or ''}) gave back {_a(made)}, no module: leave --args out and say how {name} is run on x, "
        f'such as --call "lambda f, x: f(x, 3)".'
    )


def _called(thing: Callable, name: str, text: str | None, module: ModuleType) -> Any:
    words, options = _arguments(text or "", module)
    try:
        return thing(*words, **options)
    except Exception as error:
        remedy = f"give --args, such as {example}" if (example := _example(thing, words, options, module)) else ""
        remedy = remedy or ("change --args" if text else "")
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


def _example(thing: Callable, words: tuple, options: dict, module: ModuleType) -> str:
    """Arguments to try, if the given ones are not those that are wanted."""
    try:
        inspect.signature(thing).bind(*words, **options)
    except TypeError:
        return f'--args "{example_of(thing, module)}"'
    except ValueError:
        return ""
    return ""


def _runs_alone(function: Callable) -> bool:
    try:
        inspect.signature(function).bind()
    except TypeError:
        return False
    return True


def _inner(text: str) -> str:
    return text[2:-1] if text.startswith("_(") else text


def _a(thing: Any) -> str:
    kind = type(thing).__name__
    return f"a{'n' * (kind[0] in 'aeiouAEIOU')} {kind}"
