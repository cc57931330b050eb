"""Build a class, call a factory, and leave everything else as it is, to get what is examined."""

import ast
import functools
import inspect
import types
from collections.abc import Callable
from contextlib import suppress
from types import ModuleType
from typing import Any, NamedTuple

from course_lib.command.clone import CourseError

from .errors import because
from .example_arguments import example_of, resized, widths_in
from .names import callables
from .stand_ins import StandIn, StandInUsed, refusal_of
from .target import Target
from .width import width_in

WIDE = 512  # a wider one takes seconds
Heads = tuple[int | None, int | None]  # how many heads and kv heads the code should have, as far as it was said


class Built(NamedTuple):
    """What is examined, sentences on what was guessed for it, and the arguments that are called a width."""

    code: Any
    notes: tuple[str, ...] = ()
    widths: tuple[int, ...] = ()


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
        names = f"it may use torch, nn, SimpleNamespace and the names of {module.__name__}: {callables(module)}"
        remedy = names if isinstance(error, NameError) else ""
        shown = text.removeprefix("_(").removesuffix(")") if text.startswith("_(") else text
        raise because(f"{option} {shown!r} can't be evaluated", error, remedy) from error


def build(definition: Any, target: Target, text: str | None, module: ModuleType, heads: Heads = (None, None)) -> Built:
    """Build a class or call a factory, unless what was named computes attention already.

    The text holds the arguments, as in a call, which are evaluated in the module; if it is None, those that a class
    needs are guessed from their names and the number of heads, and a note says so.

    Raises:
        CourseError: it cannot be built or run.
    """
    from torch import nn

    name = target.name
    if isinstance(definition, StandIn):
        raise CourseError(f"{name} comes from a package that is not installed: {StandInUsed(definition)}.")
    if inspect.isclass(definition):
        built = _instance(definition, name, text, module, heads)
    elif isinstance(definition, nn.Module) or not isinstance(definition, (types.FunctionType, functools.partial)):
        if text is not None:
            raise CourseError(
                f"{name} is neither a class nor a function, so there is nothing to build: leave out --args."
            )
        built = Built(definition)
    else:
        built = _from_factory(definition, name, text, module)
    if not callable(built.code):
        raise CourseError(
            f"{name} is {_a(built.code)}, not attention code: name a class, a module, a function or a factory of "
            f"{target.source}, which has {callables(module)}."
        )
    return built


def _instance(cls: type, name: str, text: str | None, module: ModuleType, heads: Heads) -> Built:
    """Build a class; without --args the arguments are guessed, or chosen smaller than large defaults."""
    if text is not None:
        built = _called(cls, name, text, module)
        return built._replace(notes=_too_wide(built.code, cls, module))
    guess = example_of(cls, module)
    if guess and "..." not in guess:
        return _guessed(cls, name, guess, module, heads)
    built = _called(cls, name, None, module)
    smaller = example_of(cls, module, small=True)
    if width_in(built.code) > WIDE and smaller and "..." not in smaller:
        with suppress(CourseError):
            note = f"built smaller than by default, as {name}({smaller}): give --args for other sizes"
            return _called(cls, name, smaller, module)._replace(notes=(note,))
    return built._replace(notes=_too_wide(built.code, cls, module))


def _guessed(cls: type, name: str, guess: str, module: ModuleType, heads: Heads) -> Built:
    """Return an instance with guessed arguments, or with heads of width 16, for code that wants a wider one.

    Raises:
        CourseError: neither fits; it says what the first raised.
    """
    num_heads = heads[0] or (6 if heads[1] is None else 3 * heads[1])
    num_kv_heads = heads[1] or (2 if num_heads % 2 == 0 else 1)
    first = None
    for head_dim in (4, 16):
        text = resized(guess, num_heads=num_heads, num_kv_heads=num_kv_heads, head_dim=head_dim)
        try:
            note = f"built as {name}({text}), a guess: give --args for your own"
            return _called(cls, name, text, module)._replace(notes=(note,))
        except CourseError as error:
            first = first or error
    why = str(first).removesuffix("; change --args.").removesuffix(".")
    raise CourseError(f"{why}. These arguments are a guess: give --args, or a file with build() and --setup FILE.")


def _too_wide(instance: Any, cls: type, module: ModuleType) -> tuple[str, ...]:
    width = width_in(instance)
    if width <= WIDE:
        return ()
    smaller = example_of(cls, module, small=True)
    example = f', such as --args "{smaller}"' if smaller and "..." not in smaller else ""
    return (f"a width of {width} takes long, and a small one shows the same mistakes{example}",)


def _from_factory(function: Callable, name: str, text: str | None, module: ModuleType) -> Built:
    """Return the module that a function builds, or the function itself if it builds none."""
    from torch import nn

    if text is None and not _accepts(function):
        return Built(function)
    may_be_attention = text is None and inspect.signature(function).parameters  # x is an argument with a default
    try:
        built = _called(function, name, text, module)
    except CourseError:
        if may_be_attention:
            return Built(function)
        raise
    if isinstance(built.code, nn.Module):
        return built
    if may_be_attention:
        return Built(function)
    raise CourseError(
        f"{name}({text or ''}) returned {_a(built.code)}, not a module: leave out --args and say how to run {name} on "
        f'x, for example --call "lambda f, x: f(x, 3)".'
    )


def _called(function: Callable, name: str, text: str | None, module: ModuleType) -> Built:
    from course_lib.tracing import set_in_script

    words, options = _arguments(text or "", module)
    try:
        return Built(function(*words, **options), widths=_widths(function, *words, **options))
    except Exception as error:
        refused = refusal_of(error)
        remedy = "change --args" if text and not isinstance(refused, StandInUsed) else ""
        remedy = set_in_script(refused) or remedy
        if not _accepts(function, *words, **options):
            remedy = f'give --args, such as --args "{example_of(function, module)}"'
        raise because(f"{name}({text or ''}) could not be built", refused, remedy) from error


def _arguments(text: str, module: ModuleType) -> tuple[tuple[Any, ...], dict[str, Any]]:
    try:
        call = ast.parse(f"_({text})", mode="eval").body
        if not isinstance(call, ast.Call) or ast.unparse(call.func) != "_":
            raise SyntaxError("its brackets don't match")
    except SyntaxError as error:
        what = f"--args {text!r} is not what stands between the brackets of a call"
        raise because(what, error, 'write it as in "3, 4, num_heads=2"') from None
    return evaluate("--args", f"_({text})", module, _=lambda *words, **options: (words, options))


def _accepts(function: Callable, *words: Any, **options: Any) -> bool:
    try:
        inspect.signature(function).bind(*words, **options)
    except TypeError:
        return False
    except ValueError:  # it has no signature
        pass
    return True


def _widths(function: Callable, *words: Any, **options: Any) -> tuple[int, ...]:
    try:
        bound = inspect.signature(function).bind(*words, **options)
    except (TypeError, ValueError):  # it has no signature, or one that lies
        return ()
    bound.apply_defaults()
    return widths_in(bound.arguments)


def _a(value: Any) -> str:
    kind = type(value).__name__
    return f"a{'n' * (kind[0] in 'aeiouAEIOU')} {kind}"
