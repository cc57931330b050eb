"""Answers to the blanks of lesson 04, right and wrong, as learners write them."""

import torch


def slot_by_loop(strides, index):
    slot = 0
    for axis in range(len(strides)):
        slot += strides[axis] * index[axis]
    return slot


RIGHT = {
    "slot_of": [
        slot_by_loop,
        lambda strides, index: sum(a * b for a, b in zip(strides, index, strict=False)),
        lambda strides, index: int(torch.tensor(strides) @ torch.tensor(index)),
    ],
    "to_heads": [
        lambda x, h: x.unflatten(-1, (h, -1)).transpose(1, 2),
        lambda x, h: torch.stack(x.chunk(h, dim=-1), dim=1),
        lambda x, h: x.reshape(*x.shape[:2], h, -1).permute(0, 2, 1, 3),
    ],
    "from_heads": [
        lambda x: x.transpose(1, 2).flatten(2),
        lambda x: torch.cat(x.unbind(1), dim=-1),
        lambda x: x.permute(0, 2, 1, 3).contiguous().view(x.shape[0], x.shape[2], -1),
    ],
}

WRONG = {
    "to_heads": [
        (lambda x, h: x.transpose(1, 2).view(x.shape[0], h, x.shape[1], -1), "stopped", "RuntimeError"),
    ],
    "from_heads": [
        (lambda x: x.transpose(1, 2).view(x.shape[0], x.shape[2], -1), "stopped", "RuntimeError"),
    ],
}
