"""What stands around students' code: bubblewrap on Linux, a container elsewhere, or nothing if the teacher insists."""

from __future__ import annotations

import json
import os
import shutil
import sys
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from . import bubblewrap, container
from .places import COURSE, INSIDE, ONE_THREAD

# Python is started without the environment's paths and the current folder's, so it is told where things are.
START = "import runpy, sys; sys.path[:0] = {paths!r}; runpy.run_module('inside.{module}', run_name='__main__')"
UNSAFE = (
    "students' code would run as you, with your files, your network and your passwords in reach. "
    "Say --unsafe only for code that you would run yourself"
)


class NoSandbox(ValueError):
    """Nothing can be put around students' code here; the sentence says what to do."""


@dataclass(frozen=True)
class Walls:
    """How a process is started behind walls.

    Attributes:
        name: for the teacher.
        warm: whether notebooks can be forks of one process that has imported torch.
        alone: whether each of these gets namespaces of its own.
        image: of the container.
        hidden: folders that must not be seen, even if they lie within what is shown.
    """

    name: str
    warm: bool = True
    alone: bool = True
    image: str | None = None
    hidden: tuple[str, ...] = field(default=())

    def command(self, module: str, settings: dict[str, Any]) -> list[str]:
        """The words that start a module of `inside` behind these walls.

        Args:
            module: "template" or "once".
            settings: for the module, as Sandbox makes them.

        Raises:
            NoSandbox: a hidden folder can't be hidden.
        """
        real = settings["real_course"]
        if self.name == "nothing":
            paths = [str(INSIDE.parent), str(COURSE.parent)] if real else [str(INSIDE.parent)]
            return _python(sys.executable, paths, module, settings)
        paths = ["/sandbox", "/sandbox/course"] if real else ["/sandbox"]
        if self.image:
            around = container.words(self.name, self.image, real, settings["memory"], settings["disk"])
            return [*around, *_python("python", paths, module, settings)]
        try:
            around = bubblewrap.words(self.hidden, real, settings["disk"], single=module == "once")
        except ValueError as error:
            raise NoSandbox(str(error)) from None
        return [*around, *_python(sys.executable, paths, module, settings)]

    def environment(self) -> dict[str, str]:
        """What the command may know of the teacher's environment: behind bubblewrap, nothing."""
        return dict(bubblewrap.ENVIRONMENT) if self.name == "bubblewrap" else {**os.environ, **ONE_THREAD}


def choose(unsafe: bool = False, image: str | None = None, hidden: Iterable[Path] = ()) -> Walls:
    """Find what can be put around students' code.

    Args:
        unsafe: whether to go without, if there is nothing.
        image: of a container with Python and torch, see the Dockerfile here; without it only bubblewrap is tried.
        hidden: folders that students' code must not see: what was handed in, the results.

    Raises:
        NoSandbox: there is nothing, and unsafe is False.
    """
    out_of_sight = tuple(str(path.resolve()) for path in hidden)
    if sys.platform == "win32":  # neither processes that fork nor sockets that carry files
        raise NoSandbox("Students' code can't be shut in on Windows itself: run `course grade` in WSL.")
    if image is None:
        tried = bubblewrap.wrong(out_of_sight)
        if tried is None:
            return Walls("bubblewrap", hidden=out_of_sight)
    else:
        engine = next((name for name in ("docker", "podman") if shutil.which(name)), None)
        if engine is not None:
            return Walls(engine, warm=False, image=image)
        tried = "neither docker nor podman is there"
    if unsafe:
        return Walls("nothing", alone=False)
    raise NoSandbox(
        f"There is nothing to shut students' code in: {tried}. Install bubblewrap (on Debian and Ubuntu: "
        f"apt install bubblewrap), or give --image with docker or podman. Without a sandbox {UNSAFE}."
    )


def _python(program: str, paths: list[str], module: str, settings: dict[str, Any]) -> list[str]:
    return [program, "-I", "-c", START.format(paths=paths, module=module), json.dumps(settings)]
