"""A class on several processes: workers, the scheduler and the client go away in the middle, and nothing is lost.

CLASS_OF=1000 runs it with a class of a thousand.
"""

import csv
import json
import os
import signal
import socket
import subprocess
import sys
import time
from contextlib import ExitStack, nullcontext

import pytest

from course_grader import GradingPolicy, Release, StudentResult, WorkerConfig
from course_grader import scheduler as scheduler_module
from course_grader.grading import grade_student
from course_grader.manifest import read_manifest
from course_grader.pipeline import ResultStore, prepare_task
from course_grader.sandbox import ResourceLimits, Sandbox, choose_isolation
from course_grader.submissions import find_submissions
from course_lib.about import version
from tests.grader.synthetic_class import RELEASED, hand_in

pytestmark = pytest.mark.xdist_group("sandbox")

CLASS_OF = int(os.environ.get("CLASS_OF", "60"))
PATIENCE = 60 + CLASS_OF  # seconds until a step must have happened


def start(stack, *words):
    """A process of Dask, which is gone after the test."""
    process = subprocess.Popen(
        [sys.executable, "-m", *words], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True
    )
    stack.callback(process.wait)
    stack.callback(lambda: process.poll() is None and os.killpg(process.pid, signal.SIGKILL))
    return process


def scheduler(stack, port):
    return start(
        stack,
        "distributed.cli.dask_scheduler",
        "--host",
        "127.0.0.1",
        "--port",
        str(port),
        "--no-dashboard",
        "--no-show",
    )


def worker(stack, port):
    words = ["--nworkers", "1", "--nthreads", "1", "--no-dashboard", "--no-nanny", "--memory-limit", "0"]
    return start(stack, "distributed.cli.dask_worker", f"tcp://127.0.0.1:{port}", *words)


def wait_until(true, what):
    until = time.monotonic() + PATIENCE
    while not true():
        assert time.monotonic() < until, f"{what} did not happen in {PATIENCE} s"
        time.sleep(0.05)


@pytest.fixture
def class_(tmp_path, isolation):
    points = hand_in(tmp_path / "handed_in", CLASS_OF)
    (tmp_path / "week4").mkdir()
    release = Release("week4", "1", "0", RELEASED)
    (tmp_path / "week4" / "release.json").write_text(json.dumps(release.as_dict()))
    return tmp_path, points


def grading(folder, *options):
    words = [sys.executable, "-m", "course_lib.command", "grade", str(folder / "handed_in"), "--week", "week4"]
    words += ["--out", str(folder / "out"), *options]
    return subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, start_new_session=True)


@pytest.mark.slow
def test_nothing_is_lost_and_nothing_is_graded_twice(class_):
    folder, points = class_
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    results = folder / "out" / "results"

    def graded():
        return len(list(results.glob("*.json")))

    with ExitStack() as stack:
        first = scheduler(stack, port)
        workers = [worker(stack, port) for _ in range(2)]
        client = grading(folder, "--scheduler", f"tcp://127.0.0.1:{port}")
        stack.callback(client.kill)
        wait_until(lambda: graded() >= CLASS_OF // 10, "a tenth of the class")
        os.killpg(workers[0].pid, signal.SIGKILL)
        wait_until(lambda: graded() >= CLASS_OF // 4, "a quarter after a worker was killed")
        os.killpg(first.pid, signal.SIGKILL)
        time.sleep(1)
        scheduler(stack, port)
        worker(stack, port)
        wait_until(lambda: graded() >= CLASS_OF // 2, "half of it after the scheduler was killed")
        client.send_signal(signal.SIGINT)
        said = client.communicate(timeout=PATIENCE)[0]
        assert client.returncode == 130, said
        assert "The scheduler went away" in said
        before = {path: path.stat().st_mtime_ns for path in results.glob("*.json")}
        assert CLASS_OF // 2 <= len(before) < CLASS_OF
        again = grading(folder, "--scheduler", f"tcp://127.0.0.1:{port}")
        said = again.communicate(timeout=PATIENCE)[0]
        assert again.returncode == 0, said
    assert {path: path.stat().st_mtime_ns for path in before} == before  # none of these was graded again
    with open(folder / "out" / "grades.csv", encoding="utf-8-sig", newline="") as table:
        rows = list(csv.DictReader(table))
    assert len(rows) == CLASS_OF
    assert {row["Student"]: float(row["week4"]) for row in rows} == points
    assert whole(results, 10) == by_student(grade_alone(folder, 10))  # the same to the word as on one worker


class Future:
    """A future of Dask in whose destructor Ctrl-C is pressed."""

    status = "finished"

    def result(self, timeout):
        return "a result"

    def __del__(self):
        signal.raise_signal(signal.SIGINT)


class Client:
    """Enough of a Dask client for `_Run`."""

    def nthreads(self):
        return {"worker": 1}

    def submit(self, *_, **__):
        return Future()


def test_control_c_is_not_lost_in_the_destructor_of_a_future(monkeypatch):
    ignored = []
    monkeypatch.setattr(sys, "unraisablehook", lambda event: ignored.append(event.exc_type))
    monkeypatch.setattr(scheduler_module, "_connect", lambda *_: nullcontext(Client()))
    handler = signal.getsignal(signal.SIGINT)
    results = []
    with pytest.raises(KeyboardInterrupt):
        for result in scheduler_module.grade_all(["a task"] * 9, None, scheduler="tcp://nowhere"):
            results.append(result)
    assert KeyboardInterrupt in ignored  # what Python did with it
    assert 1 <= len(results) < 9
    assert signal.getsignal(signal.SIGINT) is handler


def whole(results, count):
    """What was stored of the first students."""
    return by_student(
        StudentResult.from_dict(json.loads(path.read_text())) for path in sorted(results.glob("*.json"))[:count]
    )


def by_student(found):
    """Student -> everything that was found."""
    return {graded.student: graded for graded in found}


def grade_alone(folder, count):
    """The first students once more, one after the other in this process, from the same secret."""
    release, secret = read_manifest(folder / "week4" / "release.json"), ResultStore(folder / "out").secret()
    submissions = find_submissions(folder / "handed_in")[:count]
    isolation, limits = choose_isolation(), ResourceLimits()
    with Sandbox(isolation, limits) as sandbox, Sandbox(isolation, limits, expose_course=True) as exposed:
        tasks = [
            prepare_task(submission, release, GradingPolicy(), WorkerConfig(limits, course=version()), secret)
            for submission in submissions
        ]
        return [grade_student(task, sandbox, exposed) for task in tasks]
