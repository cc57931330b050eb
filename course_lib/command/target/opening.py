"""Open a target: import it as far as needed, build it, and say what was done for that."""

import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from types import ModuleType
from typing import Any

from course_lib.command.clone import CourseError

from .building import Heads, build, evaluate
from .importing import Importer
from .names import callables, names_in
from .partial_import import left_out
from .target import Target

SETUP = "run it in the folder that has what it needs, or write a file with build() and give --setup FILE"


@dataclass(frozen=True)
class Opened:
    """What a target stands for.

    Attributes:
        code: the module or function.
        call: the function (code, x) that runs it, or None.
        module: the Python module that holds it, in which options are evaluated.
        notes: what was stood in for, left out or guessed, in whole sentences.
        widths: the arguments of which it was built that are called a width, such as d_model.
    """

    code: Any
    call: Callable[..., Any] | None
    module: ModuleType
    notes: tuple[str, ...] = ()
    widths: tuple[int, ...] = ()


def open_target(
    target: Target,
    args: str | None = None,
    call: str | None = None,
    device: str | None = None,
    names: tuple[str | None, ...] = (),
    heads: Heads = (None, None),
) -> Opened:
    """Import and build what a target names.

    Args:
        args: what a class or factory is called with, as between the brackets of a call; None if nothing was given.
        call: a function of (code, x) as text.
        device: "cpu", "cuda" or "mps", to build it there whatever device it asks for.
        names: texts of other options, whose names of the file have to be there, too.
        heads: how many heads and kv heads a class gets whose arguments are guessed.

    Raises:
        CourseError: it can't be imported or built; the message gives the reason and the way out.
    """
    import torch

    from .device import building_on

    torch.manual_seed(0)  # the same weights, and so the same results, each time
    with building_on(device):
        module, notes = load(target, names_in(args, call, *names))
        try:
            built = build(getattr(module, target.name), target, args, module, heads)
        except CourseError as error:
            raise CourseError(" ".join([str(error), *(f"Before that: {note}." for note in notes)])) from error
    function = None if call is None else evaluate("--call", call, module)
    if function is not None and not callable(function):
        raise CourseError(f'--call {call!r} is not a function of (code, x): give one such as "lambda m, x: m(x)[0]".')
    return Opened(built.code, function, module, (*notes, *built.notes), built.widths)


def load(target: Target, names: set[str] = frozenset()) -> tuple[ModuleType, tuple[str, ...]]:  # type: ignore[assignment]
    """Import the module of a target, and return it with sentences on what was stood in for and left out.

    Raises:
        CourseError: it can't be imported, or does not have the name.
    """
    importer = Importer(target, names)
    module = importer.module()
    if hasattr(module, target.name):
        return module, tuple(_notes(importer, module))
    if failed := next((omission for omission in left_out(module) if target.name in omission.names), None):
        raise CourseError(f"{target.source} has no {target.name}, because this failed: {failed}; {SETUP}.")
    if target.path in importer.parts.files and importer.errors:
        raise importer.refusal()
    raise CourseError(f"{target.source} has no {target.name}; it has {callables(module)}.")


def _notes(importer: Importer, module: ModuleType) -> Iterator[str]:
    missing, failed = importer.stand_ins.names, importer.stand_ins.single
    if missing:
        yield f"stood in for: {', '.join(sorted(missing))} (not installed here)"
    if failed:
        yield f"stood in for: {', '.join(sorted(failed))} (could not be imported)"
    modules = [loaded for loaded in list(sys.modules.values()) if isinstance(loaded, ModuleType)]
    lost = [statement for loaded in dict.fromkeys([module, *modules]) for statement in left_out(loaded)]
    if len(lost) > 1:
        yield f"left out, because they failed: {len(lost)} statements, the first of them {lost[0]}"
        lost = [omission for omission in lost[1:] if omission.is_read]
    yield from (f"left out, because it failed: {omission}" for omission in lost)
