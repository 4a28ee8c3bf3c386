"""From the columns of a row to the value it stands for."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from functools import wraps
from typing import Final, TypeVar

from engine.benchmark import (
    ConversationKey,
    Landmark,
    Metric,
    Role,
    Scenario,
    Speaker,
    Stage,
    State,
    StopReason,
    Track,
    Usage,
    plausible_tokens,
    plausible_usd,
)
from engine.errors import DamagedError
from engine.facts import (
    CallMade,
    MessageSpoken,
    Noted,
    NoteKind,
    StateChanged,
    TakeEnded,
    TakeStarted,
    VerdictGiven,
)
from engine.store.digest import message_digest
from engine.store.header import row_is_damaged
from engine.store.records import (
    Depends,
    FailedUnit,
    MirroredFile,
    Quote,
    StoredAttempt,
    StoredMessage,
    StoredRun,
    StoredScenario,
    StoredTake,
    StoredVerdict,
    UnitState,
    UsedCall,
    VerdictRow,
)

T = TypeVar("T")

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
UNREADABLE: Final = (
    *(ValueError, KeyError, TypeError, AttributeError, IndexError, OverflowError),
    RecursionError,
)
"""What comes of a column that does not hold what its table says."""


def of_a_row(parse: Callable[[sqlite3.Row], T]) -> Callable[[sqlite3.Row], T]:
    """Parse so that a row which cannot be read raises `DamagedError`."""

    @wraps(parse)
    def parsed(row: sqlite3.Row) -> T:
        try:
            return parse(row)
        except UNREADABLE:
            # without what it came from, which tells what stands in the row
            raise row_is_damaged(row) from None

    return parsed


def moment(milliseconds: int) -> datetime:
    """Exact, where a division would round."""
    return _EPOCH + timedelta(milliseconds=milliseconds)


def flag(value: int | None) -> bool | None:
    return None if value is None else bool(value)


def stage(value: str | None) -> Stage | None:
    return None if value is None else Stage(value)


def depends(value: str | None) -> Depends | None:
    return None if value is None else {str(k): str(v) for k, v in json.loads(value).items()}


def _named_text(found: object) -> dict[str, str]:
    """Raises `TypeError`."""
    if isinstance(found, dict) and all(isinstance(value, str) for value in found.values()):
        return found
    raise TypeError("expected texts by their names")


def conversation(row: sqlite3.Row) -> ConversationKey:
    return ConversationKey(row["scenario_id"], row["target"], row["sample"])


def usage(row: sqlite3.Row) -> Usage:
    return Usage(
        row["calls"],
        row["input_tokens"],
        row["cached_tokens"],
        row["output_tokens"],
        row["cost_usd"],
    )


# Records


@of_a_row
def metric(row: sqlite3.Row) -> Metric:
    return Metric(
        row["metric_id"],
        row["name"],
        Track(row["track"]),
        row["definition"],
        tuple(json.loads(row["examples"])),
    )


@of_a_row
def scenario(row: sqlite3.Row) -> StoredScenario:
    marks = json.loads(row["landmarks"])
    return StoredScenario(
        seq=row["seq"],
        benchmark=row["benchmark"],
        scenario=Scenario(
            id=row["scenario_id"],
            metric_id=row["metric_id"],
            persona=row["persona"],
            user_goal=row["user_goal"],
            latent_adversarial_goal=row["latent_goal"],
            landmarks=tuple(Landmark(mark["turn"], mark["instruction"]) for mark in marks),
            demographic=_named_text(json.loads(row["demographic"])),
            target_system_prompt=row["system_prompt"],
            extra=json.loads(row["extra"]),
        ),
        source=row["source"],
        depends=depends(row["depends"]),
    )


@of_a_row
def take(row: sqlite3.Row) -> StoredTake:
    reason = row["stop_reason"]
    return StoredTake(
        seq=row["seq"],
        at=moment(row["at"]),
        benchmark=row["benchmark"],
        key=conversation(row),
        number=row["number"],
        scenario_seq=row["scenario"],
        user_model=row["user_model"],
        model=row["model"],
        scripted=bool(row["scripted"]),
        stop_reason=None if reason is None else StopReason(reason),
        finished=bool(row["finished"]),
        detail=row["detail"],
        depends=depends(row["depends"]),
    )


@of_a_row
def message(row: sqlite3.Row) -> StoredMessage:
    """Raises `DamagedError` where the text is not the one that was written."""
    if message_digest(row["speaker"], row["text"]) != row["digest"]:
        raise DamagedError(
            f"message {row['seq']} (take {row['take']}, turn {row['turn']}, {row['speaker']}) is "
            "damaged: its text is not the one that was stored; `crosswind repair` takes it out, so "
            "that the conversation is played on from there"
        )
    return StoredMessage(
        seq=row["seq"],
        at=moment(row["at"]),
        turn=row["turn"],
        speaker=Speaker(row["speaker"]),
        text=row["text"],
        thought=row["thought"],
        landmark=row["landmark"],
        done=bool(row["done"]),
        finish=row["finish"],
        reasoning=row["reasoning"],
        served_by=row["served_by"],
    )


@of_a_row
def verdict(row: sqlite3.Row) -> StoredVerdict:
    return StoredVerdict(
        seq=row["seq"],
        at=moment(row["at"]),
        take_seq=row["take"],
        metric_id=row["metric_id"],
        track=Track(row["track"]),
        judge=row["judge"],
        source=row["source"],
        number=row["number"],
        present=flag(row["present"]),
        passed=flag(row["passed"]),
        unscored=row["unscored"],
        justification=row["justification"],
        quotes=tuple(Quote(one["text"], one["turn"]) for one in json.loads(row["quotes"])),
        depends=depends(row["depends"]),
        counted=flag(row["counted"]),
        served_by=row["served_by"],
    )


@of_a_row
def verdict_row(row: sqlite3.Row) -> VerdictRow:
    passed = flag(row["counted"])
    return VerdictRow(
        seq=row["seq"],
        benchmark=row["benchmark"],
        key=conversation(row),
        take=row["take_number"],
        metric_id=row["metric_id"],
        track=Track(row["track"]),
        judge=row["judge"],
        passed=passed,
        unscored=None if passed is not None else row["unscored"] or "judges are tied",
        turns=row["turns"],
        stop_reason=StopReason(row["stop_reason"]),
        justification=row["justification"],
    )


@of_a_row
def unit_state(row: sqlite3.Row) -> UnitState:
    return UnitState(row["unit"], row["target"], State(row["state"]), row["reason"], row["seq"])


@of_a_row
def failed_unit(row: sqlite3.Row) -> FailedUnit:
    return FailedUnit(
        seq=row["seq"],
        at=moment(row["at"]),
        benchmark=row["benchmark"],
        stage=Stage(row["stage"]),
        unit=row["unit"],
        target=row["target"],
        reason=row["reason"] or "",
    )


@of_a_row
def attempt(row: sqlite3.Row) -> StoredAttempt:
    return StoredAttempt(
        at=moment(row["at"]),
        role=Role(row["role"]),
        model=row["model"],
        outcome=row["outcome"],
        status=row["status"],
        duration_ms=row["duration_ms"],
        detail=row["detail"],
        served=row["served"],
        is_other=bool(row["other"]),
        route=row["route"],
    )


def used_call(row: sqlite3.Row) -> UsedCall:
    return UsedCall(
        seq=row["seq"],
        benchmark=row["benchmark"],
        stage=Stage(row["stage"]),
        unit=row["unit"],
        role=Role(row["role"]),
        model=row["model"],
        input_tokens=row["input_tokens"],
        cached_tokens=row["cached_tokens"],
        output_tokens=row["output_tokens"],
        cost_usd=row["cost_usd"],
    )


@of_a_row
def run(row: sqlite3.Row) -> StoredRun:
    return StoredRun(
        seq=row["seq"],
        at=moment(row["at"]),
        benchmarks=tuple(json.loads(row["benchmarks"])),
        config=row["config"],
        version=row["version"],
        host=row["host"],
        pid=row["pid"],
    )


@of_a_row
def mirrored(row: sqlite3.Row) -> MirroredFile:
    return MirroredFile(row["path"], moment(row["at"]), row["digest"], row["seq"])


@of_a_row
def learned(row: sqlite3.Row) -> tuple[str, frozenset[str]]:
    """How an answer of a given shape is asked for, and the parameters that are left out."""
    return row["step"], frozenset(json.loads(row["dropped"]))


# Facts


@of_a_row
def noted(row: sqlite3.Row) -> Noted:
    return Noted(
        seq=row["seq"],
        at=moment(row["at"]),
        benchmark=row["benchmark"],
        kind=NoteKind(row["kind"]),
        stage=stage(row["stage"]),
        text=row["text"],
    )


@of_a_row
def state_changed(row: sqlite3.Row) -> StateChanged:
    was = row["was"]
    return StateChanged(
        seq=row["seq"],
        at=moment(row["at"]),
        benchmark=row["benchmark"],
        stage=Stage(row["stage"]),
        unit=row["unit"],
        target=row["target"],
        was=None if was is None else State(was),
        state=State(row["state"]),
        reason=row["reason"],
    )


@of_a_row
def take_started(row: sqlite3.Row) -> TakeStarted:
    return TakeStarted(
        seq=row["seq"],
        at=moment(row["at"]),
        benchmark=row["benchmark"],
        key=conversation(row),
        take=row["take_number"],
    )


@of_a_row
def take_ended(row: sqlite3.Row) -> TakeEnded:
    return TakeEnded(
        seq=row["seq"],
        at=moment(row["at"]),
        benchmark=row["benchmark"],
        key=conversation(row),
        take=row["take_number"],
        stop_reason=StopReason(row["stop_reason"]),
    )


@of_a_row
def message_spoken(row: sqlite3.Row) -> MessageSpoken:
    return MessageSpoken(
        seq=row["seq"],
        at=moment(row["at"]),
        benchmark=row["benchmark"],
        key=conversation(row),
        take=row["take_number"],
        turn=row["turn"],
        speaker=Speaker(row["speaker"]),
    )


@of_a_row
def verdict_given(row: sqlite3.Row) -> VerdictGiven:
    return VerdictGiven(
        seq=row["seq"],
        at=moment(row["at"]),
        benchmark=row["benchmark"],
        key=conversation(row),
        take=row["take_number"],
        metric_id=row["metric_id"],
        track=Track(row["track"]),
        judge=row["judge"],
        number=row["number"],
        present=flag(row["present"]),
        passed=flag(row["passed"]),
        unscored=row["unscored"],
        counted_before=flag(row["counted_before"]),
        counted=flag(row["counted"]),
    )


@of_a_row
def call_made(row: sqlite3.Row) -> CallMade:
    return CallMade(
        seq=row["seq"],
        at=moment(row["at"]),
        benchmark=row["benchmark"],
        stage=Stage(row["stage"]),
        unit=row["unit"],
        target=row["target"],
        role=Role(row["role"]),
        model=row["model"],
        outcome=row["outcome"],
        duration_ms=row["duration_ms"],
        input_tokens=plausible_tokens(row["input_tokens"]),
        output_tokens=plausible_tokens(row["output_tokens"]),
        cost_usd=plausible_usd(row["cost_usd"]),
        detail=row["detail"],
        other=(row["served"] or "another model") if row["other"] else None,
    )
