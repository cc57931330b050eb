"""Run stored notebooks in kernels of a different environment, and compare the outputs with those that are stored."""

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

from tools.notebooks import Lesson, find_notebooks, lesson_arguments, read_address, run_pytest

from . import colab

ROOT = Path(__file__).resolve().parents[2]
KERNEL = "another-environment"


def main(argv: list[str] | None = None) -> int:
    """Return 0 only if every notebook ran and every cell reproduced its stored outputs."""
    parser = argparse.ArgumentParser(prog="python -m tools.versions", description=__doc__)
    parser.add_argument("python", type=Path, help="the interpreter of the environment")
    parser.add_argument("names", nargs="*", metavar="NAME", help="only these notebooks, such as 01 or exercises/05")
    parser.add_argument("--as-colab", action="store_true", help="the setup cell of each notebook installs the course")
    args = parser.parse_args(argv)
    try:
        lessons = find_notebooks(ROOT, args.names)
    except ValueError as error:
        parser.error(str(error))
    with tempfile.TemporaryDirectory() as temporary:
        check = check_as_colab if args.as_colab else check_at_once
        return check(Path(temporary).resolve(), args.python, lessons)


def check_at_once(folder: Path, python: Path, lessons: list[Lesson]) -> int:
    """Run the notebooks in place, in one call of pytest; return its exit status."""
    write_kernel(folder, python)
    return run_pytest(ROOT, lesson_arguments(lessons, KERNEL), environment=surroundings(folder)).status


def check_as_colab(folder: Path, python: Path, lessons: list[Lesson]) -> int:
    """Run each notebook as on a separate machine without the course, which its setup cell installs."""
    address = read_address(ROOT)
    remote = colab.serve_working_tree(ROOT, folder / "remote.git", address)
    write_kernel(folder, python, colab.LAUNCHER, colab.colab_variables(remote, address))
    failed = False
    for lesson in lessons:
        print(lesson.label, flush=True)
        remove_course(python)
        run = run_pytest(ROOT, lesson_arguments([lesson], KERNEL), environment=surroundings(folder))
        failed |= run.status != 0
    return int(failed)


def write_kernel(
    folder: Path, python: Path, module: str = "ipykernel_launcher", variables: dict[str, str] | None = None
) -> None:
    """Write the specification of a kernel, started by `module`, below a folder that JUPYTER_PATH may name."""
    spec = {
        "argv": [str(python), "-m", module, "-f", "{connection_file}"],
        "display_name": KERNEL,
        "language": "python",
        "env": {"COURSE_DEVICE": "cpu", **(variables or {})},
    }
    path = folder / "kernels" / KERNEL / "kernel.json"
    path.parent.mkdir(parents=True)
    path.write_text(json.dumps(spec), encoding="utf-8")


def surroundings(folder: Path) -> dict[str, str]:
    """Return this process's environment variables without those that would lead a kernel back to this Python."""
    kept = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "VIRTUAL_ENV")}
    return {**kept, "JUPYTER_PATH": str(folder)}


def remove_course(python: Path) -> None:
    """Uninstall the course from an environment if it is installed."""
    command = [sys.executable, "-m", "uv", "pip", "uninstall", "--quiet", "--python", str(python), "attention-course"]
    subprocess.run(command, check=True)


if __name__ == "__main__":
    sys.exit(main())
