"""The goals of the benchmarks, held against what was measured.

A ratio is the median over the rounds; its noise is the 95% interval of that median (ratios.py), taken from the spread
of the rounds. "No slower within noise" means that this interval reaches down to 1.00, and that the median is at most
1.05.
"""

from __future__ import annotations

from collections.abc import Iterator

from .cases import forms, llama, multi_query, shared_heads
from .ratios import median_ratio, ratio_interval
from .results import Goal, Results, Row, Table

NOISE_AT_MOST = 1.05
EXPLICIT_PEERS = {
    "forms": (forms.EXPLICIT, (forms.WRAPPER, forms.TORCH)),
    "llama": (llama.EXPLICIT, (llama.THEIRS_EAGER,)),
    "multi-query": (multi_query.EXPLICIT, (multi_query.BROADCAST, multi_query.OWN_HEADS)),
}
FLOORS = {
    "forms": (forms.FUSED, forms.FLOOR),
    "multi-query": (multi_query.FUSED, multi_query.FLOOR),
}


def judge(results: Results) -> list[Goal]:
    """Every goal that the results can tell something about, in the order of the issue that set them."""
    return [
        *explicit_no_slower(results),
        *fused_at_the_floor(results),
        *decode_beats_broadcasting(results),
        *decode_reads_once(results),
        *decode_takes_no_memory(results),
        *cuda_prefill(results),
    ]


def explicit_no_slower(results: Results) -> Iterator[Goal]:
    """The explicit form against every other form that makes the weights: the one it does worst against counts."""
    for name, (own_name, peer_names) in EXPLICIT_PEERS.items():
        for table in results.find(name):
            own, *peers = (row(table, each) for each in (own_name, *peer_names))
            peers = [peer for peer in peers if peer is not None]
            if own is None or not peers:
                continue
            peer = max(peers, key=lambda each: median_ratio(own.times_ms, each.times_ms))
            ratio = median_ratio(own.times_ms, peer.times_ms)
            lower, upper = ratio_interval(own.times_ms, peer.times_ms)
            met = lower <= 1.0 and ratio <= NOISE_AT_MOST
            note = f"against {peer.name!r}, 95% interval {lower:.2f} to {upper:.2f}"
            yield Goal("explicit, no slower than any explicit peer", where(table), ratio, 1.0, "at most", met, note)


def fused_at_the_floor(results: Results) -> Iterator[Goal]:
    """The fused kernel in its module against the linears and PyTorch's kernel alone."""
    for name, (own_name, floor_name) in FLOORS.items():
        for table in results.find(name):
            yield from at_most(table, own_name, floor_name, 1.05, "fused, within 1.05 of the floor")


def decode_beats_broadcasting(results: Results) -> Iterator[Goal]:
    """Multi-query decoding against the form that is usually written."""
    for table in results.find("mqa-decode", dtype="float32"):
        own, broadcast = row(table, shared_heads.ATTEND_FUSED), row(table, shared_heads.BROADCAST)
        if own is not None and broadcast is not None:
            times = median_ratio(broadcast.times_ms, own.times_ms)
            lower, upper = ratio_interval(broadcast.times_ms, own.times_ms)
            note = f"95% interval {lower:.0f} to {upper:.0f}"
            goal = "MQA decode, 60 times as fast as broadcasting"
            yield Goal(goal, where(table), times, 60.0, "at least", times >= 60.0, note)


def decode_reads_once(results: Results) -> Iterator[Goal]:
    """Multi-query decoding against the time in which the keys and the values can be read."""
    limits = {(each.device, each.dtype): each for each in results.limits}
    for table in results.find("mqa-decode"):
        own = row(table, shared_heads.ATTEND_FUSED)
        meant = table.dtype == "float32" or table.device == "cuda"  # few processors multiply in bfloat16
        if own is not None and meant:
            limit = limits[table.device, table.dtype]
            reading = limit.milliseconds(own.cache_bytes, 0)
            times = own.median_ms / reading
            computing = limit.milliseconds(0, own.flops) / reading
            note = f"the multiplications alone take {computing:.2f} times the reading"
            goal = "MQA decode, within 2.0 of reading K and V"
            yield Goal(goal, where(table), times, 2.0, "at most", times <= 2.0, note)


def decode_takes_no_memory(results: Results) -> Iterator[Goal]:
    """A decoding step's memory, cache included, against the cache: the kernel's form that needs most counts."""
    for table in results.find("cache"):
        for kernel in ("explicit", "fused"):
            rows = [each for each in table.rows if each.name.endswith(kernel) and each.peak_bytes is not None]
            if rows:
                worst = max(rows, key=memory_ratio)
                note = f"worst of {len(rows)}: {worst.name!r}"
                if kernel == "explicit":
                    note += "; it holds scores and weights, for each key as many numbers as there are heads"
                goal = f"decode's memory, {kernel}, under 1.1 times the cache"
                ratio = memory_ratio(worst)
                yield Goal(goal, where(table), ratio, 1.1, "at most", ratio < 1.1, note)


def cuda_prefill(results: Results) -> Iterator[Goal]:
    """On a GPU: the fused form in bfloat16 against PyTorch's kernel and the four matrix products."""
    for table in results.find("forms", device="cuda", dtype="bfloat16", direction="forward"):
        yield from at_most(table, forms.FUSED, forms.FLOOR, 1.1, "on a GPU, fused prefill within 1.1 of the floor")


def at_most(table: Table, own_name: str, other_name: str, bound: float, goal: str) -> Iterator[Goal]:
    """A goal on the ratio of two rows; none where one of them is missing."""
    own, other = row(table, own_name), row(table, other_name)
    if own is not None and other is not None:
        ratio = median_ratio(own.times_ms, other.times_ms)
        lower, upper = ratio_interval(own.times_ms, other.times_ms)
        note = f"95% interval {lower:.2f} to {upper:.2f}"
        yield Goal(goal, where(table), ratio, bound, "at most", ratio <= bound, note)


def memory_ratio(measured: Row) -> float:
    """Cache and what the step takes at most, in caches."""
    return 1 + measured.peak_bytes / measured.cache_bytes


def row(table: Table, name: str) -> Row | None:
    """The row of that name, or None where the case was left out."""
    return next((each for each in table.rows if each.name == name), None)


def where(table: Table) -> str:
    """The table in a few words."""
    return f"{table.title}; {table.device}, {table.dtype}, {table.direction}"
