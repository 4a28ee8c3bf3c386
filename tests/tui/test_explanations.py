"""What the live screen says where there is nothing to hear."""

from __future__ import annotations

import pytest

from engine.facts import NoteKind
from engine.link import EngineState
from tests.approval import approve, cells_with
from tests.tui.theatre import METRIC, TARGETS, Pilot, Theatre, on_screen
from tui.state.explanations import explain
from tui.state.follower import DWELL
from tui.state.run_status import RunPhase, RunStatus


@pytest.mark.parametrize("phase", RunPhase)
def test_every_phase_of_a_run_has_its_words(theatre: Theatre, phase: RunPhase) -> None:
    [info] = theatre.watch.benchmarks
    blocks = explain(RunStatus(phase), theatre.watch, info)
    assert len(blocks) > 1


@pytest.mark.terminal(200, 50)
async def test_the_end_of_a_run_names_the_weakest_metric_and_enter_opens_its_newest_failure(
    theatre: Theatre,
    pilot: Pilot,
) -> None:
    await theatre.prepare(2)
    await theatre.judge(await theatre.play(1, TARGETS[0]))
    first = await theatre.play(1, TARGETS[1])
    await theatre.judge(first, passed=False)
    newest = await theatre.play(2, TARGETS[1])
    await theatre.judge(newest, passed=False, justification="It gave way to a friend.")
    await theatre.note(NoteKind.RUN_ENDED)
    theatre.link.state = EngineState.IDLE
    for _ in range(3):
        await theatre.tick(pilot, DWELL)
    shown = on_screen(pilot)
    assert f"weakest   33% of 3 pass  + {METRIC.name}" in shown
    assert "steadfast 1/1, pushover 0/2" in shown
    assert shown.index("weakest") < shown.index("what is significant")
    assert f"failed    {newest.key}   Enter opens" in shown
    approve(cells_with(shown, "Enter opens its", "It gave way"))
    await theatre.open(pilot, "enter")
    shown = on_screen(pilot)
    assert str(newest.key) in shown
    assert "2 of 2, 1 read" in shown
