"""Where every conversation of a benchmark stands, read once for all who plan with it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from engine.analysis.figures import ENOUGH_SCENARIOS
from engine.benchmark import ConversationKey, Metric, State, Track, base_id
from engine.statistics.clusters import Cluster, intraclass_correlation
from engine.statistics.rates import Rate, benchmark_rate
from engine.store.reader import Reader
from engine.store.records import VerdictRow
from engine.store.tables import CheckRow, StateRow, StoredTake, Verdict


@dataclass(frozen=True, slots=True)
class StoredConversations:
    """What has been played and judged."""

    newest: Mapping[ConversationKey, StoredTake]
    """The newest take of each conversation, finished or not."""
    counting: Mapping[ConversationKey, tuple[StoredTake, Sequence[Verdict]]]
    """The take that counts, where there is one, and every verdict on it, oldest first."""
    checks: Mapping[int, Sequence[CheckRow]] = field(default_factory=dict)
    """What checks say of each take, by its `seq`, oldest first."""

    @classmethod
    def of(cls, reader: Reader, benchmark: str) -> StoredConversations:
        """As the store has it now, read once for all rows of the benchmark."""
        checks: defaultdict[int, list[CheckRow]] = defaultdict(list)
        for check in reader.checks(benchmark):
            checks[check.take].append(check)
        return cls(
            # takes come in the order of their numbers, so the last of each key stands
            newest={take.key: take for take in reader.takes(benchmark)},
            counting={
                take.key: (take, verdicts) for take, verdicts in reader.counting_verdicts(benchmark)
            },
            checks=dict(checks),
        )

    def newest_checks(self, take: int) -> list[CheckRow]:
        """Of each kind the newest that can be used and had something to ask about."""
        found = {row.kind: row for row in self.checks.get(take, ()) if row.unusable is None}
        return [row for row in found.values() if row.answers]

    @property
    def judged(self) -> Iterator[ConversationKey]:
        for key, (_, verdicts) in self.counting.items():
            if any(verdict.passed is not None for verdict in verdicts):
                yield key


def settled(
    rows: Iterable[StateRow],
    *,
    wanted: set[str],
    planned: set[str],
    made: set[str],
    complete: frozenset[str] = frozenset(),
) -> Iterator[tuple[StateRow, State]]:
    """Rows of work whose state is no longer true, and what it is.

    What the benchmark no longer asks for is dropped. What is there is done, though an engine died
    before it could say so, or the row was dropped once. What is planned is announced elsewhere, and
    what waits for a run that includes it waits on. What failed but is `complete` lacks nothing: it
    failed for a judge that was asked for once.
    """
    for row in rows:
        if row.unit not in wanted:
            if row.state is not State.DROPPED:
                yield row, State.DROPPED
        elif row.unit in planned:
            continue
        elif row.state is State.FAILED and row.unit in complete:
            yield row, State.DONE
        elif row.state in {State.DONE, State.FAILED}:
            continue
        elif row.unit in made:
            yield row, State.DONE
        elif row.state is not State.QUEUED:
            yield row, State.QUEUED


Cell = tuple[str, Track, str]
"""Target, track and metric."""


class PassCount(NamedTuple):
    """How many of so many scored rows passed."""

    passed: int
    scored: int


@dataclass(frozen=True, slots=True)
class ScoreCounts:
    """Over all that was scored so far."""

    rates: Mapping[tuple[str, Track], Rate]
    """By target and track."""
    unsure: Collection[tuple[str, Track]]
    """Those of them that rest on too few base scenarios."""
    passes: Mapping[Cell, PassCount]
    metrics: Mapping[str, Metric] = field(default_factory=dict)
    """As the store has them, by id."""
    through: int = 0
    """The seq of the newest verdict that is in it."""


def scores(reader: Reader, benchmark: str) -> ScoreCounts:
    """Of every target and metric that the store holds verdicts on. Raises `StoreError`."""
    rows = reader.verdict_rows(benchmark)
    cells = _clusters(rows)
    correlation = intraclass_correlation(cells.values())
    strata: dict[tuple[str, Track], list[list[Cluster]]] = defaultdict(list)
    for (target, track, _metric), clusters in cells.items():
        strata[target, track].append(clusters)
    rates = {key: benchmark_rate(found, correlation) for key, found in strata.items()}
    passes = {
        cell: PassCount(round(sum(one.total for one in found)), sum(one.size for one in found))
        for cell, found in cells.items()
    }
    known = {key: rate for key, rate in rates.items() if rate is not None}
    metrics = {metric.id: metric for metric, _, _ in reader.metrics(benchmark)}
    unsure = {key for key, rate in known.items() if rate.clusters < ENOUGH_SCENARIOS}
    through = max((row.seq for row in rows), default=0)
    return ScoreCounts(known, unsure, passes, metrics, through)


def _clusters(rows: Iterable[VerdictRow]) -> dict[Cell, list[Cluster]]:
    values: dict[Cell, dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    for row in rows:
        if row.passed is not None:
            cell = (row.key.target_id, row.track, row.metric_id)
            values[cell][base_id(row.key.scenario_id)].append(float(row.passed))
    return {
        cell: [Cluster.of(scores) for scores in found.values()] for cell, found in values.items()
    }
