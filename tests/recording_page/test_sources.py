"""Where numbers come from, for calls whose answer is known by hand; whole paths are tested in tests/browser."""

import re

import pytest
import torch
from torch.nn import functional as F

from course_lib.recorder import record
from course_lib.recording_page.encoding import encode, segments
from course_lib.recording_page.story import story_of
from course_lib.recording_page.tables import tables

from .paths import table_of

HIDDEN = torch.ones(3, 3, dtype=torch.bool).triu(1)
ROW = torch.tensor([[1.0, 2.0, -torch.inf]])


def told(run, *tensors):
    """Return the sources of the last step: for each input, the texts of each number of the result."""
    stage = story_of(record(run, *tensors)).stages[-1]
    cells = range(len(stage.result.indices))
    return [
        table if table == "all" else [table[0][table[1][cell]] if table else str(cell) for cell in cells]
        for table in stage.sources
    ]


KNOWN = {
    "view": (lambda x: x.view(3, 2), [torch.randn(2, 3)], [["0", "1", "2", "3", "4", "5"]]),
    "transpose": (lambda x: x.T, [torch.randn(2, 3)], [["0", "3", "1", "4", "2", "5"]]),
    "cat": (lambda x, y: torch.cat([x, y]), [torch.randn(1), torch.randn(2)], [["0", "", ""], ["", "0", "1"]]),
    "chosen": (lambda x, i: x[i], [torch.randn(3), torch.tensor([2, 2])], [["2", "2"], ["0", "1"]]),
    "rows of words": (
        F.embedding,
        [torch.tensor([1, 0]), torch.randn(2, 2)],
        [["0", "0", "1", "1"], ["2", "3", "0", "1"]],
    ),
    "broadcast": (
        lambda x, y: x + y,
        [torch.randn(2, 2), torch.randn(2)],
        [["0", "1", "2", "3"], ["0", "1", "0", "1"]],
    ),
    "masked": (
        lambda x: x.masked_fill(HIDDEN, -torch.inf),
        [torch.randn(3, 3)],
        [["0", "", "", "3", "4", "", "6", "7", "8"], list("012345678")],
    ),
    "above the diagonal": (lambda x: x.triu(diagonal=1), [torch.randn(2, 2)], [["", "1", "", ""]]),
    "where": (lambda x: torch.where(HIDDEN, 0.0, x)[0], [torch.randn(3, 3)], [["0", "1", "2"]]),
    "softmax": (lambda x: x.softmax(-1), [ROW], [["0*3", "0*3", "2"]]),
    "product": (lambda x, y: x @ y, [torch.ones(1, 2), torch.ones(2, 2)], [["0 1", "0 1"], ["0 2", "1 3"]]),
    "a factor of 0": (lambda x, y: x @ y, [torch.tensor([[1.0, 0.0]]), torch.ones(2, 1)], [["0 1"], ["0"]]),
    "sum": (lambda x: x.sum(0), [torch.randn(2, 2)], [["0 2", "1 3"]]),
    "integers": (lambda x: x @ x, [torch.tensor([[1, 2], [3, 4]])], [["0*3", "0 1 3", "0 2 3", "1*3"]]),
    "unknown": (lambda x: x.unique(), [torch.randn(3)], ["all"]),
    "places on one axis": (lambda x: torch.where(x > 0)[0], [torch.tensor([1, 0, 2])], [["0", "0*3"]]),
    "how often": (
        lambda x, n: x.repeat_interleave(n),
        [torch.randn(2), torch.tensor([1, 2])],
        [["0", "1", "1"], "all"],
    ),
    "only a shape": (lambda x, y: x.view_as(y), [torch.randn(2), torch.tensor([1, 2])], [["0", "1"], ["", ""]]),
    "the type of another shape": (
        lambda x, y: x.type_as(y),
        [torch.randn(2), torch.randn(3, 2)],
        [["0", "1"], ["", ""]],
    ),
    "another type of another shape": (
        lambda x, y: x.type_as(y),
        [torch.randn(2), torch.randn(3, 2).half()],
        [["0", "1"], ["", ""]],
    ),
    "the type of the same shape": (
        lambda x, y: x.type_as(y),
        [torch.randn(2), torch.randn(2).double()],
        [["0", "1"], ["", ""]],
    ),
    "to another": (lambda x, y: x.to(y), [torch.randn(2), torch.randn(3)], [["0", "1"], ["", ""]]),
    "a copy to another": (lambda x, y: x.to(y, copy=True), [torch.randn(2), torch.randn(3)], [["0", "1"], ["", ""]]),
    "to its own type": (lambda x: x.type_as(x), [torch.randn(2)], [["0", "1"]]),
    "like a named one": (lambda x: torch.zeros_like(input=x), [torch.randn(2)], [["", ""]]),
    "filled with itself": (lambda x: x.new_full((2,), x), [torch.tensor(2.0)], [["0", "0"]]),
    "copied from another type": (
        lambda x, y: x.clone().copy_(y),
        [torch.randn(2, 2), torch.tensor([1, 2])],
        [["", "", "", ""], ["0", "1", "0", "1"]],
    ),
    "where as a method": (
        lambda x, y: x.where(HIDDEN[0], y),
        [torch.randn(3), torch.randn(3)],
        [["", "1", "2"], ["0", "1", "2"], ["0", "", ""]],
    ),
    "where with names": (
        lambda x, y: torch.where(HIDDEN[0], input=x, other=y),
        [torch.randn(3), torch.randn(3)],
        [["0", "1", "2"], ["", "1", "2"], ["0", "", ""]],
    ),
    "where with scalars": (lambda x: torch.where(x, 1.0, 0.0), [HIDDEN[0]], [["0", "1", "2"]]),
    "where twice the same": (
        lambda x, m: torch.where(m, x, x),
        [torch.randn(2), torch.tensor([True, False])],
        [["0", "1"], ["0", "1"]],
    ),
    "places": (lambda x: x.nonzero(), [torch.tensor([[0, 1], [2, 0]])], [["0 1", "0 1", "0*3", "0*3"]]),
    "rows of places": (lambda x: x.nonzero(as_tuple=True)[0], [torch.tensor([[0, 1], [2, 0]])], [["0 1", "0*3"]]),
    "places by where": (lambda x: torch.where(x)[1], [torch.tensor([[0, 1], [2, 0]])], [["0 1", "0*3"]]),
    "any of rows": (lambda x: x.any(-1), [torch.tensor([[True, False], [False, False]])], [["0", "2 3"]]),
    "all of columns": (lambda x: x.all(dim=0), [torch.tensor([[2, 0], [1, 3]])], [["0 2", "1"]]),
    "argmax of all": (lambda x: x.argmax(), [torch.randn(3)], [["0*3"]]),
    "equal maxima": (lambda x: x.amax(), [torch.tensor([3, 1, 3])], [["0 2"]]),
    "through a mask": (
        lambda x, m: x[m],
        [torch.randn(3), torch.tensor([True, False, True])],
        [["0", "2"], ["0", "0*3"]],
    ),
    "a mask of numbers": (
        lambda x: x + torch.tensor([0.0, -1e4]),
        [torch.randn(2)],
        [["0", ""], ["0", "1"]],
    ),
    "one large number": (lambda x: x - torch.tensor(1e5), [torch.randn(2)], [["0", "1"], ["0", "0"]]),
    "a large number": (lambda x: x + torch.tensor([5.0, 1e5]), [torch.randn(2)], [["0", "1"], ["0", "1"]]),
    "made": (lambda x: torch.ones(2), [torch.randn(3)], []),
}


@pytest.mark.parametrize("call", KNOWN)
def test_known_sources(call):
    run, tensors, expected = KNOWN[call]
    assert told(run, *tensors) == expected


def in_llama_s_type(q, k):
    scores = q @ k.mT
    return F.softmax(scores.float(), dim=-1).type_as(q)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("keys", [2, 3])
def test_weights_in_the_type_of_queries_come_from_queries_and_keys(dtype, keys):
    story = story_of(record(in_llama_s_type, torch.randn(3, 2, dtype=dtype), torch.randn(keys, 2, dtype=dtype)))
    assert table_of(story, "q") == [[2 * row, 2 * row + 1] for row in range(3) for _ in range(keys)]
    assert table_of(story, "k") == [list(range(2 * keys))] * (3 * keys)


def experts(x):
    rows = torch.where(x[:, 0] > 0)[0]
    return torch.zeros_like(x).index_add_(0, rows, x[rows])


ORDERED = {
    "rows by where": (experts, [("where", [0])]),
    "places": (lambda x: x[x[:, 0].nonzero()[:, 0]], [("nonzero", [0])]),
    "through a mask": (lambda x: x[x[:, 0] > 0], [("getitem", [1])]),
    "by order": (lambda x: x[x[:, 0].argsort()], [("argsort", [0])]),
    "by sort": (lambda x: x[x[:, 0].sort()[1]], [("sort", [0])]),
    "no list": (lambda x: torch.where(x > 0, x, 0.0)[0] + x.topk(1)[1], []),
}


@pytest.mark.parametrize("call", ORDERED)
def test_what_decides_on_the_order_of_a_list_is_known(call):
    run, expected = ORDERED[call]
    stages = story_of(record(run, torch.tensor([[0.5, 1.0], [-1.0, 2.0], [2.0, 3.0]]))).stages
    assert [(stage.step.op, stage.ordering) for stage in stages if stage.ordering] == expected


def test_fused_attention_reads_only_visible_keys():
    queries = torch.randn(1, 1, 3, 2)
    keys, values = torch.randn(1, 1, 3, 2), torch.randn(1, 1, 3, 1)
    of_query, of_key, of_value = told(
        lambda q, k, v: F.scaled_dot_product_attention(q, k, v, is_causal=True), queries, keys, values
    )
    assert of_query[1:] == ["2 3", "4 5"] and of_key[1:] == ["0*4", "0*6"] and of_value == ["0", "0 1", "0*3"]


def test_dropped_weights_still_come_from_somewhere():
    assert told(lambda x: F.dropout(x, 0.9, training=True), torch.ones(3)) == [["0", "1", "2"]]


def test_positions_are_written_in_few_characters():
    assert segments([0, 1, 2, 10, 12, 14, 20]) == "0*3 10*3*2 20"
    assert encode([([0], 0), ([1], 0)]) == []
    assert encode([([3, 4, 5], 2), ([], 0), ([3, 4, 5], 2)]) == [["3*3 +2", ""], [0, 1, 0]]


def written_into(held, x):
    held[:4] = x[0, 0]
    return held


def by_head(x):
    return x.view(2, 3, 2, 2).transpose(1, 2)


def of_four(x):
    return torch.cat([x, x], -1).view(2, 3, 4, 2).transpose(1, 2)


def into_cache(x):
    cache = torch.zeros(2, 5, 4)
    cache[:, :3] = x
    return cache[:, :4]


AXES = {
    "split": (lambda x: x.view(2, 3, 2, 2), ("batch", "token", "head", "feature")),
    "by head": (lambda x: x.view(2, 3, 2, 2).transpose(1, 2), ("batch", "head", "token", "feature")),
    "merged": (
        lambda x: x.view(2, 3, 2, 2).transpose(1, 2).transpose(1, 2).reshape(2, 3, 4),
        ("batch", "token", "feature"),
    ),
    "scores": (lambda x: x @ x.mT, ("batch", "query", "key")),
    "context": (lambda x: (x @ x.mT).softmax(-1) @ x, ("batch", "token", "feature")),
    "the view that scrambles": (lambda x: x.view(2, 2, 3, 2), ("batch", "mixed", "mixed", "mixed")),
    "batches in a row": (lambda x: x.reshape(-1, 4) * 2, ("batch and token", "feature")),
    "tokens in a row": (lambda x: x.flatten(1), ("batch", "token and feature")),
    "windows of tokens": (lambda x: x.view(3, 2, 4), ("", "", "feature")),
    "heads in a row": (
        lambda x: x.view(2, 3, 2, 2).transpose(1, 2).flatten(0, 1),
        ("batch and head", "token", "feature"),
    ),
    "scores of baddbmm": (lambda x: torch.baddbmm(torch.zeros(1), x, x.mT), ("batch", "query", "key")),
    "scores of bmm": (lambda x: torch.bmm(x, x.mT), ("batch", "query", "key")),
    "ranks": (lambda x: x.sort(1)[0], ("batch", "", "feature")),
    "the largest": (lambda x: x.topk(2).values * 2, ("batch", "token", "")),
    "places": (lambda x: x.nonzero(), ("", "")),
    "places in another's type": (lambda x: x.nonzero().to(x[0]), ("", "")),
    "written into": (lambda x: written_into(torch.zeros(5), x), ("",)),
    "heads folded": (lambda x: by_head(x).reshape(2, 1, 6, 2), ("batch", "", "head and token", "feature")),
    "and unfolded": (
        lambda x: by_head(x).reshape(2, 1, 6, 2).view(2, 2, 3, 2),
        ("batch", "head", "token", "feature"),
    ),
    "groups folded": (
        lambda x: of_four(x).reshape(2, 2, 6, 2),
        ("batch", "head group", "head in group and token", "feature"),
    ),
    "and apart": (lambda x: of_four(x).reshape(2, 2, 6, 2).view(2, 4, 3, 2), ("batch", "head", "token", "feature")),
    "groups and tokens folded": (
        lambda x: of_four(x).unflatten(1, (2, 2)).flatten(1, 3).view(2, 4, 3, 2),
        ("batch", "head", "token", "feature"),
    ),
    "scores folded": (
        lambda x: by_head(x).reshape(2, 1, 6, 2) @ x[:, None, :, :2].mT,
        ("batch", "", "head and query", "key"),
    ),
    "one head": (lambda x: x.view(2, 3, 1, 4), ("batch", "token", "head", "feature")),
    "merged and split again": (
        lambda x: by_head(x).transpose(1, 2).flatten(2).view(2, 3, 2, 2),
        ("batch", "token", "head", "feature"),
    ),
    "cut after joining": (lambda x: by_head(x).reshape(2, 6, 2)[:, 1:] * 2, ("batch", "head and token", "feature")),
    "a cache": (lambda x: into_cache(x), ("batch", "token", "feature")),
    "an axis more": (lambda x: x[:, None], ("batch", "", "token", "feature")),
    "one sample": (lambda x: x[0], ("token", "feature")),
    "half a token": (lambda x: x.chunk(2, dim=-1)[1] * 2, ("batch", "token", "feature")),
}


@pytest.mark.parametrize("call", AXES)
def test_axes_have_names(call):
    run, expected = AXES[call]
    assert story_of(record(run, torch.randn(2, 3, 4))).stages[-1].result.axes == expected


def test_rows_of_heads_and_tokens_in_one_axis_have_the_names_of_both():
    run, _ = AXES["heads folded"]
    result = story_of(record(run, torch.randn(2, 3, 4))).stages[-1].result
    names = re.findall("<th scope=row>([^<]*)", tables(result, ["Dream", "big", "and"]))
    assert names == ["0 Dream", "0 big", "0 and", "1 Dream", "1 big", "1 and"] * 2


def test_the_weights_of_an_embedding_have_rows_of_a_vocabulary():
    story = story_of(record(torch.nn.Embedding(7, 4), torch.tensor([[3, 1]])))
    assert {leaf.title: leaf.axes for leaf in story.leaves}["weight"] == ("vocabulary", "feature")
    assert story.stages[-1].result.axes == ("batch", "token", "feature")
