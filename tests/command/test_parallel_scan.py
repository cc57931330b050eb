"""Several targets are scanned in processes, with the same reports in the same order, and with progress in lines."""

import json
import pickle

import pytest

from course_lib.command import main
from course_lib.tracing import SourceLine

MODEL = """
import torch
from torch import nn


class Right(nn.MultiheadAttention):
    def __init__(self):
        super().__init__(12, 3, batch_first=True)

    def forward(self, x):
        hidden = torch.ones(2 * [x.shape[1]], dtype=torch.bool).triu(1)
        return super().forward(x, x, x, attn_mask=hidden, need_weights=False)[0]


class Wrong(Right):
    def forward(self, x):
        return nn.MultiheadAttention.forward(self, x, x, x, need_weights=False)[0]
"""
PATHS = ["--d-in", "12", "--paths", "one pass, one sample", "--json"]


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "models.py"
    path.write_text(MODEL, encoding="utf-8")
    return path


def scanned(capsys, targets, jobs):
    status = main(["scan", *targets, *PATHS, "--jobs", str(jobs)])
    out, err = capsys.readouterr()
    return status, json.loads(out), err


@pytest.mark.slow
def test_two_processes_say_what_one_says(file, capsys):
    targets = [f"{file}:{name}" for name in ("Right", "Wrong", "Right")]
    one, two = scanned(capsys, targets, 1), scanned(capsys, targets, 2)
    assert one[:2] == two[:2]
    assert [each["status"] for each in two[1]] == [0, 1, 0]
    assert [path["path"] for path in two[1][0]["paths"]] == ["one pass", "one sample"]


@pytest.mark.slow
@pytest.mark.parametrize("count", [2, 12])
def test_progress_without_a_terminal_is_a_line_for_each_target(count, file, capsys):
    status, reports, err = scanned(capsys, [f"{file}:Right"] * count, 1)  # the reports are read from clean JSON
    assert (status, len(reports)) == (0, count)
    lines = [line for line in err.splitlines() if f" of {count}: " in line]
    assert lines == [f"course scan: {done} of {count}: {file}:Right" for done in range(1, count + 1)]


def test_an_unknown_path_is_refused_with_the_names(file, capsys):
    assert main(["scan", f"{file}:Right", "--d-in", "12", "--paths", "fast"]) == 2
    assert "paths must be among one pass, formula" in capsys.readouterr().err


def test_a_line_survives_the_way_from_one_process_to_another(file):
    line = SourceLine(str(file), 13)
    copy = pickle.loads(pickle.dumps(line))
    assert (copy, copy.text, copy.file, copy.line) == (line, line.text, str(file), 13)


def test_a_path_with_a_comma_in_its_name_can_be_chosen(file, capsys):
    names = "one sample, padded, cached, train, no dropout"
    assert main(["scan", f"{file}:Right", "--d-in", "12", "--paths", names, "--json"]) == 0
    (report,) = [json.loads(capsys.readouterr().out)]
    assert [path["path"] for path in report["paths"]] == ["padded, cached", "train, no dropout", "one sample"]
