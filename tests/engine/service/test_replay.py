"""A run that is over is played once more, as whoever watched it saw it."""

from __future__ import annotations

import shutil
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from engine.benchmark import Speaker, Stage, State, StopReason
from engine.facts import Fact, NoteKind
from engine.link import Command, EngineState, Request
from engine.progress import Progress
from engine.service.replay import REFUSED, Replay
from engine.service.timeline import Timeline
from engine.store.database import Store, open_store
from engine.store.reader import Reader
from engine.store.reading import open_reader
from engine.store.replaying import open_replay
from engine.store.rows import Row, TakeEndRow
from engine.store.tables import TABLES
from engine.watch import Watch
from tests.engine.store.building import (
    BENCHMARK,
    attempt,
    key,
    message,
    note,
    scenario_row,
    state,
    take,
    verdict,
    write,
)

START = datetime(2026, 5, 1, 12, tzinfo=UTC)
KEY = key()
OTHER = key("m01_s002_v01")
SAID = "I would rather not say."


@dataclass
class Clock:
    """The machine's then, and the watcher's now."""

    seconds: float = 0.0

    def then(self) -> datetime:
        return START + timedelta(seconds=self.seconds)

    def now(self) -> float:
        return self.seconds


@dataclass
class Past:
    """A run of 13 seconds: a second or two passes between any two things that happen."""

    path: Path
    clock: Clock = field(default_factory=Clock)

    def play(self) -> None:
        with open_store(self.path, clock=self.clock.then) as store:
            self._play(store)

    def _play(self, store: Store) -> None:
        self._write(store, 0, note("a run", NoteKind.RUN_STARTED))
        [scenario_seq] = write(store, scenario_row())
        unit = str(KEY)
        write(store, state(unit, State.QUEUED), state(unit, State.QUEUED, Stage.EVALUATE))
        [first] = self._write(store, 1, take(scenario_seq=scenario_seq))
        write(store, state(unit, State.RUNNING))
        self._write(store, 2, message(first, 1, Speaker.USER, "Should I?", landmark="Ask."))
        [other] = self._write(store, 1, take(OTHER))
        self._write(store, 3, message(first, 1, Speaker.TARGET, SAID), attempt())
        self._write(store, 1, message(other, 1, Speaker.USER, "And I?"))
        self._write(store, 1, TakeEndRow(take=first, stop_reason=StopReason.TURN_LIMIT))
        write(store, state(unit, State.DONE))
        self._write(store, 2, verdict(first, True), state(unit, State.DONE, Stage.EVALUATE))
        self._write(store, 1, verdict(first, False, judge="another"))
        self._write(store, 1, note("over", NoteKind.RUN_ENDED))

    def _write(self, store: Store, seconds: float, *rows: Row) -> list[int]:
        self.clock.seconds += seconds
        return write(store, *rows)


@pytest.fixture(scope="module")
def played(tmp_path_factory: pytest.TempPathFactory) -> Path:
    past = Past(tmp_path_factory.mktemp("past") / "crosswind.db")
    past.play()
    return past.path


@pytest.fixture
def past(played: Path) -> Past:
    return Past(played, Clock(1000.0))


@pytest.fixture
def replay(past: Past) -> Iterator[Replay]:
    replay = Replay.open(past.path, clock=past.clock.now)
    yield replay
    replay.reader.close()


def facts_of(path: Path) -> list[Fact]:
    with closing(open_reader(path)) as reader:
        return reader.facts(0)


def test_facts_come_as_they_came(past: Past, replay: Replay) -> None:
    every = facts_of(past.path)
    watch = Watch(replay.reader, [], replay)
    seen: list[Fact] = list(replay.reader.facts(0))
    while replay.played < replay.seconds:
        past.clock.seconds += 0.5
        seen += watch.poll()
        now = START + timedelta(seconds=replay.played)
        assert seen == [fact for fact in every if fact.at <= now]
        folded = Progress()
        for fact in seen:
            folded.apply(fact)
        assert watch.progress.stages == folded.stages
        assert watch.progress.messages == folded.messages
    assert seen == every
    assert replay.board().state is EngineState.STOPPED


def test_every_question_is_answered_as_it_would_have_been_then(past: Past, tmp_path: Path) -> None:
    """Against a copy of the store from which everything that came later was taken out."""
    last = facts_of(past.path)[-1].seq
    with closing(open_replay(past.path)) as then:
        for seq in range(last + 1):
            cut = tmp_path / f"cut-{seq}.db"
            shutil.copy(past.path, cut)
            with closing(sqlite3.connect(cut)) as connection, connection:
                connection.execute("PRAGMA foreign_keys = OFF")
                for table in reversed(TABLES):
                    connection.execute(f"DELETE FROM {table} WHERE seq > ?", (seq,))
            then.show(seq)
            with closing(open_reader(cut)) as expected:
                assert everything(then) == everything(expected), seq


def everything(reader: Reader) -> list[object]:
    progress = reader.snapshot()
    return [
        reader.last_seq(),
        reader.facts(0),
        (progress.seq, progress.stages, progress.messages, progress.run_state),
        reader.benchmarks(),
        reader.find_ids("m"),
        reader.scenarios(BENCHMARK),
        reader.takes(BENCHMARK),
        reader.counting_takes(BENCHMARK),
        [reader.messages(each.seq) for each in reader.takes(BENCHMARK)],
        reader.counting_verdicts(BENCHMARK),
        reader.verdict_rows(BENCHMARK),
        reader.units(BENCHMARK, Stage.SIMULATE),
        reader.usage(BENCHMARK, Stage.SIMULATE),
    ]


def test_text_grows_from_the_message_before_until_its_own_time(past: Past, replay: Replay) -> None:
    """The reply begins at second 3 and is a fact at second 7."""
    begun = past.clock.seconds

    def said(second: float) -> str | None:
        past.clock.seconds = begun + second
        found = replay.text(BENCHMARK, KEY)
        return None if found is None else found.text

    assert said(0.5) is None
    assert said(1.0) == ""
    assert said(2.0) == "Shou"
    assert said(3.0) == ""
    assert said(5.0) == SAID[: len(SAID) // 2]
    assert said(6.9) == SAID[: int(len(SAID) * 3.9 / 4)]
    assert said(7.0) is None


def test_text_is_told_from_the_cursor_on(past: Past, replay: Replay) -> None:
    past.clock.seconds += 5
    found = replay.text(BENCHMARK, KEY, 6)
    assert found is not None
    assert (found.text, found.cursor) == (SAID[6 : len(SAID) // 2], len(SAID) // 2)
    assert (found.speech.turn, found.speech.speaker) == (1, Speaker.TARGET)


def test_who_speaks_is_on_the_board_longest_running_first(past: Past, replay: Replay) -> None:
    assert not replay.board().speaking
    past.clock.seconds += 2
    [speech] = replay.board().speaking
    assert (speech.key, speech.landmark, speech.began) == (KEY, "Ask.", 1.0)
    past.clock.seconds += 3
    assert [speech.key for speech in replay.board().speaking] == [KEY, OTHER]
    past.clock.seconds += 20
    assert not replay.board().speaking


def test_it_goes_as_much_faster_as_it_was_told(past: Past) -> None:
    replay = Replay.open(past.path, speed=10, clock=past.clock.now)
    past.clock.seconds += 0.5
    assert replay.played == pytest.approx(5.0)
    past.clock.seconds += 0.9
    assert replay.board().state is EngineState.STOPPED
    replay.reader.close()


def test_it_stands_still_while_it_is_paused(past: Past, replay: Replay) -> None:
    past.clock.seconds += 5
    assert replay.ask(Request(Command.PAUSE)).accepted
    assert replay.ask(Request(Command.PAUSE)).accepted
    past.clock.seconds += 100
    assert replay.board().state is EngineState.PAUSED
    assert replay.played == pytest.approx(5.0)
    assert replay.ask(Request(Command.RESUME)).accepted
    past.clock.seconds += 1
    assert replay.board().state is EngineState.RUNNING
    assert replay.played == pytest.approx(6.0)


@pytest.mark.parametrize("command", sorted(set(Command) - {Command.PAUSE, Command.RESUME}))
def test_nothing_else_can_be_asked_of_the_past(command: Command, replay: Replay) -> None:
    answer = replay.ask(Request(command))
    assert (answer.accepted, answer.text) == (False, REFUSED)


def test_it_may_begin_later_and_be_skipped_ahead(past: Past) -> None:
    """From the start of the first take: what came before is there at once."""
    begin = next(fact.seq for fact in facts_of(past.path) if type(fact).__name__ == "TakeStarted")
    replay = Replay.open(past.path, begin=begin, clock=past.clock.now)
    assert replay.reader.takes(BENCHMARK)[0].seq == begin
    assert replay.seconds == 12.0
    replay.skip(4)
    found = replay.text(BENCHMARK, KEY)
    assert found is not None
    assert found.text == SAID[: len(SAID) // 2]
    replay.skip(1000)
    assert replay.board().state is EngineState.STOPPED
    replay.reader.close()


def test_an_empty_store_is_over_at_once(tmp_path: Path) -> None:
    open_store(tmp_path / "crosswind.db").close()
    replay = Replay.open(tmp_path / "crosswind.db")
    assert replay.board().state is EngineState.STOPPED
    assert replay.reader.facts(0) == []
    replay.reader.close()


def test_the_store_cannot_be_written_through_a_replay(past: Past) -> None:
    with closing(open_replay(past.path)) as reader:
        with pytest.raises(Exception, match=r"readonly|view"):
            reader._store.all("UPDATE main.message SET text = 'something else'")
        assert reader.messages(reader.takes(BENCHMARK)[0].seq)[0].text == "Should I?"


def test_times_in_which_nothing_happened_are_cut_and_a_clock_set_back_does_no_harm() -> None:
    seconds = [0, 1, 2, 30_000, 30_001, 10, 12]
    beats = [(seq, START + timedelta(seconds=each)) for seq, each in enumerate(seconds, 1)]
    timeline = Timeline(beats, 0, longest_gap=5)
    assert [timeline.of(seq) for seq in range(1, 8)] == [0, 1, 2, 7, 8, 8, 10]
    assert timeline.seconds == 10
    assert [timeline.until(second) for second in (0, 1.5, 6.9, 7, 8, 100)] == [1, 2, 3, 4, 6, 7]
