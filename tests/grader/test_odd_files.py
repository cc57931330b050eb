"""Honest answers in odd files get full marks; wrong ones get nothing, whatever file or neighbour they come in."""

import io
import json
import zipfile

import pytest

from course_grader import GradingPolicy, Release, WorkerConfig, released_exercises
from course_grader.grading import grade_student
from course_grader.pipeline import prepare_task
from course_grader.sandbox import ResourceLimits, Sandbox
from course_grader.submissions import find_submissions
from course_lib.about import version
from tests.grader.synthetic_class import ANSWERS, POINTS, RELEASE, RELEASED, notebook

pytestmark = pytest.mark.xdist_group("sandbox")
CONFIG = WorkerConfig(ResourceLimits(), course=version())
RIGHT = [answers[0][0] for answers in ANSWERS.values()]
WRONG = {name: answers[1][0] for name, answers in ANSWERS.items()}
FULL = sum(POINTS.values())


@pytest.fixture(scope="module")
def sandboxes(isolation):
    limits = ResourceLimits(cell=3, answer=3, notebook=20)
    with Sandbox(isolation, limits) as sandbox, Sandbox(isolation, limits, expose_course=True) as exposed:
        yield sandbox, exposed


def graded(folder, sandboxes):
    (submission,) = find_submissions(folder)
    return grade_student(prepare_task(submission, RELEASE, GradingPolicy(), CONFIG, b"0" * 32), *sandboxes)


def sheet(*sources):
    return notebook("import torch", *sources)


def changed(change):
    """The right sheet after a change of its data."""
    data = json.loads(sheet(*RIGHT))
    change(data)
    return json.dumps(data)


def packed(*names, text=None):
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for name in names:
            archive.writestr(name, text or sheet(*RIGHT))
    return buffer.getvalue()


def colab(data):
    data["metadata"] = {"colab": {"provenance": [], "toc_visible": True}, "accelerator": "GPU", "kernelspec": None}
    for number, cell in enumerate(data["cells"]):
        cell["metadata"] = {"id": f"Xy{number}", "colab": {"base_uri": "https://localhost:8080/"}, "outputId": 3}
        cell |= {"execution_count": None, "outputs": [{"output_type": "stream", "text": "x" * 10**5}]}


def vscode(data):
    for number, cell in enumerate(data["cells"]):
        cell |= {"metadata": {"vscode": {"languageId": "python"}}, "id": f"#VSC-{number}", "language": "python"}
        cell["source"] = cell["source"].splitlines(keepends=True)


def duplicated(data):
    data["cells"] += data["cells"]


def with_ids_of_jupytext(data):
    data["metadata"] = {"jupytext": {"formats": "ipynb,py:percent"}, "widgets": {"state": {"a": [None]}}}
    data["nbformat_minor"] = 99


def attached(data):
    data["cells"].insert(
        0, {"cell_type": "markdown", "source": ["# Ä 你好"], "attachments": {"x.png": {"a": "b" * 10**6}}}
    )


ODD = {
    "Windows line ends": {"a.ipynb": json.dumps(json.loads(sheet(*(line.replace("\n", "\r\n") for line in RIGHT))))},
    "a byte order mark": {"a.ipynb": "\ufeff" + sheet(*RIGHT)},
    "Windows line ends in the file": {"a.ipynb": json.dumps(json.loads(sheet(*RIGHT)), indent=1).replace("\n", "\r\n")},
    "every cell twice": {"a.ipynb": changed(duplicated)},
    "an earlier definition that is wrong": {"a.ipynb": sheet(*WRONG.values(), *RIGHT)},
    "calls before the definition": {"a.ipynb": sheet("merge_heads(split_heads(torch.ones(2, 3, 4), 2))", *RIGHT)},
    "cells from bottom to top": {"a.ipynb": sheet(*reversed(RIGHT))},
    "one cell with everything": {"a.ipynb": sheet("\n\n".join(RIGHT))},
    "a flood of prints": {"a.ipynb": sheet("for n in range(20000): print('x' * 300)", *RIGHT)},
    "commands of Jupyter": {
        "a.ipynb": sheet(
            "%matplotlib inline\n!pip install -q einops\n%pip install x\n%load_ext autoreload", *RIGHT, "?torch"
        )
    },
    "a question to the reader": {"a.ipynb": sheet("name = input('Your name? ')", *RIGHT, "input()")},
    "Colab": {"a.ipynb": changed(colab)},
    "VS Code": {"a.ipynb": changed(vscode)},
    "jupytext and widgets": {"a.ipynb": changed(with_ids_of_jupytext)},
    "pictures in the text": {"a.ipynb": changed(attached)},
    "another name": {"Übung 4 – Müller (final) 你好 🎉.ipynb": sheet(*RIGHT)},
    "upper case": {"04_EXERCISES.IPYNB": sheet(*RIGHT)},
    "a zip of folders in folders": {"all.zip": packed("a/b c/ü/04_exercises.ipynb", "__MACOSX/a/._04_exercises.ipynb")},
    "folders with checkpoints": {
        "my work/week 4/04.ipynb": sheet(*RIGHT),
        "my work/.ipynb_checkpoints/04-checkpoint.ipynb": sheet(*WRONG.values()),
    },
    "a plot and a file of one's own": {"a.ipynb": sheet("import matplotlib.pyplot as plt\nplt.plot([1])", *RIGHT)},
    "async and annotations": {"a.ipynb": sheet("from __future__ import annotations\nasync def later(): ...", *RIGHT)},
    "a seed, a device and a dtype": {
        "a.ipynb": sheet("torch.manual_seed(0)\ntorch.set_default_dtype(torch.float64)\ndevice = 'cpu'", *RIGHT)
    },
    "a wildcard import": {"a.ipynb": sheet("from math import *\nfrom course_lib import *", *RIGHT)},
    "answers behind a main guard": {"a.ipynb": sheet(*RIGHT, "if __name__ == '__main__':\n    print(split_heads)")},
    "a last cell that never ends": {"a.ipynb": sheet(*RIGHT, "while True: pass")},
}


@pytest.mark.one_in(4)
@pytest.mark.parametrize("files", ODD.values(), ids=ODD)
def test_honest(files, tmp_path, sandboxes):
    for name, content in files.items():
        path = tmp_path / "in" / "ada" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
    result = graded(tmp_path / "in", sandboxes)
    assert result.points == FULL, [(mark.points, mark.verdict) for mark in result.marks] + [result.remarks]


# Each tries to make the wrong answers of the sheet pass, or the right answers of another exercise count for them.
PATCHES = {
    "torch.isclose": "torch.isclose = torch.allclose = torch.equal = lambda *a, **k: True",
    "permute that is the answer": "right = torch.Tensor.permute\ntorch.Tensor.reshape = lambda x, *s: right(x, 0)",
    "a finder for the judge": (
        "import sys\nfor name in list(sys.modules):\n"
        "    if 'exercises' in name or 'judg' in name: vars(sys.modules[name])['EXERCISES'] = {}"
    ),
    "globals of the guest": (
        "import sys\nframe = sys._getframe()\nwhile frame:\n"
        "    frame.f_globals['call_function'] = lambda *a: (True, [])\n    frame = frame.f_back"
    ),
    "names of the notebook": "import sys\nsys._getframe(1).f_locals['names'] = []",
}
METADATA = {
    "points": {"nbgrader": {"points": 99, "grade": True, "solution": True, "grade_id": "merge_heads"}},
    "a list of ids": {"nbgrader": {"solution": True, "grade_id": ["merge_heads", "split_heads"]}},
    "a deep one": {"nbgrader": {"solution": {"solution": True}, "grade_id": {"merge_heads": True}}},
    "no dictionary": ["nbgrader"],
    "tags": {"tags": ["passed", "</script>"], "attention_course": {"passed": True}},
}


@pytest.mark.parametrize("patch", PATCHES.values(), ids=PATCHES)
def test_a_patch_in_one_cell_makes_no_other_answer_pass(patch, tmp_path, sandboxes):
    (tmp_path / "eve.ipynb").write_text(sheet(patch, *WRONG.values()))
    assert graded(tmp_path, sandboxes).points == 0


@pytest.mark.parametrize("metadata", METADATA.values(), ids=METADATA)
def test_metadata_gives_no_points(metadata, tmp_path, sandboxes):
    data = json.loads(sheet(*WRONG.values()))
    for cell in data["cells"]:
        cell["metadata"] = metadata
    data["metadata"] = metadata
    (tmp_path / "eve.ipynb").write_text(json.dumps(data))
    result = graded(tmp_path, sandboxes)
    assert result.points == 0 and len(result.marks) == len(RELEASED)


@pytest.mark.parametrize(
    "names",
    [
        ("../bob.ipynb", "/bob/04.ipynb", "..\\bob\\04.ipynb"),
        ("bob_1_assignsubmission_file_04.ipynb",),
        ("con.ipynb", "a\0b.ipynb", "-rf.ipynb"),
        tuple(f"{number}.ipynb" for number in range(80)),
    ],
    ids=["outside", "another's name", "names of devices", "many"],
)
def test_a_zip_concerns_nobody_else(names, tmp_path, sandboxes):
    (tmp_path / "eve.zip").write_bytes(packed(*names, text=sheet(*WRONG.values())))
    (tmp_path / "bob.ipynb").write_text(sheet(*RIGHT))
    bob, eve = find_submissions(tmp_path)
    assert (bob.student, eve.student) == ("bob", "eve") and len(bob.files) == 1
    points = [
        grade_student(prepare_task(collected, RELEASE, GradingPolicy(), CONFIG, b"0" * 32), *sandboxes).points
        for collected in (bob, eve)
    ]
    assert points == [FULL, 0] and len(list(tmp_path.iterdir())) == 2


BASE = """
import torch
from torch import nn
class MultiHead(nn.Module):
    def __init__(self, d_in, d_out, num_heads):
        super().__init__()
        self.num_heads = num_heads
        self.W_q, self.W_k, self.W_v = (nn.Linear(d_in, d_out, bias=False) for _ in range(3))
        self.W_o = nn.Linear(d_out, d_out)
    def forward(self, x, mask=None):
        return self.W_o(self.W_v(x)) + 0 * (self.W_q(x) + self.W_k(x))
"""
SLY_MODULES = {
    "the wrong forward itself": "",
    "weights kept at load": "    def load_state_dict(self, state, *a, **k): return ([], [])\n",
    "false parameters": "    def named_parameters(self, *a, **k): return iter([('W', nn.Parameter(torch.ones(2)))])\n",
    "a call of its own": "    def __call__(self, *a, **k): return True\n    def __eq__(self, other): return True\n",
    "forged gradients": (
        "    def zero_grad(self, *a): pass\n    def requires_grad_(self, *a): return self\n"
        "    def parameters(self, *a):\n        for one in super().parameters():\n"
        "            one.grad = torch.ones_like(one)\n            yield one\n"
    ),
    "a hook on the way out": (
        "nn.modules.module.register_module_forward_hook(lambda module, inputs, output: torch.zeros_like(output))\n"
    ),
    "another class under the name": (
        "class MultiHead(nn.Identity):\n    def __init__(self, *a): nn.Module.__init__(self)\n"
    ),
    "a mode of its own": "    def train(self, mode=True): return True\n    def double(self): return 7\n",
}


@pytest.mark.parametrize("more", SLY_MODULES.values(), ids=SLY_MODULES)
def test_a_module_that_deceives_gets_nothing(more, tmp_path, sandboxes):
    exercises = tuple(each for each in released_exercises(["05"]) if each.name == "MultiHead")
    release = Release("week5", "1", "0", exercises)
    (tmp_path / "eve.ipynb").write_text(notebook(BASE + more))
    (submission,) = find_submissions(tmp_path)
    result = grade_student(prepare_task(submission, release, GradingPolicy(), CONFIG, b"0" * 32), *sandboxes)
    assert result.points == 0 and "Grading itself failed" not in result.marks[0].verdict.message, result.marks
