"""The book's pages are made from the course, and say so when they can't be."""

import json
import re
import shutil
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import nbformat
import pytest

from course_lib.exercises import EXERCISES
from tools.book import front_page, grading, real_bugs, sessions
from tools.book.exercises import write_exercises
from tools.book.lesson_table import hours, length, read_walk, table
from tools.book.lessons import (
    SOLUTION,
    copy_notebooks,
    read,
    terms_of_lessons,
    with_folded_imports,
    with_linked_terms,
    with_page_links,
    with_solutions,
    without_setup,
    write_lessons,
)
from tools.book.links import broken_links, read_pages, unreached_pages
from tools.book.parts import filled
from tools.book.reference import FIRST, as_literal_blocks, names_on_page, page_of, write_reference

ROOT = Path(__file__).resolve().parents[3]


def sheet_of(lesson):
    """The number and the minutes of a lesson's exercises."""
    mine = [exercise for exercise in EXERCISES.values() if exercise.lesson == lesson]
    return len(mine), sum(exercise.minutes for exercise in mine)


@pytest.fixture(scope="module")
def lessons(tmp_path_factory):
    folder = tmp_path_factory.mktemp("book") / "notebooks"
    write_lessons(ROOT, folder)
    return folder


def test_the_walk_has_every_lesson_with_its_time():
    rows = read_walk(ROOT)
    assert [row.name for row in rows] == sorted(
        path.stem for path in (ROOT / "notebooks" / "sources").glob("[0-9]*.py")
    )
    for row in rows:
        first = read(ROOT / "notebooks" / f"{row.name}.ipynb").cells[0].source
        assert first.startswith(f"# {row.title}\n"), row.name
        assert f"**It takes** about {row.minutes} minutes" in " ".join(first.split()), row.name
    lines = table(rows).splitlines()
    assert len(lines) == 2 + len(rows)
    count, minutes = sheet_of("05")
    assert f"| [{count}, {minutes}&nbsp;min](notebooks/exercises/05_exercises.ipynb) |" in lines[7]
    assert lines[2].endswith(f"| {rows[0].minutes} |  |")


def test_how_long_the_course_is_comes_from_the_table():
    rows = [replace(row, minutes=minutes) for row, minutes in zip(read_walk(ROOT), (5, 40, 90), strict=False)]
    assert length(rows, 80) == (
        "The 3 lessons take 5 to 90 minutes each, 2 hours in all, and the exercises another 1½ hours."
    )
    assert [hours(minutes) for minutes in (10, 30, 44, 46, 90, 245)] == [
        "½ hour", "½ hour", "½ hour", "1 hour", "1½ hours", "4 hours",
    ]  # fmt: skip


def test_the_plan_for_a_class_has_the_minutes_of_the_front_page_and_fits(monkeypatch):
    rows = {row.number: row for row in read_walk(ROOT)}
    lines = sessions.plan([*rows.values()]).splitlines()[2:]
    assert len(lines) == len(sessions.SESSIONS) == 5 and sessions.LENGTH == 90  # "five sessions", "ninety minutes"
    for number, line in enumerate(lines, 1):
        session, in_class, at_home, _ = line.strip("| ").split(" | ")
        taught, practised = (re.findall(r"\[(\d\d)\]", cell) for cell in (in_class, at_home))
        assert int(session) == number and taught == [*sessions.SESSIONS[number - 1].lessons]
        assert set(practised) == set(taught) - {"00"}
        minutes, homework = (int(re.search(r": (\d+) min$", cell)[1]) for cell in (in_class, at_home))
        assert minutes == sum(rows[lesson].minutes for lesson in taught) <= 90
        assert homework == sum(sheet_of(lesson)[1] for lesson in practised)
    monkeypatch.setattr(sessions, "SESSIONS", (sessions.Session(("00", "01", "02"), "Who looks at whom?"),))
    with pytest.raises(ValueError, match=r"Session 1 has 125 minutes of lessons and lasts 90: move a lesson\."):
        sessions.plan([*rows.values()])


def test_a_lesson_without_a_row_is_named(tmp_path):
    (tmp_path / "notebooks").mkdir()
    (tmp_path / "notebooks" / "12_new.ipynb").touch()
    shutil.copy(ROOT / "README.md", tmp_path)
    with pytest.raises(ValueError, match=r"differ in 00_start_here, .*12_new, .*: give each lesson a row\."):
        read_walk(tmp_path)


def test_a_page_shows_no_setup_and_the_download_does(lessons, tmp_path):
    name = "05_weight_split.ipynb"
    shown, own = read(lessons / name), read(ROOT / "notebooks" / name)
    assert len(shown.cells) == len(own.cells) + 1  # without the setup; with folded imports, and the glossary's words
    assert "colab" not in json.dumps(shown).lower()
    outputs = [[cell.outputs for cell in each.cells if cell.get("outputs")] for each in (shown, own)]
    assert outputs[0] == outputs[1]
    given = tmp_path / "_sources" / "notebooks" / name
    given.parent.mkdir(parents=True)
    given.write_text("{}", encoding="utf-8")
    copy_notebooks(ROOT, tmp_path)
    assert given.read_bytes() == (ROOT / "notebooks" / name).read_bytes()


def test_links_in_stored_outputs_lead_to_the_pages_of_the_book():
    html = '<a href="00_start_here.ipynb">00</a> <a href="../05_weight_split.ipynb#proof">05</a> '
    elsewhere = '<a href="https://host/00_start_here.ipynb">Colab</a> <a href="notes.html">notes</a>'
    output = nbformat.v4.new_output(
        "display_data", {"text/html": html + elsewhere, "text/plain": "00_start_here.ipynb"}
    )
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell("check()", outputs=[output])])
    data = with_page_links(notebook).cells[0].outputs[0].data
    pages = '<a href="00_start_here.html">00</a> <a href="../05_weight_split.html#proof">05</a> '
    assert data == {"text/html": pages + elsewhere, "text/plain": "00_start_here.ipynb"}


def test_a_term_in_bold_leads_to_the_glossary_once():
    text = "Each **query** has **attention\nweights**. **Keys** and **values**, and **query** again. **Predict.** Why?"
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_markdown_cell(text)])
    cells = with_linked_terms(notebook, ["query", "attention weights", "key", "KV cache"]).cells
    assert cells[0].source == (
        "Each **{term}`query <query>`** has **{term}`attention weights <attention weights>`**. "
        "**{term}`Keys <key>`** and "
        "**values**, and **query** again. **Predict.** Why?"
    )


def test_a_lesson_ends_with_the_words_of_the_glossary_that_point_to_it(lessons):
    last = read(lessons / "06_multi_query.ipynb").cells[-1].source
    assert last.startswith("```{index} single: broadcast\n```\n\n")
    assert "```{index} single: GQA\n```\n" in last
    assert last.endswith(
        "\n\n**In the glossary:** {term}`broadcast`, {term}`grouped-query attention`, {term}`GQA`, {term}`KV cache`, "
        "{term}`multi-query attention`, {term}`MQA`."
    )
    assert "**In the glossary:**" not in read(lessons / "00_start_here.ipynb").cells[-1].source


def test_several_words_of_the_glossary_share_a_meaning():
    entries = ["one\nEINS\n  [A](notebooks/01_a.ipynb)\n  and [B](notebooks/02_b.ipynb).", "two\n  No lesson."]
    words = "\n\n".join([*entries, "three\n  [B](notebooks/02_b.ipynb)."])
    found = terms_of_lessons(f"[C](notebooks/03_c.ipynb)\n\n```{{glossary}}\n{words}\n```\n")
    assert found == {"01_a": ["one", "EINS"], "02_b": ["one", "EINS", "three"]}


def test_every_exercise_has_its_solution_folded_below_its_hints(lessons):
    shown = {}
    for path in (lessons / "exercises").glob("*.ipynb"):
        for before, cell in zip(notebook := read(path).cells, [*notebook[1:], None], strict=True):
            assert "not written yet" not in str(before.get("outputs")) and "passed" not in str(before.get("outputs"))
            if before.metadata.get("nbgrader", {}).get("grade"):
                shown[before.metadata["nbgrader"]["grade_id"].removeprefix("check_")] = cell.source
    assert set(shown) == set(EXERCISES)
    for name, source in shown.items():
        code = re.search(r"<details><summary>Solution</summary>.*?```python\n(.*?)\n```\n\n</details>$", source, re.S)[
            1
        ]
        assert name in code and "SOLUTION" not in code and "NotImplementedError" not in code
        assert source.index("Hint 1") < source.index(SOLUTION.split("{code}")[0])


def test_an_exercise_without_a_solution_or_hints_is_named():
    solved = read(ROOT / "notebooks" / "solutions" / "01_exercises.ipynb")
    sheet = read(ROOT / "notebooks" / "exercises" / "01_exercises.ipynb")
    with pytest.raises(ValueError, match="exercise scores_of_token has no solution: run `course exercises`"):
        with_solutions(sheet, nbformat.v4.new_notebook())
    sheet.cells = [cell for cell in sheet.cells if not cell.source.startswith("<details>")][:6]
    with pytest.raises(ValueError, match="exercise scores_of_token has no hints"):
        with_solutions(sheet, solved)
    assert without_setup(sheet).cells[0].source.startswith("# Exercises")


@pytest.mark.slow
def test_the_imports_of_a_lesson_are_folded_and_nothing_is_lost():
    for path in sorted((ROOT / "notebooks").glob("[0-9][0-9]_*.ipynb")):
        whole, folded = without_setup(read(path)), with_folded_imports(without_setup(read(path)))
        codes = [[cell for cell in each.cells if cell.cell_type == "code"] for each in (whole, folded)]
        first, second = codes[1][:2]
        assert first.metadata.tags == ["hide-input"] and not first.outputs, path.stem
        assert not second.source.startswith(("import ", "from ")), path.stem
        before, after = (" ".join(cell.source for cell in each).split() for each in codes)
        assert before == after, path.stem
        assert [cell.outputs for cell in codes[0] if cell.outputs] == [
            cell.outputs for cell in codes[1] if cell.outputs
        ]


def test_the_list_of_exercises(tmp_path):
    write_exercises(tmp_path / "exercises.md")
    text = (tmp_path / "exercises.md").read_text(encoding="utf-8")
    for exercise in EXERCISES.values():
        row = f"| {exercise.title} | `{exercise.name}` | {exercise.difficulty} | {exercise.minutes} |"
        assert row in text
    count, minutes = sheet_of("05")
    assert f"## [Lesson 05](notebooks/exercises/05_exercises.ipynb): {count} exercises, {minutes} minutes" in text


def test_the_front_page_is_filled_in(tmp_path):
    source = tmp_path / "source"
    source.mkdir()
    shutil.copy(ROOT / "book" / "index.md", source)
    front_page.write_front(ROOT, source)
    text = (source / "index.md").read_text(encoding="utf-8")
    assert "<!-- " not in text and "PyTorch's agree to twelve decimals" in text and "[mask-discarded]" in text
    assert "05 Split the weights <notebooks/05_weight_split>" in text
    minutes = sum(exercise.minutes for exercise in EXERCISES.values())
    assert length(read_walk(ROOT), minutes) in text
    assert 'src="figures/front.html" title="' in text
    assert f'href="notebooks/{read_walk(ROOT)[-1].name}.html"' in text


def test_pages_read_well_in_the_repository_because_their_tables_are_stored_in_them(tmp_path):
    pages = {path.name: path.read_text(encoding="utf-8") for path in (ROOT / "book").glob("*.md")}
    assert [name for name, text in pages.items() if "{{" in text] == []
    (tmp_path / "book").mkdir()
    for name, parts in {"teach": sessions.parts, "grade": grading.parts, "real_bugs": real_bugs.parts}.items():
        assert filled(pages[f"{name}.md"], parts(ROOT)) == pages[f"{name}.md"], "run `course figures`"


def test_a_part_comes_between_its_comments_or_in_the_place_of_one():
    page = "<!-- a -->\n\n<!-- /a -->\n\nIt is <!-- b -->old<!-- /b -->. <!-- c -->\n"
    once = filled(page, {"a": "| {1} |\n", "b": "new", "c": r"\\1"})
    assert once == "<!-- a -->\n\n| {1} |\n\n<!-- /a -->\n\nIt is <!-- b -->new<!-- /b -->. \\\\1\n"
    assert filled(once, {"a": "| {1} |", "b": "new"}) == once
    with pytest.raises(ValueError, match="The page has no <!-- d -->: put it where the part 'd' shall stand"):
        filled(page, {"d": ""})


def test_a_proof_that_is_gone_is_missed(monkeypatch):
    monkeypatch.setattr(front_page, "PROOF_SAYS", "all five agree")
    with pytest.raises(ValueError, match=r"No cell of 05_weight_split\.ipynb prints 'all five agree'"):
        front_page.proof(ROOT)


def test_the_reference_has_every_part(tmp_path):
    write_reference(tmp_path / "reference")
    index = (tmp_path / "reference" / "index.md").read_text(encoding="utf-8")
    pages = re.findall(r"\((\w+\.md)\)", index)
    assert "attention.md" in pages and all((tmp_path / "reference" / page).exists() for page in pages)
    packages = {path.parent.name for path in (ROOT / "course_lib").glob("*/__init__.py")}
    undescribed = packages - {page.removesuffix(".md") for page in pages}
    assert undescribed == {"command", "mistakes", "recording_page", "tracing"}  # the doctor's page has the mistakes
    page = page_of("exercises", "Exercises")
    assert all(f".. auto{kind}:: course_lib.exercises.{name}" in page for kind, name in
               (("function", "filled"), ("function", "progress"), ("class", "Verdict")))  # fmt: skip


@pytest.mark.parametrize("part", FIRST)
def test_a_page_of_the_reference_begins_with_what_one_comes_for(part):
    described = re.findall(r"\.\. auto(?:class|function):: [\w.]+\.(\w+)$", page_of(part, "Title"), re.MULTILINE)
    assert tuple(described[: len(FIRST[part])]) == FIRST[part]
    assert {*FIRST[part]} <= {*names_on_page(part)} and len({*described}) == len(described)


def test_formulas_in_docstrings_are_set_as_written():
    lines = [
        "Sums.",
        "",
        "    y = a",
        "      + b",
        "",
        "    z = y",
        "",
        "More.",
        "Args:",
        "    a: one.",
        "",
        "        two",
        "",
    ]
    as_literal_blocks(None, "function", "f", None, None, lines)
    assert lines[:8] == ["Sums.", "", "::", "", "    y = a", "      + b", "", "    z = y"]
    assert lines[8:] == ["", "More.", "Args:", "    a: one.", "", "        two", ""]


def test_broken_links_are_found(tmp_path):
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "b.html").write_text('<p id="here"><img src="../a.html"></p>', encoding="utf-8")
    links = ["sub/b.html", "sub/b.html#here", "#top", "https://example.org/x", "mailto:a@b", "sub/"]
    broken = ["sub/b.html#gone", "c.html", "#nowhere"]
    body = "".join(f'<a href="{link}">x</a>' for link in [*links, *broken])
    (tmp_path / "a.html").write_text(f'<div id="top">{body}</div><script src="gone.js"></script>', encoding="utf-8")
    assert broken_links(tmp_path, read_pages(tmp_path)) == [
        "a.html: sub/: there is no such file",
        "a.html: sub/b.html#gone: there is no such anchor on that page",
        "a.html: c.html: there is no such file",
        "a.html: #nowhere: there is no such anchor on that page",
        "a.html: gone.js: there is no such file",
    ]


def test_a_page_that_no_way_leads_to_is_found(tmp_path):
    (tmp_path / "sub").mkdir()
    pages = {"index": "sub/a.html?q=1#x", "sub/a": "../b.html", "b": "index.html", "sub/alone": "a.html", "404": ""}
    for page, link in pages.items():
        (tmp_path / f"{page}.html").write_text(
            f'<a href="{link}">x</a><a href="https://example.org/sub/alone.html">y</a>'
        )
    found = unreached_pages(tmp_path, read_pages(tmp_path), ["404.html"])
    assert found == ["sub/alone.html: no way of links leads here from the front page"]


def test_the_command_builds_from_the_root(monkeypatch):
    from course_lib.command import main
    from tools.commands import book

    calls = []
    monkeypatch.chdir(ROOT / "notebooks")
    monkeypatch.setattr(
        book.subprocess, "run", lambda words, cwd: calls.append((words, cwd)) or SimpleNamespace(returncode=3)
    )
    assert main(["book"]) == 3
    assert calls[0][0][1:] == ["-m", "tools.book"] and calls[0][1] == ROOT
