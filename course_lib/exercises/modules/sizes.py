"""Draw the sizes that a class is constructed and run with: sizes that can be mistaken for each other all differ."""

from collections.abc import Sequence
from functools import cache
from itertools import product
from typing import NamedTuple

from course_lib.exercises.answering.from_source import FromSource
from course_lib.exercises.input_generator import InputGenerator
from course_lib.wording import counted

D_IN = (11, 13, 17)  # primes: no product of other sizes can be mistaken for one of them
FAR = 1000.0  # the size of x from which scores are thousands apart
WIDE = 130  # a head of that width is wider than most
BASES = (100.0, 1000.0, 500000.0)  # none is the 10000 of Llama 2, which an answer may have written down

LONGEST = 560  # more than the 512 that an answer may have written down


class Sizes(NamedTuple):
    """The sizes of one construction: num_heads is a multiple of num_kv_heads.

    Attributes:
        own_head_dim: The width of a head if it is an argument of its own, else 0: then d_out is num_heads * head_dim.
        own_value_dim: The width of the values where it is d_out, because there is no output projection; else 0.
        base: The base of the rotary positions, for classes that take it.
        positions: The positions of the tokens, for classes that take them, in steps of 2: a mere shift changes nothing.
        max_len: The number of tokens that a class has room for, if it takes that.
    """

    d_in: int
    d_out: int
    num_heads: int = 1
    num_kv_heads: int = 1
    own_head_dim: int = 0
    own_value_dim: int = 0
    base: float = 10000.0
    positions: range = range(512)
    max_len: int = 512

    @property
    def head_dim(self) -> int:
        """The width of the queries and keys of one head."""
        return self.own_head_dim or self.d_out // self.num_heads

    @property
    def value_dim(self) -> int:
        """The width of the values of one head: without an output projection it is the width of the output."""
        return self.own_value_dim or self.head_dim

    @property
    def projected(self) -> tuple[int, int, int]:
        """The widths of queries, keys and values over all heads."""
        keys = self.num_kv_heads * self.head_dim
        return self.num_heads * self.head_dim, keys, self.num_kv_heads * self.value_dim

    def axes(self, batch: int, num_tokens: int) -> dict[int, str]:
        """Map the sizes of one run to names of axes; sizes that are equal by definition have the first name."""
        sizes = {
            "batch": batch,
            "token": num_tokens,
            "d_in": self.d_in,
            "d_out": self.d_out,
            "head": self.num_heads,
            "kv head": self.num_kv_heads,
            "head_dim": self.head_dim,
        }
        if self.num_kv_heads > 1:
            heads = "num_heads" if self.num_kv_heads == self.num_heads else "num_kv_heads"
            sizes[f"{heads} * head_dim"] = self.num_kv_heads * self.head_dim
        names: dict[int, str] = {}
        for name, size in sizes.items():
            names.setdefault(size, name)
        return {size: name for size, name in names.items() if size > 1}


class RunSizes(NamedTuple):
    """One run: its numbers of samples and tokens, the size of x, whether in training mode, and whether with a cache."""

    batch: int
    num_tokens: int
    std: float = 1.0
    training: bool = False
    cached: bool = False

    @property
    def far(self) -> bool:
        """Whether scores are thousands apart; then most attention weights are 0 or 1, and gradients aren't compared."""
        return self.std >= FAR

    @property
    def usual(self) -> bool:
        """Whether there is more than one sample, and more than one token, and no score is thousands from another."""
        return min(self.batch, self.num_tokens) > 1 and not self.far

    @property
    def repeated(self) -> bool:
        """Whether the same call is made a second time, in evaluation."""
        return self.training or (self.std == 1 and self.batch > 1)

    @property
    def about(self) -> str:
        """Say what is special about the run."""
        what = f"{counted(self.batch, 'sample')} of {counted(self.num_tokens, 'token')}"
        special = {
            "larger elements": 1 < self.std < FAR,
            "scores that are thousands apart": self.far,
            "zeros in the last token": self.std > 1,
            "training mode": self.training,
            "with a cache": self.cached,
        }
        return ", ".join([what, *(one for one, is_so in special.items() if is_so)])


def construction_sizes(takes: Sequence[str], kv_heads: str, rng: InputGenerator, even: bool = False) -> list[Sizes]:
    """Draw the sizes of two or three constructions, no two of which share a size that matters.

    Args:
        takes: The names of the arguments of the class.
        kv_heads: "all" for as many kv heads as heads, "one", or "any": one, some and all, in three constructions.
        rng: Where the sizes come from.
        even: Whether head_dim must be even, as rotary positions need it.
    """
    own = "head_dim" in takes
    if "num_heads" not in takes:
        while True:
            rows = zip(rng.shuffled(D_IN)[:2], rng.size_rows(2, 2, 3, 9), strict=True)
            drawn = [Sizes(d_in, d_out, 1, 1, head_dim * own, d_out) for d_in, (d_out, head_dim) in rows]
            # Rows of several roles in one matrix must not be as many as its columns.
            if all(one.d_in not in (one.d_out + one.head_dim, one.d_out + 2 * one.head_dim) for one in drawn):
                return drawn
    kinds = {"all": ("all", "all"), "one": ("one", "one"), "any": ("some", "one", "all")}[kv_heads]
    found: list[Sizes] = []
    for kind in kinds:
        free = [one for one in _valid(kind, own, even) if all(_all_differ(one, other) for other in found)]
        found.append(rng.choice(free))
    if "base" in takes:
        found = [one._replace(base=base) for one, base in zip(found, rng.shuffled(BASES), strict=False)]
    if "positions" in takes:
        rows = [range(start, 1024 + start, 2) for start in (3, 8, 5)]
        found = [one._replace(positions=row) for one, row in zip(found, rows, strict=False)]
    if "max_len" in takes:
        found = [one._replace(max_len=LONGEST) for one in found]
    return found


@cache
def _valid(kind: str, own: bool, even: bool = False) -> list[Sizes]:
    """List all sizes that may be drawn: no two are equal, head_dim and the number of heads per kv head included."""
    head_dims = range(2, 8, 2 if even else 1)
    if own:
        return [
            Sizes(d_in, d_out, num_heads, num_heads, head_dim)
            for d_in, head_dim, num_heads, d_out in product(D_IN, head_dims, range(2, 9), range(10, 25))
            if len({d_in, head_dim, num_heads, d_out, num_heads * head_dim}) == 5
        ]
    found = []
    for d_in, head_dim, num_heads in product(D_IN, head_dims, range(3, 9)):
        kv_heads = {"one": [1], "all": [num_heads], "some": [k for k in range(2, num_heads) if num_heads % k == 0]}
        for num_kv_heads in kv_heads[kind]:
            group = num_heads // num_kv_heads
            distinct = {d_in, head_dim, num_heads * head_dim, num_heads, num_kv_heads * head_dim, num_kv_heads, group}
            if len(distinct) == {"one": 5, "all": 5, "some": 7}[kind]:
                found.append(Sizes(d_in, num_heads * head_dim, num_heads, num_kv_heads))
    return found


def special_sizes(takes: Sequence[str], kv_heads: str, rng: InputGenerator, even: bool = False) -> list[Sizes]:
    """Draw the sizes of constructions in which some are equal, one head among them, and heads one element wide."""
    own = "head_dim" in takes
    if "num_heads" not in takes:
        width, head_dim, d_in = rng.sizes(3, 3, 9)
        square = Sizes(width, width, 1, 1, head_dim * own, width)
        if not own:
            return [square, Sizes(d_in, 1)]
        return [square, *(Sizes(d_in, width, 1, 1, equal, width) for equal in (1, width, d_in))]
    kind = {"all": "all", "one": "one", "any": "some"}[kv_heads]
    squares = rng.shuffled([one for one in _valid(kind, own, even) if one.d_out not in D_IN])
    by_kv_heads = {one.num_kv_heads: one for one in squares} if kind == "some" else {0: squares[0]}
    square = squares[0]
    single = rng.choice(_valid("all", own, even))
    wide = WIDE + 2 * rng.integer(9)
    found = [one._replace(d_in=one.d_out) for one in by_kv_heads.values()]
    found += [Sizes(single.d_in, single.d_out if own else wide, 1, 1, wide * own)]
    heads = square.num_heads
    if own:
        joined = heads * square.head_dim
        found += [square._replace(d_out=joined), square._replace(d_in=joined), square._replace(own_head_dim=1)]
    elif not even:
        found.append(Sizes(square.d_in, heads, heads, square.num_kv_heads))
    return found


def _all_differ(sizes: Sizes, others: Sizes) -> bool:
    same = (one == other for one, other in zip(sizes[:3], others[:3], strict=True))
    return not any(same) and sizes.head_dim != others.head_dim


def draw_pieces(num_tokens: int, rng: InputGenerator) -> list[int]:
    """Cut a text into pieces: some tokens first, then single ones and, of a longer text, a piece of the rest."""
    fewest = 2 if num_tokens > 2 else 1  # a first piece of one token hides what is wrong within a piece
    first = fewest + rng.integer(max(1, num_tokens // 2 - 1))
    rest = num_tokens - first
    return [first, *[1] * min(rest, 2), *([rest - 3, 1] if rest > 3 else [1] * (rest - 2))]


def run_sizes(
    sizes: Sizes, rng: InputGenerator, cached: bool = False, long: bool = False, in_tiles: bool = False
) -> list[RunSizes]:
    """Draw the runs of one construction: some samples, one of many tokens, samples of one token, larger elements;
    with `cached`, samples that are handed over piece by piece with a cache at last; `long` makes many more tokens,
    and `in_tiles` takes many where scores are far apart."""
    taken = {*sizes, sizes.head_dim, sizes.num_kv_heads * sizes.head_dim, sizes.num_heads // sizes.num_kv_heads}
    free = rng.shuffled([size for size in range(2, 16) if size not in taken])
    free = [size for size in free if size * sizes.num_heads not in taken and size * sizes.num_kv_heads not in taken]
    least = LONGEST - 30 if sizes.max_len == LONGEST else 260
    many = rng.choice([size for size in (range(least, least + 30) if long else range(64, 90)) if size not in taken])
    few, tokens = sorted(size for size in free if size < 9)[:2]
    more = next(size for size in free if size > 8 and size not in (few, tokens))
    large = rng.choice([size for size in range(18, 26) if size not in taken])
    return [
        RunSizes(few, tokens),
        RunSizes(1, many),
        RunSizes(large, 1),
        RunSizes(more, tokens, 4.0),
        RunSizes(few, many if in_tiles else tokens, FAR),
        RunSizes(few, more, training=True),
        RunSizes(more, 2),  # the fewest tokens for which a causal mask hides something
        *([RunSizes(few, more, cached=True)] if cached else []),
    ]


def special_runs(sizes: Sizes, many: RunSizes) -> list[RunSizes]:
    """Return the runs of special sizes: as many samples, or tokens, as there are heads or elements, and one of many."""
    heads, kv_heads, head_dim = (max(2, one) for one in (sizes.num_heads, sizes.num_kv_heads, sizes.head_dim))
    return [RunSizes(heads, heads), RunSizes(kv_heads, head_dim), many]


def make_cache(source: tuple[str, str] | None, run: RunSizes, sizes: Sizes) -> FromSource | None:
    """Return what makes the cache of a run, from the source of its class and its name; None for a run without."""
    if source is None or not run.cached:
        return None
    return FromSource(*source, (run.batch, sizes.num_kv_heads, run.num_tokens, sizes.head_dim))
