"""Fifty-seven workers killed in one run."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import pytest

from tests.engine.cluster.chaos import workers_killed

KILLS: Final = 57
ROWS: Final = 400
AT_ONCE: Final = 48
"""Calls in flight at most: conversations and verdicts."""


@pytest.mark.timeout(1800)
def test_fifty_seven_kills_of_workers_lose_nothing_and_store_nothing_twice(tmp_path: Path) -> None:
    found = workers_killed(tmp_path, kills=KILLS, rows=ROWS, latency_ms=300)
    assert found.kills == KILLS
    assert found.usual < found.calls <= found.usual + KILLS * AT_ONCE
