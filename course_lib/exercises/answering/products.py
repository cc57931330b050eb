"""Count what the matrix products of an answer cost. PyTorch's own counter takes seconds to import."""

from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode

aten = torch.ops.aten
PRODUCTS = {aten.mm, aten.bmm, aten.addmm, aten.baddbmm, aten.mv, aten.dot}


class Products(TorchDispatchMode):
    """While it is on, `count` grows by the multiplications of each product; fused attention is not counted."""

    count = 0

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        result = func(*args, **(kwargs or {}))
        if func.overloadpacket in PRODUCTS:
            self.count += result.numel() * args[-2].shape[-1]  # of the factor on the left
        return result
