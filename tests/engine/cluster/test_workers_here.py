"""`run --workers`: real worker processes over TLS, as people start them."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

import psutil
import pytest

from engine.errors import STOPPED
from tests.approval import approve
from tests.engine.cluster.processes import makes_calls
from tests.engine.commands import crosswind
from tests.engine.wire import audit
from tests.engine.wire.workplace import (
    CANARY,
    HEADER_CANARY,
    VARIABLES,
    Workplace,
    metric,
    scenario,
)
from tests.protocol_server.server import ProtocolServer
from tests.protocol_server.settings import Settings
from tests.waiting import PATIENCE_S, Child, until

ROWS = 8
pytestmark = pytest.mark.process


@pytest.fixture
def server() -> Iterator[ProtocolServer]:
    with ProtocolServer(Settings(latency_ms=300)) as running:
        yield running


def workplace(root: Path, server: ProtocolServer) -> Workplace:
    place = Workplace(root, server, headers=True)
    place.configure([{"id": "good", **place.model("steadfast")}])
    place.define("bread", "About bread.", [metric(n, f"Honest {n}.") for n in range(1, ROWS + 1)])
    place.stage("bread", [scenario(n) for n in range(1, ROWS + 1)])
    env = place.root / ".env"
    env.write_text("".join(f"{name}={value}\n" for name, value in VARIABLES.items()), "utf-8")
    return place


class Engine(Child):
    """A headless run, whose words go into a file."""

    def __init__(
        self,
        place: Workplace,
        *words: str,
        environ: Mapping[str, str] | None = None,
        group: bool = False,
    ) -> None:
        self.told_in = place.root.with_suffix(".txt")
        command = ["-m", "tui", "run", "--headless", "--yes", "--workspace", str(place.root)]
        with self.told_in.open("w", encoding="utf-8") as told:
            super().__init__(
                [sys.executable, *command, *words],
                stdin=subprocess.DEVNULL,
                stdout=told,
                stderr=subprocess.STDOUT,
                text=True,
                start_new_session=group,
                env={
                    **os.environ,
                    "XDG_CACHE_HOME": str(place.root.parent / "cache"),
                    **(environ or {}),
                },
            )

    @property
    def told(self) -> str:
        return self.told_in.read_text("utf-8")

    def workers(self) -> list[psutil.Process]:
        return [one for one in psutil.Process(self.pid).children() if makes_calls(one)]


def scores(place: Workplace) -> bytes:
    return (place.folder("bread") / "runs" / "good" / "scores.json").read_bytes()


def test_a_run_one_of_whose_workers_is_killed_equals_one_without_workers(
    server: ProtocolServer, tmp_path: Path
) -> None:
    place, alone = workplace(tmp_path / "many", server), workplace(tmp_path / "alone", server)
    assert not alone.run("bread").stopped
    usual = server.counters.calls
    server.reset()
    server.hold(after=0)
    with Engine(place, "--workers", "2") as engine:
        # a call of each row is held, so that the killed worker is sure to have some under way
        server.wait_until(lambda seen: seen.concurrent == ROWS)
        workers = engine.workers()
        assert len(workers) == 2
        processes = [psutil.Process(engine.pid), *workers]
        listening = [
            link.laddr.ip
            for process in processes
            for link in process.net_connections()
            if link.status == psutil.CONN_LISTEN
        ]
        max(workers, key=lambda one: asking(one, server)).send_signal(signal.SIGKILL)
        server.release()
        assert engine.wait(PATIENCE_S) == 0, engine.told
    assert set(listening) == {"127.0.0.1"}
    assert usual < server.counters.calls <= usual + ROWS
    assert "was lost, with" in engine.told
    assert scores(place) == scores(alone)
    with place.reader() as reader:
        audit.check_store(reader, "bread")
    for path in (engine.told_in, place.root / "crosswind.log", place.root / "crosswind.db"):
        held = path.read_bytes() if path.exists() else b""
        assert CANARY.encode() not in held
        assert HEADER_CANARY.encode() not in held


def test_with_the_engine_its_workers_end_and_nothing_more_is_asked(
    server: ProtocolServer, tmp_path: Path
) -> None:
    place = workplace(tmp_path / "many", server)
    with Engine(place, "--workers", "2") as engine:
        server.wait_until(lambda seen: seen.concurrent >= 2)
        workers = engine.workers()
        engine.kill()
        engine.wait(PATIENCE_S)
        until(lambda: not any(_runs(worker) for worker in workers))
        server.wait_until(lambda seen: seen.concurrent == 0)
    # what was asked was under way at once; whatever were asked afterwards would come on top
    assert server.counters.calls == server.counters.concurrent_max


def asking(process: psutil.Process, server: ProtocolServer) -> int:
    """How many connections it has to the server."""
    ends = [link.raddr for link in process.net_connections() if link.raddr]
    return sum(end.port == server.port for end in ends)


def _runs(process: psutil.Process) -> bool:
    return bool(process.is_running() and process.status() != psutil.STATUS_ZOMBIE)


@pytest.mark.parametrize("number", ["0", "65", "two"])
def test_a_number_of_workers_that_helps_nobody_is_refused(number: str, tmp_path: Path) -> None:
    told = crosswind(tmp_path, "run", "--workers", number, code=2)
    approve(told.err)


def test_ctrl_c_in_a_terminal_ends_no_call_of_a_worker(
    server: ProtocolServer, tmp_path: Path
) -> None:
    """It reaches every process of the terminal's group; the messages being written are finished."""
    place = workplace(tmp_path / "many", server)
    with Engine(place, "--workers", "1", group=True) as engine:
        server.wait_until(lambda seen: seen.concurrent >= 2)
        os.killpg(engine.pid, signal.SIGINT)
        assert engine.wait(PATIENCE_S) == STOPPED, engine.told
    assert "was lost" not in engine.told
    assert server.counters.calls == server.counters.successes
