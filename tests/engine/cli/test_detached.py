"""A run that goes on by itself, and what a shell may ask of it: a real process, throughout."""

from __future__ import annotations

import os
import signal
import sqlite3
import tempfile
from collections.abc import Iterator
from contextlib import closing, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from sqlite_utils import Database

from engine.store.lock import workspace_holder
from engine.store.migrations import MIGRATIONS
from engine.store.open_reader import is_older
from tests.approval import approve, lines_with
from tests.engine.commands import Said, crosswind
from tests.engine.small_workspace import Place, small_workspace
from tests.waiting import until

pytestmark = pytest.mark.process  # the commands start them

KEY = "m01_s001_v01__holds"


@dataclass(frozen=True)
class Shell:
    """Where a person types commands."""

    place: Place

    def __call__(self, *words: str) -> Said:
        return crosswind(self.place.root, *words)

    def status(self) -> Any:
        return self("status", "--json").json()

    def pid(self) -> int:
        holder = workspace_holder(self.place.root)
        assert holder is not None
        assert holder.pid is not None
        return holder.pid

    def until_gone(self) -> None:
        until(lambda: workspace_holder(self.place.root) is None)

    def until_it_talks(self) -> None:
        until(lambda: (self.place.root / "crosswind.db").exists())
        with self.place.reader() as reader:
            until(lambda: bool(reader.takes("giving-in")))


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
    assert started.code == 0, started.err
    assert "crosswind watch" in started.err
    pid = shell.pid()
    assert f"process {pid}" in started.err
    shell.until_it_talks()

    second = shell("run", "--headless")
    assert second.code == 4
    assert f"process {pid}" in second.err

    assert shell("pause").code == 0
    paused = shell.status()
    assert paused["engine"]["pid"] == pid
    assert paused["engine"]["state"] == "paused"
    assert "paused" in shell("status").out
    assert shell("resume").code == 0

    stopped = shell("stop", "--wait")
    assert stopped.code == 0
    assert workspace_holder(shell.place.root) is None
    assert shell.status()["engine"] is None
    again = shell("stop")
    assert again.code == 0
    approve(again.err)
    assert shell("pause").code == 2


def test_an_engine_is_found_without_its_lock_file_and_stopped_without_a_configuration(
    shell: Shell,
) -> None:
    shell.place.long_talks()
    assert shell("run", "--detach").code == 0
    pid = shell.pid()
    try:
        (shell.place.root / "crosswind.lock").unlink()
        found = shell.status()
        assert (found["engine"]["pid"], found["last_run"]) == (pid, "at work")

        config = shell.place.root / "config.yaml"
        wanted = config.read_text()
        config.write_text(wanted + "half: [")
        stopped = shell("stop", "--wait")
        assert stopped.code == 0, stopped.err
        assert "stopping" in stopped.err
        config.write_text(wanted)
        after = shell.status()
        assert (after["engine"], after["last_run"]) == (None, "stopped")
    finally:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


def test_an_engine_that_was_killed_leaves_nothing_in_the_way(shell: Shell) -> None:
    shell.place.long_talks()
    assert shell("run", "--detach").code == 0
    shell.until_it_talks()
    os.kill(shell.pid(), signal.SIGKILL)
    shell.until_gone()

    assert shell("run", "--detach").code == 0
    assert shell.status()["engine"]["state"] in {"running", "starting"}
    assert shell("stop", "--now", "--wait").code == 0


def test_a_finished_run_is_judged_again_by_the_engine_that_waits_or_by_a_new_one(
    shell: Shell,
) -> None:
    begun = shell("run", "--detach", "--until", "simulate")
    assert begun.code == 0, begun.err
    approve(lines_with(begun.err, "it stops after"))
    until(lambda: (shell.status()["engine"] or {"state": "idle"})["state"] == "idle")
    with shell.place.reader() as reader:
        takes = reader.takes("giving-in")
        assert takes
        assert not [take for take in takes if reader.verdicts(take.seq)]
    assert shell("run", "--headless").code == 0
    alone = shell("evaluate", KEY, "--json")
    assert alone.code == 0, alone.err

    assert shell("run", "--detach").code == 0  # nothing is missing: it waits for more
    waiting = shell("evaluate", KEY)
    assert waiting.code == 0, waiting.err
    assert f"{KEY}: " in waiting.out
    with shell.place.reader() as reader:
        [take] = [take for take in reader.takes("giving-in") if str(take.key) == KEY]
        assert len(reader.verdicts(take.seq)) == 3

    # an engine that only waits makes way at once; one that has just begun to wait may be gone
    until(lambda: (shell.status()["engine"] or {"state": "idle"})["state"] == "idle")
    assert shell("run", "--headless").code == 0


def test_a_run_of_an_id_does_what_is_missing_of_it_and_refuses_what_is_none(shell: Shell) -> None:
    assert shell("run", "--headless", "--until", "gen_scenarios").code == 0
    refused = []
    for words in (
        ["m09"],
        ["giving-in", "m01_s001_v09"],
        ["givingin"],
        [KEY, "--target", "holds"],
        ["--target", "nobody"],
    ):
        told = shell("run", "--headless", *words)
        assert told.code == 2
        refused.append(told.err)
    approve("".join(refused))
    for words in ([KEY], ["giving-in", KEY[: KEY.index("__")]]):
        assert shell("run", "--headless", *words).code == 0
        with shell.place.reader() as reader:
            played = {str(take.key) for take in reader.takes("giving-in")}
        assert KEY in played
        assert all(unit.startswith(words[-1]) for unit in played)


def test_what_an_engine_finds_wrong_at_its_start_is_said_where_it_was_asked_for(
    shell: Shell,
) -> None:
    blocked = shell.place.root / "crosswind.log"
    blocked.mkdir()
    started = shell("run", "--detach")
    assert started.code == 2
    assert "crosswind.log" in started.err
    assert "Traceback" not in started.err
    assert workspace_holder(shell.place.root) is None


def test_commands_read_a_store_of_an_older_version_and_a_run_migrates_it(shell: Shell) -> None:
    path = shell.place.root / "crosswind.db"
    with closing(sqlite3.connect(path)) as connection:
        MIGRATIONS.apply(Database(connection), stop_before="2 whose it is")
        connection.execute("PRAGMA user_version = 1")
    for words in (["doctor"], ["status"], ["results"], ["search", "word"]):
        said = shell(*words)
        assert "older" not in said.out + said.err
        assert "damaged" not in said.out + said.err
    assert is_older(path)
    assert shell("run", "--headless").code == 0
    assert not is_older(path)


@pytest.mark.parametrize("now", [False, True], ids=["stop", "stop --now"])
def test_an_engine_whose_socket_cannot_be_reached_is_stopped_by_a_signal(
    shell: Shell, monkeypatch: pytest.MonkeyPatch, now: bool
) -> None:
    with tempfile.TemporaryDirectory(dir="/tmp", prefix="cw") as temporary:
        monkeypatch.setenv("TMPDIR", temporary)
        monkeypatch.setattr(tempfile, "tempdir", None)  # where it was is remembered there
        assert shell("run", "--detach").code == 0
        shell.until_it_talks()
        pid = shell.pid()
        folder = Path(temporary) / f"crosswind-{os.getuid()}"
        for path in folder.iterdir():
            path.unlink()
        folder.chmod(0o755)  # so that it is not to be used again
        stopped = shell("stop", "--wait", *(["--now"] if now else []))
        assert stopped.code == 0, stopped.err
        assert f"process {pid} was asked" in stopped.err
        assert workspace_holder(shell.place.root) is None


def test_of_an_engine_that_is_reached_and_does_not_answer_it_is_said_how_to_end_it(
    shell: Shell,
) -> None:
    shell.place.long_talks()
    assert shell("run", "--detach").code == 0
    shell.until_it_talks()
    pid = shell.pid()
    os.kill(pid, signal.SIGSTOP)
    try:
        told = shell("status")
        line = told.out.splitlines()[0]
        assert f"does not answer: process {pid} " in line
        engine = shell.status()["engine"]
        assert (engine["pid"], engine["speaking"]) == (pid, None)
        stopped = shell("stop", "--now")
        assert stopped.code == 2
        approve(stopped.err.replace(str(pid), "<pid>"))
    finally:
        os.kill(pid, signal.SIGCONT)
    shell("stop", "--now", "--wait")


def test_where_a_folder_is_taken_the_engine_says_where_it_is_reached(
    shell: Shell, monkeypatch: pytest.MonkeyPatch
) -> None:
    shell.place.long_talks()
    with tempfile.TemporaryDirectory(dir="/tmp", prefix="cw") as temporary:
        monkeypatch.setenv("TMPDIR", temporary)
        monkeypatch.setattr(tempfile, "tempdir", None)  # where it was is remembered there
        monkeypatch.setenv("HOME", temporary)
        (Path(temporary) / f"crosswind-{os.getuid()}").mkdir(mode=0o755)
        assert shell("run", "--detach").code == 0
        shell.until_it_talks()
        holder = workspace_holder(shell.place.root)
        assert holder is not None
        assert holder.socket is not None
        assert holder.socket.parent == Path(temporary) / ".cache" / "crosswind"
        assert shell("pause").code == 0
        assert shell("stop", "--wait").code == 0
    with closing(sqlite3.connect(shell.place.root / "crosswind.db")) as connection:
        notes = [text for (text,) in connection.execute("SELECT text FROM note")]
    assert any(str(holder.socket) in text and "is open to others" in text for text in notes)
