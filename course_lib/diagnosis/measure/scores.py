"""Find the query and the key that each score compares, and the values that it reaches."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from course_lib.tracing import UNLABELLED, Contraction, Operation, Value, propagate

from .dependence import SEVERAL, only_bit
from .projections import ColumnSet, column_sets
from .structure import AfterStructure, Structure

Side = tuple[Value, Tensor]  # a factor of a product, and the element that each term reads


@dataclass(frozen=True, eq=False)
class Factors:
    """The left or the right factors of all scores.

    Attributes:
        tokens: (score,), the token; SEVERAL if the elements belong to more than one.
        columns: the set of weight columns of each.
    """

    tokens: Tensor
    columns: list[ColumnSet]


@dataclass(frozen=True, eq=False)
class Scores(AfterStructure):
    """The scores of a run, indexed by the elements of all score products in order.

    Attributes:
        structure: with a value product.
        left, right: the factors of each score.
        samples: (score,), its sample.
        dot_products: (score,), of query and key.
        labels: per value of the run, for each element the score that it comes from.
    """

    left: Factors
    right: Factors
    samples: Tensor
    dot_products: Tensor
    labels: list[Tensor]

    def reaches(self, value: Value) -> bool:
        """Return whether any element of a value comes from a score."""
        return bool((self.labels[value.number] != UNLABELLED).any())

    def in_value(self, value: Value) -> set[int]:
        """Return the scores that the elements of a value come from."""
        return set(self.labels[value.number].flatten().tolist()) - {UNLABELLED}

    def first_unused(self, names: Sequence[str]) -> Operation | None:
        """Return the first operation on scores with one of these names whose result never reaches the output."""
        unused = (op for op in self.trace.operations if op.name in names and op.number not in self.run.live)
        return next((op for op in unused if op.outputs and op.where and self.reaches(op.outputs[0])), None)

    def origin_of(self, score: int) -> tuple[Contraction, int]:
        """Return the product that made a score, and the index of the score's element in its result."""
        for product in self.structure.score_products:
            count = product.out.tensor.numel()
            if score < count:
                return product, score
            score -= count
        raise IndexError(f"there are {len(self.dot_products)} scores.")

    def weights_and_values(self, product: Contraction) -> tuple[Side, Side]:
        """Return the factors of a value product, the attention weights first."""
        left, right = product.sides()
        return (left, right) if self.weights_side(product) == 0 else (right, left)

    def weights_side(self, product: Contraction) -> int:
        """Return which factor of a value product holds the attention weights: 0 for the left one, 1 for the right."""
        left, right = (self.reaches(value) for value, _ in product.sides())
        if left != right:
            return 0 if left else 1
        apart = self.dependence.keeps_tokens_apart
        return 1 if apart(product.left) and not apart(product.right) else 0

    def keys_are_right(self, product: Contraction) -> bool:
        """Return whether the keys are the right factors of the scores behind a value product."""
        return self._right_keys[product.operation.frames[:1]] >= 0

    @property
    def most_keys_are_right(self) -> bool:
        return sum(self._right_keys.values()) >= 0

    @cached_property
    def _right_keys(self) -> Counter:
        """For each line with a value product, how many more keys are right factors of a score than left factors.

        A key belongs to the token of its value. A single query and key can't decide, so all products of a line count.
        """
        found: Counter = Counter()
        for product in self.structure.value_products:
            (weights, weights_at), (values, values_at) = self.weights_and_values(product)
            labels = self.labels[weights.number].flatten()[weights_at]
            tokens = self.dependence.token_of(values).flatten()[values_at]
            left, right = (one.tokens[labels.clamp(min=0)] == tokens for one in (self.left, self.right))
            known = labels != UNLABELLED
            found[product.operation.frames[:1]] += int((right & known).sum() - (left & known).sum())
        return found


def find_scores(structure: Structure) -> Scores | None:
    """Index the scores and follow them through the run; None if none reaches a value product."""
    if not structure.value_products:
        return None
    start, count = {}, 0
    samples, dot_products = [], []
    for product in structure.score_products:
        out = product.out.tensor
        start[product.out.number] = count + torch.arange(out.numel()).view(out.shape)
        count += out.numel()
        bits = [structure.dependence.samples[v.number].flatten()[at[:, 0]] for v, at in product.sides()]
        samples.append(only_bit(bits[0] | bits[1]))
        left, right = (value.tensor.flatten()[at] for value, at in product.sides())
        dot_products.append(out.flatten() if structure.is_additive else (left * right).sum(1))
    left, right = _factors(structure, 0), _factors(structure, 1)
    labels = propagate(structure.trace, start)
    return Scores(structure, left, right, torch.cat(samples), torch.cat(dot_products), labels)


def _factors(structure: Structure, side: int) -> Factors:
    tokens: list[Tensor] = []
    columns: list[ColumnSet] = []
    for product in structure.score_products:
        value, at = product.sides()[side]
        token = structure.dependence.token_of(value).flatten()[at]
        most = token.amax(1, keepdim=True)  # elements of no token are padding
        same = ((token == most) | (token == UNLABELLED)).all(1)
        tokens.append(torch.where(same, most[:, 0], SEVERAL))
        columns += column_sets(structure.columns[value.number].flatten()[at])
    return Factors(torch.cat(tokens), columns)
