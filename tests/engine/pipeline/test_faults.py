"""A fault of the program in one row fails that row, and is written down where it was."""

from __future__ import annotations

from collections import Counter
from contextlib import closing
from pathlib import Path

import pytest

from engine.benchmark import Stage, State
from engine.config.benchmark_file import load_definition
from engine.config.schema import load_config
from engine.errors import StoreError
from engine.facts import RunEnd
from engine.pipeline.results import counted_of
from engine.store.open_reader import open_reader
from tests.approval import approve
from tests.engine.small_workspace import Place, small_workspace
from tests.models import failing, opening

SAID = "what a model said in confidence"


def faulty(place: Place, name: str, error: Exception) -> Place:
    return place.heard_by(opening({name: failing(error, f"offline:{name}")}))


def test_one_target_that_meets_a_fault_fails_and_the_others_are_done(place: Place) -> None:
    result = faulty(place, "erratic", LookupError(SAID)).run()
    with closing(open_reader(place.root / "crosswind.db")) as reader:
        units = reader.units("giving-in", Stage.SIMULATE)
    states = {(key.split("_")[-2], unit.state) for key, unit in units.items()}
    assert {state for _, state in states} == {State.DONE, State.FAILED}
    failed = [unit for unit in units.values() if unit.state is State.FAILED]
    assert len(failed) == len(units) / 2 == result.failed
    assert all("wavers" in key for key, unit in units.items() if unit.state is State.FAILED)
    reasons = {unit.reason for unit in failed}
    approve(reasons)
    log = (place.root / "crosswind.log").read_text("utf-8")
    assert log.count("failed simulate of ") == len(failed)
    assert log.count("raise type(error)") == 1, "one place is shown once"
    assert SAID not in log
    assert (place.root / "crosswind.log").stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize("name", ["evaluator", "user", "generator"])
def test_a_role_that_meets_a_fault_fails_its_rows_and_ends_no_run(place: Place, name: str) -> None:
    failed = faulty(place, name, ValueError(SAID)).run().failed
    assert failed
    config, definition = load_config(place.config), load_definition(place.benchmark)
    with place.reader() as reader:
        outcomes = counted_of(definition, config, reader).outcomes
    unscored = Counter(one.unscored for one in outcomes)
    assert name != "evaluator" or unscored == {"no usable verdict": failed}
    assert faulty(place, "nobody", ValueError()).run().failed == 0


def test_what_concerns_every_row_still_ends_the_run(place: Place) -> None:
    with pytest.raises(StoreError):
        faulty(place, "erratic", StoreError("it cannot be written")).run()


# What is known of a run afterwards: that it came to its end, was stopped, or broke off.


def end_of(place: Place) -> RunEnd | None:
    with place.reader() as reader:
        return reader.snapshot().run_end


def test_a_run_that_broke_off_does_not_pass_for_done(tmp_path: Path) -> None:
    fault = failing(StoreError("it cannot be written"))
    place = small_workspace(tmp_path).heard_by(opening({"evaluator": fault}))
    with pytest.raises(StoreError):
        place.run()
    assert end_of(place) is RunEnd.BROKEN
