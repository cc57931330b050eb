"""Draw the blocks of each head, and the attention within each head."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from course_lib.attention import attend
from course_lib.pictures.canvas import Canvas
from course_lib.pictures.checks import first_sample, token_labels
from course_lib.pictures.grid import card, row, wrap
from course_lib.pictures.picture import Picture
from course_lib.pictures.style import HIDDEN, PLAIN, STYLE, head_color, weight_color
from course_lib.pictures.table import COLUMNS, Label
from course_lib.wording import sentence, span

from .number_table import number_table

MOST_HEADS = 4


@dataclass(frozen=True, eq=False)
class Heads:
    """Queries, keys and values by head."""

    roles: dict[str, Tensor]  # name -> (head, token, head_dim)
    words: Sequence[str]  # labels of the tokens
    title: str

    @property
    def num_heads(self) -> int:
        return len(self.roles["queries"])

    @property
    def caption(self) -> str:
        return f"{self.num_heads} heads, each a table of tokens."

    def describe(self) -> str:
        sentences = []
        for name, tensor in self.roles.items():
            shared_by = self.num_heads // len(tensor)
            shared = f", each shared by {shared_by} heads" if shared_by > 1 else ""
            sentences.append(f"{name}: {len(tensor)} of shape {tuple(tensor.shape[1:])}{shared}")
        part = f" The first {MOST_HEADS} heads are drawn." if self.num_heads > MOST_HEADS else ""
        return sentence("; ".join(sentences)) + "." + part

    def draw(self) -> Canvas:
        """Draw one row each for queries, keys and values, with one column per head."""
        return card(self.title, [], *(row(self._tables(role)) for role in self.roles), gap=STYLE.gap)

    def _tables(self, role: str) -> Iterator[Canvas]:
        shared_by = self.num_heads // len(self.roles[role])
        for head, elements in enumerate(self.roles[role][:MOST_HEADS]):
            title = f"{role}, head{'s' * (shared_by > 1)} {span(head * shared_by, (head + 1) * shared_by - 1)}"
            look = head_color(head) if shared_by == 1 else PLAIN
            yield number_table(elements, title, rows=() if head else self.words, look=look).draw()


@dataclass(frozen=True, eq=False)
class AttentionInHeads:
    """Attention within each head, for one sample."""

    queries: Tensor  # (head, query, head_dim)
    keys: Tensor  # (kv head, key, head_dim)
    values: Tensor  # (kv head, key, value width)
    weights: Tensor  # (head, query, key)
    hidden: Tensor  # the same shape, bool
    context: Tensor  # (head, query, value width)
    query_words: Sequence[str]
    key_words: Sequence[str]
    title: str

    @property
    def caption(self) -> str:
        formula = "Queries times keys, divided by the square root of head_dim, through softmax, times values: "
        return formula + self._summary

    @property
    def _summary(self) -> str:
        shape = tuple(self.weights.shape)
        summary = f"{len(self.queries)} heads, each with a softmax of its own; weights of shape {shape}."
        summary += f" The first {MOST_HEADS} are drawn." if len(self.queries) > MOST_HEADS else ""
        return summary + (" Cells with a dot are hidden." if self.hidden.any() else "")

    def describe(self) -> str:
        """Name the key with the largest weight for each query of each head."""
        sentences = [self._summary]
        for head, best in enumerate(self.weights[:MOST_HEADS].argmax(dim=-1).tolist()):
            looks = [f"{query} at {self.key_words[key]}" for query, key in zip(self.query_words, best, strict=True)]
            sentences.append(f"Head {head} looks most: {', '.join(looks)}.")
        return " ".join(sentences)

    def draw(self) -> Canvas:
        return card(self.title, [], *(self._draw_head(head) for head in range(len(self.queries[:MOST_HEADS]))))

    def _draw_head(self, head: int) -> Canvas:
        group = head * len(self.keys) // len(self.queries)
        color, shared = head_color(head), len(self.keys) < len(self.queries)
        other = PLAIN if shared else head_color(group)  # shared keys and values belong to no single head
        hidden, weights = self.hidden[head].tolist(), self.weights[head].tolist()

        def shaded(row: int, column: int, text: str) -> tuple[str, str]:
            return ("·", HIDDEN) if hidden[row][column] else (text, weight_color(weights[row][column]))

        above = [Label(word) for word in self.key_words[:COLUMNS]]
        tables = (
            number_table(self.queries[head], f"queries {head}", rows=self.query_words, look=color),
            number_table(self.keys[group].T, f"keys {group}, transposed", above=above, look=other),
            number_table(self.weights[head], f"weights {head}", above=above, look=shaded),
            number_table(self.values[group], f"values {group}", look=other),
            number_table(self.context[head], f"context {head}", look=color),
        )
        queries, keys, weighed, values, context = (table.draw() for table in tables)
        return wrap([queries, ("@", keys), ("→", weighed), ("@", values), ("=", context)])


def draw_heads(
    queries: Tensor, keys: Tensor, values: Tensor, *, words: Sequence[object] | None = None, title: str | None = None
) -> Picture:
    """Draw the blocks that the heads work on: one row each for queries, keys and values, one column per head.

    Args:
        queries: (batch, head, token, head_dim); the first sample is drawn.
        keys, values: (batch, kv head, token, head_dim).
        words: labels of the tokens; "token 0", "token 1", ... if None.
        title: the title above the drawing.

    Raises:
        ValueError: If a tensor has other axes, the kv heads do not divide the heads, or words do not fit.
        TypeError: If queries, keys or values isn't a tensor of real numbers.
    """
    roles = _by_head(queries, keys, values)
    num_heads, num_tokens, _ = roles["queries"].shape
    for name, tensor in roles.items():
        if num_heads % len(tensor):
            raise ValueError(f"{name} has {len(tensor)} heads, which does not divide the {num_heads} of queries.")
    return Picture.of(Heads(roles, token_labels(words, num_tokens), title or "What each head works on"))


def draw_attention(
    queries: Tensor,
    keys: Tensor,
    values: Tensor,
    *,
    keep: Tensor | None = None,
    words: Sequence[object] | None = None,
    title: str | None = None,
) -> Picture:
    """Draw attention within each head, with its elements, one row per head.

        weights_i = softmax(queries_i keys_i^T / sqrt(head_dim), where keep);  context_i = weights_i values_i

    Args:
        queries: (batch, head, token, head_dim); the first sample is drawn.
        keys, values: (batch, kv head, token, head_dim), as `attend` takes them.
        keep: bool, True = may attend, as `attend` takes it; nothing is hidden if None.
        words: labels of the tokens; "token 0", "token 1", ... if None.
        title: the title above the drawing.

    Raises:
        ValueError: If a tensor has other axes, `attend` refuses the shape of a tensor or of keep, or words do not fit.
        TypeError: If a tensor does not hold real numbers, or `attend` refuses keep.
    """
    q, k, v = _by_head(queries, keys, values).values()
    kept = None if keep is None else keep.detach().cpu()[: 1 if keep.dim() > q.dim() else None]
    context, weights = (tensor[0] for tensor in attend(q[None], k[None], v[None], kept))
    hidden = torch.zeros_like(weights, dtype=torch.bool) if kept is None else ~kept.expand(1, *weights.shape)[0]
    query_words = token_labels(words, q.shape[1])
    key_words = query_words if k.shape[1] == q.shape[1] else token_labels(None, k.shape[1])
    title = title or "Each head by itself: compare, weigh, mix"
    return Picture.of(AttentionInHeads(q, k, v, weights, hidden, context, query_words, key_words, title))


def _by_head(queries: Tensor, keys: Tensor, values: Tensor) -> dict[str, Tensor]:
    tensors = {"queries": queries, "keys": keys, "values": values}
    return {name: first_sample(tensor, name, "head token head_dim") for name, tensor in tensors.items()}
