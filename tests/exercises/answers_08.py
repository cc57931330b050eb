"""Answers to the exercises of lesson 08, right and wrong, as learners write them."""

import torch
import torch.nn.functional as F


def cross_by_loop(x, context, w_q, w_k, w_v):
    samples = []
    for asking, asked in zip(x, context, strict=True):
        scores = (asking @ w_q.T) @ (asked @ w_k.T).T / len(w_k) ** 0.5
        samples.append(torch.softmax(scores, 1) @ (asked @ w_v.T))
    return torch.stack(samples)


def cross_fused(x, context, w_q, w_k, w_v):
    return F.scaled_dot_product_attention(F.linear(x, w_q), F.linear(context, w_k), F.linear(context, w_v))


def cross_by_einsum(x, context, w_q, w_k, w_v):
    q, k, v = (torch.einsum("btm,dm->btd", *pair) for pair in ((x, w_q), (context, w_k), (context, w_v)))
    weights = torch.einsum("bqd,bkd->bqk", q, k).div(q.shape[-1] ** 0.5).softmax(-1)
    return torch.einsum("bqk,bkd->bqd", weights, v)


def cross(x, context, w_q, w_k, w_v, scale=None):
    q, k, v = x @ w_q.T, context @ w_k.T, context @ w_v.T
    return torch.softmax(q @ k.mT * (q.shape[-1] ** -0.5 if scale is None else scale), -1) @ v


def last_by_loop(outputs, lengths):
    return torch.stack([sample[length - 1] for sample, length in zip(outputs, lengths.tolist(), strict=True)])


def last_by_gather(outputs, lengths):
    index = (lengths - 1)[:, None, None].expand(-1, 1, outputs.shape[2])
    return outputs.gather(1, index).squeeze(1)


def last_by_mask(outputs, lengths):
    return outputs[torch.arange(outputs.shape[1]) == lengths[:, None] - 1]


def probe_by_list(code, tokens, real):
    together, found = code(tokens, real), []
    for row, kept, out in zip(tokens, real, together, strict=True):
        own = row[kept].unsqueeze(0)
        alone = code(own, torch.ones_like(own, dtype=torch.bool)).squeeze(0)
        found.append((out[kept] - alone).abs().max().item())
    return max(found)


def probe_by_table(code, tokens, real):
    alone = torch.zeros_like(code(tokens, real))
    for b in range(len(tokens)):
        alone[b][real[b]] = code(tokens[b][real[b]][None], real[b][real[b]][None])[0]
    return ((code(tokens, real) - alone).abs() * real[..., None]).max()


def padding_by_loop(lengths, batch):
    ordered, total = sorted(lengths.tolist()), 0
    for start in range(0, len(ordered), batch):
        group = ordered[start : start + batch]
        total += max(group) * len(group) - sum(group)
    return total


def padding_by_sum(lengths, batch):
    ordered = torch.sort(lengths, descending=False)[0]
    return sum(len(group) * group[-1].item() - group.sum().item() for group in ordered.split(batch))


def probe_by_stacking(code, tokens, real):
    together = code(tokens, real)
    outputs = [code(row[kept][None], kept[kept][None])[0] for row, kept in zip(tokens, real, strict=True)]
    return torch.max(torch.abs(together[real] - torch.cat(outputs)))


def padding_by_table(lengths, batch):
    ordered = lengths.sort().values
    last = torch.arange(len(ordered)) // batch * batch + batch - 1
    return int((ordered[last.clamp(max=len(ordered) - 1)] - ordered).sum())


RIGHT = {
    "last_real_output": [last_by_loop, last_by_gather, last_by_mask],
    "padding_of_sorted": [padding_by_loop, padding_by_sum, padding_by_table],
    "padding_probe": [probe_by_list, probe_by_table, probe_by_stacking],
    "cross_attention": [cross, cross_by_loop, cross_fused, cross_by_einsum],
    "patient_d": [lambda: "mask-rank", lambda: "Mask rank", lambda: "mask_rank"],
}

WRONG = {
    "last_real_output": [
        (lambda o, n: o[n - 1], "has the shape", "Which line decides this size?"),
        (lambda o, n: last_by_loop(o, n)[:, None], "has the shape"),
    ],
    "padding_of_sorted": [
        (lambda n, b: sum((g.max() - g).sum() for g in n.split(b)), "it should be"),
        (lambda n, b: int((n.max() - n).sum()), "it should be"),
        (lambda n, b: sum(int((g[0] - g).sum()) for g in n.sort(descending=True)[0].split(b)), "longest text first"),
    ],
    "padding_probe": [
        (lambda code, t, r: probe_by_list(code, t, r) > 1e-6, "it should be"),
    ],
    "cross_attention": [
        (lambda x, c, q, k, v: cross(x, c, q.T, k.T, v.T), "stopped", "RuntimeError"),
    ],
    "patient_d": [
        (lambda: "batch-mixed", "It is not `batch-mixed`"),
        (lambda: "mask-inverted", "It is not `mask-inverted`"),
        (lambda: "no padding", "No mistake is called"),
        (lambda: "missing-scale", "It is not `missing-scale`"),
        (lambda: "no-causal-mask", "It is not `no-causal-mask`"),
    ],
}
