"""A trace run again with something changed gives what the code gives; only what the change reaches is run."""

import pytest
import torch
import torch.nn.functional as F

from course_lib.tracing import replay, trace_run
from tests.tracing.programs import SHAPE as SMALL
from tests.tracing.programs import Program

SHAPE = (2, 3, 4)
WEIGHT = torch.randn(4, 5, generator=torch.Generator().manual_seed(1))


def drawing(x):
    noise = torch.rand(SHAPE)  # x doesn't reach it, but the next random numbers depend on it
    return F.dropout(x, 0.5, training=True) + noise


def writing(x):
    table = torch.ones(SHAPE)
    table.mul_(3)
    table[:, 0] = x[:, 0]
    before = table * 2
    table.add_(1)
    return before + table + WEIGHT.sum()


def two_results(x):
    large, indices = (x @ WEIGHT).max(-1)
    return large[..., None] + WEIGHT.t()[indices]


@pytest.mark.parametrize("code", [drawing, writing, two_results])
def test_another_x_gives_what_a_new_run_gives(code):
    x, other = torch.randn(SHAPE), torch.randn(SHAPE)
    trace, _ = trace_run(code, x)
    assert torch.equal(replay(trace, other)[trace.output.number], trace_run(code, other)[1])
    assert torch.equal(replay(trace)[trace.output.number], trace.output.tensor)


@pytest.mark.parametrize("seed", range(30))
def test_another_x_gives_what_a_new_run_gives_where_memory_is_shared(seed):
    program, other = Program(seed, in_place=True), torch.rand(SMALL, dtype=torch.float64)
    trace, output = trace_run(program.fresh(), torch.rand(SMALL, dtype=torch.float64))
    seen = replay(trace)
    assert all(torch.equal(seen[value.number], value.tensor) for value in trace.values)
    assert torch.equal(seen[trace.output.number], output)
    assert torch.equal(replay(trace, other)[trace.output.number], program.fresh()(other.clone()))


@pytest.mark.parametrize("seed", range(10))
@pytest.mark.parametrize("when", ["before", "after"])
def test_a_changed_operation_gives_what_the_changed_program_gives(when, seed):
    program, x = Program(seed), torch.rand(SMALL, dtype=torch.float64)
    trace, _ = trace_run(program, x)
    for index in range(len(program.instructions)):
        expected = program.results(x, **{when: {index: torch.cos}})
        seen = replay(trace, **{when: {(index, 0) if when == "before" else index: torch.cos}})
        outputs = [seen[operation.outputs[0].number] for operation in trace.operations]
        assert all(torch.equal(tensor, two) for tensor, two in zip(outputs, expected, strict=True))


@pytest.mark.parametrize("seed", range(5))
def test_another_constant_gives_what_a_program_with_it_gives(seed):
    program, x = Program(seed), torch.rand(SMALL, dtype=torch.float64)
    trace, _ = trace_run(program, x)
    constants = {value.number: value.tensor + 1 for value in trace.values if value.made_by is None}
    constants.pop(trace.x.number)
    changed = program.fresh()
    changed.constants = [constant + 1 for constant in program.constants]
    assert torch.equal(replay(trace, leaves=constants)[trace.output.number], changed(x))


def test_what_is_not_reached_is_not_run_again():
    def code(x):
        return x @ WEIGHT.exp() + WEIGHT.cos().sum()

    trace, _ = trace_run(code, torch.randn(SHAPE))
    made = {operation.name: operation for operation in trace.operations}

    def done(**changes):
        seen = replay(trace, **changes)
        outputs = {name: operation.outputs[0] for name, operation in made.items()}
        return {name for name, value in outputs.items() if seen[value.number] is not value.tensor}

    assert done() == set()
    assert done(x=trace.x.tensor + 1).isdisjoint({"exp", "cos", "sum"}) and "add" in done(x=trace.x.tensor + 1)
    assert done(after={made["cos"].number: torch.zeros_like}) == {"cos", "sum", "add"}
    assert done(before={(made["sum"].number, 0): torch.zeros_like}) == {"sum", "add"}
