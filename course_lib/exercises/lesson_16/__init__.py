"""Exercises of lesson 16: heads on many devices."""

from __future__ import annotations

from course_lib.exercises.exercise_set import ExerciseSet

from . import (
    all_reduce_seconds,
    best_degree,
    biases_of_device,
    cache_per_device,
    cut_columns,
    cut_rows,
    kv_heads_of_device,
    merge_devices,
    partial_output,
    ring_bytes,
)

SET = ExerciseSet(
    title="many devices",
    intro=(
        "You will compute what one device adds to the output of a layer, who adds the biases, what a device keeps and "
        "sends, and how many devices are best; at the end you merge keys that lie on several devices.\n\n"
        "**You need** [lesson 16](../16_many_devices.ipynb). **It takes** about forty minutes. Devices are counted "
        "from 0, and heads are dealt out in order: with 4 heads and 2 devices, device 0 has heads 0 and 1. No second "
        "device is needed."
    ),
    imports="""\
import torch

from course_lib.exercises import check, progress, review""",
    after=(
        "Passed them all? In [lesson 17](../17_capstone.ipynb) you write attention from memory, and a small model made "
        "of it learns to spell."
    ),
    exercises=(
        partial_output.EXERCISE,
        biases_of_device.EXERCISE,
        cache_per_device.EXERCISE,
        ring_bytes.EXERCISE,
        best_degree.EXERCISE,
        merge_devices.EXERCISE,
    ),
    blanks=(cut_rows.EXERCISE, cut_columns.EXERCISE, kv_heads_of_device.EXERCISE, all_reduce_seconds.EXERCISE),
)
