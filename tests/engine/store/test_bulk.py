"""Whole conversations become rows in one transaction."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from engine.benchmark import Speaker, Stage, State, StopReason, Track
from engine.errors import StoreError
from engine.store.database import Store, open_store
from engine.store.inserts import (
    GIVEN_LATER,
    BulkRow,
    WholeConversation,
    WholeTake,
)
from engine.store.tables import MessageRow, StateRow, TakeEndRow, Verdict
from tests.engine.store.building import (
    BENCHMARK,
    attempt,
    key,
    scenario_row,
    state,
    take,
    turns,
    verdict,
)


def whole() -> WholeConversation:
    """Two takes with verdicts of several judges, and an interrupted one."""
    given = [
        verdict(GIVEN_LATER, True),
        verdict(GIVEN_LATER, False, judge="other"),
        verdict(GIVEN_LATER, None, judge="third"),
        verdict(GIVEN_LATER, True, judge="other"),
        verdict(GIVEN_LATER, False, track=Track.NEGATIVE, metric="m02"),
    ]
    return WholeConversation(
        fresh=True,
        takes=[
            ended(0, given),
            ended(1, [verdict(GIVEN_LATER, False), verdict(GIVEN_LATER, False, judge="other")]),
            WholeTake(begun=take(number=2), messages=turns(GIVEN_LATER, 1)[:1]),
        ],
        attempts=[attempt(), attempt(stage=Stage.EVALUATE)],
        states=[state(str(key()), State.QUEUED), state(str(key()), State.DONE)],
    )


def ended(number: int, verdicts: list[Verdict]) -> WholeTake:
    return WholeTake(
        begun=take(number=number),
        messages=turns(GIVEN_LATER, 2),
        end=TakeEndRow(
            take=GIVEN_LATER, stop_reason=StopReason.TURN_LIMIT, detail="half \ud800 a pair"
        ),
        verdicts=verdicts,
    )


def written(path: Path, *rows: BulkRow) -> Store:
    store = open_store(path)
    asyncio.run(store.write_all([scenario_row(), *rows]))
    return store


def test_a_conversation_becomes_rows_that_add_up(tmp_path: Path) -> None:
    with written(tmp_path / "store.db", whole()) as store:
        progress = store.reader.snapshot()
        folded = type(progress)()
        for fact in store.reader.facts(0):
            folded.apply(fact)
        scores = progress.target(BENCHMARK, "steady").scores
        assert scores == folded.target(BENCHMARK, "steady").scores
        assert [(one.finished, one.detail) for one in store.reader.takes(BENCHMARK)] == [
            (True, "half � a pair"),
            (True, "half � a pair"),
            (False, None),
        ]
        [seq] = asyncio.run(store.write(state("x", State.QUEUED)))
        facts = store.reader.facts(0)
        assert seq == store.reader.last_seq() == max(fact.seq for fact in facts)
        assert len({fact.seq for fact in facts}) == len(facts)


def test_a_verdict_on_what_was_not_played_to_its_end_is_refused_with_all_else(
    tmp_path: Path,
) -> None:
    said = MessageRow(take=GIVEN_LATER, turn=1, speaker=Speaker.USER, text="hello", finish="stop")
    open_take = WholeTake(begun=take(), messages=[said], verdicts=[verdict(GIVEN_LATER, True)])
    one = WholeConversation(fresh=True, takes=[open_take])
    with open_store(tmp_path / "crosswind.db") as store:
        with pytest.raises(StoreError, match="not played to its end"):
            asyncio.run(store.write_all([scenario_row(), one]))
        assert store.reader.last_seq() == 0


def test_a_state_knows_what_stood_before_it(tmp_path: Path) -> None:
    with written(tmp_path / "crosswind.db", whole()) as store:
        progress = store.reader.snapshot()
        assert progress.target(BENCHMARK, "steady").simulate.done == 1
        assert progress.target(BENCHMARK, "steady").simulate.queued == 0
        again = StateRow(
            benchmark=BENCHMARK, stage=Stage.SIMULATE, unit=str(key()), state=State.FAILED
        )
        asyncio.run(store.write(again))
        assert store.reader.snapshot().stage_tally(BENCHMARK, Stage.SIMULATE).total == 1
