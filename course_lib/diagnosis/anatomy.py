"""The parts of an attention pass, found in its trace: what was projected, compared, shared out, mixed and merged.

Nothing is known of names, classes or layouts. A number is told by what it depends on: change one token of the input,
run the trace again, and what moves belongs to that token. Queries and keys are then what meets in the first products
that depend on two tokens, values what the shares are multiplied with, and each share has a sample, a head, a query and
a key.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from functools import cached_property

import torch
from torch import Tensor

from .contraction import Contraction, contractions, outer_products
from .labels import NOTHING, carry
from .trace import Trace, Value

Columns = tuple[int, int, int]  # a set of columns: the smallest, the largest, a number that tells the set
CLOSE = 1e-9
MANY = -2  # the token of a number that depends on several


class NoAnatomy(Exception):
    """The parts could not be told apart; the words say what is missing."""


@dataclass
class Row:
    """What one query of one head did.

    Attributes:
        sample, query: of the token that asks.
        head: index, in the order of the columns that make the queries.
        keys: token of each key that it met.
        columns: where each of them stands among all that the mix takes together.
        scores: label of each score.
        shares: what the values were multiplied with.
        outs: numbers of the mix's result, one for each column of the values.
        mix: the product that mixed the values.
        query_source, key_sources, value_sources: the columns of weights behind them, as a hash.
        query_sources: those of all scores; more than one where a sum runs through several heads.
        score_keys: token of each key by its score, which a misplaced value does not share.
        blanks: how many numbers that belong to no token got a share.
    """

    sample: int
    query: int
    keys: list[int]
    columns: list[int]
    scores: list[int]
    shares: list[float]
    outs: list[int]
    mix: Contraction
    query_source: Columns
    key_sources: list[Columns]
    value_sources: list[Columns]
    query_sources: set[Columns]
    score_keys: list[int]
    blanks: int
    head: int = -1


@dataclass(eq=False)
class Anatomy:
    """Found by `dissect`.

    Attributes:
        trace: of a run with several samples and tokens.
        tokens, samples: for each value, for each number a bit for each token and sample of the input it depends on.
        sources: for each value, for each number the weight's column that projected it.
        products: every product with a sum.
        projections: the products of tokens with weights.
        meetings: the products of queries and keys.
        mixes: the products of shares and values.
        rows: what each query of each head did in a mix.
        below: the operations that a score flows into.
        score_labels: for each value, for each number which score it came from.
        first, second, score_sample, raw: for each score, the tokens of its two factors, its sample, and the product.
    """

    trace: Trace
    tokens: list[Tensor]
    samples: list[Tensor]
    sources: list[Tensor] = field(default_factory=list)
    products: list[Contraction] = field(default_factory=list)
    projections: list[Contraction] = field(default_factory=list)
    meetings: list[Contraction] = field(default_factory=list)
    mixes: list[Contraction] = field(default_factory=list)
    rows: list[Row] = field(default_factory=list)
    below: set[int] = field(default_factory=set)
    score_labels: list[Tensor] = field(init=False)
    first: Tensor = field(init=False)
    second: Tensor = field(init=False)
    score_sample: Tensor = field(init=False)
    raw: Tensor = field(init=False)

    @property
    def sizes(self) -> tuple[int, int]:
        """batch, num_tokens"""
        return tuple(self.trace.x.tensor.shape[:2])

    def single(self, value: Value) -> Tensor:
        """Token of each number: NOTHING if it depends on none, MANY if on several."""
        return single(self.tokens[value.number])

    @cached_property
    def num_heads(self) -> int:
        return 1 + max(row.head for row in self.rows)

    @cached_property
    def head_dim(self) -> int:
        """How many products a score has; those with padding don't count."""
        meeting = self.meetings[0]
        sources = self.sources[meeting.left.number].flatten()[meeting.lefts[0]]
        return int((sources != NOTHING).sum()) or meeting.size


def single(bits: Tensor) -> Tensor:
    one = (bits & (bits - 1)) == 0
    which = torch.where(bits > 0, bits, 1).double().log2().round().long()
    return torch.where(bits == 0, NOTHING, torch.where(one, which, MANY))


def differs(now: Tensor, before: Tensor) -> Tensor:
    """Where two tensors are not equal, rounding aside."""
    if now.shape != before.shape:
        raise NoAnatomy("its shapes depend on the numbers of the input")
    if torch.equal(now, before):  # most numbers do not change
        return torch.zeros_like(now, dtype=torch.bool)
    if not now.is_floating_point():
        return now != before
    same = (now == before) | (now.isnan() & before.isnan())
    return ~(same | ((now - before).abs() <= CLOSE * (1 + before.abs())))


def dissect(trace: Trace) -> Anatomy:
    """Find the parts of an attention pass.

    Args:
        trace: of a run on x (batch, token, d_in), at most 60 tokens.

    Returns:
        Anatomy, with `rows` for each sample, head and query.

    Raises:
        NoAnatomy: what is not there.
    """
    batch, num_tokens, _ = trace.x.tensor.shape
    anatomy = Anatomy(trace, _bits(trace, 1, num_tokens), _bits(trace, 0, batch))
    anatomy.products = contractions(trace)
    _find_projections(anatomy)
    _find_meetings(anatomy)
    if anatomy.meetings:
        _find_mixes(anatomy)
    if anatomy.mixes:
        _find_rows(anatomy)
    return anatomy


def _bits(trace: Trace, axis: int, count: int) -> list[Tensor]:
    x = trace.x.tensor
    move = torch.randn(x.shape, generator=torch.Generator().manual_seed(7), dtype=torch.float64).to(x.dtype)
    found = [torch.zeros(value.tensor.shape, dtype=torch.int64) for value in trace.values]
    for index in range(count):
        here = torch.zeros(x.shape[:2], dtype=torch.bool)
        here.select(axis, index).fill_(True)
        seen = trace.replay(torch.where(here[..., None], x + move, x))
        for value, bits in zip(trace.values, found, strict=True):
            now = seen[value.number]
            if now is not value.tensor and not torch.equal(now, value.tensor):  # most numbers do not change
                bits |= differs(now, value.tensor).long() << index
    return found


def _one_each(anatomy: Anatomy, value: Value) -> bool:
    """Whether each of its numbers belongs to one token at most, and some to one."""
    which = anatomy.single(value)
    return not (which == MANY).any() and bool((which >= 0).any())


def _find_projections(anatomy: Anatomy) -> None:
    """Products of tokens with weights, and the columns of weights as labels of all that comes from them."""
    trace = anatomy.trace
    start, base = {}, 0
    for value in trace.values:
        if value.made_by is None and value is not trace.x:
            start[value.number] = base + torch.arange(value.tensor.numel()).view(value.tensor.shape)
            base += value.tensor.numel()
    weights = carry(trace, start)
    of_x = trace.of_x()
    d_in = trace.x.tensor.shape[-1]
    begin = {trace.x.number: base + torch.arange(d_in).expand(trace.x.tensor.shape)}
    base += d_in
    turns: list[tuple[Contraction, Value, Tensor]] = []
    for product in anatomy.products:
        (left, lefts), (right, rights) = product.sides()
        for token, made_of, fixed, which in ((left, lefts, right, rights), (right, rights, left, lefts)):
            constant = not any(n in of_x for n in trace.makers(fixed, product.factors[0].number))
            if not constant or not _one_each(anatomy, token) or not _one_each(anatomy, product.out):
                continue
            if _turns(anatomy, product, which):
                turns.append((product, token, made_of))
                break
            columns = weights[fixed.number].flatten()[which[:, 0]]
            if (columns == NOTHING).any():  # weights that were computed: each product has columns of its own
                columns = base + which[:, 0]
                base += fixed.tensor.numel()
            begin[product.out.number] = columns.view(product.out.tensor.shape)
            anatomy.projections.append(product)
            break
    anatomy.sources = carry(trace, begin)
    for product, token, made_of in turns:  # in order: what is turned keeps its columns
        columns = anatomy.sources[token.number].flatten()[made_of]
        begin[product.out.number] = columns[torch.arange(len(columns)), torch.arange(len(columns)) % product.size].view(
            product.out.tensor.shape
        )
        anatomy.sources = carry(trace, begin)


def _turns(anatomy: Anatomy, product: Contraction, which: Tensor) -> bool:
    """Whether a constant has numbers of its own for each token: it turns them by their place and projects nothing."""
    tokens = anatomy.single(product.out).flatten()
    used = torch.stack([which[:, 0], tokens])[:, tokens >= 0]
    apart = len(torch.unique(used, dim=1).T) == len(torch.unique(used[0]))
    return apart and len(torch.unique(used[1])) > 1


def _find_meetings(anatomy: Anatomy) -> None:
    def author(product: Contraction) -> tuple:
        operation = product.operation
        return (*operation.frames[:1], operation.name)

    able = [p for p in anatomy.products if all(_one_each(anatomy, side) for side, _ in p.sides())]
    pairs = {author(p) for p in able if (anatomy.single(p.out) == MANY).any()}
    anatomy.meetings = [p for p in able if author(p) in pairs]
    if pairs:
        return
    made = {p.operation.number for p in anatomy.projections}
    met: set[int] = set()
    for product in able:  # perhaps each token only ever meets itself
        at = product.factors[0].number
        behind = any(n in met for value, _ in product.sides() for n in anatomy.trace.makers(value, at))
        if product.left is not product.right and product.operation.number not in made and not behind:
            anatomy.meetings.append(product)
            met = anatomy.trace.below({p.operation.number for p in anatomy.meetings})


def _find_mixes(anatomy: Anatomy) -> None:
    trace = anatomy.trace
    scored = {product.operation.number for product in anatomy.meetings}
    anatomy.below = trace.below(scored)
    anatomy.mixes = _mixes_among(anatomy, anatomy.products, scored)
    if not anatomy.mixes:
        anatomy.mixes = _mixes_among(anatomy, outer_products(trace), scored)
    reaching = set() if trace.output is None else trace.ancestors([trace.output])
    # A prompt that only fills a cache, or a guess that is taken back, mixes values for nobody.
    anatomy.mixes = [mix for mix in anatomy.mixes if mix.operation.number in reaching] or anatomy.mixes


def _mixes_among(anatomy: Anatomy, products: list[Contraction], scored: set[int]) -> list[Contraction]:
    """Products of something that comes from scores with something that does not and belongs to tokens."""
    found = []
    for product in products:
        number, at = product.operation.number, product.factors[0].number
        if number <= min(scored) or number in scored:
            continue
        from_score = [any(n in anatomy.below for n in anatomy.trace.makers(v, at)) for v, _ in product.sides()]
        for p, v in ((0, 1), (1, 0)):
            if from_score[p] and not from_score[v] and _one_each(anatomy, product.sides()[v][0]):
                found.append(product)
                break
    return found


def share_side(anatomy: Anatomy, mix: Contraction) -> int:
    """Which factor of a mix holds the shares: 0 the left one, 1 the right one."""
    labels = anatomy.score_labels
    left, right = ((labels[value.number] != NOTHING).any() for value, _ in mix.sides())
    if left != right:
        return 0 if left else 1
    return 1 if _one_each(anatomy, mix.left) and not _one_each(anatomy, mix.right) else 0


def shares_and_values(anatomy: Anatomy, mix: Contraction) -> tuple[tuple[Value, Tensor], tuple[Value, Tensor]]:
    """The two factors of a mix, the shares first."""
    return mix.sides() if share_side(anatomy, mix) == 0 else mix.sides()[::-1]


def column_sets(sources: Tensor) -> list[Columns]:
    """(…, c) -> the set of columns of each row; sets are in the order of heads, also where heads share some."""
    real = torch.where(sources == NOTHING, torch.iinfo(torch.int64).max, sources)
    small, large = real.amin(-1).flatten().tolist(), sources.amax(-1).flatten().tolist()
    mixed = ((sources * 2654435761 + 40503) % 1000003).sum(-1).flatten().tolist()
    return list(zip(small, large, mixed, strict=True))


def _find_rows(anatomy: Anatomy) -> None:
    trace = anatomy.trace
    start, base = {}, 0
    first, second, samples, raw, sources_a, sources_b = [], [], [], [], [], []
    for meeting in anatomy.meetings:
        count = meeting.out.tensor.numel()
        start[meeting.out.number] = base + torch.arange(count).view(meeting.out.tensor.shape)
        base += count
        tokens = [anatomy.single(v).flatten()[which] for v, which in meeting.sides()]
        for held, token, (value, which), hashes in zip(
            (first, second), tokens, meeting.sides(), (sources_a, sources_b), strict=True
        ):
            one = token.amax(1, keepdim=True)  # numbers of no token fill a row up
            same = ((token == one) | (token == NOTHING)).all(1)
            held.append(torch.where(same, one[:, 0], MANY))
            hashes.extend(column_sets(anatomy.sources[value.number].flatten()[which]))
        bits = [anatomy.samples[v.number].flatten()[which[:, 0]] for v, which in meeting.sides()]
        samples.append(single(bits[0] | bits[1]))
        left, right = (v.tensor.flatten()[which] for v, which in meeting.sides())
        raw.append((left * right).sum(1))
    anatomy.first, anatomy.second = torch.cat(first), torch.cat(second)
    anatomy.score_sample, anatomy.raw = torch.cat(samples), torch.cat(raw)
    anatomy.score_labels = carry(trace, start)
    rows: list[Row] = []
    second_holds_keys = key_sides(anatomy)
    for mix in anatomy.mixes:
        (share, shares), (value, values) = shares_and_values(anatomy, mix)
        labels = anatomy.score_labels[share.number].flatten()[shares]  # (e, c)
        tokens = anatomy.single(value).flatten()[values]
        known = labels != NOTHING
        if not known.any():
            continue
        a, b = anatomy.first[labels.clamp(min=0)], anatomy.second[labels.clamp(min=0)]
        key_is_second = second_holds_keys[mix.operation.frames[:1]] >= 0
        query_tokens = a if key_is_second else b
        query_sources, key_sources = (sources_a, sources_b) if key_is_second else (sources_b, sources_a)
        key_tokens = b if key_is_second else a
        numbers = share.tensor.flatten()[shares].tolist()
        columns = anatomy.sources[value.number].flatten()[values]
        firsts = shares[:, 0].tolist()
        groups: dict[int, list[int]] = {}
        for e, number in enumerate(firsts):
            groups.setdefault(number, []).append(e)
        labels_list, tokens_list, query_list, key_list = (
            t.tolist() for t in (labels, tokens, query_tokens, key_tokens)
        )
        for members in groups.values():
            e = members[0]
            columns_met = [c for c, label in enumerate(labels_list[e]) if label != NOTHING]
            met = [c for c in columns_met if tokens_list[e][c] != NOTHING]
            if not met:
                continue
            scores = [labels_list[e][c] for c in met]
            value_sources = column_sets(columns[members].T[met])
            rows.append(
                Row(
                    sample=int(anatomy.score_sample[scores[0]]),
                    query=query_list[e][met[0]],
                    keys=[tokens_list[e][c] for c in met],
                    columns=met,
                    scores=scores,
                    shares=[numbers[e][c] for c in met],
                    outs=members,
                    mix=mix,
                    query_source=query_sources[scores[0]],
                    key_sources=[key_sources[s] for s in scores],
                    value_sources=value_sources,
                    query_sources={query_sources[s] for s in scores},
                    score_keys=[key_list[e][c] for c in met],
                    blanks=sum(abs(numbers[e][c]) > 1e-12 for c in columns_met if c not in met),
                )
            )
    anatomy.rows = rows
    _number_heads(anatomy)


def key_sides(anatomy: Anatomy) -> Counter:
    """For each line that mixes, how many more scores have the value's token as their second factor than as their first.

    One query with one key can't tell which is which, so the line is asked as a whole.
    """
    found: Counter = Counter()
    for mix in anatomy.mixes:
        (share, shares), (value, values) = shares_and_values(anatomy, mix)
        labels = anatomy.score_labels[share.number].flatten()[shares]
        tokens = anatomy.single(value).flatten()[values]
        first, second = (one[labels.clamp(min=0)] == tokens for one in (anatomy.first, anatomy.second))
        known = labels != NOTHING
        found[mix.operation.frames[:1]] += int((second & known).sum() - (first & known).sum())
    return found


def _number_heads(anatomy: Anatomy) -> None:
    """Heads in the order of their columns; rows of one query and the same columns are pieces of it or further heads."""
    taken: dict[tuple, list[set[int]]] = {}
    keys = []
    for row in anatomy.rows:
        pieces = taken.setdefault((row.sample, row.query, row.query_source), [])
        copy = next((number for number, met in enumerate(pieces) if not met & set(row.keys)), len(pieces))
        if copy == len(pieces):
            pieces.append(set())
        pieces[copy] |= set(row.keys)
        keys.append((*row.query_source, copy))
    order = {key: head for head, key in enumerate(sorted(set(keys)))}
    for row, key in zip(anatomy.rows, keys, strict=True):
        row.head = order[key]
