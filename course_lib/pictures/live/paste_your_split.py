"""Paste your split: a line of code that splits or joins heads, and at once what it makes of the numbers."""

from __future__ import annotations

from typing import Any

from torch import Tensor

from course_lib.about import page_of
from course_lib.mistakes import CATALOGUE
from course_lib.pictures.memory.wrong_view import draw_wrong_view

from .figure import Figure
from .why_transpose import HEAD_DIM, NUM_HEADS, WORDS, queries, split, stage_data

TITLE = "Paste your split"
SIZES = {  # what code calls the sizes of the sentence
    "batch batch_size bsz B b": 1,
    "num_tokens seq_len seq_length T t N n L": len(WORDS),
    "width d_out d_model embed_dim hidden_size n_embd C": NUM_HEADS * HEAD_DIM,
    "num_heads n_heads n_head heads H h": NUM_HEADS,
    "head_dim d_head head_size hs D d": HEAD_DIM,
}
SPLITS = {
    "view, then transpose": "x.view(1, 6, 2, 2).transpose(1, 2)",
    "view alone": "x.view(1, 2, 6, 2)",
    "permute": "x.view(batch, num_tokens, num_heads, head_dim).permute(0, 2, 1, 3)",
    "unflatten": "self.q_proj(x).unflatten(-1, (self.num_heads, -1)).transpose(1, 2)",
    "einops": 'rearrange(x, "b t (h d) -> b h t d", h=2)',
    "numbers first": 'rearrange(x, "b t (d h) -> b h t d", h=2)',
}
JOINS = {
    "transpose, then reshape": "x.transpose(1, 2).reshape(1, 6, 4)",
    "reshape alone": "x.reshape(batch, num_tokens, d_out)",
    "view": "x.transpose(1, 2).view(1, 6, 4)",
    "contiguous": "x.transpose(1, 2).contiguous().view(1, 6, -1)",
    "flatten": "x.transpose(1, 2).flatten(2)",
    "einops": 'rearrange(x, "b h t d -> b t (h d)")',
}


def paste_your_split() -> Figure:
    """Return the figure in which a reader edits the line that splits x into heads, or joins them.

    It shows what becomes of shape, strides, memory and rows, names the mistake, and refuses what PyTorch refuses.

    Example:
        >>> paste_your_split().save("paste_your_split.html")
        PosixPath('paste_your_split.html')
    """
    x = queries()
    by_head = split(x).contiguous()  # in new memory, as the product of weights and values is
    goals = {
        "split": _goal("Split x into heads", x, by_head, {"split-without-transpose": x.view(by_head.shape)}, SPLITS),
        "join": _goal("Join the heads", by_head, x, {"merge-without-transpose": by_head.reshape(x.shape)}, JOINS),
    }
    names = {name: size for names, size in SIZES.items() for name in names.split()}
    picture = draw_wrong_view(x, num_heads=NUM_HEADS, words=WORDS)
    data = {**stage_data(), "goals": goals, "names": names}
    return Figure(TITLE, ("strided.js", "line.js", "paste_your_split.js"), data, picture)


def _goal(
    title: str, given: Tensor, wanted: Tensor, mistakes: dict[str, Tensor], examples: dict[str, str]
) -> dict[str, Any]:
    """Return what a line starts from, what it should make, and what a mistake makes, in reading order."""
    return {
        "title": title,
        "shape": list(given.shape),
        "strides": list(given.stride()),
        "memory": given.flatten().tolist(),
        "wanted": {"shape": list(wanted.shape), "elements": wanted.flatten().tolist()},
        "mistakes": [
            {"id": CATALOGUE[name].id, "address": page_of(name), "elements": made.flatten().tolist()}
            for name, made in mistakes.items()
        ],
        "examples": examples,
    }
