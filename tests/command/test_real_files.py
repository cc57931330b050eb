"""Real files: packages that are missing, files that train on import, notebooks, several targets, set-up files."""

import ast
import json
import sys
import textwrap

import pytest

from course_lib.command import main
from course_lib.command.target.notebook import cells

HEAD = """\
import math

import torch
from torch import nn


class Head(nn.Module):
    def __init__(self, d_in, head_dim):
        super().__init__()
        self.q, self.k, self.v = (nn.Linear(d_in, head_dim) for _ in range(3))

    def forward(self, x):
        scores = self.q(x) @ self.k(x).mT / math.sqrt(self.q.out_features)
        hidden = torch.ones(x.shape[1], x.shape[1], dtype=torch.bool, device=x.device).triu(1)
        return scores.masked_fill(hidden, -torch.inf).softmax(dim=-1) @ self.v(x)


class Unscaled(Head):
    def forward(self, x):
        hidden = torch.ones(x.shape[1], x.shape[1], dtype=torch.bool, device=x.device).triu(1)
        return (self.q(x) @ self.k(x).mT).masked_fill(hidden, -torch.inf).softmax(dim=-1) @ self.v(x)
"""
pytestmark = pytest.mark.usefixtures("imports_are_undone")


@pytest.fixture
def doctor(tmp_path, monkeypatch, capsys):
    """Run `course doctor` in the test's folder: (status, what it printed, what it said on the side)."""
    monkeypatch.chdir(tmp_path)

    def run(*words):
        status = main(["doctor", *words])
        shown = capsys.readouterr()
        assert "Traceback" not in shown.err
        return status, shown.out, shown.err

    return run


@pytest.fixture
def write(tmp_path):
    def written(name, text):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(textwrap.dedent(text), encoding="utf-8")
        return path

    return written


def notebook(*cells):
    listed = [{"cell_type": kind, "source": text.splitlines(keepends=True)} for kind, text in cells]
    return json.dumps({"cells": listed, "metadata": {}, "nbformat": 4, "nbformat_minor": 5})


GUARD = """\
try:
    import no_such_kernel
except ImportError:
    no_such_kernel = None
assert no_such_kernel is None
"""

# --- packages that are not installed ---

MISSING = """\
import no_such_tokenizer
from no_such_log import logger
from no_such_log.config import BaseConfig, option
from no_such_frame import LightModule

encoding = no_such_tokenizer.get_encoding("gpt2")
logger.info("imported")


class Config(BaseConfig):
    width: no_such_tokenizer.Int["width"] | None = None


@option(Config.width, "default")
def width(config):
    return 12


@no_such_frame_is_off() if False else option
class Model(LightModule):
    pass

""".replace("@no_such_frame_is_off() if False else option\n", "")


def test_packages_that_attention_does_not_need_are_stood_in_for_and_named(doctor, write):
    write("model.py", MISSING + HEAD)
    status, shown, said = doctor("model.py:Head", "--args", "11, 7")
    assert status == 0 and "this is attention" in shown
    assert "stood in for: no_such_frame, no_such_log, no_such_tokenizer (not installed here)\n" in said
    assert doctor("model.py:Unscaled", "--args", "11, 7")[0] == 1, "its mistakes are found all the same"


def test_a_class_whose_base_is_missing_is_a_module_if_its_name_says_so(doctor, write):
    write(
        "model.py", "import no_such_frame\n" + HEAD.replace("class Head(nn.Module)", "class Head(no_such_frame.Module)")
    )
    assert doctor("model.py:Head", "--args", "11, 7")[0] == 0


@pytest.mark.slow
def test_an_import_that_is_guarded_fails_as_the_file_expects(doctor, write):
    guard = (
        "try:\n    import no_such_kernel\nexcept ImportError:\n    no_such_kernel = None\nassert not no_such_kernel\n"
    )
    write("model.py", guard + HEAD)
    status, _, said = doctor("model.py:Head", "--args", "11, 7")
    assert status == 0 and "stood in" not in said and "left out" not in said


NEEDS = {
    "no_such_ops.softmax(scores.masked_fill(hidden, -torch.inf))": "no_such_ops.softmax is needed here",
    "torch.matmul(no_such_ops.table, scores)": "no_such_ops.table is needed here",
    "scores * no_such_ops.table": "no_such_ops.table is needed here",
    "no_such_ops.table[scores]": "no_such_ops.table is needed here",
}


@pytest.mark.parametrize("code", NEEDS)
def test_a_package_that_attention_needs_is_said(doctor, write, code):
    text = HEAD.replace("scores.masked_fill(hidden, -torch.inf).softmax(dim=-1)", code, 1)
    write("model.py", f"import no_such_ops\n{text}")
    status, shown, _ = doctor("model.py:Head", "--args", "11, 7")
    assert status == 2 and NEEDS[code] in shown
    said = "no_such_ops is not installed: install it, by the name that the code's requirements give it, or examine code"
    assert said in shown, "pip may know another package by the name of the import"


def test_a_number_from_a_missing_package_is_needed(doctor, write):
    text = HEAD.replace("super().__init__()", "super().__init__()\n        d_in = d_in // no_such_parallel.size()", 1)
    write("model.py", f"import no_such_parallel\n{text}")
    status, _, said = doctor("model.py:Head", "--args", "11, 7")
    assert status == 2 and "no_such_parallel.size(...) is needed here, and no_such_parallel is not installed" in said


def test_a_layer_from_a_missing_package_is_needed(doctor, write):
    text = HEAD.replace(
        "super().__init__()", "super().__init__()\n        nn.Sequential(no_such_layers.Rearrange())", 1
    )
    write("model.py", f"import no_such_layers\n{text}")
    status, _, said = doctor("model.py:Head", "--args", "11, 7")
    assert status == 2 and "no_such_layers.Rearrange(...) is needed here, and no_such_layers is not installed" in said


def test_what_was_stood_in_for_is_said_where_the_code_can_not_be_built(doctor, write):
    text = HEAD.replace(
        "super().__init__()", "super().__init__()\n        assert no_such_sizes.a == no_such_sizes.b", 1
    )
    write("model.py", f"import no_such_sizes\n{text}")
    status, _, said = doctor("model.py:Head", "--args", "11, 7")
    assert status == 2 and "AssertionError" in said
    assert said.endswith("change --args. Before that: stood in for: no_such_sizes (not installed here).\n")


def test_other_arguments_are_no_remedy_for_a_missing_package(doctor, write):
    text = HEAD.replace("super().__init__()", "super().__init__()\n        d_in += no_such_parallel.size()", 1)
    write("model.py", f"import no_such_parallel\n{text}")
    said = doctor("model.py:Head", "--args", "11, 7")[2]
    assert "no_such_parallel is not installed" in said and "change --args" not in said


def test_a_missing_initialisation_changes_nothing(doctor, write):
    text = HEAD.replace("range(3))\n", "range(3))\n        trunc_normal_(self.q.weight, std=0.02)\n", 1)
    write("model.py", f"from no_such_layers import trunc_normal_\n{text}")
    assert doctor("model.py:Head", "--args", "11, 7")[0] == 0


def test_what_comes_from_a_missing_package_is_no_target(doctor, write):
    write("model.py", "from no_such_ops import Attention\n")
    status, _, said = doctor("model.py:Attention")
    assert status == 2 and "Attention comes from a package that is not installed: no_such_ops.Att" in said


def test_a_name_that_an_installed_package_lacks_is_stood_in_for(doctor, write):
    write("pkg/__init__.py", "from json import no_such_name, loads\n")
    write("pkg/model.py", f"from pkg import loads, no_such_name\n{HEAD}")
    status, _, said = doctor("pkg/model.py:Head", "--args", "11, 7")
    assert status == 0 and "stood in for: json.no_such_name (could not be imported)" in said


@pytest.mark.slow
def test_stand_ins_of_one_target_are_not_there_for_the_next(doctor, write):
    write("one.py", f"import no_such_kernel\n{HEAD}")
    write("two.py", GUARD.replace("assert no_such_kernel is None", "KERNEL = no_such_kernel") + HEAD)
    status, _, said = doctor("one.py:Head", "two.py:Head", "--args", "11, 7")
    assert status == 0 and said.count("stood in for") == 1
    assert sys.modules["two"].KERNEL is None


# --- the repository ---


@pytest.mark.one_in(3)
@pytest.mark.parametrize("folder", ["", "src/", "python/"])
def test_the_packages_of_the_repository_are_found(doctor, write, tmp_path, folder):
    (tmp_path / ".git").mkdir()
    write(f"{folder}own_parts/sizes.py", "WIDTH = 7")
    write(
        "examples/deep/model.py", HEAD.replace("import math\n", "import math\nfrom own_parts.sizes import WIDTH\n", 1)
    )
    status, _, said = doctor("examples/deep/model.py:Head", "--args", "11, WIDTH")
    assert status == 0 and "stood in" not in said


@pytest.mark.slow
def test_a_part_of_a_package_is_not_taken_for_a_missing_package_of_that_name(doctor, write, tmp_path):
    (tmp_path / ".git").mkdir()
    for name in ("pkg", "pkg/no_such_data", "pkg/models"):
        write(f"{name}/__init__.py", "")
    write("pkg/models/attention.py", f"from no_such_data import load\n{HEAD}")
    status, _, said = doctor("pkg/models/attention.py:Head", "--args", "11, 7")
    assert status == 0 and "stood in for: no_such_data (not installed here)" in said


@pytest.mark.slow
def test_a_folder_without_init_in_a_package_is_imported_anew(doctor, write, tmp_path):
    (tmp_path / ".git").mkdir()
    for name in ("pkg", "pkg/model", "pkg/utils"):
        write(f"{name}/__init__.py", "")
    write("pkg/utils/data.py", "import no_such_package\nsame = no_such_package.load")
    write("pkg/model/modules/sizes.py", "WIDTH = 7")
    lines = "from pkg.model.modules.sizes import WIDTH\nfrom pkg.utils.data import same"
    write("pkg/model/modules/attention.py", f"{lines}\n{HEAD}")
    status, _, said = doctor("pkg/model/modules/attention.py:Head", "--args", "11, WIDTH")
    assert status == 0 and "left out" not in said


@pytest.mark.slow
def test_a_package_whose_init_fails_is_run_in_part(doctor, write):
    write("pkg/__init__.py", "SIZE = 7\nraise RuntimeError('no driver')\nOTHER = 1\n")
    write("pkg/model.py", f"from . import OTHER, SIZE\n{HEAD}")
    status, _, said = doctor("pkg/model.py:Head", "--args", "11, SIZE")
    assert status == 0
    assert (
        "left out, because it failed: __init__.py:2: raise RuntimeError('no driver') (RuntimeError: no driver)" in said
    )


def test_two_repositories_may_have_packages_of_the_same_name(doctor, write, tmp_path):
    for name, text in (("one", HEAD), ("two", HEAD.replace("/ math.sqrt(self.q.out_features)", ""))):
        write(f"{name}/model/__init__.py", "")
        write(f"{name}/model/attention.py", text)
    targets = ("one/model/attention.py:Head", "two/model/attention.py:Head")
    status, shown, _ = doctor(*targets, "--args", "11, 7", "--json")
    assert status == 1 and [result["status"] for result in json.loads(shown)] == [0, 1]


def test_a_file_named_like_a_module_of_python_hides_nothing(doctor, write):
    import random

    write("random.py", HEAD)
    assert doctor("random.py:Head", "--args", "11, 7")[0] == 0
    assert sys.modules["random"] is random


# --- files that train or read when they are imported ---

SCRIPT = (
    HEAD.replace("head_dim):", "head_dim=HEAD_DIM):").replace(
        "import math", "import math\nfrom dataclasses import dataclass"
    )
    + """

HEAD_DIM = 7
text = open("no_such_input.txt").read()
vocabulary = len(set(text))
model = Head(11)
for step in range(1000):
    open("trained.txt", "a").write("step")
    model(torch.randn(2, 5, 11)).sum().backward()
"""
)


@pytest.mark.slow
def test_only_what_the_name_needs_is_run(doctor, write, tmp_path):
    lines = SCRIPT.replace("HEAD_DIM = 7\n", "").replace("\n\nclass Head", "\nHEAD_DIM = 7\n\nclass Head")
    write("train.py", lines)
    status, _, said = doctor("train.py:Head", "--args", "d_in=11")
    assert status == 0 and "left out" not in said, "the text is not needed, so it is not missed"
    assert not (tmp_path / "trained.txt").exists()


def test_annotations_are_not_evaluated_if_the_file_says_so(doctor, write):
    text = HEAD.replace("(self, x):", "(self, x: NoSuchTensor) -> NoSuchTensor:")
    write("train.py", f"from __future__ import annotations\n{text}\nfor _ in range(3):\n    pass\n")
    assert doctor("train.py:Head", "--args", "11, 7")[0] == 0


def test_a_file_that_needs_another_file_says_which_line(doctor, write):
    write("train.py", SCRIPT.replace("HEAD_DIM = 7\n", "") + "HEAD_DIM = vocabulary\n")
    status, _, said = doctor("train.py:Head", "--args", "11")
    assert status == 2
    assert "NameError: name 'HEAD_DIM' is not defined" in said


@pytest.mark.slow
def test_a_file_that_reads_without_a_loop(doctor, write):
    write("model.py", f"import sys\ntext = open('no_such_input.txt').read()\nsys.exit(len(text))\n{HEAD}")
    assert doctor("model.py:Head", "--args", "11, 7")[0] == 0


def test_a_name_whose_own_line_fails(doctor, write):
    write("model.py", f"{HEAD}\nmodel = Head(len(open('no_such_input.txt').read()), 7)\n")
    status, _, said = doctor("model.py:model")
    line = HEAD.count("\n") + 2
    assert status == 2 and f"has no model, because this failed: model.py:{line}: model = Head(len(open(" in said
    assert "run it in the folder that has what it needs, or write a file with build() and give --setup FILE" in said


# --- notebooks ---

CELLS = (
    ("markdown", "# Attention"),
    ("code", "%pip install torch\n!nvidia-smi\nimport torch\nfrom torch import nn\ninputs = torch.randn(5, 11)\nnn?"),
    ("code", "%%bash\nls /"),
    ("code", HEAD),
    ("code", "WIDTH = 7\nfor step in range(3):\n    open('trained.txt', 'a').write('step')\n"),
    ("code", "print(Head(11, 7)(inputs[None]))\nmodel = Head(11, WIDTH)\nthis is no Python\n"),
    ("code", "model = Head(11, WIDTH)"),
)


def test_a_notebook(doctor, write, tmp_path):
    write("lesson.ipynb", notebook(*CELLS))
    assert doctor("lesson.ipynb:Head", "--args", "11, WIDTH")[0] == 0
    assert doctor("lesson.ipynb:model")[0] == 0, "an instance"
    assert not (tmp_path / "trained.txt").exists(), "nothing else is run"
    status, shown, said = doctor("lesson.ipynb:Unscaled")
    assert status == 1 and "[missing-scale]" in shown and "Look at lesson.ipynb[cell 4]:" in shown
    assert "built as Unscaled(d_in=24, head_dim=4), a guess: give --args for your own" in said


@pytest.mark.parametrize(
    ("magic", "runs_python"),
    [("%%time", True), ("%%timeit -n 1", True), ("%%capture", True), ("%%capture out", True), ("%%bash", False),
     ("%%timeless", False), ("%%html", False), ("%%javascript", False), ("%%writefile head.py", False)],
)  # fmt: skip
def test_a_cell_is_read_if_its_magic_runs_it_as_python(write, magic, runs_python):
    ((_, tree),) = cells(write("lesson.ipynb", notebook(("code", f"{magic}\nimport torch\n"))))
    assert any(isinstance(statement, ast.Import) for statement in tree.body) == runs_python


LOCALS = HEAD.replace("def forward(self, x):", "def forward(self, x):\n        _, num_tokens, _ = x.shape", 1)


@pytest.mark.slow
@pytest.mark.parametrize("binds", ["_, labels", "x", "m"])
def test_a_name_that_the_class_and_the_call_bind_themselves_runs_no_cell(doctor, write, binds, tmp_path):
    loads = f"def load():\n    open('loaded.txt', 'w').close()\n    return 1, 2\n\n\n{binds} = load()"
    write("lesson.ipynb", notebook(("code", LOCALS), ("code", loads)))
    assert doctor("lesson.ipynb:Head", "--args", "11, 7", "--call", "lambda m, x: m(x)")[0] == 0
    assert not (tmp_path / "loaded.txt").exists()


def test_what_is_no_notebook(doctor, write):
    write("lesson.ipynb", "{}")
    status, _, said = doctor("lesson.ipynb:Head")
    assert status == 2 and said.endswith(
        "lesson.ipynb is no notebook that Jupyter wrote: open it in Jupyter and save it again.\n"
    )


NOTEBOOK = [
    "import torch\nfrom torch import nn\ntext = open('no_such_input.txt').read()",
    "HEAD_DIM = len(set(text))\nwords = text.split()",
    HEAD + "\n\nclass Sized(Head):\n    def forward(self, x):\n        return super().forward(x) * min(HEAD_DIM, 1)\n",
    "class Words:\n    first = words[0]",
    "x = words[0]\nscores = [x for x in words]",
]


def test_what_of_a_notebook_is_left_out_is_one_line_and_what_the_name_reads(doctor, write):
    cells = [{"cell_type": "code", "source": text.splitlines(keepends=True)} for text in NOTEBOOK]
    write("lesson.ipynb", json.dumps({"cells": cells}))
    left_out = "left out, because they failed: {} statements, the first of them lesson.ipynb[cell 1]:3: text = open("
    status, _, said = doctor("lesson.ipynb:Head", "--args", "11, 7")
    assert status == 0 and said.count("left out") == 1 and left_out.format(3) in said, "x is an argument of forward"
    _, _, said = doctor("lesson.ipynb:Sized", "--args", "11, 7")
    assert said.count("left out") == 2 and left_out.format(4) in said
    assert "left out, because it failed: lesson.ipynb[cell 2]:1: HEAD_DIM = len(set(text)) (NameError: " in said


@pytest.mark.slow
def test_python_warns_of_no_line_of_the_file(doctor, write, recwarn):
    write(
        "model.py", f"import no_such_log\nimport no_such_frame\n\n\ndef is_b(t):\n    return t is not 'b'\n\n\n{HEAD}"
    )
    status, _, _ = doctor("model.py:Head", "--args", "11, 7")
    assert status == 0 and not [warning for warning in recwarn if issubclass(warning.category, SyntaxWarning)]


@pytest.mark.parametrize("where", ["__init__", "forward"])
def test_a_name_that_only_a_script_has_says_where_to_set_it(doctor, write, where):
    reads = {
        "__init__": ("super().__init__()", "super().__init__()\n        self.width = WIDTH"),
        "forward": ("def forward(self, x):", "def forward(self, x):\n        x = x * WIDTH"),
    }
    write("model.py", HEAD.replace(*reads[where], 1) + "\n\nif __name__ == '__main__':\n    WIDTH = 3\n")
    status, shown, said = doctor("model.py:Head", "--args", "11, 7", "--d-in", "11")
    assert status == 2 and "set `WIDTH` above `if __name__ == '__main__'`" in shown + said


@pytest.mark.slow
def test_warnings_of_the_code_are_left_out(doctor, write, recwarn):
    shown = HEAD.replace("def forward(self, x):", "def forward(self, x):\n        warnings.warn('x')")
    write("model.py", f"import warnings\n\nwarnings.warn('old')\n\n{shown}")
    status, _, _ = doctor("model.py:Head", "--args", "11, 7")
    assert status == 0 and not {str(warning.message) for warning in recwarn} & {"old", "x"}


# --- sizes and calls ---

WINDOW = """\
import torch
from torch import nn


class Window(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.heads, self.scale = heads, (dim // heads) ** -0.5
        self.bias = nn.Sequential(nn.Linear(2, dim // 4), nn.ReLU(), nn.Linear(dim // 4, heads))
        grid = torch.arange(4.0)
        pairs = torch.cartesian_prod(grid, grid)
        self.register_buffer("apart", pairs[:, None] - pairs)

    def forward(self, qkv):
        q, k, v = (one.unflatten(-1, (self.heads, -1)).transpose(1, 2) for one in qkv)
        scores = q * self.scale @ k.mT + self.bias(self.apart).permute(2, 0, 1)
        return (scores.softmax(-1) @ v).transpose(1, 2).flatten(2)


class Encoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.TransformerEncoderLayer(24, 4, batch_first=True)

    def forward(self, x):
        return self.layer(x)
"""


@pytest.mark.slow
def test_a_width_that_the_code_was_built_with_comes_first(doctor, write):
    write("window.py", WINDOW)
    options = ["--tokens", "16", "--lengths", "16", "--call", "lambda m, x: m(torch.stack([x, x, x]))", "--not-causal"]
    status, shown, said = doctor("window.py:Window", "--args", "24, 4", *options)
    assert status == 0 and "4 heads of width 6" in shown and "x is torch.randn(2, 16, 24), its width a guess" in said


@pytest.mark.slow
def test_only_the_usual_width_takes_long(doctor, write):
    write("encoder.py", WINDOW)
    status, _, said = doctor("encoder.py:Encoder", "--not-causal")
    assert status == 0 and "takes long" not in said, "2048 is the width of its feed-forward layer only"


def test_large_defaults_are_replaced_by_small_ones(doctor, write):
    write("model.py", HEAD.replace("self, d_in, head_dim)", "self, d_in=768, head_dim=64)"))
    status, shown, said = doctor("model.py:Head")
    assert status == 0 and "1 head of width 4" in shown
    assert "built smaller than by default, as Head(d_in=24, head_dim=4): give --args for other sizes\n" in said
    said = doctor("model.py:Head", "--args", "768, 64")[2]
    assert (
        'a width of 768 takes long, and a small one shows the same mistakes, such as --args "d_in=24, head_dim=4"'
        in said
    )


def test_wider_sizes_are_tried_and_a_guess_that_fails_is_called_one(doctor, write):
    check = "        super().__init__()\n        if d_in % 32:\n            raise ValueError('32 must divide d_in')\n"
    write("model.py", HEAD.replace("        super().__init__()\n", check, 1))
    status, _, said = doctor("model.py:Head")
    assert status == 0 and "built as Head(d_in=96, head_dim=16), a guess" in said
    write("other.py", HEAD.replace("        super().__init__()\n", check.replace("32", "7"), 1))
    status, _, said = doctor("other.py:Head")
    assert status == 2 and "ValueError: 7 must divide d_in" in said
    assert said.endswith("These arguments are a guess: give --args, or a file with build() and --setup FILE.\n")


@pytest.mark.slow
def test_the_call_is_guessed_where_names_say_what_is_given(doctor, write):
    write(
        "model.py",
        HEAD.replace(
            "def forward(self, x):",
            "def forward(self, hidden_states, mask):\n        x = hidden_states * (1 if mask is None else mask)",
            1,
        ),
    )
    status, _, said = doctor("model.py:Head", "--args", "11, 7")
    assert status == 0 and "called as m(x, None), a guess: give --call for your own" in said


ASKED = """
import torch


def attention(q, k, v, mask{default}):
    scores = q @ k.transpose(-2, -1) / q.shape[-1] ** 0.5
    if mask is not None:
        scores = scores.masked_fill({hidden}, -torch.inf)
    return scores.softmax(-1) @ v
"""


@pytest.mark.parametrize(
    ("default", "hidden", "status"),
    [
        ("=None", "mask == 0", 0),  # the doctor offers it
        ("", "mask == 0", 0),
        ("", "mask", 0),  # True hides
        ("", "mask < -1", 1),  # nothing that is given hides anything
    ],
)
def test_code_that_masks_when_it_is_asked_to_is_asked(doctor, write, default, hidden, status):
    write("asked.py", ASKED.format(default=default, hidden=hidden))
    found, out, said = doctor("asked.py:attention", "--d-in", "7")
    assert (found, "no-causal-mask" in out) == (status, status == 1), (out, said)


def test_other_tokens_are_given_where_the_code_can_not_do_without(doctor, write):
    text = HEAD.replace("(self, x):", "(self, x, context=None):\n        len(context)", 1)
    write("model.py", text)
    status, _, said = doctor("model.py:Head", "--args", "11, 7")
    assert status == 0 and "called as m(x, context=x), a guess: give --call for your own" in said


@pytest.mark.slow
def test_the_input_and_who_may_see_whom(doctor, write):
    window = "torch.ones(5, 5).tril().triu(-1) > 0"
    write(
        "model.py", HEAD.replace("triu(1)", "triu(1)\n        hidden = hidden | ~torch.ones_like(hidden).triu(-1)", 1)
    )
    assert doctor("model.py:Head", "--args", "11, 7")[0] == 1
    assert doctor("model.py:Head", "--args", "11, 7", "--keep", window)[0] == 0
    assert doctor("model.py:Head", "--args", "11, 7", "--keep", window, "--x", "torch.randn(2, 5, 11)")[0] == 0
    said = doctor("model.py:Head", "--args", "11, 7", "--x", "torch.randn(2, no_such, 11)")[2]
    assert "--x 'torch.randn(2, no_such, 11)' can't be evaluated: NameError" in said


# --- a set-up file ---

SETUP = """\
import torch
from model import Head

def build():
    return Head(11, 7), torch.randn(2, 5, 11), {"num_heads": 1, "call": lambda module, x: module(x)}
"""


def test_a_setup_file(doctor, write):
    write("model.py", HEAD)
    write("my_setup.py", SETUP)
    assert doctor("--setup", "my_setup.py")[0] == 0
    write("my_setup.py", SETUP.replace("import Head", "import Unscaled as Head"))
    assert doctor("--setup", "my_setup.py", "model.py:Head", "--args", "11, 7")[0] == 1


SETUPS = {
    "def build():\n    return 3\n": "build() of my_setup.py must return (module, x, options), such as",
    "def build():\n    return 1 / 0\n": "build() of my_setup.py failed: ZeroDivisionError: division by zero (my_",
    "x = 1\n": "my_setup.py has no build; it has nothing that can be called.",
}


@pytest.mark.parametrize("text", SETUPS)
def test_a_setup_file_that_is_none(doctor, write, text):
    write("my_setup.py", text)
    status, _, said = doctor("--setup", "my_setup.py")
    assert status == 2 and SETUPS[text] in said
    assert "--setup other.py: there is no such file; give its path from " in doctor("--setup", "other.py")[2]


# --- x of another layout ---

WIDTH_FIRST = """
class Convolved(nn.Module):
    def __init__(self, channels, kind=nn.Conv1d, scale=0.5):
        super().__init__()
        self.norm, self.qkv = nn.GroupNorm(4, channels), kind(channels, 3 * channels, 1)
        self.out = kind(channels, channels, 1)
        self.scale = scale

    def forward(self, x):
        q, k, v = self.qkv(self.norm(x)).flatten(2).chunk(3, dim=1)
        q, k, v = (one.unflatten(1, (-1, 4)) for one in (q, k, v))
        weights = (q.mT @ k * self.scale).softmax(-1)
        return x + self.out((v @ weights.mT).flatten(1, 2).view(x.shape))
"""


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["nn.Conv1d", "nn.Conv2d"])
def test_convolutions_get_their_width_first(doctor, write, kind):
    write("model.py", HEAD + WIDTH_FIRST)
    status, shown, said = doctor("model.py:Convolved", "--args", f"16, {kind}", "--not-causal")
    assert status == 0 and "nothing wrong was found" in shown, shown
    assert ", its width first, a guess: give --x for your own" in said
    status, shown, _ = doctor("model.py:Convolved", "--args", f"16, {kind}, 1.0", "--not-causal")
    assert status == 1 and "[missing-scale]" in shown


def test_a_norm_that_computes_in_float32_does_not_keep_the_layout_from_being_found(doctor, write):
    norm = (
        "class Norm(nn.GroupNorm):\n    def forward(self, x):\n        return super().forward(x.float()).to(x.dtype)\n"
    )
    write("model.py", HEAD + norm + WIDTH_FIRST.replace("nn.GroupNorm(4", "Norm(4"))
    assert doctor("model.py:Convolved", "--args", "16", "--not-causal")[0] == 0


# --- several targets ---


@pytest.mark.slow
def test_several_targets(doctor, write):
    write("model.py", HEAD)
    status, shown, said = doctor("model.py:Head", "model.py:Unscaled", "model.py:NoSuch", "--args", "11, 7")
    assert status == 1 and "Head: this is attention" in shown and "Unscaled: one thing is wrong." in shown
    assert "course doctor: model.py:NoSuch: model.py has no NoSuch; it has Head, Unscaled" in said
    assert doctor("model.py:Head", "model.py:NoSuch", "--args", "11, 7")[0] == 2
    status, shown, _ = doctor("model.py:Head", "model.py:NoSuch", "--args", "11, 7", "--json")
    first, second = json.loads(shown)
    assert (first["target"], first["status"], first["ok"]) == ("model.py:Head", 0, True)
    assert (second["status"], second["ok"]) == (2, False) and second["error"].startswith("model.py has no NoSuch")


@pytest.mark.slow
def test_annotations_do_not_get_into_the_data(doctor, write):
    write("model.py", HEAD)
    _, shown, said = doctor("model.py:Unscaled", "--args", "11, 7", "--json", "--github")
    assert json.loads(shown)["status"] == 1 and "::error " in said


def test_annotations_and_sarif_are_relative_to_the_repository(doctor, write, tmp_path, monkeypatch):
    (tmp_path / ".git").mkdir()
    write("deep, 50% done/model.py", HEAD)
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    words = (
        "../deep, 50% done/model.py:Unscaled",
        "../deep, 50% done/model.py:NoSuch",
        "--args",
        "11, 7",
        "--github",
        "--sarif",
        "out.sarif",
    )
    status, shown, _ = doctor(*words)
    line = HEAD.splitlines().index("class Unscaled(Head):") + 4
    first, second = [line for line in shown.splitlines() if line.startswith("::")]
    where = "file=deep%2C 50%25 done/model.py"
    assert status == 1 and first.startswith(f"::error {where},line={line},title=Unscaled%3A missing-scale::")
    said = "../deep, 50%25 done/model.py has no NoSuch"
    assert second.startswith(f"::warning {where},line=1,title=course doctor::{said}")
    log = json.loads((tmp_path / "elsewhere" / "out.sarif").read_text(encoding="utf-8"))
    (run,) = log["runs"]
    (found,) = run["results"]
    assert log["version"] == "2.1.0" and found["ruleId"] == "missing-scale" and found["level"] == "error"
    place = found["locations"][0]["physicalLocation"]
    assert place == {"artifactLocation": {"uri": "deep%2C%2050%25%20done/model.py"}, "region": {"startLine": line}}
    (rule,) = run["tool"]["driver"]["rules"]
    assert rule["id"] == "missing-scale" and rule["helpUri"].endswith("/mistakes/missing-scale.html")
    (failed,) = run["invocations"][0]["toolExecutionNotifications"]
    assert "has no NoSuch" in failed["message"]["text"] and not run["invocations"][0]["executionSuccessful"]


# --- packages that a file hides ---

CHILD = "from model.parts.base import Head\n\n\nclass Child(Head):\n    pass\n"


@pytest.mark.slow
def test_a_file_beside_the_target_does_not_hide_the_package_of_the_repository(doctor, write):
    write("model/parts/base.py", HEAD)
    write("model/parts/model.py", "raise RuntimeError('not what was meant')\n")
    write("model/parts/child.py", CHILD)
    status, shown, said = doctor("model/parts/child.py:Child", "--args", "11, 7")
    assert status == 0 and "this is attention" in shown, said


def test_a_set_up_file_that_hides_the_package_it_needs_is_named(doctor, write):
    write("src/heads/base.py", HEAD)
    path = write("heads.py", "import sys\nsys.path.insert(0, 'src')\nfrom heads.base import Head\n")
    status, _, said = doctor("--setup", "heads.py")
    assert status == 2 and said.endswith(f"; {path} hides the package heads: give that file another name.\n"), said


# --- a context ---

CROSS = (
    HEAD
    + """
class Cross(Head):
    def forward(self, x, y, mask=None):
        x = x if mask is None else x * mask
        return (self.q(x) @ self.k(y).mT / math.sqrt(self.q.out_features)).softmax(dim=-1) @ self.v(y)


class Three(Head):
    def forward(self, query, key, value, mask):
        scores = self.q(query) @ self.k(key).mT / math.sqrt(self.q.out_features)
        return scores.masked_fill(mask == 0, -torch.inf).softmax(dim=-1) @ self.v(value)
"""
)


@pytest.mark.parametrize("name", ["Cross", "Three"])
def test_a_context_is_given_in_place_of_keys_and_values(doctor, write, name):
    write("model.py", CROSS)
    status, shown, said = doctor(f"model.py:{name}", "--args", "11, 7", "--context", "6")
    assert status == 0 and "a context of 6" in shown, shown
    assert ("called as m(x, c, c, torch.ones(x.shape[1], c.shape[1]," in said) == (name == "Three")


@pytest.mark.slow
def test_the_only_tensor_with_rows_in_a_dict_is_the_output(doctor, write):
    given = "{'loss': torch.zeros(()), 'logits': super().forward(x), 'cache': None}"
    write("model.py", f"{HEAD}\n\nclass Fields(Head):\n    def forward(self, x):\n        return {given}\n")
    status, shown, _ = doctor("model.py:Fields", "--args", "11, 7")
    assert status == 0 and "this is attention" in shown, shown
