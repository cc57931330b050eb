"""Answers to the blanks of lesson 00, right and wrong, as learners write them."""

import torch
import torch.nn.functional as F


def embed_by_loop(sentence, vocabulary, table):
    embeddings = []
    for token in sentence.split(" "):
        for number, word in enumerate(vocabulary):
            if word == token:
                embeddings.append(table[number])
    return torch.stack(embeddings)


def embed_by_dictionary(sentence, vocabulary, table):
    row = dict(zip(vocabulary, table, strict=True))
    return torch.stack([row[token] for token in sentence.split()])


def embed_by_one_hot(sentence, vocabulary, table):
    numbers = torch.tensor([vocabulary.index(token) for token in sentence.split()])
    return F.one_hot(numbers, len(vocabulary)).to(table.dtype) @ table


def blend_by_loop(embeddings, share):
    mean = sum(embeddings) / len(embeddings)
    return torch.stack([(1 - share) * row + share * mean for row in embeddings])


def blend_as_a_product(embeddings, share):
    count = len(embeddings)
    weights = (1 - share) * torch.eye(count, dtype=embeddings.dtype) + share / count
    return weights @ embeddings


def embed_letters(sentence, vocabulary, table):
    return table[[vocabulary.index(token) for token in sentence]]


def embed_by_first_letter(sentence, vocabulary, table):
    letters = [word[0] for word in vocabulary]
    return table[[letters.index(token[0]) for token in sentence.split()]]


def embed_in_columns(sentence, vocabulary, table):
    return table[[vocabulary.index(token) for token in sentence.split()]].T


def attend_by_loop(embeddings, sharpness):
    mixed = []
    for token in embeddings:
        weights = torch.stack([sharpness * (token * other).sum() for other in embeddings]).softmax(0)
        mixed.append(sum(weight * other for weight, other in zip(weights, embeddings, strict=True)))
    return torch.stack(mixed)


RIGHT = {
    "embed_sentence": [embed_by_loop, embed_by_dictionary, embed_by_one_hot],
    "blend_with_mean": [
        lambda embeddings, share: torch.lerp(embeddings, embeddings.mean(0, keepdim=True), share),
        blend_by_loop,
        blend_as_a_product,
    ],
    "attend_by_likeness": [
        attend_by_loop,
        lambda embeddings, sharpness: F.scaled_dot_product_attention(*[embeddings[None]] * 3, scale=float(sharpness))[
            0
        ],
        lambda embeddings, sharpness: (
            torch.einsum("qd,kd->qk", embeddings, sharpness * embeddings).softmax(1) @ embeddings
        ),
    ],
    "row_sums": [
        lambda weights: weights.sum(-1),
        lambda weights: torch.stack([row.sum() for row in weights]),
        lambda weights: torch.einsum("qk->q", weights),
    ],
}
WRONG = {
    "embed_sentence": [
        (embed_letters, "stopped", "ValueError"),
        (embed_in_columns, "has the shape"),
        (embed_by_first_letter, "Does each token get a row of its own?"),
        (lambda s, v, t: t, "has the shape"),
    ],
    "blend_with_mean": [
        (lambda e, s: e.mean(0), "has the shape"),
    ],
    "attend_by_likeness": [
        (lambda e, s: (s * e @ e.T).softmax(1).T @ e, "softmax-wrong-axis"),
        (lambda e, s: (s * e.T @ e).softmax(1), "has the shape"),
    ],
    "row_sums": [
        (lambda weights: weights.sum(1, keepdim=True), "it should be"),
    ],
}
