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


@pytest.mark.slow
@pytest.mark.parametrize("make", SUBJECTS, ids=lambda make: make.__name__)
def test_a_module_is_as_it_was(make):
    check_left_alone(lived_in(make), some_x())


# --- circumstances ---


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
