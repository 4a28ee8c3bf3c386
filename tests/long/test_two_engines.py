"""Two engines on one workspace: the second goes at once, and names the first."""

from __future__ import annotations

import shutil
import time
from pathlib import Path

import pytest

from tests.killing.case import play_whole
from tests.killing.holdings import check_once, check_whole, holdings, junk, mirrored
from tests.killing.scene import PATIENCE_SECONDS, Scene
from tests.protocol_server.server import ProtocolServer
from tests.protocol_server.settings import Settings

UNHURRIED = Settings(latency_ms=100, tokens_per_second=400)


@pytest.mark.timeout(300)
@pytest.mark.parametrize("lock_file", ["kept", "deleted"])
def test_the_second_engine_leaves_the_first_alone(tmp_path: Path, lock_file: str) -> None:
    whole = play_whole(tmp_path / "whole" / "workspace")
    with ProtocolServer(UNHURRIED) as server:
        scene = Scene(tmp_path / "both" / "workspace", server)
        with scene.start("run", "--headless") as first:
            server.wait_until(lambda seen: seen.requests > 30, PATIENCE_SECONDS)
            if lock_file == "deleted":
                (scene.root / "crosswind.lock").unlink()
            second = scene.ask("run", "--headless")
            assert first.poll() is None, "the first was done too soon to tell"
            assert second.returncode == 4, second.stderr
            assert f"process {first.pid}" in second.stderr
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
    with ProtocolServer(UNHURRIED) as server:
        scene = Scene(tmp_path / "one" / "workspace", server)
        copy = Scene(tmp_path / "copy" / "workspace", server)
        with scene.start("run", "--headless") as first:
            server.wait_until(lambda seen: seen.requests > 30, PATIENCE_SECONDS)
            until = time.monotonic() + PATIENCE_SECONDS
            while not _copied(scene.root, copy.root):
                assert time.monotonic() < until
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
