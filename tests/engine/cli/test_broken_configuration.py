"""A slip in `config.yaml` does not stop what only tells what the store knows."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.approval import approve
from tests.engine.commands import crosswind
from tests.engine.small_workspace import Place, small_workspace

KEY = "m01_s001_v01__holds"


@pytest.fixture
def place(played: Place) -> Place:
    played.edit(played.config, "turns: 2", "turnz: 2")
    return played


@pytest.fixture
def rebuilt(played: Place) -> Place:
    """A workspace whose store was made from the files, so that it knows of no run."""
    played.store.unlink()
    crosswind(played.root, "repair", "--yes", code=0)
    return played


every_reading_command = pytest.mark.parametrize(
    ("words", "told"),
    [
        (("show", KEY), KEY),
        (("show", "m01_s001_v01"), "conversations"),
        (("search", "the"), "giving-in"),
        (("results",), "holds"),
        (("export", "csv"), KEY),
        (("status",), "wavers"),
    ],
    ids=["show", "show scenario", "search", "results", "export", "status"],
)


@every_reading_command
def test_commands_that_only_read_go_on_with_the_last_run_s_configuration(
    place: Place, words: tuple[str, ...], told: str
) -> None:
    shown = crosswind(place.root, *words, code=0)
    assert told in shown.out
    approve(shown.err)
    approve(shown.err.replace("offline:", ""))


@every_reading_command
def test_where_nothing_has_run_they_go_on_with_the_configuration_of_the_import(
    rebuilt: Place, words: tuple[str, ...], told: str
) -> None:
    rebuilt.edit(rebuilt.config, "targets:", "targets: [")
    shown = crosswind(rebuilt.root, *words, code=0)
    assert told in shown.out
    approve(shown.err)


def test_the_configuration_of_the_import_tells_the_same_results(rebuilt: Place) -> None:
    before = crosswind(rebuilt.root, "results", code=0).out
    rebuilt.edit(rebuilt.config, "turns: 2", "turnz: 2")
    assert crosswind(rebuilt.root, "results", code=0).out == before


def test_the_newer_of_run_and_import_is_gone_by(played: Place) -> None:
    def origin() -> str:
        written = played.config.read_text("utf-8")
        played.config.write_text("half: [", "utf-8")
        told = crosswind(played.root, "results", code=0).err
        played.config.write_text(written, "utf-8")
        return told

    played.store.unlink()
    crosswind(played.root, "repair", "--yes", code=0)
    approve(origin())
    crosswind(played.root, "run", "--headless", "--plain", "--yes", code=0)
    approve(origin())


def test_what_writes_or_runs_does_not_go_on_with_it(place: Place) -> None:
    for words in (("run", "--headless"), ("repair", "--files")):
        assert "turnz" in crosswind(place.root, *words, code=2).err


def test_where_nothing_has_run_the_slip_is_all_there_is_to_tell(tmp_path: Path) -> None:
    place = small_workspace(tmp_path)
    place.config.write_text("half: [", "utf-8")
    assert "config.yaml" in crosswind(tmp_path, "results", code=2).err
