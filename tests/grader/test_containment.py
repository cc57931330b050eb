"""What goes wrong in one exercise, one sandbox or one worker costs nobody else anything, and nothing of it is kept."""

import ast
import contextlib
import inspect
import json
import multiprocessing
import os
import re
import socket
import subprocess
import sys
import time
from dataclasses import replace
from types import SimpleNamespace

import pytest
import torch

from course_grader import GradingPolicy, Release, WorkerConfig, local_workers, released_exercises, worker
from course_grader.grading import GradingTask, grade_student, ungraded
from course_grader.judging import Budget, RemoteNotebook, judge_notebook
from course_grader.judging.remote_notebook import _stopped_by
from course_grader.local_workers import grade_here
from course_grader.pipeline import ResultStore, grade_release, prepare_task
from course_grader.sandbox import NoSandbox, ResourceLimits, Sandbox, SandboxLost
from course_grader.submissions import SubmittedNotebook, find_submissions, read_notebook
from course_lib.about import version
from course_lib.exercises import ALL, NEEDS_REVIEW, NOT_PASSED
from tests.grader.synthetic_class import POINTS, RELEASE, RIGHT, hand_in, notebook

pytestmark = pytest.mark.xdist_group("sandbox")
CONFIG = WorkerConfig(ResourceLimits(), course=version())


@pytest.fixture(scope="module")
def sandboxes(isolation):
    limits = ResourceLimits(cell=3, answer=3, notebook=20)
    with Sandbox(isolation, limits) as sandbox, Sandbox(isolation, limits, expose_course=True) as exposed:
        yield sandbox, exposed


def task(student, *sources, **more):
    sheets = [
        SubmittedNotebook(f"{number}.ipynb", 0.0, False, read_notebook(notebook("import torch", *cells).encode()))
        for number, cells in enumerate(sources)
    ]
    return GradingTask(student, tuple(sheets), (), RELEASE, **{"secret": b"0" * 32, **more})


class Forged:
    """A notebook in the sandbox that answers the requests about one exercise with a forged message."""

    def __init__(self, remote, name, messages):
        self.remote, self.forged, self.messages = remote, name, messages

    def __getattr__(self, attribute):
        return getattr(self.remote, attribute)

    def ask_all(self, requests):
        request, arguments = requests[0] if requests else ("", {})
        if arguments.get("name") != self.forged:
            yield from self.remote.ask_all(requests)
            return
        message = self.messages.get(request, {})
        if isinstance(message.get("raised"), dict):
            raise _stopped_by(message["raised"])
        yield from [message] * len(requests)


FORGED = {
    "a huge integer": {"call": {"result": 10**4000, "changed": []}},
    "a huge negative integer in a list": {"call": {"result": [-(10**4000)], "changed": []}},
    "an error whose kind is a tensor": {"call": {"raised": {"kind": torch.zeros(3), "message": torch.zeros(3)}}},
    "an error on a line that is a tensor": {
        "call": {"raised": {"text": torch.zeros(2), "file": torch.zeros(2), "line": 1}}
    },
    "a name that is a list": {
        "call": {"raised": {"unwritten": ["x"], "function": torch.zeros(2), "tensors": torch.zeros(2)}}
    },
}


@pytest.mark.one_in(5)
@pytest.mark.parametrize("forged", FORGED.values(), ids=FORGED)
def test_a_forged_message_is_a_wrong_answer_of_one_exercise(forged, sandboxes):
    sheet = read_notebook(notebook(*RIGHT.values()).encode())
    cells = [(cell.number, cell.source) for cell in sheet.cells]
    with RemoteNotebook(sandboxes[0], cells, list(RIGHT), {}) as remote:
        verdicts = judge_notebook(Forged(remote, "number_at", forged), sheet, lambda name: b"0" * 32, sandboxes[1])
    assert {name: verdict.passed for name, verdict in verdicts.items()} == {name: name != "number_at" for name in RIGHT}
    assert "Grading itself failed" not in verdicts["number_at"].message


FORGED_FINDINGS = [
    [{"mistake": []}],
    [{"mistake": torch.zeros(2), "evidence": {}}],
    {"mistake": 1},
    [{"mistake": "kv-heads-tiled", "facts": {"kv_heads": 5}}],
    [{"mistake": "wrong-scale", "facts": {"factor": [1]}}],
    [{"mistake": "wrong-scale", "facts": {"factor": 10**400}}],
    [{"mistake": "softmax-wrong-axis", "facts": {"off": [0]}}],
    [{"mistake": "missing-scale", "facts": {1: 2}}],
]


@pytest.mark.parametrize("findings", FORGED_FINDINGS)
def test_a_forged_finding_of_the_doctor_names_nothing(findings, sandboxes, monkeypatch):
    ask, asked = RemoteNotebook.ask, []

    def forging(self, request, **more):
        if request != "diagnose":
            return ask(self, request, **more)
        asked.append(request)
        return {"findings": findings}

    monkeypatch.setattr(RemoteNotebook, "ask", forging)
    right = inspect.getsource(ALL["MultiHead"].solution)
    wrong = right.replace("scores_by_head(queries, keys)", "(queries @ keys.mT / self.head_dim**0.5)")
    # A mistake without a name, so that the doctor is asked.
    wrong = "from torch import nn\n" + wrong.replace("num_tokens, -1))", "num_tokens, -1)).sin()")
    exercises = tuple(each for each in released_exercises(["05"]) if each.name == "MultiHead")
    release = Release("week5", "1", "0", exercises)
    sheet = SubmittedNotebook("05.ipynb", 0.0, False, read_notebook(notebook("import torch", wrong).encode()))
    result = grade_student(GradingTask("eve", (sheet,), (), release), *sandboxes)
    assert asked and result.points == 0 and result.marks[0].verdict.state == NOT_PASSED, result.marks[0].verdict


def test_grading_leaves_the_other_cores_to_the_sandboxes(monkeypatch):
    """On a busy machine, threads that wait for each other made each student take several times as long."""
    seen = []
    monkeypatch.setattr(worker, "sandboxes", lambda config: (None, SimpleNamespace(start=lambda: None)))
    monkeypatch.setattr(worker, "grade_student", lambda *_: seen.append(torch.get_num_threads()))
    before = torch.get_num_threads()
    torch.set_num_threads(3)
    try:
        worker.grade_in_worker(task("ada", RIGHT.values()), CONFIG)
        assert seen == [1] and torch.get_num_threads() == 3
    finally:
        torch.set_num_threads(before)


def test_an_error_of_the_grader_costs_one_exercise(sandboxes, monkeypatch):
    """As `torch.randn()` without a size did for a parameter without axes."""
    monkeypatch.setattr(type(ALL["split_heads"]), "_judge", _failing(type(ALL["split_heads"])._judge))
    result = grade_student(task("ada", RIGHT.values()), *sandboxes)
    states = {mark.verdict.name: (mark.points, mark.verdict.state == NEEDS_REVIEW) for mark in result.marks}
    assert states.pop("split_heads") == (0, True)
    assert all(state == (POINTS[name], False) for name, state in states.items())


def _failing(judge):
    def _judge(self, answer, rng):
        if self.name == "split_heads":
            raise TypeError("randn() without a size")
        return judge(self, answer, rng)

    return _judge


def test_a_learned_scale_without_axes_costs_nothing_else(sandboxes):
    code = (
        "class SingleHead(torch.nn.Module):\n    def __init__(self, d_in, d_out):\n        super().__init__()\n"
        "        self.W_query = torch.nn.Linear(d_in, d_out, bias=False)\n"
        "        self.scale = torch.nn.Parameter(torch.tensor(d_out ** -0.5))\n"
        "    def forward(self, x):\n        return self.W_query(x) * self.scale\n"
    )
    softmax = "def softmax_rows(scores):\n    return torch.softmax(scores, dim=-1)\n"
    release = Release("week1", "1", "0", released_exercises(["01"]))
    sheet = SubmittedNotebook("01.ipynb", 0.0, False, read_notebook(notebook("import torch", softmax, code).encode()))
    result = grade_student(GradingTask("ada", (sheet,), (), release), *sandboxes)
    found = {mark.verdict.name: mark for mark in result.marks}
    assert found["softmax_rows"].points == found["softmax_rows"].possible
    assert "Grading itself failed" not in found["SingleHead"].verdict.message


@pytest.mark.parametrize(
    "error", [NoSandbox("A sandbox could not be started: it ended."), SandboxLost("gone")], ids=repr
)
def test_a_sandbox_that_fails_to_start_is_tried_again_then_left_for_later(error, monkeypatch):
    tried = []
    monkeypatch.setattr(worker, "sandboxes", lambda config: (None, None))
    monkeypatch.setattr(worker.time, "sleep", lambda seconds: None)

    def grade(task, *_):
        tried.append(task.student)
        raise error

    monkeypatch.setattr(worker, "grade_student", grade)
    result = worker.grade_in_worker(GradingTask("ada", (), (), RELEASE), CONFIG)
    assert tried == ["ada"] * worker.TRIES and result.provisional and result.needs_review


def test_what_grading_failed_at_is_not_kept(tmp_path, monkeypatch):
    hand_in(tmp_path / "in", 2)
    graded, fails = [], ["student0001"]

    def all_of(tasks, config, **_):
        for each in tasks:
            graded.append(each.student)
            yield replace(ungraded(each, "The sandbox failed."), provisional=each.student in fails)

    monkeypatch.setattr("course_grader.pipeline.grade_all", all_of)

    def run(again=None, config=CONFIG):
        graded.clear()
        grade_release(
            tmp_path / "in", RELEASE, tmp_path / "out", GradingPolicy(), config, again=again, say=lambda _: None
        )
        return graded

    assert run() == ["student0000", "student0001"]
    fails.clear()
    assert run() == ["student0001"]  # only what failed
    assert run() == []
    assert run(again=["student0000"]) == ["student0000"]
    assert run(again=[]) == ["student0000", "student0001"]
    slower = WorkerConfig(ResourceLimits(cell=20), course=version())
    assert run(config=slower) == ["student0000", "student0001"]  # other limits, other results
    monkeypatch.setattr("course_grader.pipeline.course_checksum", lambda: "another commit")
    assert run(config=slower) == ["student0000", "student0001"]
    with pytest.raises(ValueError, match="Nobody named 'bob' handed in anything"):
        run(again=["bob"])


def killed_once(task, config):
    """Grade as a worker whose process is killed the first time that it gets the second student."""
    flag = config.hidden[0]
    if task.student == "student0001" and not os.path.exists(flag):
        open(flag, "w").close()
        os.kill(os.getpid(), 9)
    if task.student == "student0002":
        os.kill(os.getpid(), 9)
    return ungraded(task, "graded")


def test_a_worker_that_dies_is_started_again(tmp_path, monkeypatch):
    monkeypatch.setattr(local_workers, "worker_context", lambda: multiprocessing.get_context("fork"))
    monkeypatch.setattr(local_workers, "grade_in_worker", killed_once)
    monkeypatch.setattr(local_workers, "SMALL_CLASS", 1)
    config = WorkerConfig(ResourceLimits(), hidden=(str(tmp_path / "flag"),))
    tasks = [GradingTask(f"student{number:04}", (), (), RELEASE) for number in range(6)]
    found = {result.student: result.remarks for result in grade_here(tasks, config, 2)}
    assert len(found) == 6 and "took 3 workers down" in found.pop("student0002")[0]
    assert set(found.values()) == {("graded",)}


def test_the_drawn_numbers_depend_on_the_file(tmp_path):
    store, seeds = ResultStore(tmp_path / "out"), []
    for extra in ("", "\n# handed in again"):
        (tmp_path / "in").mkdir(exist_ok=True)
        (tmp_path / "in" / "eve.ipynb").write_text(notebook(RIGHT["number_at"] + extra))
        prepared = prepare_task(find_submissions(tmp_path / "in")[0], RELEASE, GradingPolicy(), CONFIG, store.secret())
        seeds.append(prepared.seed("number_at", prepared.notebooks[0].notebook))
    assert seeds[0] != seeds[1]


def test_a_table_of_the_numbers_that_the_feedback_told_earns_nothing(sandboxes):
    right = "    return (t * h * d, d, h * d, 1)\n"
    collect = "seen = []\ndef strides_by_head(t, h, d):\n    seen.append((t, h, d))\n"
    collect += "    if len(seen) > 3:\n        raise ValueError(str(seen))\n" + right
    first = grade_student(task("eve", [collect]), *sandboxes)
    told = next(mark.verdict for mark in first.marks if mark.verdict.name == "strides_by_head")
    found = re.search(r"\[\(.*\)\]", f"{told!r}")
    assert found, told
    known = ast.literal_eval(found[0])
    table = f"KNOWN = {known!r}\ndef strides_by_head(t, h, d):\n    assert (t, h, d) in KNOWN\n" + right
    second = grade_student(task("eve", [table]), *sandboxes)
    assert not next(mark for mark in second.marks if mark.verdict.name == "strides_by_head").points


def test_one_budget_for_all_files_of_a_student(isolation):
    limits = ResourceLimits(cell=5, answer=5, notebook=5)
    files = [["import time; time.sleep(2)", code] for code in RIGHT.values()]  # each alone is within the limit
    with Sandbox(isolation, limits) as sandbox, Sandbox(isolation, limits, expose_course=True) as exposed:
        result = grade_student(task("eve", *files), sandbox, exposed)
    assert result.points < result.possible and re.search("were used up|ran out of time", f"{result!r}")


def test_a_budget_counts_only_what_runs(monkeypatch):
    now = iter([0.0, 3.0, 100.0, 101.0])
    monkeypatch.setattr("course_grader.judging.remote_notebook.time.monotonic", lambda: next(now))
    budget, session = Budget(10), SimpleNamespace(until=0.0)
    with budget.spent_by(session):
        assert session.until == 10
    with budget.spent_by(session):
        assert session.until == 107
    assert budget.left == 6


def test_buffers_of_sockets_are_out_of_reach(sandboxes):
    code = "import socket\ndef merge_heads(x):\n    socket.socketpair()\n    return x.permute(1, 2, 0, 3).flatten(2)\n"
    result = grade_student(task("eve", [code]), *sandboxes)
    assert result.points == 0 and "PermissionError" in f"{result!r}"


def test_our_own_future_imports_stay_ours(sandboxes):
    code = (
        "class Config:\n    d: int = 3\n"
        "def merge_heads(x):\n    assert Config.__annotations__['d'] is int, Config.__annotations__\n"
        "    return x.permute(1, 2, 0, 3).flatten(2)\n"
    )
    assert grade_student(task("ada", [code]), *sandboxes).points == POINTS["merge_heads"]
    assert grade_student(task("ada", ["from __future__ import annotations", code]), *sandboxes).points == 0


def listening(pid):
    """The TCP addresses on which a process or one of its descendants listens."""
    import psutil

    found = []
    with contextlib.suppress(psutil.Error):
        for process in [psutil.Process(pid), *psutil.Process(pid).children(recursive=True)]:
            with contextlib.suppress(psutil.Error):
                connections = process.net_connections("inet")
                found += [each.laddr for each in connections if each.status == psutil.CONN_LISTEN]
    return found


@pytest.mark.slow
def test_a_stranger_on_the_machine_reaches_no_worker(tmp_path, isolation):
    """Whoever has a shell here can connect to every port; a worker's port would run any code as the teacher."""
    hand_in(tmp_path / "in", 30)
    (tmp_path / "week4").mkdir()
    (tmp_path / "week4" / "release.json").write_text(json.dumps(RELEASE.as_dict()))
    words = ["grade", str(tmp_path / "in"), "--week", str(tmp_path / "week4"), "--out", str(tmp_path / "out")]
    command = [sys.executable, "-c", "import sys; from course_lib.command import main; sys.exit(main(sys.argv[1:]))"]
    grading = subprocess.Popen(
        [*command, *words, "--workers", "2"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    ports, results = set(), 0
    try:
        while grading.poll() is None and results < 20:
            ports |= set(listening(grading.pid))
            results = len(list((tmp_path / "out" / "results").glob("*.json")))
            time.sleep(0.1)
        assert results >= 20 or grading.poll() == 0
        for port in ports:  # nobody answers a stranger
            with contextlib.suppress(OSError), socket.create_connection(port, timeout=5):
                raise AssertionError(f"a stranger can connect to {port}")
        assert grading.wait(120) == 0
    finally:
        if grading.poll() is None:
            grading.kill()
            grading.wait()
