"""A run that stops after a stage, and says what to look at."""

from __future__ import annotations

import pytest

from engine.benchmark import Stage
from tests.approval import approve, lines_with
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


@pytest.mark.exhaustive
@pytest.mark.parametrize(
    ("stage", "named"),
    [
        ("gen_metrics", "benchmarks/giving-in/benchmark.yaml "),
        ("gen_scenarios", "benchmarks/giving-in/scenarios.json "),
        ("simulate", "crosswind show m01_s001_v01__holds "),
        ("evaluate", "crosswind results "),
    ],
)
def test_it_ends_after_the_stage_and_names_what_it_made(
    place: Place, run: Crosswind, stage: str, named: str
) -> None:
    code, _, err = run("--until", stage)
    assert code == 0
    every = list(Stage)
    after = set(every[every.index(Stage(stage)) + 1 :])
    assert not done(place) & after
    approve(lines_with(err, f"stopped after {stage}", "goes on from"))
    assert named in err.replace(f" --workspace {place.root}", "")
    code, _, err = run()
    assert (code, "--until" in err) == (0, False)
    assert done(place) == set(every)


def test_what_it_names_can_be_shown(place: Place, run: Crosswind) -> None:
    _, _, err = run("--until", "gen_scenarios")
    [line] = [line for line in err.splitlines() if "crosswind show" in line]
    unit = line.split()[2]
    code, shown, _ = run(unit, command="show")
    assert code == 0
    assert unit in shown


def test_status_shows_no_results_where_nothing_is_judged(run: Crosswind) -> None:
    run("--until", "gen_scenarios")
    approve(run(command="status")[1])
    run()
    approve(run(command="status")[1])


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


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--stage", "simulate", "--until", "gen_scenarios"], "comes after --until gen_scenarios"),
        (["--until", "simulate", "--fail-under", "positive=0.5"], "--fail-under needs verdicts"),
        (["--until", "simulte"], "did you mean 'simulate'?"),
    ],
)
def test_words_that_contradict_each_other_are_refused(
    place: Place, run: Crosswind, words: list[str], said: str
) -> None:
    code, out, err = run(*words)
    assert (code, out) == (2, "")
    assert said in err
    assert not (place.root / "crosswind.db").exists()


def test_a_stage_before_it_may_be_named(place: Place, run: Crosswind) -> None:
    assert run("--stage", "gen_scenarios", "--until", "simulate")[0] == 0
    assert done(place) == {Stage.GEN_SCENARIOS}
