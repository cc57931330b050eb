"""What a recording says of each step is what the tensors themselves say."""

import dataclasses
import operator

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import nn

from course_lib.attention import (
    GroupedQueryAttention,
    MultiHeadAttention,
    MultiHeadAttentionWrapper,
    MultiQueryAttention,
    SingleHeadAttention,
)
from course_lib.recorder import name, record

X = torch.randn(2, 5, 11, generator=torch.Generator().manual_seed(0))
FORMS = {
    "single head": SingleHeadAttention(11, 7),
    "wrapper": MultiHeadAttentionWrapper(11, 21, 3),
    "weight split": MultiHeadAttention(11, 21, 3, dropout=0.2),
    "fused": MultiHeadAttention(11, 21, 3, kernel="fused"),
    "multi-query": MultiQueryAttention(11, 21, 3, bias=True),
    "grouped": GroupedQueryAttention(11, 42, 6, num_kv_heads=3, causal=False),
}


@pytest.mark.parametrize("form", FORMS)
def test_each_step_is_laid_out_as_its_tensor(form):
    recording = record(FORMS[form], X)
    assert len(recording) > 10
    for number, step in enumerate(recording):
        assert step.number == number
        assert step.shape == tuple(step.tensor.shape) and step.stride == step.tensor.stride()
        assert step.offset == step.tensor.storage_offset() and step.dtype == step.tensor.dtype
    for one in recording:
        for other in recording:
            shared = one.tensor.untyped_storage().data_ptr() == other.tensor.untyped_storage().data_ptr()
            assert (one.storage == other.storage) == shared


@pytest.mark.parametrize("form", FORMS)
def test_the_output_is_that_of_the_module_alone(form):
    module = FORMS[form]
    torch.manual_seed(3)
    alone = module(X)
    torch.manual_seed(3)
    recording = record(module, X)
    assert torch.equal(recording.output, alone)
    assert recording.steps[-1].tensor is recording.output and recording.steps[-1].in_output
    grads = []
    for output in (alone, recording.output):
        module.zero_grad()
        output.square().sum().backward()
        grads.append([p.grad.clone() for p in module.parameters()])
    assert all(torch.equal(a, b) for a, b in zip(*grads, strict=True))


def changed_in_place(tensor):
    tensor.view(-1)[::2].add_(1)
    return tensor


PAIR = torch.arange(24.0).view(4, 6)
INDEX = torch.tensor([2, 0])
CALLS = {
    "view": lambda x: x.view(2, 12),
    "view of a transposed": lambda x: x.t().reshape(24),
    "reshape": lambda x: x.reshape(3, 8),
    "transpose": lambda x: x.transpose(0, 1),
    "permute": lambda x: x.permute(1, 0),
    "T": lambda x: x.T,
    "mT": lambda x: x.mT,
    "unsqueeze": lambda x: x.unsqueeze(1),
    "squeeze": lambda x: x.squeeze(),
    "expand": lambda x: x[:, None].expand(4, 3, 6),
    "slice": lambda x: x[1:, ::2],
    "index": lambda x: x[INDEX],
    "boolean index": lambda x: x[x > 3],
    "none": lambda x: x[None],
    "chunk": lambda x: x.chunk(2, dim=1)[1],
    "split": lambda x: x.split(2)[1],
    "unbind": lambda x: x.unbind(1)[2],
    "narrow": lambda x: x.narrow(1, 2, 3),
    "select": lambda x: x.select(0, 2),
    "contiguous where it is": lambda x: x.contiguous(),
    "contiguous where it isn't": lambda x: x.t().contiguous(),
    "clone": lambda x: x.clone(),
    "cat": lambda x: torch.cat([x, x]),
    "stack": lambda x: torch.stack([x, x]),
    "repeat": lambda x: x.repeat(2, 1),
    "repeat_interleave": lambda x: x.repeat_interleave(2, dim=0),
    "roll": lambda x: x.roll(1, 0),
    "flip": lambda x: x.flip(0),
    "index_select": lambda x: x.index_select(0, INDEX),
    "gather": lambda x: x.gather(1, INDEX.expand(4, 2)),
    "unflatten": lambda x: x.unflatten(1, (2, 3)),
    "flatten": lambda x: x.t().flatten(),
    "to double": lambda x: x.double(),
    "to itself": lambda x: x.float(),
    "detach": lambda x: x.detach(),
    "masked_fill": lambda x: x.masked_fill(x > 3, 0),
    "masked_fill_": lambda x: x.masked_fill_(x > 3, 0),
    "add_": lambda x: x.add_(1),
    "set an index": lambda x: _set(x),
    "out": lambda x: torch.add(x, 1, out=torch.empty_like(x)),
    "dropout in training": lambda x: F.dropout(x, 0.5, True),
    "dropout in eval": lambda x: F.dropout(x, 0.5, False),
    "dropout of nothing": lambda x: F.dropout(x, 0.0, True),
    "dropout in place by name": lambda x: F.dropout(x, 0.5, training=True, inplace=True),
    "dropout in place by position": lambda x: F.dropout(x, 0.5, True, True),
    "relu in place": lambda x: F.relu(x - 9, inplace=True),
    "softmax": lambda x: x.softmax(-1),
    "einsum": lambda x: torch.einsum("tm,sm->ts", x, x),
    "matmul": lambda x: x @ x.T,
    "where": lambda x: torch.where(x > 3, x, 0.0),
    "tril": lambda x: x.tril(),
}


def _set(x):
    x[1] = 0
    return x


@pytest.mark.parametrize("what", CALLS)
def test_the_effect_is_what_happened_to_memory(what):
    """Judged without the recorder: by addresses, by values before and after, by which values came out."""
    x = PAIR.clone()
    recording = record(CALLS[what], x)
    step = next(step for step in recording.steps[::-1] if step.effect != "compute" or step is recording.steps[-1])
    result = recording.output
    before = PAIR.clone()
    output_memory = result.untyped_storage().data_ptr()
    if what == "out":
        assert recording.steps[-1].effect == "in-place"
    elif what == "relu in place":
        assert recording.steps[-1].effect == "in-place" and output_memory == recording.steps[-2].tensor.data_ptr()
    elif not torch.equal(x, before):
        assert step.effect == "in-place"
    elif output_memory == x.untyped_storage().data_ptr():
        assert recording.steps[-1].effect == "view"
    else:
        same_numbers = set(result.flatten().tolist()) <= set(before.flatten().tolist())
        computing = {"masked_fill", "dropout in training", "where", "tril"}  # they may give nothing but old numbers
        wanted = "copy" if same_numbers and what not in computing else "compute"
        assert recording.steps[-1].effect == wanted


# The operators in place of Python's language reference, section 3.3.8; `@=` of a tensor makes a new one.
OPERATORS = ["iadd", "isub", "imul", "imatmul", "itruediv", "ifloordiv", "imod", "ipow"]
OPERATORS += ["ilshift", "irshift", "iand", "ixor", "ior"]


@pytest.mark.parametrize("name", OPERATORS)
def test_an_operator_in_place_is_called_so_if_it_wrote(name):
    ones = torch.ones(2, 2, dtype=torch.float32 if name == "itruediv" else torch.int64)
    recording = record(lambda x: getattr(operator, name)(x + 1, x + 2), ones)
    twos, _, result = recording.steps
    assert result.effect == ("in-place" if recording.output is twos.tensor else "compute")
    assert torch.equal(twos.value, ones + 1), "a step shows the numbers of its time"


@pytest.mark.parametrize("write", [F.relu, F.elu, F.dropout])
def test_what_is_written_over_by_name_shows_the_numbers_of_its_time(write):
    recording = record(lambda x: write(x - 9, inplace=True), torch.arange(18.0))
    assert torch.equal(recording.steps[0].value, torch.arange(18.0) - 9)
    assert torch.equal(recording.steps[1].value, recording.output) and recording.steps[1].effect == "in-place"


def test_inputs_and_users_are_numbers_of_steps_or_names():
    module = MultiHeadAttention(11, 21, 3, bias=True)
    recording = record(module, X)
    queries = recording["queries"]
    projected = recording[queries.inputs[0]]
    assert projected.inputs == ("x", "q_proj.weight", "q_proj.bias")
    assert projected.users == (queries.number,)
    assert recording[queries.users[0]].name == "queries_by_head"
    assert recording["output"].inputs[1:] == ("out_proj.weight", "out_proj.bias")


def test_a_result_that_is_never_read_is_found_with_its_line():
    """The two silent mistakes of a published class: a mask that goes nowhere, keys that nobody asks."""

    def forward(x, mask):
        queries, keys, values = x * 2, x * 3, x * 4  # noqa: F841 - the mistake
        scores = queries @ values.transpose(1, 2)
        scores.masked_fill(mask, -torch.inf)
        return scores.softmax(dim=-1) @ values

    recording = record(forward, X, torch.ones(5, 5).triu(1).bool())
    unused = recording.unused()
    assert [(step.name, step.op) for step in unused] == [("keys", "mul"), (None, "masked_fill")]
    first = forward.__code__.co_firstlineno
    assert [step.line for step in unused] == [first + 1, first + 3]
    assert all(step.where == f"test_steps.py:{step.line}" for step in unused)


class Keeps(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("buffer", torch.zeros(4, 6))
        self.kept = None

    def forward(self, x):
        self.kept = x + 1
        self.buffer.copy_(x)
        return x * 2


@dataclasses.dataclass
class Box:
    content: torch.Tensor | None = None
    layers: list = dataclasses.field(default_factory=list)


def fill(x, box):
    box.content = x + 1
    box.content[:, :3].mul_(2)
    box.layers.append(Box(x + 2))
    return x


def through_a_view(x):
    y = x + 1
    half = y[:, :3]
    half.mul_(0)
    return y.sum()


USED = {
    "a condition": lambda x: 1 if (x > 3).any() else 2,
    "a length": lambda x: range((x > 3).sum()),
    "a member": lambda x: 3 in (x + 1),
    "a text": lambda x: f"{x.sum():.1f}",
    "a view that was written": through_a_view,
    "a dict": lambda x: {"a": [x + 1]},
    "a dataclass": lambda x: Box(x + 1),
    "a changed argument": changed_in_place,
    "iteration": lambda x: [row + 1 for row in x],
}


OF_TENSORS = ("item", "tolist", "numpy", "is_nonzero")
OF_PYTHON = (bool, int, float, complex, repr, format, operator.index, np.asarray)
USED |= {name: lambda x, name=name: getattr((x > 3).sum(), name)() for name in OF_TENSORS}
USED |= {read.__name__: lambda x, read=read: read((x > 3).sum()) for read in OF_PYTHON}
USED |= {each.__name__: lambda x, each=each: each(x + 1, x) for each in (torch.equal, torch.allclose)}


@pytest.mark.parametrize("what", USED)
def test_what_is_used_in_another_way_is_not_called_unused(what):
    assert list(record(USED[what], PAIR.clone()).unused()) == []


def test_what_a_module_or_an_argument_keeps_is_used():
    assert list(record(Keeps(), PAIR).unused()) == []
    assert list(record(fill, PAIR, Box()).unused()) == []


def test_what_nobody_reads_is_unused_even_if_it_shares_memory():
    def forgets(x):
        x.view(2, 12)
        y = x.clone()
        y.add_(1)
        return x * 2

    assert [step.op for step in record(forgets, PAIR).unused()] == ["view", "add_"]


def test_printing_a_shape_is_no_step_and_no_use():
    recording = record(lambda x: (x.shape, x.size(0), x.dim(), x.device, x.stride(), len(x), x.requires_grad), PAIR)
    assert len(recording) == 0


def test_several_results_are_several_steps():
    recording = record(lambda x: x.chunk(3, dim=1), PAIR)
    assert [(step.op, step.part, step.offset) for step in recording] == [
        ("chunk", (0, 3), 0), ("chunk", (1, 3), 2), ("chunk", (2, 3), 4),
    ]  # fmt: skip
    values, index = record(lambda x: x.max(dim=1), PAIR).steps
    assert (values.dtype, index.dtype) == (torch.float32, torch.int64)


def test_a_submodule_is_called_by_its_way_from_the_recorded_one():
    names = [step.submodule for step in record(FORMS["wrapper"], X)]
    assert {"heads.0", "heads.2.q_proj", "", "out_proj"} <= set(names)
    alone = record(lambda x: FORMS["wrapper"](x), X)
    assert "MultiHeadAttentionWrapper.heads.1.k_proj" in {step.submodule for step in alone}
    shared = nn.Linear(11, 11)
    assert {step.submodule for step in record(nn.Sequential(shared, nn.ReLU(), shared), X)} == {"0", "1"}


def test_names_are_those_of_the_code_unless_a_label_is_given():
    def forward(x):
        name(x, "tokens")
        doubled = name(x * 2, "twice")
        one, other = doubled.chunk(2, dim=1)
        return one + other

    recording = record(forward, PAIR)
    assert [step.name for step in recording] == ["twice", "one", "other", None]
    assert recording[0].inputs == ("tokens",)
    assert name(PAIR, "outside") is PAIR
    last = record(lambda x: name(x + 1, "last"), PAIR)
    assert last[0].name == "last"


def test_a_name_needs_a_tensor_and_a_text():
    with pytest.raises(TypeError, match="tensor must be a tensor, got list"):
        name([1], "a")
    with pytest.raises(TypeError, match=r"label must be text, got 3 \(int\)"):
        name(PAIR, 3)


def test_a_recording_can_be_asked():
    recording = record(FORMS["weight split"], X)
    assert (
        recording["scores"].op == "view"
        and recording[0] is recording.steps[0]
        and len(list(recording)) == len(recording)
    )
    layout = recording.layout()
    assert {step.op for step in layout} == {"view", "transpose", "reshape"}
    assert layout.all_steps == recording.all_steps and len(layout) < len(recording)
    assert recording.arguments == (X,)
    with pytest.raises(KeyError, match="no step is named 'nothing'; the names are: queries,"):
        recording["nothing"]


def test_positional_keyword_and_variable_arguments_have_names():
    def forward(x, *more, scale, **options):
        return x + more[0] + more[1] + scale + options["shift"]

    a, b, c, d, e = torch.ones(5, 1).unbind()
    recording = record(forward, a, b, c, scale=d, shift=e)
    assert [step.inputs[-1] for step in recording] == ["more[0]", "more[1]", "scale", "options[0]"]
    assert record(torch.add, a, b)[0].inputs == ("argument 0", "argument 1")


def test_a_thousand_steps_keep_their_order():
    def many(x):
        for _ in range(500):
            x = x.transpose(0, 1).contiguous()
        return x

    recording = record(many, PAIR)
    assert [step.op for step in recording] == ["transpose", "contiguous"] * 500
    assert all(step.inputs == (step.number - 1,) for step in recording.steps[1:])


@pytest.mark.filterwarnings("ignore:Sparse CSR")
def test_tensors_without_strides_are_recorded():
    recording = record(lambda x: x.to_sparse_csr().to_dense(), PAIR)
    assert [(step.op, step.stride) for step in recording] == [("to_sparse_csr", ()), ("to_dense", (6, 1))]


def test_asking_for_gradients_is_no_step():
    assert [step.op for step in record(lambda x: (x * 2).requires_grad_() + 1, PAIR)] == ["mul", "add"]


def test_names_pass_by_other_modes():
    class Other(torch.overrides.TorchFunctionMode):
        def __torch_function__(self, func, types, args=(), kwargs=None):
            return func(*args, **(kwargs or {}))

    def forward(x):
        with Other():
            return name(x + 1, "more")

    assert record(forward, PAIR)["more"].op == "add"


def test_what_a_failing_call_read_is_not_called_unused():
    def forward(x):
        y = x + 1
        x.add(2)
        return y.view(7, 7)

    with pytest.raises(RuntimeError) as raised:
        record(forward, PAIR)
    steps = raised.value.recording.steps
    assert [step.read_by_failed for step in steps] == [True, False]
    assert [step.number for step in raised.value.recording.unused()] == [1]
