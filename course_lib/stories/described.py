"""A storyteller as plain data, from which its arithmetic can be repeated outside of PyTorch."""

from collections.abc import Iterator
from functools import partial
from itertools import product
from typing import Any

import torch
from torch import Tensor, nn

from course_lib.attention import (
    GroupedQueryAttention,
    LatentAttention,
    LlamaAttention,
    MultiHeadAttention,
    MultiHeadAttentionWrapper,
    MultiQueryAttention,
    SingleHeadAttention,
)
from course_lib.attention.convert import wrapper_to_split

from .exchange import around, read_weights
from .forms import ROPE_THETA, WINDOW, latent, llama, one_head
from .storyteller import MakeAttention, Storyteller

COURSE_FORMS = (
    GroupedQueryAttention,
    LatentAttention,
    LlamaAttention,
    MultiHeadAttention,
    MultiHeadAttentionWrapper,
    MultiQueryAttention,
    SingleHeadAttention,
)
CLOSE = 1e-3  # of logits


def described(model: Storyteller) -> dict[str, Any]:
    """Everything that the logits are computed from: tensors, and the numbers that say how they are used.

    Args:
        model: A storyteller whose attention is of one of the course's classes, see `in_course_form`.

    Raises:
        ValueError: A norm that is neither nn.LayerNorm nor nn.RMSNorm.
    """
    blocks: Any = model.blocks
    return {
        "words": model.word_table.weight,  # also the last layer
        "word_scale": model.word_table.embedding_dim**0.5 / 2,
        "positions": model.position_table,
        "max_len": model.max_len,
        "blocks": [
            {
                "attention_norm": _norm(block.attention_norm),
                "attention": _attention(block.attention),
                "mlp_norm": _norm(block.mlp_norm),
                "up": {"weight": block.mlp[0].weight, "bias": block.mlp[0].bias},
                "down": {"weight": block.mlp[2].weight, "bias": block.mlp[2].bias},
            }
            for block in blocks
        ],
        "norm": _norm(model.norm),
    }


def _norm(norm: nn.Module) -> dict[str, Any]:
    """A norm: what is subtracted and what is divided by come from the vector, a factor and a sum from training."""
    if not isinstance(norm, (nn.LayerNorm, nn.RMSNorm)):
        raise ValueError(f"the norm of the model is {type(norm).__name__}: use nn.LayerNorm or nn.RMSNorm")
    weight = torch.ones(norm.normalized_shape) if norm.weight is None else norm.weight
    eps = torch.finfo(weight.dtype).eps if norm.eps is None else norm.eps
    return {
        "weight": weight,
        "bias": getattr(norm, "bias", None),
        "eps": eps,
        "centred": isinstance(norm, nn.LayerNorm),
    }


def _attention(module: Any) -> dict[str, Any]:
    """Attention of any of the course's forms.

    In each, queries come from x, and keys and values from x, or from a few numbers that are made from it. The last
    numbers of each query and key may be rotated, and consecutive query heads may share keys and values.
    """
    if isinstance(module, MultiHeadAttentionWrapper):
        module = wrapper_to_split(module)
    many = {"heads": getattr(module, "num_heads", 1), "kv_heads": getattr(module, "num_kv_heads", 1)}
    common = {
        **many,
        "window": module.window,
        "sinks": module.num_sinks,
        "rates": _rates(module.rotary_dim, module.rope_theta) if hasattr(module, "rotary_dim") else [],
    }
    if isinstance(module, LatentAttention):
        return common | _latent(module)
    out_proj = getattr(module, "out_proj", None)
    return common | {
        "latent": None,
        "queries": _linear(module.q_proj),
        "keys": _linear(module.k_proj),
        "values": _linear(module.v_proj),
        "output": None if out_proj is None else _linear(out_proj),
    }


def _latent(module: LatentAttention) -> dict[str, Any]:
    """Each query and key is what has no positions and then what has; the latter part of the keys passes as it is."""
    heads, rotary = module.num_heads, module.rotary_dim
    passed = torch.eye(rotary).expand(heads, -1, -1)  # (h, r, r)
    queries = [each.weight.unflatten(0, (heads, -1)) for each in (module.q_proj, module.rotary_q_proj)]  # (h, d, m)
    keys, values = (each.weight.unflatten(0, (heads, -1)) for each in (module.k_proj, module.v_proj))  # (h, d, l)
    blocks = [torch.block_diag(key, one) for key, one in zip(keys, passed, strict=True)]  # each (d + r, l + r)
    return {
        "latent": {
            "weight": torch.cat([module.latent_proj.weight, module.rotary_k_proj.weight]),  # (l + r, m)
            "bias": None,
            "norm": _norm(module.latent_norm),  # of the first l numbers
        },
        "queries": {"weight": torch.cat(queries, dim=1).flatten(0, 1), "bias": None},
        "keys": {"weight": torch.cat(blocks), "bias": None},
        "values": {"weight": nn.functional.pad(values.flatten(0, 1), (0, rotary)), "bias": None},
        "output": _linear(module.out_proj),
    }


def _linear(layer: nn.Linear) -> dict[str, Tensor | None]:
    return {"weight": layer.weight, "bias": layer.bias}


def _rates(rotary_dim: int, theta: float) -> list[float]:
    """The angle of each pair at position 1, as float32 has it."""
    return (1.0 / theta ** (torch.arange(0, rotary_dim, 2, dtype=torch.float32) / rotary_dim)).tolist()


def in_course_form(model: Storyteller) -> Storyteller:
    """The same storyteller with attention of one of the course's classes: the model itself, or one with its weights.

    Raises:
        ValueError: Its attention computes something else; the message says what the doctor finds.
    """
    if all(_is_plain(attention) for attention in model.attentions):
        return model
    tokens = torch.randint(len(model.vocabulary), (1, model.max_len), generator=torch.Generator().manual_seed(0))
    with torch.no_grad(), torch.random.fork_rng(devices=[]):
        expected = model(tokens)
        for attention in _forms(model):
            other = around(model, attention)
            pairs = zip(other.attentions, model.attentions, strict=True)
            if not all(read_weights(form, theirs, model.options["width"]) for form, theirs in pairs):
                continue
            if torch.allclose(other(tokens), expected, rtol=CLOSE, atol=CLOSE):
                return other
    raise ValueError(_refusal(model))


def _is_plain(attention: Any) -> bool:
    parts = attention.heads if isinstance(attention, MultiHeadAttentionWrapper) else [attention]
    return type(attention) in COURSE_FORMS and all(
        part.causal and getattr(part, "sink_logits", None) is None for part in parts
    )


def _forms(model: Storyteller) -> Iterator[MakeAttention]:
    """The course's forms that a storyteller's attention may be equal to."""
    heads = model.options["num_heads"]
    shared = [number for number in range(1, heads + 1) if heads % number == 0]
    bias = any(name.endswith("bias") and one.any() for name, one in model.attentions[0].named_parameters())
    yield partial(one_head, bias=bias)
    for out_proj in (True, False):
        for number in shared:
            yield partial(GroupedQueryAttention, num_kv_heads=number, bias=bias, out_proj=out_proj)
    for number, window, theta in product(shared, (None, WINDOW), (ROPE_THETA, 10000.0)):
        yield partial(llama, num_kv_heads=number, window=window, rope_theta=theta)
    yield latent


def _refusal(model: Storyteller) -> str:
    """Why a model can't be described: what the doctor finds in its attention."""
    from course_lib.diagnosis import diagnose  # not above: it takes long

    width, heads = model.options["width"], model.options["num_heads"]
    x = torch.randn(2, 5, width, generator=torch.Generator().manual_seed(0))
    for attention in model.attentions:
        report = diagnose(attention, x, num_heads=heads, call=lambda code, x: code(x))
        found = [each for each in report.findings if each.examined and each.in_plain_run]
        if found:
            name = f" ({found[0].mistake})" if found[0].mistake else ""
            where = f", {found[0].where}" if found[0].where else ""
            title = found[0].title.rstrip(".")
            return f"{type(attention).__name__} has a mistake{name}{where}: {title}. Fix it first."
    return (
        f"{type(model.attentions[0]).__name__} computes what none of the course's forms does, though the doctor "
        "finds nothing wrong in it: use one of them, or a class that computes the same"
    )
