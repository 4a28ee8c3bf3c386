"""What is said of several benchmarks together holds; a small, seeded part of the simulation that
`python -m tests.benchmarks overall` does in full."""

from __future__ import annotations

import pytest

from tools.simulations.overall_claims import Cell, count

CELLS = [Cell(2, 3, 6, 0.0), Cell(5, 2, 4, 0.1)]


@pytest.mark.exhaustive
@pytest.mark.parametrize("cell", CELLS, ids=str)
def test_marks_ranks_and_intervals_of_several_benchmarks_keep_their_promise(cell: Cell) -> None:
    found = count(cell, worlds=50)
    assert (found.width_beyond > 0) is (cell.benchmarks >= 5)
    assert not list(found.faults(slack=0.06, many=cell.benchmarks >= 5))
