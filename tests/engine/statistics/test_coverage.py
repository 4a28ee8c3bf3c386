"""Intervals hold the truth about as often as they say; a small, seeded part of the simulation
that `python -m tests.benchmarks coverage` does in full."""

from __future__ import annotations

import pytest

from tools.simulations.coverage import World, cover

WORLDS = [
    World(1, 3, 4, 1, 0.8, 0.4),
    World(1, 8, 4, 3, 0.95, 0.7),
    World(3, 8, 4, 1, 0.5, 0.4),
    World(3, 20, 2, 1, 0.8, 0.0),
    World(1, 4, 1, 1, 0.5, 0.1),
    World(4, 4, 4, 3, 0.5, 0.7, uneven=True),
    World(1, 8, 1, 2, 0.95, 0.1),
    World(1, 8, 2, 1, 0.7, 0.4, uncrossed=True),
    World(3, 6, 4, 1, 0.95, 0.4, metric_likeness=0.4),
    World(8, 3, 4, 1, 0.8, 0.4, metric_likeness=0.1),
]


@pytest.mark.exhaustive
@pytest.mark.parametrize("world", WORLDS, ids=str)
def test_intervals_hold_the_truth_as_often_as_they_say(world: World) -> None:
    covered = cover(world, worlds=150)
    assert covered.tallies
    assert not list(covered.faults(slack=0.045))
