"""Answers as learners write them in a notebook: text that is run, with the exercise's own name and with its lines."""

import linecache
import math
from itertools import count
from textwrap import indent

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn

from course_lib.attention import MultiHeadAttention, SingleHeadAttention
from course_lib.attention.convert import wrapper_to_split

GIVEN = {
    "math": math,
    "np": np,
    "torch": torch,
    "F": F,
    "nn": nn,
    "MultiHeadAttention": MultiHeadAttention,
    "SingleHeadAttention": SingleHeadAttention,
    "wrapper_to_split": wrapper_to_split,
}
CELLS = count(1)


def run_cell(source, name):
    """Run a cell and return what it calls `name`."""
    file = f"<answer {next(CELLS)}>"
    linecache.cache[file] = (len(source), None, source.splitlines(keepends=True), file)
    namespace = dict(GIVEN) | {"__name__": "__main__"}
    exec(compile(source, file, "exec"), namespace)
    return namespace[name]


def functions(table):
    """Make answers from texts.

    Args:
        table: "name(argument, ...)" -> text with one answer a line: an expression, or statements separated by `;`. A
            line that ends with a backslash goes on in the next.

    Returns:
        "name" -> its answers.
    """
    found = {}
    for signature, text in table.items():
        name = signature.split("(")[0]
        found.setdefault(name, []).extend(run_cell(_function(signature, body), name) for body in _answers(text))
    return found


def _function(signature, body):
    return f"def {signature}:\n{indent(body if _has_statements(body) else f'return {body}', '    ')}\n"


def _has_statements(body):
    try:
        compile(body, "<answer>", "eval")
    except SyntaxError:
        return True
    return False


def _answers(text):
    return [one.replace("\0", "\n") for one in text.strip().replace("\\\n", "\0").split("\n")]


def classes(name, edits):
    """Make answers from a right class.

    Args:
        name: What the class is called.
        edits: One answer a line: `old => new`, several of them separated by ` && `; `|` stands for a new line.

    Raises:
        ValueError: The right class has no such text.
    """
    return [run_cell(edited(TEMPLATES[name], line), name) for line in edits.strip().split("\n")]


def edited(template, line):
    """Return the source of a right class with some of its text replaced."""
    for edit in line.split(" && "):
        old, new = edit.split(" => ")
        if old not in template:
            raise ValueError(f"{old!r} is not in the class")
        template = template.replace(old, new.replace(" | ", "\n        "))
    return template


def variant(right, **replaced):
    """Return a class like `right`, with other methods or attributes."""
    return type(right.__name__, (right,), replaced | {"__module__": right.__module__})


PROJECTIONS = """
        self.q_proj = nn.Linear(d_in, d_out, bias=False)
        self.k_proj = nn.Linear(d_in, {kv}, bias=False)
        self.v_proj = nn.Linear(d_in, {kv}, bias=False)"""

SINGLE = (
    """class SingleHeadWithGaps(nn.Module):
    def __init__(self, d_in, d_out):
        super().__init__()"""
    + PROJECTIONS.format(kv="d_out")
    + """

    def forward(self, x):
        queries = self.q_proj(x)
        keys = self.k_proj(x)
        values = self.v_proj(x)
        scores = queries @ keys.transpose(1, 2)
        weights = (scores / queries.shape[-1] ** 0.5).softmax(dim=-1)
        return weights @ values
"""
)

WRAPPER = """class Wrapper(nn.Module):
    def __init__(self, d_in, d_out, num_heads):
        super().__init__()
        heads = [SingleHeadAttention(d_in, d_out // num_heads, causal=False) for _ in range(num_heads)]
        self.heads = nn.ModuleList(heads)
        self.out_proj = nn.Linear(d_out, d_out, bias=False)

    def forward(self, x):
        joined = torch.cat([head(x) for head in self.heads], dim=-1)
        return self.out_proj(joined)
"""

MULTI = (
    """class MultiHeadWithGaps(nn.Module):
    def __init__(self, d_in, d_out, num_heads):
        super().__init__()
        self.num_heads, self.head_dim = num_heads, d_out // num_heads"""
    + PROJECTIONS.format(kv="d_out")
    + """
        self.out_proj = nn.Linear(d_out, d_out, bias=False)

    def forward(self, x):
        b, t, _ = x.shape
        queries = self.q_proj(x).view(b, t, self.num_heads, self.head_dim).transpose(1, 2)
        keys = self.k_proj(x).view(b, t, self.num_heads, self.head_dim).transpose(1, 2)
        values = self.v_proj(x).view(b, t, self.num_heads, self.head_dim).transpose(1, 2)
        scores = queries @ keys.transpose(2, 3) / self.head_dim**0.5
        keep = torch.ones(t, t, dtype=torch.bool, device=x.device).tril()
        scores = scores.masked_fill(~keep, -torch.inf)
        weights = scores.softmax(dim=-1)
        context = weights @ values
        return self.out_proj(context.transpose(1, 2).reshape(b, t, -1))
"""
)

GROUPED = (
    """class GroupedQuery(nn.Module):
    def __init__(self, d_in, d_out, num_heads, num_kv_heads):
        super().__init__()
        self.num_heads, self.num_kv_heads, self.head_dim = num_heads, num_kv_heads, d_out // num_heads"""
    + PROJECTIONS.format(kv="num_kv_heads * self.head_dim")
    + """
        self.out_proj = nn.Linear(d_out, d_out, bias=False)

    def forward(self, x):
        b, t, _ = x.shape
        queries = self.q_proj(x).view(b, t, self.num_heads, self.head_dim).transpose(1, 2)
        keys = self.k_proj(x).view(b, t, self.num_kv_heads, self.head_dim).transpose(1, 2)
        values = self.v_proj(x).view(b, t, self.num_kv_heads, self.head_dim).transpose(1, 2)
        group = self.num_heads // self.num_kv_heads
        keys = keys.repeat_interleave(group, dim=1)
        values = values.repeat_interleave(group, dim=1)
        scores = queries @ keys.transpose(2, 3) / self.head_dim**0.5
        keep = torch.ones(t, t, dtype=torch.bool, device=x.device).tril()
        scores = scores.masked_fill(~keep, -torch.inf)
        weights = scores.softmax(dim=-1)
        context = weights @ values
        return self.out_proj(context.transpose(1, 2).reshape(b, t, -1))
"""
)

OWN_SINGLE = edited(
    SINGLE,
    "SingleHeadWithGaps => SingleHead && d_in, d_out): => d_in, head_dim, d_out):"
    " && self.q_proj = nn.Linear(d_in, d_out => self.q_proj = nn.Linear(d_in, head_dim"
    " && self.k_proj = nn.Linear(d_in, d_out => self.k_proj = nn.Linear(d_in, head_dim",
)
OWN_MULTI = edited(
    MULTI,
    "MultiHeadWithGaps => MultiHead && num_heads): => num_heads, head_dim): && d_out // num_heads => head_dim"
    " && nn.Linear(d_in, d_out => nn.Linear(d_in, num_heads * head_dim"
    " && nn.Linear(d_out, d_out => nn.Linear(num_heads * head_dim, d_out",
)

TEMPLATES = {
    "SingleHead": OWN_SINGLE,
    "MultiHead": OWN_MULTI,
    "SingleHeadWithGaps": SINGLE,
    "Wrapper": WRAPPER,
    "MultiHeadWithGaps": MULTI,
    "GroupedQuery": GROUPED,
}
