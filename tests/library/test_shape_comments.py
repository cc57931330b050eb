"""The shape comments of the library say what its code really does: each is compared with a recording of its line."""

import inspect
from pathlib import Path

import pytest
import torch
from shape_comments import commented_lines, lies, shapes_in

from course_lib.attention import (
    GroupedQueryAttention,
    MultiHeadAttention,
    MultiHeadAttentionWrapper,
    MultiQueryAttention,
    SingleHeadAttention,
    attend_fused,
    padding_keep,
    to_torch_mask,
)
from course_lib.recorder import record

# Sizes that all differ, also their products.
B, T, M, H, G, D, D_OUT = 2, 5, 11, 6, 3, 7, 13


def sizes(h=H, g=None):
    g = g or h
    letters = {"b": B, "batch": B, "t": T, "q": T, "k": T, "key": T, "m": M, "h": h, "g": g, "d": D, "d_out": D_OUT}
    return letters | {"(hq)": h // g * T, "(bh)": B * h}


def cases():
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(B, T, M, generator=generator)
    own_mask = torch.ones(B, H, T, T, dtype=torch.bool)
    widths = {"d_qk": H * D, "d_v": H * D}
    yield SingleHeadAttention(M, D), (x,), sizes(h=1)
    wrapper = MultiHeadAttentionWrapper(M, H * D, H)
    # Its heads run the formula one head at a time, which the first case has compared.
    yield lambda x: wrapper(x, keep=own_mask, return_weights=True), (x,), sizes() | {"d_out": H * D, "file": "wrapper"}
    for kernel in ("explicit", "fused"):
        yield MultiHeadAttention(M, D_OUT, H, kernel=kernel, **widths), (x,), sizes()
        yield MultiQueryAttention(M, D_OUT, H, kernel=kernel, **widths), (x,), sizes(g=1)
        yield GroupedQueryAttention(M, D_OUT, H, num_kv_heads=G, kernel=kernel, **widths), (x,), sizes(g=G)
    q, kv = torch.randn(B, H, T, D, generator=generator), torch.randn(B, G, T, D + 1, generator=generator)
    yield lambda: attend_fused(q, kv[..., :D], kv[..., :D], own_mask, 0.1), (), sizes(g=G)
    yield lambda: padding_keep([T, 3]), (), sizes()
    yield lambda: to_torch_mask(own_mask, num_heads=H), (), sizes()


@pytest.fixture(scope="module")
def recorded():
    return [(record(run, *args).steps, numbers) for run, args, numbers in cases()]


FILES = sorted({Path(inspect.getfile(one)) for one in (
    SingleHeadAttention, MultiHeadAttentionWrapper, MultiHeadAttention, MultiQueryAttention, GroupedQueryAttention,
    attend_fused, padding_keep,
)})  # fmt: skip


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_every_comment_agrees_with_the_line_it_stands_on(path, recorded):
    compared = set()
    for steps, numbers in recorded:
        if numbers.get("file", path.stem) != path.stem:
            continue
        found, here = lies(path, list(steps), numbers)
        assert found == []
        compared |= here
    assert compared == {number for number, _ in commented_lines(path)}, "a comment that no recording reaches"


def test_a_comment_reads_as_numbers():
    numbers = sizes(g=G)
    assert shapes_in("(b, t, m) -> (b, t, h, d)", numbers) == [[(2, 5, 11)], [(2, 5, 6, 7)]]
    assert shapes_in("bg(hq)d @ bgdk -> bg(hq)k", numbers) == [[(2, 3, 10, 7), (2, 3, 7, 5)], [(2, 3, 10, 5)]]
    assert shapes_in("h times (b, t, d) -> (b, t, h * d)", numbers) == [[(2, 5, 7)], [(2, 5, 42)]]
    assert shapes_in("(b, t, m) -> (b, t, d) -> (b, 1, t, d): one head", numbers)[-1] == [(2, 1, 5, 7)]


@pytest.mark.parametrize(
    ("true", "lie"),
    [
        ("# (b, t, h, d) -> (b, h, t, d)", "# (b, t, h, d) -> (b, t, h, d)"),
        ("# (b, t, m) -> (b, t, h, d)", "# (b, t, d) -> (b, t, h, d)"),
    ],
)
def test_a_planted_lie_is_found(true, lie, tmp_path, monkeypatch):
    source = Path(inspect.getfile(MultiHeadAttention))
    copy = tmp_path / "weight_split.py"
    copy.write_text(source.read_text(encoding="utf-8").replace(true, lie, 1), encoding="utf-8")
    module = MultiHeadAttention(M, D_OUT, H, d_qk=H * D, d_v=H * D)
    steps = record(module, torch.randn(B, T, M)).steps

    class Here:
        def __init__(self, step):
            self.__dict__.update(file=str(copy) if step.file == str(source) else "", line=step.line, shape=step.shape)
            self.part, self.call = step.part, step.call

    found, _ = lies(copy, [Here(step) for step in steps], sizes())
    assert len(found) == 1
