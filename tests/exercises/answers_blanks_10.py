"""Answers to the blanks of lesson 10, right and wrong, as learners write them."""

import torch
import torch.nn.functional as F


def window_by_loop(num_tokens, window):
    keep = torch.zeros(num_tokens, num_tokens, dtype=torch.bool)
    for query in range(num_tokens):
        keep[query, max(0, query - window + 1) : query + 1] = True
    return keep


def window_by_triangles(num_tokens, window):
    ones = torch.ones(num_tokens, num_tokens, dtype=torch.bool)
    return ones.tril() & ones.triu(1 - window)


def sink_by_formula(scores, sink_logits, guard=True):
    sinks = sink_logits.view(-1, 1, 1)
    largest = torch.maximum(scores.amax(-1, keepdim=True), sinks) if guard else 0.0
    exponentials = (scores - largest).exp()
    return exponentials / (exponentials.sum(-1, keepdim=True) + (sinks - largest).exp())


def sink_by_padding(scores, sink_logits):
    padded = F.pad(scores, (1, 0))
    padded[:, :, 0] = sink_logits[:, None]
    return padded.softmax(-1)[..., 1:]


def sink_by_log(scores, sink_logits):
    total = torch.logaddexp(scores.logsumexp(-1), sink_logits[:, None])
    return (scores - total[..., None]).exp()


def queries_by_loop(queries, key_up):
    return torch.stack([query @ part for query, part in zip(queries, key_up.chunk(len(queries)), strict=True)])


def blocks_by_loop(memory, block_table, length):
    size = memory.shape[1]
    return torch.stack([memory[block_table[at // size], at % size] for at in range(length)])


def blocks_by_index(memory, block_table, length):
    at = torch.arange(length)
    return memory[torch.tensor(block_table)[at // memory.shape[1]], at % memory.shape[1]]


def bits_by_loop(x, bits):
    rows = x.reshape(-1, x.shape[-1])
    steps = [row.abs().max() / (2 ** (bits - 1) - 1) for row in rows]
    return torch.stack([(row / step).round() * step for row, step in zip(rows, steps, strict=True)]).view(x.shape)


def bits_by_norm(x, bits):
    largest = (1 << bits - 1) - 1
    scale = torch.linalg.vector_norm(x, ord=torch.inf, dim=-1, keepdim=True)
    return torch.round(x * largest / scale) * scale / largest


def bits_by_step(divide):
    def round_to_bits(x, bits):
        step = x.abs().amax(-1, keepdim=True) / (2 ** (bits - 1) - 1)
        return divide(x, step) * step

    return round_to_bits


def bits_with_step_of_one(x, bits):
    step = x.abs().amax(-1, keepdim=True) / (2 ** (bits - 1) - 1)
    step = torch.where(step == 0, 1.0, step)
    return (x / step).round() * step


RIGHT = {
    "round_to_bits": [
        bits_by_loop,
        bits_by_norm,
        # a step of 0 is guarded against, or makes an integer of nan
        bits_with_step_of_one,
        bits_by_step(lambda x, step: (x / step.clamp(min=1e-12)).round()),
        bits_by_step(lambda x, step: (x / step).round().nan_to_num()),
        bits_by_step(lambda x, step: (x / (step + 1e-8)).round()),
        bits_by_step(lambda x, step: (x / step).round().to(torch.int8)),
    ],
    "window_mask": [window_by_loop, window_by_triangles],
    "sink_weights": [sink_by_formula, sink_by_padding, sink_by_log],
    "latent_queries": [
        queries_by_loop,
        lambda q, w: torch.einsum("hqd,hdl->hql", q, w.unflatten(0, (len(q), -1))),
        lambda q, w: torch.bmm(q, w.reshape(q.shape[0], q.shape[2], w.shape[1])),
    ],
    "gather_blocks": [
        blocks_by_loop,
        blocks_by_index,
        lambda m, t, n: torch.cat([m[block] for block in t])[:n],
    ],
}

WRONG = {
    "round_to_bits": [
        (lambda x, bits: bits_by_loop(x, bits + 1), "one bit more"),
        (
            lambda x, bits: (x / x.abs().max() * (2 ** (bits - 1) - 1)).round() * x.abs().max() / (2 ** (bits - 1) - 1),
            "be",
        ),
        (lambda x, bits: bits_by_loop(x, bits).int(), "should be"),
        (lambda x, bits: x.round(decimals=bits), "should be"),
    ],
    "window_mask": [
        (lambda n, w: window_by_loop(n, w).float(), "bool"),
        (lambda n, w: window_by_loop(n, 3), "it should be"),
    ],
    "sink_weights": [
        (lambda s, z: torch.cat([s, z], -1).softmax(-1)[..., :-1], "stopped"),
    ],
    "latent_queries": [
        (lambda q, w: q @ w, "stopped"),
    ],
    "gather_blocks": [
        (lambda m, t, n: m[t], "has the shape"),
    ],
}
