"""`run --cluster`: workers that others started, which come late, go, and come again."""

from __future__ import annotations

import asyncio
import json
import shutil
import socket
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from distributed import Client

from engine.cluster.certificates import security_from
from engine.cluster.folder import ClusterFolder, scheduler_address
from engine.errors import DONE, STOPPED
from tests.engine.cluster.processes import ClusterProcess
from tests.engine.cluster.test_workers_here import ROWS, Engine, workplace
from tests.engine.commands import command, crosswind
from tests.engine.wire import audit
from tests.engine.wire.workplace import CANARY, HEADER_CANARY, VARIABLES, Workplace
from tests.protocol_server.server import ProtocolServer
from tests.protocol_server.settings import Settings
from tests.waiting import PATIENCE_S, until

pytestmark = pytest.mark.process


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Workplace]:
    """Without any key: those are where the workers are."""
    with ProtocolServer(Settings(latency_ms=250)) as server:
        place = workplace(tmp_path / "workspace", server)
        (place.root / ".env").unlink()
        yield place


def engine_of(place: Workplace) -> dict[str, Any]:
    """What `crosswind status` says of it; nothing where none is at work yet."""
    found: dict[str, Any] | None = crosswind(place.root, "status", "--json").json()["engine"]
    return found or {}


def until_it_waits(place: Workplace, why: str) -> str:
    def waits() -> str | None:
        found = engine_of(place)
        problem = str(found.get("problem") or "")
        return problem if found.get("state") == "paused" and why in problem else None

    return until(waits, every_s=0.25) or ""


def test_a_run_outlives_its_scheduler_and_waits_for_workers(place: Workplace, folder: Path) -> None:
    with ExitStack() as stack:
        engine = stack.enter_context(Engine(place, "--cluster", str(folder)))
        told = until_it_waits(place, "waiting for workers")
        assert "crosswind cluster scheduler" in told
        scheduler = stack.enter_context(ClusterProcess(folder, "scheduler", "--port", "0"))
        scheduler.until_told("scheduler at tls://")
        worker = stack.enter_context(ClusterProcess(folder, "worker", "--name", "far", **VARIABLES))
        place.server.wait_until(lambda seen: seen.concurrent > 1)
        [standing] = until(lambda: engine_of(place).get("agents", []))
        assert standing["name"] == "far"
        scheduler.kill()
        until_it_waits(place, "waiting for workers")
        assert engine.poll() is None
        again = stack.enter_context(ClusterProcess(folder, "scheduler", "--port", "0"))
        assert engine.wait(PATIENCE_S) == DONE, engine.told
    with place.reader() as reader:
        audit.check_store(reader, "bread")
        assert len(audit.rows(reader, "bread")) == ROWS
    shown = [path.read_bytes() for path in place.root.rglob("*") if path.is_file()]
    shown += [one.told.encode() for one in (engine, scheduler, worker, again)]
    for secret in (CANARY, HEADER_CANARY):
        assert not any(secret.encode() in text for text in shown)
    assert {call.headers["x-own-key"] for call in place.server.calls} == {HEADER_CANARY}


def test_keys_are_told_over_tls_alone_and_stand_nowhere(place: Workplace, folder: Path) -> None:
    """The worker has none of its own; what it is told is in no file, word or state of Dask's."""
    env = place.root / ".env"
    env.write_text("".join(f"{name}={value}\n" for name, value in VARIABLES.items()), "utf-8")
    with ExitStack() as stack:
        scheduler = stack.enter_context(ClusterProcess(folder, "scheduler", "--port", "0"))
        scheduler.until_told("scheduler at tls://")
        worker = stack.enter_context(ClusterProcess(folder, "worker", "--name", "far"))
        worker.until_told("makes calls for")
        engine = stack.enter_context(Engine(place, "--cluster", str(folder), "--forward-keys"))
        place.server.wait_until(lambda seen: seen.concurrent > 1)
        shown = [json.dumps(engine_of(place)), asyncio.run(state_of_dask(folder))]
        assert "crosswind-agent-" in shown[1]
        assert engine.wait(PATIENCE_S) == DONE, engine.told
    assert {call.headers["x-own-key"] for call in place.server.calls} == {HEADER_CANARY}
    told = [env.rename(folder.parent / "was-in-env").name, *shown]
    told += [one.told for one in (engine, scheduler, worker)]
    kept = [path.read_bytes() for path in folder.parent.rglob("*") if path.is_file()]
    for secret in (CANARY, HEADER_CANARY):
        assert not any(secret in text for text in told)
        assert sum(secret.encode() in text for text in kept) == 1  # where a person put it


async def state_of_dask(folder: Path) -> str:
    """All that a dashboard could show: what scheduler and workers know of what they do."""

    def known(dask_scheduler: Any) -> str:
        tasks = [(task.key, str(task.run_spec)) for task in dask_scheduler.tasks.values()]
        return repr((tasks, dask_scheduler.identity(-1), list(dask_scheduler.transition_log)))

    def at_work(dask_worker: Any) -> str:
        return repr((dask_worker.state.tasks, list(dask_worker.state.log), dask_worker.data))

    async with Client(
        scheduler_address(ClusterFolder(folder)),
        security=security_from(folder / "cluster.pem"),
        asynchronous=True,
        set_as_default=False,
    ) as client:
        scheduler: Any = client.run_on_scheduler(known)
        workers: Any = client.run(at_work)
        return f"{await scheduler} {await workers}"


def test_a_scheduler_without_tls_is_told_nothing(place: Workplace, folder: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as plain, ExitStack() as stack:
        address = f"tcp://127.0.0.1:{plain.getsockname()[1]}"
        (folder / "scheduler.json").write_text(json.dumps({"address": address}), "utf-8")
        engine = stack.enter_context(Engine(place, "--cluster", str(folder), "--forward-keys"))
        until_it_waits(place, "is not encrypted")
        plain.setblocking(False)
        with pytest.raises(BlockingIOError):
            plain.accept()  # nobody has come
        crosswind(place.root, "stop")
        assert engine.wait(PATIENCE_S) == STOPPED, engine.told
    assert place.server.counters.calls == 0


def test_a_run_that_waits_for_workers_can_be_stopped(
    place: Workplace, folder: Path, tmp_path: Path
) -> None:
    stranger = tmp_path / "stranger"
    command("cluster", "init", "--out", str(stranger), code=0)
    with ExitStack() as stack:
        scheduler = stack.enter_context(ClusterProcess(folder, "scheduler", "--port", "0"))
        scheduler.until_told("scheduler at tls://")
        # with another key, it is let in nowhere
        shutil.copy(folder / "scheduler.json", stranger)
        engine = stack.enter_context(Engine(place, "--cluster", str(stranger)))
        until_it_waits(place, "has another key than")
        crosswind(place.root, "stop")
        assert engine.wait(PATIENCE_S) == STOPPED, engine.told
    assert place.server.counters.calls == 0
