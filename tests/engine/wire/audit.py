"""What must be true of every store after every run, whatever went wrong in it."""

from __future__ import annotations

import json
import re
import sqlite3
from collections.abc import Mapping
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from engine.benchmark import ConversationKey, Speaker, Stage, State
from engine.store.reader import Reader
from engine.store.tables import MessageRow, StateRow, StoredTake, Verdict

_NO_WORDS: Final = re.compile(
    r"Traceback|Exception|Errno|\w+Error\b|object at 0x|<class|None\b|\bengine\.|httptools|httpx"
)
"""What no person should have to read."""


@dataclass(frozen=True, slots=True)
class Row:
    """One conversation, from its first message to its verdict."""

    take: StoredTake
    messages: tuple[MessageRow, ...]
    verdicts: tuple[Verdict, ...]
    simulate: StateRow
    evaluate: StateRow | None

    @property
    def texts(self) -> list[str]:
        return [message.text for message in self.messages]

    @property
    def outcome(self) -> tuple[State, State | None]:
        return self.simulate.state, None if self.evaluate is None else self.evaluate.state


def states(reader: Reader, benchmark: str) -> dict[tuple[Stage, str], StateRow]:
    return {
        (stage, unit): state
        for stage in Stage
        for unit, state in reader.units(benchmark, stage).items()
    }


def rows(reader: Reader, benchmark: str) -> dict[ConversationKey, Row]:
    """The newest take of every conversation."""
    simulated = reader.units(benchmark, Stage.SIMULATE)
    judged = reader.units(benchmark, Stage.EVALUATE)
    return {
        take.key: Row(
            take,
            tuple(reader.messages(take.seq)),
            tuple(reader.verdicts(take.seq)),
            simulated[str(take.key)],
            judged.get(str(take.key)),
        )
        for take in reader.takes(benchmark)
    }


def failed_rows(reader: Reader, *benchmarks: str) -> dict[tuple[str, Stage, str], StateRow]:
    return {
        (benchmark, *key): state
        for benchmark in benchmarks
        for key, state in states(reader, benchmark).items()
        if state.state is State.FAILED
    }


def check_store(reader: Reader, *benchmarks: str) -> None:
    """Raises AssertionError for anything that is not as it must be."""
    for benchmark in benchmarks:
        for (stage, unit), state in states(reader, benchmark).items():
            assert state.state not in {State.RUNNING, State.QUEUED}, (stage, unit, state)
            if state.state is State.FAILED:
                check_words(state.reason)
        for row in rows(reader, benchmark).values():
            _check_row(row)


def check_words(reason: str | None) -> None:
    """A reason is a sentence that a person understands."""
    assert reason is not None
    assert 15 < len(reason) < 600, reason
    assert _NO_WORDS.search(reason) is None, reason
    assert "\n" not in reason.strip(), reason


def _check_row(row: Row) -> None:
    order = [(message.turn, message.speaker) for message in row.messages]
    whole = [
        (turn, speaker)
        for turn in range(1, len(order) + 1)
        for speaker in (Speaker.USER, Speaker.TARGET)
    ]
    assert order == whole[: len(order)], row
    assert all(message.text.strip() for message in row.messages), row
    assert row.take.stop_reason is not None, row
    assert row.take.finished == (row.simulate.state is State.DONE), row
    if row.take.finished:
        assert row.take.detail is None, row
    else:
        assert row.simulate.state is State.FAILED, row
        assert row.simulate.reason == row.take.detail, row
        assert row.evaluate is None or row.evaluate.state is State.DROPPED, row
        assert not row.verdicts, row
    if row.evaluate is not None and row.evaluate.state in {State.DONE, State.FAILED}:
        done = row.evaluate.state is State.DONE
        assert [verdict.passed is not None for verdict in row.verdicts] == [done], row
        assert row.verdicts[0].unscored == row.evaluate.reason, row


def attempts(path: Path) -> list[Mapping[str, Any]]:
    """Every attempt that the store holds."""
    with closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True)) as database:
        database.row_factory = sqlite3.Row
        return [dict(row) for row in database.execute("SELECT * FROM attempt ORDER BY seq")]


def mirrored_json(folder: Path) -> dict[str, Any]:
    """Every file of the mirror, parsed: half a file would not parse."""
    return {
        path.relative_to(folder).as_posix(): json.loads(path.read_text("utf-8"))
        for path in sorted(folder.rglob("*.json"))
    }
