"""Notebooks as students hand them in: whole, damaged, from old tools, and made to do harm."""

import copy
import json
import random
import tracemalloc
from pathlib import Path

import pytest

from course_grader.submissions import Cell, Notebook, Unreadable, read_notebook, safe_json
from course_lib.exercises import EXERCISES

ROOT = Path(__file__).resolve().parents[3]
SHEET = (ROOT / "notebooks" / "exercises" / "05_exercises.ipynb").read_bytes()
SAVE_AGAIN = "open the notebook, save it and hand the .ipynb file in again."


def code(source, **more):
    return {"cell_type": "code", "source": source, "metadata": {}, "outputs": [], **more}


def notebook(*cells, **more):
    return json.dumps({"cells": cells, "nbformat": 4, "metadata": {}, **more}).encode()


def answers(submitted):
    return {cell.exercise: cell.number for cell in submitted.cells if cell.exercise}


def test_a_real_sheet():
    submitted = read_notebook(SHEET)
    own = {exercise.name for exercise in EXERCISES.values() if exercise.lesson == "05"}
    assert set(answers(submitted)) == submitted.exercises == submitted.released_exercises == own
    assert submitted.cells[0].source.startswith("# @title Setup") and not submitted.remarks and submitted.stamp == {}


def test_a_sheet_after_rough_handling():
    """Another notebook program took the metadata, the ids and the stamp away, or wrote an older format."""
    data = json.loads(SHEET)
    for cell in data["cells"]:
        cell.pop("id", None)
        del cell["metadata"]
        cell["source"] = "".join(cell["source"])
    del data["metadata"]
    bare = read_notebook(json.dumps(data).encode("utf-8-sig"))
    assert bare.cells == read_notebook(SHEET).cells
    for cell in data["cells"]:
        if cell["cell_type"] == "code":
            cell["input"] = cell.pop("source").replace("\n", "\r\n").splitlines(keepends=True)
    old = {"worksheets": [{"cells": data["cells"]}, {"cells": None}, 7], "nbformat": 3}
    assert read_notebook(json.dumps(old).encode()) == bare


def test_whose_answer_a_cell_is():
    made_for = {"nbgrader": {"grade_id": "split_heads", "solution": True}}
    check = {"nbgrader": {"grade_id": "split_heads", "solution": False}}
    submitted = read_notebook(
        notebook(
            code("def split_head(x):\n    return x", metadata=made_for),
            code("import torch\ndef merge_heads(x): ...\nasync def helper(): ...\nclass MultiHead: ..."),
            code("%matplotlib inline\nnumber_at = torch.add"),
            code("leaks, patient_a = f, 'x'"),
            code("patient_b: str = 'x'\npatient_c: str"),
            code("def to_split(x)  # no colon\n  return x"),
            code("if True:\n    def two_heads(): ...\ntwo_heads(two_heads.x)", metadata=check),
            code("text = '''\ndef mix_heads(): ...\n'''"),
        )
    )
    assert [(cell.exercise, cell.defines) for cell in submitted.cells] == [
        ("split_heads", ()),
        ("merge_heads", ("merge_heads", "MultiHead")),
        ("number_at", ("number_at",)),
        ("leaks", ("leaks", "patient_a")),
        ("patient_b", ("patient_b",)),
        ("to_split", ("to_split",)),
        (None, ()),
        (None, ()),
    ]
    assert "MultiHead" in submitted.exercises


def test_what_is_odd_is_left_out():
    submitted = read_notebook(
        notebook(
            code(["a = 1\n", None, 2, "b = 2"], metadata=None, outputs=None),
            code(None),
            code({"x": 1}, metadata={"nbgrader": {"solution": True, "grade_id": ["split_heads"]}}),
            code("c = '\ud800'\rd = 1", metadata={"nbgrader": [1]}),
            {"cell_type": ["code"]},
            {"cell_type": "markdown"},
            None,
            "text",
        )
    )
    assert [cell.source for cell in submitted.cells] == ["a = 1\nb = 2", "", "", "c = '?'\nd = 1"]
    assert submitted.remarks == ("3 cells of an unknown kind were left out.",)
    assert read_notebook(notebook(code("x"), {})).remarks == ("a cell of an unknown kind was left out.",)


def test_the_stamp_is_only_a_claim():
    def stamp(value):
        return read_notebook(notebook(code("x"), metadata={"attention_course": value})).stamp

    assert stamp({"release": "week1", "version": "0.1", "commit": "abc", "more": "x"}) == {
        "release": "week1",
        "version": "0.1",
    }
    assert stamp({"release": "a\u202eb" + "x" * 500, "version": [1]}) == {"release": "a\\u202eb" + "x" * 117 + "…"}
    assert stamp("week1") == {}
    assert read_notebook(notebook(code("x"), metadata=[1])).stamp == {}


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b" \n", "It is empty: save the notebook and hand it in again."),
        (b"%PDF-1.7 ...", "It is a PDF: hand in the notebook itself, the .ipynb file."),
        (b"PK\x03\x04...", "It is a zip under another name: hand in the notebook itself, the .ipynb file."),
        (b"\n<!DOCTYPE html>", "It is a web page (HTML): hand in the notebook itself, the .ipynb file."),
        (b"\x89PNG\r\n", "It is a picture: hand in the notebook itself, the .ipynb file."),
        (
            b"version https://git-lfs.github.com/spec/v1\noid sha256:1\nsize 1\n",
            "It is a pointer of Git LFS, without the file itself: hand in the notebook itself, the .ipynb file.",
        ),
        (
            b"# %%\nimport torch\n",
            "It is Python code without a notebook around it: hand in the notebook itself, the .ipynb file.",
        ),
        ('{"cells": "é"}'.encode("latin-1"), f"It is not UTF-8 text: {SAVE_AGAIN}"),
        (b'{"cells": [\n{"cell_type"', f"It is not a notebook: its JSON is broken at line 2; {SAVE_AGAIN}"),
        (b"[1]", f"It is JSON, but not a notebook: {SAVE_AGAIN}"),
        (b"{}", f"It has no cells: {SAVE_AGAIN}"),
        (b'{"cells": {"a": 1}}', f"It has no cells: {SAVE_AGAIN}"),
        (b'{"cells": [{"cell_type": "markdown"}, {}]}', f"It has no code cells: {SAVE_AGAIN}"),
        (b'{"a":' * 200_000, "Its JSON is nested too deeply: clear the outputs and hand it in again."),
        (
            b'{"a": ' + b"1" * 5000 + b"}",
            "It contains a number of 5000 digits: clear the outputs and hand it in again.",
        ),
        (
            notebook(*[code("")] * 2001),
            "It has 2001 cells with 0.0 MB of code; up to 2000 cells and 0.4 MB are read: hand in your answers only.",
        ),
        (
            notebook(code("#" * 600_000), code("#" * 600_000)),
            "It has 2 cells with 1.2 MB of code; up to 2000 cells and 0.4 MB are read: hand in your answers only.",
        ),
    ],
)
def test_the_reason_that_a_student_gets(content, reason):
    with pytest.raises(Unreadable) as caught:
        read_notebook(content)
    assert str(caught.value) == reason


@pytest.mark.slow
def test_large_outputs_are_dropped():
    text = "1,[{" * 12_500_000  # 50 MB that look like many values, in a string
    content = notebook(code("x = 1", outputs=[{"output_type": "stream", "text": ["\\", text, '"']}]))
    tracemalloc.start()
    submitted = read_notebook(content)
    kept = tracemalloc.get_traced_memory()[0]
    tracemalloc.stop()
    assert submitted == Notebook((Cell(1, "x = 1"),)) and kept < 100_000


def test_more_values_than_the_memory_could_take(monkeypatch):
    monkeypatch.setattr(safe_json, "MAX_VALUES", 1000)
    with pytest.raises(Unreadable, match=r"^It contains too many values: clear the outputs and hand it in again\.$"):
        read_notebook(notebook(code("x"), metadata=[[]] * 1001))
    assert read_notebook(notebook(code("x = 1," * 1001), metadata="\\" * 9))
    with pytest.raises(Unreadable):
        read_notebook(b'{"' + rb"\"" * 200_000 + b"," * 1001)  # no end: reading it again and again would take an hour


def places(data, path=()):
    """Every place of nested data, as the way to it."""
    yield path
    if isinstance(data, (dict, list)):
        for key in data if isinstance(data, dict) else range(len(data)):
            yield from places(data[key], (*path, key))


def mutated(data, chance):
    """A copy with some places replaced, removed or exchanged."""
    data = copy.deepcopy(data)
    for _ in range(chance.randint(1, 4)):
        *way, last = chance.choice([place for place in places(data) if place])
        home = data
        for key in way:
            home = home[key]
        others = [None, [], {}, "", -1, 1e999, True, "\ud800", "def split_heads(", [["code"]], {"solution": True}, data]
        if chance.random() < 0.2:
            del home[last]
        else:
            home[last] = copy.deepcopy(chance.choice(others))
    return data


@pytest.mark.slow
def test_damage_anywhere_gives_a_sheet_or_a_reason():
    data, chance, outcomes = json.loads(SHEET), random.Random(7), {Notebook: 0, Unreadable: 0}
    data["cells"] = [cell for cell in data["cells"] if cell["cell_type"] == "code"]
    for _ in range(200):
        content = json.dumps(mutated(data, chance)).encode()
        try:
            submitted = read_notebook(content)
            outcomes[Notebook] += 1
            assert all(type(cell.source) is str and cell.source.encode() is not None for cell in submitted.cells)
        except Unreadable as unreadable:
            outcomes[Unreadable] += 1
            assert str(unreadable).startswith("It")
    for _ in range(100):
        content = bytearray(SHEET)
        for _ in range(chance.randint(1, 3)):
            content[chance.randrange(len(content))] = chance.randrange(256)
        try:
            read_notebook(bytes(content))
            outcomes[Notebook] += 1
        except Unreadable:
            outcomes[Unreadable] += 1
    assert sum(outcomes.values()) == 300 and min(outcomes.values()) > 30
