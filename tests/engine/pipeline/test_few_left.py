"""The end of a run: where few conversations are left, calls are what is limited."""

from __future__ import annotations

import asyncio
from collections import Counter
from contextlib import closing
from pathlib import Path
from random import Random

import pytest

from engine.benchmark import Stage, State
from engine.pipeline.control import Slots
from engine.pipeline.run import Pipeline
from engine.store.open_reader import open_reader
from tests.engine.pipeline.timed_run import NAME, TARGETS, TimedRun
from tests.waiting import PATIENCE_S

WITHIN = 1.08
"""Times what no order of the same calls is quicker than."""


def varied(model: str, seed: int, messages: int) -> float:
    return Random(f"{model} {seed} {messages}").uniform(0.5, 1.5)


def often_early(seed: int, messages: int) -> bool:
    return messages // 2 >= Random(seed).randint(1, 6)


def test_slots_do_not_stand_empty_at_the_end(tmp_path: Path) -> None:
    run = TimedRun(tmp_path, 48, simulate=40, evaluate=40)
    took = run.run()
    assert len(run.calls) == 48 * 13
    assert took <= WITHIN * run.bound()
    assert run.most["simulate"] == 40


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
