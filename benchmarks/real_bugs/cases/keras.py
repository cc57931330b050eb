"""A bug of Keras (Apache-2.0) with its PyTorch backend; no release has it, because it was fixed before the next one."""

import os
from collections.abc import Callable
from typing import Any

from torch import Tensor

from benchmarks.real_bugs.case import Built

from .timm import HEADS, WIDTH, x_of

KERAS = "keras-team/keras"
NEEDS = ("absl-py==2.3.1", "namex==0.1.0", "h5py==3.14.0", "optree==0.17.0", "ml-dtypes==0.5.3")


def scores_returned(load: Callable[[str], Any]) -> Built:
    os.environ["KERAS_BACKEND"] = "torch"
    module = load("keras").layers.MultiHeadAttention(HEADS, WIDTH // HEADS)
    x = x_of()
    module(x, x)  # makes its weights

    def plain(module: Any, x: Tensor) -> Tensor:
        return module(x, x, use_causal_mask=True)

    def with_scores(module: Any, x: Tensor) -> Tensor:
        return module(x, x, use_causal_mask=True, return_attention_scores=True)[0]

    return Built(module, x, {"call": with_scores, "num_heads": HEADS}, plain=plain, other=plain)
