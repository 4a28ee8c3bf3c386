"""Two engines on one workspace: the second goes at once, and names the first."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Final

import pytest

from tests.killing.case import play_whole
from tests.killing.holdings import check_once, check_whole, holdings, junk, mirrored
from tests.killing.scene import PACE, PATIENCE_SECONDS, Scene
from tests.protocol_server.server import ProtocolServer
from tests.waiting import until

HELD_AFTER: Final = 30


@pytest.mark.timeout(300)
@pytest.mark.parametrize("lock_file", ["kept", "deleted"])
def test_the_second_engine_leaves_the_first_alone(tmp_path: Path, lock_file: str) -> None:
    whole = play_whole(tmp_path / "whole" / "workspace")
    with ProtocolServer(PACE) as server:
        server.hold(after=HELD_AFTER)
        scene = Scene(tmp_path / "both" / "workspace", server)
        with scene.start("run", "--headless") as first:
            server.wait_until(lambda seen: seen.requests > HELD_AFTER, PATIENCE_SECONDS)
            if lock_file == "deleted":
                (scene.root / "crosswind.lock").unlink()
            second = scene.ask("run", "--headless")
            assert second.returncode == 4, second.stderr
            assert f"process {first.pid}" in second.stderr
            assert first.poll() is None
            server.release()
            _, told = first.communicate(timeout=PATIENCE_SECONDS)
        assert first.returncode == 0, told
        assert whole.ledger.calls(server.calls) == whole.wanted
    check_whole(scene.root)
    check_once(holdings(scene.root))
    assert mirrored(scene.root) == whole.files
    assert junk(scene.root, scene.temporary) == []


@pytest.mark.timeout(300)
def test_a_copy_of_a_workspace_at_work_is_free_to_run(tmp_path: Path) -> None:
    whole = play_whole(tmp_path / "whole" / "workspace")
    with ProtocolServer(PACE) as server:
        server.hold(after=HELD_AFTER)
        scene = Scene(tmp_path / "one" / "workspace", server)
        copy = Scene(tmp_path / "copy" / "workspace", server)
        with scene.start("run", "--headless") as first:
            server.wait_until(lambda seen: seen.requests > HELD_AFTER, PATIENCE_SECONDS)
            until(lambda: _copied(scene.root, copy.root))
            assert first.poll() is None
            server.release()
            done = copy.ask("run", "--headless")
            assert done.returncode == 0, done.stderr
            _, told = first.communicate(timeout=PATIENCE_SECONDS)
        assert first.returncode == 0, told
    assert mirrored(scene.root) == whole.files
    assert mirrored(copy.root) == whole.files
    check_whole(copy.root)


def _copied(one: Path, other: Path) -> bool:
    """Its store and the lock, as `cp` takes them; whether the engine wrote nothing meanwhile, as
    two files of two moments are no store."""
    names = ("crosswind.db", "crosswind.db-wal", "crosswind.lock")
    before = [(one / name).stat().st_mtime_ns for name in names]
    for name in names:
        shutil.copy2(one / name, other / name)
    folder = "benchmarks/giving-in"
    shutil.copytree(one / folder, other / folder, dirs_exist_ok=True)
    return before == [(one / name).stat().st_mtime_ns for name in names]
