"""Answers to the blanks of lesson 09, right and wrong, as learners write them."""

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


RIGHT = {
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
    "window_mask": [
        (lambda n, w: window_by_loop(n, w + 1), "window-off-by-one", "too wide"),
        (lambda n, w: window_by_loop(n, w - 1), "window-off-by-one", "too narrow"),
        (lambda n, w: torch.ones(n, n).tril().bool(), "without a window"),
        (lambda n, w: window_by_loop(n, w) | window_by_loop(n, w).mT, "no-causal-mask"),
        (lambda n, w: ~window_by_loop(n, w), "mask-inverted"),
        (lambda n, w: window_by_loop(n, w).float(), "bool"),
        (lambda n, w: window_by_loop(n, 3), "it should be"),
    ],
    "sink_weights": [
        (lambda s, z: sink_by_formula(s, z, guard=False), "exp(1000) is infinite", "one score of each row"),
        (lambda s, z: s.softmax(-1), "without the sink"),
        (lambda s, z: torch.cat([s, z[:, None, None].expand(-1, s.shape[1], 1)], -1).softmax(-1), "column kept"),
        (lambda s, z: F.normalize(sink_by_formula(s, z), p=1, dim=-1), "or it cancels"),
        (lambda s, z: (s + z.view(-1, 1, 1)).softmax(-1), "or it cancels"),
        (lambda s, z: s.exp() / (s.exp().sum(-1, keepdim=True) + z.view(-1, 1, 1)), "without its exponential"),
        (lambda s, z: torch.cat([s, z], -1).softmax(-1)[..., :-1], "stopped"),
    ],
    "latent_queries": [
        (lambda q, w: q @ w.view(q.shape[2], q.shape[0], -1).transpose(0, 1), "dealt out to the heads in turn"),
        (lambda q, w: q @ w[: q.shape[2]], "the matrix of head 0"),
        (lambda q, w: queries_by_loop(q, w) / q.shape[2] ** 0.5, "that were scaled"),
        (lambda q, w: q @ w, "stopped"),
        (lambda q, w: queries_by_loop(q, w).transpose(0, 1), "queries as the first axis"),
    ],
    "gather_blocks": [
        (lambda m, t, n: m.flatten(0, 1)[:n], "whoever they belong to"),
        (lambda m, t, n: m[sorted(t)].flatten(0, 1)[:n], "in the order of the memory"),
        (lambda m, t, n: m[t].flatten(0, 1), "filled or not"),
        (lambda m, t, n: m[t], "has the shape"),
        (lambda m, t, n: m[t].transpose(0, 1).flatten(0, 1)[:n], "taken in turn"),
    ],
}
