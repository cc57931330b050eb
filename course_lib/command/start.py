"""Make a learner's own copies of the notebooks, or bring them up to date; what the learner has written stays."""

import argparse
import shlex
import shutil
import sys
from pathlib import Path

from course_lib.command.root import CourseError, repository
from course_lib.workspace import FOLDER, FOLDERS, Copied, copy_notebooks, course_notebooks, find_workspace

NAME, HELP = "start", f"copy the notebooks to a folder of your own ({FOLDER})"
OWN_OPTIONS = True


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("folder", nargs="?", type=Path, help=f"where to put them (default: {FOLDER})")
    parser.add_argument(
        "--again", nargs="+", default=[], metavar="NAME",
        help="copy these anew, such as 03_wrapper; your own file is renamed, never lost",
    )  # fmt: skip


def run(args: argparse.Namespace) -> int:
    """Copy, and say where the copies are."""
    workspace = (args.folder or default_workspace()).resolve()
    for sentence in bring_up_to_date(workspace, tuple(args.again)):
        print(sentence)
    change = "" if workspace == default_workspace().resolve() else f"cd {shlex.quote(str(workspace))} && "
    print(f"Your notebooks are in {workspace}. Open them with: {change}{course_word()} lab")
    return 0


def course_word() -> str:
    """Return what to type for this command: its name where the shell finds it, else its path."""
    own = Path(sys.executable).with_name("course")
    found = shutil.which("course")
    return "course" if found and Path(found).parent == own.parent else str(own)


def default_workspace() -> Path:
    """Return the workspace that the current folder lies in; else the clone's own, else one in the current folder."""
    if found := find_workspace(Path.cwd()):
        return found
    try:
        return repository() / FOLDER
    except CourseError:
        return Path.cwd() / FOLDER


def bring_up_to_date(workspace: Path, again: tuple[str, ...] = ()) -> list[str]:
    """Copy what has to be copied and return a sentence for each thing that the learner should know.

    Raises:
        CourseError: the notebooks are missing, a name is unknown, or the folder can't be written.
    """
    try:
        return _said(copy_notebooks(course_notebooks(), workspace, again))
    except NotADirectoryError:
        raise CourseError(f"{workspace} is a file: name a folder, which may be new.") from None
    except (ValueError, OSError) as error:
        raise CourseError(str(error)) from None


def _said(done: Copied) -> list[str]:
    said = [f"{len(done.new)} notebooks copied."] if done.new else []
    if done.updated:
        said.append(f"Newer versions copied of: {', '.join(done.updated)}.")
    said += [f"{name} is copied anew; your own is now {kept}." for name, kept in done.renamed.items()]
    if done.behind:
        first = done.behind[0].removesuffix(".ipynb").removeprefix(f"{FOLDERS['']}/")
        said.append(
            f"You have worked on {', '.join(done.behind)}, and there is a newer version. Yours stays as it is; "
            f"`{course_word()} start --again {first}` copies the newer one and keeps yours under another name."
        )
    return said
