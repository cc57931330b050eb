"""`course doctor`: what it prints, when it fails, what it says it runs; and the table of `course doctor-bench`."""

import json

import pytest

from course_lib.command import main

pytestmark = pytest.mark.usefixtures("imports_are_undone")
CODE = '''\
import math

import torch
import torch.nn.functional as F
from torch import nn


class Head(nn.Module):
    def __init__(self, d_in, head_dim, causal=True):
        super().__init__()
        self.to_q, self.to_k, self.to_v = (nn.Linear(d_in, head_dim) for _ in range(3))
        self.causal = causal

    def forward(self, x):
        scores = self.to_q(x) @ self.to_k(x).mT / math.sqrt(self.to_q.out_features)
        if self.causal:
            hidden = torch.ones(x.shape[1], x.shape[1], dtype=torch.bool, device=x.device).triu(1)
            scores = scores.masked_fill(hidden, -torch.inf)
        return scores.softmax(dim=-1) @ self.to_v(x)


class Unscaled(Head):
    def forward(self, x):
        scores = self.to_q(x) @ self.to_k(x).mT
        hidden = torch.ones(x.shape[1], x.shape[1], dtype=torch.bool, device=x.device).triu(1)
        return scores.masked_fill(hidden, -torch.inf).softmax(dim=-1) @ self.to_v(x)


class WithWeights(Head):
    name = "tokens"

    def forward(self, x):
        output = super().forward(x)
        return {self.name: output, "weights": output.softmax(dim=-1)}


class WithOutput(WithWeights):
    name = "output"


class Grouped(nn.Module):
    """Six heads of queries, two of keys and values; without being told, tiles could be meant."""

    def __init__(self, d_in, head_dim, tiled=False):
        super().__init__()
        self.to_q = nn.Linear(d_in, 6 * head_dim)
        self.to_k, self.to_v = nn.Linear(d_in, 2 * head_dim), nn.Linear(d_in, 2 * head_dim)
        self.to_out, self.tiled = nn.Linear(6 * head_dim, d_in), tiled

    def share(self, t):
        return t.repeat(1, 3, 1, 1) if self.tiled else t.repeat_interleave(3, dim=1)

    def forward(self, x):
        q = self.to_q(x).unflatten(-1, (6, -1)).transpose(1, 2)
        k, v = (self.share(part(x).unflatten(-1, (2, -1)).transpose(1, 2)) for part in (self.to_k, self.to_v))
        hidden = torch.ones(x.shape[1], x.shape[1], dtype=torch.bool, device=x.device).triu(1)
        weights = (q @ k.mT / math.sqrt(q.shape[-1])).masked_fill(hidden, -torch.inf).softmax(dim=-1)
        return self.to_out((weights @ v).transpose(1, 2).flatten(2))


class Cross(nn.Module):
    def __init__(self, d_in, d_context):
        super().__init__()
        self.to_q, self.to_k, self.to_v = nn.Linear(d_in, 8), nn.Linear(d_context, 8), nn.Linear(d_context, 8)

    def forward(self, x, context):
        return F.scaled_dot_product_attention(self.to_q(x), self.to_k(context), self.to_v(context))


class WithoutLinears(nn.Module):
    def __init__(self, d_in, head_dim):
        super().__init__()
        self.weights = nn.Parameter(torch.randn(3, d_in, head_dim) / math.sqrt(d_in))

    def forward(self, x):
        q, k, v = (x @ weight for weight in self.weights)
        return F.scaled_dot_product_attention(q, k, v, is_causal=True)


class Breaks(Head):
    def forward(self, x):
        return super().forward(x).view(7)


def of_two(x, times):
    return times * attend(x)


def attend(x):
    hidden = torch.ones(x.shape[1], x.shape[1], dtype=torch.bool, device=x.device).triu(1)
    return (x @ x.mT / math.sqrt(x.shape[-1])).masked_fill(hidden, -torch.inf).softmax(dim=-1) @ x


def of_width_11(x):
    return attend(x.view(*x.shape[:2], 11))


def look_everywhere(x):
    return (x @ x.mT / math.sqrt(x.shape[-1])).softmax(dim=-1) @ x


A_NUMBER = 3
MINE = Head(11, 7)
'''


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "my_heads.py"
    path.write_text(CODE, encoding="utf-8")
    return path


@pytest.fixture
def doctor(file, capsys):
    """Run `course doctor` on a name of the file: (status, what it printed, what it said on the side)."""

    def run(name, *words):
        status = main(["doctor", f"{file}:{name}", *words])
        shown = capsys.readouterr()
        return status, shown.out, shown.err

    return run


def line_of(words):
    (number,) = [at for at, line in enumerate(CODE.splitlines(keepends=True), 1) if words in line]
    return f"my_heads.py:{number}"


# --- what it prints ---


@pytest.mark.slow
def test_a_healthy_class(doctor, file):
    status, shown, said = doctor("Head", "--args", "11, 7")
    assert status == 0
    assert shown.startswith("Head: this is attention, nothing wrong was found.")
    x = "x is torch.randn(2, 5, 11), its width a guess: give --d-in or --x for your own"
    assert said == f"course doctor: running Head of {file} (importing a file runs it)\ncourse doctor: {x}\n"
    assert "torch.randn" not in doctor("Head", "--args", "11, 7", "--d-in", "11")[2]


@pytest.mark.slow
def test_a_class_with_a_mistake(doctor, file):
    status, shown, said = doctor("Unscaled", "--args", "11, 7")
    assert status == 1
    lines = shown.splitlines()
    assert lines[0] == "Unscaled: one thing is wrong."
    assert lines[2].endswith("[missing-scale]")
    blamed = [line_of("self.to_k(x).mT\n"), line_of("return scores.masked_fill(hidden, -torch.inf).softmax")]
    assert any(f"   Look at {line}:  " in shown for line in blamed)
    assert f"running Unscaled of {file}" in said and "Traceback" not in said


@pytest.mark.slow
def test_plain_data(doctor):
    status, shown, said = doctor("Unscaled", "--args", "11, head_dim=7", "--json")
    report = json.loads(shown)
    assert status == 1 and report["ok"] is False and report["subject"] == "Unscaled"
    (finding,) = report["findings"]
    assert finding["mistake"] == "missing-scale" and finding["where"].startswith("my_heads.py:")
    assert finding["hint"].endswith("?") and "running Unscaled" in said
    status, shown, _ = doctor("Head", "--args", "11, 7", "--json")
    assert status == 0 and json.loads(shown)["findings"] == []


@pytest.mark.slow
def test_verbose_adds_what_a_finding_was_decided_by(doctor):
    given = ("Grouped", "--args", "11, 5, tiled=True")
    plain, verbose, data = (doctor(*given, *how)[1] for how in ([], ["--verbose"], ["--json"]))
    (finding,) = json.loads(data)["findings"]
    assert finding["rule"] and finding["facts"]["kv_heads"]
    line = f'   Decided by: rule="{finding["rule"]}", kind="mistake", kv_heads={finding["facts"]["kv_heads"]}'
    assert [one for one in verbose.splitlines() if one not in plain.splitlines()] == [line]


@pytest.mark.slow
def test_what_the_file_prints_does_not_get_into_the_data(doctor, file):
    chatty = CODE.replace("    def forward(self, x):\n", "    def forward(self, x):\n        print(x.shape)\n", 1)
    file.write_text(f"{chatty}\nprint('imported')\n", encoding="utf-8")
    status, shown, _ = doctor("Head", "--args", "11, 7", "--json")
    assert status == 0 and json.loads(shown)["ok"] is True


@pytest.mark.slow
def test_code_that_can_not_be_run_is_not_examined(doctor):
    status, shown, _ = doctor("Breaks", "--args", "11, 7")
    assert status == 2 and "RuntimeError: shape '[7]' is invalid" in shown
    assert f"Look at {line_of('.view(7)')}:  return super().forward(x).view(7)" in shown


@pytest.mark.slow
def test_functions_need_a_width(doctor):
    status, shown, _ = doctor("attend", "--d-in", "11")
    assert status == 0 and shown.startswith("attend: this is attention")
    status, shown, _ = doctor("look_everywhere", "--d-in", "11")
    assert (
        status == 1 and "[no-causal-mask]" in shown and f"Look at {line_of('x.shape[-1])).softmax')}:  return" in shown
    )
    assert doctor("attend")[0] == 0, "a function that takes every width gets one"
    status, shown, said = doctor("of_width_11")
    assert (status, shown) == (2, "")
    assert said.endswith(
        "course doctor: nothing in of_width_11 says how wide a token is, and the code does not run with a width of 12 "
        "(RuntimeError: shape '[2, 5, 11]' is invalid for input of size 120): give --d-in, --call if it needs more "
        "than x, --args if it is a function that builds a module, or --x if x has another layout.\n"
    )
    assert doctor("of_width_11", "--d-in", "11")[0] == 0


@pytest.mark.slow
def test_the_width_is_read_from_parameters_where_there_are_no_linears(doctor):
    status, shown, _ = doctor("WithoutLinears", "--args", "11, 7")
    assert status == 0 and "1 head of width 7" in shown
    assert doctor("WithoutLinears", "--args", "11, 7", "--d-in", "11")[1] == shown


# --- what it is told ---


@pytest.mark.slow
def test_attention_that_may_look_ahead(doctor):
    assert doctor("Head", "--args", "11, 7, causal=False", "--not-causal")[0] == 0
    status, shown, _ = doctor("Head", "--args", "11, 7, causal=False")
    assert status == 1 and "[no-causal-mask]" in shown
    assert doctor("Head", "--args", "11, 7", "--not-causal")[0] == 1, "it hides what it was meant to see"


@pytest.mark.slow
def test_heads_and_shared_heads(doctor):
    told = ("--num-heads", "6", "--num-kv-heads", "2")
    status, shown, _ = doctor("Grouped", "--args", "11, 5", *told)
    assert status == 0 and "6 heads of width 5" in shown
    status, shown, _ = doctor("Grouped", "--args", "11, 5, tiled=True", *told)
    assert status == 1 and "[kv-heads-tiled]" in shown


def test_how_it_is_called(doctor):
    status, shown, _ = doctor("WithWeights", "--args", "11, 7")
    assert status == 2 and "which of its tensors is the output is not known" in shown
    assert "it gave back dict; give `call` to say what of it is the output" in shown
    assert doctor("WithOutput", "--args", "11, 7")[0] == 0, "its name says so"
    assert doctor("WithWeights", "--args", "11, 7", "--call", "lambda m, x: m(x)['tokens']")[0] == 0
    status, shown, said = doctor("WithWeights", "--args", "11, 7", "--call", "lambda m, x: m(x)")
    assert (status, shown) == (2, ""), "nothing of the code is wrong for that"
    assert said.endswith("""which of them is the output, such as --call "lambda m, x: m(x)['tokens']".\n""")
    in_torch = "lambda m, x: torch.clone(m(x)['tokens'])"
    assert doctor("WithWeights", "--args", "11, 7", "--call", in_torch)[0] == 0


@pytest.mark.slow
@pytest.mark.parametrize("sizes", [("--batch", "3", "--tokens", "7"), ("--batch", "1", "--tokens", "1")], ids=str)
def test_other_sizes(doctor, sizes):
    assert doctor("Head", "--args", "11, 7", *sizes)[0] == 0
    assert doctor("Unscaled", "--args", "11, 7", *sizes)[0] == 1


@pytest.mark.slow
def test_the_input_is_always_the_same(doctor):
    first = doctor("look_everywhere", "--d-in", "11")
    assert doctor("look_everywhere", "--d-in", "11") == first


@pytest.mark.slow
def test_a_file_finds_what_stands_beside_it(tmp_path, capsys):
    (tmp_path / "doctor_test_parts.py").write_text(CODE, encoding="utf-8")
    other = tmp_path / "doctor_test_whole.py"
    other.write_text("from dataclasses import dataclass\nfrom doctor_test_parts import Unscaled\n", encoding="utf-8")
    assert main(["doctor", f"{other}:Unscaled", "--args", "11, 7"]) == 1
    assert "Look at doctor_test_parts.py:" in capsys.readouterr().out


TALKING = """
import torch
from torch import nn

print("imported")


class Talking(nn.Module):
    def __init__(self):
        super().__init__()
        print("built")
        self.qkv = nn.Linear(12, 36)

    def forward(self, x):
        print(x.shape)
        q, k, v = self.qkv(x).chunk(3, -1)
        return (q @ k.mT / 12**0.5).softmax(-1) @ v
"""


@pytest.mark.one_in(2)
@pytest.mark.parametrize("command", ["doctor", "scan"])
def test_what_the_code_prints_while_it_is_examined_is_left_out(command, tmp_path, capsys):
    file = tmp_path / "doctor_test_talking.py"
    file.write_text(TALKING, encoding="utf-8")
    assert main([command, f"{file}:Talking", "--d-in", "12", "--not-causal", "--json"]) == 0
    shown = capsys.readouterr()
    said = "what the code printed while it was examined was left out"
    assert json.loads(shown.out)["notes"] == [said]
    assert shown.err.splitlines() == [
        f"course {command}: running Talking of {file} (importing a file runs it)",
        "imported",
        "built",
        f"course {command}: {said}",
    ]


# --- what it can't do ---

REFUSED = [
    (
        ["Head", "--args", "11, 7", "--num-heads", "0"],
        "num_heads must be an integer of at least 1, or None, got 0.",
    ),
    (["Head", "--args", "11, 7", "--num-kv-heads", "-1"], "num_kv_heads must be an integer of at least 1, or None"),
    (["Head", "--args", "11, 7", "--batch", "0"], "--batch must be at least 1, got 0."),
    (["Head", "--args", "11, 7", "--tokens", "-2"], "--tokens must be at least 1, got -2."),
    (["attend", "--d-in", "-1"], "--d-in must be at least 1, got -1."),
    (["Head", "--args", "11, 7", "--d-in", "0"], "--d-in must be at least 1, got 0."),
    (
        ["Head", "--args", "11, width"],
        "--args '11, width' can't be evaluated: NameError: name 'width' is not defined; it may use torch, nn, "
        "SimpleNamespace and the names of my_heads: Head, Unscaled, ",
    ),
    (["Head", "--args", "11, 1 / 0"], "--args '11, 1 / 0' can't be evaluated: ZeroDivisionError: division by zero."),
    (["Head", "--args", "11, (7"], "--args '11, (7' is not what stands between the brackets of a call: SyntaxError: "),
    (["Head", "--args", "11) + f(7"], "'11) + f(7' is not what stands between the brackets of a call: SyntaxError: "),
    (["Head", "--args", "11) (7"], 'its brackets don\'t match; write it as in "3, 4, num_heads=2".'),
    (["attend", "--args", "3", "--d-in", "11"], "attend(3) could not be built: AttributeError: 'int' object has no"),
    (
        ["of_two", "--args", "torch.ones(1, 3, 7), 2"],
        "of_two(torch.ones(1, 3, 7), 2) returned a Tensor, not a module: leave out --args and say how to run of_two on "
        'x, for example --call "lambda f, x: f(x, 3)".',
    ),
    (
        ["MINE", "--args", "3"],
        "MINE is neither a class nor a function, so there is nothing to build: leave out --args.",
    ),
    (["Head", "--args", "11, 7, heads=2"], "Head(11, 7, heads=2) could not be built: TypeError"),
    (["Head", "--args", "11, [7]"], "Head(11, [7]) could not be built: TypeError: "),
    (["Head", "--args", "11, [7]"], "(my_heads.py:11: self.to_q, self.to_k, self.to_v = (nn.Linear("),
    (["Head", "--args", "11, [7]"], "for _ in range(3))); change --args."),
    (["NoSuch"], "has no NoSuch; it has Head, Unscaled, "),
    (["A_NUMBER", "--d-in", "11"], "A_NUMBER is an int, not attention code: name a class, a module, a function or "),
    (
        ["Head", "--args", "11, 7", "--call", "lambda m, x m(x)"],
        "--call 'lambda m, x m(x)' can't be evaluated: SyntaxError",
    ),
    (["Head", "--args", "11, 7", "--call", "run"], "--call 'run' can't be evaluated: NameError: name 'run' is not de"),
    (
        ["Head", "--args", "11, 7", "--call", "3"],
        "--call '3' is not a function of (code, x): give one such as \"lambda ",
    ),
]


@pytest.mark.one_in(2)
@pytest.mark.parametrize(("words", "sentence"), REFUSED, ids=[" ".join(row[0]) for row in REFUSED])
def test_what_is_refused(doctor, words, sentence):
    status, shown, said = doctor(*words)
    assert (status, shown) == (2, "")
    assert sentence in said and said.splitlines()[-1].startswith("course doctor: ")
    assert "Traceback" not in said


def test_the_names_of_a_file_are_told(doctor, file):
    _, _, said = doctor("NoSuch")
    assert f"{file} has no NoSuch; it has " in said
    assert all(name in said for name in ("Head", "Unscaled", "attend", "and 1 more")) and "A_NUMBER" not in said
    file.write_text("x = 1\n", encoding="utf-8")
    assert "has no Head; it has nothing that can be called." in doctor("Head")[2]


TARGETS = {
    "nowhere.py:Head": "there is no file nowhere.py: give its path from ",
    "nowhere.py": "'nowhere.py' is not FILE.py:NAME, such as my_attention.py:MultiHeadAttention, FILE.ipynb:",
    "nowhere.py:": "'nowhere.py:' is not FILE.py:NAME",
    "nowhere.py:Head()": "'nowhere.py:Head()' is not FILE.py:NAME",
    "./nowhere.txt:Head": "'./nowhere.txt:Head' is not FILE.py:NAME",
    "nowhere.inside:Head": "there is no module nowhere.inside: run this in the folder that holds it, or give the path",
    "Head": "'Head' is not FILE.py:NAME",
    ":Head": "':Head' is not FILE.py:NAME",
}


@pytest.mark.parametrize("target", TARGETS)
def test_a_target_that_is_none(target, capsys, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    assert main(["doctor", target]) == 2
    shown = capsys.readouterr()
    assert shown.out == "" and f"course doctor: {TARGETS[target]}" in shown.err
    assert "running" not in shown.err, "nothing was run"


def test_a_folder_is_no_file(tmp_path, capsys):
    (tmp_path / "folder.py").mkdir()
    assert main(["doctor", f"{tmp_path / 'folder.py'}:Head"]) == 2
    assert "there is no file" in capsys.readouterr().err


BROKEN = {
    "1 / 0\n": "could not be imported: ZeroDivisionError: division by zero (my_heads.py:1: 1 / 0); put what only a ",
    "class Head(:\n": "could not be imported: SyntaxError: invalid syntax (my_heads.py, line 1); mend that line first.",
    "from . import beside\n": "could not be imported: ImportError: cannot import name 'beside' from ",
    "from ........ import beside\n": "name it package.module:NAME in the folder that holds its package.",
    "import sys\nsys.exit(0)\n": "could not be imported: SystemExit: 0 (my_heads.py:2: sys.exit(0)); put what only a "
    "script needs under the line if __name__ == '__main__'.",
}


@pytest.mark.parametrize("text", BROKEN)
def test_a_file_that_can_not_be_imported(doctor, file, text):
    file.write_text(text, encoding="utf-8")
    status, shown, said = doctor("Head", "--args", "11, 7")
    assert (status, shown) == (2, "")
    last = said.splitlines()[-1]
    assert last.startswith(f"course doctor: {file} could not be imported: ") and "Traceback" not in said
    assert BROKEN[text] in last


def test_the_file_to_be_examined_must_be_named(capsys):
    assert main(["doctor"]) == 2
    assert capsys.readouterr().err == (
        "course doctor: name what to examine: FILE.py:NAME, FILE.ipynb:NAME, package.module:NAME or --setup FILE.\n"
    )
    with pytest.raises(SystemExit):
        main(["doctor", "a.py:A", "--num-heads", "two"])
    assert "invalid int value: 'two'" in capsys.readouterr().err


def test_its_help_says_that_it_runs_the_file(capsys):
    with pytest.raises(SystemExit) as stopped:
        main(["doctor", "--help"])
    shown = capsys.readouterr().out
    assert stopped.value.code == 0 and "runs it" in " ".join(shown.split())
    told = " ".join(shown.split())
    for word in ("package.module", "class", "module", "function", "factory", "notebook", "stood in for", "exit status"):
        assert word in told
    for option in ("setup", "args", "call", "device", "d-in", "batch", "tokens", "x", "num-heads", "num-kv-heads"):
        assert f"--{option} " in told
    for option in ("not-causal", "keep", "json", "sarif", "github"):
        assert f"--{option}" in told


# --- the bench ---


@pytest.mark.slow
def test_the_bench_prints_its_table(capsys):
    assert main(["doctor-bench", "libraries"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].split()[:4] == ["false", "alarms", "0", "of"] and lines[0].endswith("goal 0: met")
    assert lines[1].startswith("seconds") and lines[1].endswith("goal: under 1 each")
    assert len(lines) == 2, "a file without mistakes has no shares of them"


def test_a_file_that_the_bank_has_not_is_refused(capsys):
    assert main(["doctor-bench", "no_such_file"]) == 2
    said = capsys.readouterr().err
    assert "course doctor-bench: " in said and "no_such_file" in said and "masks" in said


def test_the_bench_needs_the_clone(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert main(["doctor-bench"]) == 2
    assert "is not inside a clone of attention-course" in capsys.readouterr().err


def test_a_reference_in_another_file_is_called_with_the_helpers_of_its_own(tmp_path, capsys):
    """`--call` is read in both files, so that a wrong helper of the caller is found as well."""
    helper = "\n\ndef scaled(code, x):\n    return code(x * 2)\n"
    (tmp_path / "right.py").write_text(CODE + helper)
    (tmp_path / "wrong.py").write_text(CODE + helper.replace("x * 2", "x * 3"))
    both = ("--args", "11, 7", "--call", "scaled", "--expect", f"{tmp_path / 'right.py'}:Head")
    assert main(["doctor", f"{tmp_path / 'right.py'}:Head", *both]) == 0
    assert main(["doctor", f"{tmp_path / 'wrong.py'}:Head", *both]) == 1
    shown = capsys.readouterr().out
    assert "return code(x * 3)" in shown and "`return code(x * 2)`" in shown


def test_what_is_meant_can_be_said(doctor):
    head = ("--args", "11, 7")
    assert doctor("Unscaled", *head, "--scale", "1.0")[0] == 0 and doctor("Head", *head, "--scale", "1.0")[0] == 1
    assert doctor("Head", *head, "--lengths", "4,5")[0] == 0
    assert doctor("Head", *head, "--expect", "Head")[0] == 0
    status, shown, _ = doctor("Head", *head, "--expect", "Unscaled")
    assert status == 1 and "it does not compute what `expect` computes" in shown
    at_once = ("--call", "lambda m, x: m(x)", "--expect-call", "lambda m, x: -m(x)")
    assert doctor("Head", *head, "--expect", "Head", *at_once)[0] == 1
    status, shown, _ = doctor("Head", *head, "--window", "3")
    assert status == 1 and "window=3 was given" in shown


def test_a_context_is_so_many_tokens_or_a_tensor_of_any_width(doctor):
    cross = ("Cross", "--call", "lambda m, x, c: m(x, c)", "--not-causal")
    assert doctor(*cross, "--args", "11, 11", "--context", "7")[0] == 0
    assert doctor(*cross, "--args", "11, 6", "--context", "torch.randn(2, 7, 6)")[0] == 0
    for given in ("0", "'seven'"):
        status, _, said = doctor(*cross, "--args", "11, 11", "--context", given)
        remedy = "give a number of tokens, at least 1, or a tensor of the shape (batch, tokens, width)."
        assert status == 2 and f"--context is {given}: {remedy}" in said
