"""Validation runs seldom say what is not so; a small, seeded part of the simulation that `python -m
tests.benchmarks validation` does in full."""

from __future__ import annotations

import pytest

from tools.simulations.validation_claims import Run, held, marked


@pytest.mark.parametrize("run", [Run(2, 1, 8, 4, 0.4), Run(6, 4, 4, 1, 0.1)], ids=str)
def test_few_runs_mark_a_shift_that_is_none(run: Run) -> None:
    assert marked(run, worlds=200) <= 0.05 + 0.04


@pytest.mark.parametrize("change", ["evenly", "in few"])
def test_an_order_that_changes_by_the_bound_is_seldom_said_to_hold(change: str) -> None:
    assert held(Run(2, 10, 8, 2, 0), change, worlds=200) <= 0.05 + 0.04


def test_an_order_that_stays_is_said_to_hold_where_there_are_scenarios_enough() -> None:
    assert held(Run(2, 10, 20, 2, 0), "chance", worlds=100) > 0.9
    assert held(Run(2, 10, 2, 2, 0), "chance", worlds=100) == 0
