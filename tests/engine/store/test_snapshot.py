"""Beginning from a snapshot and folding every fact from the first come to the same."""

from __future__ import annotations

import random
import sqlite3
from collections.abc import Sequence
from contextlib import closing
from dataclasses import asdict
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from engine.benchmark import ConversationKey, Role, Stage, State, StopReason, Track, Usage
from engine.errors import StoreError
from engine.facts import NoteKind
from engine.identity import BATCH_ROUTE
from engine.progress import Progress
from engine.store import writer
from engine.store.database import Store, open_store
from engine.store.events import keep_sums
from engine.store.open_reader import open_reader
from engine.store.tables import (
    TABLES,
    AttemptRow,
    MetricRow,
    NoteRow,
    StateRow,
    StoredRow,
    TakeEndRow,
    Verdict,
)
from engine.store.writer import WORTH_SUMMING
from tests.engine.store.building import (
    HOLDS,
    message,
    run,
    state,
    take,
    turns,
    verdict,
)


class History:
    """Writes rows as they come in a run, in an order that a seed decides."""

    def __init__(self, store: Store, seed: int) -> None:
        self.store = store
        self.random = random.Random(seed)
        self.takes: dict[ConversationKey, list[tuple[int, bool]]] = {}

    def one_of(self, things: Sequence[Any]) -> Any:
        return things[self.random.randrange(len(things))]

    async def step(self) -> None:
        await self.one_of([self.play, self.judge, self.judge, self.move, self.call, self.tell])()

    async def play(self) -> None:
        key = ConversationKey("m01_s001_v01", self.one_of("xyz"), self.random.randrange(3))
        known = self.takes.setdefault(key, [])
        [seq] = await self.store.write(take(key, len(known)))
        await self.store.write(*turns(seq, self.random.randrange(3)), message(seq, 9))
        reason = self.one_of([*StopReason, None])
        known.append((seq, reason is not None and reason.finished))
        if reason is not None:
            await self.store.write(TakeEndRow(take=seq, stop_reason=reason))

    async def judge(self) -> None:
        finished = {one.seq for one in self.store.reader.takes("giving-in") if one.finished}
        if finished:
            row: Verdict = verdict(
                self.one_of(sorted(finished)),
                self.one_of([True, False, None]),
                judge=self.one_of("ab"),
                number=self.random.randrange(2),
                track=self.one_of(list(Track)),
            )
            await self.store.write(row)

    async def move(self) -> None:
        stage = self.one_of(list(Stage))
        unit = self.random.randrange(6)
        state = self.one_of(list(State))
        row = StateRow(
            benchmark=self.one_of(["giving-in", "other"]),
            stage=stage,
            unit=str(unit),
            target="xyz"[unit % 3] if stage in {Stage.SIMULATE, Stage.EVALUATE} else None,
            state=state,
            reason=f"reason {self.random.random()}" if state is State.FAILED else None,
        )
        self.store.tell(row)

    async def call(self) -> None:
        unknown = self.random.random() < 0.05
        usage = Usage(1, 7, 3, None if unknown else 5, None if unknown else 0.25)
        kinds = [(Stage.SIMULATE, None), (Stage.EVALUATE, None), (Stage.EVALUATE, BATCH_ROUTE)]
        stage, route = self.one_of(kinds)
        self.store.tell(
            AttemptRow(
                benchmark="giving-in",
                stage=stage,
                route=route,
                unit="u",
                target=self.one_of(["x", "y", "z", None]),
                role=Role.TARGET,
                model="m",
                outcome="answer",
                duration_ms=1,
                usage=usage,
            )
        )

    async def tell(self) -> None:
        rows: list[StoredRow] = [
            NoteRow(
                kind=self.one_of(list(NoteKind)),
                benchmark=self.one_of(["", "giving-in", "other"]),
                stage=self.one_of([None, *Stage]),
                text=f"note {self.random.random()}",
            )
            for _ in range(self.random.randrange(20))
        ]
        self.store.tell(*rows, MetricRow(benchmark="giving-in", metric=HOLDS, source="model"))


def readable(progress: Progress, now: datetime) -> dict[str, Any]:
    """Everything a screen could show of it."""
    return {
        "stages": {name: asdict(tally) for name, tally in progress.stages.items()},
        "targets": {
            name: {
                "simulate": asdict(target.simulate),
                "evaluate": asdict(target.evaluate),
                "scores": {track: asdict(score) for track, score in target.scores.items()},
                "usage": asdict(target.usage),
                "last_problem": target.last_problem,
                "tokens": target.tokens.per_second(now),
                "settled": target.settled.per_second(now),
                "calls": target.calls.per_second(now),
                "call_ms": target.call_ms.per_second(now),
                "judged": target.judged.per_second(now),
                "judge_ms": target.judge_ms.per_second(now),
                "open": target.open,
                "lengths": sorted(target.lengths),
            }
            for name, target in progress.targets.items()
        },
        "benchmark": progress.benchmark,
        "stage": progress.stage,
        "messages": progress.messages,
        "run_state": progress.run_state,
        "notes": list(progress.notes),
    }


def folded(store: Store) -> Progress:
    progress = Progress()
    while facts := store.reader.facts(progress.seq, 50):
        for fact in facts:
            progress.apply(fact)
    return progress


@pytest.mark.exhaustive
@pytest.mark.parametrize("seed", range(8))
def test_a_snapshot_is_the_sum_of_all_facts(tmp_path: Path, seed: int) -> None:
    now = datetime(2026, 11, 21, tzinfo=UTC)

    def clock() -> datetime:
        nonlocal now
        now += timedelta(milliseconds=2)
        return now

    async def live() -> None:
        for _ in range(150):
            await history.step()
        await store.write()

    with open_store(tmp_path / "crosswind.db", clock=clock) as store:
        history = History(store, seed)
        run(live())
        snapshot, fold = store.reader.snapshot(), folded(store)
        assert readable(snapshot, now) == readable(fold, now)
        assert snapshot.seq == store.reader.last_seq()
        assert store.reader.facts(snapshot.seq) == []


@pytest.mark.exhaustive
@pytest.mark.parametrize("seed", range(4))
def test_a_snapshot_is_the_same_where_sums_were_kept_on_the_way(tmp_path: Path, seed: int) -> None:
    now = datetime(2026, 11, 21, tzinfo=UTC)
    path = tmp_path / "crosswind.db"

    async def live() -> None:
        for step in range(150):
            await history.step()
            if step % 40 == 20:
                await store.write()
                store.exclusively(lambda connection: keep_sums(connection, path))

    with open_store(path, clock=lambda: now) as store:
        history = History(store, seed)
        run(live())
        run(store.write())
        kept = store.exclusively(lambda connection: connection.execute("SELECT seq FROM summary"))
        assert 0 < kept.fetchone()[0] < store.reader.last_seq()
        assert readable(store.reader.snapshot(), now) == readable(folded(store), now)


def test_sums_are_kept_when_a_store_with_many_new_rows_is_closed(tmp_path: Path) -> None:
    path = tmp_path / "crosswind.db"
    for rows, kept_through in ((WORTH_SUMMING - 1, None), (1, WORTH_SUMMING), (10, WORTH_SUMMING)):
        with open_store(path) as store:
            note = NoteRow(kind=NoteKind.WARNING, benchmark="", text="one of many")
            run(store.write(*[note] * rows))
        with closing(sqlite3.connect(path)) as connection:
            found = connection.execute("SELECT seq FROM summary").fetchall()
        assert found == ([] if kept_through is None else [(kept_through,)])


def test_a_row_that_cannot_be_summed_does_not_end_writing(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(writer, "SUMMED_ROWS", 2)
    note = NoteRow(kind=NoteKind.WARNING, benchmark="", text="one of many")
    spoil = "UPDATE state SET stage = 'no stage'"
    run(store.write(state("m01_s001_v01__x", State.DONE)))
    store.exclusively(lambda connection: connection.execute(spoil))
    run(store.write(note))  # it is answered before the sums
    assert run(store.write(note)) == [3]
    assert store.trouble is None
    with pytest.raises(StoreError, match="a row cannot be read"):
        store.reader.snapshot()


def test_sums_of_more_rows_than_there_are_left_are_not_used(tmp_path: Path) -> None:
    path = tmp_path / "crosswind.db"
    with open_store(path) as store:
        history = History(store, 3)
        for _ in range(60):
            run(history.step())
        run(store.write())
        store.exclusively(lambda connection: keep_sums(connection, path))
        last = store.reader.last_seq()
    now = datetime(2026, 11, 21, tzinfo=UTC)
    with closing(sqlite3.connect(path)) as connection:
        for table in TABLES:
            connection.execute(f"DELETE FROM {table} WHERE seq > ?", (last // 2,))
        connection.commit()
    with closing(open_reader(path)) as reader:
        progress = Progress()
        for fact in reader.facts(0, limit=last):
            progress.apply(fact)
        assert readable(reader.snapshot(), now) == readable(progress, now)


def test_what_comes_after_a_snapshot_is_folded_into_it(tmp_path: Path) -> None:
    now = datetime(2026, 11, 21, tzinfo=UTC)

    async def go_on() -> None:
        for _ in range(60):
            await history.step()
        await store.write()

    with open_store(tmp_path / "crosswind.db", clock=lambda: now) as store:
        history = History(store, 99)
        run(go_on())
        progress = store.reader.snapshot()
        run(go_on())
        for fact in store.reader.facts(progress.seq):
            progress.apply(fact)
        assert readable(progress, now) == readable(folded(store), now)


def test_what_only_an_old_note_tells_is_not_forgotten(store: Store) -> None:
    old = [
        NoteRow(kind=NoteKind.RUN_STARTED, benchmark="", text="began"),
        NoteRow(kind=NoteKind.STAGE_STARTED, benchmark="b", stage=Stage.SIMULATE, text="began"),
        NoteRow(kind=NoteKind.WARNING, benchmark="c", text="the last about a benchmark"),
    ]
    many = [NoteRow(kind=NoteKind.WARNING, benchmark="", text=str(n)) for n in range(150)]
    run(store.write(*old, *many))
    progress = store.reader.snapshot()
    assert (progress.benchmark, progress.stage) == ("c", Stage.SIMULATE)
    assert progress.run_state is NoteKind.RUN_STARTED
    assert [note.text for note in progress.notes] == [str(n) for n in range(50, 150)]


def test_scores_are_those_that_count_now(tmp_path: Path) -> None:
    """Against the rule itself, not against the same sums taken another way."""
    with open_store(tmp_path / "crosswind.db") as store:
        history = History(store, 5)

        async def live() -> None:
            for _ in range(40):
                await history.play()
            for one in store.reader.counting_takes("giving-in"):
                for _ in range(3):
                    passed = history.one_of([True, False, None])
                    await store.write(verdict(one.seq, passed, judge=history.one_of("abc")))

        run(live())
        rows = store.reader.verdict_rows("giving-in")
        progress = store.reader.snapshot()
        for name in "xyz":
            mine = [row.passed for row in rows if row.key.target_id == name]
            score = progress.target("giving-in", name).scores[Track.POSITIVE]
            assert (score.passed, score.scored) == (mine.count(True), len(mine) - mine.count(None))
        assert any(row.passed is None for row in rows)
        assert any(row.passed for row in rows)
