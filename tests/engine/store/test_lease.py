"""One engine per store, whatever became of the lock file, and a copy of a store is nobody's."""

from __future__ import annotations

import os
import shutil
import signal
import sqlite3
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager
from datetime import UTC, datetime
from pathlib import Path

import pytest

from engine.errors import StoreError, WorkspaceBusyError
from engine.store.database import open_store
from engine.store.lock import Leaseholder, hold_workspace, lease_of
from engine.store.open_reader import writer_of
from tests.engine.store.building import note, write
from tests.waiting import Child

LONG_S = 60.0
"""Nobody waits this long: whoever opens a store at once has not watched for a heartbeat."""

ENGINE = """
import sys
from pathlib import Path
from engine.store.database import open_store
from engine.store.open_reader import writer_of
from engine.store.lock import Leaseholder, lease_of
from engine.store.lock import hold_workspace
from tests.engine.store.building import note, write
root, store = Path(sys.argv[1]), Path(sys.argv[2])
with hold_workspace(root) as hold, open_store(store, engine=hold.engine) as opened:
    write(opened, note())
    print('open', flush=True)
    sys.stdin.read()
"""


@contextmanager
def an_engine(root: Path) -> Iterator[subprocess.Popen[str]]:
    with Child(
        [sys.executable, "-c", ENGINE, str(root), str(root / "crosswind.db")],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        cwd=Path(__file__).parents[3],
    ) as child:
        assert child.stdout is not None
        assert child.stdout.readline() == "open\n"
        yield child


def changed(path: Path, statement: str) -> None:
    with closing(sqlite3.connect(path)) as connection:
        connection.execute(statement)
        connection.commit()


def lease_row(path: Path) -> tuple[object, ...] | None:
    with closing(sqlite3.connect(path)) as connection:
        row: tuple[object, ...] | None = connection.execute("SELECT * FROM lease").fetchone()
        return row


def moved_away(path: Path) -> None:
    """As if the engine that has the store open were on another machine."""
    changed(path, "UPDATE lease SET host = 'elsewhere', boot = 'another'")


def test_a_store_that_was_closed_is_nobodys(tmp_path: Path) -> None:
    path = tmp_path / "crosswind.db"
    with open_store(path):
        assert lease_row(path) is not None
        holder = writer_of(path)
        assert holder is not None
        assert holder.pid == os.getpid()
    assert lease_row(path) is None
    assert writer_of(path) is None


def test_a_deleted_lock_file_lets_no_second_engine_in_and_kill_frees_the_store_at_once(
    tmp_path: Path,
) -> None:
    path = tmp_path / "crosswind.db"
    with an_engine(tmp_path) as child:
        (tmp_path / "crosswind.lock").unlink()
        with hold_workspace(tmp_path):
            busy = rf"being written by process {child.pid} on {os.uname().nodename} since 20"
            with pytest.raises(WorkspaceBusyError, match=busy):
                open_store(path, watch_s=LONG_S)
            child.send_signal(signal.SIGSTOP)
            with pytest.raises(WorkspaceBusyError, match=busy):
                open_store(path, watch_s=LONG_S)
            child.kill()  # nobody has asked yet how it ended: it still has its number
            os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
            with open_store(path, watch_s=LONG_S) as store:
                assert write(store, note()) == [2]
                assert store.warnings == ()


def test_two_workspaces_that_name_one_store_are_kept_apart(tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.mkdir()
    link = other / "crosswind.db"
    link.symlink_to(tmp_path / "shared.db")
    with (
        open_store(tmp_path / "shared.db"),
        hold_workspace(other),
        pytest.raises(WorkspaceBusyError),
    ):
        open_store(link)


def test_a_workspace_that_is_copied_while_its_engine_runs_is_free(tmp_path: Path) -> None:
    root, copy = tmp_path / "first", tmp_path / "copy"
    root.mkdir()
    with open_store(root / "crosswind.db") as first:
        write(first, note())
        shutil.copytree(root, copy)
        with hold_workspace(copy), open_store(copy / "crosswind.db", watch_s=LONG_S) as store:
            assert write(store, note()) == [2]


@pytest.mark.parametrize("other", [f"pid = {os.getppid()}", "boot = 'before'"])
def test_another_process_of_its_number_or_of_an_earlier_boot_is_not_taken_for_an_engine(
    tmp_path: Path, other: str
) -> None:
    path = tmp_path / "crosswind.db"
    with open_store(path):
        changed(path, f"UPDATE lease SET {other}")
        open_store(path, watch_s=LONG_S).close()


def test_an_engine_on_another_machine_is_seen_by_its_heartbeat(tmp_path: Path) -> None:
    path = tmp_path / "crosswind.db"
    with open_store(path) as ended:
        write(ended, note())
        left = lease_row(path) or ()
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute(f"INSERT INTO lease VALUES ({', '.join('?' * len(left))})", left)
    moved_away(path)
    ended_too = threading.Event()

    def beat() -> None:
        while not ended_too.wait(0.1):  # whatever its clock says
            changed(path, "UPDATE lease SET beats = beats + 1, heartbeat = 0")

    beating = threading.Thread(target=beat)
    beating.start()
    try:
        with pytest.raises(WorkspaceBusyError, match="on elsewhere since"):
            open_store(path, watch_s=LONG_S)
    finally:
        ended_too.set()
        beating.join()
    with open_store(path, watch_s=0.3) as store:
        assert writer_of(path) is not None
        assert write(store, note()) == [2]


def test_an_engine_whose_store_was_taken_over_writes_no_more_and_says_so(tmp_path: Path) -> None:
    path = tmp_path / "crosswind.db"
    first = open_store(path)
    write(first, note())
    moved_away(path)
    with open_store(path, watch_s=0) as second:
        taken = rf"was taken over by process {os.getpid()} on .*: this engine writes no more"
        with pytest.raises(StoreError, match=taken):
            write(first, note())
        with pytest.raises(StoreError, match=taken):
            first.tell(note())
        assert "taken over" in str(first.trouble)
        first.close()
        assert write(second, note()) == [2]


def test_a_store_that_is_deleted_under_its_engine_stops_it(tmp_path: Path) -> None:
    path = tmp_path / "crosswind.db"
    with open_store(path) as store:
        write(store, note())
        path.rename(tmp_path / "elsewhere.db")
        with pytest.raises(StoreError, match="was moved, deleted or replaced"):
            write(store, note())


def test_no_clock_makes_a_living_engine_seem_dead(tmp_path: Path) -> None:
    path = tmp_path / "crosswind.db"
    long_ago = datetime(1971, 1, 1, tzinfo=UTC)
    with (
        open_store(path, clock=lambda: long_ago),
        pytest.raises(WorkspaceBusyError, match="since 1971"),
    ):
        open_store(path)


def test_the_heartbeat_is_written_no_more_often_than_it_is_due(tmp_path: Path) -> None:
    path = tmp_path / "crosswind.db"
    open_store(path).close()
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        lease = Leaseholder("mine", path, lambda: 7)
        lease.take(connection)
        found = []
        for every_s in (60, 0, 60):
            lease.require_held(connection, every_s=every_s)
            found.append(lease_of(connection))
        lease.give_back(connection)
        assert lease_of(connection) is None
    assert [one.beats for one in found if one is not None] == [0, 1, 1]
