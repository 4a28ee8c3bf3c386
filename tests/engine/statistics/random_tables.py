"""Random tables of one metric: what a failure more does to its lower end."""

from __future__ import annotations

from random import Random

from engine.statistics.clusters import Cluster, intraclass_correlation
from engine.statistics.rates import metric_rate


def raised_by_a_failure(count: int, seed: int = 39) -> list[tuple[list[int], list[int], int]]:
    """Sizes, what passed, and the base scenario that fails once more, where that raises the lower
    end. Every other table has base scenarios of one size, every third a given correlation."""
    chance, raised = Random(seed), []
    for number in range(count):
        size = chance.randint(1, 24)
        sizes = [
            size if number % 2 else chance.randint(1, 24) for _ in range(chance.randint(2, 19))
        ]
        rates = [chance.betavariate(2, 0.4) for _ in sizes]
        passed = [
            sum(chance.random() < rate for _ in range(rows))
            for rows, rate in zip(sizes, rates, strict=True)
        ]
        place = chance.randrange(len(sizes))
        passed[place] = max(1, passed[place])
        given = chance.random() / 2 if number % 3 == 0 else None
        before, after = (
            _low([one - fewer * (at == place) for at, one in enumerate(passed)], sizes, given)
            for fewer in (0, 1)
        )
        if after > before + 1e-9:
            raised.append((sizes, passed, place))
    return raised


def _low(passed: list[int], sizes: list[int], given: float | None) -> float:
    found = [*map(Cluster.passing, passed, sizes)]
    rate = metric_rate(found, intraclass_correlation([found]) if given is None else given)
    assert rate is not None
    return rate.interval.low
