"""Finds what the beginning of an id, or a part of it, names."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

from engine.display import one_line
from engine.store.reader import Reader
from engine.watch import BenchmarkInfo
from tui.text.ink import shorten_middle

AT_MOST: Final = 40
"""The most ids offered; with more, the user types another letter."""


class FoundId(NamedTuple):
    """An id found, of something that has its own screen."""

    benchmark: str
    id: str
    kind: str
    """`metric`, `scenario` or `conversation`."""


MetricNames = Mapping[tuple[str, str], str]
"""The names of metrics, by benchmark and id."""


def metric_names(benchmarks: Iterable[BenchmarkInfo]) -> MetricNames:
    return {
        (info.name, metric_id): metric.name
        for info in benchmarks
        for metric_id, metric in info.metrics.items()
    }


def what_is(found_id: FoundId, metrics: MetricNames, room: int) -> str:
    """`metric of study: Says what it cannot know`, with a benchmark's name of `room` cells."""
    name = metrics.get((found_id.benchmark, found_id.id)) if found_id.kind == "metric" else None
    of = f"{found_id.kind} of {shorten_middle(one_line(found_id.benchmark), room)}"
    return f"{of}: {one_line(name)}" if name else of


def find(reader: Reader, typed: str, metrics: MetricNames, limit: int = AT_MOST) -> list[FoundId]:
    """Find ids that begin with the text, then those that contain it, then metrics whose name
    contains it, ignoring case. Raises `StoreError`."""
    part = typed.strip()
    if not part:
        return []
    rows = reader.find_ids(part, limit)
    if len(rows) < limit:
        rows += reader.find_ids_within(part, limit - len(rows))
    ids = sorted((FoundId(*row) for row in rows), key=lambda found_id: found_id.id != part)
    named = [
        FoundId(*place, "metric")
        for place, name in metrics.items()
        if part.casefold() in name.casefold()
    ]
    return [*ids, *(found_id for found_id in named if found_id not in ids)][:limit]
