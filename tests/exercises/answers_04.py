"""Answers to the exercises of lesson 04, right and wrong, as learners write them."""

from itertools import pairwise

import torch


def number_by_loop(memory, strides, index):
    slot = 0
    for axis in range(len(index)):
        slot += strides[axis] * index[axis]
    return memory[slot].item()


def split_by_cat(x, num_heads):
    width = x.shape[2] // num_heads
    heads = [x[:, :, head * width : (head + 1) * width].transpose(0, 1) for head in range(num_heads)]
    return torch.stack(heads, dim=1)


def merge_by_loop(x):
    num_heads, batch, num_tokens, head_dim = x.shape
    merged = torch.empty(batch, num_tokens, num_heads * head_dim, dtype=x.dtype)
    for head in range(num_heads):
        merged[:, :, head * head_dim : (head + 1) * head_dim] = x[head]
    return merged


def copy_by_trying(shape, strides, axis):
    size = 1 + sum((n - 1) * stride for n, stride in zip(shape, strides, strict=True))
    try:
        joined = (*shape[:axis], shape[axis] * shape[axis + 1], *shape[axis + 2 :])
        torch.empty(size).as_strided(shape, strides).view(joined)
    except RuntimeError:
        return True
    return False


def copy_by_slots(shape, strides, axis):
    last_of_row, next_row = (shape[axis + 1] - 1) * strides[axis + 1], strides[axis]
    return next_row - last_of_row != strides[axis + 1]


def copy_by_list(shape, strides, axis):
    slots = [i * strides[axis] + j * strides[axis + 1] for i in range(shape[axis]) for j in range(shape[axis + 1])]
    return len({after - before for before, after in pairwise(slots)}) > 1


RIGHT = {
    "number_at": [
        number_by_loop,
        lambda m, strides, index: torch.as_strided(m, [i + 1 for i in index], strides)[index],
        lambda m, strides, index: m[sum(map(int.__mul__, strides, index))],
    ],
    "strides_by_head": [
        lambda t, h, d: (t * h * d, d, h * d, 1),
        lambda t, h, d: torch.empty(1, t, h * d).view(1, t, h, d).transpose(1, 2).stride(),
        lambda t, h, d: [d * h * t, d, d * h, 1],
    ],
    "split_heads": [
        split_by_cat,
        lambda x, h: x.reshape(*x.shape[:2], h, -1).transpose(0, 1).transpose(1, 2),
        lambda x, h: x.permute(1, 2, 0).unflatten(1, (h, -1)).transpose(2, 3),
        lambda x, h: torch.einsum("tbhd->bhtd", x.unflatten(-1, (h, -1))),
    ],
    "merge_heads": [
        merge_by_loop,
        lambda x: x.permute(1, 2, 0, 3).contiguous().view(x.shape[1], x.shape[2], -1),
        lambda x: torch.cat(list(x), -1),
        lambda x: x.transpose(0, 1).transpose(1, 2).flatten(2),
    ],
    "needs_copy": [
        copy_by_trying,
        copy_by_slots,
        copy_by_list,
        lambda shape, strides, axis: strides[axis] / strides[axis + 1] != shape[axis + 1],
        lambda shape, strides, axis: torch.tensor(strides[axis] != shape[axis + 1] * strides[axis + 1]),
    ],
}

WRONG = {
    "number_at": [
        (lambda m, strides, index: m[index], "stopped"),
    ],
    "strides_by_head": [
        (lambda t, h, d: t * h * d, "it should be 4 values"),
    ],
    "split_heads": [
        (lambda x, h: x.chunk(h, -1), "gives back a tuple; it should be a tensor"),
    ],
    "merge_heads": [
        (lambda x: x.permute(1, 2, 0, 3).view(x.shape[1], x.shape[2], -1), "stopped", "RuntimeError"),
    ],
    "needs_copy": [
        (lambda shape, strides, axis: strides[axis + 1] != shape[axis] * strides[axis], "Your result is"),
        (lambda shape, strides, axis: shape.view(-1), "stopped", "AttributeError"),
    ],
}
