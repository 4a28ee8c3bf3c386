"""`cluster:` of `config.yaml`: workers that others started, which come late, go, and come again."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from engine.errors import DONE
from tests.engine.cluster.processes import DaskCluster
from tests.engine.cluster.test_workers_here import ROWS, Engine, workplace
from tests.engine.commands import crosswind
from tests.engine.wire import audit
from tests.engine.wire.workplace import CANARY, HEADER_CANARY, VARIABLES, Workplace
from tests.protocol_server.server import ProtocolServer
from tests.protocol_server.settings import Settings
from tests.waiting import PATIENCE_S, until

pytestmark = pytest.mark.process


@pytest.fixture
def cluster(tmp_path: Path) -> DaskCluster:
    return DaskCluster(tmp_path / "cluster")


@pytest.fixture
def place(tmp_path: Path, cluster: DaskCluster) -> Iterator[Workplace]:
    """Without any key: those are where the workers are."""
    with ProtocolServer(Settings(latency_ms=250)) as server:
        place = workplace(tmp_path / "workspace", server)
        name_scheduler(place, str(cluster.scheduler_file))
        (place.root / ".env").unlink()
        yield place


def name_scheduler(place: Workplace, scheduler: str) -> None:
    config = place.root / "config.yaml"
    written = config.read_text("utf-8")
    config.write_text(f"{written}\ncluster: {{scheduler: '{scheduler}'}}\n", "utf-8")


def engine_of(place: Workplace) -> dict[str, Any]:
    """What `crosswind status` says of it; nothing where none is at work yet."""
    found: dict[str, Any] | None = crosswind(place.root, "status", "--json").json()["engine"]
    return found or {}


def until_it_waits(place: Workplace, why: str) -> None:
    def waits() -> bool:
        found = engine_of(place)
        return found.get("state") == "paused" and why in (found.get("problem") or "")

    until(waits, lambda: str(engine_of(place)), every_s=0.25)


def test_a_run_outlives_its_scheduler_and_waits_for_workers(
    place: Workplace, cluster: DaskCluster
) -> None:
    with ExitStack() as stack:
        engine = stack.enter_context(Engine(place, environ=cluster.environ))
        until_it_waits(place, "dask scheduler --scheduler-file")
        scheduler = stack.enter_context(cluster.scheduler())
        scheduler.until_told("Scheduler at:")
        stack.enter_context(cluster.worker(**VARIABLES))
        place.server.wait_until(lambda seen: seen.concurrent > 1)
        [standing] = until(lambda: engine_of(place).get("agents", []))
        assert standing["name"] == "far"
        scheduler.kill()
        until_it_waits(place, "waiting for workers")
        assert engine.poll() is None
        stack.enter_context(cluster.scheduler()).until_told("Scheduler at:")
        stack.enter_context(cluster.worker(**VARIABLES))
        assert engine.wait(PATIENCE_S) == DONE, engine.told
    with place.reader() as reader:
        audit.check_store(reader, "bread")
        assert len(audit.rows(reader, "bread")) == ROWS
    shown = [path.read_bytes() for path in place.root.parent.rglob("*") if path.is_file()]
    for secret in (CANARY, HEADER_CANARY):
        assert not any(secret.encode() in text for text in shown)
    assert {call.headers["x-own-key"] for call in place.server.calls} == {HEADER_CANARY}
