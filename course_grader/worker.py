"""Grade one student in this process, whatever happens to the sandbox or to grading itself."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager

import torch

from course_lib.about import version

from .grading import GradingTask, grade_student, ungraded
from .marks import StudentResult
from .sandbox import NoSandbox, SandboxLost
from .worker_config import WorkerConfig, sandboxes

TRIES = 3


def grade_in_worker(task: GradingTask, config: WorkerConfig) -> StudentResult:
    """Grade one student in this process; if grading itself fails, every exercise needs the teacher's review.

    Raises:
        NoSandbox: Students' code cannot be isolated here at all.
        ValueError: This process has a different version of the course.
    """
    if config.course != version():
        raise ValueError(
            f"A worker has version {version()} of the course, but you have {config.course}: install "
            "your version on that worker."
        )
    pair = sandboxes(config)
    for tries in range(TRIES):
        time.sleep(tries)  # where a sandbox fails to start, memory or processes may be short for a moment
        try:
            with _one_thread():
                result = grade_student(task, *pair)
            if any(exercise.name[0].isupper() for exercise in task.release.exercises):  # wrong ones are diagnosed there
                pair[1].start()
            return result
        except (SandboxLost, NoSandbox):  # not the student's fault: try again
            continue
        except Exception as error:  # a bug of the grader must not stop the run for the others
            reason = f"Grading itself failed here ({type(error).__name__}); your teacher will look at it."
            return ungraded(task, reason)
    return ungraded(task, f"The sandbox failed {TRIES} times; your teacher will look at it.")


@contextmanager
def _one_thread() -> Iterator[None]:
    """Compare in one thread: the sandboxes need the other cores, and on a busy machine threads wait for each other."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)
