"""Copies of memory that a run wrote into, from just before each write: what its tensors held until then."""

from bisect import bisect_left
from collections.abc import Iterable
from operator import itemgetter

import torch
from torch import Tensor

from course_lib.tracing import Layout, storage_of, torch_private

MOST_BYTES = 2**20  # of one memory
MOST_IN_ALL = 2**26


class Snapshots:
    """What the memories of a run held before each write.

    Attributes:
        lost: identities of the memories of which some copies are missing, because they are large: only what they hold
            after the run is known.
    """

    def __init__(self) -> None:
        self.lost: set[int] = set()
        self._copies: dict[int, list[tuple[int, torch.UntypedStorage]]] = {}  # identity -> (calls before, copy)
        self._left = MOST_IN_ALL

    def take(self, tensors: Iterable[Tensor], calls: int) -> None:
        """Copy the memories of tensors that the next call writes into, after so many calls."""
        for tensor in tensors:
            try:
                identity, memory = storage_of(tensor), tensor.detach().untyped_storage()
                size = memory.nbytes()
                if identity not in self.lost and size <= min(MOST_BYTES, self._left):
                    self._copies.setdefault(identity, []).append((calls, memory.clone()))
                    self._left -= size
            except (RuntimeError, NotImplementedError):  # sparse, fake or on the meta device
                continue

    def check(self, tensor: Tensor, calls: int) -> None:
        """Call a memory lost if no copy was taken before the call that wrote into this tensor."""
        identity = storage_of(tensor)
        copies = self._copies.get(identity, ())
        index = bisect_left(copies, calls, key=itemgetter(0))
        if index == len(copies) or copies[index][0] != calls:
            self.lost.add(identity)

    def at(self, tensor: Tensor, layout: Layout, calls: int) -> Tensor:
        """Return a tensor with the numbers that it had after so many calls; itself if none was overwritten since."""
        identity = storage_of(tensor)
        copies = self._copies.get(identity, ())
        index = bisect_left(copies, calls, key=itemgetter(0))
        if index == len(copies) or identity in self.lost:
            return tensor
        with torch_private.without_function_modes(), torch.inference_mode(False):
            empty = torch.empty(0, dtype=tensor.dtype, device=tensor.device)
            return empty.set_(copies[index][1], layout.offset, layout.shape, layout.stride)
