"""The tensors of a page, each with the numbers of it that are shown and their texts."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import product

import torch
from torch import Tensor

from course_lib.pictures import number_text

MOST_CELLS = 12_000  # on one page
MOST_OF_TENSOR = 512  # cells of one tensor; of a larger one a window is shown
FEWEST = 16
Owner = tuple[int | None, int | None]  # token and head
ROWS, COLUMNS, TABLES = 6, 8, 2  # of a window


@dataclass(eq=False)
class ShownTensor:
    """One tensor at one moment of the run.

    Attributes:
        key: its step's number, or "in0", "in1", ... for a tensor that existed before the run.
        title: its name, or the code that made it.
        shape, stride, offset, storage: as in a `Step`.
        dtype: of its elements.
        tensor: the tensor itself.
        value: the same with the numbers that it had at that moment.
        axes: a name per axis, such as "head"; "" where it is not known.
        most: the most cells to show.
        true_hides: of a mask, whether its True hides.
        overwritten: the step that later wrote into its memory, if the numbers are those of the end, or None.
        owners: the token and the head that each cell belongs to; [] if what its memory held is not known.
        meant: of a tensor with mixed axes, the one of the same shape in the same memory that has named axes, if any.
        writers: the numbers of all steps that wrote into its memory, if what it held before was not kept.
    """

    key: str
    title: str
    shape: tuple[int, ...]
    stride: tuple[int, ...]
    offset: int
    storage: int
    dtype: torch.dtype
    tensor: Tensor = field(repr=False)
    value: Tensor = field(repr=False)
    axes: tuple[str, ...] = ()
    most: int = MOST_OF_TENSOR
    true_hides: bool = False
    overwritten: int | None = None
    writers: tuple[int, ...] = ()
    owners: Sequence[Owner] = ()
    meant: ShownTensor | None = field(default=None, repr=False)

    @property
    def numel(self) -> int:
        return math.prod(self.shape)

    @cached_property
    def sizes(self) -> tuple[int, ...]:
        """The size of the shown part along each axis, from its beginning."""
        if self.numel <= self.most:
            return self.shape
        columns, rows = min(COLUMNS, self.most), ROWS if self.most >= ROWS * COLUMNS else 2
        sizes = [
            min(size, most) for size, most in zip(self.shape[-2:], (rows, columns)[-len(self.shape) :], strict=True)
        ]
        room = min(TABLES, max(self.most // math.prod(sizes), 1))
        for size in reversed(self.shape[:-2]):
            sizes.insert(0, min(size, room))
            room = max(room // sizes[0], 1)
        return tuple(sizes)

    @property
    def is_whole(self) -> bool:
        """Whether every element is shown."""
        return self.sizes == self.shape

    @cached_property
    def indices(self) -> list[tuple[int, ...]]:
        """The index of each cell, in the order of the table."""
        return list(product(*map(range, self.sizes)))

    @cached_property
    def cells(self) -> Tensor:
        """The number of each cell's element, counted in the order of its indices."""
        numbers = torch.arange(self.numel).view(self.shape)
        return numbers[tuple(slice(size) for size in self.sizes)].flatten()

    @cached_property
    def values(self) -> Tensor | None:
        """The numbers of the cells, or None if the tensor holds none that can be read."""
        try:
            part = self.value.detach().as_strided(self.shape, self.stride, self.offset)
            part = part[tuple(slice(size) for size in self.sizes)].resolve_conj()
            return part.cpu().flatten().clone()
        except (RuntimeError, NotImplementedError, ValueError):  # sparse, quantized, fake or on the meta device
            return None

    @cached_property
    def texts(self) -> list[str]:
        """The text of each cell."""
        if self.values is None:
            return ["?"] * len(self.indices)
        decimals = self.dtype.is_floating_point and not bool((self.values == self.values.round()).all())
        return [_text(value, decimals) for value in self.values.tolist()]

    @cached_property
    def kind(self) -> str:
        """ "weights" if each row sums to 1, "mask" if the elements are true or false, else ""."""
        if self.dtype == torch.bool:
            return "mask"
        values = self.values
        if (
            values is None
            or len(self.shape) < 2
            or not self.is_whole
            or not self.dtype.is_floating_point
            or not len(values)
        ):
            return ""
        rows = values.double().view(self.shape)
        is_weights = bool((rows >= 0).all()) and bool(((rows.sum(-1) - 1).abs() < 1e-2).all())
        return "weights" if is_weights and self.shape[-1] > 1 else ""

    @cached_property
    def wrong_rows(self) -> list[bool]:
        """For each row along the last axis whether it belongs to another token or head than in `meant`."""
        if self.meant is None or not self.sizes:
            return []
        ours, theirs = self.rows_of_owners, self.meant.rows_of_owners
        return [owner != other for owner, other in zip(ours, theirs, strict=True)]

    @property
    def rows_of_owners(self) -> list[Sequence[Owner]]:
        """The owners of each row along the last axis."""
        return [self.owners[first : first + self.sizes[-1]] for first in range(0, len(self.owners), self.sizes[-1])]

    @property
    def step_number(self) -> int:
        """The number of the step that made it; -1 if it existed before the run."""
        return -1 if self.key.startswith("in") else int(self.key)

    def is_overwritten_after(self, step: int) -> bool:
        """Return whether numbers that a step read may be lost because it or a later step overwrote them."""
        return any(number >= step for number in self.writers)

    @cached_property
    def slots(self) -> list[int]:
        """The slot of memory in which each cell's element lies."""
        return [self.offset + sum(map(int.__mul__, index, self.stride)) for index in self.indices]


def most_cells(tensors: int) -> int:
    """Return how many cells of each tensor a page of that many tensors shows at most."""
    return max(FEWEST, min(MOST_OF_TENSOR, MOST_CELLS // max(tensors, 1)))


def _text(value: complex | float | int | bool, decimals: bool) -> str:
    if isinstance(value, complex):
        return f"{value.real:.2f}{value.imag:+.2f}i"
    if isinstance(value, float) and math.isinf(value):
        return "∞" if value > 0 else "-∞"
    return number_text(value, decimals=decimals and math.isfinite(value))
