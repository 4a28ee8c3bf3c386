"""The one row of a table that a value becomes, with what only the writing end knows."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Mapping, Sequence
from typing import Final

from engine.benchmark import Scenario, Speaker, plausible_tokens, plausible_usd
from engine.errors import StoreError
from engine.jury import Ballot, what_counts
from engine.store.digest import digest_of
from engine.store.rows import (
    AttemptRow,
    LearnedRow,
    MessageRow,
    MetricRow,
    NewVerdict,
    NoteRow,
    Row,
    RunRow,
    ScenarioRow,
    StateRow,
    TakeEndRow,
    TakeRow,
)
from engine.store.schema import TABLES

Value = str | int | float | bytes | None


def _statement(table: str, columns: Sequence[str]) -> str:
    marks = ", ".join("?" * (len(columns) + 2))
    return f"INSERT INTO {table} (seq, at, {', '.join(columns)}) VALUES ({marks})"


INSERTS: Final = {table: _statement(table, names.split()) for table, names in TABLES.items()}
"""For each table the statement that adds a row: `seq`, `at`, and its columns."""

_SURROGATES = dict.fromkeys(range(0xD800, 0xE000), "\ufffd")


def storable(text: str) -> str:
    """`text` as SQLite can hold it: half of a surrogate pair has no UTF-8."""
    if text.isascii():
        return text
    try:
        text.encode()  # many times as quick as to look for what is rarely there
    except UnicodeEncodeError:
        return text.translate(_SURROGATES)
    return text


def storable_message(speaker: Speaker, text: str) -> tuple[str, bytes]:
    """The text as it can be stored, and its digest: both need it encoded, which is done once."""
    try:
        encoded = text.encode()
    except UnicodeEncodeError:
        text = text.translate(_SURROGATES)
        encoded = text.encode()
    return text, digest_of(speaker, encoded)


def insert(connection: sqlite3.Connection, row: Row, *, seq: int, at: int) -> None:
    """Raises `StoreError` for a row that contradicts those that are there, and `sqlite3.Error`."""
    table, values = _row(connection, row)
    kept = [storable(value) if isinstance(value, str) else value for value in values]
    connection.execute(INSERTS[table], (seq, time_of(row, at), *kept))


def time_of(row: Row, now: int) -> int:
    """Of its own, or now."""
    if isinstance(row, RunRow | NoteRow | LearnedRow) or row.at is None:
        return now
    return row.at


def _row(connection: sqlite3.Connection, row: Row) -> tuple[str, Sequence[Value]]:
    match row:
        case MessageRow():
            return "message", _message(connection, row)
        case StateRow():
            return "state", _state(connection, row)
        case AttemptRow():
            return "attempt", attempt_values(row)
        case NewVerdict():
            return "verdict", _verdict(connection, row)
        case TakeRow():
            return "take", take_values(row, row.scenario_seq)
        case TakeEndRow():
            return "take_end", _take_end(connection, row)
        case NoteRow():
            stage = None if row.stage is None else row.stage.value
            return "note", (row.kind.value, row.benchmark, stage, row.text)
        case ScenarioRow():
            return "scenario", _scenario(row)
        case MetricRow():
            return "metric", _metric(row)
        case LearnedRow():
            return "learned", (row.model, row.step, _json(sorted(row.dropped)))
        case RunRow():
            names = _json(list(row.benchmarks))
            return "run", (names, row.config, row.version, row.host, row.pid)


def _message(connection: sqlite3.Connection, row: MessageRow) -> Sequence[Value]:
    _refuse_finished(connection, row.take)
    return message_values(row, row.take)


def message_values(row: MessageRow, take: int) -> Sequence[Value]:
    """All of it storable; a row that knows its digest has a text that is."""
    text, digest = row.text, row.digest
    if digest is None:
        text, digest = storable_message(row.speaker, text)
    return (
        take,
        row.turn,
        row.speaker.value,
        text,
        row.thought and storable(row.thought),
        row.landmark and storable(row.landmark),
        int(row.done),
        storable(str(row.finish)),
        row.reasoning and storable(row.reasoning),
        digest,
        row.served_by and storable(row.served_by),
    )


def _state(connection: sqlite3.Connection, row: StateRow) -> Sequence[Value]:
    unit = (row.benchmark, row.stage.value, row.unit)
    newest = connection.execute(
        "SELECT state FROM state WHERE benchmark = ? AND stage = ? AND unit = ? "
        "ORDER BY seq DESC LIMIT 1",
        unit,
    ).fetchone()
    was = None if newest is None else newest[0]
    return (*unit, row.target, was, row.state.value, row.reason)


def _metric(row: MetricRow) -> Sequence[Value]:
    metric = row.metric
    return (
        *(row.benchmark, metric.id, metric.name, metric.track.value, metric.definition),
        *(_json(list(metric.examples)), row.source, _depends(row.depends)),
    )


def _scenario(row: ScenarioRow) -> Sequence[Value]:
    scenario = row.scenario
    return (
        *(row.benchmark, scenario.id, scenario.metric_id, scenario.persona, scenario.user_goal),
        *(scenario.latent_adversarial_goal, _landmarks(scenario)),
        *(_json(dict(scenario.demographic)), scenario.target_system_prompt),
        *(_json(dict(scenario.extra)), row.source, int(row.removed), _depends(row.depends)),
    )


def _landmarks(scenario: Scenario) -> str:
    return _json([{"turn": one.turn, "instruction": one.instruction} for one in scenario.landmarks])


def take_values(row: TakeRow, scenario_seq: int | None) -> Sequence[Value]:
    key = row.key
    return (
        *(row.benchmark, key.scenario_id, key.target_id, key.sample, row.number, scenario_seq),
        *(row.user_model, row.model, int(row.scripted), _depends(row.depends)),
    )


def _take_end(connection: sqlite3.Connection, row: TakeEndRow) -> Sequence[Value]:
    """Without one reply there is nothing to judge, however it ended."""
    _refuse_finished(connection, row.take)
    [answered] = connection.execute(
        "SELECT EXISTS (SELECT 1 FROM message WHERE take = ? AND speaker = 'assistant')",
        (row.take,),
    ).fetchone()
    finished = row.stop_reason.finished and bool(answered)
    return row.take, row.stop_reason.value, int(finished), row.detail


def attempt_values(row: AttemptRow) -> Sequence[Value]:
    usage = row.usage
    return (
        *(row.benchmark, row.stage.value, row.unit, row.target, row.role.value, row.model),
        *(row.outcome, row.status, row.duration_ms),
        *map(plausible_tokens, (usage.input_tokens, usage.cached_tokens, usage.output_tokens)),
        plausible_usd(usage.cost_usd),
        *(row.detail, row.first_token_ms, row.served, int(row.is_other) or None, row.route),
        int(row.cost_reported) or None,
    )


def _verdict(connection: sqlite3.Connection, row: NewVerdict) -> Sequence[Value]:
    if not _is_finished(connection, row.take):
        raise StoreError(f"take {row.take} was not played to its end and cannot be judged")
    return verdict_values(row, row.take, *_counting(connection, row))


def verdict_values(
    row: NewVerdict,
    take: int,
    before: int | None,
    counted: bool | None,  # noqa: FBT001  (a value to be stored, not a switch)
) -> Sequence[Value]:
    """With what counted for the conversation before it, and what counts from it on."""
    return (
        *(take, row.metric_id, row.track.value, row.judge, row.source, row.number),
        *(_bit(row.present), _bit(row.passed), row.unscored, row.justification),
        _json([{"text": quote.text, "turn": quote.turn} for quote in row.quotes]),
        *(before, _bit(counted), _depends(row.depends), row.served_by),
    )


def _counting(connection: sqlite3.Connection, row: NewVerdict) -> tuple[int | None, bool | None]:
    """What counts for the conversation before and from this verdict on.

    Before is what the verdict before this one left, on whatever take that was, so that changes
    added up are always the present sum. The newest finished take counts, and on it what the jury
    decides.
    """
    conversation = connection.execute(
        "SELECT benchmark, scenario_id, target, sample FROM take WHERE seq = ?", (row.take,)
    ).fetchone()
    [counting] = connection.execute(
        "SELECT t.seq FROM take t JOIN take_end e ON e.take = t.seq AND e.finished = 1 "
        "WHERE t.benchmark = ? AND t.scenario_id = ? AND t.target = ? AND t.sample = ? "
        "ORDER BY t.number DESC LIMIT 1",
        conversation,
    ).fetchone()
    before = connection.execute(
        "SELECT v.counted FROM verdict v JOIN take t ON t.seq = v.take "
        "WHERE t.benchmark = ? AND t.scenario_id = ? AND t.target = ? AND t.sample = ? "
        "AND v.track = ? ORDER BY v.seq DESC LIMIT 1",
        (*conversation, row.track.value),
    ).fetchone()
    given = connection.execute(
        "SELECT judge, source, number, passed FROM verdict "
        "WHERE take = ? AND passed IS NOT NULL ORDER BY seq",
        (counting,),
    )
    votes = [Ballot(judge, source, number, bool(passed)) for judge, source, number, passed in given]
    if row.take == counting:
        votes.append(Ballot(storable(row.judge), row.source, row.number, row.passed))
    return (None if before is None else before[0]), what_counts(votes, row.jury)


def _refuse_finished(connection: sqlite3.Connection, take: int) -> None:
    """What was judged must stay as it was."""
    if _is_finished(connection, take):
        raise StoreError(f"take {take} was played to its end; nothing can be added to it")


def _is_finished(connection: sqlite3.Connection, take: int) -> bool:
    ended = connection.execute(
        "SELECT 1 FROM take_end WHERE take = ? AND finished = 1", (take,)
    ).fetchone()
    return ended is not None


def _bit(value: bool | None) -> int | None:  # noqa: FBT001  (a value to be stored, not a switch)
    return None if value is None else int(value)


def _depends(depends: Mapping[str, str] | None) -> str | None:
    return None if depends is None else _json(dict(depends))


_ENCODER: Final = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"), allow_nan=False)


def _json(value: object) -> str:
    return _ENCODER.encode(value)
