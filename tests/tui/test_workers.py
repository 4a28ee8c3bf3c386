"""Workers that make an engine's calls, as the live screen and `status` show them."""

from __future__ import annotations

from engine.cli.status import _remarks
from engine.link import AgentStatus, Board, EngineState
from tests.approval import approve, cells_with
from tests.tui.theatre import Pilot, Theatre, on_screen

NEAR = AgentStatus("node7-3f2a", "10.0.0.7", 36, 100, 11.5, 0.24)
LOST = AgentStatus("node8-90ab", "10.0.0.8", 1, 100, 0.0, 5.0)


async def test_all_workers_have_one_line(theatre: Theatre, pilot: Pilot) -> None:
    await theatre.prepare()
    await theatre.tick(pilot)
    assert "workers" not in on_screen(pilot)
    theatre.link.agents = [NEAR, LOST]
    await theatre.tick(pilot)
    approve(cells_with(on_screen(pilot), "2 workers · 37 calls in"))


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
