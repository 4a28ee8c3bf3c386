"""One engine per workspace, and whoever comes second is told who the first is."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from engine.errors import StoreError, WorkspaceBusyError
from engine.store.lock import hold_workspace, workspace_holder


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


def test_a_killed_holder_lets_go(tmp_path: Path) -> None:
    script = (
        "import sys, pathlib\n"
        "from engine.store.lock import hold_workspace\n"
        "with hold_workspace(pathlib.Path(sys.argv[1])):\n"
        "    print('held', flush=True)\n"
        "    sys.stdin.read()\n"
    )
    with subprocess.Popen(
        [sys.executable, "-c", script, str(tmp_path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        cwd=Path(__file__).parents[3],
    ) as child:
        assert child.stdout is not None
        assert child.stdout.readline() == "held\n"
        held_by = workspace_holder(tmp_path)
        assert held_by is not None
        assert held_by.pid == child.pid
        child.kill()
        child.wait()
    with hold_workspace(tmp_path):
        pass


def test_a_holder_that_says_nothing_is_still_a_holder(tmp_path: Path) -> None:
    with hold_workspace(tmp_path):
        (tmp_path / "crosswind.lock").write_text("{half a")
        with pytest.raises(WorkspaceBusyError, match="another process"), hold_workspace(tmp_path):
            pass


def test_a_lock_file_that_was_deleted_is_made_anew(tmp_path: Path) -> None:
    with hold_workspace(tmp_path):
        pass
    (tmp_path / "crosswind.lock").unlink()
    with hold_workspace(tmp_path):
        assert workspace_holder(tmp_path) is not None


def test_a_workspace_that_is_not_there_is_named(tmp_path: Path) -> None:
    with (
        pytest.raises(StoreError, match=r"nowhere/crosswind.lock cannot be opened"),
        hold_workspace(tmp_path / "nowhere"),
    ):
        pass
