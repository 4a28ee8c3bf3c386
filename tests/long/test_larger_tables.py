"""The lower end of a rate, in very many random tables."""

from __future__ import annotations

from tests.engine.statistics.random_tables import raised_by_a_failure


def test_a_failure_more_never_raises_the_lower_end_of_ten_thousand_tables() -> None:
    assert not raised_by_a_failure(10_000, seed=4)
