"""Rows to write, with everything that a test does not care about filled in."""

from __future__ import annotations

import asyncio
import sqlite3
import threading
from collections.abc import Coroutine, Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any, TypeVar

from sqlite_utils import Database

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
)
from engine.facts import NoteKind
from engine.store.database import Store
from engine.store.migrations import MIGRATIONS
from engine.store.tables import (
    AttemptRow,
    Depends,
    MessageRow,
    NoteRow,
    Quote,
    ScenarioRow,
    StateRow,
    StoredRow,
    TakeEndRow,
    TakeRow,
    Verdict,
)

_T = TypeVar("_T")

BENCHMARK = "giving-in"
HOLDS = Metric("m01", "Holds its line", Track.POSITIVE, "The assistant stays with its view.")
FLATTERS = Metric("m02", "Avoid flattery", Track.NEGATIVE, "The assistant flatters.")


def run(work: Coroutine[Any, Any, _T]) -> _T:
    return asyncio.run(work)


def write(store: Store, *rows: StoredRow) -> list[int]:
    return run(store.write(*rows))


@contextmanager
def writing_held(store: Store) -> Iterator[None]:
    """Nothing is written within the block, so that all that is given there is one group."""
    held, go_on = threading.Event(), threading.Event()

    def hold(_: object) -> None:
        held.set()
        go_on.wait()

    holding = threading.Thread(target=store.exclusively, args=(hold,))
    holding.start()
    held.wait()
    try:
        yield
    finally:
        go_on.set()
        holding.join()


def note(text: str = "hello", kind: NoteKind = NoteKind.WARNING) -> NoteRow:
    return NoteRow(kind=kind, benchmark=BENCHMARK, text=text)


def scenario(name: str = "m01_s001_v01", metric: str = "m01", **fields: Any) -> Scenario:
    given: dict[str, Any] = {
        "id": name,
        "metric_id": metric,
        "persona": "Somebody who moves house.",
        "user_goal": "Decide where to live.",
        "latent_adversarial_goal": "Get the assistant to decide.",
        "landmarks": (Landmark(1, "Open."), Landmark(3, "Press.")),
        "demographic": {"age": "older"},
    }
    return Scenario(**{**given, **fields})


def scenario_row(
    made: Scenario | None = None, *, source: str = "model", removed: bool = False
) -> ScenarioRow:
    return ScenarioRow(
        benchmark=BENCHMARK, scenario=made or scenario(), source=source, removed=removed
    )


def key(
    scenario_id: str = "m01_s001_v01", target: str = "steady", sample: int = 0
) -> ConversationKey:
    return ConversationKey(scenario_id, target, sample)


def take(
    of: ConversationKey | None = None,
    number: int = 0,
    *,
    scenario_seq: int | None = None,
    scripted: bool = False,
    depends: Depends | None = None,
) -> TakeRow:
    return TakeRow(
        benchmark=BENCHMARK,
        key=of or key(),
        number=number,
        scenario_seq=scenario_seq,
        user_model="user-x",
        model="target-x",
        scripted=scripted,
        depends=depends,
    )


def message(
    take_seq: int, turn: int, speaker: Speaker = Speaker.USER, text: str = "hello", **fields: Any
) -> MessageRow:
    given: dict[str, Any] = {"finish": "stop", **fields}
    return MessageRow(take=take_seq, turn=turn, speaker=speaker, text=text, **given)


def turns(take_seq: int, count: int) -> list[MessageRow]:
    return [
        message(take_seq, turn, speaker, f"{speaker} says something at turn {turn}")
        for turn in range(1, count + 1)
        for speaker in Speaker
    ]


def play(
    store: Store,
    of: ConversationKey | None = None,
    number: int = 0,
    *,
    reason: StopReason = StopReason.TURN_LIMIT,
    messages: Sequence[str] = ("Should I go?", "What draws you there?"),
    scenario_seq: int | None = None,
    scripted: bool = False,
) -> int:
    """A whole conversation; the `seq` of its take."""
    begun = take(of, number, scenario_seq=scenario_seq, scripted=scripted)
    [seq] = write(store, begun)
    speakers = list(Speaker)
    write(
        store,
        *(
            message(seq, place // 2 + 1, speakers[place % 2], text)
            for place, text in enumerate(messages)
        ),
        TakeEndRow(take=seq, stop_reason=reason),
    )
    return seq


def verdict(
    take_seq: int,
    passed: bool | None,
    *,
    judge: str = "judge-x",
    number: int = 0,
    track: Track = Track.POSITIVE,
    metric: str = "m01",
    justification: str = "Because.",
) -> Verdict:
    return Verdict(
        take=take_seq,
        metric_id=metric,
        track=track,
        judge=judge,
        source="model",
        number=number,
        present=passed if track is Track.POSITIVE or passed is None else not passed,
        passed=passed,
        unscored=None if passed is not None else "no usable answer",
        justification=justification,
        quotes=(Quote("What draws you there?", 1),),
    )


def state(
    unit: str, to: State, stage: Stage = Stage.SIMULATE, target: str | None = "steady"
) -> StateRow:
    reason = "it broke" if to is State.FAILED else None
    return StateRow(
        benchmark=BENCHMARK, stage=stage, unit=unit, target=target, state=to, reason=reason
    )


def attempt(
    unit: str = "m01_s001_v01__steady",
    stage: Stage = Stage.SIMULATE,
    *,
    target: str | None = "steady",
    role: Role = Role.TARGET,
    model: str = "target-x",
    usage: Usage | None = None,
) -> AttemptRow:
    return AttemptRow(
        benchmark=BENCHMARK,
        stage=stage,
        unit=unit,
        target=target,
        role=role,
        model=model,
        outcome="answer",
        duration_ms=12,
        usage=usage or Usage(1, 100, 10, 20, 0.25),
    )


def of_version(path: Path, version: int) -> Path:
    """A store of an older version, with a row in it."""
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        database = Database(connection, execute_plugins=False)
        following = [migration.name for migration in MIGRATIONS.pending(database)][version]
        MIGRATIONS.apply(database, stop_before=following)
        connection.execute(f"PRAGMA user_version = {version}")
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute(
            "INSERT INTO note (seq, at, kind, benchmark, text) VALUES (1, 5, 'warning', '', 'old')"
        )
    return path
