"""Eight watchers, one of which holds on to what it reads and one of which is stopped."""

from __future__ import annotations

import signal
import sqlite3
import subprocess
import sys
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Final

import pytest

from tests.killing.case import play_whole
from tests.killing.holdings import STORE, check_once, check_whole, holdings, mirrored
from tests.killing.scene import PACE, PATIENCE_SECONDS, Scene
from tests.protocol_server.server import ProtocolServer

HELD_AFTER: Final = 20
WATCHING: Final = 6
WATCHER: Final = (sys.executable, "-m", "tests.killing.watcher")


def attached(child: subprocess.Popen[str]) -> None:
    assert child.stdout is not None
    assert child.stdout.readline() == "watching\n", child.communicate()


def last_words(child: subprocess.Popen[str]) -> str:
    assert child.stdout is not None
    assert child.stderr is not None
    # as the first line was read: what `communicate` does would pass over what is buffered
    out, told = child.stdout.read(), child.stderr.read()
    assert child.wait(PATIENCE_SECONDS) == 0, told
    return out


@pytest.mark.timeout(300)
def test_no_watcher_holds_the_engine_up_and_all_see_the_same(tmp_path: Path) -> None:
    whole = play_whole(tmp_path / "whole" / "workspace")
    with ProtocolServer(PACE) as server, ExitStack() as stack:
        server.hold(after=HELD_AFTER)
        scene = Scene(tmp_path / "watched" / "workspace", server)
        engine = stack.enter_context(scene.start("run", "--headless"))
        server.wait_until(lambda seen: seen.requests > HELD_AFTER, PATIENCE_SECONDS)
        watchers = [
            stack.enter_context(scene.process((*WATCHER, str(scene.root))))
            for _ in range(WATCHING + 1)
        ]
        for child in watchers:
            attached(child)
        stopped = watchers.pop()
        stopped.send_signal(signal.SIGSTOP)
        path = f"file:{scene.root / STORE}?mode=ro"
        with closing(sqlite3.connect(path, uri=True, isolation_level=None)) as holding:
            holding.execute("BEGIN")
            [before] = holding.execute("SELECT count(*) FROM message").fetchone()
            assert engine.poll() is None
            server.release()
            _, told = engine.communicate(timeout=PATIENCE_SECONDS)
            assert engine.returncode == 0, told
            # it still sees the moment at which it began
            assert holding.execute("SELECT count(*) FROM message").fetchone() == (before,)
        seen = {last_words(child) for child in watchers}
        stopped.send_signal(signal.SIGCONT)
        seen.add(last_words(stopped))
        assert whole.ledger.calls(server.calls) == whole.wanted
    with closing(sqlite3.connect(scene.root / STORE)) as connection:
        tables = ("note", "state", "message", "verdict", "attempt")
        newest = max(
            connection.execute(f"SELECT max(seq) FROM {table}").fetchone()[0] for table in tables
        )
    assert len(seen) == 1, seen
    assert f'"seq": {newest},' in seen.pop()
    assert before < holdings(scene.root).spoken
    check_whole(scene.root)
    check_once(holdings(scene.root))
    assert mirrored(scene.root) == whole.files
