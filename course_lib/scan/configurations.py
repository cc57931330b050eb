"""Build tiny random models from the configurations of transformers; nothing is downloaded."""

import copy
import inspect
import re
from collections.abc import Iterator
from contextlib import suppress
from functools import cache
from typing import Any

import torch
from torch import Tensor, nn

VOCABULARY, MAX_TOKENS = 97, 64
MAX_PARAMETERS = 20_000_000
SOURCE = 13  # tokens of a context, more than a doctor's input has
WIDTH, HEADS, KV_HEADS, HEAD_DIM, HIDDEN, LAYERS, EXPERTS = 48, 4, 2, 12, 64, 2, 4
SIZES: dict[str, int] = {  # names of the fields of configurations -> a small size
    **dict.fromkeys(("vocab_size", "vocab_size_per_layer_input"), VOCABULARY),
    **dict.fromkeys(
        ("hidden_size", "n_embd", "d_model", "dim", "embed_dim", "embedding_size", "word_embed_proj_dim", "emb_dim"),
        WIDTH,
    ),
    **dict.fromkeys(
        ("num_hidden_layers", "n_layer", "n_layers", "num_layers", "decoder_layers", "encoder_layers",
         "encoder_num_hidden_layers", "decoder_num_hidden_layers", "num_encoder_layers", "num_decoder_layers"), LAYERS,
    ),
    **dict.fromkeys(
        ("num_attention_heads", "n_head", "n_heads", "num_heads", "decoder_attention_heads",
         "encoder_attention_heads", "num_decoder_attention_heads", "num_encoder_attention_heads",
         "encoder_num_attention_heads", "decoder_num_attention_heads", "encoder_num_key_value_heads",
         "decoder_num_key_value_heads"), HEADS,
    ),
    **dict.fromkeys(("num_key_value_heads", "num_kv_heads", "attention_num_kv_heads"), KV_HEADS),
    **dict.fromkeys(("head_dim", "attention_head_dim", "qk_nope_head_dim", "v_head_dim", "d_kv"), HEAD_DIM),
    "qk_rope_head_dim": HEAD_DIM, "kv_lora_rank": 16, "q_lora_rank": 20, "rotary_dim": 6,
    **dict.fromkeys(
        ("intermediate_size", "ffn_dim", "d_ff", "decoder_ffn_dim", "encoder_ffn_dim", "n_inner", "dim_ff",
         "ffn_hidden_size", "shared_intermediate_size", "expert_ffn_hidden_size"), HIDDEN,
    ),
    **dict.fromkeys(("moe_intermediate_size", "shared_expert_intermediate_size"), 32),
    **dict.fromkeys(
        ("max_position_embeddings", "n_positions", "n_ctx", "max_seq_len", "max_target_positions"), MAX_TOKENS
    ),
    **dict.fromkeys(("num_experts", "num_local_experts", "n_routed_experts", "moe_num_experts"), EXPERTS),
    **dict.fromkeys(("num_experts_per_tok", "moe_topk", "moe_k", "num_experts_per_token"), 2),
    **dict.fromkeys(("linear_key_head_dim", "linear_value_head_dim", "linear_head_dim"), HEAD_DIM),
    "linear_num_key_heads": KV_HEADS, **dict.fromkeys(("linear_num_value_heads", "linear_num_heads"), HEADS),
    "index_n_heads": HEADS, "index_topk": 2, "H_cycles": 1, "L_cycles": 2, "shared_experts_intermediate_size": 32,
    **dict.fromkeys(("pronunciation_vocab_size", "shape_vocab_size"), VOCABULARY),
    "n_group": 1, "topk_group": 1, "mamba_chunk_size": 8, "chunk_size": 8, "ssm_state_size": 16,
    "mamba_d_state": 16, "sliding_window": 4, "attention_window": 4, "first_k_dense_replace": 1,
    "attn_layer_period": 2, "attn_layer_offset": 1, "mamba_n_heads": 8, "mamba_d_head": HEAD_DIM,
    "max_source_positions": SOURCE, "pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2,
    "decoder_start_token_id": 1,
}  # fmt: skip
MIN_IDS, SAMPLES = 7, 3200
SPECTRUM = re.compile(r"mel|feat|^d_model$|^hidden_size$|num_bins", re.I)
OPTIONAL = {  # None by default in some families that need them
    "head_dim": HEAD_DIM,
    "num_key_value_heads": KV_HEADS,
    "attention_types": [[["global", "local"], 1]],
}
CHOICES = {
    "is_decoder": True,
    "causal": True,
    "attention_type": "original_full",
    "compress_rates": {"compressed_sparse_attention": 2, "heavily_compressed_attention": 4},
}  # a causal model, no block-sparse attention, and pieces of a few tokens
BIDIRECTIONAL = {"cpmant"}  # its prompt sees itself whole, although transformers lists it among the causal models
OF_FAMILY: dict[str, dict[str, Any]] = {  # what one family alone needs, by its model_type
    "zamba": {"layers_block_type": ["mamba", "hybrid"] * 2, "num_hidden_layers": 4},
    "zamba2": {"layers_block_type": ["mamba", "hybrid"] * 2, "num_hidden_layers": 4},
    "falcon_h1": {"mamba_d_ssm": 96},
    "granitemoehybrid": {"layer_types": ["linear_attention", "full_attention"]},
    "lfm2_moe": {"layer_types": ["conv", "full_attention"]},
    "bamba": {"attn_layer_indices": [1], "mamba_d_head": HEAD_DIM},
    "deepseek_v2": {"num_key_value_heads": HEADS, "num_experts_per_tok": 2, "topk_method": "greedy"},
    "dots1": {"n_routed_experts": EXPERTS, "num_experts_per_tok": 2, "n_shared_experts": 1, "n_group": 1,
              "topk_group": 1},
    "dots3_note_text": {
        "num_attention_heads": HEADS, "num_key_value_heads": HEADS, "swa_num_attention_heads": HEADS,
        "swa_num_key_value_heads": HEADS, "swa_q_lora_rank": 20, "swa_kv_lora_rank": 16, "swa_head_dim": 24,
        "swa_qk_nope_head_dim": HEAD_DIM, "swa_v_head_dim": HEAD_DIM, "kv_lora_rank": 16, "q_lora_rank": 20,
        "qk_nope_head_dim": HEAD_DIM, "qk_rope_head_dim": HEAD_DIM, "v_head_dim": HEAD_DIM, "head_dim": 24,
        "index_head_dim": 16,
    },
    "mamba2": {"expand": 1, "n_groups": 1},
    "longt5": {"local_radius": 3, "global_block_size": 4},
    "pegasus_x": {"block_size": 4, "num_global_tokens": 3},
    "reformer": {"axial_pos_embds": False, "attn_layers": ["local", "local"]},
    "stablelm": {"partial_rotary_factor": 0.5},
}  # fmt: skip
ATTEMPTS: tuple[frozenset[str], ...] = (  # fields that keep their defaults, because in some families others follow them
    frozenset(),
    frozenset({"head_dim", "attention_head_dim", "rotary_dim"}),
    frozenset({"sliding_window", "layer_types"}),
    frozenset({"num_key_value_heads", "num_kv_heads"}),
    frozenset({"num_hidden_layers", "n_layer", "num_layers", "layer_types"}),
    frozenset({"qk_rope_head_dim", "qk_nope_head_dim", "v_head_dim", "head_dim"}),
)


class NotBuilt(RuntimeError):
    """No tiny model of a family could be built; the message says why."""


def families() -> list[str]:
    """Return the names of the families of decoders and encoder-decoders in the installed transformers.

    A family of both has two names, such as "bart" for its decoder alone and "bart:encoder-decoder".
    """
    return sorted(_classes().keys() - BIDIRECTIONAL)


def tiny_model(family: str, *, seed: int = 0) -> nn.Module:
    """Build a model of a family with a small configuration and random weights.

    Args:
        family: the name of a family in transformers, such as "llama" or "t5".
        seed: of the weights, which are larger than at the start of training, so that attention is not flat.

    Raises:
        ValueError: transformers has no decoder or encoder-decoder of this family.
        NotBuilt: no small configuration of it runs.
    """
    classes = _classes()
    if family not in classes:
        raise ValueError(
            f"family must be one of transformers' decoder models or encoder-decoders, such as 'llama', got {family!r}."
        )
    import transformers

    try:
        return _first_that_runs(getattr(transformers, classes[family]), seed)
    except NotBuilt:
        raise
    except Exception as error:  # a family may need another package
        raise NotBuilt(f"{type(error).__name__}: {error}".splitlines()[0]) from error


def tiny_ids(batch: int, num_tokens: int) -> Tensor:
    """Return token ids for a tiny model, (batch, token), none of which is special."""
    return torch.randint(3, VOCABULARY - 4, (batch, num_tokens), generator=torch.Generator().manual_seed(1))


def tiny_context(model: Any, batch: int) -> Tensor | None:
    """Return what the encoder of a tiny model takes, (batch, token) ids or (batch, ...) features; None for a decoder.

    Raises:
        NotBuilt: nothing that is tried runs.
    """
    if not getattr(model.config, "is_encoder_decoder", False):
        return None
    ids = tiny_ids(batch, MIN_IDS)
    failure: Exception | None = None
    for context in _contexts(model, batch):
        with torch.no_grad():
            try:
                model(**{model.main_input_name: context}, decoder_input_ids=ids)
            except Exception as error:
                failure = failure or error
                continue
        return context
    raise NotBuilt(f"{type(failure).__name__}: {failure}".splitlines()[0]) from failure


def _contexts(model: Any, batch: int) -> Iterator[Tensor]:
    """Yield inputs of an encoder: ids, spectra with their widths before or after the frames, or samples of sound."""
    if model.main_input_name == "input_ids":
        yield tiny_ids(batch, SOURCE)
        return
    generator = torch.Generator().manual_seed(2)
    numbers = [value for name, value in vars(model.config).items() if SPECTRUM.search(name) and isinstance(value, int)]
    for width in dict.fromkeys(numbers):
        yield torch.randn(batch, width, 2 * SOURCE, generator=generator)
        yield torch.randn(batch, 4 * SOURCE, width, generator=generator)
    yield torch.randn(batch, SAMPLES, generator=generator)


@cache
def _classes() -> dict[str, str]:
    from transformers.models.auto import modeling_auto
    from transformers.models.auto.configuration_auto import CONFIG_MAPPING

    decoders = modeling_auto.MODEL_FOR_CAUSAL_LM_MAPPING_NAMES
    others = {
        **modeling_auto.MODEL_FOR_SPEECH_SEQ_2_SEQ_MAPPING_NAMES,
        **modeling_auto.MODEL_FOR_SEQ_TO_SEQ_CAUSAL_LM_MAPPING_NAMES,
    }
    both: dict[str, Any] = {}
    for name, kind in others.items():
        with suppress(Exception):  # of a configuration that needs two others, or another package
            both |= {name: kind} if CONFIG_MAPPING[name]().is_encoder_decoder else {}
    named = {f"{name}:encoder-decoder" if name in decoders else name: kind for name, kind in both.items()}
    return {name: kind if isinstance(kind, str) else kind[0] for name, kind in {**decoders, **named}.items()}


def _first_that_runs(kind: Any, seed: int) -> nn.Module:
    failures = []
    for config in _small_configurations(kind.config_class):
        try:
            small = config()
            # Its fused kernel for experts takes no float64, in which a scan and the doctor compare.
            small._experts_implementation = "eager"
            _check_size(kind, small)
            with torch.random.fork_rng(devices=[]), torch.no_grad():
                torch.default_generator.manual_seed(seed)
                model = kind(small).eval()
                _draw_weights(model)
                if tiny_context(model, 1) is None:
                    model(input_ids=tiny_ids(1, MIN_IDS))
            return model
        except Exception as error:
            failures.append(f"{type(error).__name__}: {error}".splitlines()[0])
    raise NotBuilt(failures[0])


def _check_size(kind: Any, config: Any) -> None:
    """Refuse a configuration that stayed large, before its weights are drawn.

    Raises:
        NotBuilt: it has too many parameters.
    """
    with torch.device("meta"):
        count = sum(parameter.numel() for parameter in kind(copy.deepcopy(config)).parameters())
    if count > MAX_PARAMETERS:
        raise NotBuilt(f"its smallest configuration has {count:,} parameters")


def _small_configurations(kind: Any) -> Iterator[Any]:
    """Yield functions that make configurations, to try in turn."""
    # latent attention wants as many kv heads; two kinds of layers in a cycle of three want three layers
    for more in ({}, OPTIONAL, {"num_key_value_heads": HEADS}, {"num_hidden_layers": 3}):
        yield lambda more=more: kind(**_fields(kind, ATTEMPTS[0]) | more)
    for kept in ATTEMPTS[1:]:
        yield lambda kept=kept: kind(**_fields(kind, kept))
    for kept in ATTEMPTS[:3]:
        yield lambda kept=kept: _shrunk(kind(), kept)


def _fields(kind: Any, kept: frozenset[str]) -> dict[str, Any]:
    default = kind()
    family_fields = OF_FAMILY.get(kind.model_type, {})
    parts = getattr(kind, "sub_configs", {})
    fields = {
        name: value
        for name, value in {**SIZES, **CHOICES}.items()
        if name not in kept and _replaceable(default, name, value)
    }
    kinds = getattr(default, "layer_types", None)
    if isinstance(kinds, list) and "layer_types" not in kept and "layer_types" in inspect.signature(kind).parameters:
        fields["layer_types"] = _both(kinds)
        fields["num_hidden_layers"] = len(fields["layer_types"])
    fields |= family_fields
    for name, part in parts.items():
        if isinstance(part, type) and hasattr(part, "model_type") and getattr(default, name, None) is not None:
            fields[name] = _fields(part, kept)
    return fields


def _shrunk(config: Any, kept: frozenset[str]) -> Any:
    """Set the small values in a configuration and its parts."""
    for name, value in {**SIZES, **CHOICES}.items():
        if name not in kept and _replaceable(config, name, value):
            setattr(config, name, value)
    for part in list(vars(config).values()):
        if hasattr(part, "model_type"):
            _shrunk(part, kept)
    return config


def _replaceable(config: Any, name: str, value: Any) -> bool:
    """Whether the configuration has such a field and does not switch it off with a 0."""
    try:
        now = getattr(config, name, None)
    except Exception:  # a field that differs per layer
        return False
    return type(now) is type(value) and (isinstance(now, bool) or now != 0)


def _both(kinds: list[str]) -> list[str]:
    """Return a layer of each kind, and at least two layers."""
    each = list(dict.fromkeys(kinds))
    return each if len(each) > 1 else each * LAYERS


def _draw_weights(model: nn.Module) -> None:
    """Draw weights that are large enough for attention to depend on the tokens."""
    for name, parameter in model.named_parameters():
        if not parameter.is_floating_point() or not parameter.requires_grad:  # such as a table of sines
            continue
        if parameter.dim() > 1 and "conv" not in name:
            parameter.normal_(0, 0.2)
        else:
            parameter.add_(torch.randn_like(parameter), alpha=0.1)
