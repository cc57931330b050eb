"""Compare the goals for time and memory with what was measured.

A ratio is the median over the rounds; its noise is the 95% confidence interval of that median (`ratio_interval`). "No
slower within noise" means that this interval reaches down to 1.00, and that the median is at most 1.05.
"""

from collections.abc import Iterator

from course_lib.timing import Goal, Results, Table, median_ratio, ratio_interval

from .cases import forms, llama, multi_query, prefill_decode

NOISE_AT_MOST = 1.05
EXPLICIT_PEERS = {
    "forms": (forms.EXPLICIT, (forms.WRAPPER, forms.TORCH)),
    "llama": (llama.EXPLICIT, (llama.THEIRS_EAGER,)),
    "multi-query": (multi_query.EXPLICIT, (multi_query.BROADCAST, multi_query.MULTI_HEAD)),
}
FLOORS = {"forms": (forms.FUSED, forms.FLOOR), "multi-query": (multi_query.FUSED, multi_query.FLOOR)}


def judge(results: Results) -> list[Goal]:
    """Judge every goal whose rows were measured."""
    return [
        *explicit_no_slower(results),
        *fused_at_the_floor(results),
        *decode_beats_broadcasting(results),
        *decode_reads_once(results),
        *decode_takes_no_memory(results),
        *cuda_prefill(results),
    ]


def explicit_no_slower(results: Results) -> Iterator[Goal]:
    """Compare the explicit form with the fastest of the other forms that compute the weights."""
    for name, (case_name, peer_names) in EXPLICIT_PEERS.items():
        for table in results.find(name):
            times = times_by_name(table)
            peers = [peer for peer in peer_names if peer in times]
            if case_name not in times or not peers:
                continue
            ratio, peer = max((median_ratio(times[case_name], times[peer]), peer) for peer in peers)
            lower, upper = ratio_interval(times[case_name], times[peer])
            met = lower <= 1.0 and ratio <= NOISE_AT_MOST
            note = f"against {peer!r}, 95% interval {lower:.2f} to {upper:.2f}"
            yield Goal("explicit, no slower than any explicit peer", where(table), ratio, 1.0, "at most", met, note)


def fused_at_the_floor(results: Results) -> Iterator[Goal]:
    """Compare the fused kernel in its module with the linears and PyTorch's kernel alone."""
    for name, (case_name, floor_name) in FLOORS.items():
        for table in results.find(name):
            yield from ratio_goal(table, case_name, floor_name, 1.05, "fused, within 1.05 of the floor")


def decode_beats_broadcasting(results: Results) -> Iterator[Goal]:
    """Compare multi-query decoding with the form that is usually written."""
    goal = "MQA decode, 60 times as fast as broadcasting"
    for table in results.find("mqa-decode", dtype="float32"):
        yield from ratio_goal(
            table, prefill_decode.BROADCAST, prefill_decode.ATTEND_FUSED, 60.0, goal, sense="at least"
        )


def decode_reads_once(results: Results) -> Iterator[Goal]:
    """Compare multi-query decoding with the least time in which keys and values can be read."""
    limits = {(each.device, each.dtype): each for each in results.limits}
    for table in results.find("mqa-decode"):
        fused = next((each for each in table.rows if each.name == prefill_decode.ATTEND_FUSED), None)
        judged = table.dtype == "float32" or table.device == "cuda"  # few processors multiply in bfloat16
        if judged and fused is not None and fused.cache_bytes is not None and fused.flops is not None:
            limit = limits[table.device, table.dtype]
            reading = limit.milliseconds(fused.cache_bytes, 0)
            times = fused.median_ms / reading
            computing = limit.milliseconds(0, fused.flops) / reading
            note = f"the multiplications alone take {computing:.2f} times the reading"
            goal = "MQA decode, within 2.0 of reading K and V"
            yield Goal(goal, where(table), times, 2.0, "at most", times <= 2.0, note)


def decode_takes_no_memory(results: Results) -> Iterator[Goal]:
    """Compare the memory of a decoding step, cache included, with the cache; the largest form counts per kernel."""
    for table in results.find("cache"):
        for kernel in ("explicit", "fused"):
            ratios = {
                row.name: 1 + row.peak_bytes / row.cache_bytes
                for row in table.rows
                if row.name.endswith(kernel) and row.peak_bytes is not None and row.cache_bytes
            }
            if ratios:
                worst = max(ratios, key=ratios.__getitem__)
                note = f"worst of {len(ratios)}: {worst!r}"
                if kernel == "explicit":
                    note += "; it holds scores and weights: per key as many elements as there are heads"
                goal = f"decode's memory, {kernel}, under 1.1 times the cache"
                yield Goal(goal, where(table), ratios[worst], 1.1, "at most", ratios[worst] < 1.1, note)


def cuda_prefill(results: Results) -> Iterator[Goal]:
    """Compare the fused form in bfloat16 on a GPU with PyTorch's kernel and the four matrix products."""
    for table in results.find("forms", device="cuda", dtype="bfloat16", direction="forward"):
        yield from ratio_goal(table, forms.FUSED, forms.FLOOR, 1.1, "on a GPU, fused prefill within 1.1 of the floor")


def ratio_goal(
    table: Table, case_name: str, other_name: str, bound: float, goal: str, *, sense: str = "at most"
) -> Iterator[Goal]:
    """Yield a goal on the ratio of two rows, or nothing where one of them was left out."""
    times = times_by_name(table)
    if {case_name, other_name} <= times.keys():
        pair = times[case_name], times[other_name]
        ratio, (lower, upper) = median_ratio(*pair), ratio_interval(*pair)
        digits = 2 if sense == "at most" else 0
        note = f"95% interval {lower:.{digits}f} to {upper:.{digits}f}"
        met = ratio <= bound if sense == "at most" else ratio >= bound
        yield Goal(goal, where(table), ratio, bound, sense, met, note)


def times_by_name(table: Table) -> dict[str, tuple[float, ...]]:
    """Map the name of each row to its times; cases that were left out are missing."""
    return {row.name: row.times_ms for row in table.rows}


def where(table: Table) -> str:
    """Return the title of a table, with device, dtype and direction."""
    return f"{table.title}; {table.device}, {table.dtype}, {table.direction}"
