"""Recording leaves no trace: nothing is kept alive, nothing is changed, and it works in every mode."""

import gc
import warnings
import weakref

import pytest
import torch
from torch import nn
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.overrides import _get_current_function_mode_stack

from course_lib.attention import MultiHeadAttention
from course_lib.recorder import record

X = torch.randn(2, 5, 11, generator=torch.Generator().manual_seed(0))


def module(**options):
    torch.manual_seed(0)
    return MultiHeadAttention(11, 21, 3, **options)


class Big:
    pass


@pytest.fixture
def without_collector():
    gc.collect()
    gc.disable()
    yield
    gc.enable()


@pytest.mark.slow
def test_every_tensor_of_the_run_dies_with_the_recording(without_collector):
    assert str(record(torch.relu, X).expand())  # the first time PyTorch imports something, whose frames live on a while
    with torch.no_grad():
        recording = record(module(), X)
        tensors = [weakref.ref(step.tensor) for step in recording]
        assert str(recording.expand()) and recording.layout()
        assert all(tensor() is not None for tensor in tensors)
        del recording
    assert [tensor() for tensor in tensors] == [None] * len(tensors)


@pytest.mark.slow
def test_local_variables_of_the_run_die_with_the_run(without_collector):
    seen = []

    class Module(nn.Module):
        def forward(self, x):
            local = Big()
            seen.append(weakref.ref(local))
            return x + 1

    recording = record(Module(), X)
    assert seen[0]() is None and len(recording) == 1


@pytest.mark.slow
def test_a_failed_recording_dies_with_its_error(without_collector):
    def fails(x):
        seen.append(weakref.ref(x + 1))
        raise ValueError("no")

    seen = []
    try:
        record(fails, X)
    except ValueError as error:
        assert len(error.recording) == 1
        error.__traceback__ = None
    assert seen[0]() is None


def test_the_module_and_the_process_are_as_before():
    attention = module(dropout=0.5).train()
    attributes = {name: dict(vars(submodule)) for name, submodule in attention.named_modules()}
    state = {key: value.clone() for key, value in attention.state_dict().items()}
    torch.manual_seed(7)
    plain = attention(X)
    after_plain = torch.get_rng_state()
    torch.manual_seed(7)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        recording = record(attention, X)
        assert str(recording.expand())
    assert torch.equal(recording.output, plain)
    assert torch.equal(torch.get_rng_state(), after_plain)
    assert {name: dict(vars(submodule)) for name, submodule in attention.named_modules()} == attributes
    assert all(torch.equal(value, state[key]) for key, value in attention.state_dict().items())
    assert attention.training and torch.is_grad_enabled() and _get_current_function_mode_stack() == []
    assert not any(module._forward_hooks or module._forward_pre_hooks for module in attention.modules())


def test_every_mode_is_recorded():
    attention = module().eval()
    usual = [step.op for step in record(attention, X)]
    for mode in (torch.no_grad(), torch.inference_mode(), torch.autocast("cpu", dtype=torch.bfloat16)):
        with mode:
            recording = record(attention, X)
        assert [step.op for step in recording] == usual
    assert recording["queries"].dtype == torch.bfloat16
    meta = record(module().to("meta"), X.to("meta"))
    assert [step.op for step in meta] == usual
    assert [step.storage for step in meta] == [step.storage for step in record(attention, X)]
    with FakeTensorMode(allow_non_fake_inputs=True) as pretending:
        fake = pretending.from_tensor(X)
        assert [step.op for step in record(attention, fake)] == usual
    if torch.cuda.is_available():
        on_gpu = record(module().to("cuda"), X.to("cuda"))
        assert [step.op for step in on_gpu] == usual and on_gpu.output.is_cuda


def test_the_code_of_others_is_recorded():
    attention = nn.MultiheadAttention(11, 1, batch_first=True)
    recording = record(attention, X, X, X)
    assert [step.op for step in recording if step.part] == ["multi_head_attention_forward"] * 2
    assert recording[1].inputs[:3] == (0, 0, 0) or "query" in str(recording[0].inputs)

    def einsum(x):
        scores = torch.einsum("bqm,bkm->bqk", x, x)
        return torch.einsum("bqk,bkm->bqm", scores.softmax(dim=-1), x)

    assert [step.op for step in record(einsum, X)] == ["einsum", "softmax", "einsum"]
    fused = record(torch.nn.functional.scaled_dot_product_attention, X, X, X)
    assert [step.op for step in fused] == ["scaled_dot_product_attention"]


def test_recordings_may_be_nested():
    inner = []

    def outer(x):
        y = x * 2
        inner.append(record(attention, y))
        return inner[0].output + 1

    attention = module()
    recording = record(outer, X)
    alone = [step.op for step in record(attention, X)]
    assert [step.op for step in inner[0]] == alone
    assert [step.op for step in recording] == ["mul", *alone, "add"]
    assert [step.where for step in recording][1:-1] == [step.where for step in inner[0]]


def test_an_error_brings_the_steps_up_to_its_line():
    def fails(x):
        y = x * 2
        return y.view(7)

    with pytest.raises(RuntimeError, match="shape '\\[7\\]' is invalid") as caught:
        record(fails, X)
    recording = caught.value.recording
    assert [step.name for step in recording] == ["y"] and recording.output is None
    assert recording.error.startswith("RuntimeError: shape '[7]' is invalid")
    assert caught.value.__notes__ == ["Recorded up to here (steps: 1), in this error's attribute `recording`."]
    assert "fails" in [entry.name for entry in caught.traceback]


def test_an_interruption_passes_through():
    def stops(x):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        record(stops, X)
    assert _get_current_function_mode_stack() == []
