"""One engine per workspace, and whoever comes second is told who the first is."""

from __future__ import annotations

import fcntl
import os
import signal
import subprocess
import sys
import threading
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from engine.errors import StoreError, WorkspaceBusyError
from engine.store import lock
from engine.store.lock import (
    LOCK_NAME,
    ProcessState,
    _began,
    _began_by_ps,
    hold_workspace,
    send,
    state_of_process,
    this_process,
    workspace_holder,
)
from tests.engine.providers.test_open_files import none_left
from tests.waiting import PATIENCE_S, Child

SLEEPING = [sys.executable, "-c", "import time; time.sleep(60)"]
PLAINLY: Any = {"capture_output": True, "text": True, "check": True}


def test_the_second_is_told_who_holds_the_workspace_and_since_when(tmp_path: Path) -> None:
    with (
        hold_workspace(tmp_path),
        pytest.raises(WorkspaceBusyError) as busy,
        hold_workspace(tmp_path),
    ):
        pass
    holder = f"process {os.getpid()} on {os.uname().nodename} since 20"
    assert holder in str(busy.value)
    assert "crosswind.lock" in str(busy.value)
    assert busy.value.exit_code == 4


def test_a_workspace_that_was_let_go_can_be_held_again(tmp_path: Path) -> None:
    for _ in range(2):
        with hold_workspace(tmp_path):
            assert workspace_holder(tmp_path) is not None
        assert workspace_holder(tmp_path) is None


def test_asking_who_holds_it_creates_nothing(tmp_path: Path) -> None:
    assert workspace_holder(tmp_path) is None
    assert list(tmp_path.iterdir()) == []


def test_a_holder_that_says_nothing_is_still_a_holder(tmp_path: Path) -> None:
    with hold_workspace(tmp_path):
        for text in ("{half a", "[" * 4000, '{"pid": Infinity, "host": "a"}', "7"):
            (tmp_path / "crosswind.lock").write_text(text)
            with (
                pytest.raises(WorkspaceBusyError, match="another process"),
                hold_workspace(tmp_path),
            ):
                pass


def test_a_workspace_that_is_not_there_is_named(tmp_path: Path) -> None:
    with (
        pytest.raises(StoreError, match=r"nowhere/crosswind.lock cannot be opened"),
        hold_workspace(tmp_path / "nowhere"),
    ):
        pass


def test_the_holder_says_where_it_can_be_spoken_to(tmp_path: Path) -> None:
    with hold_workspace(tmp_path, Path("/tmp/early.sock")) as hold:
        holder = workspace_holder(tmp_path)
        assert holder is not None
        assert (holder.socket, holder.engine) == (Path("/tmp/early.sock"), hold.engine)
        hold.tell_socket(None)
        holder = workspace_holder(tmp_path)
        assert holder is not None
        assert holder.socket is None
        hold.tell_socket(Path("/tmp/a-much-longer-name-than-before.sock"))
        holder = workspace_holder(tmp_path)
        assert holder is not None
        assert holder.socket == Path("/tmp/a-much-longer-name-than-before.sock")


def test_whoever_asks_who_holds_it_keeps_no_engine_from_starting(tmp_path: Path) -> None:
    """To ask takes the lock for a moment, and just then an engine may start."""
    with hold_workspace(tmp_path):
        pass
    asking = os.open(tmp_path / "crosswind.lock", os.O_RDONLY)
    fcntl.flock(asking, fcntl.LOCK_SH)
    threading.Timer(0.1, os.close, [asking]).start()
    with hold_workspace(tmp_path):
        assert workspace_holder(tmp_path) is not None


def test_an_engine_that_was_killed_is_not_taken_for_the_one_that_starts_now(
    tmp_path: Path,
) -> None:
    with hold_workspace(tmp_path):
        introduction = (tmp_path / "crosswind.lock").read_text()
    gone = subprocess.run([sys.executable, "-c", "import os; print(os.getpid())"], **PLAINLY)
    path = tmp_path / "crosswind.lock"
    path.write_text(introduction.replace(f'"pid": {os.getpid()}', f'"pid": {int(gone.stdout)}'))
    starting = os.open(path, os.O_RDONLY)
    fcntl.flock(starting, fcntl.LOCK_EX)
    holder = workspace_holder(tmp_path)
    os.close(starting)
    assert holder is not None
    assert holder.pid is None
    assert workspace_holder(tmp_path) is None


def test_a_pipe_in_place_of_the_lock_is_refused_and_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / LOCK_NAME)
    assert workspace_holder(tmp_path) is None
    with pytest.raises(StoreError, match="is a pipe or a device"), hold_workspace(tmp_path):
        pass


def test_the_lock_is_its_users_alone_whoever_made_it(tmp_path: Path) -> None:
    (tmp_path / LOCK_NAME).touch(mode=0o644)
    with hold_workspace(tmp_path):
        assert (tmp_path / LOCK_NAME).stat().st_mode & 0o777 == 0o600


def test_a_signal_is_sent_to_the_very_process_and_to_no_other() -> None:
    here = this_process()
    with Child(SLEEPING) as child:
        try:
            began = _began(child.pid) or ""
            meant = replace(here, pid=child.pid, began=began)
            for other in (
                replace(meant, began="long ago"),
                replace(meant, began=""),
                replace(meant, boot="another machine"),
                replace(meant, space="another container"),
            ):
                assert not send(signal.SIGKILL, other)
            assert child.poll() is None
            assert send(signal.SIGKILL, meant)
            assert child.wait(PATIENCE_S) == -signal.SIGKILL
        finally:
            child.kill()


def test_a_process_of_which_ps_says_nothing_is_not_taken_for_gone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    here = this_process()
    monkeypatch.setattr(lock, "_began", _began_by_ps)
    monkeypatch.setattr(lock, "_output_of", lambda *_: "")  # it failed, or took too long
    with Child(SLEEPING) as child:
        other = replace(here, pid=child.pid, began="Mon Nov 23 15:00:00 2026")
        assert state_of_process(other, here) is ProcessState.ALIVE
        assert not send(signal.SIGKILL, other)
        child.kill()
        child.wait()
        assert state_of_process(other, here) is ProcessState.GONE


def test_a_process_that_cannot_be_looked_up_is_not_taken_for_gone() -> None:
    here = this_process()
    with Child(SLEEPING) as child, none_left():
        other = replace(here, pid=child.pid, began="then")
        assert state_of_process(other, here) is ProcessState.ALIVE
        assert not send(signal.SIGKILL, other)


@pytest.mark.process
@pytest.mark.skipif(not Path("/bin/ps").exists(), reason="there is no /bin/ps")
def test_ps_tells_everybody_the_same_start(monkeypatch: pytest.MonkeyPatch) -> None:
    told = []
    for zone in ("Asia/Tokyo", "America/New_York"):
        monkeypatch.setenv("TZ", zone)
        began = f"{_began_by_ps(os.getpid())} +0000"
        told.append(datetime.strptime(began, "%a %b %d %H:%M:%S %Y %z"))
    # on Linux ps computes it from the uptime, and may round it otherwise a moment later
    assert abs(told[0] - told[1]) <= timedelta(seconds=2)
