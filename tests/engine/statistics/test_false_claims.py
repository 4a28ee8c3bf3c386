"""Marks keep their promise; a small, seeded part of the simulation that `python -m
tests.benchmarks claims` does in full."""

from __future__ import annotations

import pytest

from tools.simulations.false_claims import Kind, Size, Uncrossed, count

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
