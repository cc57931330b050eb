"""A head of a trained storyteller, as figures take it."""

from typing import NamedTuple

import torch
from torch import Tensor

from course_lib.stories import load_storyteller


class TrainedHead(NamedTuple):
    queries: Tensor  # (token, head_dim), as are keys and values
    keys: Tensor
    values: Tensor
    weights: Tensor  # (query, key), as the module returns them
    words: list[str]


def trained_head(text="Ida had a green cup. Ida held the green"):
    """Head 1 of the last block of the best storyteller, which looks back at what the next word has to repeat."""
    model = load_storyteller("best")
    attention, x = model.attentions[2], model.attention_inputs(text)[2]
    words, weights = model.attention_weights(text)
    parts = ("q_proj", 1), ("k_proj", 0), ("v_proj", 0)  # query heads 0 and 1 share kv head 0
    with torch.no_grad():
        by_head = {name: getattr(attention, name)(x)[0].unflatten(1, (-1, attention.head_dim)) for name, _ in parts}
    tables = [by_head[name][:, head] for name, head in parts]
    return TrainedHead(*tables, weights[2, 1], words)
