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
    "slot_of": [
        (lambda strides, index: sum(index), "sum of the index"),
        (lambda strides, index: slot_by_loop(strides[::-1], index), "read from the right"),
        (lambda strides, index: slot_by_loop(strides, index) + 1, "the slot after it"),
    ],
    "to_heads": [
        (lambda x, h: x.view(x.shape[0], h, x.shape[1], -1), "split-without-transpose"),
        (lambda x, h: x.view(*x.shape[:2], h, -1), "without the exchange"),
        (lambda x, h: x.view(*x.shape[:2], -1, h).permute(0, 3, 1, 2), "every h-th element"),
        (lambda x, h: x.transpose(1, 2).view(x.shape[0], h, x.shape[1], -1), "stopped", "RuntimeError"),
    ],
    "from_heads": [
        (lambda x: x.reshape(x.shape[0], x.shape[2], -1), "merge-without-transpose"),
        (lambda x: x.transpose(1, 2), "without the join"),
        (lambda x: x.transpose(1, 2).view(x.shape[0], x.shape[2], -1), "stopped", "RuntimeError"),
        (lambda x: x.mean(1), "heads-averaged"),
    ],
}
