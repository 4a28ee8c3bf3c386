"""Workers that make an engine's calls, as the live screen and `status` show them."""

from __future__ import annotations

import pytest

from engine.cli.status import _remarks
from engine.link import AgentStatus, Board, EngineState
from tests.approval import approve, cells_with
from tests.tui.theatre import Pilot, Theatre, on_screen, text
from tui.state.workers import SILENT, worker_lines
from tui.text.ink import Ink, length

NEAR = AgentStatus("node7-3f2a", "10.0.0.7", 36, 100, 11.5, 0.24)
LOST = AgentStatus("node8-90ab", "10.0.0.8", 1, 100, 0.0, SILENT)


def test_all_workers_have_one_line_and_each_its_own_once_it_is_asked_for() -> None:
    assert worker_lines([], 100, opened=True, most=8) == []
    [line] = worker_lines([NEAR, LOST], 100, opened=False, most=8)
    approve(text(line))

    _, first, second = worker_lines([NEAR, LOST], 100, opened=True, most=8)
    approve(text(first))
    assert Ink.WARN in {piece.ink for piece in first}
    assert Ink.WARN not in {piece.ink for piece in second}

    cut = worker_lines([NEAR] * 40, 60, opened=True, most=4)
    assert "and 37 more" in text(cut[-1])
    assert max(map(length, cut)) <= 60


def test_how_long_a_worker_was_silent_is_not_cut_for_a_long_host() -> None:
    host = "gpu-17.rack-4.cluster.internal.example.org"
    lost = AgentStatus("node9-90ab-and-more-of-it", host, 100, 1000, 0.0, 7.0)
    _, first, second = worker_lines([NEAR, lost], 80, opened=True, most=8)
    approve([text(first), text(second)])
    assert max(length(first), length(second)) < 80


@pytest.mark.parametrize("size", [(120, 40), (80, 24)])
async def test_workers_are_listed_by_a_key_that_is_there_only_with_them(
    theatre: Theatre, pilot: Pilot, size: tuple[int, int]
) -> None:
    await theatre.prepare()
    await theatre.tick(pilot)
    assert "workers" not in on_screen(pilot)
    theatre.link.agents = [NEAR, LOST]
    await theatre.tick(pilot)
    approve(cells_with(on_screen(pilot), "2 workers · 37 calls in"))
    assert NEAR.name not in on_screen(pilot)
    await theatre.press(pilot, "H")
    assert f"{NEAR.name}  {NEAR.host}  {NEAR.words}"[:78] in on_screen(pilot)
    await theatre.press(pilot, "H")
    assert NEAR.name not in on_screen(pilot)


async def test_a_run_that_waits_for_workers_is_paused_and_says_what_to_do(
    theatre: Theatre, pilot: Pilot
) -> None:
    await theatre.prepare()
    theatre.link.state = EngineState.PAUSED
    theatre.link.problem = "waiting for workers: start some with `dask worker`"
    await theatre.tick(pilot)
    assert "paused" in on_screen(pilot)
    assert f"! held  {theatre.link.problem}" in on_screen(pilot)


def test_status_names_each_worker() -> None:
    lines = _remarks(Board(EngineState.RUNNING, (), agents=(NEAR,)))
    approve(lines)
