"""What a module of unknown layout should give: in every way in which its weights can be read."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch
from torch import Tensor
from torch.func import functional_call

from course_lib.attention import attend
from course_lib.exercises.modules import ModuleJudge

from .draw import Draw
from .layouts import BIAS, MIX, ROWS, kind_of, orders, pile


class Readings:
    """The expected outputs of one construction of a student's class.

    Args:
        judge: of the exercise.
        sizes: what the class was built with.
        shapes: name -> shape of its parameters, in order of registration.

    Attributes:
        by_name: whether its matrices have the reference's names and shapes; then there is one reading.
        odd: names of parameters that are drawn as zero and that nobody would call a bias.
    """

    def __init__(self, judge: ModuleJudge, sizes: tuple[int, ...], shapes: Mapping[str, tuple[int, ...]]) -> None:
        self.causal, self.shapes = judge.causal, shapes
        self.d_in, self.d_out = sizes[:2]
        self.num_heads = sizes[2] if len(sizes) > 2 else 1
        self.num_kv_heads = sizes[3] if len(sizes) > 3 else self.num_heads
        self.head_dim = self.d_out // self.num_heads
        with torch.random.fork_rng(devices=[]):
            self.reference = judge.reference(*sizes).double().eval()
        self.kinds = {name: kind_of(shape, self.d_in, self.d_out) for name, shape in shapes.items()}
        matrices = {name: shape for name, shape in shapes.items() if self.kinds[name] != BIAS}
        theirs = {name: tuple(parameter.shape) for name, parameter in self.reference.named_parameters()}
        self.by_name = matrices == theirs
        self.mixes = "out_proj.weight" in theirs
        self.odd = [name for name, kind in self.kinds.items() if kind == BIAS and "bias" not in name]

    def weights(self, draw: Draw) -> dict[str, Tensor]:
        """Draw weights as of a trained module: attention that is neither flat nor all or nothing; biases are zero."""
        spread = {ROWS: 1.5 * self.d_in**-0.5, MIX: self.d_out**-0.5, BIAS: 0.0}
        return {name: draw.numbers(*shape, spread=spread[self.kinds[name]]) for name, shape in self.shapes.items()}

    def outputs(
        self, weights: Mapping[str, Tensor], x: Tensor, among: Sequence[int] | None = None
    ) -> dict[int, Tensor]:
        """What should come out.

        Args:
            weights: of the student's module.
            x: (batch, token, d_in).
            among: numbers of the readings that are asked for; all if None.

        Returns:
            Number of a reading -> (batch, token, d_out), the likeliest first; empty where the weights can't be read.
        """
        with torch.no_grad():
            if self.by_name:
                own = {name: weight for name, weight in weights.items() if self.kinds[name] != BIAS}
                return {0: functional_call(self.reference, own, (x,))}
            rows = pile(self._of_kind(ROWS, weights), self.d_in)
            mixes = self._mixes(self._of_kind(MIX, weights))
            order = orders(self.num_heads, self.num_kv_heads, self.head_dim)
            if rows is None or not mixes or len(rows) != order.shape[1]:
                return {}
            numbers = range(len(order) * 2 * len(mixes)) if among is None else among
            used = sorted({number % len(order) for number in numbers})
            context = self._context(rows[order[used].argsort(1)], x)  # (order, b, h, t, d)
            merged = context.permute(0, 1, 3, 2, 4).flatten(3), context.permute(0, 1, 3, 4, 2).flatten(3)
            found = {}
            for number in numbers:
                way, at = divmod(number, len(order))
                found[number] = merged[way % 2][used.index(at)] @ mixes[way // 2]
            return found

    def _of_kind(self, kind: str, weights: Mapping[str, Tensor]) -> dict[str, Tensor]:
        return {name: weight for name, weight in weights.items() if self.kinds[name] == kind}

    def _context(self, rows: Tensor, x: Tensor) -> Tensor:
        """The mix of every head, for each order of rows."""
        projected = torch.einsum("btm,nrm->nbrt", x, rows).flatten(0, 1)
        counts = [heads * self.head_dim for heads in (self.num_heads, self.num_kv_heads, self.num_kv_heads)]
        by_head = [role.unflatten(1, (-1, self.head_dim)).mT for role in projected.split(counts, dim=1)]
        return attend(*by_head, causal=self.causal)[0].unflatten(0, (len(rows), len(x)))

    def _mixes(self, matrices: Mapping[str, Tensor]) -> list[Tensor]:
        """The output matrix, (h * d, d_out), as it is and turned; nothing where it is not what it should be."""
        if not self.mixes:
            return [] if matrices else [torch.eye(self.d_out, dtype=torch.float64)]
        piles = [pile(matrices, self.d_out, turned) for turned in (False, True)]
        return [one for one in piles if one is not None and len(one) == self.d_out]
