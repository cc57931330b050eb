"""Ratios of times measured in the same rounds, and how sure they are."""

from __future__ import annotations

from collections.abc import Sequence
from math import comb
from statistics import median


def round_ratios(times: Sequence[float], reference: Sequence[float]) -> list[float]:
    """One ratio a round, so that a slow moment of the machine cancels; a case that rested early has fewer rounds."""
    return [own / other for own, other in zip(times, reference)]  # noqa: B905 (the rounds that both have)


def median_ratio(times: Sequence[float], reference: Sequence[float]) -> float:
    """The median over the rounds: 0.5 is half the time."""
    return median(round_ratios(times, reference))


def ratio_interval(times: Sequence[float], reference: Sequence[float]) -> tuple[float, float]:
    """Where the true median of the ratio lies with 95% certainty: the noise, taken from the spread of the rounds.

    It assumes nothing of the noise but that rounds are independent. The true median is as likely above a round as
    below, so the k-th smallest and the k-th largest of n rounds enclose it with the probability

        1 - 2 (C(n, 0) + ... + C(n, k - 1)) / 2^n

    and k is the largest with at least 0.95. Fewer than six rounds can't give that: then it is the smallest and the
    largest.

    Returns:
        The lower and the upper end.
    """
    ratios = sorted(round_ratios(times, reference))
    rounds, k, outside = len(ratios), 1, 1
    while 2 * (outside + comb(rounds, k)) <= 0.05 * 2**rounds:
        outside += comb(rounds, k)
        k += 1
    return ratios[k - 1], ratios[rounds - k]
