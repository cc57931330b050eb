"""What came from what, against a brute-force search: change one result, run everything again, see what differs."""

import pytest
import torch
from torch import nn
from torch.backends import opt_einsum

from course_lib.tracing import trace_run
from tests.tracing.programs import SHAPE, Program

SEEDS = range(12)


def changed(program, x, index):
    """The instructions whose result differs if that of one instruction is changed."""
    plain, other = program.results(x), program.results(x, after={index: lambda tensor: tensor * 1.01 + 0.1})
    return {i for i, (tensor, two) in enumerate(zip(plain, other, strict=True)) if not torch.equal(tensor, two)}


@pytest.mark.parametrize("seed", SEEDS)
def test_descendants_and_ancestors_are_those_that_a_change_reaches(seed):
    program, x = Program(seed), torch.rand(SHAPE, dtype=torch.float64)
    trace, _ = trace_run(program, x)
    assert len(trace.operations) == len(program.instructions)
    reached = {index: changed(program, x, index) for index in range(len(program.instructions))}
    for index, expected in reached.items():
        assert trace.descendants({index}) == expected
        value = trace.operations[index].outputs[0]
        assert trace.ancestors([value]) == {other for other in reached if index in reached[other]}
    other_x = program.results(x + 0.1)
    moved = {i for i, result in enumerate(program.results(x)) if not torch.equal(result, other_x[i])}
    assert trace.descendants_of_input() == moved


@pytest.mark.parametrize("seed", SEEDS)
def test_nothing_that_x_reaches_is_missed_where_memory_is_shared(seed):
    program, x = Program(seed, in_place=True), torch.rand(SHAPE, dtype=torch.float64)
    trace, output = trace_run(program.fresh(), x)
    moves = not torch.equal(output, program.fresh()(x + 0.1))
    reads_x = trace.ancestors([trace.output]) & trace.descendants_of_input()
    assert reads_x or trace.output is trace.x or not moves


def test_a_write_through_a_view_is_an_ancestor_of_what_is_read_through_another():
    def run(x):
        held = torch.zeros(SHAPE, dtype=x.dtype)
        first, second = held[0], held.view(-1)
        first.copy_(x[0])
        return second * 2

    trace, output = trace_run(run, torch.rand(SHAPE, dtype=torch.float64))
    written = next(operation for operation in trace.operations if operation.name == "copy_")
    assert written.number in trace.ancestors([trace.output]) and written.number in trace.descendants_of_input()
    result = trace.operations[-1]
    assert torch.equal(result.inputs[0].tensor * 2, output)  # as it was when it was read
    assert written.number in trace.writers_of(result.inputs[0], result.number)
    assert written.number not in trace.writers_of(result.inputs[0], written.number)


def test_a_write_into_one_part_is_no_ancestor_of_another_part():
    def run(x):
        first, second = (x * 3).chunk(2, dim=1)
        first *= 2
        return second - 1, (first + 1, first[1:], second)

    trace, _ = trace_run(run, torch.rand(5, 8, dtype=torch.float64))
    by_name = {operation.name: operation for operation in reversed(trace.operations)}
    written, last, of_first = by_name["mul_"], by_name["sub"], by_name["add"]
    assert written.number in trace.ancestors(of_first.outputs)
    assert written.number not in trace.ancestors(last.outputs)
    assert last.number not in trace.descendants({written.number})


@pytest.mark.parametrize("interleaved", [True, False])
def test_memory_of_unknown_elements_counts_as_written(interleaved):
    def run(x):
        held = x * 2
        other = torch.view_as_real(torch.view_as_complex(held)) if interleaved else held[:, :1]
        held[:, 1].mul_(3)
        return other + 1

    trace, _ = trace_run(run, torch.rand(5, 2, dtype=torch.float64))
    written = next(operation for operation in trace.operations if operation.name == "mul_")
    assert (written.number in trace.ancestors([trace.output])) == interleaved


def test_an_operation_knows_its_lines_from_the_inside_out():
    def helper(x):
        return x.exp()  # inner

    def forward(x):
        y = x + 1
        return helper(y)  # outer

    trace, _ = trace_run(forward, torch.rand(SHAPE))
    plus, exp = trace.operations
    assert plus.by(forward.__code__) and not exp.by(forward.__code__) and exp.code is helper.__code__
    assert exp.where.text.endswith("# inner") and exp.statement_in(forward.__code__) == exp.outermost_statement
    assert exp.outermost_statement.source == "return helper(y)" and plus.statement.names == ("y",)
    assert exp.statement_in(helper.__code__).expression == ".exp()"
    assert exp.statement_in(test_an_operation_knows_its_lines_from_the_inside_out.__code__) == exp.outermost_statement


def test_the_caller_is_no_author_where_there_is_another():
    module = nn.Sequential(nn.Linear(3, 3))

    def forward(x):
        return x + 1

    def call(x):
        return forward(module(x)) * 2

    trace, _ = trace_run(call, torch.rand(SHAPE), call.__code__)
    codes = {operation.name: operation.code for operation in trace.operations}
    assert codes["add"] is forward.__code__ and codes["mul"] is codes["addmm"] is call.__code__
    assert next(op for op in trace.operations if op.name == "add").frames[1:] == ()


def test_an_error_leaves_the_trace_up_to_it():
    def fails(x):
        y = x * 2
        return y.view(7)

    trace, error = trace_run(fails, torch.rand(SHAPE))
    assert isinstance(error, RuntimeError) and trace.output is None
    assert [operation.name for operation in trace.operations] == ["mul"]
    assert trace_run(lambda x: "text", torch.rand(SHAPE))[1] == "text"


def test_traces_may_be_nested_where_opt_einsum_is_installed(monkeypatch):
    settings = opt_einsum.set_flags.__globals__  # the module itself refuses changes
    for name, value in {"is_available": lambda: True, "strategy": "auto", "enabled": True}.items():
        monkeypatch.setitem(settings, name, value)
    inner = trace_run(lambda given: trace_run(torch.square, given)[1] + 1, torch.rand(3))[1]
    assert isinstance(inner, torch.Tensor) and settings["enabled"]


def test_fused_attention_is_traced_in_single_operations():
    def fused(x):
        return nn.functional.scaled_dot_product_attention(x, x, x)

    trace, output = trace_run(fused, torch.rand(1, 2, 4, 3, dtype=torch.float64))
    names = {operation.name for operation in trace.operations}
    assert {"bmm", "_softmax"} & names and not any("attention" in name for name in names)
    assert torch.equal(trace.output.tensor, output)
