"""What the live screen says where there is nothing to hear."""

from __future__ import annotations

import pytest

from tests.tui.theatre import Theatre
from tui.state.explanations import explain
from tui.state.run_status import RunPhase, RunStatus


@pytest.mark.parametrize("phase", RunPhase)
def test_every_phase_of_a_run_has_its_words(theatre: Theatre, phase: RunPhase) -> None:
    [info] = theatre.watch.benchmarks
    blocks = explain(RunStatus(phase), theatre.watch, info)
    assert len(blocks) > 1
