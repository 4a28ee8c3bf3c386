"""Metrics that tell no targets apart."""

from __future__ import annotations

from collections.abc import Iterable, Mapping


def no_signal(counts: Mapping[str, Iterable[tuple[int, int]]]) -> dict[str, bool]:
    """Of each metric its targets' (passed, scored); the metrics that every target passes always
    (True) or never (False). A metric without a scored row is not among them."""
    found: dict[str, bool] = {}
    for metric, pairs in counts.items():
        listed = list(pairs)
        passed, scored = sum(one for one, _ in listed), sum(of for _, of in listed)
        if scored and passed in {0, scored}:
            found[metric] = passed > 0
    return found
