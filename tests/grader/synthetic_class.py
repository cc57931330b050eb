"""A class of any size, whose points are known because each answer is known to be right or wrong."""

import json
import random

from course_grader import Mark, Release, StudentResult, released_exercises

ANSWERS = {  # exercise of lesson 04 -> (code, whether it is right)
    "number_at": (
        ("def number_at(memory, strides, index):\n    return memory[sum(a * b for a, b in zip(strides, index))]", True),
        ("def number_at(memory, strides, index):\n    return memory[sum(index)]", False),
    ),
    "strides_by_head": (
        ("def strides_by_head(t, h, d):\n    return (t * h * d, d, h * d, 1)", True),
        ("def strides_by_head(t, h, d):\n    return (t * h * d, h * d, d, 1)", False),
        ("def strides_by_head(t, h, d):\n    raise NotImplementedError", False),
    ),
    "split_heads": (
        ("def split_heads(x, num_heads):\n    return x.unflatten(2, (num_heads, -1)).permute(1, 2, 0, 3)", True),
        ("def split_heads(x, num_heads):\n    return x.reshape(x.shape[1], num_heads, len(x), -1)", False),
    ),
    "merge_heads": (
        ("def merge_heads(x):\n    return x.permute(1, 2, 0, 3).flatten(2)", True),
        ("def merge_heads(x):\n    return x.reshape(*x.shape[1:3], -1)", False),
        ("def merge_heads(x):\n    1 / 0", False),
    ),
    "needs_copy": (
        (
            "def needs_copy(shape, strides, axis):\n    return strides[axis] != shape[axis + 1] * strides[axis + 1]",
            True,
        ),
        ("def needs_copy(shape, strides, axis):\n    return strides[axis] < strides[axis + 1]", False),
    ),
}
RELEASED = tuple(exercise for exercise in released_exercises(["04"]) if exercise.name in ANSWERS)
POINTS = {exercise.name: exercise.points for exercise in RELEASED}
RELEASE = Release("week4", "1", "0", RELEASED)
RIGHT = {name: answers[0][0] for name, answers in ANSWERS.items()}  # one right answer to each


def student_result(name, verdicts, release, **more):
    """Return a student's result: full points for each verdict that passed, in the order of the release."""
    marks = tuple(
        Mark(verdict.of(each.name, each.lesson), each.title, each.points if verdict else 0, each.points)
        for each, verdict in zip(release.exercises, verdicts, strict=True)
    )
    return StudentResult(name, marks, **more)


def notebook(*sources):
    """The text of a notebook with these code cells."""
    cells = [{"cell_type": "code", "source": source, "metadata": {}, "outputs": []} for source in sources]
    return json.dumps({"cells": cells, "metadata": {}, "nbformat": 4, "nbformat_minor": 5})


def hand_in(folder, count):
    """Write a notebook for each of `count` students; return student -> points."""
    folder.mkdir(parents=True)
    draw, points = random.Random(0), {}
    for number in range(count):
        chosen = {name: draw.choice(answers) for name, answers in ANSWERS.items()}
        student = f"student{number:04}"
        text = notebook("import torch", *(code for code, _ in chosen.values()))
        (folder / f"{student}.ipynb").write_text(text, encoding="utf-8")
        points[student] = sum(POINTS[name] for name, (_, right) in chosen.items() if right)
    return points
