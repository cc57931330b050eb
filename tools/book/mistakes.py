"""Make the book's mistake catalogue: one page per mistake, from code that makes it and the doctor's report."""

import re
from concurrent.futures import ProcessPoolExecutor
from contextlib import nullcontext
from functools import partial
from itertools import groupby
from multiprocessing import get_context
from pathlib import Path

import torch

from course_lib.mistakes import CATALOGUE, Mistake

from .markdown import table, toctree
from .mistake_code import read_example, run_example
from .mistake_page import mistake_page

ROOT = Path(__file__).resolve().parents[2]
INTRO = """\
# Mistakes

Attention code with a mistake seldom fails: shapes are right, rows sum to 1, training goes on. These {number} mistakes
are the ones that the doctor knows by name. Each page shows code that makes one of them, what the doctor says of this
very code, and the line to write instead, which was run too. For your own code: `diagnose(module, x)`.

"""


def write_pages(folder: Path, workers: int = 1) -> list[Path]:
    """Write a page for each mistake of the catalogue and their index, and return them, the index first.

    Pictures are written beside the pages; the workers are processes that share the work.
    """
    folder.mkdir(parents=True, exist_ok=True)
    index = folder / "index.md"
    index.write_text(index_page(lessons()), encoding="utf-8")
    with ProcessPoolExecutor(workers, get_context("spawn")) if workers > 1 else nullcontext() as pool:
        in_turn = map if pool is None else partial(pool.map, chunksize=2)
        return [index, *in_turn(partial(write_page, folder), CATALOGUE.values())]


def write_page(folder: Path, mistake: Mistake) -> Path:
    """Diagnose the example of a mistake and write its page."""
    torch.set_num_threads(1)  # the diagnosed modules are tiny: more threads only wait for each other
    example = read_example(mistake.example)
    found = run_example(example.wrong, example.call)
    picture = found.findings[0].picture
    if picture is not None:
        picture.save(folder / f"{mistake.id}.svg")
    page = folder / f"{mistake.id}.md"
    page.write_text(mistake_page(mistake, example, found, picture, lessons()[mistake.lesson]), encoding="utf-8")
    return page


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
