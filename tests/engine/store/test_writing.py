"""What is acknowledged is on disk, in order, and one bad row harms nobody else."""

from __future__ import annotations

import asyncio
import queue
import sqlite3
import subprocess
import sys
import threading
from collections.abc import Sequence
from contextlib import closing
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest

from engine.benchmark import State, StopReason
from engine.errors import StoreError
from engine.facts import Noted
from engine.store.database import Store, open_store
from engine.store.open_reader import open_reader
from engine.store.tables import TakeEndRow
from tests.approval import approve
from tests.engine.store.building import (
    attempt,
    key,
    message,
    note,
    play,
    run,
    state,
    take,
    turns,
    verdict,
    write,
    writing_held,
)
from tests.waiting import PATIENCE_S, Child, until


def notes(store: Store) -> list[str]:
    return [fact.text for fact in store.reader.facts(0) if isinstance(fact, Noted)]


def test_rows_are_numbered_over_all_tables_in_the_order_in_which_they_were_given(
    store: Store,
) -> None:
    store.tell(note("first"))
    [begun] = write(store, take())
    store.tell(note("second"), note("third"))
    seqs = write(store, *turns(begun, 1))
    assert (begun, seqs) == (2, [5, 6])
    assert [fact.seq for fact in store.reader.facts(0)] == [1, 2, 3, 4, 5, 6]
    assert notes(store) == ["first", "second", "third"]


def test_numbers_go_on_where_an_earlier_engine_stopped(tmp_path: Path) -> None:
    with open_store(tmp_path / "crosswind.db") as first:
        assert write(first, note(), note()) == [1, 2]
    with open_store(tmp_path / "crosswind.db") as second:
        assert write(second, note()) == [3]


def test_many_tasks_write_at_once_and_each_gets_its_own_numbers(store: Store) -> None:
    async def all_at_once() -> list[list[int]]:
        rows = [(note(f"{n}a"), note(f"{n}b")) for n in range(400)]
        return await asyncio.gather(*(store.write(*pair) for pair in rows))

    seqs = run(all_at_once())
    assert sorted(one for pair in seqs for one in pair) == list(range(1, 801))
    texts = notes(store)
    assert all(texts[a - 1] == f"{n}a" and b == a + 1 for n, (a, b) in enumerate(seqs))


def test_a_bad_row_fails_its_own_request_and_no_other(store: Store) -> None:
    async def good_and_bad() -> Sequence[list[int] | BaseException]:
        return await asyncio.gather(
            store.write(note("before")),
            store.write(note("lost with it"), message(999, 1)),
            store.write(replace(attempt(), duration_ms=2**63)),
            store.write(note("after")),
            return_exceptions=True,
        )

    before, foreign_key, too_large, after = run(good_and_bad())
    assert isinstance(foreign_key, StoreError)
    assert "FOREIGN KEY" in str(foreign_key)
    assert isinstance(too_large, StoreError)
    assert notes(store) == ["before", "after"]
    assert (before, after) == ([1], [2])


def test_what_was_told_in_vain_is_raised_by_the_next_write(store: Store) -> None:
    store.tell(message(999, 1))
    with pytest.raises(StoreError, match="FOREIGN KEY"):
        write(store, note("written all the same"))
    approve(notes(store))
    assert write(store, note()) == [2]


def test_what_was_told_in_vain_is_raised_by_close(tmp_path: Path) -> None:
    store = open_store(tmp_path / "crosswind.db")
    store.tell(message(999, 1))
    with pytest.raises(StoreError, match="FOREIGN KEY"):
        store.close()


def test_a_closed_store_has_written_what_was_told_and_refuses_rows(tmp_path: Path) -> None:
    store = open_store(tmp_path / "crosswind.db")
    for number in range(2000):
        store.tell(note(str(number)))
    store.close()
    store.close()
    with closing(open_reader(store.path)) as reader:
        assert reader.last_seq() == 2000
    with pytest.raises(StoreError, match="is closed"):
        store.tell(note())
    with pytest.raises(StoreError, match="is closed"):
        write(store, note())


def test_a_waiter_that_was_cancelled_has_written_all_the_same(store: Store) -> None:
    async def cancelled() -> None:
        task = asyncio.create_task(store.write(note("kept")))
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await store.write(note("later"))

    run(cancelled())
    assert notes(store) == ["kept", "later"]


def test_an_event_loop_that_has_gone_is_no_error(store: Store) -> None:
    async def ask_and_leave() -> None:
        asking = store.write(note("nobody waits"))
        asking.send(None)
        asking.close()

    with closing(sqlite3.connect(store.path, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")  # so that the answer comes when the loop is closed
        run(ask_and_leave())
        other.execute("ROLLBACK")
    assert write(store, note()) == [2]


def test_threads_may_tell_side_by_side(store: Store) -> None:
    def tell(name: int) -> None:
        for number in range(200):
            store.tell(note(f"{name}-{number:03d}"))

    threads = [threading.Thread(target=tell, args=(name,)) for name in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    write(store)
    texts = notes(store)
    assert len(texts) == 800
    for name in range(4):
        mine = [text for text in texts if text.startswith(f"{name}-")]
        assert mine == sorted(mine)


def test_a_fault_in_the_program_leaves_nobody_waiting(tmp_path: Path) -> None:
    broken = message(1, 1, speaker="nobody")  # type: ignore[arg-type]  # the fault

    async def beside_others() -> Sequence[list[int] | BaseException]:
        asked = [store.write(row) for row in (note(), broken, note())]
        return await asyncio.gather(*asked, return_exceptions=True)

    store = open_store(tmp_path / "crosswind.db")
    answers = run(beside_others())
    assert isinstance(answers[1], StoreError)
    approve(str(answers[1]))
    with pytest.raises(StoreError, match="is not written any more"):
        store.tell(note())
    store.close()


def test_a_fault_in_the_program_does_not_block_what_is_to_run_behind_it(tmp_path: Path) -> None:
    store = open_store(tmp_path / "crosswind.db")
    told: queue.SimpleQueue[str] = queue.SimpleQueue()

    def run_behind() -> None:
        try:
            store.exclusively(lambda _: told.put("it ran"))
        except StoreError as error:
            told.put(str(error))

    with writing_held(store):
        store.tell(message(1, 1, speaker="nobody"))  # type: ignore[arg-type]  # the fault
        # a daemon, as it would wait for ever
        threading.Thread(target=run_behind, daemon=True).start()
        until(lambda: store._requests.qsize() == 2)
    approve(told.get(timeout=PATIENCE_S))
    with pytest.raises(StoreError, match="is not written any more"):
        store.close()


def test_half_a_surrogate_pair_is_replaced_before_it_is_written(store: Store) -> None:
    [seq] = write(store, take())
    write(store, message(seq, 1, text="half \ud83d of it", thought="\udfff"))
    [said] = store.reader.messages(seq)
    assert (said.text, said.thought) == ("half \ufffd of it", "\ufffd")


def test_a_damaged_message_is_named(tmp_path: Path) -> None:
    path = tmp_path / "crosswind.db"
    with open_store(path) as store:
        seq = play(store)
    with closing(sqlite3.connect(path)) as other:
        other.execute("UPDATE message SET text = 'What drags you there?' WHERE turn = 1 AND seq=3")
        other.commit()
    damaged = r"message 3 \(take 1, turn 1, assistant\) is damaged"
    with closing(open_reader(path)) as reader, pytest.raises(StoreError, match=damaged):
        reader.messages(seq)


def test_a_take_that_was_played_to_its_end_stays_as_it_is(store: Store) -> None:
    seq = play(store)
    with pytest.raises(StoreError, match="nothing can be added"):
        write(store, message(seq, 2))
    with pytest.raises(StoreError, match="nothing can be added"):
        write(store, TakeEndRow(take=seq, stop_reason=StopReason.CANCELLED))


def test_a_take_without_a_reply_is_not_finished_and_cannot_be_judged(store: Store) -> None:
    seq = play(store, reason=StopReason.CONTEXT_FULL, messages=["Should I go?"])
    assert store.reader.counting_take("giving-in", key()) is None
    with pytest.raises(StoreError, match="cannot be judged"):
        write(store, verdict(seq, passed=True))


def test_a_state_knows_what_was_before_it_even_in_one_request(store: Store) -> None:
    write(store, state("a", State.QUEUED), state("b", State.QUEUED), state("a", State.RUNNING))
    write(store, state("a", State.DONE))
    moves = [(fact.unit, fact.was, fact.state) for fact in store.reader.facts(0)]  # type: ignore[attr-defined]  # only states were written
    assert moves == [
        ("a", None, State.QUEUED),
        ("b", None, State.QUEUED),
        ("a", State.QUEUED, State.RUNNING),
        ("a", State.RUNNING, State.DONE),
    ]


def test_times_are_those_of_the_clock_that_was_given(tmp_path: Path) -> None:
    now = datetime(2026, 11, 21, 12, 0, 0, 123000, tzinfo=UTC)
    with open_store(tmp_path / "crosswind.db", clock=lambda: now) as store:
        write(store, note())
        [fact] = store.reader.facts(0)
    assert fact.at == now


WRITE_UNTIL_KILLED = """
import asyncio, sys
from pathlib import Path
from engine.store.database import open_store
from tests.engine.store.building import message, take

async def main():
    store = open_store(Path(sys.argv[1]))
    [seq] = await store.write(take(number=int(sys.argv[2])))
    async def talk(lane):
        for turn in range(lane, 10**6, 8):
            [acknowledged] = await store.write(message(seq, turn, text="x" * 300))
            print(acknowledged, flush=True)
    await asyncio.gather(*(talk(lane) for lane in range(8)))

asyncio.run(main())
"""


def test_a_killed_engine_loses_nothing_that_it_had_acknowledged(tmp_path: Path) -> None:
    path = tmp_path / "crosswind.db"
    root = Path(__file__).parents[3]
    for round_number, rows_before_death in enumerate((1, 200)):
        with Child(
            [sys.executable, "-c", WRITE_UNTIL_KILLED, str(path), str(round_number)],
            stdout=subprocess.PIPE,
            text=True,
            cwd=root,
        ) as child:
            assert child.stdout is not None
            seen = [int(child.stdout.readline()) for _ in range(rows_before_death)]
            child.kill()
            *rest, unfinished = (child.stdout.read()).split("\n")
            assert unfinished == "" or unfinished.isdigit()
            seen += [int(line) for line in rest]
        with closing(open_reader(path)) as reader:
            stored = {fact.seq for fact in reader.facts(0, limit=10**6)}
        assert stored.issuperset(seen)
        assert stored == set(range(1, max(stored) + 1))
