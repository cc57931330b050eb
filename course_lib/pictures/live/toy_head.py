"""The head of lessons 01 and 02, whose queries, keys and values can be drawn in the plane."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from course_lib.attention import SingleHeadAttention
from course_lib.inputs import dream_big

SEED, FACTOR = 99, 4  # as in the lessons: random weight matrices, larger than untrained ones so that a pattern shows
DIGITS = 4  # as many as the lessons print, and as every machine computes alike


class Projections(NamedTuple):
    """Queries, keys and values of the six words, each (token, width) = (6, 2)."""

    queries: Tensor
    keys: Tensor
    values: Tensor


def toy_projections() -> Projections:
    """Return the queries, keys and values of "Dream big and work for it" in the head of lessons 01 and 02."""
    with torch.random.fork_rng(devices=[]), torch.no_grad():
        torch.manual_seed(SEED)
        head = SingleHeadAttention(3, 2, causal=False)
        embeddings = dream_big().embeddings
        queries, keys = (FACTOR * project(embeddings) for project in (head.q_proj, head.k_proj))
        tables = (queries, keys, head.v_proj(embeddings))
        return Projections(*(table.double().round(decimals=DIGITS) for table in tables))
