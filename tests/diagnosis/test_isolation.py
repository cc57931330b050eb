"""The doctor leaves the code, its input and the process as they were, whatever the code does."""

import copy
import math
import random
import warnings
from collections import OrderedDict

import numpy as np
import pytest
import torch
from torch import nn

from course_lib.attention import MultiHeadAttention
from course_lib.diagnosis import diagnose

pytestmark = pytest.mark.one_in(3)

BATCH, TOKENS, D_IN, HEADS, HEAD_DIM = 2, 5, 11, 3, 7


def some_x(dtype=torch.float32):
    return torch.randn(BATCH, TOKENS, D_IN, generator=torch.Generator().manual_seed(0)).to(dtype)


def later(x):
    """(query, key), True = must not attend."""
    return torch.ones(x.shape[1], x.shape[1], dtype=torch.bool, device=x.device).triu(1)


def attend(queries, keys, values):
    scores = queries @ keys.mT / math.sqrt(queries.shape[-1])
    return scores.masked_fill(later(queries), -torch.inf).softmax(dim=-1) @ values


class Attention(nn.Module):
    """Right attention of one head, for others to inherit."""

    def __init__(self):
        super().__init__()
        self.to_q, self.to_k, self.to_v = (nn.Linear(D_IN, HEAD_DIM) for _ in range(3))
        self.drop = nn.Dropout(0.4)

    def forward(self, x):
        return self.drop(attend(self.to_q(x), self.to_k(x), self.to_v(x)))


class WritesIntoItsInput(Attention):
    def forward(self, x):
        x -= x.mean(dim=-1, keepdim=True)
        return super().forward(x)


class KeepsState(Attention):
    def __init__(self):
        super().__init__()
        self.register_buffer("running", torch.zeros(1))
        self.calls, self.seen, self.tensor = 0, [], torch.zeros(1)

    def forward(self, x):
        self.calls += 1
        self.seen.append(tuple(x.shape))
        self.running.add_(1)
        self.tensor += 1
        self.last = x
        return super().forward(x)


class WritesIntoItsWeights(Attention):
    def forward(self, x):
        with torch.no_grad():
            self.to_v.weight.clamp_(-0.1, 0.1)
        self.to_k.weight.requires_grad_(False)
        return super().forward(x)


class SetsItsOwnMode(Attention):
    def forward(self, x):
        self.train()
        return super().forward(x)


class KeepsItsWeightsForAPlot(Attention):
    def forward(self, x):
        queries, keys, values = self.to_q(x), self.to_k(x), self.to_v(x)
        scores = (queries @ keys.mT / math.sqrt(HEAD_DIM)).masked_fill(later(x), -torch.inf)
        self.weights = scores.softmax(dim=-1)
        return self.weights @ values


class Raises(Attention):
    def forward(self, x):
        torch.manual_seed(3)
        raise RuntimeError("broken")


class SeedsTheStream(Attention):
    def forward(self, x):
        torch.manual_seed(4)
        return super().forward(x) + 0 * torch.rand(1)


def a_course_module():
    return MultiHeadAttention(D_IN, HEADS * HEAD_DIM, HEADS, dropout=0.3, bias=True)


def a_library_module():
    return nn.MultiheadAttention(D_IN, 1, dropout=0.2, batch_first=True)


def with_a_batch_norm():
    class Normed(Attention):
        def __init__(self):
            super().__init__()
            self.norm = nn.BatchNorm1d(D_IN)

        def forward(self, x):
            return super().forward(self.norm(x.transpose(1, 2)).transpose(1, 2))

    return Normed()


SUBJECTS = (
    a_course_module,
    a_library_module,
    with_a_batch_norm,
    Attention,
    WritesIntoItsInput,
    KeepsState,
    WritesIntoItsWeights,
    SetsItsOwnMode,
    KeepsItsWeightsForAPlot,
    Raises,
    SeedsTheStream,
)


def lived_in(make):
    """A module in the middle of its training: some parts evaluated, one weight frozen, grads and hooks there."""
    module = make().train()
    for number, parameter in enumerate(module.parameters()):
        parameter.grad = torch.full_like(parameter, float(number))
    first = next(module.parameters())
    first.requires_grad_(False)
    first.grad = None
    next(module.children()).eval()
    module.register_forward_hook(lambda module, args, output: None)
    module.register_forward_pre_hook(lambda module, args: None)
    module.register_full_backward_hook(lambda module, got, given: None)
    first.register_hook(lambda grad: grad) if first.requires_grad else None
    return module


def state_of(module):
    """All that a module is, the tensors copied."""
    tensors = {**dict(module.named_parameters()), **dict(module.named_buffers())}
    return {
        "numbers": {name: tensor.detach().clone() for name, tensor in tensors.items()},
        "grads": {name: copy.deepcopy(tensor.grad) for name, tensor in tensors.items()},
        "identities": {name: (id(tensor), tensor.data_ptr(), tensor._version) for name, tensor in tensors.items()},
        "kinds": {name: (tensor.dtype, tensor.device, tensor.requires_grad) for name, tensor in tensors.items()},
        "modes": {name: part.training for name, part in module.named_modules()},
        "hooks": [
            list(hooks.items())
            for part in module.modules()
            for hooks in (part._forward_hooks, part._forward_pre_hooks, part._backward_hooks)
        ],
        "attributes": {
            name: {
                key: copy.deepcopy(value)
                for key, value in vars(part).items()
                if not key.startswith("_") and not isinstance(value, nn.Module) and key != "weights"
            }
            for name, part in module.named_modules()
        },
    }


def state_of_the_process():
    backends = torch.backends
    return {
        "stream": torch.get_rng_state(),
        "numpy": np.random.get_state()[1].copy(),
        "random": random.getstate(),
        "threads": torch.get_num_threads(),
        "grad": torch.is_grad_enabled(),
        "inference": torch.is_inference_mode_enabled(),
        "dtype": torch.get_default_dtype(),
        "autocast": torch.is_autocast_enabled("cpu"),
        "deterministic": torch.are_deterministic_algorithms_enabled(),
        "anomaly": torch.is_anomaly_enabled(),
        "kernels": (backends.cuda.flash_sdp_enabled(), backends.cuda.math_sdp_enabled()),
        "efficient": backends.cuda.mem_efficient_sdp_enabled(),
        "short cuts": (backends.opt_einsum.enabled, backends.mha.get_fastpath_enabled()),
        "warnings": list(warnings.filters),
    }


def check_same(now, before):
    assert now.keys() == before.keys()
    for name, was in before.items():
        if isinstance(was, dict):
            check_same(now[name], was)
        elif isinstance(was, torch.Tensor):
            assert torch.equal(now[name], was), name
        elif isinstance(was, np.ndarray):
            assert (now[name] == was).all(), name
        else:
            assert now[name] == was, name


def check_left_alone(code, x, **options):
    """Diagnose and compare everything with what it was; returns the report."""
    before = state_of(code) if isinstance(code, nn.Module) else {}
    process, numbers, version = state_of_the_process(), x.detach().clone(), x._version
    report = diagnose(code, x, **options)
    report._repr_html_()
    check_same(state_of(code) if isinstance(code, nn.Module) else {}, before)
    check_same(state_of_the_process(), process)
    assert torch.equal(x, numbers) and x._version == version and (not x.is_leaf or x.grad is None)
    return report


@pytest.mark.parametrize("make", SUBJECTS, ids=lambda make: make.__name__)
def test_a_module_is_as_it_was(make):
    check_left_alone(lived_in(make), some_x())


def test_what_these_subjects_do_is_seen_all_the_same():
    assert diagnose(lived_in(a_course_module), some_x(), num_heads=HEADS).ok
    assert diagnose(lived_in(WritesIntoItsInput), some_x()).mistakes[0] == "input-modified"
    assert diagnose(lived_in(Raises), some_x()).mistakes == (None,)
    assert diagnose(lived_in(Attention), some_x()).ok


def test_a_module_that_was_run_before_can_be_examined():
    module = KeepsItsWeightsForAPlot()
    module(some_x()).sum().backward()
    kept, grads = module.weights, {name: one.grad.clone() for name, one in module.named_parameters()}
    report = check_left_alone(module, some_x())
    assert report.ok, report
    assert module.weights is kept and kept.grad_fn is not None
    assert all(torch.equal(one.grad, grads[name]) for name, one in module.named_parameters())


def test_the_module_can_be_trained_on():
    module, x = a_course_module(), some_x()
    output = module.eval()(x)
    diagnose(module, x)
    output.square().sum().backward()  # the graph's tensors were not written to
    assert all(parameter.grad is not None for parameter in module.parameters())


@pytest.mark.parametrize("how", ["leaf", "in a graph", "view", "expanded", "transposed", "inference"])
def test_an_input_is_as_it_was(how):
    x = some_x()
    if how == "leaf":
        x.requires_grad_(True)
    elif how == "in a graph":
        x = x.requires_grad_(True) * 1.0
    elif how == "view":
        x = torch.cat([x, x], dim=1)[:, :TOKENS]
    elif how == "expanded":
        x = x[:1].expand(BATCH, -1, -1)
    elif how == "transposed":
        x = x.transpose(0, 1).contiguous().transpose(0, 1)
    else:
        with torch.inference_mode():
            x = x.clone()
        numbers = x.clone()
        assert diagnose(WritesIntoItsInput().eval(), x).mistakes[0] == "input-modified"
        assert torch.equal(x, numbers)
        return
    strides, requires = x.stride(), x.requires_grad
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        report = check_left_alone(WritesIntoItsInput(), x)
    assert report.mistakes[0] == "input-modified"
    assert (x.stride(), x.requires_grad) == (strides, requires)


def test_keep_is_as_it_was():
    keep = later(some_x()).logical_not()
    before = keep.clone()
    assert diagnose(Attention(), some_x(), keep=keep).ok
    assert torch.equal(keep, before) and keep._version == 0


# --- functions ---


def a_function(tensors):
    def attention(x):
        queries, keys, values = (x @ tensor.to(x.dtype) for tensor in tensors)
        return attend(queries, keys, values)

    return attention


def test_the_tensors_of_a_function_are_as_they_were():
    tensors = [torch.randn(D_IN, HEAD_DIM, requires_grad=True) for _ in range(3)]
    before = [tensor.detach().clone() for tensor in tensors]
    report = check_left_alone(a_function(tensors), some_x())
    assert report.ok, report
    for tensor, was in zip(tensors, before, strict=True):
        assert torch.equal(tensor, was) and tensor.grad is None and tensor.requires_grad and tensor._version == 0


def test_a_function_that_keeps_count_in_a_tensor_gets_it_back():
    tensors, count = [torch.randn(D_IN, HEAD_DIM) for _ in range(3)], torch.zeros(3)

    def attention(x):
        count.add_(1)
        return a_function(tensors)(x)

    check_left_alone(attention, some_x())
    assert torch.equal(count, torch.zeros(3))


def test_a_module_inside_a_function_is_as_it_was():
    module = lived_in(a_course_module).eval()
    before = state_of(module)
    check_left_alone(lambda x: module(x), some_x())
    check_left_alone(module.forward, some_x())
    check_same(state_of(module), before)


# --- circumstances ---


@pytest.mark.parametrize(
    "context", [torch.no_grad, torch.inference_mode, torch.enable_grad], ids=lambda one: one.__name__
)
def test_the_circumstances_are_as_they_were_and_change_nothing(context):
    module, broken, x = a_course_module(), WritesIntoItsInput(), some_x()
    with context():
        assert check_left_alone(module, x).ok
        assert check_left_alone(broken, x).mistakes[0] == "input-modified"


def test_autocast_and_another_default_dtype_change_nothing():
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert check_left_alone(a_course_module(), some_x()).ok
    torch.set_default_dtype(torch.float64)
    try:
        assert check_left_alone(a_course_module(), some_x()).ok
    finally:
        torch.set_default_dtype(torch.float32)


@pytest.mark.parametrize("threads", [1, 2])
def test_the_number_of_threads_is_as_it_was(threads):
    usual = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        diagnose(Attention(), some_x())
        diagnose(Raises(), some_x())
        with pytest.raises(TypeError):
            diagnose(Attention(), some_x(), keep=3)
        assert torch.get_num_threads() == threads
    finally:
        torch.set_num_threads(usual)


def test_two_looks_say_the_same():
    module = KeepsState()
    torch.manual_seed(1)
    first = diagnose(module, some_x())
    torch.manual_seed(2)
    assert diagnose(module, some_x()).as_dict() == first.as_dict()


def test_it_says_nothing_by_itself(capsys):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        diagnose(a_course_module(), some_x())
        diagnose(WritesIntoItsInput(), some_x())
    assert capsys.readouterr() == ("", "")


class Compiled(Attention):
    """Its author compiles the function that adds the residual, which takes minutes for all the doctor's runs."""

    def __init__(self, backend):
        super().__init__()
        self.project = nn.Linear(HEAD_DIM, D_IN)
        self.add = torch.compile(lambda x, y: x + y, backend=backend)

    def forward(self, x):
        return self.add(x, self.project(super().forward(x)))


class Counting(nn.Module):
    """Fills a buffer with the positions, of which PyTorch warns where it is too short, and rounds in float32."""

    def __init__(self):
        super().__init__()
        self.buffer, self.attend = torch.ones(3), MultiHeadAttention(D_IN, 21, HEADS)

    def forward(self, x):
        positions = self.buffer[:3].clone()
        torch.arange(x.shape[1], out=positions)
        warnings.warn("of the code", stacklevel=1)
        return self.attend(x.float()) + positions.sum()


def test_only_what_the_code_warns_of_is_shown():
    with warnings.catch_warnings(record=True) as shown:
        warnings.simplefilter("always")
        diagnose(Counting(), some_x())
    assert {str(one.message) for one in shown if "course_lib" in one.filename} == set()
    assert "of the code" in {str(one.message) for one in shown}


def test_nothing_is_compiled():
    compiled = []

    def backend(graph, _):
        compiled.append(graph)
        return graph.forward

    assert diagnose(Compiled(backend), some_x()).ok and compiled == []


class Patched(nn.Module):
    """Replaces `forward` of a layer inside it by a function that calls the original one."""

    def __init__(self):
        super().__init__()
        self.attend = nn.MultiheadAttention(12, HEADS, batch_first=True)
        usual = self.attend.forward
        self.attend.forward = lambda *args, **options: usual(*args, **options | {"need_weights": True})

    def forward(self, x):
        return self.attend(x, x, x)[0]


def test_a_forward_that_was_replaced_runs_on_the_copy():
    assert diagnose(Patched(), torch.randn(2, 5, 12), causal=False).ok


class CopiedWithoutItsCache(Attention):
    def __init__(self):
        super().__init__()
        self.kept = OrderedDict()

    def __getstate__(self):
        return self.__dict__ | {"kept": {}}

    def forward(self, x):
        if 3 in self.kept:
            self.kept.move_to_end(3)
        self.kept[3] = 4
        return super().forward(x)


def test_what_only_a_copy_raises_is_no_mistake():
    assert diagnose(CopiedWithoutItsCache(), some_x()).ok


class Far(nn.Module):
    def forward(self, q, k, v):
        seen = torch.ones(q.shape[1], k.shape[1], device=q.device).tril()
        return (q @ k.mT * 0.5).masked_fill(seen == 0, -1e9).softmax(-1) @ v


class Scripted(Attention):
    """What computes the weights is compiled with TorchScript."""

    def __init__(self):
        super().__init__()
        self.attend = torch.jit.script(Far())

    def forward(self, x):
        return self.attend(self.to_q(x), self.to_k(x), self.to_v(x))


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_nothing_of_torchscript_is_shown():
    report = diagnose(Scripted(), some_x(), scale=0.5)
    assert report.ok and all("TorchScript" not in one and "not checked" not in one for one in report.remarks), report
    assert any("without overflow" in one and "\n" not in one for one in report.remarks)
