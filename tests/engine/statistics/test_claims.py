"""Intervals hold the truth and marks keep their promise about as often as they say: a small, seeded
part of the simulations that `python -m tests.benchmarks` does in full."""

from __future__ import annotations

import pytest

from tools.simulations import coverage, overall_claims
from tools.simulations.coverage import World
from tools.simulations.false_claims import Kind, Size, Uncrossed, count
from tools.simulations.validation_claims import Run, held, marked

WORLDS = [
    World(1, 3, 4, 1, 0.8, 0.4),
    World(1, 8, 4, 3, 0.95, 0.7),
    World(3, 8, 4, 1, 0.5, 0.4),
    World(1, 4, 1, 1, 0.5, 0.1),
    World(4, 4, 4, 3, 0.5, 0.7, uneven=True),
    World(1, 8, 2, 1, 0.7, 0.4, uncrossed=True),
    World(3, 6, 4, 1, 0.95, 0.4, metric_likeness=0.4),
]


@pytest.mark.exhaustive
@pytest.mark.parametrize("world", WORLDS, ids=str)
def test_intervals_hold_the_truth_as_often_as_they_say(world: World) -> None:
    covered = coverage.cover(world, worlds=150)
    assert covered.tallies
    assert not list(covered.faults(slack=0.045))


CELLS = [
    (Kind("none differ", 8, 4), Size(4, 2, 1)),
    (Kind("none differ, few rows", 2, 4), Size(2, 6, 3)),
    (Kind("none differ, most at their ceiling", 14, 3, ceiling=True), Size(6, 6, 1)),
    (Kind("half differ", 4, 8, apart=True), Size(4, 2, 1)),
    (Uncrossed("none differ, gaps fitted", 4, 4), Size(3, 2, 3)),
]


@pytest.mark.exhaustive
@pytest.mark.parametrize(("kind", "size"), CELLS, ids=[cell[0].name for cell in CELLS])
def test_few_results_carry_a_false_mark_and_most_hold_every_rank(kind: Kind, size: Size) -> None:
    found = count(kind, size, worlds=300, checked=10)
    assert not list(found.faults(slack=0.03))
    assert (found.told > found.worlds) is kind.apart


@pytest.mark.exhaustive
def test_marks_ranks_and_intervals_of_several_benchmarks_keep_their_promise() -> None:
    for cell in (overall_claims.Cell(2, 3, 6, 0.0), overall_claims.Cell(5, 2, 4, 0.1)):
        found = overall_claims.count(cell, worlds=25)
        assert (found.width_beyond > 0) is (cell.benchmarks >= 5)
        assert not list(found.faults(slack=0.06, many=cell.benchmarks >= 5))


@pytest.mark.parametrize("run", [Run(2, 1, 8, 4, 0.4), Run(6, 4, 4, 1, 0.1)], ids=str)
def test_few_validation_runs_mark_a_shift_that_is_none(run: Run) -> None:
    assert marked(run, worlds=200) <= 0.05 + 0.04


@pytest.mark.parametrize("change", ["evenly", "in few"])
def test_an_order_that_changes_by_the_bound_is_seldom_said_to_hold(change: str) -> None:
    assert held(Run(2, 10, 8, 2, 0), change, worlds=200) <= 0.05 + 0.04


def test_an_order_that_stays_is_said_to_hold_where_there_are_scenarios_enough() -> None:
    assert held(Run(2, 10, 20, 2, 0), "chance", worlds=100) > 0.9
    assert held(Run(2, 10, 2, 2, 0), "chance", worlds=100) == 0
