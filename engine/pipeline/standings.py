"""How the targets of a benchmark stand at this moment; `results` has the whole of it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping

from engine.benchmark import Track, base_id
from engine.statistics.clusters import Cluster, intraclass_correlation
from engine.statistics.rates import Rate, benchmark_rate
from engine.store.reader import Reader
from engine.store.records import VerdictRow

Cell = tuple[str, Track, str]
"""Target, track and metric."""


def standings(reader: Reader, benchmark: str) -> Mapping[tuple[str, Track], Rate]:
    """By target and track, over all that was scored so far. Raises `StoreError`."""
    cells = _clusters(reader.verdict_rows(benchmark))
    correlation = intraclass_correlation(cells.values())
    strata: dict[tuple[str, Track], list[list[Cluster]]] = defaultdict(list)
    for (target, track, _metric), clusters in cells.items():
        strata[target, track].append(clusters)
    rates = {key: benchmark_rate(found, correlation) for key, found in strata.items()}
    return {key: rate for key, rate in rates.items() if rate is not None}


def _clusters(rows: Iterable[VerdictRow]) -> dict[Cell, list[Cluster]]:
    values: dict[Cell, dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    for row in rows:
        if row.passed is not None:
            cell = (row.key.target_id, row.track, row.metric_id)
            values[cell][base_id(row.key.scenario_id)].append(float(row.passed))
    return {
        cell: [Cluster.of(scores) for scores in found.values()] for cell, found in values.items()
    }
