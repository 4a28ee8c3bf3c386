"""An engine that is killed, whenever that is, costs the calls that were in the air and no more."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Final

import pytest

from engine.benchmark import Stage
from engine.kill_points import KillPoint
from tests.killing.case import (
    Death,
    Whole,
    die_and_finish,
    die_in_stage,
    kill_at_random,
    play_whole,
)

RANDOM_KILLS: Final = 10
SEED: Final = 4
SLACK: Final = 5.0
"""How many times as long a restart may take to its first call as the first start of the same
workspace, which the same machine made moments before."""

TIMES: Final[Mapping[KillPoint, int]] = {
    KillPoint.SENDING: 40,
    KillPoint.SENT: 50,
    KillPoint.FIRST_WORD: 60,
    KillPoint.LAST_WORD: 70,
    KillPoint.COMMITTING: 30,
    KillPoint.COMMITTED: 25,
    KillPoint.ACKNOWLEDGED: 50,
    KillPoint.CHANGING_STATE: 12,
    KillPoint.CHANGED_STATE: 20,
    KillPoint.WRITING_FILE: 4,
    KillPoint.WROTE_FILE: 5,
    KillPoint.SYNCED_FILE: 6,
    KillPoint.MOVED_FILE: 7,
    KillPoint.SYNCED_FOLDER: 2,
}
"""The how-manieth time is in the midst of a run; the first, where it is not named."""

OFFLINE: Final = {
    KillPoint.SENDING: 45,
    KillPoint.SENT: 55,
    KillPoint.FIRST_WORD: 65,
    KillPoint.LAST_WORD: 75,
}
"""The scripted models come to these by another way."""

IN_STAGES: Final[Mapping[Stage, tuple[str, ...]]] = {
    Stage.GEN_METRICS: ("sent:1", "wrote-file:2", "changing-state:1"),
    Stage.GEN_SCENARIOS: ("first-word:4", "acknowledged:6", "changed-state:3"),
    Stage.SIMULATE: ("sent:30", "committed:20", "changing-state:4"),
    Stage.EVALUATE: ("last-word:5", "committing:12", "changed-state:3"),
    Stage.AGGREGATE: ("committed:3", "changing-state:1", "wrote-file:12"),
}
"""Moments in the midst of what the engine before has left of a stage."""


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Whole:
    return play_whole(tmp_path_factory.mktemp("whole") / "workspace")


@pytest.fixture(scope="module")
def whole_offline(tmp_path_factory: pytest.TempPathFactory) -> Whole:
    return play_whole(tmp_path_factory.mktemp("offline") / "workspace", offline=True)


@pytest.mark.parametrize("moment", list(KillPoint))
def test_a_run_that_is_killed_at_a_named_moment_goes_on_as_if_nothing_had_been(
    tmp_path: Path, whole: Whole, moment: KillPoint
) -> None:
    report = die_and_finish(
        tmp_path / "workspace", whole, [Death(moment=f"{moment}:{TIMES.get(moment, 1)}")]
    )
    assert (report.kills, report.lost, report.asked_twice) == (1, 0, 0)


@pytest.mark.parametrize("moment", list(OFFLINE))
def test_so_does_one_on_scripted_models(
    tmp_path: Path, whole_offline: Whole, moment: KillPoint
) -> None:
    report = die_and_finish(
        tmp_path / "workspace", whole_offline, [Death(moment=f"{moment}:{OFFLINE[moment]}")]
    )
    assert (report.kills, report.lost) == (1, 0)


@pytest.mark.parametrize("stage", list(Stage))
def test_engines_that_are_killed_in_a_stage_one_after_another_cost_no_more(
    tmp_path: Path, whole: Whole, stage: Stage
) -> None:
    deaths = [Death(moment=moment) for moment in IN_STAGES[stage]]
    report = die_in_stage(tmp_path / "workspace", whole, stage, deaths)
    assert (report.kills, report.lost, report.asked_twice) == (len(deaths), 0, 0)


def test_a_run_that_is_killed_at_random_moments_loses_nothing_and_asks_nothing_twice(
    tmp_path: Path, whole: Whole
) -> None:
    report = kill_at_random(tmp_path, whole, RANDOM_KILLS, SEED)
    assert report.kills >= RANDOM_KILLS
    assert report.acknowledged > 0
    assert (report.lost, report.asked_twice) == (0, 0)
    assert report.beside_first
    assert min(report.beside_first) < SLACK
