"""`course scan` opens files and families, says what is wrong on which path, and ends with the right status."""

import json

import pytest

from course_lib.command import main

MODEL = """
import torch
from torch import nn


class GPT(nn.Module):
    def __init__(self, vocabulary, width, heads, forgets=False):
        super().__init__()
        self.tokens, self.positions = nn.Embedding(vocabulary, width), nn.Embedding(32, width)
        self.attention = nn.MultiheadAttention(width, heads, batch_first=True)
        self.last, self.forgets = nn.Linear(width, vocabulary), forgets

    def forward(self, ids, return_weights=False):
        x = self.tokens(ids) + self.positions(torch.arange(ids.shape[1], device=ids.device))
        hidden = torch.ones(2 * [ids.shape[1]], dtype=torch.bool, device=ids.device).triu(1)
        hidden = None if self.forgets and return_weights else hidden
        x, weights = self.attention(x, x, x, attn_mask=hidden, need_weights=return_weights)
        return self.last(x)


def forgetful():
    return GPT(50, 12, 3, forgets=True)


def half(x):
    return x / 2
"""


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "model.py"
    path.write_text(MODEL, encoding="utf-8")
    return path


@pytest.mark.slow
def test_a_file_with_a_right_model_agrees_on_all_paths(file, capsys):
    assert main(["scan", f"{file}:GPT", "--args", "50, 12, 3"]) == 0
    assert "GPT: 8 paths run, all agree." in capsys.readouterr().out


def test_a_mask_that_is_lost_with_an_option_is_named_with_its_module(file, capsys):
    assert main(["scan", f"{file}:GPT", "--args", "50, 12, 3, forgets=True", "--json"]) == 1
    data = json.loads(capsys.readouterr().out)
    assert [finding["mistake"] for finding in data["findings"]] == ["mask-lost-on-option"]
    assert data["findings"][0]["path"].endswith("model.py")
    assert "on the path `weights returned`" in data["findings"][0]["evidence"]


@pytest.mark.slow
def test_a_family_of_transformers_is_built_and_scanned(capsys):
    pytest.importorskip("transformers")
    assert main(["scan", "transformers:gpt2"]) == 0
    assert "gpt2: 16 paths run, all agree." in capsys.readouterr().out


def test_an_unknown_family_and_a_function_are_refused_with_the_way_out(file, capsys):
    assert main(["scan", "transformers:lama"]) == 2
    assert "such as 'llama', got 'lama'" in capsys.readouterr().err
    assert main(["scan", f"{file}:half", "--x", "torch.randn(2, 9, 4)"]) == 2
    assert "half is no module, which a scan needs: wrap it in an nn.Module." in capsys.readouterr().err
    assert main(["scan", f"{file}:half"]) == 2
    assert "half is no module" in capsys.readouterr().err


SETUP = """
import torch
from model import GPT, forgetful

def build():
    return {model}, torch.arange(18).view(2, 9), dict({options})
"""


@pytest.mark.parametrize(
    ("model", "options", "status", "words"),
    [
        ("GPT(50, 12, 3)", "", 0, "GPT: 8 paths run, all agree."),
        ("forgetful()", "call=lambda m, x, return_weights=False: m(x, return_weights)", 1, "[mask-lost-on-option]"),
        ("GPT(50, 12, 3)", "num_heads=3", 2, "gave num_heads, and a scan takes call, causal, context, make_cache, "),
    ],
)
def test_a_setup_file(file, capsys, monkeypatch, model, options, status, words):
    monkeypatch.chdir(file.parent)
    (file.parent / "my_setup.py").write_text(SETUP.format(model=model, options=options), encoding="utf-8")
    assert main(["scan", "--setup", "my_setup.py"]) == status
    shown = capsys.readouterr()
    assert words in shown.out + shown.err


SIGMOID = """
import torch
from torch import nn


class Sigmoid(nn.Module):
    def __init__(self):
        super().__init__()
        self.qkv = nn.Linear(12, 36)

    def forward(self, x):
        q, k, v = self.qkv(x).unflatten(-1, (3, 3, 4)).permute(2, 0, 3, 1, 4)
        hidden = torch.ones(2 * [x.shape[1]], dtype=torch.bool, device=x.device).triu(1)
        return ((q @ k.mT / 2).masked_fill(hidden, -torch.inf).sigmoid() @ v).transpose(1, 2).flatten(2)


def build():
    return Sigmoid(), torch.randn(2, 7, 12), {}
"""


@pytest.mark.parametrize(("given", "status"), [([], 1), (["--not-normalised"], 0)])
def test_what_a_setup_file_leaves_open_the_options_say(tmp_path, given, status):
    path = tmp_path / "setup.py"
    path.write_text(SIGMOID, encoding="utf-8")
    assert main(["scan", "--setup", str(path), "--paths", "attention", *given]) == status


def test_images_are_sent_to_the_doctor(file, capsys):
    assert main(["scan", f"{file}:GPT", "--args", "50, 12, 3", "--x", "torch.randn(2, 3, 8, 8)"]) == 2
    assert "(2, 3, 8, 8); images are examined by `diagnose`, on the command line by" in capsys.readouterr().err


@pytest.mark.slow
def test_one_wrong_target_of_two_decides_the_status(file, capfd):  # each is scanned in a process of its own
    assert main(["scan", f"{file}:forgetful", f"{file}:half", "--github", "--vocabulary", "50"]) == 1
    out, err = capfd.readouterr()
    assert "::error file=" in out
    assert "half" in err
