"""A matrix that combines the heads, as talking heads have one, must not combine tokens."""

from collections.abc import Iterator

import torch

from course_lib.diagnosis.finding import Finding
from course_lib.diagnosis.measure import Structure
from course_lib.diagnosis.registry import rule
from course_lib.tracing import UNLABELLED, contractions, propagate


@rule()
def check_combined_tokens(structure: Structure) -> Iterator[Finding]:
    """Whether a matrix for heads combines tokens."""
    made, heads = structure.score_products[0].out, structure.run.options.num_heads
    queries, keys = made.tensor.shape[-2:] if made.tensor.dim() > 2 else (1, 1)
    if heads is None or heads not in (queries, keys) or len(structure.score_products) > 1:
        return
    learned = structure.run.parameter_storages
    start = torch.arange(made.tensor.numel()).view(made.tensor.shape)
    labels = propagate(structure.trace, {made.number: start})
    for product in contractions(structure.trace):
        for (value, at), (other, _) in (product.sides(), product.sides()[::-1]):
            behind = labels[value.number].flatten()[at]
            if other.storage not in learned or product.size != heads or (behind == UNLABELLED).any():
                continue
            of_head, query, key = behind // (queries * keys), behind // keys % queries, behind % keys
            same = [bool((one == one[:, :1]).all()) for one in (of_head, query, key)]
            if same[0] and same[1] != same[2]:
                evidence = (
                    f"a matrix for the {heads} heads sums the scores of each head over tokens: it runs with {heads} "
                    "tokens only, as there are as many heads"
                )
                where = product.operation.where
                yield Finding.unnamed("scores of tokens are combined in place of those of heads", evidence, where)
                return
