"""`course picture` saves a page of a file's code, says where it is, and ends with the right status."""

import re

import pytest

from course_lib.command import main

CODE = """
import torch
from torch import nn


class Head(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.proj = nn.Linear(width, width)

    def forward(self, x, turned=False):
        queries = self.proj(x)
        print("running")
        weights = (queries @ x.mT).softmax(-1)
        return weights @ x if not turned else x.view(7)


def both(x, y):
    return x @ y.mT


class Out(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(4, 4))

    def forward(self, x):
        total = torch.zeros(x.shape)
        torch.matmul(x, self.weight, out=total)
        return total


class Slope(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(4))
        self.register_buffer("runs", torch.zeros(1))

    def forward(self, x):
        self.runs += 1
        loss = (x * self.weight).sum()
        (slope,) = torch.autograd.grad(loss, self.weight)
        return slope * self.runs
"""


@pytest.fixture
def file(tmp_path, monkeypatch, imports_are_undone):
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "code_to_draw.py"
    path.write_text(CODE, encoding="utf-8")
    return path


def test_it_saves_a_page_and_says_where(file, tmp_path, capsys):
    assert main(["picture", f"{file}:Head", "--args", "4", "--words", "a b c"]) == 0
    said = capsys.readouterr()
    assert re.fullmatch(r"Head\.html: 5 steps, \d+ kB; open it in a browser\n", said.out)
    assert "running" in said.err
    page = (tmp_path / "Head.html").read_text(encoding="utf-8")
    assert "<h1>Head</h1>" in page and "<th scope=row>c<td" in page and "code_to_draw.py" in page


def test_a_function_of_two_tensors_and_a_name_for_the_page(file, tmp_path, capsys):
    assert main(["picture", f"{file}:both", "--d-in", "4", "--out", "mine.html"]) == 0
    said = capsys.readouterr()
    assert said.out.startswith("mine.html: 2 steps") and "called as m(x, x), a guess" in said.err


def test_an_error_of_the_code_is_on_the_page(file, tmp_path, capsys):
    call = "lambda m, x: m(x, turned=True)"
    assert main(["picture", f"{file}:Head", "--args", "4", "--call", call, "--d-in", "4"]) == 1
    assert "the code raised RuntimeError: " in capsys.readouterr().err
    assert ", raised RuntimeError: " in (tmp_path / "Head.html").read_text(encoding="utf-8")


def test_code_runs_without_gradients_as_in_use(file, tmp_path, capsys):
    assert main(["picture", f"{file}:Out", "--d-in", "4"]) == 0, capsys.readouterr().err


def test_code_that_asks_for_gradients_gets_them(file, tmp_path, capsys):
    assert main(["picture", f"{file}:Slope", "--d-in", "4"]) == 0, capsys.readouterr().err
    page = (tmp_path / "Slope.html").read_text(encoding="utf-8")
    after = re.search(r"<h3><code>self.runs</code></h3><div class=.tables.>.*?<td>(\d)", page)
    assert ", raised " not in page and after and after[1] == "1"  # the run without gradients has left nothing behind


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ([], "name one thing to draw: FILE.py:NAME, FILE.ipynb:NAME, package.module:NAME or --setup FILE."),
        (["--out", "mine.txt"], "--out: path must end in .html, got 'mine.txt': a browser opens such a file."),
        (["--out", "no/mine.html"], "--out: path is in the folder 'no', which does not exist: make it first."),
    ],
)
def test_a_bad_option_gets_one_sentence(file, words, said, capsys):
    target = [f"{file}:Head", "--args", "4"] if words else []
    assert main(["picture", *target, *words]) == 2
    assert f"course picture: {said}\n" in capsys.readouterr().err
