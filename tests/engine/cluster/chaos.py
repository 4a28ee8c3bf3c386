"""A run on real workers that are killed, one after the other."""

from __future__ import annotations

import random
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Final, NamedTuple

import psutil

from tests.engine.cluster.processes import DaskCluster
from tests.engine.cluster.test_over_a_cluster import name_scheduler
from tests.engine.cluster.test_workers_here import Engine, scores
from tests.engine.wire import audit
from tests.engine.wire.workplace import VARIABLES, Workplace, metric, scenario
from tests.protocol_server.server import ProtocolServer
from tests.protocol_server.settings import Settings
from tests.waiting import until

WORKERS: Final = 3
BETWEEN: Final = 8
"""Answers between two kills."""


class Chaos(NamedTuple):
    """What came of it."""

    kills: int
    usual: int
    """Calls without workers."""
    calls: int
    """Calls with them."""


def workers_killed(root: Path, *, kills: int, rows: int, latency_ms: float) -> Chaos:
    """A run of so many conversations whose workers are killed so often, held against one without
    workers: fails where a fact differs."""
    with ProtocolServer(Settings(latency_ms=latency_ms)) as server, ExitStack() as stack:
        alone, many = (_workplace(root / name, server, rows) for name in ("alone", "many"))
        assert not alone.run("bread").stopped
        usual = server.counters.calls
        server.reset()
        cluster = DaskCluster(root / "cluster")
        scheduler = stack.enter_context(cluster.scheduler())
        scheduler.until_told("Scheduler at:")
        workers = [
            stack.enter_context(cluster.worker(f"far-{number}", **VARIABLES))
            for number in range(WORKERS)
        ]
        scheduler.until_told("Register worker", WORKERS)
        name_scheduler(many, str(cluster.scheduler_file))
        engine = stack.enter_context(Engine(many, environ=cluster.environ))

        def making_calls() -> list[psutil.Process]:
            return [process for worker in workers for process in worker.making_calls()]

        killed = _kill(engine, making_calls, server, kills)
        assert engine.wait() == 0, engine.told
        assert scores(many) == scores(alone)
        with many.reader() as reader:
            audit.check_store(reader, "bread")
        return Chaos(killed, usual, server.counters.calls)


def _kill(
    engine: Engine,
    workers: Callable[[], list[psutil.Process]],
    server: ProtocolServer,
    most: int,
) -> int:
    """Each time one that has calls in hand, once some more were answered: a call whose workers die
    again and again is taken for the reason of it, and fails."""
    chance, killed = random.Random(57), 0

    def busy() -> list[psutil.Process]:
        asking = set(server.counters.clients)
        return [process for process in workers() if asking & own_ports(process, server)]

    while killed < most and engine.poll() is None:
        answered = server.counters.successes + BETWEEN
        until(lambda: server.counters.successes >= answered or engine.poll() is not None)  # noqa: B023  (it is over before the next)
        until(lambda: busy() or engine.poll() is not None)
        found = busy()
        if found and engine.poll() is None:
            chance.choice(found).kill()
            killed += 1
    return killed


def own_ports(process: psutil.Process, server: ProtocolServer) -> set[int]:
    """Of its connections to the server, those without a call in hand included."""
    try:
        links = process.net_connections()
    except psutil.Error:  # it ended meanwhile
        return set()
    return {link.laddr.port for link in links if link.raddr and link.raddr.port == server.port}


def _workplace(root: Path, server: ProtocolServer, rows: int) -> Workplace:
    place = Workplace(root, server, headers=True)
    place.configure([{"id": "good", **place.model("steadfast")}], simulate=24, evaluate=24)
    place.define("bread", "About bread.", [metric(n, f"Honest {n}.") for n in range(1, rows + 1)])
    place.stage("bread", [scenario(n) for n in range(1, rows + 1)])
    env = place.root / ".env"
    env.write_text("".join(f"{name}={value}\n" for name, value in VARIABLES.items()), "utf-8")
    return place
