"""Read the weights of a module whose layout is unknown, by computing the output of each layout that it may have."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.func import functional_call

from course_lib.attention import attend
from course_lib.exercises.input_generator import InputGenerator
from course_lib.mutations import Projections

from .row_orders import BIAS, OUTPUT, PROJECTION, parameter_kind, row_permutations, stack_rows
from .sizes import Sizes

ROLES = ("q_proj", "k_proj", "v_proj")
VARIANTS = 4  # two ways to merge the heads, and W^O as it is or transposed
NAMED_LIKE_A_BIAS = re.compile(r"bias|(^|[._])b([._\d]|$)|(^|[._])b_?[qkvo]($|[._])")


def without_indices(name: str) -> str:
    """Return the name of a parameter with 0 for each index in it."""
    return re.sub(r"\d+", "0", name)


class Added(NamedTuple):
    """Biases.

    Attributes:
        by_row: What is added to each row of the projections, in the order in which they stand in the module.
        by_role: The same in the order queries, keys, values, head by head.
        to_output: What is added to the output, (d_out,).
    """

    by_row: Tensor
    by_role: Tensor
    to_output: Tensor


class CandidateLayouts:
    """The weight layouts that one construction of a learner's class may have.

    Args:
        reference: Constructs the right module.
        sizes: The sizes that the class was constructed with.
        arguments: As many of them as the class takes.
        causal: Whether later tokens are hidden.
        shapes: Name -> shape of its parameters, in order of registration.
        any_layout: Whether the task names no parameters, so that the reference's names mean nothing.
        rotary: Whether the reference rotates queries and keys, so that a layout's output is computed by it.
        earlier: The layouts of a construction with other sizes, which tell what a square matrix is.

    Attributes:
        by_name: Whether its matrices have the reference's names and shapes; then there is only one candidate.
        has_out_proj: Whether the reference has an output projection.
        biases: The names of parameters that are no matrices and are named like a bias.
        odd: The names of other parameters that are no matrices; they keep the values they were built with.
    """

    def __init__(
        self,
        reference: Callable[..., nn.Module],
        sizes: Sizes,
        arguments: Sequence[int],
        causal: bool,
        shapes: Mapping[str, tuple[int, ...]],
        any_layout: bool = False,
        rotary: bool = False,
        earlier: CandidateLayouts | None = None,
    ) -> None:
        self.sizes, self.causal, self.shapes, self.rotary = sizes, causal, shapes, rotary
        with torch.random.fork_rng(devices=[]):
            self.reference = reference(*arguments).double().eval()
        self.kinds = {name: parameter_kind(shape, sizes.d_in, sizes.d_out) for name, shape in shapes.items()}
        self.axes = {name: shapes[name].index(sizes.d_in) for name, kind in self.kinds.items() if kind == PROJECTION}
        learned = earlier is not None and self._learn(earlier)
        self.clear = learned or sizes.d_in not in (sizes.d_out, sizes.num_heads * sizes.head_dim)
        self.expected = {name: tuple(parameter.shape) for name, parameter in self.reference.named_parameters()}
        matrices = {name: shape for name, shape in shapes.items() if self.kinds[name] != BIAS}
        self.by_name = matrices == self.expected and not any_layout
        self.has_out_proj = any("out" in name for name in self.expected)
        self.second = self._second()
        vectors = [name for name, kind in self.kinds.items() if kind == BIAS]
        self.biases = [name for name in vectors if NAMED_LIKE_A_BIAS.search(name)]
        self.odd = [name for name in vectors if name not in self.biases]

    def _learn(self, earlier: CandidateLayouts) -> bool:
        """Read what each matrix is from its name in an earlier construction; return whether all names are known."""
        by_pattern: dict[str, set[tuple[str, int]]] = {}
        for name, kind in earlier.kinds.items():
            by_pattern.setdefault(without_indices(name), set()).add((kind, earlier.axes.get(name, 0)))
        kinds, axes = {}, {}
        for name in self.shapes:
            exact = {(earlier.kinds[name], earlier.axes.get(name, 0))} if name in earlier.kinds else set()
            found = exact or by_pattern.get(without_indices(name), set())
            if len(found) != 1:
                return False
            ((kinds[name], axes[name]),) = found
        self.kinds, self.axes = kinds, axes
        return True

    def _second(self) -> str:
        """Return the name of the queries' matrix that follows another one, in `nn.MultiheadAttention`, or ""."""
        for name, shape in self.shapes.items():
            others = [name.replace("q_proj_weight", f"{role}_proj_weight") for role in "kv"]
            square = name.endswith("q_proj_weight") and self.kinds[name] == OUTPUT and shape == (self.sizes.d_out,) * 2
            matrices = [one for one, kind in self.kinds.items() if kind == PROJECTION and len(self.shapes[one]) == 2]
            if square and len(matrices) == 3 and {*others} < {*matrices}:
                return name
        return ""

    def draw_weights(self, rng: InputGenerator) -> dict[str, Tensor]:
        """Draw weights like a trained module's, so that attention is neither uniform nor one-hot; biases are zero."""
        std = {PROJECTION: 1.5 * self.sizes.d_in**-0.5, OUTPUT: self.sizes.d_out**-0.5, BIAS: 0.0}
        drawn = {name: shape for name, shape in self.shapes.items() if name not in self.odd}
        return {
            name: rng.normal(math.prod(shape), std=std[self.kinds[name]]).view(shape) for name, shape in drawn.items()
        }

    def outputs(
        self,
        weights: Mapping[str, Tensor],
        x: Tensor,
        candidates: Sequence[int] | None = None,
        added: Added | None = None,
    ) -> dict[int, Tensor]:
        """Compute the output of each candidate layout.

        Args:
            weights: The weights of the learner's module.
            x: (batch, token, d_in).
            candidates: The indices of the candidates to compute; None computes all.
            added: The biases; names mean nothing then, so that these are other candidates than without biases.

        Returns:
            Index of a candidate -> (batch, token, d_out), the most likely first; empty where the weights fit none.
        """
        if self.by_name and added is None:
            return {0: self._by_reference({name: one for name, one in weights.items() if name in self.expected}, x)}
        rows, out_projs, orders = self._parts(weights)
        if rows is None or not out_projs or len(rows) != orders.shape[1]:
            return {}
        # A candidate is a row order, a way to merge the heads, and an output matrix.
        all_of_them = [
            VARIANTS * order + variant for variant in range(2 * len(out_projs)) for order in range(len(orders))
        ]
        indices = all_of_them if candidates is None else [one for one in candidates if one // VARIANTS < len(orders)]
        used = sorted({index // VARIANTS for index in indices})
        row_indices = orders[used].argsort(1)
        bias = added.by_row[row_indices] + added.by_role if added else rows.new_zeros(row_indices.shape)
        outputs = {}
        merged = [] if self.rotary else self._merged(rows[row_indices], bias, x)
        for index in indices:
            order, variant = divmod(index, VARIANTS)
            at, out_proj = used.index(order), out_projs[variant // 2]
            if self.rotary:
                named = self._named(rows[row_indices[at]], out_proj, by_element=bool(variant % 2))
                biases = zip(ROLES, bias[at].split(self.sizes.projected), strict=True)
                output = self._by_reference(named | {f"{role}.bias": own for role, own in biases if added}, x)
            else:
                output = merged[variant % 2][at] @ out_proj
            outputs[index] = output + added.to_output if added else output
        return outputs

    def named(self, weights: Mapping[str, Tensor]) -> list[dict[str, Tensor]]:
        """Give weights the reference's names, as the likeliest layouts do; no names where the layouts need none."""
        if self.by_name:
            return [{name: weights[name] for name in self.expected}]
        rows, out_projs, orders = self._parts(weights)
        if not self.rotary or rows is None or len(rows) != orders.shape[1]:
            return []
        return [self._named(rows[order.argsort()], out_proj) for order in orders[:4] for out_proj in out_projs]

    def _named(self, rows: Tensor, out_proj: Tensor, by_element: bool = False) -> dict[str, Tensor]:
        """Name rows in the canonical order and W^O, which heads enter one by one, or element by element."""
        if by_element:
            out_proj = out_proj.unflatten(0, (self.sizes.head_dim, -1)).transpose(0, 1).flatten(0, 1)
        named = zip(ROLES, rows.split(self.sizes.projected), strict=True)
        return {f"{role}.weight": weight for role, weight in named} | {"out_proj.weight": out_proj.mT}

    def _by_reference(self, weights: Mapping[str, Tensor], x: Tensor) -> Tensor:
        output = functional_call(self.reference, dict(weights), (x,))
        return output[0] if isinstance(output, tuple) else output  # a cache may come with it

    @property
    def output_elements(self) -> int:
        """How many elements the output projection should have; 0 without one."""
        return self.sizes.d_out * self.sizes.num_heads * self.sizes.value_dim if self.has_out_proj else 0

    def rows_of_matrices(self) -> dict[str, int]:
        """Return for each matrix that projects x how many rows it has, in the order in which rows are stacked."""
        shapes = ((name, shape) for name, shape in self.shapes.items() if self.kinds[name] == PROJECTION)
        return {name: math.prod(shape) // self.sizes.d_in for name, shape in shapes}

    def projections(self, weights: Mapping[str, Tensor], x: Tensor) -> list[Projections]:
        """Project x as the likeliest layouts do: roles one after the other, head by head, then packed by head."""
        rows, out_projs, orders = self._parts(weights)
        if rows is None or len(rows) != orders.shape[1]:
            return []
        if self.by_name:
            rows, orders = self._rows_by_name(weights), orders[:1]
        return [
            Projections(
                (x @ rows[order.argsort()].mT).split(self.sizes.projected, dim=-1),
                out_proj if self.has_out_proj else None,
            )
            for order in orders[:4]
            for out_proj in (out_projs[:1] if self.by_name else out_projs)
        ]

    def _rows_by_name(self, weights: Mapping[str, Tensor]) -> Tensor:
        """Stack the rows role by role: in the wrapper of heads each head holds its own three matrices."""
        roles = [[name for name in self.expected if role in name] for role in ROLES]
        return torch.cat([weights[name] for role in roles for name in role])

    def _parts(self, weights: Mapping[str, Tensor]) -> tuple[Tensor | None, list[Tensor], Tensor]:
        sizes = self.sizes
        weights = self._composed(weights)
        rows = stack_rows(self._of_kind(PROJECTION, weights), sizes.d_in, known=self.axes)
        orders = row_permutations(sizes.num_heads, sizes.num_kv_heads, sizes.head_dim, sizes.value_dim)
        return rows, self._output_matrices(self._of_kind(OUTPUT, weights)), orders

    def _composed(self, weights: Mapping[str, Tensor]) -> Mapping[str, Tensor]:
        """Join two matrices in a row: with kdim, `nn.MultiheadAttention` projects queries that are d_out wide."""
        if not self.second:
            return weights
        first = next(name for name, kind in self.kinds.items() if kind == PROJECTION)
        joined = weights[self.second] @ weights[first].movedim(self.axes[first], -1)
        rest = {name: weight for name, weight in weights.items() if name not in (first, self.second)}
        self.axes[self.second] = 1
        return {self.second: joined} | rest

    def _of_kind(self, kind: str, weights: Mapping[str, Tensor]) -> dict[str, Tensor]:
        kinds = self.kinds | ({self.second: PROJECTION} if self.second else {})
        return {name: weight for name, weight in weights.items() if kinds[name] == kind}

    def _merged(self, rows: Tensor, bias: Tensor, x: Tensor) -> tuple[Tensor, Tensor]:
        """Merge the context of all heads for each row order, one by one and by element: (order, b, t, h * d)."""
        counts = self.sizes.num_heads, self.sizes.num_kv_heads, self.sizes.num_kv_heads
        rows, bias = rows[:, None], bias[:, None, None]
        projected = zip((x @ rows.mT + bias).split(self.sizes.projected, dim=-1), counts, strict=True)
        split = (role.flatten(0, 1).unflatten(-1, (heads, -1)) for role, heads in projected)
        queries, keys, values = (role.transpose(1, 2) for role in split)
        context, _ = attend(queries, keys, values, causal=self.causal)
        context = context.unflatten(0, (len(rows), len(x)))  # (order, b, h, t, d)
        return context.permute(0, 1, 3, 2, 4).flatten(3), context.permute(0, 1, 3, 4, 2).flatten(3)

    def _output_matrices(self, matrices: Mapping[str, Tensor]) -> list[Tensor]:
        """Return the output projection, (h * d, d_out), as it is and transposed; empty if its parameters do not fit."""
        width, rows = self.sizes.d_out, self.sizes.num_heads * self.sizes.value_dim
        if not self.has_out_proj:
            return [] if matrices else [torch.eye(width, dtype=torch.float64)]
        stacks = [stack_rows(matrices, width, transposed) for transposed in (False, True)]
        return [stack for stack in stacks if stack is not None and len(stack) == rows]
