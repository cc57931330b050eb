"""Tensors in nested arguments are found in order and replaced alone; their layout says where each element lies."""

import itertools
import random
from collections import OrderedDict, namedtuple

import pytest
import torch
from torch import Tensor

from course_lib.tracing import layout_of, map_instances, storage_of, tensors_in

Pair = namedtuple("Pair", "first second")
BASE = torch.arange(2.0 * 3 * 5).view(2, 3, 5)
VIEWS = {
    "itself": BASE,
    "transposed": BASE.transpose(0, 2),
    "sliced": BASE[:, 1:, ::2],
    "selected": BASE[1, 2],
    "expanded": BASE[:, :1].expand(2, 4, 5),
    "one element": BASE[0, 0, 0],
}


class OwnList(list):
    """A list of a class that PyTorch does not know."""


class OwnDict(dict):
    """Likewise a dict."""


def drawn(rng, depth=0):
    """(a random nest, its tensors in order)."""
    kind = rng.choice(["tensor", "number"] if depth == 3 else ["tensor", "number", "tuple", "list", "dict", "slice"])
    if kind == "tensor":
        tensor = torch.zeros(())
        return tensor, [tensor]
    if kind == "number":
        return rng.choice([None, 3, "text", torch.float32, torch.Size([2, 3])]), []
    parts = [drawn(rng, depth + 1) for _ in range(3 if kind == "slice" else rng.randrange(4))]
    values, found = [value for value, _ in parts], [tensor for _, tensors in parts for tensor in tensors]
    if kind == "slice":
        return slice(*values), found
    if kind == "dict":
        return rng.choice([dict, OrderedDict, OwnDict])(zip("abc", values, strict=False)), found
    return {"tuple": tuple, "list": rng.choice([list, OwnList])}[kind](values), found


def test_tensors_are_found_in_order_in_every_nest():
    rng = random.Random(0)
    for _ in range(300):
        nest, expected = drawn(rng)
        found = list(tensors_in(nest))
        assert [id(tensor) for tensor in found] == [id(tensor) for tensor in expected], nest


def test_tensors_in_named_tuples_and_results_of_torch():
    x = torch.rand(2, 3)
    assert [tuple(tensor.shape) for tensor in tensors_in(Pair(x, [x.T]))] == [(2, 3), (3, 2)]
    assert [tensor.dtype for tensor in tensors_in(x.max(dim=1))] == [torch.float32, torch.int64]


def test_tensors_are_replaced_and_the_rest_stays():
    x, y, key = torch.rand(2), torch.rand(3), object()
    nest = ((x, [y, key]), {"a": x, "b": (1, None)})
    (first, second), options = map_instances(Tensor, len, nest)
    assert (first, second, options) == (2, [3, key], {"a": 2, "b": (1, None)}) and second[1] is key
    assert nest[0][1][0] is y


@pytest.mark.parametrize("name", VIEWS)
def test_the_elements_are_where_the_layout_says(name):
    view = VIEWS[name]
    layout, memory = layout_of(view), BASE.flatten()
    assert layout.shape == tuple(view.shape) and layout.dtype == torch.float32
    for index in itertools.product(*map(range, layout.shape)):
        at = layout.offset + sum(i * step for i, step in zip(index, layout.stride, strict=True))
        assert memory[at] == view[index]


def test_views_share_a_storage_and_copies_have_their_own():
    assert {layout_of(view).storage for view in VIEWS.values()} == {storage_of(BASE)}
    assert storage_of(BASE.clone()) != storage_of(BASE)
    empty = torch.empty(0), torch.empty(0)  # both at address 0
    assert storage_of(empty[0]) != storage_of(empty[1])


@pytest.mark.filterwarnings("ignore:The PyTorch API of nested tensors")
def test_tensors_without_strides_have_a_layout_all_the_same():
    sparse = BASE.to_sparse()
    assert layout_of(sparse).shape == (2, 3, 5) and storage_of(sparse) == storage_of(sparse)
    nested = torch.nested.nested_tensor([torch.rand(2), torch.rand(3)])
    assert layout_of(nested).shape == ()
