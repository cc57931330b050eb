"""Run every lesson and exercise with other versions: what Colab has, the oldest allowed ones, the newest there are.

Each set gets a fresh environment, about 5 GB, one at a time; all three take a quarter of an hour.
"""

import argparse
import shutil
import tempfile
from pathlib import Path

from course_lib.command.root import CourseError, repository

NAME, HELP = "test-versions", "run every notebook with Colab's, the oldest and the newest versions"
OWN_OPTIONS = True
NEEDS = ("dev", "uv", "nbclient", "nbformat")

STORED = Path("book/versions.json")


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("sets", nargs="*", metavar="SET", help="only these: colab, oldest, newest")
    parser.add_argument("--lessons", nargs="+", default=[], metavar="NAME", help="only these, such as 01 exercises/05")
    parser.add_argument("--keep", metavar="DIR", help="keep the environments here, and use those that are here")
    parser.add_argument("--save", action="store_true", help=f"store the result of a whole run in {STORED}")
    parser.add_argument("--cpu", action="store_true", help="install PyTorch's small CPU build")


def run(args: argparse.Namespace) -> int:
    """Run the sets one after the other and print the table; 0 only when every cell of every notebook was equal."""
    from course_lib.lessons.discover import find_notebooks
    from course_lib.lessons.version_results import EQUAL, SetResult, problems, store, table
    from course_lib.lessons.versions import EnvironmentFailed, FolderRefused, choose_sets

    root = repository()
    if args.save and (args.sets or args.lessons):
        raise CourseError("--save stores a whole run: leave out the names of sets and lessons.")
    if shutil.which("git") is None:
        raise CourseError("git, from which the setup cell installs the course, is missing: install it.")
    try:
        sets, lessons = choose_sets(args.sets), find_notebooks(root, args.lessons)
    except ValueError as error:
        raise CourseError(str(error)) from None
    results = []
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as temporary:
        work = Path(temporary).resolve()
        for chosen in sets:
            environment = (Path(args.keep).resolve() if args.keep else work) / chosen.name
            try:
                results.append(try_set(chosen, lessons, root, environment, work / f"{chosen.name}-run", cpu=args.cpu))
            except FolderRefused as error:
                raise CourseError(str(error)) from None
            except EnvironmentFailed as error:  # the other sets may still say something
                results.append(SetResult(chosen.name, problems=[str(error)]))
            if not args.keep:
                shutil.rmtree(environment, ignore_errors=True)  # before the next one takes its 5 GB
    print(table(results))
    for line in problems(results):
        print(line)
    if args.save and all(result.notebooks for result in results):
        store(results, root / STORED)
        print(f"Stored in {STORED}.")
    return 0 if all(result.verdict == EQUAL for result in results) else 1


def try_set(chosen, lessons, root, environment, work, *, cpu=False):
    """Make the environment of a set of versions, run the notebooks in it, a line each, and return what they gave."""
    from course_lib.lessons import colab
    from course_lib.lessons.address import read_address
    from course_lib.lessons.version_results import SetResult
    from course_lib.lessons.version_run import Kernel, execute, run_notebook
    from course_lib.lessons.versions import COLAB, install_course, installed, make_environment, python_of, remove_course

    print(f"{chosen.name}: making the environment with Python {chosen.python}", flush=True)
    make_environment(environment, chosen, root, cpu=cpu)
    address = read_address(root)
    remote = colab.serve_working_tree(root, work / "remote.git", address)
    result = SetResult(chosen.name)
    if chosen == COLAB:
        colab.put_stand_in(root, python_of(environment))
        kernel = Kernel(python_of(environment), colab.LAUNCHER, colab.git_settings(remote, address))
        remove_course(environment, chosen)
        before = installed(environment, chosen)
        trial = colab.setup_notebook(address)
        broke = execute(trial, kernel, empty_folder(work, "setup"))
        result.problems = [broke] if broke else colab.setup_problems(trial, before, installed(environment, chosen))
    else:
        kernel = Kernel(python_of(environment))
        install_course(environment, chosen, f"git+{remote}@{address.ref}")
    result.versions = installed(environment, chosen)
    if chosen == COLAB:
        result.problems += colab.unlisted(colab.read_list(root / colab.COLAB_LIST), result.versions)
    for lesson in lessons:
        folder = lesson.folder
        if chosen == COLAB:  # each notebook starts on a machine of its own there
            remove_course(environment, chosen)
            folder = empty_folder(work, lesson.label)
        one = run_notebook(lesson, kernel, folder)
        result.notebooks.append(one)
        print(f"{chosen.name:<8} {one.line}", flush=True)
    return result


def empty_folder(work: Path, name: str) -> Path:
    """Make a new folder, such as Colab starts a notebook in."""
    folder = work / name
    folder.mkdir(parents=True)
    return folder
