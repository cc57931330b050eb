"""Draw heads on devices: the rows and columns that each device holds, and the sum of the devices' outputs."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor, nn

from course_lib.pictures.canvas import Canvas
from course_lib.pictures.checks import check_highlight, token_labels
from course_lib.pictures.grid import arrow, card, column, label, row
from course_lib.pictures.picture import Picture
from course_lib.pictures.style import BOLD, FAINT, HEADING, NOTE, PLAIN, SMALL_NOTE, STYLE, head_color
from course_lib.pictures.table import Table
from course_lib.pictures.text import minus
from course_lib.wording import counted, listed, span, stretches

from .kv_readers import ModuleCopy, copies_of

MOST_DEVICES, MOST_HEADS = 4, 8
PROJECTIONS = "q_proj", "k_proj", "v_proj", "out_proj"
HOW_TO_READ = "A block is a head: rows of q_proj, k_proj and v_proj, columns of out_proj. Grey: on another device."


def draw_devices(
    whole: nn.Module,
    parts: Sequence[nn.Module],
    x: Tensor,
    *,
    words: Sequence[object] | None = None,
    highlight: tuple[int, int] | None = None,
    title: str | None = None,
) -> Picture:
    """Draw what each device holds of a module's parameters, and one element of the output as the devices' sum.

    Both are checked: a device's blocks of parameters are searched for in the whole module's, head by head, and the sum
    of the devices' outputs must equal the whole module's output, in float64.

    Args:
        whole: module with q_proj, k_proj, v_proj, out_proj, num_heads and head_dim; at most 8 heads.
        parts: one module per device, at most 4, such as `shard` returns. Of heads with equal parameters the first is
            drawn.
        x: (batch, token, d_in).
        words: labels of the tokens; "token 0", "token 1", ... if None.
        highlight: (token, column) of the output's element whose sum is drawn; the last token's first if None.
        title: the title above the drawing.

    Raises:
        ValueError: If there is too much to draw, a part holds parameters that the whole module doesn't, the outputs
            don't add up, highlight is not an index of the output, or words do not fit.
        TypeError: If a module isn't one of the course's forms.

    Example:
        >>> print(draw_devices(whole, [shard(whole, device, 2) for device in (0, 1)], x).caption)
        What 2 devices give adds up to the whole module's output: checked in float64.
    """
    names = [f"device {device}" for device in range(len(parts))]
    module, *shards = copies = copies_of({"whole": whole, **dict(zip(names, parts, strict=True))}, x)
    for part in copies:
        if part.out_proj is None:
            raise ValueError(f"module {part.name!r} has no out_proj, so outputs can't be added up: build it with one.")
    if not 1 <= len(parts) <= MOST_DEVICES or module.num_heads > MOST_HEADS:
        problem = f"{len(parts)} devices and {module.num_heads} heads can't be drawn"
        raise ValueError(f"{problem}: give 1 to {MOST_DEVICES} parts of a module with {MOST_HEADS} heads at most.")
    held = [_held(shard, module) for shard in shards]
    with torch.no_grad():
        expected, *outputs = (copy.module(x.double()).cpu() for copy in (module, *shards))
    if not torch.allclose(torch.stack(outputs).sum(dim=0), expected, rtol=0, atol=1e-9):
        raise ValueError("the parts' outputs don't add up to the whole module's: give one part for each device.")
    labels = token_labels(words, x.shape[1])
    wanted = (len(labels) - 1, 0) if highlight is None else highlight
    token, element = check_highlight(wanted, expected.shape[1:], "the output")
    *elements, total = (f"{output[0, token, element]:.4f}" for output in (*outputs, expected))
    held_by = [Shard(*part) for part in zip(names, held, elements, strict=True)]
    title = title or f"Heads on {counted(len(parts), 'device')}"
    return Picture.of(DevicesScene(held_by, total, tuple(x.shape), labels[token], element, title))


@dataclass(frozen=True)
class Block:
    """The part of one projection that a device holds."""

    projection: str
    heads: Sequence[int]  # heads that its rows, or its columns of out_proj, belong to
    num_heads: int  # heads of the projection in the whole module
    size: int  # rows, or columns, per head
    group: int  # query heads for each of these heads

    @property
    def lines(self) -> str:
        """Name the rows or columns: "rows 0 to 3"."""
        kind = "columns" if self.projection == "out_proj" else "rows"
        ends = [span(first * self.size, (last + 1) * self.size - 1) for first, last in stretches(self.heads)]
        return f"{kind} {listed(ends)}"

    def describe(self) -> str:
        return f"{self.lines} of {self.projection} (head{'s' * (len(self.heads) > 1)} {listed(self.heads)})"

    def draw(self, height: int, color_group: int) -> Canvas:
        """Draw a cell per head, with its number if the device holds it; color_group heads in a row have one colour."""
        drawn = [("", FAINT)] * self.num_heads
        for head in self.heads:
            drawn[head] = str(head), head_color(head // color_group)
        if self.projection == "out_proj":
            cells, cell = [drawn], (STYLE.pitch, height)
        else:
            cells, cell = [[block] for block in drawn], (STYLE.rows, self.group * STYLE.pitch - STYLE.between)
        return Table(cells, title=self.projection, notes=[self.lines], cell=cell).draw()


class Shard(NamedTuple):
    """What one device holds, and its element of the output."""

    name: str
    blocks: Sequence[Block]  # one per projection
    element: str  # of its output, as text


@dataclass(frozen=True)
class DevicesScene:
    """A module whose heads are distributed over several devices."""

    shards: Sequence[Shard]
    total: str  # sum of their elements
    shape: tuple[int, ...]  # of the input
    word: str  # token label and index of the element
    column: int
    title: str

    @property
    def _sum(self) -> str:
        return minus(f"{' + '.join(shard.element for shard in self.shards)} = {self.total} (rounded)")

    @property
    def caption(self) -> str:
        gives = f"{counted(len(self.shards), 'device')} give{'s' * (len(self.shards) == 1)}"
        return f"What {gives} adds up to the whole module's output: checked in float64."

    def describe(self) -> str:
        sentences = [
            f"{shard.name} holds {listed([block.describe() for block in shard.blocks])}. "
            f"Its output for “{self.word}”, column {self.column}: {shard.element}."
            for shard in self.shards
        ]
        return " ".join([*sentences, f"All-reduce: {self._sum}, the whole module's output."])

    def draw(self) -> Canvas:
        """Draw one row per device, from its input to its output, with the sum below."""
        total = row([label("all-reduce, every device gets the sum:", NOTE), label(self._sum, BOLD)], STYLE.near)
        return card(self.title, [HOW_TO_READ], *map(self._draw_shard, self.shards), total)

    def _draw_shard(self, shard: Shard) -> Canvas:
        queries, keys, *_ = shard.blocks
        height = queries.num_heads * STYLE.pitch - STYLE.between
        x = Table([[("all of x", PLAIN)]], notes=[str(self.shape)], cell=(STYLE.box + STYLE.gap, height)).draw()
        *inputs, out = (block.draw(height, block.num_heads // keys.num_heads) for block in shard.blocks)
        heads = listed([span(*stretch) for stretch in stretches(queries.heads)])
        attend = arrow(f"head{'s' * (len(queries.heads) > 1)} {heads}", "attend", length=0)
        position = f"“{SMALL_NOTE.clip(self.word, STYLE.box)}”, column {self.column}"
        element = Table([[(minus(shard.element), PLAIN)]], "its output", notes=[position], cell=(STYLE.arrow, height))
        parts = [x, *inputs, attend, out, arrow(length=STYLE.drop), element.draw()]
        return column([label(shard.name, HEADING), row(parts)], STYLE.near)


def _held(part: ModuleCopy, whole: ModuleCopy) -> list[Block]:
    """Return, for each projection, the heads of the whole module whose parameters a part has."""
    blocks = []
    for name in PROJECTIONS:
        num_heads = whole.num_kv_heads if name in ("k_proj", "v_proj") else whole.num_heads
        there = _by_head(whole, name).chunk(num_heads)
        heads: list[int] = []
        for mine in _by_head(part, name).split(len(there[0])):
            equal = [head for head, block in enumerate(there) if torch.equal(block, mine)]
            if not equal:
                held = f"{part.name} holds parameters of {name}"
                raise ValueError(f"{held} that the whole module doesn't: cut it with shard().")
            heads.append(equal[0])
        blocks.append(Block(name, heads, num_heads, len(there[0]), whole.num_heads // num_heads))
    return blocks


def _by_head(module: ModuleCopy, name: str) -> Tensor:
    """Return the parameters of a projection, with the heads along the first axis."""
    weight = module.module.get_parameter(f"{name}.weight").detach()
    return weight.T if name == "out_proj" else weight
