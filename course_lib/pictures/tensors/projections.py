"""Draw the three projections with which every attention begins."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from course_lib.pictures.canvas import Canvas
from course_lib.pictures.checks import first_sample, token_labels
from course_lib.pictures.grid import arrow, card, column, row, wrap
from course_lib.pictures.picture import Picture
from course_lib.pictures.style import STYLE
from course_lib.wording import counted

from .number_table import by_head, number_table

ROLES = {"q_proj": "queries", "k_proj": "keys", "v_proj": "values"}


@dataclass(frozen=True, eq=False)
class Projection:
    """The result of one projection."""

    name: str
    role: str  # name of the result
    result: Tensor  # (token, width)
    num_heads: int  # in the width of the result
    shared_by: int  # number of query heads that share its only head; 1 if it has several

    @property
    def note(self) -> str:
        return f"{tuple(self.result.shape)}" + (f", one for all {self.shared_by} heads" if self.shared_by > 1 else "")

    def describe(self) -> str:
        heads = f", {counted(self.num_heads, 'head')} side by side" if self.num_heads > 1 else ""
        return f"{self.name} gives {self.role} {self.note}{heads}."

    def draw(self, words: Sequence[str]) -> Canvas:
        look, above = by_head(self.result.shape[1], self.num_heads if self.num_heads > 1 else None)
        table = number_table(self.result, self.role, rows=words, above=above, look=look, note=self.note)
        return row([arrow(self.name), table.draw()])


@dataclass(frozen=True, eq=False)
class Projections:
    """One input and the results of its projections."""

    x: Tensor  # (token, d_in)
    projections: Sequence[Projection]
    words: Sequence[str]  # labels of the tokens
    title: str
    caption = "The same tokens in three roles: what they look for, what they are found by, what they give."

    def describe(self) -> str:
        descriptions = (projection.describe() for projection in self.projections)
        return " ".join([f"x {tuple(self.x.shape)} is projected three times.", *descriptions])

    def draw(self) -> Canvas:
        results = column([projection.draw(self.words) for projection in self.projections], STYLE.gap)
        return card(self.title, [], wrap([number_table(self.x, "x", rows=self.words).draw(), results]))


def draw_projections(
    x: Tensor, module: nn.Module, *, words: Sequence[object] | None = None, title: str | None = None
) -> Picture:
    """Draw how the three projections of a real module compute queries, keys and values from one input.

    Args:
        x: (batch, token, d_in); the first sample is drawn.
        module: any module with three `nn.Linear` modules q_proj, k_proj and v_proj.
        words: labels of the tokens; "token 0", "token 1", ... if None.
        title: the title above the drawing.

    Raises:
        ValueError: If x isn't (batch, token, d_in), or words do not fit.
        TypeError: If the module lacks one of these projections, or x isn't a tensor.
    """
    tokens = first_sample(x, "x", "token d_in")
    projections = []
    for name, role in ROLES.items():
        projection = getattr(module, name, None)
        if not isinstance(projection, nn.Linear):
            raise TypeError(f"module has no nn.Linear called {name}: give an attention module with q_, k_ and v_proj.")
        with torch.no_grad():
            result = first_sample(projection(x[:1] if x.dim() > tokens.dim() else x), role, "token width")
        num_heads = _num_heads(module, role, result.shape[1])
        shared_by = getattr(module, "num_heads", 1) if num_heads == 1 and role != "queries" else 1
        projections.append(Projection(name, role, result, num_heads, shared_by))
    scene = Projections(tokens, projections, token_labels(words, len(tokens)), title or "One input, three projections")
    return Picture.of(scene)


def _num_heads(module: nn.Module, role: str, width: int) -> int:
    head_dim = getattr(module, "head_dim", width)
    if role == "values":
        head_dim = getattr(module, "value_dim", head_dim)
    return width // head_dim if head_dim and width % head_dim == 0 else 1
