"""Keys on several devices."""

from __future__ import annotations

import torch
from torch import Tensor

from course_lib.exercises.exercise import Case
from course_lib.exercises.function_exercise import FunctionExercise
from course_lib.exercises.input_generator import InputGenerator


def merge_devices(outputs, lses):
    # (device, query, width), (device, query) -> (query, width)
    fractions = lses.softmax(dim=0)  # of the whole softmax, what falls to each device
    return (fractions[:, :, None] * outputs).sum(dim=0)


def _halving(outputs: Tensor, lses: Tensor) -> Tensor:
    """Merge each further device with the lse of its neighbour alone."""
    merged = outputs[0]
    for at in range(1, len(outputs)):
        merged = merge_devices(torch.stack([merged, outputs[at]]), lses[at - 1 : at + 1])
    return merged


def _draw(rng: InputGenerator) -> list[Case]:
    cases = []
    for (devices, queries, keys, width), offset in zip(rng.size_rows(3, 4, 3, 9), (0.0, 2000.0, -2000.0), strict=True):
        scores = rng.normal(devices, queries, keys, std=1.5) + offset
        scores = scores + rng.normal(devices, queries, 1)  # some devices hold more that is looked for
        outputs = scores.softmax(-1) @ rng.normal(devices, keys, width)
        about = f"the scores are about {offset:.0f}" if offset else ""
        cases.append(Case((outputs, scores.logsumexp(-1)), about))
    outputs, lses = cases[0].arguments
    hidden = torch.arange(lses.shape[1]) < lses.shape[1] // 2
    lses = torch.cat([lses[:-1], lses[-1:].masked_fill(hidden, -torch.inf)])
    outputs = torch.cat([outputs[:-1], outputs[-1:].masked_fill(hidden[:, None], 0.0)])
    cases.append(Case((outputs, lses), "some queries see no key of the last device"))
    about = "the scores are about -2000, and some queries see no key of the last device"
    cases.append(Case((outputs, lses - 2000.0), about))
    outputs, lses = cases[0].arguments
    apart = lses - 800.0 * torch.arange(lses.shape[1], dtype=torch.float64)
    return [*cases, Case((outputs, apart), "the scores of each query lie 800 below the one before")]


EXERCISE = FunctionExercise(
    merge_devices,
    title="Keys on several devices",
    difficulty=3,
    minutes=7,
    prompt=(
        "Each device holds some of the keys and values, and all queries. `outputs[i]` is the finished attention of "
        "device i over its own keys, softmax included, and `lses[i]` its `scores.logsumexp(dim=-1)`, one number per "
        "query. Give back the attention over the keys of all devices. The check also comes with scores around 2000 and "
        "-2000, with scores far apart from query to query, and with queries that see no key of the last device: their "
        "lse there is -inf, their output 0."
    ),
    hints=(
        "How much of the whole softmax falls to one device? Its sum of exponentials, divided by that of all devices.",
        "A device's sum is exp(lse). exp(2000) is infinite, but a fraction does not change if the same number is taken "
        "from all lses first. Which function does exactly that?",
        "`lses.softmax(dim=0)` has one fraction per device and query; multiply the outputs by it and add over devices.",
    ),
    draw=_draw,
    arguments={"outputs": "device query width", "lses": "device query"},
    axes="query width",
    wrong="""
outputs.mean(0)
    the mean over the devices: one of them may hold much more of the softmax
    ? How much should a device count whose scores are all very low?
outputs.sum(0)
    the sum over the devices
    ? Do the weights of all keys sum to 1?
lses.softmax(dim=0) => lses / lses.sum(0)
    outputs weighted by the lse itself, not by exp of it
    ? Of what is lse the logarithm?
0)  # => 1)  #
    a softmax over the queries; the fractions of one query's devices should sum to 1
    ? Over which axis must the fractions sum to 1?
outputs.gather(0, lses.argmax(0)[None, :, None].expand(1, -1, outputs.shape[2]))[0]
    the output of the device with the largest lse alone
    ? Do the keys on the other devices count for nothing?
lses.softmax(dim=0) => lses.exp() / lses.exp().sum(0)
    a merge without a guard against large scores: exp(2000) is infinite
    ? Fractions don't change if all lses get smaller by the same number. Which number?
lses.softmax(dim=0) => (lses - lses.max()).exp() / (lses - lses.max()).exp().sum(0)
    a merge that takes the largest lse of all queries from every one: for the others, all fractions become 0
    ? Of which queries should the largest be taken: of all, or each its own?
lses.softmax(dim=0) => (lses - lses.amax(0)).exp()
    a merge whose fractions don't sum to 1
    ? What must the sum be divided by?
_halving(outputs, lses)
    a merge one after the other in which the lse of what is already merged is forgotten
    ? What is the lse of two devices together?
""",
)
