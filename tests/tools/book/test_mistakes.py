"""The mistake catalogue of the book: what its pages say is what the doctor said of the code on them."""

import os
import re

import pytest
from filelock import FileLock

from course_lib.diagnosis.catalogue import CATALOGUE
from tools.book import mistakes
from tools.book.mistake_code import run_example
from tools.book.mistake_page import diff
from tools.book.mistakes import EXAMPLES, read_example, write_pages

SECTIONS = ("How it looks", "How it shows", "Write this instead", "Where it is met")
NOTICE = "# you may notice: `nan`, and no text.\n"
SMALL = "module = 1\n\n\n# how it is called\nx = 2\n"
every_mistake = pytest.mark.parametrize("mistake", CATALOGUE.values(), ids=list(CATALOGUE))


@pytest.fixture(scope="module")
def folder(tmp_path_factory, worker_id):
    """All pages, made once for all of pytest's workers."""
    if worker_id == "master":
        folder = tmp_path_factory.mktemp("mistakes")
        write_pages(folder, workers=os.cpu_count() or 1)
        return folder
    folder = tmp_path_factory.getbasetemp().parent / "mistakes"
    with FileLock(f"{folder}.lock"):
        if not folder.exists():
            write_pages(folder.with_suffix(".part"), workers=os.cpu_count() or 1)
            folder.with_suffix(".part").rename(folder)
    return folder


def page_of(folder, mistake):
    return (folder / f"{mistake.id}.md").read_text(encoding="utf-8")


def only(monkeypatch, *names):
    """Shorten the catalogue, so that pages are made in no time."""
    monkeypatch.setattr(mistakes, "CATALOGUE", {name: CATALOGUE[name] for name in names})


def test_each_mistake_has_an_example_and_none_is_left_over():
    assert {path.stem for path in EXAMPLES.iterdir()} == set(CATALOGUE)


def test_the_families_hold_the_whole_catalogue(folder):
    index = (folder / "index.md").read_text(encoding="utf-8")
    assert re.findall(r"^\| \[.*?\]\((.+?)\.md\)", index, re.MULTILINE) == list(CATALOGUE)
    assert index.endswith("\n".join([":hidden:", "", *CATALOGUE, "```", ""]))


@every_mistake
def test_the_doctor_names_this_mistake_alone_and_points_to_a_guilty_line(folder, mistake):
    report = " ".join(page_of(folder, mistake).split("```text\n")[1].split("```")[0].split())
    headline = r"Attention: (1 attention found, 1 examined: )?one thing is wrong( in the one at attention\.py:\d+)?\. "
    assert re.match(f"{headline}1. {re.escape(f'{mistake.title} [{mistake.id}]')} Look at attention.py:", report)
    example = read_example(EXAMPLES / f"{mistake.id}.py")
    number, line = re.search(r"attention\.py:(\d+): (.*?) Seen: ", report).groups()
    assert int(number) in example.wrong_lines
    assert line.split() == example.wrong.splitlines()[int(number) - 1].split()


@every_mistake
def test_wrong_and_right_differ_in_the_marked_lines_only(mistake):
    example = read_example(EXAMPLES / f"{mistake.id}.py")
    assert "# wrong" not in example.wrong + example.right
    assert "# instead" not in example.wrong + example.right
    wrong, right = example.wrong.splitlines(), example.right.splitlines()
    unmarked = [line for number, line in enumerate(wrong, 1) if number not in example.wrong_lines]
    remaining = iter(right)
    assert all(line in remaining for line in unmarked)  # in the same order
    assert example.wrong != example.right


@every_mistake
def test_a_page_has_all_its_parts(folder, mistake):
    page = page_of(folder, mistake)
    assert page.startswith(f"# {mistake.title.removesuffix('.')}\n\n`{mistake.id}`\n\n{mistake.explanation}\n")
    assert tuple(re.findall(r"^## (.+)$", page, re.MULTILINE)) == SECTIONS
    for words in (mistake.shows, mistake.seen, mistake.hint, "With this the doctor finds nothing."):
        assert words in page
    assert re.search(rf"^Lesson \[{mistake.lesson} .+\]\(\.\./notebooks/{mistake.lesson}_\w+\.ipynb\)", page, re.M)
    changes = [line[:1] for line in page.split("```diff\n")[1].split("```")[0].splitlines()]
    assert "-" in changes and set(changes) <= {"-", "+", ""}


@every_mistake
def test_a_page_lists_what_one_may_notice_and_is_found_by_it(folder, mistake):
    notices = read_example(EXAMPLES / f"{mistake.id}.py").notices
    assert len(set(notices)) == len(notices) >= 2
    page = page_of(folder, mistake)
    listed = "".join(f"\n- {notice}" for notice in notices)
    assert "\n\n**You may notice:**\n\n```{index}" in page and f"\n{listed}\n\n## How it looks\n" in page
    for notice in notices:
        assert re.fullmatch(r"[^;!]+\.", notice)  # signs that an entry of an index takes for something else
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


def test_pages_are_the_same_each_time(folder, tmp_path, monkeypatch):
    only(monkeypatch, "mask-discarded", "merge-without-transpose", "dropout-at-eval")
    for page in write_pages(tmp_path)[1:]:
        for ending in (".md", ".svg"):
            again, first = page.with_suffix(ending), (folder / page.name).with_suffix(ending)
            assert again.exists() == first.exists()
            assert not again.exists() or again.read_bytes() == first.read_bytes()


def planted(tmp_path, monkeypatch, old, new):
    """Pages of an example in which one text was replaced by another."""
    only(monkeypatch, "wrong-scale")
    text = (EXAMPLES / "wrong-scale.py").read_text(encoding="utf-8")
    assert text.count(old) == 1
    (tmp_path / "wrong-scale.py").write_text(text.replace(old, new), encoding="utf-8")
    return write_pages(tmp_path / "pages", tmp_path)


def test_lines_to_write_that_are_wrong_too_are_refused(tmp_path, monkeypatch):
    words = (
        "wrong-scale.py is not right with the lines it says to write instead: the doctor finds wrong-scale, so they "
        "must be corrected."
    )
    with pytest.raises(ValueError, match=f"^{re.escape(words)}$"):
        planted(tmp_path, monkeypatch, "instead: self.scale = self.head_dim**-0.5", "instead: self.scale = 1 / d_out")


def test_code_that_makes_another_mistake_is_refused(tmp_path, monkeypatch):
    words = "wrong-scale.py should make this mistake alone, but the doctor finds missing-scale: change the code."
    with pytest.raises(ValueError, match=f"^{re.escape(words)}$"):
        planted(tmp_path, monkeypatch, "self.scale = d_out**-0.5", "self.scale = d_out**0")


def test_code_that_makes_no_mistake_is_refused(tmp_path, monkeypatch):
    words = "wrong-scale.py should make this mistake alone, but the doctor finds nothing: change the code."
    with pytest.raises(ValueError, match=f"^{re.escape(words)}$"):
        planted(tmp_path, monkeypatch, "self.scale = d_out**-0.5", "self.scale = self.head_dim**-0.5")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (SMALL, "own.py has no guilty line: end it with '# wrong' and write '# instead: <line>' below."),
        ("a = 1  # wrong\n", "own.py has no line '# how it is called': write it between the code and its call."),
        (
            "a = 1  # wrong\n# how it is called\n",
            "own.py has no line '# you may notice: ...': begin it with what its author may notice.",
        ),
    ],
)
def test_an_example_that_lacks_a_mark_is_refused(tmp_path, text, words):
    (tmp_path / "own.py").write_text(text, encoding="utf-8")
    with pytest.raises(ValueError, match=f"^{re.escape(words)}$"):
        read_example(tmp_path / "own.py")


def test_marks_replace_leave_out_and_insert(tmp_path):
    text = f"{NOTICE}a = 1  # wrong\n# instead: a = 2\nb = 3  # wrong\nif a:\n    c = 4\n    # instead: d = 5\n\n\n"
    (tmp_path / "own.py").write_text(text + "# how it is called\nmodule = c\n", encoding="utf-8")
    example = read_example(tmp_path / "own.py")
    assert example.wrong == "a = 1\nb = 3\nif a:\n    c = 4\n"
    assert example.right == "a = 2\nif a:\n    c = 4\n    d = 5\n"
    assert example.wrong_lines == (1, 2)
    assert example.notices == ("`nan`, and no text.",)
    assert example.call == "module = c\n"
    assert diff(example) == "- a = 1\n- b = 3\n+ a = 2\n\n+     d = 5"


def test_the_random_numbers_of_the_build_are_left_alone():
    import torch

    example = read_example(EXAMPLES / "returns-none.py")
    before = torch.random.get_rng_state()
    run_example(example.wrong, example.call)
    assert torch.equal(before, torch.random.get_rng_state())
