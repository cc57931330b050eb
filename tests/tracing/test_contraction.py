"""Each product with a sum is what its indices say: the sum over c of left[e, c] * right[e, c]."""

import pytest
import torch
import torch.nn.functional as F

from course_lib.tracing import contractions, outer_products, trace_run

GENERATOR = torch.Generator().manual_seed(0)


def rand(*shape):
    return torch.rand(*shape, dtype=torch.float64, generator=GENERATOR)


WEIGHT, BIAS, VECTOR, KERNEL = rand(5, 7), rand(5), rand(7), rand(5, 7, 1)
CODE = {
    "mm": lambda x: x[0] @ WEIGHT.T,
    "bmm": lambda x: x @ x.mT,
    "addmm": lambda x: F.linear(x[0], WEIGHT, BIAS),
    "baddbmm": lambda x: torch.baddbmm(rand(2, 3, 3), x, x.mT),
    "mv": lambda x: x[0] @ VECTOR,
    "addmv": lambda x: torch.addmv(rand(3), x[0], VECTOR),
    "dot": lambda x: x[0, 0] @ VECTOR,
    "einsum": lambda x: torch.einsum("bqd,bkd->bqk", x, x),
    "four axes": lambda x: x.view(2, 3, 1, 7).transpose(1, 2) @ x.view(2, 3, 1, 7).permute(0, 2, 3, 1),
    "convolution": lambda x: F.conv1d(x.mT, KERNEL),
    "sum of products": lambda x: (x[:, :, None] * x[:, None]).sum(-1),
    "sum over two axes": lambda x: (x[:, :, None] * x[:, None]).sum((0, 3)),
    "sum over all": lambda x: (x * x).sum(),
}


def computed(contraction):
    left, right = (value.tensor.flatten()[index] for value, index in contraction.sides())
    return (left * right).sum(1).view(contraction.out.tensor.shape)


@pytest.mark.parametrize("name", CODE)
def test_the_indices_give_the_result(name):
    trace, output = trace_run(CODE[name], rand(2, 3, 7))
    (found,) = contractions(trace)
    bias = found.operation.args[0].tensor if name in ("addmm", "baddbmm", "addmv") else 0.0
    torch.testing.assert_close(computed(found) + bias, found.out.tensor)
    assert found.size == found.lefts.shape[1] == found.rights.shape[1]
    multiplies, left, right = found.factors
    assert (multiplies.args[left], multiplies.args[right]) == (found.left, found.right)
    assert found.out.tensor.numel() == output.numel()


@pytest.mark.parametrize(
    "code",
    [
        lambda x: F.conv1d(x.mT, rand(5, 7, 2)),  # two tokens at a time
        lambda x: F.conv1d(x.mT, rand(7, 1, 1), groups=7),
        lambda x: F.conv1d(x.mT, KERNEL, stride=2),
        lambda x: x.sum(-1),
        lambda x: (x + x).sum(-1),
        lambda x: (x * 2.0).sum(-1),
    ],
)
def test_what_is_no_product_of_two_tensors_per_element_is_none(code):
    trace, _ = trace_run(code, rand(2, 3, 7))
    assert contractions(trace) == []


def test_a_plain_product_is_a_sum_of_one_term():
    trace, output = trace_run(lambda x: x * x[:, :1], rand(2, 3, 7))
    (found,) = outer_products(trace)
    assert found.size == 1
    torch.testing.assert_close(computed(found), output)
    assert outer_products(trace_run(lambda x: x * 2, rand(2, 3, 7))[0]) == []
