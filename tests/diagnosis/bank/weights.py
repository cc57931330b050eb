"""The projections of a module as plain matrices, and attention that is computed from them step by step."""

from __future__ import annotations

from dataclasses import dataclass
from types import SimpleNamespace

from torch import Tensor

from course_lib.mutations import Attention, Projections


@dataclass(frozen=True)
class Weights:
    """The projections of a module, as matrices for `x @ W + b`.

    Attributes:
        q, k, v: (d_in, width over all heads); k and v may hold fewer heads.
        o: (width of the values over all heads, d_out), or None where there is no output projection.
        num_heads: of the queries.
        num_kv_heads: of keys and values.
        q_bias, k_bias, v_bias, o_bias: (width,), or None.
    """

    q: Tensor
    k: Tensor
    v: Tensor
    o: Tensor | None
    num_heads: int
    num_kv_heads: int
    q_bias: Tensor | None = None
    k_bias: Tensor | None = None
    v_bias: Tensor | None = None
    o_bias: Tensor | None = None


def run(attention: Attention, weights: Weights, x: Tensor, *, causal: bool = True) -> Tensor:
    """Compute the output, (batch, token, d_out), by these steps."""
    head_dim = weights.q.shape[1] // weights.num_heads
    sizes = SimpleNamespace(
        d_in=x.shape[-1],
        d_out=weights.q.shape[1],
        num_heads=weights.num_heads,
        num_kv_heads=weights.num_kv_heads,
        head_dim=head_dim,
    )
    matrices = ((weights.q, weights.q_bias), (weights.k, weights.k_bias), (weights.v, weights.v_bias))
    roles = tuple(x @ matrix if bias is None else x @ matrix + bias for matrix, bias in matrices)
    output = attention.output(Projections(roles, weights.o), sizes, causal)
    return output if weights.o_bias is None else output + weights.o_bias
