"""How many devices are best."""

from __future__ import annotations

from course_lib.exercises.exercise import Case
from course_lib.exercises.function_exercise import FunctionExercise
from course_lib.exercises.input_generator import InputGenerator


def best_degree(weights_ms, cache_ms, num_kv_heads, ring_ms, degrees):
    # four numbers, list of int -> int
    def step(n):  # with n devices
        return weights_ms / n + cache_ms / min(n, num_kv_heads) + (n - 1) * ring_ms

    return min(degrees, key=step)


def _step(weights: float, cache: float, kv: int, ring: float, n: int) -> float:
    return weights / n + cache / min(n, kv) + (n - 1) * ring


def _cache_cut_further(weights: float, cache: float, kv: int, ring: float, degrees: list[int]) -> int:
    return best_degree(weights, cache, max(degrees), ring, degrees)


def _without_cache(weights: float, cache: float, kv: int, ring: float, degrees: list[int]) -> int:
    return best_degree(weights, 0, kv, ring, degrees)


def _without_weights(weights: float, cache: float, kv: int, ring: float, degrees: list[int]) -> int:
    return best_degree(0, cache, kv, ring, degrees)


def _over_all_devices(weights: float, cache: float, kv: int, ring: float, degrees: list[int]) -> int:
    return min(degrees, key=lambda n: n * _step(weights, cache, kv, ring, n))


def _ring_too_long(weights: float, cache: float, kv: int, ring: float, degrees: list[int]) -> int:
    return min(degrees, key=lambda n: _step(weights, cache, kv, ring, n) + ring * (n > 1))


MISTAKES = (_cache_cut_further, _without_cache, _ring_too_long, _without_weights, _over_all_devices)


def _draw(rng: InputGenerator) -> list[Case]:
    """Draw two calls per mistake that shows in them; no two numbers of devices are nearly as good."""
    cases, kv_heads = [], (2, 4, 4, 8, 16)
    for mistake, kv in zip(2 * MISTAKES, (*rng.shuffled(kv_heads), *rng.shuffled(kv_heads)), strict=True):
        while True:
            degrees = rng.shuffled([1, 2, 4, 8, 16, 32])
            weights, cache = (float(1 + rng.integer(50)) for _ in range(2))
            call = weights, cache, kv, rng.choice((0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0)), degrees
            times = sorted(_step(*call[:4], n) for n in degrees)
            best = best_degree(*call)
            seen = mistake(*call) != best and (best != kv or mistake in MISTAKES[:3])
            if times[1] > 1.02 * times[0] and seen:
                break
        cases.append(Case(call))
    weights, cache, *_, degrees = cases[0].arguments
    cases.append(Case((weights, 4.0 * weights, 1, 0.75 * weights, degrees)))  # two devices are worse, and barely
    return [*cases, Case((weights, cache, 1, 2.0 * (weights + cache), degrees), "the links are slow")]


EXERCISE = FunctionExercise(
    best_degree,
    title="How many devices are best",
    difficulty=3,
    minutes=7,
    prompt=(
        "On one device a decoding step reads the weights in `weights_ms` milliseconds and the cache in `cache_ms`. "
        "With n devices the weights are cut n times; the cache is cut as often as there are kv heads to deal out, and "
        "no further. All the all-reduces of a step together take `(n - 1) * ring_ms`, because the ring gets longer. "
        "`degrees` lists the numbers of devices that you may choose from. Give back the one with the shortest step."
    ),
    hints=(
        "Write the time of a step with n devices: three terms.",
        "Weights: weights_ms / n. The cache stops at num_kv_heads: cache_ms / min(n, num_kv_heads).",
        "Compute the sum for each number in `degrees`, and give back the number at which the sum is smallest.",
    ),
    draw=_draw,
    wrong="""
num_kv_heads) => n)
    the choice for a cache that is cut even where the kv heads have run out
    ? Into how many parts can a cache of two kv heads be cut, if heads are dealt out whole?
weights_ms / n + cache_ms / min(n, num_kv_heads) => weights_ms / n
    the choice without the cache, or with one that is not cut
    ? What does a device read of the cache?
weights_ms / n + cache_ms => cache_ms
    the choice without the weights
    ? What else does a step read?
(n - 1) => (n if n > 1 else 0)
    the choice for a step in which n devices cost n times `ring_ms`, not n - 1 times
    ? How often is `ring_ms` added with two devices?
key=step => key=lambda n: n * step(n)
    the choice for the smallest time over all devices together
    ? For which time does somebody wait who reads the text?
n - 1 => 1
    the choice if more devices never take longer to talk
    ? How does what `ring_ms` says grow with the number of devices?
return min => return max
    the longest step, not the shortest
    ? Are you looking for the smallest or for the largest sum?
degrees.index(result)
    the index of the best number of devices, not the number itself
    ? What does `degrees` hold at this index?
min(degrees, key=step) => min(map(step, degrees))
    the time of the best number of devices, not the number itself
    ? Which number of devices has this time?
""",
)
