"""A disk without room: nothing that was given is lost, and it is said what waits and why."""

from __future__ import annotations

import asyncio
import queue
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from engine.errors import StoreError
from engine.facts import Noted, NoteKind
from engine.store import writer
from engine.store.acknowledged import rows_unwritten
from engine.store.database import Store, open_store
from engine.store.filesystem import lacks_room, room_advice
from tests.approval import approve
from tests.engine.commands import crosswind
from tests.engine.small_workspace import small_workspace
from tests.engine.store.building import note, run, write, writing_held
from tests.waiting import until


@pytest.fixture(autouse=True)
def tried_often(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(writer, "RETRY_S", 0.05)
    monkeypatch.setattr(writer, "CLOSING_S", 0.2)


def fill(store: Store) -> None:
    """A limit on the pages of the file is what SQLite itself calls full."""
    connection = store._connection
    [pages] = connection.execute("PRAGMA page_count").fetchone()
    connection.execute(f"PRAGMA max_page_count = {pages}")


def make_room(store: Store) -> None:
    store._connection.execute("PRAGMA max_page_count = 100000")


def notes(store: Store) -> list[str]:
    return [fact.text[:10] for fact in store.reader.facts(0) if isinstance(fact, Noted)]


def test_what_finds_no_room_waits_and_is_written_in_its_order_when_there_is_some(
    store: Store,
) -> None:
    heard: queue.SimpleQueue[str | None] = queue.SimpleQueue()
    store.on_trouble(heard.put)

    async def through_a_full_disk() -> list[list[int]]:
        await store.write(note("before"))
        fill(store)
        waiting = asyncio.create_task(store.write(note("large" + "x" * 200_000)))
        words = await asyncio.to_thread(heard.get)
        store.tell(note("told"))
        behind = asyncio.create_task(store.write(note("behind"), note("it")))
        await asyncio.sleep(0)
        assert words is not None
        approve(words)
        approve(str(store.trouble))
        assert not waiting.done()
        make_room(store)
        return list(await asyncio.gather(waiting, behind))

    seqs = run(through_a_full_disk())
    assert seqs == [[2], [4, 5]]
    assert [text.rstrip("x") for text in notes(store)] == [
        "before",
        "large",
        "told",
        "behind",
        "it",
    ]
    assert heard.get() is None
    assert store.trouble is None


def test_a_store_that_is_closed_while_the_disk_is_full_says_how_much_was_not_written(
    tmp_path: Path,
) -> None:
    store = open_store(tmp_path / "crosswind.db")
    write(store, note("kept"))
    fill(store)
    store.tell(note("x" * 200_000), note("two"))
    store.tell(note("three"))
    with pytest.raises(StoreError, match=r"3 rows could not be written to .*: .*free some space"):
        store.close()
    assert rows_unwritten(store.path) == 3
    with open_store(tmp_path / "crosswind.db") as again:
        assert notes(again) == ["kept"]
        assert rows_unwritten(store.path) == 0
    assert rows_unwritten(store.path) == 0


def test_status_says_how_many_rows_of_the_last_run_found_no_room(
    tmp_path: Path,
) -> None:
    small_workspace(tmp_path)
    store = open_store(tmp_path / "crosswind.db")
    write(store, note("run started", NoteKind.RUN_STARTED))
    fill(store)
    store.tell(note("x" * 200_000))
    with pytest.raises(StoreError, match="1 row could not be written"):
        store.close()
    said = crosswind(tmp_path, "status", code=0).out
    approve(said)
    assert crosswind(tmp_path, "status", "--json", code=0).json()["unwritten_rows"] == 1
    open_store(tmp_path / "crosswind.db").close()
    said = crosswind(tmp_path, "status", code=0).out
    approve(said)


def test_what_was_written_before_the_engine_gives_up_is_not_told_as_lost(store: Store) -> None:
    """Once a disk is full, the rows of a group are written one by one."""

    async def give_up_in_the_middle() -> None:
        with writing_held(store):
            fill(store)
            store.tell(note("small"))
            waiting = asyncio.create_task(store.write(note("x" * 200_000)))
            await asyncio.sleep(0)
        await asyncio.to_thread(until, lambda: notes(store) == ["small"])
        with closing(sqlite3.connect(store.path)) as another:
            another.execute("UPDATE lease SET engine = 'another'")
            another.commit()
        with pytest.raises(StoreError, match="was taken over"):
            await waiting

    run(give_up_in_the_middle())
    store.close()  # it would raise what became of rows that nobody waited for


def test_bulk_that_finds_no_room_is_refused_and_holds_nobody_up(store: Store) -> None:
    fill(store)
    with pytest.raises(StoreError, match=r"could not be written: .*full; free some space"):
        run(store.write_all([note("x" * 200_000)]))
    assert write(store, note("small")) == [1]
    assert store.trouble is None


@pytest.mark.parametrize("code", [sqlite3.SQLITE_IOERR_WRITE, sqlite3.SQLITE_IOERR_FSYNC])
def test_a_limit_on_file_sizes_is_waited_out_like_a_full_disk(tmp_path: Path, code: int) -> None:
    error = sqlite3.OperationalError("disk I/O error")
    error.sqlite_errorcode = code
    assert lacks_room(error)
    approve(room_advice(tmp_path, error))
