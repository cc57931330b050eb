"""A head of a trained storyteller, as figures take it."""

from typing import NamedTuple

import torch
from torch import Tensor

from course_lib.stories import load_storyteller, words


class TrainedHead(NamedTuple):
    queries: Tensor  # (token, head_dim), as are keys and values
    keys: Tensor
    values: Tensor
    weights: Tensor  # (query, key), as the module returns them
    words: list[str]


def trained_head(text="Ida had a green cup. Ida held the green"):
    """Head 1 of the last block of the best storyteller, which looks back at what the next word has to repeat."""
    model, seen = load_storyteller("best"), []
    attention = model.attentions[2]
    hook = attention.register_forward_pre_hook(lambda _, inputs: seen.append(inputs[0]))
    with torch.no_grad(), hook:
        model(model.encode(text))
        _, weights = attention(seen[0], return_weights=True)
        parts = ("q_proj", 1), ("k_proj", 0), ("v_proj", 0)  # query heads 0 and 1 share kv head 0
        width = attention.head_dim
        tables = [getattr(attention, name)(seen[0])[0].unflatten(1, (-1, width))[:, head] for name, head in parts]
    return TrainedHead(*tables, weights[0, 1], ["start", *words(text)])
