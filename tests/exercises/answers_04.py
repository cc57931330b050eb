"""Answers to the exercises of lesson 04, right and wrong, as learners write them."""

import torch


def number_by_loop(memory, strides, index):
    slot = 0
    for axis in range(len(index)):
        slot += strides[axis] * index[axis]
    return memory[slot].item()


def split_by_cat(x, num_heads):
    width = x.shape[2] // num_heads
    heads = [x[:, :, head * width : (head + 1) * width] for head in range(num_heads)]
    return torch.stack(heads, dim=1)


def split_in_place(x, num_heads):
    x.mul_(1.5)
    return x.unflatten(2, (num_heads, -1)).transpose(1, 2)


def split_fixed(x, num_heads):
    return x.view(x.shape[0], 5, num_heads, -1).transpose(1, 2)


def merge_by_loop(x):
    batch, num_heads, num_tokens, head_dim = x.shape
    merged = torch.empty(batch, num_tokens, num_heads * head_dim, dtype=x.dtype)
    for head in range(num_heads):
        merged[:, :, head * head_dim : (head + 1) * head_dim] = x[:, head]
    return merged


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
        lambda x, h: x.reshape(*x.shape[:2], h, -1).permute(0, 2, 1, 3),
        lambda x, h: x.transpose(1, 2).unflatten(1, (h, -1)).transpose(2, 3),
    ],
    "merge_heads": [
        merge_by_loop,
        lambda x: x.transpose(1, 2).contiguous().view(x.shape[0], x.shape[2], -1),
        lambda x: torch.cat(list(x.unbind(1)), -1),
    ],
}

WRONG = {
    "number_at": [
        (lambda m, strides, index: m[sum(index)], "as if every step were one slot"),
        (
            lambda m, strides, index: m[sum(s * i for s, i in zip(reversed(strides), index, strict=True)) % len(m)],
            "read from the right",
        ),
        (lambda m, strides, index: sum(s * i for s, i in zip(strides, index, strict=True)), "the slot, not the number"),
        (
            lambda m, strides, index: m[sum(s * i for s, i in zip(strides, index, strict=True)) + 1],
            "one slot further on",
        ),
        (lambda m, strides, index: m[strides[0] * index[0] + strides[1] * index[1]], "Your result is"),
        (lambda m, strides, index: m[index], "stopped"),
        (lambda m, strides, index: str(m[0]), "it should be a number"),
    ],
    "strides_by_head": [
        (lambda t, h, d: (t * h * d, h * d, d, 1), "before the transpose"),
        (lambda t, h, d: torch.empty(1, h, t, d).stride(), "as if the numbers had moved"),
        (lambda t, h, d: (1, h, t, d), "the shape; the strides say"),
        (lambda t, h, d: [8 * t * h * d, 8 * d, 8 * h * d, 8], "in bytes; PyTorch counts"),
        (lambda t, h, d: (t * h * d, d, 1, h * d), "last two axes exchanged"),
        (lambda t, h, d: (d, h * d, 1), "without the batch"),
        (lambda t, h, d: (t, h, d, 1), "it should be (105, 7, 21, 1)"),
        (lambda t, h, d: t * h * d, "it should be 4 things"),
    ],
    "split_heads": [
        (lambda x, h: x.view(x.shape[0], h, x.shape[1], -1), "split-without-transpose"),
        (lambda x, h: x.view(*x.shape[:2], -1, h).permute(0, 3, 1, 2), "every h-th number"),
        (lambda x, h: x.view(*x.shape[:2], h, -1), "the fence without the move"),
        (lambda x, h: x.view(*x.shape[:2], h, -1).permute(0, 2, 3, 1), "last two axes exchanged"),
        (split_in_place, "input-modified"),
        (split_fixed, "is a size written into it"),
        (lambda x, h: torch.stack(x.split(x.shape[2] // h, 2)), "(head, batch, token, head_dim)"),
        (lambda x, h: x.chunk(h, -1), "gives back a tuple; it should be a tensor"),
    ],
    "merge_heads": [
        (lambda x: x.reshape(x.shape[0], x.shape[2], -1), "merge-without-transpose"),
        (lambda x: x.permute(0, 2, 3, 1).reshape(x.shape[0], x.shape[2], -1), "of the heads in turn"),
        (lambda x: x.mean(dim=1), "heads-averaged"),
        (lambda x: x.transpose(1, 2), "the transpose without the join"),
        (lambda x: x.transpose(1, 2).view(x.shape[0], x.shape[2], -1), "stopped", "RuntimeError"),
        (lambda x: torch.cat([x[:, -1 - i] for i in range(x.shape[1])], -1), "heads in reverse order"),
        (lambda x: x.flatten(1, 2), "one below the other"),
    ],
}
