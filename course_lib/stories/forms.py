"""The storytellers that come with the course: one for each form of attention, trained."""

from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple, cast

import numpy as np
import torch
from torch import nn

from course_lib.attention import (
    GroupedQueryAttention,
    LatentAttention,
    LlamaAttention,
    MultiHeadAttention,
    MultiHeadAttentionWrapper,
    MultiQueryAttention,
    SingleHeadAttention,
    check_at_least,
)
from course_lib.attention.convert import split_to_wrapper

from .storyteller import Block, MakeAttention, Storyteller

TRAINED = Path(__file__).parent / "trained"  # a file for each form
WINDOW = 16  # tokens
ROPE_THETA = 100.0  # texts are short: the slowest pair turns by half a circle within one


class Form(NamedTuple):
    """A form of attention, and the storyteller around it.

    Attributes:
        attention: Makes the attention from (width, width, num_heads).
        options: Of the Storyteller.
        steps: How long it is trained.
    """

    attention: MakeAttention
    options: Mapping[str, Any] = {}
    steps: int = 4000


def one_head(d_in: int, d_out: int, num_heads: int, **options: Any) -> SingleHeadAttention:
    """One head as wide as all the others have together."""
    return SingleHeadAttention(d_in, d_out, **options)


grouped_query = partial(GroupedQueryAttention, num_kv_heads=2)


def llama(d_in: int, d_out: int, num_heads: int, **options: Any) -> LlamaAttention:
    """Llama's attention, with two kv heads if nothing else is said."""
    return LlamaAttention(d_in, num_heads, **{"num_kv_heads": 2, "rope_theta": ROPE_THETA, **options})


def latent(d_in: int, d_out: int, num_heads: int) -> LatentAttention:
    """Latent attention, whose cache is as large as that of multi-query attention."""
    head_dim = d_in // num_heads
    return LatentAttention(
        d_in,
        num_heads,
        latent_dim=3 * head_dim // 2,
        head_dim=head_dim,
        rotary_dim=head_dim // 2,
        rope_theta=ROPE_THETA,
    )


ROTARY: Mapping[str, Any] = {"positions": False, "norm": nn.RMSNorm}
FORMS: Mapping[str, Form] = {
    "one head": Form(one_head),
    "weight split": Form(MultiHeadAttention),
    "multi-query": Form(MultiQueryAttention),
    "grouped-query": Form(grouped_query),
    "llama": Form(llama, ROTARY),
    "window": Form(partial(llama, window=WINDOW), ROTARY),
    "latent": Form(latent, ROTARY),
    "no positions": Form(MultiQueryAttention, {"positions": False}),
    "best": Form(grouped_query, {"width": 96, "num_blocks": 3}, steps=6000),
}


def new_storyteller(form: str, *, seed: int = 0) -> Storyteller:
    """A storyteller of a form with random weights.

    Raises:
        ValueError: No such form, or a seed below 0.
        TypeError: A seed that is not an integer.
    """
    check_at_least(0, seed=seed)
    if not isinstance(form, str) or form not in FORMS:
        raise ValueError(f"form is {form!r}: give one of {', '.join(map(repr, FORMS))}, or 'wrapper'")
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return Storyteller(FORMS[form].attention, **FORMS[form].options)


def file_of(form: str) -> Path:
    """The file of a form's trained weights."""
    return TRAINED / f"{form.replace(' ', '-')}.npz"


def load_storyteller(form: str = "multi-query") -> Storyteller:
    """A trained storyteller, in eval mode, on the CPU.

    Args:
        form: One of `FORMS`, or "wrapper": the weight split's matrices, head by head.

    Raises:
        ValueError: No such form, or the weights are of another vocabulary than the language has now.
    """
    if form == "wrapper":
        return as_wrapper(load_storyteller("weight split"))
    model = new_storyteller(form)
    with np.load(file_of(form), allow_pickle=False) as stored:
        weights = {name: torch.from_numpy(stored[name]).float() for name in stored.files}
    if len(weights["word_table.weight"]) != len(model.vocabulary):
        raise ValueError(
            f"{file_of(form).name} was trained on {len(weights['word_table.weight'])} words, and the language has "
            f"{len(model.vocabulary)}: run `course storyteller`."
        )
    model.load_state_dict(weights, strict=False)
    return model.eval()


def as_wrapper(model: Storyteller) -> Storyteller:
    """The same model with wrappers of heads in place of the weight split."""
    wrapper = model.like(MultiHeadAttentionWrapper)
    wrapper.load_state_dict(model.state_dict(), strict=False)
    for block, split in zip(wrapper.blocks, model.attentions, strict=True):
        cast(Block, block).attention = split_to_wrapper(cast(MultiHeadAttention, split))
    return wrapper.eval()


def save_weights(model: Storyteller, path: Path) -> None:
    """Store a model's parameters in half precision."""
    arrays = {name: parameter.detach().half().numpy() for name, parameter in model.named_parameters()}
    np.savez(path, allow_pickle=False, **arrays)
