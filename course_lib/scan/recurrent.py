"""Find the layers that carry a state from token to token instead of comparing tokens."""

import re

from torch import nn

RECURRENT = re.compile(
    r"mamba|ssm|rwkv|recurrent|rglru|rg_lru|deltanet|linear_?attention|lightning|xlstm|gru|lstm", re.I
)


def recurrent_modules(model: nn.Module) -> dict[str, str]:
    """Return the name and class of each recurrent layer, without those inside it.

    A layer is recurrent if its name or class says so, or if it has a convolution along the tokens of each channel,
    whose last inputs are its state. The name of the family, which all classes share, says nothing about one of them.
    """
    family = re.split(r"For[A-Z]|Model|LM", type(model).__name__)[0]
    layers: dict[str, str] = {}
    for name, module in model.named_modules():
        inside = any(name.startswith(f"{outer}.") for outer in layers)
        if name and not inside and _is_recurrent(name.rpartition(".")[2], module, family):
            layers[name] = type(module).__name__
    if not layers and RECURRENT.search(family):
        return {name: type(child).__name__ for name, child in model.named_children()}
    return layers


def _is_recurrent(name: str, module: nn.Module, family: str) -> bool:
    kind = type(module).__name__.removeprefix(family)
    return bool(RECURRENT.search(name) or RECURRENT.search(kind) or any(map(_is_of_channels, module.children())))


def _is_of_channels(module: nn.Module) -> bool:
    return isinstance(module, nn.Conv1d) and module.groups == module.in_channels > 1
