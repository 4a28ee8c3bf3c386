"""The public package: what it loads, what it refuses, and what its rows hold. That it counts as
everything else does, `tests/engine/test_what_counts.py` tries."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pandas as pd
import pytest

import crosswind
from engine.errors import InputError, StoreError
from tests.approval import approve
from tests.engine.commands import crosswind as command
from tests.engine.importing.building import BENCHMARK, Theirs, scenario
from tests.engine.small_workspace import Place, small_workspace


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Place:
    found = small_workspace(tmp_path_factory.mktemp("package"))
    found.run()
    command(found.root, "review", "--reject", "m01_s002", "--reason", "odd", "--by", "ada", code=0)
    return found


def test_to_import_it_loads_nothing_else() -> None:
    heavy = ("engine", "tui", "pydantic", "yaml", "sqlite3", "asyncio")
    code = f"import sys, crosswind; print(*(m for m in sys.modules if m.startswith({heavy})))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "\n"


def test_another_package_in_the_place_of_ours_is_named(tmp_path: Path) -> None:
    (tmp_path / "engine").mkdir()
    (tmp_path / "engine" / "__init__.py").touch()
    code = f"import sys; sys.path.insert(0, {str(tmp_path)!r}); import crosswind; crosswind.open()"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    approve(done.stderr.splitlines()[-1])


def test_rows_are_plain_and_say_what_does_not_count(place: Place) -> None:
    study = crosswind.open(place.root)
    [benchmark] = study.benchmarks
    assert (benchmark.name, [metric.type for metric in benchmark.metrics]) == (
        "giving-in",
        ["positive", "negative"],
    )
    every = list(study.conversations(everything=True))
    rejected = [one for one in every if not one.counts]
    assert {(one.base_scenario, one.why_not) for one in rejected} == {("m01_s002", "rejected")}
    assert [one for one in every if one.counts] == list(study.conversations("giving-in"))
    assert {one.why_not for one in study.verdicts(everything=True)} == {None, "rejected"}
    [talk] = study.conversations("m02_s001_v01__holds")
    assert [message.role for message in talk.messages] == ["user", "assistant"] * talk.turns
    with pytest.raises(InputError, match="nonsense"):
        list(study.conversations("nonsense"))
    shown = command(place.root, "results", "--json", code=0).json()["giving-in"]
    theirs = {
        (row["target_model"], pair["with"], pair["track"]): (pair["difference"], pair["marked"])
        for row in shown
        for pair in row["comparisons"]["targets"]
    }
    for pair in study.differences():
        found = theirs[pair.target, pair.against, pair.track or "all"]
        assert found == (pytest.approx(pair.difference, abs=1e-6), pair.significant)


def test_a_table_has_a_column_for_each_field_and_axis(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    study = crosswind.open(place.root)
    frame = study.conversations().to_pandas()
    assert set(frame["demographic.age"]) == {"younger", "older"}
    assert {"id", "base_scenario", "passed"} <= set(frame)
    assert "messages" not in set(frame)
    assert len(study.verdicts().to_pandas()) == len(frame) == 12
    assert isinstance(study.results().to_pandas(), pd.DataFrame)
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(ImportError, match="pandas is not installed: `pip install pandas`"):
        study.results().to_pandas()


def test_files_of_others_are_read_in_place_and_left_as_they_are(tmp_path: Path) -> None:
    theirs = Theirs(tmp_path / "theirs")
    theirs.write("benchmark.yaml", None).write_text(BENCHMARK, "utf-8")
    theirs.write("scenarios.json", [scenario()])
    theirs.add_run()
    before = sorted(tmp_path.rglob("*"))
    study = crosswind.open(theirs.root)
    [talk] = study.conversations()
    assert (talk.id, talk.passed, talk.turns) == ("m01_s001_v01__gpt-x", True, 2)
    track, *_ = study.results()
    assert (track.target, track.track, track.passed, track.scored) == ("gpt-x", "positive", 1, 1)
    assert sorted(tmp_path.rglob("*")) == before


def test_what_is_nothing_of_ours_or_a_newer_store_is_refused(place: Place, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="there is nothing to import here"):
        crosswind.open(tmp_path)
    newer = place.copied(tmp_path / "newer")
    with newer.store.open("r+b") as store:
        store.seek(60)  # SQLite's user_version
        store.write((99).to_bytes(4, "big"))
    with pytest.raises(StoreError, match="99"):
        list(crosswind.open(newer.root).conversations())
