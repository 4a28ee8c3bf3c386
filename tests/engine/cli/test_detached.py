"""A run that goes on by itself, and what a shell may ask of it: real processes throughout."""

from __future__ import annotations

import json
import os
import signal
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from sqlite_utils import Database

from engine.store.lock import workspace_holder
from engine.store.migrations import MIGRATIONS
from tests.engine.small_workspace import Place, small_workspace

PATIENCE_SECONDS = 60.0
KEY = "m01_s001_v01__holds"


@dataclass(frozen=True)
class Shell:
    """Where a person types commands."""

    place: Place

    def __call__(self, *words: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", "tui", *words, "--workspace", str(self.place.root)],
            capture_output=True,
            text=True,
            timeout=110,
            check=False,
            stdin=subprocess.DEVNULL,
        )

    def status(self) -> Any:
        return json.loads(self("status", "--json").stdout)

    def pid(self) -> int:
        holder = workspace_holder(self.place.root)
        assert holder is not None
        assert holder.pid is not None
        return holder.pid

    def until(self, met: Callable[[], bool]) -> None:
        end = time.monotonic() + PATIENCE_SECONDS
        while not met():
            assert time.monotonic() < end, "it never came to that"
            time.sleep(0.02)

    def until_gone(self) -> None:
        self.until(lambda: workspace_holder(self.place.root) is None)

    def until_it_talks(self) -> None:
        self.until(lambda: (self.place.root / "crosswind.db").exists())
        with self.place.reader() as reader:
            self.until(lambda: bool(reader.takes("giving-in")))


@pytest.fixture
def shell(tmp_path: Path) -> Iterator[Shell]:
    """Whatever is left running in it is ended."""
    found = Shell(small_workspace(tmp_path))
    yield found
    holder = workspace_holder(tmp_path)
    if holder is not None and holder.pid is not None:
        os.kill(holder.pid, signal.SIGKILL)
        found.until_gone()


def test_a_detached_run_is_watched_asked_and_stopped_from_the_shell(shell: Shell) -> None:
    shell.place.long_talks()
    started = shell("run", "--detach")
    assert started.returncode == 0, started.stderr
    assert "crosswind watch" in started.stderr
    pid = shell.pid()
    assert f"process {pid}" in started.stderr
    shell.until_it_talks()

    second = shell("run", "--headless")
    assert second.returncode == 4
    assert f"process {pid}" in second.stderr

    assert shell("pause").returncode == 0
    paused = shell.status()
    assert paused["engine"]["pid"] == pid
    assert paused["engine"]["state"] == "paused"
    assert "paused" in shell("status").stdout
    assert shell("resume").returncode == 0

    stopped = shell("stop", "--wait")
    assert stopped.returncode == 0
    assert workspace_holder(shell.place.root) is None
    assert shell.status()["engine"] is None
    again = shell("stop")
    assert (again.returncode, "no engine is at work" in again.stderr) == (0, True)
    assert shell("pause").returncode == 2


def test_an_engine_is_found_without_its_lock_file_and_stopped_without_a_configuration(
    shell: Shell,
) -> None:
    shell.place.long_talks()
    assert shell("run", "--detach").returncode == 0
    pid = shell.pid()
    try:
        (shell.place.root / "crosswind.lock").unlink()
        found = shell.status()
        assert (found["engine"]["pid"], found["last_run"]) == (pid, "at work")

        config = shell.place.root / "config.yaml"
        wanted = config.read_text()
        config.write_text(wanted + "half: [")
        stopped = shell("stop", "--wait")
        assert stopped.returncode == 0, stopped.stderr
        assert "stopping" in stopped.stderr
        config.write_text(wanted)
        after = shell.status()
        assert (after["engine"], after["last_run"]) == (None, "stopped")
    finally:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


def test_an_engine_that_was_killed_leaves_nothing_in_the_way(shell: Shell) -> None:
    shell.place.long_talks()
    assert shell("run", "--detach").returncode == 0
    shell.until_it_talks()
    os.kill(shell.pid(), signal.SIGKILL)
    shell.until_gone()

    assert shell("run", "--detach").returncode == 0
    assert shell.status()["engine"]["state"] in {"running", "starting"}
    assert shell("stop", "--now", "--wait").returncode == 0


def test_a_finished_run_is_judged_again_by_the_engine_that_waits_or_by_a_new_one(
    shell: Shell,
) -> None:
    assert shell("run", "--headless").returncode == 0
    alone = shell("evaluate", KEY, "--json")
    assert alone.returncode == 0, alone.stderr

    assert shell("run", "--detach").returncode == 0  # nothing is missing: it waits for more
    waiting = shell("evaluate", KEY)
    assert waiting.returncode == 0, waiting.stderr
    assert f"{KEY}: " in waiting.stdout
    with shell.place.reader() as reader:
        [take] = [take for take in reader.takes("giving-in") if str(take.key) == KEY]
        assert len(reader.verdicts(take.seq)) == 3

    # an engine that only waits makes way at once
    assert shell("run", "--headless").returncode == 0


def test_retry_says_when_there_is_nothing_and_refuses_what_has_not_failed(shell: Shell) -> None:
    assert shell("run", "--headless").returncode == 0
    nothing = shell("retry")
    assert (nothing.returncode, nothing.stderr.strip()) == (0, "nothing has failed")
    other = shell("retry", KEY)
    assert other.returncode == 2
    assert "not among what has failed" in other.stderr
    nobody = shell("retry", "--target", "nobody")
    assert nobody.returncode == 2
    assert "holds, wavers" in nobody.stderr


def test_what_an_engine_finds_wrong_at_its_start_is_said_where_it_was_asked_for(
    shell: Shell,
) -> None:
    blocked = shell.place.root / "crosswind.log"
    blocked.mkdir()
    started = shell("run", "--detach")
    assert started.returncode == 2
    assert "crosswind.log" in started.stderr
    assert "Traceback" not in started.stderr
    assert workspace_holder(shell.place.root) is None


def test_a_store_of_an_older_version_is_brought_up_to_date_by_a_run(shell: Shell) -> None:
    path = shell.place.root / "crosswind.db"
    with closing(sqlite3.connect(path)) as connection:
        MIGRATIONS.apply(Database(connection), stop_before="2 whose it is")
        connection.execute("PRAGMA user_version = 1")
    before = shell("run", "--dry-run")
    assert before.returncode == 2
    assert "written by an older Crosswind" in before.stderr

    assert shell("run", "--headless").returncode == 0


@pytest.mark.parametrize("now", [False, True], ids=["stop", "stop --now"])
def test_an_engine_whose_socket_cannot_be_reached_is_stopped_by_a_signal(
    shell: Shell, monkeypatch: pytest.MonkeyPatch, now: bool
) -> None:
    with tempfile.TemporaryDirectory(dir="/tmp", prefix="cw") as temporary:
        monkeypatch.setenv("TMPDIR", temporary)
        assert shell("run", "--detach").returncode == 0
        shell.until_it_talks()
        pid = shell.pid()
        folder = Path(temporary) / f"crosswind-{os.getuid()}"
        for path in folder.iterdir():
            path.unlink()
        folder.chmod(0o755)  # so that it is not to be used again
        stopped = shell("stop", "--wait", *(["--now"] if now else []))
        assert stopped.returncode == 0, stopped.stderr
        assert f"process {pid} was asked by a signal to" in stopped.stderr
        assert workspace_holder(shell.place.root) is None


def test_where_a_folder_is_taken_the_engine_says_where_it_is_reached(
    shell: Shell, monkeypatch: pytest.MonkeyPatch
) -> None:
    shell.place.long_talks()
    with tempfile.TemporaryDirectory(dir="/tmp", prefix="cw") as temporary:
        monkeypatch.setenv("TMPDIR", temporary)
        monkeypatch.setenv("HOME", temporary)
        (Path(temporary) / f"crosswind-{os.getuid()}").mkdir(mode=0o755)
        assert shell("run", "--detach").returncode == 0
        shell.until_it_talks()
        holder = workspace_holder(shell.place.root)
        assert holder is not None
        assert holder.socket is not None
        assert holder.socket.parent == Path(temporary) / ".cache" / "crosswind"
        assert shell("pause").returncode == 0
        assert shell("stop", "--wait").returncode == 0
    with closing(sqlite3.connect(shell.place.root / "crosswind.db")) as connection:
        notes = [text for (text,) in connection.execute("SELECT text FROM note")]
    assert any(str(holder.socket) in text and "is open to others" in text for text in notes)
