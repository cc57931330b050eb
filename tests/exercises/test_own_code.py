"""What passed in one lesson is used in the next one, and nothing else is."""

import linecache

import pytest
import torch

from course_lib.exercises import ALL, filled, from_earlier
from course_lib.tracing import text_of

SOLUTION = ALL["scaled_scores"].solution
CELL = """\
import torch

def scaled_scores(queries, keys):
    return torch.einsum("qd,kd->qk", queries, keys) / queries.shape[-1] ** 0.5
"""


@pytest.fixture
def workspace(tmp_path, monkeypatch):
    monkeypatch.setenv("COURSE_PROGRESS", str(tmp_path / "progress.json"))
    return tmp_path


def run(cell, name="scaled_scores"):
    file = f"<cell {hash(cell)}>"
    linecache.cache[file] = (len(cell), None, cell.splitlines(keepends=True), file)
    namespace = {}
    exec(compile(cell, file, "exec"), namespace)
    return namespace[name]


def test_own_code_comes_back(workspace, capsys):
    filled("scaled_scores", run(CELL))
    kept = workspace / "my_code" / "scaled_scores.py"
    assert kept.read_text() == CELL.split("\n\n")[1]
    said = "The lesson goes on with your code, kept for later lessons in my_code/scaled_scores.py.\n"
    assert capsys.readouterr().out.endswith(said)
    own = from_earlier("scaled_scores")
    assert capsys.readouterr().out == "✓ scaled_scores: your own code from lesson 01.\n"
    assert own is not SOLUTION and torch.equal(own(torch.ones(2, 4), torch.ones(3, 4)), torch.full((2, 3), 2.0))


@pytest.mark.parametrize(
    "text", ["", "def scaled_scores(:", "def scaled_scores(q, k): return q @ k.T", "raise ValueError"]
)
def test_what_no_longer_passes_is_not_used(workspace, text, capsys):
    (workspace / "my_code").mkdir()
    (workspace / "my_code" / "scaled_scores.py").write_text(text)
    assert from_earlier("scaled_scores") is SOLUTION
    said = "… scaled_scores: the course's version; in my_course, yours of lesson 01.\n"
    assert capsys.readouterr().out == said


def test_a_wrong_answer_is_not_kept(workspace):
    filled("scaled_scores", lambda queries, keys: queries @ keys.T)
    assert not (workspace / "my_code").exists()


def test_outside_of_a_workspace_nothing_is_written(monkeypatch, capsys):
    monkeypatch.setenv("COURSE_PROGRESS", "off")
    filled("scaled_scores", run(CELL))
    assert from_earlier("scaled_scores") is SOLUTION


def test_the_text_of_a_class_in_a_cell():
    cell = "from typing import final\n\nclass A:\n    pass\n\n@final\nclass B(A):\n    def f(self):\n        pass\n"
    assert text_of(run(cell, "B")) == cell.split("\n\n")[2].rstrip()
    assert text_of(run(cell, "A")) is None


def test_a_name_that_no_lesson_asks_for():
    with pytest.raises(ValueError, match="name is 'nothing', but no lesson asks"):
        from_earlier("nothing")


def test_a_decorated_answer_is_kept_with_its_decorator(workspace, capsys):
    filled("scaled_scores", run(CELL.replace("def scaled", "@torch.no_grad()\ndef scaled")))
    assert (workspace / "my_code" / "scaled_scores.py").read_text().startswith("@torch.no_grad()\ndef scaled_scores(")
