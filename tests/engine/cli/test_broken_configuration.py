"""A slip in `config.yaml` does not stop what only tells what the store knows."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from tests.approval import approve
from tests.engine.commands import crosswind
from tests.engine.small_workspace import Place, small_workspace

KEY = "m01_s001_v01__holds"


READING: Final = {
    ("show", KEY): KEY,
    ("show", "m01_s001_v01"): "conversations",
    ("search", "the"): "giving-in",
    ("results",): "holds",
    ("export", "csv"): KEY,
    ("status",): "wavers",
}
"""Commands that only read, each with what it tells."""


def read(place: Place) -> str:
    """What each of them says beside what it tells, once where it is the same."""
    said = []
    for words, told in READING.items():
        shown = crosswind(place.root, *words, code=0)
        assert told in shown.out
        said.append(shown.err)
    return "".join(dict.fromkeys(said))


def test_commands_that_only_read_go_on_with_the_last_configuration(played: Place) -> None:
    written = played.config.read_text("utf-8")
    played.edit(played.config, "turns: 2", "turnz: 2")
    said = [read(played)]
    played.config.write_text(written, "utf-8")
    before = crosswind(played.root, "results", code=0).out
    # a store that was made from the files knows of no run
    played.store.unlink()
    crosswind(played.root, "repair", "--yes", code=0)
    played.edit(played.config, "turns: 2", "turnz: 2")
    said.append(read(played))
    assert crosswind(played.root, "results", code=0).out == before
    # the newer of run and import is gone by
    played.config.write_text(written, "utf-8")
    crosswind(played.root, "run", "--headless", "--plain", "--yes", code=0)
    played.edit(played.config, "targets:", "targets: [")
    said.append(read(played))
    approve("\n".join(said))


def test_what_writes_or_runs_does_not_go_on_with_it(played: Place) -> None:
    played.edit(played.config, "turns: 2", "turnz: 2")
    for words in (("run", "--headless"), ("repair", "--files")):
        assert "turnz" in crosswind(played.root, *words, code=2).err


def test_where_nothing_has_run_the_slip_is_all_there_is_to_tell(tmp_path: Path) -> None:
    place = small_workspace(tmp_path)
    place.config.write_text("half: [", "utf-8")
    assert "config.yaml" in crosswind(tmp_path, "results", code=2).err
