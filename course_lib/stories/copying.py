"""A start from which attention learns faster: each head writes the word that it looks at."""

import torch
from torch import Tensor, nn


@torch.no_grad()
def start_by_copying(attention: nn.Module) -> None:
    """Set W_O of each head to W_V^T, so that what a head reads from a word is added to the same directions.

        what a head adds for a word x = x W_V W_O = x W_V W_V^T

    Where the last layer compares with the word vectors themselves, a head that looks at a word then makes that word
    likelier as the next one before anything is learned, and only where to look remains to be found. A module without
    layers of these names, v_proj and out_proj, stays as it is.

    Args:
        attention: Multi-head attention in any of the course's forms. A wrapper has its heads in `heads`; one head that
            has no W_O becomes W_V = 1.

    Source: Trockman and Kolter, "Mimetic Initialization of Self-Attention Layers", 2023, whose sign is the other one.
    """
    out_proj = getattr(attention, "out_proj", None)
    heads = getattr(attention, "heads", None)
    values = [value_matrix(one) for one in (heads if isinstance(heads, nn.ModuleList) else [attention])]
    if not isinstance(out_proj, nn.Linear):
        if isinstance(values[0], Tensor) and values[0].shape[0] == values[0].shape[1]:
            nn.init.eye_(values[0])
    elif all(isinstance(one, Tensor) for one in values):
        stacked = torch.cat([one for one in values if one is not None])  # (g * d, m)
        copies = out_proj.in_features // len(stacked)  # heads that share a head of values
        by_head = stacked.unflatten(0, (getattr(attention, "num_kv_heads", len(values)), -1))  # (g, d, m)
        out_proj.weight.copy_(by_head.repeat_interleave(copies, dim=0).flatten(0, 1).T)


def value_matrix(attention: nn.Module) -> Tensor | None:
    """The matrix that makes values from a word's vector, (width of the values, width), or None."""
    v_proj, latent_proj = getattr(attention, "v_proj", None), getattr(attention, "latent_proj", None)
    if not isinstance(v_proj, nn.Linear):
        return None
    return v_proj.weight @ latent_proj.weight if isinstance(latent_proj, nn.Linear) else v_proj.weight
