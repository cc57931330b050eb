"""Planted mistakes that somebody's own tests catch, and those that survive them."""

import json

import pytest

from course_lib.command import main
from course_lib.mutations import plantings, survival

CODE = """\
import torch
from torch import nn

HEADS = 3


class Attn(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.qkv, self.out = nn.Linear(width, 3 * width, bias=False), nn.Linear(width, width)

    def forward(self, x):
        batch, tokens, width = x.shape
        q, k, v = self.qkv(x).view(batch, tokens, 3, HEADS, width // HEADS).permute(2, 0, 3, 1, 4)
        hidden = torch.ones(tokens, tokens, dtype=torch.bool).triu(1)
        scores = (q @ k.mT / (width // HEADS) ** 0.5).masked_fill(hidden, float("-inf"))
        context = scores.softmax(dim=-1) @ v
        return self.out(context.transpose(1, 2).reshape(batch, tokens, width))
"""
SHAPE = """\
import torch
from attn import Attn


def test_shape():
    assert Attn(12)(torch.randn(2, 5, 12)).shape == (2, 5, 12)
"""
NO_LEAK = (
    SHAPE
    + """

def test_no_leak():
    attention, x = Attn(12), torch.randn(2, 5, 12)
    other = torch.cat([x[:, :-1], torch.randn(2, 1, 12)], dim=1)
    assert torch.allclose(attention(x)[:, :-1], attention(other)[:, :-1])
"""
)


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "attn.py").write_text(CODE, encoding="utf-8")
    (tmp_path / "test_shape.py").write_text(SHAPE, encoding="utf-8")
    (tmp_path / "test_leak.py").write_text(NO_LEAK, encoding="utf-8")
    return tmp_path


@pytest.mark.slow
def test_a_stronger_test_lets_fewer_survive(folder):
    planted = [one for one in plantings(folder / "attn.py", "Attn") if one.mistake in ("returns-none", "mask-inverted")]
    weak, strong = (
        {one.planted.mistake: one.caught_by for one in survival(folder / "attn.py", planted, [tests])}
        for tests in ("test_shape.py", "test_leak.py")
    )
    assert weak == {"mask-inverted": None, "returns-none": "test_shape.py::test_shape"}
    assert strong["mask-inverted"] == "test_leak.py::test_no_leak"
    assert (folder / "attn.py").read_text(encoding="utf-8") == CODE
    assert sorted(path.name for path in folder.glob("*.py")) == ["attn.py", "test_leak.py", "test_shape.py"]


@pytest.mark.slow
def test_tests_in_a_folder_import_what_is_beside_the_folder(folder):
    (folder / "tests").mkdir()
    (folder / "test_shape.py").rename(folder / "tests" / "test_shape.py")
    planted = [one for one in plantings(folder / "attn.py", "Attn") if one.mistake == "returns-none"]
    (outcome,) = survival(folder / "attn.py", planted, ["tests"])
    assert outcome.caught_by == "tests/test_shape.py::test_shape"


def test_each_planting_is_the_file_with_one_line_changed(folder):
    planted = plantings(folder / "attn.py", "Attn")
    assert {"missing-scale", "mask-off-by-one", "softmax-wrong-axis", "merge-without-transpose"} <= {
        one.mistake for one in planted
    }
    for one in planted:
        assert one.source != CODE and one.source.startswith("import torch\n")
        assert one.text == CODE.splitlines()[one.line - 1].strip()
        compile(one.source, "attn.py", "exec")


MASKED = """\
def attend(q, k, v, hidden):
    scores = q @ k.mT
    if hidden is not None:
        scores = scores.masked_fill(hidden, float("-inf"))
    return scores.softmax(dim=-1) @ v
"""


def test_of_mistakes_that_make_the_same_code_one_is_planted(tmp_path):
    (tmp_path / "attend.py").write_text(MASKED, encoding="utf-8")
    planted = [one.mistake for one in plantings(tmp_path / "attend.py", "attend")]
    assert "mask-discarded" in planted and "no-causal-mask" not in planted
    assert {"mask-inverted", "mask-with-zero", "mask-transposed", "no-softmax"} <= set(planted)


@pytest.mark.slow
def test_what_ends_the_tests_or_never_ends_is_caught(folder, monkeypatch):
    monkeypatch.setattr("course_lib.mutations.mutation_testing.PATIENCE", 0)
    monkeypatch.setattr("course_lib.mutations.mutation_testing.LEAST_SECONDS", 2.0)
    first = plantings(folder / "attn.py", "Attn")[0]
    planted = [first._replace(source=source) for source in ("import os\nos._exit(0)\n", "while True:\n    pass\n")]
    found = list(survival(folder / "attn.py", planted, ["test_shape.py"]))
    assert [one.caught_by for one in found] == ["the tests can't be run any more", "the time ran out"]


@pytest.mark.parametrize(
    ("target", "tests", "said"),
    [
        ("attn.py:Other", "test_shape.py", "attn.py has no class or function 'Other' at its top level; it has Attn."),
        ("none.py:Attn", "test_shape.py", "none.py can't be read"),
        (
            "attn.py",
            "test_shape.py",
            "target is 'attn.py': name a file and what is in it, as in attention.py:MyAttention.",
        ),
        ("attn.py:Attn", "test_fails.py", "must pass before a mistake is planted, and test_fails.py::test_no doesn't."),
        ("attn.py:Attn", "test_broken.py", "before a mistake is planted, and they can't be run: what does pytest say?"),
        ("attn.py:Attn", "test_other.py", "the tests don't import attn.py, so no mistake in it can fail them"),
        (
            "test_shape.py:test_shape",
            "test_shape.py",
            "No known mistake can be planted into test_shape: is it attention?",
        ),
    ],
)
def test_what_is_refused(folder, capsys, target, tests, said):
    (folder / "test_other.py").write_text("def test_yes():\n    pass\n", encoding="utf-8")
    (folder / "test_fails.py").write_text("def test_no():\n    assert False\n", encoding="utf-8")
    (folder / "test_broken.py").write_text("import nothing_of_this_name\n", encoding="utf-8")
    assert main(["mutate", target, "--tests", tests]) == 2
    assert said in capsys.readouterr().err


def test_the_command(folder, capsys, monkeypatch):
    from course_lib import mutations

    some = [one for one in plantings(folder / "attn.py", "Attn") if one.mistake in ("missing-scale", "mask-inverted")]
    monkeypatch.setattr(mutations, "plantings", lambda *_: some)
    assert main(["mutate", "attn.py:Attn", "--tests", "test_leak.py"]) == 1
    shown = capsys.readouterr().out
    assert "SURVIVES  `" in shown and "caught by test_leak.py::test_no_leak" in shown
    assert shown.endswith("1 of 2 planted mistakes are caught.\n")
    assert main(["mutate", "attn.py:Attn", "--tests", "test_leak.py", "--json"]) == 1
    rows = {row["mistake"]: row["caught_by"] for row in json.loads(capsys.readouterr().out)}
    assert rows == {"missing-scale": None, "mask-inverted": "test_leak.py::test_no_leak"}


@pytest.mark.slow
def test_the_option_of_pytest(folder, capfd):
    plugin = ["-p", "course_lib.pytest_mutate"]
    assert pytest.main([*plugin, "-q", "test_shape.py"]) == 0, "nothing changes without the option"
    assert pytest.main([*plugin, "--mutate", "attn.py:Nothing", "test_shape.py"]) == 2
    shown = capfd.readouterr()
    assert "1 passed" in shown.out and "attn.py has no class or function 'Nothing' at its top level" in shown.err
    assert pytest.main([*plugin, "--mutate", "attn.py:Attn", "test_shape.py"]) == 1
    assert "1 of 16 planted mistakes are caught." in capfd.readouterr().out
