"""Make the book's mistake catalogue: one page per mistake, from code that makes it and the doctor's report."""

import re
from concurrent.futures import ProcessPoolExecutor
from contextlib import nullcontext
from functools import partial
from itertools import groupby
from multiprocessing import get_context
from pathlib import Path

import torch

from course_lib.diagnosis import Report
from course_lib.mistakes import CATALOGUE, EXAMPLE, FOLDER, Mistake

from .markdown import table, toctree
from .mistake_code import Example, read_example, run_example
from .mistake_page import mistake_page

ROOT = Path(__file__).resolve().parents[2]
INTRO = """\
# Mistakes

Attention code with a mistake seldom fails: shapes are right, rows sum to 1, training goes on. These {number} mistakes
are the ones that the doctor knows by name. Each page shows code that makes one of them, what the doctor says of this
very code, and the line to write instead, which was run too. For your own code: `diagnose(module, x)`.

"""


def write_pages(folder: Path, examples: Path = FOLDER, workers: int = 1) -> list[Path]:
    """Write a page for each mistake of the catalogue and their index, and return them, the index first.

    The folder `examples` holds the code, a folder of each mistake's id. Pictures are written beside the pages; the
    workers are processes that share the work.

    Raises:
        ValueError: An example makes a different mistake from the one it is for, or is still wrong when corrected.
    """
    folder.mkdir(parents=True, exist_ok=True)
    index = folder / "index.md"
    index.write_text(index_page(lessons()), encoding="utf-8")
    read = {name: read_example(examples / name / EXAMPLE) for name in CATALOGUE}
    # many corrections lead to the same code: it is diagnosed once
    right = {(example.right, example.call): name for name, example in read.items()}
    with ProcessPoolExecutor(workers, get_context("spawn")) if workers > 1 else nullcontext() as pool:
        in_turn = map if pool is None else partial(pool.map, chunksize=2)
        pages = list(in_turn(partial(write_page, folder), CATALOGUE.values(), read.values()))
        list(in_turn(check_right, right.values(), right))
    return [index, *pages]


def write_page(folder: Path, mistake: Mistake, example: Example) -> Path:
    """Diagnose the code of one mistake and write its page.

    Raises:
        ValueError: The code makes a different mistake, or none.
    """
    torch.set_num_threads(1)  # the diagnosed modules are tiny: more threads only wait for each other
    found = run_example(example.wrong, example.call)
    if found.mistakes != (mistake.id,):
        raise ValueError(
            f"The example of {mistake.id} should make this mistake alone, but the doctor finds {_named(found)}: change "
            "the code."
        )
    picture = found.findings[0].picture
    if picture is not None:
        picture.save(folder / f"{mistake.id}.svg")
    page = folder / f"{mistake.id}.md"
    page.write_text(mistake_page(mistake, example, found, picture, lessons()[mistake.lesson]), encoding="utf-8")
    return page


def check_right(name: str, code: tuple[str, str]) -> None:
    """Diagnose the corrected code of an example.

    Raises:
        ValueError: The doctor finds a mistake in it.
    """
    torch.set_num_threads(1)
    after = run_example(*code)
    if not after.ok:
        raise ValueError(
            f"The example of {name} is not right with the lines it says to write instead: the doctor finds "
            f"{_named(after)}, so they must be corrected."
        )


def lessons() -> dict[str, tuple[str, str]]:
    """Map the number of each lesson to its file and its title, which is the first line of the lesson itself."""
    found = {}
    for path in sorted((ROOT / "notebooks" / "sources").glob("[0-9][0-9]_*.py")):
        title = re.search(r"^# # (.+)$", path.read_text(encoding="utf-8"), re.MULTILINE)
        if title is None:
            raise ValueError(f"{path} has no title: begin its first Markdown cell with a line such as # One head.")
        found[path.name[:2]] = f"../notebooks/{path.stem}.ipynb", title[1]
    return found


def index_page(lessons: dict[str, tuple[str, str]]) -> str:
    """List all mistakes in a table for each of the catalogue's families."""
    parts = [INTRO.format(number=len(CATALOGUE))]
    for family, mistakes in groupby(CATALOGUE.values(), key=lambda mistake: mistake.family):
        heading, about = family.value.split(": ")
        parts.append(f"## {heading}\n\n{about[0].upper()}{about[1:]}\n\n")
        rows = []
        for mistake in mistakes:
            title = f"[{mistake.title.removesuffix('.')}]({mistake.id}.md)"
            file, lesson = lessons[mistake.lesson]
            rows.append((title, mistake.shows, f'[{mistake.lesson}]({file} "{lesson}")'))
        parts.append(table(("mistake", "you see", "lesson"), *rows) + "\n")
    return "".join(parts) + toctree(list(CATALOGUE))


def _named(report: Report) -> str:
    return ", ".join(finding.mistake or finding.title for finding in report.findings) or "nothing"
