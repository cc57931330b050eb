"""A page refuses what it can't be made from, in one sentence, and takes every tensor that a run may hold."""

import re

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from course_lib.recorder import record
from course_lib.recording_page import page_of, save_page

RECORDING = record(lambda x: x + 1, torch.zeros(2, 3))


@pytest.mark.parametrize(
    ("given", "error", "said"),
    [
        ({"path": "mine.txt"}, ValueError, "path must end in .html, got 'mine.txt': a browser opens such a file."),
        ({"path": "no/mine.html"}, ValueError, "path is in the folder 'no', which does not exist: make it first."),
        ({"path": 3}, TypeError, "path must be the name of a file, got 3: give one such as 'mine.html'."),
        (
            {"path": "mine.html", "words": "Dream big"},
            TypeError,
            "words must be a list of labels, one per token, got the text 'Dream big': give ['Dream', 'big'].",
        ),
        ({"path": "mine.html", "title": 3}, TypeError, "title must be a text, got int: give the heading of the page."),
    ],
)
def test_bad_arguments_get_one_sentence(given, error, said, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(error, match=f"^{re.escape(said)}$"):
        RECORDING.save_page(**given)
    assert list(tmp_path.iterdir()) == []


def test_a_tensor_is_no_recording(tmp_path):
    with pytest.raises(
        TypeError, match=r"^recording must be a Recording, got Tensor: make one with record\(module, x\)"
    ):
        save_page(torch.zeros(2), tmp_path / "a.html")


def filled(x):
    y = torch.zeros(3, 4)
    y[1] = x
    y[:, 0] += 1
    return y


RUNS = {
    "no axes": (lambda x: x.sum() * 2, torch.randn(3)),
    "empty": (lambda x: x[:0] + 1, torch.randn(3, 2)),
    "integers": (lambda x: x.view(2, 3).T + 1, torch.arange(6)),
    "complex": (lambda x: torch.view_as_complex(x) * 1j, torch.randn(3, 2)),
    "in place": (filled, torch.randn(4)),
    "no steps": (lambda x: x, torch.randn(3)),
    "meta": (lambda x: x @ x.T, torch.randn(3, 3, device="meta")),
    "sparse": (lambda x: x.to_sparse() * 2, torch.eye(3)),
    "indices": (lambda x: x.topk(2), torch.randn(4)),
    "turned in place": (lambda x: x.clone().transpose_(0, 1) + 1, torch.randn(3, 2)),
    "overlapping": (lambda x: x[:, None].expand(3, 2, 4).reshape(6, 4), torch.randn(3, 4)),
    "padded": (lambda x: F.pad(x, (1, 1), value=float("-inf")), torch.randn(3)),
    "without gradients": (torch.inference_mode()(lambda x: (x @ x.T).softmax(-1)), torch.randn(3, 2)),
    "a module of PyTorch": (nn.TransformerEncoderLayer(12, 3, 16, batch_first=True), torch.randn(2, 5, 12)),
}


@pytest.mark.parametrize("run", RUNS)
def test_every_run_has_a_page(run):
    recording = record(*RUNS[run])
    page = page_of(recording)
    assert page.count("<section class=step") == len(recording)


def test_a_run_that_fails_is_shown_up_to_the_error():
    with pytest.raises(RuntimeError) as raised:
        record(lambda x: x.view(2, 3).view(7), torch.randn(6))
    page = page_of(raised.value.recording)
    assert page.count("<section class=step") == 1 and "<p>After step 0, line test_validation.py:" in page
    assert "</code>, raised RuntimeError: " in page


@pytest.mark.slow
def test_large_tensors_are_shown_in_part():
    layer = nn.Linear(300, 300)
    page = page_of(record(lambda x: (layer(x) @ layer(x).mT).softmax(-1), torch.randn(2, 60, 300)))
    assert "Shown are 96 of its 36,000 numbers" in page and len(page) < 300_000


def test_a_long_run_is_shown_in_part():
    def count(x):
        for _ in range(250):
            x = x + 1
        return x

    page = page_of(record(count, torch.zeros(2)))
    assert page.count("<section class=step") == 200 and "50 further steps of the run are left out." in page


def test_a_page_opens_with_steps_that_there_are_in_their_order():
    recording = record(lambda x: (x + 1) * 2, torch.zeros(2, 3))
    first, second = (step.title for step in recording)
    assert page_of(recording, opening=[(first, "Why `+`."), (second, "Then.")]).count("<p class=why>") == 2
    said = f"opening has {first!r}, which is no step, or none after those before it: {first}, {second}."
    with pytest.raises(ValueError, match=f"^{re.escape(said)}$"):
        page_of(recording, opening=[(second, "Then."), (first, "Too late.")])
