"""What can be said where everything rests on one base scenario."""

from __future__ import annotations

from engine.statistics.agreement import agreement


def test_agreement_on_one_base_scenario_has_figures_and_no_intervals() -> None:
    found = agreement([[True, True], [True, False], [False, False]], ["only"] * 3)
    assert found is not None
    assert found.percent.interval is None
    assert found.ac1 is not None
    assert found.ac1.interval is None
    assert found.alpha is not None
    assert found.alpha.interval is None
