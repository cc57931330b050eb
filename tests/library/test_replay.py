"""A run that was written down is run again with something changed: only what the change reaches is done again."""

import pytest
import torch
import torch.nn.functional as F

from course_lib.diagnosis.trace import write_down

SHAPE = (2, 3, 4)
WEIGHT = torch.randn(4, 5, generator=torch.Generator().manual_seed(1))


def drawing(x):
    noise = torch.rand(SHAPE)  # x doesn't reach it, but the next numbers drawn depend on its having been drawn
    return F.dropout(x, 0.5, training=True) + noise


def writing(x):
    table = torch.ones(SHAPE)
    table.mul_(3)
    table[:, 0] = x[:, 0]
    before = table * 2
    table.add_(1)
    return before + table + WEIGHT.sum()


def two_results(x):
    large, places = (x @ WEIGHT).max(-1)
    return large[..., None] + WEIGHT.t()[places]


@pytest.mark.parametrize("code", [drawing, writing, two_results])
def test_another_x_gives_what_a_new_run_gives(code):
    x, other = torch.randn(SHAPE), torch.randn(SHAPE)
    trace, _ = write_down(code, x)
    assert torch.equal(trace.replay(other)[trace.output.number], write_down(code, other)[1])
    assert torch.equal(trace.replay()[trace.output.number], trace.output.tensor)


def test_what_is_not_reached_is_not_done_again():
    def code(x):
        return x @ WEIGHT.exp() + WEIGHT.cos().sum()

    trace, _ = write_down(code, torch.randn(SHAPE))
    made = {operation.name: operation for operation in trace.operations}

    def done(**changes):
        seen = trace.replay(**changes)
        return {name for name, one in made.items() if seen[one.outputs[0].number] is not one.outputs[0].tensor}

    assert done() == set()
    assert done(x=trace.x.tensor + 1).isdisjoint({"exp", "cos", "sum"}) and "add" in done(x=trace.x.tensor + 1)
    assert done(after={made["cos"].number: torch.zeros_like}) == {"cos", "sum", "add"}
    assert done(before={(made["sum"].number, 0): torch.zeros_like}) == {"sum", "add"}
