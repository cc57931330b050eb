"""`course mcp`: the protocol by itself, and the tools as an assistant calls them."""

import json
import subprocess
import sys

import pytest

from course_lib.command import main
from course_lib.command.assistant import TOOLS, call_tool, serve, tools

CODE = """\
import torch
from torch import nn


class Head(nn.Module):
    def __init__(self, d_in, head_dim):
        super().__init__()
        self.q, self.k, self.v = (nn.Linear(d_in, head_dim) for _ in range(3))

    def forward(self, x):
        hidden = torch.ones(x.shape[1], x.shape[1], dtype=torch.bool, device=x.device).triu(1)
        return (self.q(x) @ self.k(x).mT).masked_fill(hidden, -torch.inf).softmax(dim=-1) @ self.v(x)
"""


def answers(*messages, call=lambda name, given: f"{name} {given}"):
    lines = [message if isinstance(message, str) else json.dumps({"jsonrpc": "2.0", **message}) for message in messages]
    return [json.loads(line) for line in serve(lines, TOOLS, call)]


# --- the protocol ---


def test_an_assistant_introduces_itself():
    (answer,) = answers(
        {"id": 7, "method": "initialize", "params": {"protocolVersion": "2025-03-26", "capabilities": {}}},
        {"method": "notifications/initialized"},
    )
    assert answer["id"] == 7 and answer["jsonrpc"] == "2.0"
    assert answer["result"]["protocolVersion"] == "2025-03-26" and answer["result"]["capabilities"] == {"tools": {}}
    (answer,) = answers({"id": 1, "method": "initialize", "params": {"protocolVersion": "1999-01-01"}})
    assert answer["result"]["protocolVersion"] == "2025-06-18", "the newest that is known"


def test_the_tools_are_listed_and_say_that_code_is_run():
    pinged, listed = answers({"id": "a", "method": "ping"}, {"id": "b", "method": "tools/list"})
    assert pinged["result"] == {} and [tool["name"] for tool in listed["result"]["tools"]] == [
        "diagnose",
        "explain_mistake",
    ]
    assert "RUNS THE CODE, without a sandbox" in listed["result"]["tools"][0]["description"]
    assert all(tool["inputSchema"]["type"] == "object" for tool in listed["result"]["tools"])


def test_a_tool_is_called():
    (answer,) = answers({"id": 2, "method": "tools/call", "params": {"name": "diagnose", "arguments": {"code": "x"}}})
    assert answer["result"] == {"content": [{"type": "text", "text": "diagnose {'code': 'x'}"}], "isError": False}

    def refuses(name, given):
        raise ValueError("give target.")

    (answer,) = answers({"id": 2, "method": "tools/call", "params": {"name": "diagnose"}}, call=refuses)
    assert answer["result"] == {"content": [{"type": "text", "text": "give target."}], "isError": True}


WRONG = {
    "{": (-32700, "this line is not JSON"),
    "[1]": (-32600, "a request is an object with a method"),
    '{"id": 1, "method": "tools/forget"}': (-32601, "there is no method tools/forget"),
    '{"id": 1, "method": "ping", "params": [1]}': (-32602, "params must be an object"),
    '{"id": 1, "method": "tools/call", "params": {"name": "cure"}}': (
        -32602,
        "there is no tool 'cure'; the tools are diagnose, explain_mistake",
    ),
}


@pytest.mark.parametrize("line", WRONG)
def test_what_can_not_be_answered(line):
    (answer,) = answers(line)
    assert (answer["error"]["code"], answer["error"]["message"]) == WRONG[line]


def test_empty_lines_answers_and_notifications_are_passed_over():
    assert answers("", {"method": "notifications/cancelled"}, {"id": 3, "result": {}}) == []


# --- the tools ---


@pytest.mark.slow
def test_code_is_examined():
    report = json.loads(call_tool("diagnose", {"code": CODE, "name": "Head", "args": "11, 7", "num_heads": 1}))
    assert report["status"] == 1 and [finding["mistake"] for finding in report["findings"]] == ["missing-scale"]


@pytest.mark.slow
def test_a_file_is_examined(tmp_path):
    (tmp_path / "model.py").write_text(CODE.replace(".mT)", ".mT / self.q.out_features**0.5)"), encoding="utf-8")
    assert json.loads(call_tool("diagnose", {"target": f"{tmp_path}/model.py:Head"}))["status"] == 0


def test_code_that_takes_too_long_is_ended(monkeypatch):
    monkeypatch.setattr(tools, "SECONDS", 0.2)
    with pytest.raises(ValueError, match=r"the code ran for 0.2 s and was ended: give smaller sizes in args"):
        call_tool("diagnose", {"code": "while True:\n    pass\n", "name": "Head"})


REFUSED = {
    "give target, or code and name: one of the two.": {},
    "code needs name: the class, module or function to examine.": {"code": CODE},
    "diagnose has no argument 'heads'; it has target, code, name, args": {"heads": 3},
    "num_heads must be an integer, got '3'.": {"num_heads": "3"},
    "not_causal must be a boolean, got 1.": {"not_causal": 1},
}


@pytest.mark.parametrize("sentence", REFUSED)
def test_what_is_refused(sentence):
    with pytest.raises(ValueError) as refused:
        call_tool("diagnose", REFUSED[sentence])
    assert sentence in str(refused.value)


@pytest.mark.slow
def test_code_that_can_not_be_opened_is_said_in_one_line():
    with pytest.raises(ValueError, match=r"^course doctor: .*code.py has no Tail; it has Head"):
        call_tool("diagnose", {"code": CODE, "name": "Tail"})


def test_a_mistake_is_explained():
    said = json.loads(call_tool("explain_mistake", {"mistake": "missing-scale"}))
    assert said["hint"].endswith("?") and said["url"].endswith("/mistakes/missing-scale.html")
    assert said["title"] == json.loads(call_tool("explain_mistake", {"mistake": "all"}))["missing-scale"]
    with pytest.raises(ValueError, match="there is no mistake 'no-such'; explain_mistake with mistake='all'"):
        call_tool("explain_mistake", {"mistake": "no-such"})
    with pytest.raises(ValueError, match="explain_mistake needs mistake"):
        call_tool("explain_mistake", {})


def test_the_server_runs():
    lines = [{"id": 1, "method": "initialize"}, {"id": 2, "method": "tools/list"}]
    given = "".join(json.dumps({"jsonrpc": "2.0", **line}) + "\n" for line in lines)
    words = [sys.executable, "-m", "course_lib.command", "mcp"]
    done = subprocess.run(words, input=given, capture_output=True, text=True, check=True)
    assert [json.loads(line)["id"] for line in done.stdout.splitlines()] == [1, 2] and done.stderr == ""


def test_its_help_says_that_it_runs_code(capsys):
    with pytest.raises(SystemExit):
        main(["mcp", "--help"])
    assert "DIAGNOSE RUNS THE CODE" in capsys.readouterr().out


def test_a_learner_is_led_on_before_anything_is_given_away():
    asked = {"code": CODE, "name": "Head", "args": "7, 4"}
    (hint,) = json.loads(call_tool("diagnose", {**asked, "hint_only": True}))
    assert hint["hint"] == "How large do the scores get when the head is twice as wide?" and hint["lesson"] == "01"
    assert set(hint) == {"evidence", "hint", "lesson"}


@pytest.mark.slow
def test_right_code_gets_no_hint():
    asked = {"code": CODE, "name": "Head", "args": "7, 4"}
    right = CODE.replace("self.k(x).mT)", "self.k(x).mT / self.k.out_features**0.5)")
    assert json.loads(call_tool("diagnose", {**asked, "code": right, "hint_only": True})) == []
