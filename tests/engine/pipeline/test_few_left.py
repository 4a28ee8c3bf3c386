"""The end of a run: where few conversations are left, calls are what is limited."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from pathlib import Path
from random import Random
from typing import Any

import pytest

from engine.benchmark import Stage, State
from engine.facts import Fact, MessageSpoken, VerdictGiven
from engine.pipeline.control import Slots
from engine.pipeline.run import Pipeline
from engine.progress import FEWEST_TO_JUDGE, Progress, TargetProgress, TimeLeft
from engine.store.open_reader import open_reader
from tests.engine.pipeline.timed_run import NAME, TARGETS, Ends, Takes, TimedRun
from tests.waiting import PATIENCE_S

WITHIN = 1.08
"""Times what no order of the same calls is quicker than."""


def varied(model: str, seed: int, messages: int) -> float:
    return Random(f"{model} {seed} {messages}").uniform(0.5, 1.5)


def often_early(seed: int, messages: int) -> bool:
    return messages // 2 >= Random(seed).randint(1, 6)


def slow_first(model: str, _seed: int, _messages: int) -> float:
    return 4.0 if model == TARGETS[0] else 1.0


@pytest.mark.parametrize(("conversations", "at_once"), [(48, 40), (80, 12)])
def test_slots_do_not_stand_empty_at_the_end(
    tmp_path: Path, conversations: int, at_once: int
) -> None:
    run = TimedRun(tmp_path, conversations, simulate=at_once, evaluate=at_once)
    took = run.run()
    assert len(run.calls) == conversations * 13
    assert took <= WITHIN * run.bound()
    assert run.most["simulate"] == at_once


@pytest.mark.parametrize(
    "differing",
    [
        {"targets": 3, "takes": varied, "ends": often_early},
        {"takes": slow_first},
        {"passes": 3},
    ],
    ids=["in length", "in how slow a target is", "in how often they are judged"],
)
def test_nor_do_they_where_conversations_differ(tmp_path: Path, differing: dict[str, Any]) -> None:
    run = TimedRun(tmp_path, 48, simulate=40, evaluate=40, **differing)
    assert run.run() <= WITHIN * run.bound()


@pytest.mark.parametrize("varies", [False, True])
def test_nor_do_they_where_the_longest_were_begun_last(tmp_path: Path, *, varies: bool) -> None:
    """In the order in which they came, the calls would take 1.14 and 1.16 times the bound."""

    def takes(model: str, seed: int, messages: int) -> float:
        return varied(model, seed, messages) if varies else 4.0 if model == TARGETS[0] else 1.0

    run = TimedRun(tmp_path, 24, simulate=10, evaluate=10, targets=3, takes=takes)
    if varies:
        run.ends = often_early
    assert run.run() <= WITHIN * run.bound()


def test_verdicts_come_early_while_many_are_left(tmp_path: Path) -> None:
    run = TimedRun(tmp_path, 50, simulate=10, evaluate=10)
    took = run.run()
    judged = [call.ended for call in run.calls if call.model == "evaluator"]
    # the first ten are judged before any other begins its second message
    assert sorted(judged)[:10] == [13.0] * 10
    assert took <= WITHIN * run.bound()


def test_a_run_that_is_stopped_then_stops_between_two_messages(tmp_path: Path) -> None:
    def stop(pipeline: Pipeline) -> None:
        if run.clock.now == 7.0:
            pipeline.drain()

    run = TimedRun(tmp_path, 24, simulate=20, evaluate=20, on_call=stop)
    assert run.run() == 8.0
    # of those whose turn it was, one had begun to speak
    assert len(run.calls) == 20 * 7 + 1
    with closing(open_reader(tmp_path / "crosswind.db")) as reader:
        states = Counter(row.state for row in reader.units(NAME, Stage.SIMULATE).values())
    assert states == {State.QUEUED: 24}
    run.run()
    assert len(run.calls) == 24 * 13


def test_a_pause_then_begins_no_message(tmp_path: Path) -> None:
    def pause(pipeline: Pipeline) -> None:
        if run.clock.now == 7.0 and not pipeline.control.paused:
            pipeline.pause()
            asyncio.get_running_loop().call_later(0.2, go_on, pipeline)

    def go_on(pipeline: Pipeline) -> None:
        begun_after.append(run.in_air["simulate"])
        pipeline.resume()

    begun_after: list[int] = []
    run = TimedRun(tmp_path, 24, simulate=20, evaluate=20, on_call=pause)
    run.run()
    # the one that had begun has ended, and no other has begun
    assert begun_after == [0]
    assert len(run.calls) == 24 * 13


def test_those_that_wait_for_their_turn_are_told_apart_from_those_that_speak(
    tmp_path: Path,
) -> None:
    def look(pipeline: Pipeline) -> None:
        between = pipeline.control.slots[Stage.SIMULATE].between
        seen.add((run.in_air["simulate"], between.total()))

    seen: set[tuple[int, int]] = set()
    run = TimedRun(tmp_path, 24, simulate=20, evaluate=20, on_call=look)
    run.run()
    assert (20, 4) in seen
    assert max(speaking for speaking, _ in seen) == 20
    assert run.pipeline is not None
    assert not run.pipeline.control.slots[Stage.SIMULATE].between.total()


async def test_what_is_cancelled_while_it_waits_takes_no_slot_with_it() -> None:
    slots = Slots(1)

    async def row(target: str) -> None:
        async with slots.hold(target, 2):
            await asyncio.sleep(0)
            await slots.next_call(target, 1)

    async with slots.hold("a", 1):
        waiting = [asyncio.create_task(row("b")) for _ in range(3)]
        await asyncio.sleep(0)
        waiting[0].cancel()
        await asyncio.sleep(0)
    waiting[1].cancel()  # it has just been given the slot
    await asyncio.gather(*waiting, return_exceptions=True)
    assert not waiting[2].cancelled()
    async with asyncio.timeout(PATIENCE_S), slots.hold("c", 1):
        pass


def test_a_target_that_hangs_leaves_every_other_half_of_its_even_share(tmp_path: Path) -> None:
    def takes(model: str, seed: int, messages: int) -> float:
        return 1000.0 if model == TARGETS[0] else 1.0

    run = TimedRun(tmp_path, 30, simulate=8, evaluate=8, turns=2, takes=takes)
    run.run()
    quick = [call.ended for call in run.calls if call.model == TARGETS[1]]
    # 15 conversations of 4 calls: two at a time, at worst
    assert max(quick) <= 15 * 4 / 2 + 4


def test_targets_that_hang_hold_all_slots_of_none_that_answers(tmp_path: Path) -> None:
    """With more of their conversations left than there are slots, they would in the order in which
    calls came."""

    def takes(model: str, seed: int, messages: int) -> float:
        return 1000.0 if model in {TARGETS[0], TARGETS[2]} else 1.0

    run = TimedRun(tmp_path, 15, simulate=8, evaluate=8, targets=3, takes=takes)
    run.run()
    quick = [call.ended for call in run.calls if call.model == TARGETS[1]]
    # 5 conversations of 12 calls: one at a time, at worst
    assert max(quick) <= 5 * 12


def test_a_number_that_grows_while_few_are_left_is_used_at_once(tmp_path: Path) -> None:
    def more(pipeline: Pipeline) -> None:
        if run.clock.now == 5.0:
            pipeline.control.slots[Stage.SIMULATE].resize(12)

    run = TimedRun(tmp_path, 12, simulate=8, evaluate=8, on_call=more)
    run.run()
    assert run.most["simulate"] == 12


# A budget that is too small for all conversations finishes some, instead of beginning many.


CONVERSATIONS = 30


@dataclass
class Bought:
    """What the money of a run went into."""

    judged: int
    begun: int
    """Conversations that are begun and not judged."""
    usd: float
    notes: list[str]


def bought(run: TimedRun) -> Bought:
    run.run()
    with closing(open_reader(run.root / "crosswind.db")) as reader:
        takes = reader.takes(NAME)
        judged = sum(bool(reader.verdicts(take.seq)) for take in takes)
        notes = [note.text for note in reader.snapshot().notes]
        return Bought(judged, len(takes) - judged, reader.spent_usd(), notes)


@pytest.fixture(scope="module")
def each_usd(tmp_path_factory: pytest.TempPathFactory) -> float:
    """What one conversation costs, its verdict included."""
    run = TimedRun(tmp_path_factory.mktemp("all"), 8, simulate=8, evaluate=8, budget=1000.0)
    return bought(run).usd / 8


@pytest.mark.parametrize(("enough_for", "at_once"), [(5, 40), (20, 4)])
def test_a_budget_for_some_conversations_has_nearly_as_many_judged(
    tmp_path: Path, each_usd: float, enough_for: int, at_once: int
) -> None:
    budget = enough_for * each_usd
    run = TimedRun(tmp_path, CONVERSATIONS, simulate=at_once, evaluate=at_once, budget=budget)
    found = bought(run)
    assert found.usd <= budget
    assert enough_for - 2 <= found.judged <= enough_for
    assert found.begun <= 2
    told = "are left, which is likely to be enough for the conversations that are open"
    assert sum(told in note for note in found.notes) == 1


def test_the_next_run_finishes_first_what_was_begun(tmp_path: Path, each_usd: float) -> None:
    run = TimedRun(tmp_path, CONVERSATIONS, simulate=8, evaluate=8, budget=5 * each_usd)
    first = bought(run)
    assert first.begun
    second = bought(run)
    assert second.begun <= first.begun
    assert second.judged >= first.judged + 3


def test_a_budget_that_is_enough_for_all_holds_nothing_up(tmp_path: Path, each_usd: float) -> None:
    run = TimedRun(tmp_path, 16, simulate=16, evaluate=16, budget=100 * each_usd)
    found = bought(run)
    assert found.judged == 16
    assert run.most["simulate"] == 16
    assert not [note for note in found.notes if "run.budget" in note]


# How long a target still takes, and how sure that is.


NOW = datetime(2026, 5, 1, 12, tzinfo=UTC)
TURNS = 6
MARKS = (0.25, 0.5, 0.75, 0.9, 0.97)
Estimate = Callable[[TargetProgress, datetime, int], TimeLeft | None]


def playing(made: int, left: int, every: float, took_ms: int = 500) -> TargetProgress:
    """So many calls were answered, one every so many seconds, the last one now."""
    target = TargetProgress()
    target.simulate.queued = left
    for number in reversed(range(made)):
        target.calls.add(NOW - timedelta(seconds=number * every), 1)
        target.call_ms.add(NOW - timedelta(seconds=number * every), took_ms)
    return target


@pytest.mark.parametrize(
    "target",
    [playing(FEWEST_TO_JUDGE, 40, 1.0), playing(20, 0, 1.0), TargetProgress()],
    ids=["too few", "nothing left", "nothing yet"],
)
def test_what_cannot_be_told_is_not_said(target: TargetProgress) -> None:
    assert target.time_left(NOW, TURNS) is None


def judging(target: TargetProgress, made: int, waiting: int, took_ms: int) -> TargetProgress:
    """So many were judged, one a second, and so many wait, of which two are being judged."""
    target.simulate.done, target.evaluate.done = made + waiting, made
    target.evaluate.running = min(waiting, 2)
    target.evaluate.queued = waiting - target.evaluate.running
    for number in reversed(range(made)):
        target.judged.add(NOW - timedelta(seconds=number), 1)
        target.judge_ms.add(NOW - timedelta(seconds=number), took_ms)
    return target


def test_a_verdict_of_which_no_pace_is_known_is_not_told() -> None:
    target = judging(TargetProgress(), 0, 8, took_ms=2000)
    assert target.time_to_end(NOW, TURNS) is None
    assert judging(TargetProgress(), 20, 0, took_ms=2000).time_to_end(NOW, TURNS) is None
    in_batches = judging(TargetProgress(), 20, 8, took_ms=0)
    assert in_batches.time_to_end(NOW, TURNS) is None


def told(
    run: TimedRun,
    estimate: Estimate = TargetProgress.time_left,
    kind: type[Fact] = MessageSpoken,
) -> dict[float, tuple[TimeLeft, float]]:
    """What was told when so much of the time had gone by in which conversations were played, or
    facts of another kind came, and how long it then took. A target that takes longest decides."""
    progress, found = Progress(), {}
    with closing(open_reader(run.root / "crosswind.db")) as reader:
        facts = reader.facts(0, 1_000_000)
    spoken = [fact.at for fact in facts if isinstance(fact, kind)]
    began, ended = facts[0].at, spoken[-1]
    marks = {began + share * (ended - began): share for share in MARKS}
    for before, fact in pairwise([facts[0], *facts]):
        for at in [at for at in marks if before.at <= at < fact.at]:
            targets = progress.targets_of(NAME).values()
            lefts = [
                left for target in targets if (left := estimate(target, at, TURNS)) is not None
            ]
            found[marks[at]] = max(lefts, key=lambda one: one.likely), (ended - at).total_seconds()
        progress.apply(fact)
    return found


def alike(_model: str, _seed: int, _messages: int) -> float:
    return 1.0


def never(_seed: int, _messages: int) -> bool:
    return False


CALL_S = 1.0
FACTOR = 1.6


@pytest.mark.exhaustive
@pytest.mark.parametrize(
    ("conversations", "at_once", "takes", "ends"),
    [
        (48, 40, alike, never),
        (48, 40, varied, often_early),
    ],
    ids=["alike", "ended early"],
)
def test_what_is_told_is_true_to_the_end(
    tmp_path: Path, conversations: int, at_once: int, takes: Takes, ends: Ends
) -> None:
    run = TimedRun(
        tmp_path, conversations, simulate=at_once, evaluate=at_once, takes=takes, ends=ends
    )
    run.run()
    found = told(run)
    assert list(found) == list(MARKS)
    for share, (left, truth) in found.items():
        words = f"at {share:.0%} {left} was told, and it took {truth:.1f} s"
        assert truth / FACTOR <= left.likely <= max(truth * FACTOR, truth + CALL_S), words
    early, truth = found[MARKS[0]]
    assert early.low <= truth <= early.high, "while little is known, it is between these"
    assert found[MARKS[-1]][0].high - found[MARKS[-1]][0].low < 2 * CALL_S


@pytest.mark.exhaustive
@pytest.mark.parametrize(
    # the judges are shared: a target that is judged last has them for itself in the end
    ("evaluate", "factor"),
    [(40, FACTOR), (2, 2.0)],
    ids=["judged soon", "judged late"],
)
def test_what_is_told_of_the_last_verdict_is_true_to_the_end(
    tmp_path: Path, evaluate: int, factor: float
) -> None:
    run = TimedRun(tmp_path, 48, simulate=40, evaluate=evaluate, takes=varied, ends=often_early)
    run.run()
    found = told(run, TargetProgress.time_to_end, VerdictGiven)
    assert list(found) == list(MARKS)
    for share, (left, truth) in found.items():
        words = f"at {share:.0%} {left} was told, and it took {truth:.1f} s"
        assert truth / factor <= left.likely <= max(truth * factor, truth + CALL_S), words
