"""What is taken out of the store is what nothing rests on any more."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from engine.benchmark import StopReason
from engine.store.database import Store, open_store
from engine.store.maintenance import plan_prune, prune, shrink
from tests.approval import approve
from tests.engine.store.building import (
    BENCHMARK,
    attempt,
    key,
    note,
    play,
    verdict,
    write,
)

START = datetime(2026, 11, 1, tzinfo=UTC)


class Calendar:
    def __init__(self) -> None:
        self.day = 0

    def __call__(self) -> datetime:
        return START + timedelta(days=self.day)


@pytest.fixture
def calendar() -> Calendar:
    return Calendar()


@pytest.fixture
def store(tmp_path: Path, calendar: Calendar) -> Iterator[Store]:
    with open_store(tmp_path / "crosswind.db", clock=calendar) as opened:
        yield opened


def take_numbers(store: Store) -> list[tuple[str, int]]:
    return [(str(take.key), take.number) for take in store.reader.takes(BENCHMARK)]


def test_only_takes_that_were_replaced_and_judged_again_go(store: Store) -> None:
    judged, unjudged, open_again, single = (key(sample=sample) for sample in range(4))
    for of in (judged, unjudged, open_again, single):
        write(store, verdict(play(store, of), passed=True), attempt(str(of)))
    write(store, verdict(play(store, judged, 1), passed=False))
    play(store, unjudged, 1)
    play(store, open_again, 1, reason=StopReason.TARGET_FAILED)
    before = store.reader.snapshot()
    plan = plan_prune(store.reader, None)
    assert (len(plan.takes), plan.messages, plan.verdicts) == (1, 2, 1)
    prune(store, plan)
    assert take_numbers(store) == [
        *((str(judged), 1), (str(unjudged), 0), (str(unjudged), 1)),
        *((str(open_again), 0), (str(open_again), 1), (str(single), 0)),
    ]
    after = store.reader.snapshot()
    steady = (BENCHMARK, "steady")
    assert after.targets[steady].scores == before.targets[steady].scores
    assert after.targets[steady].usage == before.targets[steady].usage
    assert plan_prune(store.reader, None).is_empty
    newest = before.seq
    assert write(store, note())[0] > newest + 1, "a number that is gone is not given again"


def test_what_is_younger_than_was_said_stays(store: Store, calendar: Calendar) -> None:
    for number in range(3):
        calendar.day = number * 10
        write(store, note(f"day {calendar.day}"), verdict(play(store, number=number), passed=True))
    plan = plan_prune(store.reader, START + timedelta(days=5))
    assert (len(plan.takes), len(plan.notes)) == (1, 1)
    prune(store, plan)
    assert [number for _, number in take_numbers(store)] == [1, 2]
    texts = [fact.text for fact in store.reader.facts(0) if hasattr(fact, "text")]
    assert texts[0] == "day 10"
    approve(texts[-1])


def test_the_file_is_smaller_afterwards_and_still_whole(store: Store) -> None:
    said = ["x" * 100_000, "y" * 100_000]
    for number in range(12):
        write(store, verdict(play(store, number=number, messages=said), passed=True))
    prune(store, plan_prune(store.reader, None))
    freed = shrink(store)
    assert freed is not None
    assert freed > 2_000_000
    assert store.path.stat().st_size < 1_150_000
    write(store, note())
    assert [number for _, number in take_numbers(store)] == [11]
    assert store.reader.messages(store.reader.takes(BENCHMARK)[0].seq)[0].text == said[0]
