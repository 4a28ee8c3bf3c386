"""What the live screen says where there is nothing to hear."""

from __future__ import annotations

import pytest
from textual.pilot import Pilot

from engine.facts import NoteKind
from engine.link import EngineState
from tests.tui.theatre import METRIC, TARGETS, Theatre, on_screen
from tui.state.explanations import explain
from tui.state.follower import DWELL
from tui.state.run_status import RunPhase, RunStatus


@pytest.mark.parametrize("phase", RunPhase)
def test_every_phase_of_a_run_has_its_words(theatre: Theatre, phase: RunPhase) -> None:
    [info] = theatre.watch.benchmarks
    blocks = explain(RunStatus(phase), theatre.watch, info)
    assert len(blocks) > 1


def test_the_end_of_a_run_names_the_weakest_metrics_first(theatre: Theatre) -> None:
    async def script(pilot: Pilot[None]) -> None:
        await theatre.prepare(1)
        for target, passed in zip(TARGETS, (True, False), strict=True):
            await theatre.judge(await theatre.play(1, target), passed=passed)
        await theatre.note(NoteKind.RUN_ENDED)
        theatre.link.state = EngineState.IDLE
        for _ in range(3):
            await theatre.tick(pilot, DWELL)
        shown = on_screen(pilot)
        assert f"weakest   + 50% 1/2  {METRIC.name}" in shown
        assert "steadfast 1/1, pushover 0/1" in shown
        assert shown.index("weakest") < shown.index("what is significant")

    theatre.perform(script, (200, 50))


def test_the_end_of_a_run_names_a_failure_and_enter_opens_it_at_its_evidence(
    theatre: Theatre,
) -> None:
    async def script(pilot: Pilot[None]) -> None:
        await theatre.prepare(2)
        first = await theatre.play(1, TARGETS[1])
        await theatre.judge(first, passed=False)
        newest = await theatre.play(2, TARGETS[1])
        await theatre.judge(newest, passed=False, justification="It gave way to a friend.")
        await theatre.note(NoteKind.RUN_ENDED)
        theatre.link.state = EngineState.IDLE
        for _ in range(3):
            await theatre.tick(pilot, DWELL)
        shown = on_screen(pilot)
        assert f"failed    {newest.key}   Enter opens its evidence" in shown
        assert "It gave way to a friend." in shown
        await theatre.open(pilot, "enter")
        shown = on_screen(pilot)
        assert str(newest.key) in shown
        assert "2 of 2, 1 read" in shown

    theatre.perform(script, (200, 50))
