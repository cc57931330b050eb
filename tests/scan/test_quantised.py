"""Quantised layers are examined as the plain layers that they stand for, which is said, or are refused by name."""

import warnings

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from course_lib.diagnosis import diagnose
from course_lib.scan import scan

X = torch.randn(2, 7, 12, generator=torch.Generator().manual_seed(3))


class Attention(nn.Module):
    def __init__(self, causal=True):
        super().__init__()
        self.qkv, self.out, self.causal = nn.Linear(12, 36), nn.Linear(12, 12), causal

    def forward(self, x):
        queries, keys, values = self.qkv(x).unflatten(-1, (3, 3, 4)).permute(2, 0, 3, 1, 4)
        hidden = torch.ones(x.shape[1], x.shape[1], dtype=torch.bool, device=x.device).triu(1 if self.causal else 99)
        scores = (queries @ keys.mT / 2).masked_fill(hidden, -torch.inf)
        return self.out((scores.softmax(-1) @ values).transpose(1, 2).flatten(2))


class LinearOfBytes(nn.Module):
    """A stranger's layer: weights of 8 bits, and inputs rounded to 8 bits with one scale for all of them."""

    def __init__(self, linear):
        super().__init__()
        scale = linear.weight.detach().abs().amax(1) / 127
        self.register_buffer("weight", (linear.weight.detach() / scale[:, None]).round().to(torch.int8))
        self.register_buffer("scale", scale)
        self.bias = linear.bias

    def forward(self, x):
        if x.dtype != torch.float32:
            raise RuntimeError("this kernel takes float32")
        step = x.abs().max().clamp(min=1e-9) / 127
        return F.linear((x / step).round(), self.weight.float()) * step * self.scale + self.bias


class LinearOfGPU(LinearOfBytes):
    """Layers whose kernel is only there on a GPU."""

    def forward(self, x):
        raise NotImplementedError("no kernel for the CPU")


class TaggedBytes(torch.Tensor):
    """Weights with a type of their own, as those of torchao."""

    @staticmethod
    def __new__(cls, weight):
        return torch.Tensor._make_subclass(cls, weight.detach())

    def __deepcopy__(self, memo):
        return nn.Parameter(TaggedBytes(self.dequantize().clone()), requires_grad=False)

    def dequantize(self):
        return self.as_subclass(torch.Tensor)


def replaced(model, kind):
    model.qkv, model.out = kind(model.qkv), kind(model.out)
    return model


def tagged(linear):
    linear.weight = nn.Parameter(TaggedBytes(linear.weight), requires_grad=False)
    return linear


def dynamic(model):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return torch.ao.quantization.quantize_dynamic(model, {nn.Linear}, dtype=torch.qint8)


WAYS = {
    "DynamicQuantizedLinear": dynamic,
    "LinearOfBytes": lambda model: replaced(model, LinearOfBytes),
    "TaggedBytes": lambda model: replaced(model, tagged),
}


@pytest.mark.one_in(6)
@pytest.mark.parametrize("kind", WAYS)
@pytest.mark.parametrize("causal", [True, False])
def test_quantised_layers_are_examined_and_named(kind, causal):
    with torch.random.fork_rng():
        torch.manual_seed(0)
        model = WAYS[kind](Attention(causal))
    doctor, scanned = diagnose(model, X, num_heads=3), scan(model, X)
    assert doctor.mistakes == (() if causal else ("no-causal-mask",)), doctor
    assert {finding.mistake for finding in scanned.findings} == (set() if causal else {"no-causal-mask"}), scanned
    said = f"quantised layers ({kind}: qkv, out) were run with the plain weights that they stand for"
    assert any(said in remark for remark in doctor.remarks)
    assert said in str(scanned) and said in scanned._repr_html_() and said in scanned.as_dict()["note"]


def test_layers_that_do_not_run_here_are_refused_by_name():
    model = replaced(Attention(), LinearOfGPU)
    said = "its layer qkv (LinearOfGPU) is quantised and does not run here (NotImplementedError: no kernel for the CPU)"
    doctor, scanned = diagnose(model, X), scan(model, X)
    assert (doctor.exit_status, scanned.exit_status) == (2, 2)
    assert said in str(doctor) and "give the model before it was quantised" in str(doctor)
    assert said in scanned.verdict and "give the model before it was quantised" in scanned.verdict


def test_a_bool_mask_in_a_module_is_no_quantised_weight():
    model = Attention()
    model.register_buffer("shown", torch.ones(7, 7, dtype=torch.bool).tril())
    assert scan(model, X, paths=["one pass"]).note == ""
