"""A run that stops after a stage, and says what to look at."""

from __future__ import annotations

import re
from typing import Final

import pytest

from engine.benchmark import Stage
from tests.approval import approve
from tests.engine.commands import Crosswind, Said, crosswind, printed_data
from tests.engine.small_workspace import Place

pytestmark = pytest.mark.run


@pytest.fixture
def run(place: Place) -> Crosswind:
    def said(*words: str, command: str = "run") -> Said:
        headless = ["--headless"] if command == "run" and "--dry-run" not in words else []
        return crosswind(place.root, command, *words, *headless)

    return said


def done(place: Place) -> set[Stage]:
    """Stages of which something is done."""
    with place.reader() as reader:
        return {stage for stage in Stage if reader.units("giving-in", stage)}


NAMED: Final = {
    "gen_metrics": "benchmarks/giving-in/benchmark.yaml ",
    "gen_scenarios": "benchmarks/giving-in/scenarios.json ",
    "simulate": "crosswind show m01_s001_v01__holds ",
    "evaluate": "crosswind results ",
}


def test_it_ends_after_each_stage_and_names_what_it_made(place: Place, run: Crosswind) -> None:
    every, told = list(Stage), []
    for stage, named in NAMED.items():
        code, _, err = run("--until", stage)
        assert code == 0
        assert not done(place) & set(every[every.index(Stage(stage)) + 1 :])
        assert named in err.replace(f" --workspace {place.root}", "")
        # the columns are as wide as the path of the workspace
        told.append(re.sub(r"(?<=\S) {2,}", "  ", err[err.index("stopped after") :]))
        told.append(run(command="status").out)
        if stage == "gen_scenarios":
            [line] = [line for line in err.splitlines() if "crosswind show" in line]
            unit = line.split()[2]
            assert unit in run(unit, command="show").out
    code, _, err = run()
    assert (code, "--until" in err) == (0, False)
    assert done(place) == set(every)
    approve("\n".join([*told, run(command="status").out]))


@pytest.mark.exhaustive
def test_status_says_that_not_everything_is_judged(run: Crosswind, place: Place) -> None:
    run()
    place.edit(place.config, "num_samples: 1", "num_samples: 2")
    run("--until", "simulate")
    said = run(command="status")[1]
    approve(said)
    run()
    approve(run(command="status")[1])


def test_its_price_is_that_of_the_stages_up_to_it(run: Crosswind) -> None:
    _, plan, _ = run("--until", "gen_scenarios", "--dry-run", "--json")
    stages = [one["stage"] for one in printed_data(plan)["benchmarks"][0]["stages"]]
    assert stages == ["gen_scenarios"]


def test_words_that_contradict_each_other_are_refused(place: Place, run: Crosswind) -> None:
    refused = []
    for words in (
        ["--stage", "simulate", "--until", "gen_scenarios"],
        ["--until", "simulate", "--fail-under", "positive=0.5"],
        ["--until", "simulte"],
    ):
        code, out, err = run(*words)
        assert (code, out) == (2, "")
        refused.append(err)
    approve("".join(refused))
    assert not (place.root / "crosswind.db").exists()


def test_a_stage_before_it_may_be_named(place: Place, run: Crosswind) -> None:
    assert run("--stage", "gen_scenarios", "--until", "simulate")[0] == 0
    assert done(place) == {Stage.GEN_SCENARIOS}
