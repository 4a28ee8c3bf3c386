"""Counts and pass rates of what is scored so far, while a run is at work."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from engine.analysis.figures import ENOUGH_SCENARIOS
from engine.benchmark import Metric, Track, base_id
from engine.jury import AskedConversations
from engine.statistics.clusters import Cluster, intraclass_correlation
from engine.statistics.rates import Rate, benchmark_rate
from engine.store.reader import Reader
from engine.store.tables import VerdictRow

ScoreCell = tuple[str, Track, str]
"""Target, track and metric."""


class PassCount(NamedTuple):
    """Passed and scored rows."""

    passed: int
    scored: int


@dataclass(frozen=True, slots=True)
class ScoreCounts:
    """Pass rates and counts of everything scored so far."""

    rates: Mapping[tuple[str, Track], Rate]
    """By target and track."""
    unsure: Collection[tuple[str, Track]]
    """Rates that rest on too few base scenarios."""
    passes: Mapping[ScoreCell, PassCount]
    metrics: Mapping[str, Metric] = field(default_factory=dict)
    """The stored metrics, by id."""
    through: int = 0
    """The `seq` of the newest verdict included."""
    failures: Mapping[ScoreCell, VerdictRow] = field(default_factory=dict)
    """The newest failure of each target and metric, where there is one."""
    asked: AskedConversations | None = None
    """The conversations that count; None for all."""


def scores(
    reader: Reader,
    benchmark: str,
    judges: Sequence[str] = (),
    asked: AskedConversations | None = None,
) -> ScoreCounts:
    """Compute them for all targets and metrics with verdicts on conversations that are asked for.
    `judges` are those whose verdicts count. Raises `StoreError`."""
    values: dict[ScoreCell, dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    failures: dict[ScoreCell, VerdictRow] = {}
    through = 0
    for row in _rows(reader, benchmark, judges):
        if asked is not None and asked.why_not(row.key) is not None:
            continue
        cell, through = (row.key.target_id, row.track, row.metric_id), row.seq
        if row.passed is not None:
            values[cell][base_id(row.key.scenario_id)].append(float(row.passed))
        if row.passed is False:
            failures[cell] = row
    cells = {
        cell: [Cluster.of(scores) for scores in by_cluster.values()]
        for cell, by_cluster in values.items()
    }
    correlation = intraclass_correlation(cells.values())
    strata: dict[tuple[str, Track], list[list[Cluster]]] = defaultdict(list)
    for (target, track, _metric), clusters in cells.items():
        strata[target, track].append(clusters)
    rates = {key: benchmark_rate(of_cell, correlation) for key, of_cell in strata.items()}
    passes = {
        cell: PassCount(
            round(sum(cluster.total for cluster in of_cell)),
            sum(cluster.size for cluster in of_cell),
        )
        for cell, of_cell in cells.items()
    }
    known = {key: rate for key, rate in rates.items() if rate is not None}
    metrics = {metric.id: metric for metric, _, _ in reader.metrics(benchmark)}
    unsure = {key for key, rate in known.items() if rate.clusters < ENOUGH_SCENARIOS}
    return ScoreCounts(known, unsure, passes, metrics, through, failures, asked)


def _rows(reader: Reader, benchmark: str, judges: Sequence[str]) -> Iterator[VerdictRow]:
    """Yield the rows by their `seq`, some at a time: they have texts, and this is done again and
    again for as long as a run takes."""
    after = 0
    # of one state of the store: what is judged again meanwhile would come twice
    with reader.connection.read_transaction():
        while rows := reader.verdict_rows(benchmark, judges, after=after, limit=_AT_ONCE):
            yield from rows
            after = rows[-1].seq


_AT_ONCE: Final = 250
