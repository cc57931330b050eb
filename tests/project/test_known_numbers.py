"""The book's page of well-known examples: its code prints what stands below it, and lessons lead to its sections."""

import contextlib
import io
import re
from pathlib import Path

import pytest

from tools.notebooks.compare import same_text

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "book" / "known_numbers.md").read_text(encoding="utf-8")
BLOCK = re.compile(r"```python\n(.*?)```\n(?:\n```text\n(.*?)```\n)?", re.DOTALL)
LINK = re.compile(r"github\.io/[\w-]+/known_numbers\.html#([\w-]+)")
SOURCES = sorted((ROOT / "notebooks" / "sources").glob("*.py"))


def wrong_blocks(page):
    """Run the blocks of a page in their order; yield the code of each that prints something else."""
    names = {}
    for code, shown in BLOCK.findall(page):
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            exec(compile(code, "known_numbers.md", "exec"), names)
        if not same_text(shown, printed.getvalue()):
            yield code


def anchors(page):
    titles = re.findall(r"^## (.*)$", page, re.MULTILINE)
    return {re.sub(r"[^\w -]", "", title).lower().replace(" ", "-") for title in titles}


def test_the_code_prints_what_stands_below_it():
    assert len(BLOCK.findall(PAGE)) > 20
    assert list(wrong_blocks(PAGE)) == []


@pytest.mark.parametrize("shown", ["0.7512 [1, 2]", "0.2512 [2, 1]", "0.2512 [1, 2] 3", ""])
def test_another_output_is_found(shown):
    page = "```python\nprint(0.2512, [1, 2])\n```\n\n```text\n{}\n```\n"
    assert not list(wrong_blocks(page.format("0.2512 [1, 2]"))) and list(wrong_blocks(page.format(shown)))


def test_an_output_that_is_missing_is_found():
    assert list(wrong_blocks("```python\nprint(1)\n```\n")) == ["print(1)\n"]


def test_lessons_lead_to_its_sections():
    leads = {path.stem[:2]: LINK.findall(path.read_text(encoding="utf-8")) for path in SOURCES}
    assert {lesson for lesson, found in leads.items() if found} >= {"03", "04", "05", "06"}
    assert {anchor for found in leads.values() for anchor in found} == anchors(PAGE)
