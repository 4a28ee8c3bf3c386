"""Workers that make an engine's calls, as the live screen and `status` show them."""

from __future__ import annotations

from dataclasses import replace

import pytest

from engine.cli.status import _remarks
from engine.link import AgentStatus, Board, EngineState
from tests.approval import approve, cells_with
from tests.tui.theatre import Pilot, Theatre, on_screen, text
from tui.state.run_status import SILENT, worker_lines
from tui.text.ink import Ink, length

NEAR = AgentStatus("node7-3f2a", "10.0.0.7", 36, 100, 11.5, 0.24)
LOST = AgentStatus("node8-90ab", "10.0.0.8", 1, 100, 0.0, 5.0)


@pytest.mark.parametrize("size", [(120, 40), (80, 24)])
async def test_workers_are_listed_as_far_as_there_is_room_the_silent_ones_first(
    theatre: Theatre, pilot: Pilot, size: tuple[int, int]
) -> None:
    await theatre.prepare()
    await theatre.tick(pilot)
    assert "worker" not in on_screen(pilot)
    near = [replace(NEAR, name=f"node{number}") for number in range(1, 6)]
    theatre.link.agents = [*near, LOST]
    await theatre.tick(pilot)
    approve([cells_with(on_screen(pilot), mark) for mark in (" ⇄  ", "heard")])


def test_what_a_worker_does_is_not_cut_for_its_name() -> None:
    host = "gpu-17.rack-4.cluster.internal.example.org"
    lost = AgentStatus("node9-90ab-and-more-of-it", host, 100, 1000, 0.0, SILENT)
    heading, first, second = worker_lines(
        Board(EngineState.RUNNING, (), agents=(NEAR, lost)), 60, most=2
    )
    approve([text(line) for line in (heading, first, second)])
    assert max(map(length, (heading, first, second))) <= 60
    assert [first[0].ink, second[0].ink] == [Ink.WARN, Ink.MUTED]


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
