"""A run that is asked to stop finishes the messages of which text arrives, and no others."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path

import pytest

from engine.benchmark import Stage, State
from engine.config.schema import load_config
from engine.config.workspace import Workspace
from engine.pipeline.order import Order
from engine.pipeline.run import Pipeline, RunResult
from engine.providers.http.pool import ConnectionPool
from engine.providers.retry import RetryPolicy
from engine.store.database import open_store
from tests.engine.wire import audit
from tests.engine.wire.workplace import VARIABLES, SleptTime, Workplace, metric, scenario
from tests.pipelines import run_once
from tests.protocol_server.faults import Fault
from tests.protocol_server.server import ProtocolServer

ROWS = 3


def run_stopped_at_the_first_wait(
    place: Workplace, look: Callable[[Pipeline], None] = lambda _pipeline: None
) -> RunResult:
    """Run until a call waits, and ask the run to stop, after a look at it."""

    def drain(_number: int) -> None:
        look(pipeline)
        pipeline.drain()

    with open_store(place.root / "crosswind.db") as store:
        pipeline = Pipeline(
            Workspace(place.root),
            load_config(place.root / "config.yaml"),
            store.reader,
            store,
            environ=VARIABLES,
            clock=SleptTime(drain).as_clock(),
            retry_policy=place.retry_policy,
        )
        return asyncio.run(run_once(pipeline, Order(("bread",))))


@pytest.fixture
def place(server: ProtocolServer, tmp_path: Path) -> Workplace:
    found = Workplace(tmp_path / "workspace", server, retry_policy=RetryPolicy())
    found.configure([{"id": "good", **found.model("steadfast")}])
    metrics = [metric(number, f"Honest {number}.") for number in range(1, ROWS + 1)]
    found.define("bread", "About bread.", metrics)
    found.stage("bread", [scenario(number) for number in range(1, ROWS + 1)])
    return found


def check_nothing_was_lost(place: Workplace) -> None:
    """Every row still waits; the next run does all of them, in their first takes."""
    assert states(place, Stage.SIMULATE) == [State.QUEUED] * ROWS
    assert not place.run("bread").failed
    assert states(place, Stage.EVALUATE) == [State.DONE] * ROWS
    with place.reader() as reader:
        audit.check_store(reader, "bread")
        assert {take.number for take in reader.takes("bread")} == {0}


def states(place: Workplace, stage: Stage) -> list[State]:
    with place.reader() as reader:
        return [row.state for row in reader.units("bread", stage).values()]


@pytest.mark.parametrize("fault", [Fault.SERVER_ERROR, Fault.RATE_LIMITED])
def test_a_call_that_waits_for_its_next_try_ends_at_a_stop(place: Workplace, fault: Fault) -> None:
    place.server.plan(fault, match="steadfast")
    result = run_stopped_at_the_first_wait(place)
    assert result.stopped
    assert not result.failed
    # none is tried a second time
    assert place.server.counters.by_model["steadfast"] <= ROWS
    place.server.reset()
    check_nothing_was_lost(place)


def test_messages_whose_calls_wait_are_counted_apart(place: Workplace) -> None:
    place.server.plan(Fault.RATE_LIMITED, match="steadfast")
    counts: list[tuple[int, int]] = []

    def look(pipeline: Pipeline) -> None:
        counts.append((len(pipeline.live.speaking()), pipeline.waiting_messages))

    assert run_stopped_at_the_first_wait(place, look).stopped
    [(begun, waiting), *_] = counts
    assert 1 <= waiting <= begun <= ROWS


def test_a_call_to_a_server_that_refuses_connections_ends_at_a_stop(place: Workplace) -> None:
    place.server.refuse()
    result = run_stopped_at_the_first_wait(place)
    place.server.accept()
    assert result.stopped
    assert not result.failed
    check_nothing_was_lost(place)


def test_a_call_that_waits_for_an_open_file_ends_at_a_stop(
    place: Workplace, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(ConnectionPool, "waits_for", lambda _pool: "a file")
        result = run_stopped_at_the_first_wait(place)
    assert result.stopped
    assert not result.failed
    assert place.server.counters.calls == 0
    check_nothing_was_lost(place)


def test_a_judge_that_waits_for_its_next_try_ends_at_a_stop(place: Workplace) -> None:
    place.server.plan(Fault.SERVER_ERROR, match="evaluator")
    result = run_stopped_at_the_first_wait(place)
    assert result.stopped
    assert not result.failed
    assert set(states(place, Stage.EVALUATE)) == {State.QUEUED}
    place.server.reset()
    assert not place.run("bread").failed
