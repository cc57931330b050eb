"""A scan says what it could not examine: in its headline, its exit status, its data and its annotations."""

import json

import pytest
import torch
from torch import nn

from course_lib.command import main
from course_lib.diagnosis.attention_report import AttentionReport
from course_lib.scan import scan
from course_lib.scan.attentions import _by_reason
from course_lib.scan.path import Outcome
from course_lib.scan.report import ScanReport

MODELS = """
import torch
from torch import nn


class LinearAttention(nn.Module):
    '''Causal, but without weights of tokens that the doctor could examine; `leaks` adds the last token.'''

    def __init__(self, leaks=False):
        super().__init__()
        self.qkv, self.leaks = nn.Linear(12, 36), leaks

    def forward(self, x):
        queries, keys, values = self.qkv(x).chunk(3, dim=-1)
        queries, keys = queries.softmax(-1), keys.exp()
        states = (keys[..., None] * values[..., None, :]).cumsum(1)
        output = (queries[..., None, :] @ states)[..., 0, :]
        return output + x[:, -1:] if self.leaks else output


class FailsWithMask(nn.MultiheadAttention):
    def __init__(self):
        super().__init__(12, 3, batch_first=True)

    def forward(self, x, mask=None):
        if mask is not None:
            raise TypeError("no masks today")
        causal = torch.ones(2 * [x.shape[1]], dtype=torch.bool).triu(1)
        return super().forward(x, x, x, attn_mask=causal, need_weights=False)[0]
"""
MASKED = ["mask of ones", "padded right", "padded left"]
X = torch.randn(2, 7, 12, generator=torch.Generator().manual_seed(3))


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "models.py"
    path.write_text(MODELS, encoding="utf-8")
    return path


@pytest.fixture
def models():
    names: dict[str, type[nn.Module]] = {}
    exec(MODELS, names)
    return names


def test_an_attention_that_can_not_be_examined_is_in_the_headline_and_the_status(models):
    report = scan(models["LinearAttention"](), X)
    assert report.verdict == "6 paths run, none wrong; 1 not examined: attention."
    assert (report.exit_status, report.ok) == (2, False)
    assert report.outcomes[-1].status == "not examined"
    assert "attention          ?        no dot product compares one token with another" in str(report)
    assert "<td>attention</td><td>?</td>" in report._repr_html_()


def test_attentions_are_named_and_counted_with_each_reason_once():
    reasons = {"a": "no keys", "b": "no keys", "c": "no rows", "d": "no keys"}
    missing = [AttentionReport(name, missing=reason) for name, reason in reasons.items()]
    assert _by_reason(missing) == "a and 2 more, because no keys; c, because no rows"
    assert _by_reason(missing[:2]) == "a and 1 more, because no keys"


def test_a_path_that_the_model_offers_and_fails_on_is_not_examined(models):
    report = scan(models["FailsWithMask"](), X, paths=["one pass", *MASKED])
    assert [unseen.name for unseen in report.not_examined] == [f"the path `{a}`" for a in MASKED]
    assert report.exit_status == 2
    assert report.as_dict()["not_examined"][1] == "the path `padded right`: TypeError: no masks today"


def test_what_is_wrong_decides_the_status_and_the_rest_is_still_named(models):
    report = scan(models["LinearAttention"](leaks=True), X)
    assert report.exit_status == 1
    assert report.verdict.endswith("1 wrong; 1 not examined: attention.")


def test_the_table_has_the_first_of_what_weighs_most_on_a_path():
    said = {"first": "agrees", "second": "wrong", "third": "wrong", "fourth": "not examined"}
    report = ScanReport("m", tuple(Outcome("fused", status, detail) for detail, status in said.items()))
    assert [outcome.detail for outcome in report.first_of_each_path] == ["second"]


def test_a_path_that_the_model_does_not_offer_is_no_gap(models):
    report = scan(models["LinearAttention"](), X, paths=["one pass", "fused", "weights returned"])
    assert report.verdict == "1 path run, all agree."
    assert report.exit_status == 0


@pytest.mark.slow
def test_programs_are_told_in_json_sarif_and_annotations(file, tmp_path, capsys):
    log = tmp_path / "log.sarif"
    target = f"{file}:LinearAttention"
    assert main(["scan", target, "--d-in", "12", "--json"]) == 2
    data = json.loads(capsys.readouterr().out)
    assert (data["ok"], data["status"]) == (False, 2)
    assert data["not_examined"][0].startswith("the path `attention`: no dot product compares")
    assert main(["scan", target, "--d-in", "12", "--github", "--sarif", str(log)]) == 2
    assert "::warning file=" in (out := capsys.readouterr().out)
    assert "title=course scan::the path `attention` was not examined: no dot product" in out
    (run,) = json.loads(log.read_text(encoding="utf-8"))["runs"]
    assert run["invocations"][0]["executionSuccessful"] is False
    (notification,) = run["invocations"][0]["toolExecutionNotifications"]
    assert "was not examined: no dot product compares" in notification["message"]["text"]
    assert run["tool"]["driver"]["name"] == "course scan"
    assert run["results"] == []


def test_a_model_that_does_not_run_is_annotated_too(file, capsys):
    assert main(["scan", f"{file}:FailsWithMask", "--d-in", "5", "--x", "torch.randn(2, 9, 5)", "--github"]) == 2
    assert "the model was not examined: " in capsys.readouterr().out
