"""Open a checkpoint, and exchange the attention of each layer."""

import inspect
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from torch import nn

from course_lib.attention import LlamaAttention
from course_lib.wording import first_of, listed

from .checkpoint import Checkpoint
from .layer import LayerAttention

SETTINGS = (  # of transformers: name, the values that give Llama's attention as the course has it, remedy
    ("model_type", ("llama", "mistral"), "choose a model of one of these families"),
    ("quant_method", (None,), "choose weights that are not quantised"),
    ("attention_bias", (False,), "choose a model whose attention has no biases"),
    ("attention_dropout", (0.0,), "write 0.0 into config.json, as it acts in training alone"),
    (
        "sliding_window",
        (None,),
        "choose a model without a window, or write null into config.json for texts that fit in it",
    ),
    ("rope_type", ("default",), "choose a model whose positions are not scaled"),
)
UNFIT = (  # of what transformers reports: it would draw random weights, or leave some out
    ("missing_keys", "lack"),
    ("mismatched_keys", "have other sizes than config.json for"),
    ("unexpected_keys", "have what config.json has not, such as"),
)


def load_checkpoint(
    folder: str | Path,
    *,
    attention: Callable[..., nn.Module] = LlamaAttention,
    online: bool = False,
    dtype: torch.dtype = torch.float32,
) -> Checkpoint:
    """Open a published model of Llama's form, and put an attention of your own in the place of each layer's.

    The package transformers must be installed. Nothing is downloaded unless online=True.

    Args:
        folder: what `model.save_pretrained(folder)` wrote, `config.json` and `*.safetensors`; with online=True also a
            name on the Hugging Face hub, such as "HuggingFaceTB/SmolLM2-135M".
        attention: a class, or a function that builds a module, called for each layer as
            attention(d_model, num_heads, num_kv_heads=..., head_dim=..., rope_theta=...). Its parameters are the
            weights of q_proj, k_proj, v_proj and out_proj (or o_proj), (out, in) as in `nn.Linear`. It is causal, and
            called as module(x), with `positions=`, `keep=` and `cache=` where they are needed, as in `LlamaAttention`.
        online: whether transformers may look up on the hub a name that is no folder.
        dtype: dtype of the weights, whatever they are stored in; float32 shows differences best.

    Returns:
        The model in evaluation mode, with your attention and the trained weights.

    Raises:
        ValueError: no such folder, a file that is missing, a model whose attention is not of Llama's form, a parameter
            that does not fit; the message says what to do.
        TypeError: a folder that is no path, an attention that can't be called like this.
        ImportError: transformers is not installed, or older than version 5.

    Example:
        >>> checkpoint = load_checkpoint("smollm2", attention=MyAttention)
        >>> checkpoint.compare(token_ids)
        MyAttention computes what transformers computes: the logits differ by at most 3.3e-06.
    """
    if not isinstance(folder, (str, Path)):
        raise TypeError(f"folder must be a path, got {type(folder).__name__}.")
    if isinstance(attention, nn.Module) or not callable(attention):
        raise TypeError(
            f"attention must be a class or a function that builds a module, got a {type(attention).__name__} object."
        )
    model = _open(*_find(folder, online), dtype)
    config, replacements = model.config, []
    sizes = {
        "d_model": config.hidden_size,
        "num_heads": config.num_attention_heads,
        "num_kv_heads": config.num_key_value_heads,
        "head_dim": config.head_dim,
        "rope_theta": float(config.rope_parameters["rope_theta"]),
    }
    for index, layer in enumerate(model.model.layers):
        module = _build(attention, sizes).to(model.dtype)
        _copy_weights(layer.self_attn, module, sizes)
        replacements.append(LayerAttention(module, index, config.num_key_value_heads, config.head_dim))
    return Checkpoint(model, replacements)


def _find(folder: str | Path, online: bool) -> tuple[str, bool]:
    """Return what transformers is asked for, and whether it is a folder."""
    path = Path(folder).expanduser()
    if path.is_dir():
        for pattern, note in (("config.json", ""), ("*.safetensors", ", as pickled weights (*.bin) are not opened")):
            if not any(path.glob(pattern)):
                raise ValueError(
                    f"the folder {str(folder)!r} has no {pattern}: give one that model.save_pretrained wrote{note}."
                )
        return str(path), True
    if not online or isinstance(folder, Path):
        raise ValueError(
            f"there is no folder {str(folder)!r}: check its path, or, if it is a name on the Hugging Face hub, from "
            "which transformers may download, pass it as a string and online=True."
        )
    return folder, False


def _open(source: str, local: bool, dtype: torch.dtype) -> Any:
    """Return transformers' model, unless something in its settings or files speaks against it."""
    try:
        from transformers import AutoConfig, AutoModelForCausalLM
        from transformers.modeling_rope_utils import RopeParameters  # noqa: F401 (new in version 5)
    except ImportError as error:
        raise ImportError(
            "load_checkpoint needs the package transformers, version 5 or later: pip install -U transformers."
        ) from error
    with _errors_of(source):
        config = AutoConfig.from_pretrained(source, local_files_only=local, trust_remote_code=False)
    _check_settings(source, config)
    with _errors_of(source):
        loaded: Any = AutoModelForCausalLM.from_pretrained(
            source,
            config=config,
            dtype=dtype,
            attn_implementation="eager",  # whose softmax is in float32, too
            use_safetensors=True,
            local_files_only=local,
            trust_remote_code=False,
            output_loading_info=True,
            ignore_mismatched_sizes=True,  # and so they are listed, too
        )
    model, loading = loaded
    for kind, how in UNFIT:
        if names := sorted(name if isinstance(name, str) else name[0] for name in loading[kind]):
            raise ValueError(
                f"the weights in {source!r} {how} {first_of(names, 2, len(names))}: give all files of one model."
            )
    return model


@contextmanager
def _errors_of(source: str) -> Iterator[None]:
    try:
        yield
    except Exception as error:
        reason = f"{error}".strip().partition("\n")[0]
        raise ValueError(f"transformers can't open {source!r}: {type(error).__name__}: {reason}") from error


def _check_settings(source: str, config: Any) -> None:
    settings = config.to_dict()
    settings |= settings.get("rope_parameters") or {}
    if quantised := settings.get("quantization_config"):
        settings["quant_method"] = quantised.get("quant_method", "unknown")
    for name, values, remedy in SETTINGS:
        if settings.get(name, values[0]) not in values:
            wanted = " or ".join(map(repr, values))
            raise ValueError(f"{source!r} has {name}={settings[name]!r}, but only {wanted} can be taken: {remedy}.")


def _build(attention: Callable[..., nn.Module], sizes: dict[str, Any]) -> nn.Module:
    name = getattr(attention, "__name__", type(attention).__name__)
    options = dict(sizes)
    d_model, num_heads = options.pop("d_model"), options.pop("num_heads")
    try:
        inspect.signature(attention).bind(d_model, num_heads, **options)
    except TypeError as error:
        call = ", ".join(["d_model", "num_heads", *(f"{option}=..." for option in options)])
        raise TypeError(
            f"{name}({call}) can't be called ({error}): pass a function of these that calls {name}."
        ) from None
    with torch.random.fork_rng(devices=[]):  # its random weights are about to be replaced
        module = attention(d_model, num_heads, **options)
    if not isinstance(module, nn.Module):
        raise TypeError(f"attention must build a module, but {name} returned a {type(module).__name__} object.")
    return module


@torch.no_grad()
def _copy_weights(theirs: nn.Module, module: nn.Module, sizes: dict[str, Any]) -> None:
    name, parameters = type(module).__name__, dict(module.named_parameters())
    for wanted, weight in theirs.named_parameters():
        wanted = wanted if wanted in parameters else wanted.replace("o_proj", "out_proj")
        parameter = parameters.pop(wanted, None)
        if parameter is None or parameter.shape != weight.shape:
            found = "does not exist" if parameter is None else f"is {tuple(parameter.shape)}"
            setting = ", ".join(f"{size}={value}" for size, value in sizes.items())
            raise ValueError(
                f"{wanted} of {name} {found}, but the checkpoint's is {tuple(weight.shape)}: build it for {setting}."
            )
        parameter.copy_(weight)
    if parameters:
        raise ValueError(f"the checkpoint has no weights for {listed(parameters)} of {name}: build it without.")
