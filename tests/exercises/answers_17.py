"""Answers to the exercises of lesson 17, right and wrong, as learners write them."""

import torch
import torch.nn.functional as F


def loss_by_cross_entropy(scores, tokens):
    return F.cross_entropy(scores[:, :-1].flatten(0, 1), tokens[:, 1:].flatten())


def loss_by_loop(scores, tokens):
    terms = []
    for sample in range(len(tokens)):
        for t in range(tokens.shape[1] - 1):
            row = scores[sample, t] - scores[sample, t].max()
            terms.append(row.exp().sum().log() - row[tokens[sample, t + 1]])
    return sum(terms) / len(terms)


def loss_by_one_hot(scores, tokens):
    wanted = F.one_hot(tokens[:, 1:], scores.shape[-1]).to(scores.dtype)
    return (scores[:, :-1].logsumexp(-1) - (scores[:, :-1] * wanted).sum(-1)).mean()


def loss_that_overflows(scores, tokens):
    exponentials = scores[:, :-1].exp()
    shares = exponentials / exponentials.sum(-1, keepdim=True)
    return -shares.gather(-1, tokens[:, 1:, None]).log().mean()


def norm_by_loop(x, gain, shift):
    result = torch.empty_like(x)
    for sample in range(x.shape[0]):
        for t in range(x.shape[1]):
            row = x[sample, t]
            spread = row.var(correction=0) + 1e-5
            result[sample, t] = gain * (row - row.mean()) / torch.sqrt(spread) + shift
    return result


def temperature_by_hand(scores, temperature):
    cooled = scores / temperature
    shares = torch.exp(cooled - cooled.max(-1, keepdim=True).values)
    return shares / shares.sum(-1, keepdim=True)


def top_k_by_scatter(scores, k):
    best = scores.topk(k, -1)
    return torch.zeros_like(scores).scatter(-1, best.indices, best.values.softmax(-1))


def top_k_by_sorting(scores, k):
    places = scores.argsort(-1, descending=True).argsort(-1)
    return torch.where(places < k, scores, float("-inf")).softmax(-1)


def top_k_renormalized(scores, k):
    kept = F.softmax(scores, -1)
    kept = kept * (kept >= kept.topk(k).values[:, [-1]])
    return kept / kept.sum(-1, keepdim=True)


def parameters_by_modules(vocabulary, max_len, width, num_layers, kv_width):
    from torch import nn

    with torch.device("meta"):
        block = nn.ModuleList(
            [
                *(nn.Linear(width, wide, bias=False) for wide in (width, kv_width, kv_width, width)),
                nn.Linear(width, 4 * width),
                nn.Linear(4 * width, width),
                nn.LayerNorm(width),
                nn.LayerNorm(width),
            ]
        )
        once = nn.ModuleList([nn.Embedding(vocabulary, width), nn.Embedding(max_len, width), nn.LayerNorm(width)])
    size = [sum(p.numel() for p in part.parameters()) for part in (block, once)]
    return num_layers * size[0] + size[1]


def parameters_in_one_line(v, t, m, n, g):
    return m * (v + t + 2 + n * (10 * m + 2 * g + 9))


def parameters_of_each_layer(v, t, m, n, g):
    total = v * m + t * m + 2 * m
    for _ in range(n):
        total += m * m + m * g + m * g + m * m
        total += m * 4 * m + 4 * m
        total += 4 * m * m + m
        total += 2 * m + 2 * m
    return total


RIGHT = {
    "next_token_loss": [
        loss_by_cross_entropy,
        loss_by_loop,
        loss_by_one_hot,
        lambda s, t: F.cross_entropy(s[:, :-1].flatten(0, 1), t[:, 1:].flatten()).reshape(1),
    ],
    "layer_norm": [
        lambda x, gain, shift: F.layer_norm(x, x.shape[-1:], gain, shift),
        norm_by_loop,
        lambda x, g, s: (x - x.mean(-1)[..., None]) * (x.var(-1, keepdim=True, unbiased=False) + 1e-5) ** -0.5 * g + s,
    ],
    "with_temperature": [
        temperature_by_hand,
        lambda s, t: torch.softmax(s * (1 / t), 1),
        lambda s, t: torch.stack([F.softmax(row / t, dim=0) for row in s]),
    ],
    "top_k_probabilities": [top_k_by_scatter, top_k_by_sorting, top_k_renormalized],
    "gpt_parameters": [parameters_by_modules, parameters_in_one_line, parameters_of_each_layer],
}

WRONG = {
    "next_token_loss": [
        (lambda s, t: F.cross_entropy(s[:, :-1].flatten(0, 1), t[:, 1:].flatten(), reduction="none"), "shape"),
        (loss_that_overflows, "scores are about 1000"),
        (lambda s, t: F.cross_entropy(s[:, :-1], t[:, 1:]), "the classes on axis 1"),
    ],
    "layer_norm": [
        (lambda x, g, s: (x - x.mean(-1, keepdim=True)) / x.std(-1, keepdim=True) * g + s, "it should be"),
    ],
    "with_temperature": [
        (lambda s, t: (s / t).softmax(-1).argmax(-1), "shape"),
    ],
    "top_k_probabilities": [
        (lambda s, k: s.topk(k).indices, "shape"),
        (lambda s, k: s.masked_fill(s < s.topk(k).values.min(), -torch.inf).softmax(-1), "it should be"),
    ],
    "gpt_parameters": [
        (lambda v, t, m, n, g: str(parameters_in_one_line(v, t, m, n, g)), "it should be a number"),
    ],
}
