"""Workers of a run killed while they have calls in hand: the small form of
`tests/long/test_many_worker_kills.py`."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import pytest

from tests.engine.cluster.chaos import workers_killed

KILLS: Final = 3
AT_ONCE: Final = 48
"""Calls in flight at most: conversations and verdicts."""


@pytest.mark.process
def test_workers_killed_in_a_run_lose_nothing_and_store_nothing_twice(tmp_path: Path) -> None:
    found = workers_killed(tmp_path, kills=KILLS, rows=16, latency_ms=250, its_own=True)
    assert found.kills == KILLS
    assert found.usual < found.calls <= found.usual + KILLS * AT_ONCE
