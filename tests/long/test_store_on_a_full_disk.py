"""A disk that is really full: the store waits, says so, and goes on when there is room."""

from __future__ import annotations

import asyncio
import os
import queue
import sqlite3
import subprocess
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from engine.errors import StoreError
from engine.store.database import open_store
from tests.engine.store.building import note, run, write


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    if os.getuid() != 0:
        pytest.skip("only root can mount a disk")
    done = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=16m", "tmpfs", str(tmp_path)],
        capture_output=True,
        check=False,
    )
    if done.returncode != 0:
        pytest.skip("no disk can be mounted here")
    try:
        yield tmp_path
    finally:
        subprocess.run(["umount", str(tmp_path)], check=True)


def test_everything_that_was_acknowledged_and_everything_that_waited_is_there(
    small_disk: Path,
) -> None:
    ballast = small_disk / "ballast"
    ballast.write_bytes(bytes(12_000_000))
    path = small_disk / "crosswind.db"
    acknowledged: list[int] = []

    async def talk() -> None:
        heard: queue.SimpleQueue[str | None] = queue.SimpleQueue()
        with open_store(path) as store:
            store.on_trouble(heard.put)

            async def lane() -> None:
                for _ in range(10):
                    acknowledged.extend(await store.write(note("x" * 60_000)))

            lanes = asyncio.gather(*(lane() for _ in range(10)))
            words = await asyncio.to_thread(heard.get, timeout=30)
            assert words is not None
            assert words.startswith("the disk is full: ")
            assert words.endswith(f"free some space on {small_disk}")
            assert 0 < len(acknowledged) < 100
            ballast.unlink()
            await lanes
            assert store.trouble is None

    run(talk())
    assert sorted(acknowledged) == list(range(1, 101))
    with closing(sqlite3.connect(path)) as connection:
        assert connection.execute("PRAGMA quick_check").fetchall() == [("ok",)]
        assert connection.execute("SELECT count(*) FROM note").fetchone() == (100,)


def test_a_store_that_never_gets_room_keeps_what_was_acknowledged(small_disk: Path) -> None:
    path = small_disk / "crosswind.db"
    store = open_store(path)
    [kept] = write(store, note("kept"))
    (small_disk / "ballast").write_bytes(bytes(os.statvfs(small_disk).f_bavail * 4096))
    for _ in range(20):
        store.tell(note("x" * 100_000))
    with pytest.raises(StoreError, match=r"rows could not be written to .*: .*full; free some"):
        store.close()
    (small_disk / "ballast").unlink()
    with open_store(path) as again:
        assert again.reader.last_seq() >= kept
        assert write(again, note())
