"""Benchmarks of which there is little to say, or very much: every form says true sentences, marks
nothing, and breaks nothing."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime
from typing import Final

import pytest

from engine.analysis.figures import PROMISE, Analysis, Overall
from engine.analysis.findings import Certainty, findings
from engine.analysis.methods import methods
from engine.analysis.overall import overall
from engine.analysis.target_sections import target_sections
from engine.cli.results_table import brief_results, detailed_results
from engine.cli.section_lines import TableLayout
from engine.report.html.page import html_report
from engine.stages.aggregate import as_object, as_rows
from engine.stages.evaluate import ANSWERED
from tests.engine.stages.verdicts import METRICS, analysed, mixed, outcomes
from tui.results.leaderboard import heat, says_rows, standing_rows
from tui.results.sections import section_rows, sections_rows

MANY: Final = 16


def one_value() -> Analysis:
    """Of the one axis that there is."""
    return analysed(outcomes({"a": "+ - + +", "b": "- + + -"}), metrics=METRICS[:1])


def one_target() -> Analysis:
    return analysed(outcomes({"a": "+- -+ ++ -+ +-"}), metrics=METRICS[:1])


def no_verdict() -> Analysis:
    found = outcomes({"a": "?? ??", "b": "?? ??"})
    return analysed([replace(one, unscored="not judged yet", votes=()) for one in found])


def cannot_tell() -> Analysis:
    """What a judge says who always says so."""
    found = outcomes({"a": "?? ??", "b": "?? ??"})
    return analysed([replace(one, unscored=min(ANSWERED)) for one in found])


def one_scenario() -> Analysis:
    return analysed(outcomes({"a": "++++", "b": "----"}), metrics=METRICS[:1])


def many_targets() -> Analysis:
    alike = {f"t{n:03d}": mixed(0.5, scenarios=4, rows=2, turn=n) for n in range(MANY)}
    return analysed(outcomes(alike), metrics=METRICS[:1])


CASES: Final = {
    one_value: "age: not tested: fewer than two scored scenarios have several of its groups",
    one_target: "none of 1 comparisons is significant",
    no_verdict: "a: 4 of 4 unscored (not judged yet 4)",
    cannot_tell: f"a: 4 of 4 unscored ({min(ANSWERED)} 4)",
    one_scenario: "not tested: 4 comparisons over a single scenario",
    many_targets: "none of 137 comparisons is significant",
}


@pytest.fixture(scope="module", params=list(CASES), ids=lambda case: case.__name__)
def case(request: pytest.FixtureRequest) -> tuple[Analysis, str]:
    return request.param(), CASES[request.param]


@pytest.mark.exhaustive
def test_nothing_is_marked_and_what_there_is_to_say_is_said(case: tuple[Analysis, str]) -> None:
    analysis, said = case
    found = findings(analysis)
    assert not [one for one in found if one.kind is Certainty.SIGNIFICANT]
    assert any(said in one.text for one in found), [str(one) for one in found]
    assert not any(one.tells for target in analysis.targets for one in target.ranks.values())


@pytest.mark.exhaustive
@pytest.mark.parametrize("together", [False, True], ids=["alone", "together"])
def test_every_form_has_it_without_a_mark(case: tuple[Analysis, str], *, together: bool) -> None:
    analysis, _ = case
    shown = overall([analysis, replace(analysis, benchmark="again")]) if together else analysis
    assert not [finding for finding in findings(shown) if finding.kind is Certainty.SIGNIFICANT]
    for text in _forms(shown):
        words = " ".join(text.split())
        assert "✓" not in words, text
        assert "nan" not in words.split()


def _forms(shown: Analysis) -> Iterator[str]:
    few = shown if len(shown.targets) < MANY else replace(shown, comparisons=shown.comparisons[:20])
    yield brief_results([few], TableLayout(80))
    yield detailed_results(few, TableLayout(80))
    page = html_report([few], datetime(2026, 1, 1, tzinfo=UTC))
    yield page.partition("<main>")[2].partition('aria-labelledby="method"')[0]
    yield from methods(shown)
    # `promise` says what a mark would mean to whoever reads the file
    rows_or_object = as_object(shown) if isinstance(shown, Overall) else as_rows(few)
    yield str(rows_or_object).replace(PROMISE, "")
    for width in (60, 120):
        rows = [
            *standing_rows(shown, width),
            *says_rows(shown, width),
            *sections_rows(few, ("comparisons",), width),
            *sections_rows(shown, ("people", "agreement"), width, "a"),
        ]
        yield "\n".join("".join(piece.text for piece in row.line) for row in rows)
        for section in target_sections(shown, shown.targets[0]):
            assert [*section_rows(section, width)]
    heat(shown)
