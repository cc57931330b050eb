"""Answers to the blanks of lesson 16, right and wrong, as learners write them."""

import torch

from course_lib.distributed import assign_heads


def rows_by_loop(weight, device, num_devices):
    rows = weight.shape[0] // num_devices
    return torch.stack([weight[device * rows + row] for row in range(rows)])


def heads_by_list(device, num_devices, num_kv_heads):
    if num_kv_heads >= num_devices:
        share = num_kv_heads // num_devices
        return [device * share, share]
    return [device // (num_devices // num_kv_heads), 1]


def heads_by_search(device, num_devices, num_kv_heads):
    slots = num_devices * num_kv_heads  # as many query heads as both divide
    mine = range(device * num_kv_heads, (device + 1) * num_kv_heads)
    kv_heads = sorted({head * num_kv_heads // slots for head in mine})
    return kv_heads[0], len(kv_heads)


def heads_of_the_course(device, num_devices, num_kv_heads):
    kv_heads = assign_heads(device, num_devices, num_devices * num_kv_heads, num_kv_heads).kv_heads
    return kv_heads.start, len(kv_heads)


def seconds_by_loop(num_bytes, num_devices, bytes_per_second, latency):
    total = 0.0
    for _ in ("add up", "hand round"):
        for _ in range(num_devices - 1):
            total += latency + num_bytes / (num_devices * bytes_per_second)
    return total


RIGHT = {
    "cut_rows": [
        rows_by_loop,
        lambda w, i, n: w.chunk(n)[i],
        lambda w, i, n: w.view(n, -1, w.shape[1])[i],
        lambda w, i, n: torch.tensor_split(w, n, dim=0)[i],
        lambda w, i, n: w.narrow(0, i * (len(w) // n), len(w) // n),
    ],
    "cut_columns": [
        lambda w, i, n: w.chunk(n, dim=1)[i],
        lambda w, i, n: w.T.chunk(n)[i].T,
        lambda w, i, n: w.unflatten(1, (n, -1))[:, i],
        lambda w, i, n: w.split(w.shape[1] // n, dim=-1)[i].clone(),
    ],
    "kv_heads_of_device": [
        heads_by_list,
        heads_by_search,
        heads_of_the_course,
        lambda i, n, g: torch.tensor([i * g // n, max(g // n, 1)]),
    ],
    "all_reduce_seconds": [
        seconds_by_loop,
        lambda b, n, v, t: 2 * (n - 1) / n * b / v + 2 * (n - 1) * t,
        lambda b, n, v, t: torch.tensor(2.0 * (n - 1)) * (b / (n * v) + t),
    ],
}

WRONG = {
    "cut_rows": [
        (lambda w, i, n: w[i * n : (i + 1) * n], "it should be"),
        (lambda w, i, n: w[i * len(w) / n : (i + 1) * len(w) / n], "stopped", "TypeError"),
    ],
    "cut_columns": [
        (lambda w, i, n: w.split(w.shape[1] // 2, dim=1)[i % 2], "it should be"),
        (lambda w, i, n: w[:, i * (w.shape[1] // n) :], "all columns from the device's first one on"),
    ],
    "kv_heads_of_device": [
        (lambda i, n, g: (i * g / n, max(1, g / n)), "it should be"),
    ],
    "all_reduce_seconds": [
        (lambda b, n, v, t: 2 * (n - 1) * (b / n * v + t), "it should be"),
        (lambda b, n, v, t: 2 * (n - 1) * (b // n / v + t), "rounded down to whole bytes"),
        (lambda b, n, v, t: 2 * (n - 1) * b / n / v + 2 * t, "two latencies"),
        (lambda b, n, v, t: 2 * (n - 1) * (b / max(n - 1, 1) / v + t), "one piece fewer than there are devices"),
    ],
}
