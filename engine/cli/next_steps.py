"""What to look at when a run has stopped after the stage that it was to stop after."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence
from contextlib import closing
from typing import Final

from engine.benchmark import Stage
from engine.cli.session import Session
from engine.pipeline.order import Order
from engine.store.reader import Reader
from engine.store.reading import empty_reader, open_reader

NAMED: Final = 3
"""Benchmarks whose files are named; of the others there are as many."""


def next_steps(session: Session, order: Order, last: Stage) -> Iterator[str]:
    """One line for each thing to look at, and how the run goes on."""
    path = session.store_path
    on = f" --workspace {shlex.quote(str(session.workspace.root))}"
    with closing(open_reader(path) if path.exists() else empty_reader(path)) as reader:
        yield f"stopped after {last}, as `--until` asked. Look at what it made:"
        steps = list(_looks(session, reader, order.benchmarks, last, on))
    width = max((len(what) for what, _ in steps), default=0)
    for what, why in steps:
        yield f"  {what.ljust(width)}   {why}"
    if last is not Stage.AGGREGATE:
        yield f"then `crosswind run{on}` goes on from there"


def _looks(
    session: Session, reader: Reader, names: Sequence[str], last: Stage, on: str
) -> Iterator[tuple[str, str]]:
    files = {
        Stage.GEN_METRICS: ("benchmark.yaml", "the metrics; what you change there counts"),
        Stage.GEN_SCENARIOS: ("scenarios.json", "the scenarios; what you change there counts"),
    }
    if last in files:
        file, words = files[last]
        for name in names[:NAMED]:
            path = session.workspace.definition_path(name).with_name(file)
            yield str(path.relative_to(session.workspace.root)), words
    unit = _first(reader, names, last)
    if unit is not None:
        shown = {
            Stage.GEN_METRICS: "a metric",
            Stage.GEN_SCENARIOS: "a scenario, as it is played",
            Stage.SIMULATE: "a conversation",
        }
        yield f"crosswind show {unit}{on}", shown.get(last, "a conversation with its verdicts")
    if last in {Stage.SIMULATE, Stage.EVALUATE}:
        yield f"crosswind{on}", "all of them, in the app"
    if last in {Stage.EVALUATE, Stage.AGGREGATE}:
        yield f"crosswind results{on}", "pass rates, and what is sure about them"


def _first(reader: Reader, names: Sequence[str], last: Stage) -> str | None:
    """An id to begin with."""
    for name in names:
        if last is Stage.GEN_METRICS:
            found = [metric.id for metric, _, _ in reader.metrics(name)]
        elif last is Stage.GEN_SCENARIOS:
            found = [row.scenario.id for row in reader.scenarios(name) if row.played]
        else:
            found = [str(take.key) for take in reader.counting_takes(name)]
        if found:
            return found[0]
    return None
