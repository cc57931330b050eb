"""A finding's line is the author's where a library's decorator wraps `forward`, as that of an old argument does."""

import importlib.util
import sys

import pytest
import torch

from course_lib.diagnosis import diagnose
from course_lib.scan.compare import submodule_named

LIBRARY = """
import functools

def renamed(old):
    def decorate(function):
        @functools.wraps(function)
        def wrapped(*args, **kwargs):
            kwargs.pop(old, None)
            return function(*args, **kwargs)
        return wrapped
    return decorate
"""
CODE = """
import torch
from torch import nn
from wrapping_library import renamed

class Attention(nn.Module):
    @renamed("sizes")
    def __init__(self, bias=None):
        super().__init__()
        self.qkv, self.out, self.norm = nn.Linear(12, 36), nn.Linear(12, 12), nn.LayerNorm(12)

    @renamed("past")
    def forward(self, x, mask=None):
        q, k, v = self.qkv(x).unflatten(-1, (3, 3, 4)).permute(2, 0, 3, 1, 4)
        {line}

    @renamed("cache")
    def attend(self, q, k, v, masked):
        later = torch.ones(q.shape[2], q.shape[2], dtype=torch.bool, device=q.device).triu(1)
        scores = q @ k.mT * 0.5
        if masked:
            scores.masked_fill(later, -torch.inf)
        return (scores.softmax(-1) @ v).transpose(1, 2).flatten(2)
"""
LINES = {
    "an error": ("return self.attend(q, k)", None, "return self.attend(q, k)"),
    "a mask that is lost": ("return self.out(self.attend(q, k, v, True))", "mask-discarded", "scores.masked_fill"),
    "nothing is returned": ("self.out(self.attend(q, k, v, True))", "returns-none", "self.out(self.attend"),
    "no mask": ("return self.out(self.attend(q, k, v, mask is None and False))", "no-causal-mask", ""),
}


@pytest.fixture
def attention(tmp_path, monkeypatch):
    (tmp_path / "wrapping_library.py").write_text(LIBRARY, encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "wrapping_library", raising=False)

    def build(line):
        path = tmp_path / "wrapped_code.py"
        path.write_text(CODE.format(line=line), encoding="utf-8")
        spec = importlib.util.spec_from_file_location("wrapped_code", path)
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        torch.manual_seed(0)
        return module.Attention()

    return build


@pytest.mark.parametrize("name", LINES)
def test_no_line_is_in_the_wrapper(attention, name):
    line, mistake, text = LINES[name]
    report = diagnose(attention(line), torch.randn(2, 5, 12, generator=torch.Generator().manual_seed(1)))
    assert report.mistakes[0] == mistake, report
    assert all(str(one.where).startswith("wrapped_code.py:") for one in report.findings), report
    assert text in report.findings[0].source


def test_the_place_of_a_module_is_that_of_its_own_forward(attention):
    where = submodule_named("", attention("return x")).where
    assert str(where).startswith("wrapped_code.py:") and "renamed" in where.text
