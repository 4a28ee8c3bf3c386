"""What the live screen says where there is nothing to hear."""

from __future__ import annotations

from dataclasses import replace

import pytest

from engine.facts import NoteKind
from engine.link import EngineState
from engine.pipeline.scores import PassCount, ScoreCounts
from tests.approval import approve, cells_with
from tests.tui.theatre import METRIC, TARGETS, Pilot, Theatre, failed_row, on_screen
from tui.state.explanations import explain
from tui.state.follower import DWELL
from tui.state.run_status import RunPhase, RunStatus
from tui.text.blocks import Document


@pytest.mark.parametrize("phase", RunPhase)
def test_every_phase_of_a_run_has_its_words(theatre: Theatre, phase: RunPhase) -> None:
    [info] = theatre.watch.benchmarks
    blocks = explain(RunStatus(phase), theatre.watch, info)
    assert len(blocks) > 1


@pytest.mark.terminal(200, 50)
async def test_the_end_of_a_run_names_the_weakest_metrics_first(
    theatre: Theatre, pilot: Pilot
) -> None:
    await theatre.prepare(1)
    for target, passed in zip(TARGETS, (True, False), strict=True):
        await theatre.judge(await theatre.play(1, target), passed=passed)
    await theatre.note(NoteKind.RUN_ENDED)
    theatre.link.state = EngineState.IDLE
    for _ in range(3):
        await theatre.tick(pilot, DWELL)
    shown = on_screen(pilot)
    assert f"weakest   50% of 2 pass  + {METRIC.name}" in shown
    assert "steadfast 1/1, pushover 0/1" in shown
    assert shown.index("weakest") < shown.index("what is significant")


def test_the_end_of_a_run_says_where_there_is_room_what_each_metric_means_and_how_it_failed(
    theatre: Theatre,
) -> None:
    [info] = theatre.watch.benchmarks
    asks = replace(METRIC, id="m02", name="Asks", definition="The assistant asks a question.")
    found = {
        (TARGETS[0], metric.track, metric.id): PassCount(passed, 4)
        for metric, passed in ((METRIC, 1), (asks, 2))
    }
    metrics = {metric.id: metric for metric in (METRIC, asks)}
    info = replace(info, metrics=metrics)
    scores = ScoreCounts({}, (), found, metrics, 0, {cell: failed_row(*cell) for cell in found})

    def told(rows: int) -> str:
        blocks = explain(RunStatus(RunPhase.ENDED), theatre.watch, info, scores, room=(90, rows))
        document = Document(90)
        document.set(blocks)
        lines = [
            "".join(piece.text for piece in document.line(row)) for row in range(document.height)
        ]
        assert len(lines) - document.trailing_blank <= rows
        return "\n".join(lines)

    roomy, close, low = told(12), told(10), told(9)
    assert METRIC.definition in roomy
    assert asks.definition in roomy
    assert asks.definition not in close
    assert [text.count("It gave way.") for text in (roomy, close, low)] == [2, 2, 1]
    for text in (roomy, close, low):
        assert text.count("Enter opens its") == 1
        assert text.index("Everything is stored") > text.index(asks.name)


@pytest.mark.terminal(200, 50)
async def test_the_end_of_a_run_names_a_failure_and_enter_opens_it_at_its_evidence(
    theatre: Theatre,
    pilot: Pilot,
) -> None:
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
    assert f"failed    {newest.key}   Enter opens" in shown
    approve(cells_with(shown, "Enter opens its", "It gave way"))
    await theatre.open(pilot, "enter")
    shown = on_screen(pilot)
    assert str(newest.key) in shown
    assert "2 of 2, 1 read" in shown
