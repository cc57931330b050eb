"""Replace quantised linear layers by plain ones with the weights that they stand for."""

from collections.abc import Iterator

import torch
from torch import Tensor, nn
from torch.nn.parameter import is_lazy

FEW_BITS = (torch.int8, torch.uint8, torch.int32, torch.float8_e4m3fn, torch.float8_e5m2)


def with_plain_linears(module: nn.Module) -> nn.Module:
    """Replace the quantised linear layers inside a module, in place, and return it.

    The weights of a layer are measured: x @ W.T + b is b for zeros and shows a row of W.T for each row of the identity.

    Raises:
        RuntimeError: a layer does not run, so that its weights are not known.
    """
    for name, layer in list(quantised_layers(module)):
        parent, _, attribute = name.rpartition(".")
        setattr(module.get_submodule(parent), attribute, _plain(name, layer))
    return module


def quantised_layers(module: object) -> Iterator[tuple[str, nn.Module]]:
    """Yield the name and layer of each linear layer whose weights are kept in fewer bits than they are used in."""
    outermost = ""
    for name, layer in module.named_modules() if isinstance(module, nn.Module) else ():
        inside = bool(outermost) and name.startswith(f"{outermost}.")
        if name and not inside and (hasattr(layer, "in_features") or "linear" in type(layer).__name__.lower()):
            tensors = [*layer.parameters(recurse=False), *layer.buffers(recurse=False)]
            kept = [tensor for tensor in tensors if not is_lazy(tensor)]
            if "quantized" in type(layer).__module__ or any(map(_is_quantised, kept)):
                outermost = name
                yield name, layer


def quantisation_note(module: object) -> str:
    """Return the sentence that names the quantised layers of a module; "" if it has none."""
    layers = dict(quantised_layers(module))
    kinds = ", ".join(sorted(set(map(_kind, layers.values()))))
    how = "with the plain weights that they stand for, so what quantising does to activations was not examined"
    return f"quantised layers ({kinds}: {', '.join(layers)}) were run {how}" if layers else ""


def _kind(layer: nn.Module) -> str:
    """Return the name of the layer, or of its weights' type if that is not a plain tensor."""
    weight = getattr(layer, "weight", None)
    named = isinstance(weight, Tensor) and type(weight) not in (Tensor, nn.Parameter)
    return type(weight).__name__ if named else layer._get_name()


def _is_quantised(kept: Tensor) -> bool:
    """Whether a tensor is a matrix of a few bits, or of a type that can be dequantised."""
    if kept.dim() > 1 and kept.dtype in FEW_BITS:
        return True
    return type(kept) not in (Tensor, nn.Parameter) and "dequantize" in vars(type(kept))


def _plain(name: str, layer: nn.Module) -> nn.Linear:
    kept = [*layer.parameters(), *layer.buffers()]
    declared = [getattr(layer, name, None) for name in ("in_features", "infeatures")]
    declared = [width for width in declared if isinstance(width, int)]
    widths = declared or sorted({size for tensor in kept if tensor.dim() == 2 for size in tensor.shape}, reverse=True)
    device = next((tensor.device for tensor in kept), torch.device("cpu"))
    failures: list[Exception] = []
    for width in widths:
        try:
            with torch.no_grad():
                return _measured(layer, width, device)
        except Exception as error:
            failures.append(error)
    reason = f"{type(failures[0]).__name__}: {failures[0]}".splitlines()[0] if failures else "its width is not known"
    raise RuntimeError(
        f"its layer {name} ({type(layer).__name__}) is quantised and does not run here ({reason}), so that its weights "
        f"are not known: give the model before it was quantised."
    )


def _measured(layer: nn.Module, width: int, device: torch.device) -> nn.Linear:
    bias = layer(torch.zeros(1, 1, width, device=device))[0, 0]
    rows = layer(torch.eye(width, device=device)[None])[0]
    plain = nn.Linear(width, rows.shape[1], device=device)
    plain.weight.copy_((rows - bias).T)
    plain.bias.copy_(bias)
    return plain
