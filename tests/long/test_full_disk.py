"""A disk that fills in the midst of a run: the engine waits for room and loses nothing."""

from __future__ import annotations

import errno
import json
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.engine.commands import printed_data
from tests.killing.case import play_whole
from tests.killing.holdings import check_once, check_whole, holdings, junk, mirrored
from tests.killing.scene import PACE, PATIENCE_SECONDS, Scene
from tests.protocol_server.server import ProtocolServer
from tests.waiting import until

HELD_AFTER = 40


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    place = tmp_path / "disk"
    place.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=32m", "tmpfs", str(place)]
    try:
        done = subprocess.run(mount, capture_output=True, text=True, check=False)
    except FileNotFoundError:
        pytest.skip("there is no mount(8) here")
    if done.returncode:
        pytest.skip(f"a small disk needs the rights to mount one: {done.stderr.strip()}")
    yield place
    subprocess.run(["umount", "--lazy", str(place)], check=True)


def fill(disk: Path) -> Path:
    """To the last byte."""
    ballast = disk / "ballast"
    with ballast.open("wb", buffering=0) as file:
        for size in (65536, 4096, 1):
            try:
                while True:
                    file.write(b"x" * size)
            except OSError as error:
                if error.errno != errno.ENOSPC:
                    raise
    return ballast


def status(scene: Scene) -> dict[str, Any]:
    asked = scene.ask("status", "--json")
    assert asked.returncode == 0, asked.stderr
    found: dict[str, Any] = printed_data(asked.stdout)
    return found


@pytest.mark.timeout(300)
def test_the_engine_pauses_says_so_and_goes_on_when_there_is_room(
    tmp_path: Path, small_disk: Path
) -> None:
    whole = play_whole(tmp_path / "whole" / "workspace")
    with ProtocolServer(PACE) as server:
        server.hold(after=HELD_AFTER)
        scene = Scene(small_disk / "workspace", server)
        with scene.start("run", "--headless") as child:
            server.wait_until(lambda seen: seen.requests > HELD_AFTER, PATIENCE_SECONDS)
            ballast = fill(small_disk)
            server.release()
            until(
                lambda: "free some space" in json.dumps(status(scene)) or child.poll() is not None
            )
            assert child.poll() is None, child.communicate()
            # what was in the air comes to its end; nothing new is begun
            server.wait_until(lambda seen: seen.concurrent == 0, PATIENCE_SECONDS)
            asked = server.counters.calls
            durable = holdings(scene.root)
            status(scene)
            assert server.counters.calls == asked
            assert holdings(scene.root).messages == durable.messages
            assert child.poll() is None
            ballast.unlink()
            _, told = child.communicate(timeout=PATIENCE_SECONDS)
        assert child.returncode == 0, told
        requests = server.calls
    held = holdings(scene.root)
    check_whole(scene.root)
    check_once(held)
    assert durable.messages <= held.messages
    assert whole.ledger.calls(requests) == whole.wanted
    assert mirrored(scene.root) == whole.files
    assert junk(scene.root, scene.temporary) == []
