"""Copy the lessons and exercises to a folder of your own, or bring your copies up to date.

Use it if you open the notebooks without `course lab`, which does the same first. What you have written is kept.
"""

import argparse
import shlex
import shutil
import sys
from pathlib import Path

from course_lib.workspace import FOLDER, FOLDERS, Copied, copy_notebooks, course_notebooks, find_workspace

from .clone import CourseError, repository


def arguments(parser: argparse.ArgumentParser) -> None:
    """Add the folder and the notebooks to copy again."""
    parser.add_argument("folder", nargs="?", type=Path, help=f"where to put them (default: {FOLDER})")
    parser.add_argument(
        "--again", nargs="+", default=[], metavar="NAME",
        help="copy these again, such as 03_wrapper; your own file is renamed, never lost",
    )  # fmt: skip


def run(args: argparse.Namespace) -> int:
    """Copy the notebooks and print where the copies are."""
    workspace = (args.folder or default_workspace()).resolve()
    for sentence in bring_up_to_date(workspace, tuple(args.again)):
        print(sentence)
    change = "" if workspace == default_workspace().resolve() else f"cd {shlex.quote(str(workspace))} && "
    print(f"Your notebooks are in {workspace}. Open them with: {change}{command_to_type()} lab")
    return 0


def command_to_type() -> str:
    """Return how to call this command in a shell: by its name if that is found, or else by its path."""
    beside_python = Path(sys.executable).with_name("course")
    on_path = shutil.which("course")
    return "course" if on_path and Path(on_path).parent == beside_python.parent else shlex.quote(str(beside_python))


def default_workspace() -> Path:
    """Return the workspace that the current folder lies in; else the clone's own, else one in the current folder."""
    if workspace := find_workspace(Path.cwd()):
        return workspace
    try:
        return repository() / FOLDER
    except CourseError:
        return Path.cwd() / FOLDER


def bring_up_to_date(workspace: Path, again: tuple[str, ...] = ()) -> list[str]:
    """Copy what is missing or outdated and return a sentence for each thing that the learner should know.

    Raises:
        CourseError: the notebooks are missing, a name is unknown, or the folder can't be written.
    """
    try:
        return _sentences(copy_notebooks(course_notebooks(), workspace, again))
    except NotADirectoryError:
        raise CourseError(f"{workspace} is a file: name a folder; it need not exist yet.") from None
    except (ValueError, OSError) as error:
        raise CourseError(str(error)) from None


def _sentences(done: Copied) -> list[str]:
    sentences = [f"{len(done.new)} notebooks copied."] if done.new else []
    if done.updated:
        sentences.append(f"Newer versions copied of: {', '.join(done.updated)}.")
    sentences += [f"{name} is copied again; your own is now {kept}." for name, kept in done.renamed.items()]
    sentences += [f"{name} is as the course has it: there is nothing to copy." for name in done.unchanged]
    if done.behind:
        first = done.behind[0].removesuffix(".ipynb").removeprefix(f"{FOLDERS['']}/")
        sentences.append(
            f"You have worked on {', '.join(done.behind)}, and there is a newer version. Yours stays as it is; "
            f"`{command_to_type()} start --again {first}` copies the newer one and keeps yours under another name."
        )
    return sentences
