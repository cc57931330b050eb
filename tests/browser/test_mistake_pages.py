"""The mistake pages of the built book: what they say is what the doctor said of the code on them."""

import re

import pytest

from course_lib.mistakes import CATALOGUE
from tools.book.mistakes import read_example

from .site import HTML

SECTIONS = ("How it looks", "How it shows", "Write this instead", "Where it is met")
every_mistake = pytest.mark.parametrize("mistake", CATALOGUE.values(), ids=list(CATALOGUE))


@pytest.fixture(scope="module")
def folder():
    """The pages that the book was built from, with their pictures."""
    folder = HTML.parent / "source" / "mistakes"
    assert folder.exists(), "The book has not been built: run `make book` first."
    return folder


def page_of(folder, mistake):
    return (folder / f"{mistake.id}.md").read_text(encoding="utf-8")


def test_the_families_hold_the_whole_catalogue(folder):
    index = (folder / "index.md").read_text(encoding="utf-8")
    assert re.findall(r"^\| \[.*?\]\((.+?)\.md\)", index, re.MULTILINE) == list(CATALOGUE)
    assert index.endswith("\n".join([":hidden:", "", *CATALOGUE, "```", ""]))


@every_mistake
def test_a_page_has_all_its_parts(folder, mistake):
    page = page_of(folder, mistake)
    assert page.startswith(f"# {mistake.title.removesuffix('.')}\n\n`{mistake.id}`\n\n{mistake.explanation}\n")
    assert tuple(re.findall(r"^## (.+)$", page, re.MULTILINE)) == SECTIONS
    for words in (mistake.shows, mistake.seen, mistake.hint, "With this the doctor finds nothing."):
        assert words in page
    assert re.search(rf"^Lesson \[{mistake.lesson} .+\]\(\.\./notebooks/{mistake.lesson}_\w+\.ipynb\)", page, re.M)


@every_mistake
def test_what_to_write_instead_shows_its_place_in_the_code_above(folder, mistake):
    above = read_example(mistake.example).wrong.splitlines()
    groups = page_of(folder, mistake).split("```diff\n@@ from line ")[1].split("\n```")[0].split("\n@@ from line ")
    for group in groups:
        head, *lines = group.splitlines()
        start = int(head.removesuffix(" on @@")) - 1
        kept = [line[2:].strip() for line in lines if line[:1] != "+"]
        assert kept == [line.strip() for line in above[start : start + len(kept)]]
        signs = [line[:1] or " " for line in lines]
        assert {*signs} - {" "} and {*signs} <= {"-", "+", " "}
        assert " " in (signs[0], signs[-1]), "nothing says where it goes"
    assert any(line.startswith("- ") for group in groups for line in group.splitlines())


@every_mistake
def test_a_page_lists_what_one_may_notice_and_is_found_by_it(folder, mistake):
    notices = mistake.notices
    page = page_of(folder, mistake)
    listed = "".join(f"\n- {notice}" for notice in notices)
    assert "\n\n**You may notice:**\n\n```{index}" in page and f"\n{listed}\n\n## How it looks\n" in page
    for notice in notices:
        assert f"```{{index}} single: {notice[:-1].replace('`', '')}\n```\n" in page
    assert "you may notice" not in page


def test_each_picture_has_words_and_stands_on_its_page(folder):
    pictures = {path.stem for path in folder.glob("*.svg")}
    shown = {path.stem for path in folder.glob("*.md") if "```{figure}" in path.read_text(encoding="utf-8")}
    assert pictures == shown
    assert {"mask-discarded", "split-without-transpose", "heads-share-scores", "wrong-scale"} <= pictures
    for name in pictures:
        page = (folder / f"{name}.md").read_text(encoding="utf-8")
        assert re.search(rf'```{{figure}} {name}\.svg\n:alt: ".{{40,}}"\n\n.+\n```', page)
