"""An engine that is killed, whenever that is, costs the calls that were in the air and no more."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Final

import pytest

from engine.kill_points import KillPoint
from tests.killing.batches import OF_BATCHES
from tests.killing.case import (
    Death,
    Whole,
    die_and_finish,
    play_whole,
)

NAMED: Final[Mapping[str, tuple[str, ...]]] = {
    "starting": ("locking", "locked", "migrating", "migrated", "binding", "bound"),
    "calling": ("sending:18", "sent:12", "first-word:12", "last-word:12"),
    "storing": ("committing:12", "committed:10", "acknowledged:25"),
    "settling": ("changing-state:6", "changed-state:6"),
    "writing": ("writing-file:3", "wrote-file:3", "synced-file:3", "moved-file:3", "synced-folder"),
}
"""Every named moment. Those of one workspace come one after another, each in a new engine."""

ONE_OF_EACH_KIND: Final = ("sent:12", "committed:10", "moved-file:3")

OFFLINE: Final = ("sending:18", "sent:14", "first-word:14", "last-word:14")
"""The scripted models come to these by another way."""


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Whole:
    return play_whole(tmp_path_factory.mktemp("whole") / "workspace")


@pytest.fixture(scope="module")
def whole_offline(tmp_path_factory: pytest.TempPathFactory) -> Whole:
    return play_whole(tmp_path_factory.mktemp("offline") / "workspace", offline=True)


def test_every_moment_is_tried() -> None:
    named = [moment.partition(":")[0] for moments in NAMED.values() for moment in moments]
    assert sorted(named) == sorted(set(KillPoint) - OF_BATCHES)


@pytest.mark.parametrize(
    "moments",
    [
        pytest.param(ONE_OF_EACH_KIND, id="one of each kind"),
        *(pytest.param(each, id=kind, marks=pytest.mark.long) for kind, each in NAMED.items()),
    ],
)
def test_a_run_that_is_killed_at_named_moments_goes_on_as_if_nothing_had_been(
    tmp_path: Path, whole: Whole, moments: tuple[str, ...]
) -> None:
    deaths = [Death(moment=moment) for moment in moments]
    report = die_and_finish(tmp_path / "workspace", whole, deaths)
    assert (report.kills, report.lost, report.asked_twice) == (len(moments), 0, 0)


@pytest.mark.long
def test_so_does_one_on_scripted_models(tmp_path: Path, whole_offline: Whole) -> None:
    deaths = [Death(moment=moment) for moment in OFFLINE]
    report = die_and_finish(tmp_path / "workspace", whole_offline, deaths)
    assert (report.kills, report.lost) == (len(OFFLINE), 0)
