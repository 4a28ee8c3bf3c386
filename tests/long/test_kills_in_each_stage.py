"""Engines killed in every stage: at every named moment of it, and at random ones."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Final

import pytest

from engine.benchmark import Stage
from engine.kill_points import KillPoint
from tests.killing.batches import OF_BATCHES
from tests.killing.case import Death, Whole, die_in_stages, play_whole

RANDOM_KILLS: Final = 12
"""For each stage."""
SEED: Final = 12
_AT_THE_START: Final = frozenset(
    {KillPoint.LOCKING, KillPoint.LOCKED, KillPoint.MIGRATING, KillPoint.MIGRATED}
)
"""These come before an engine knows what stage it is in."""
_OF_A_CALL: Final = frozenset(
    {KillPoint.SENDING, KillPoint.SENT, KillPoint.FIRST_WORD, KillPoint.LAST_WORD}
)
_IN_PLACE: Final = (
    KillPoint.MOVED_FILE,
    KillPoint.SYNCED_FOLDER,
    KillPoint.CHANGING_STATE,
    KillPoint.CHANGED_STATE,
)
"""From then on `benchmark.yaml` holds the metrics, and an engine has no work in their stage."""


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Whole:
    return play_whole(tmp_path_factory.mktemp("whole") / "workspace")


def _chains(stage: Stage) -> list[list[KillPoint]]:
    """For each workspace, moments in an order in which each still comes after those before it."""
    without = _AT_THE_START | OF_BATCHES
    without |= _OF_A_CALL if stage is Stage.AGGREGATE else frozenset()
    moments = [one for one in KillPoint if one not in without]
    if stage is Stage.GEN_METRICS:
        return [[one for one in moments if one not in _IN_PLACE], *([one] for one in _IN_PLACE)]
    return [moments]


@pytest.mark.timeout(1800)
@pytest.mark.parametrize("stage", list(Stage))
def test_at_every_moment_of_a_stage(tmp_path: Path, whole: Whole, stage: Stage) -> None:
    for number, moments in enumerate(_chains(stage)):
        deaths = [Death(moment=moment) for moment in moments]
        report = die_in_stages(tmp_path / str(number) / "workspace", whole, {stage: deaths})
        assert (report.kills, report.lost, report.asked_twice) == (len(deaths), 0, 0)


@pytest.mark.timeout(1800)
@pytest.mark.parametrize("stage", list(Stage))
def test_at_random_moments_of_a_stage(tmp_path: Path, whole: Whole, stage: Stage) -> None:
    draw = random.Random(f"{SEED} {stage}")
    lasts = whole.ended.first_call_s or 0.0
    kills = lost = asked_twice = number = 0
    while kills < RANDOM_KILLS:
        deaths = [
            Death(share=draw.random(), seconds=draw.uniform(0.0, lasts / 4))
            if stage is not Stage.AGGREGATE
            else Death(seconds=draw.uniform(lasts / 3, 2 * lasts))
            for _ in range(3)
        ]
        report = die_in_stages(tmp_path / str(number) / "workspace", whole, {stage: deaths})
        kills += report.kills
        lost += report.lost
        asked_twice += report.asked_twice
        number += 1
    assert (lost, asked_twice) == (0, 0)
