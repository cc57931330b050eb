"""Run a set-up file, whose `build()` says in Python what is examined, on which x and with which options."""

from pathlib import Path
from typing import Any

from course_lib.command.clone import CourseError

from .errors import because
from .opening import Opened, load
from .target import Target

FORM = "(module, x, options), such as return MyAttention(24, 6), torch.randn(2, 5, 24), dict(num_heads=6)"


def open_setup(file: str, device: str | None = None) -> tuple[Opened, Any, dict[str, Any]]:
    """Return what the `build()` of a file gave: the code, x, and the options of `diagnose`.

    Raises:
        CourseError: the file is missing, can't be imported or has no `build`, or that returned something else.
    """
    import torch

    from .device import building_on

    if not Path(file).is_file():
        raise CourseError(f"--setup {file}: there is no such file; give its path from {Path.cwd()}.")
    torch.manual_seed(0)
    with building_on(device):
        module, notes = load(Target(file, "build", Path(file).resolve()))
        try:
            setup = module.build()
        except Exception as error:
            raise because(f"build() of {file} failed", error) from error
    if not (isinstance(setup, tuple) and len(setup) == 3 and callable(setup[0]) and isinstance(setup[2], dict)):
        kind = f"{len(setup)} things" if isinstance(setup, tuple) else type(setup).__name__
        raise CourseError(f"build() of {file} must return {FORM}; it returned {kind}.")
    code, x, options = setup
    return Opened(code, options.pop("call", None), module, notes), x, options
