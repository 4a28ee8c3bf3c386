"""Three hundred engines killed at random moments, under a budget."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import pytest

from tests.killing.case import kill_at_random, play_whole

KILLS: Final = 300
SEED: Final = 200
SLACK: Final = 5.0
"""How many times as long a restart may take to its first call as the first start of the same
workspace, which the same machine made moments before."""


@pytest.mark.timeout(7200)
def test_three_hundred_kills_lose_nothing_and_nothing_is_asked_twice(tmp_path: Path) -> None:
    whole = play_whole(tmp_path / "whole" / "workspace")
    report = kill_at_random(tmp_path, whole, KILLS, SEED)
    assert report.kills >= KILLS
    assert report.acknowledged > 0
    assert (report.lost, report.asked_twice) == (0, 0)
    assert report.beside_first
    assert min(report.beside_first) < SLACK
