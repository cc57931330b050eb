"""Every form of attention on sizes that all differ, its weights as arrays, and the one comparison the tests use."""

from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor, nn

from course_lib.attention import (
    GroupedQueryAttention,
    MultiHeadAttention,
    MultiHeadAttentionWrapper,
    MultiQueryAttention,
    SingleHeadAttention,
)

from .loop_reference import loop_module, to_array

BATCH, TOKENS, D_IN = 2, 9, 11
HEADS, D_OUT = 6, 30  # head_dim 5
D_QK, D_V = 24, 42  # head_dim 4, value width 7


class Form(NamedTuple):
    """A form of attention: how it is built, and what the reference must know of it."""

    build: Callable[..., nn.Module]
    num_heads: int = HEADS
    num_kv_heads: int = HEADS
    has_kernel: bool = True
    has_out_proj: bool = True


FORMS = {
    "single head": Form(lambda **o: SingleHeadAttention(D_IN, 13, **o), 1, 1, has_kernel=False, has_out_proj=False),
    "wrapper": Form(lambda **o: MultiHeadAttentionWrapper(D_IN, D_OUT, HEADS, **o), has_kernel=False),
    "split": Form(lambda **o: MultiHeadAttention(D_IN, D_OUT, HEADS, **o)),
    "split, own widths": Form(lambda **o: MultiHeadAttention(D_IN, D_OUT, HEADS, d_qk=D_QK, d_v=D_V, **o)),
    "multi-query": Form(lambda **o: MultiQueryAttention(D_IN, D_OUT, HEADS, **o), num_kv_heads=1),
    "multi-query, own widths": Form(
        lambda **o: MultiQueryAttention(D_IN, D_OUT, HEADS, d_qk=D_QK, d_v=D_V, **o), num_kv_heads=1
    ),
    "grouped 2": Form(lambda **o: GroupedQueryAttention(D_IN, D_OUT, HEADS, 2, **o), num_kv_heads=2),
    "grouped 3, own widths": Form(
        lambda **o: GroupedQueryAttention(D_IN, D_OUT, HEADS, 3, d_qk=D_QK, d_v=D_V, **o), num_kv_heads=3
    ),
    "grouped 6": Form(lambda **o: GroupedQueryAttention(D_IN, D_OUT, HEADS, 6, **o)),
    "grouped 1": Form(lambda **o: GroupedQueryAttention(D_IN, D_OUT, HEADS, 1, **o), num_kv_heads=1),
}
WITH_KERNEL = [name for name, form in FORMS.items() if form.has_kernel]
ENDS_OF_GROUPED = ("grouped 6", "grouped 1")  # the same code as "grouped 2": tested for what they equal
KERNELS = [(name, "explicit") for name in FORMS if name not in ENDS_OF_GROUPED]
KERNELS += [(name, "fused") for name in WITH_KERNEL if name not in ENDS_OF_GROUPED]
FAMILY = [(name, kernel) for name, kernel in KERNELS if name in WITH_KERNEL]  # those that take a context and a cache


def build(name: str, *, dtype: torch.dtype = torch.float64, boost: float = 3.0, **options) -> nn.Module:
    """A form in eval mode; queries and keys are scaled up, so that attention is neither flat nor one-hot."""
    module = FORMS[name].build(**options).to(dtype).eval()
    with torch.no_grad():
        for parameter_name, parameter in module.named_parameters():
            if "q_proj" in parameter_name or "k_proj" in parameter_name:
                parameter.mul_(boost)
    return module


def build_kernel(name: str, kernel: str, **options) -> nn.Module:
    """As `build`; the kernel is named only to the forms that know the word."""
    return build(name, **({"kernel": kernel} if FORMS[name].has_kernel else {}), **options)


def draw_x(*, batch: int = BATCH, tokens: int = TOKENS, dtype: torch.dtype = torch.float64) -> Tensor:
    """(batch, token, D_IN)."""
    return torch.randn(batch, tokens, D_IN, dtype=dtype)


def arrays(module: nn.Module) -> dict:
    """The projections as arrays, those of a wrapper's heads stacked: all the reference gets to see of a module."""
    state = {name: to_array(tensor) for name, tensor in module.state_dict().items()}
    heads = sorted({int(name.split(".")[1]) for name in state if name.startswith("heads.")})
    if not heads:
        return state
    stacked = {name: array for name, array in state.items() if not name.startswith("heads.")}
    for name in (name.removeprefix("heads.0.") for name in state if name.startswith("heads.0.")):
        stacked[name] = to_array(torch.cat([torch.from_numpy(state[f"heads.{head}.{name}"]) for head in heads]))
    return stacked


def reference(
    module: nn.Module,
    name: str,
    x: Tensor,
    *,
    causal: bool = True,
    keep: Tensor | None = None,
    context: Tensor | None = None,
):
    """Output and weights of the loop reference for the module's weights, as float64 tensors."""
    form = FORMS[name]
    mask, source = (None if each is None else to_array(each) for each in (keep, context))
    results = loop_module(to_array(x), arrays(module), form.num_heads, form.num_kv_heads, causal, mask, source)
    return tuple(torch.from_numpy(result) for result in results)


def assert_same(actual: Tensor, expected: Tensor, tolerance: float = 1e-12) -> None:
    """The comparison of all tests: every element, absolute or relative, whichever allows more."""
    torch.testing.assert_close(actual.double(), expected.double(), rtol=tolerance, atol=tolerance)
