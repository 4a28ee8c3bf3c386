"""What is said of a judge's calibration agrees with the figures behind it."""

from __future__ import annotations

from engine.analysis.calibration import WIDTH, Calibration, JudgedRow, LabelledRow, calibrate
from engine.analysis.calibration_words import calibration_sections, needed_words
from engine.benchmark import Track
from engine.cli.section_lines import NARROW_LAYOUT, section_lines
from engine.statistics.calibration import MissingReason
from tests.approval import approve


def judged(
    bases: int, labels: int, *, of_rare: int = 0, alike: bool = True, width: float = WIDTH
) -> Calibration:
    """A judge that calls every second conversation present, and people every fourth; unless base
    scenarios are alike, the judge calls all conversations of every second one present."""
    rows = [
        JudgedRow(
            conv_id=f"c{number}",
            metric_id="m01",
            target="rare" if number < of_rare else "usual",
            place=("m01", f"m01_s{number // 2 % bases:03d}"),
            track=Track.POSITIVE,
            counts=number % 2 == 0,
            present=(number if alike else number // 2) % 2 == 0,
        )
        for number in range(labels)
    ]
    people = [LabelledRow(row, number % 4 == 0, 1.0) for number, row in enumerate(rows)]
    return calibrate(rows, people, "judge", width)


def lines(calibration: Calibration) -> str:
    return "\n".join(section_lines(calibration_sections(calibration), NARROW_LAYOUT))


def test_a_judge_of_nothing_that_is_labelled_has_no_figures() -> None:
    approve(lines(judged(bases=8, labels=0)))


def test_many_labels_on_one_base_scenario_are_not_called_too_few() -> None:
    found = judged(bases=1, labels=40)
    approve(lines(found))
    approve(needed_words(found))
    assert found.labels_needed_reason is MissingReason.FEW_BASE_SCENARIOS


def test_what_no_number_of_labels_reaches_is_told_from_what_is_not_known() -> None:
    assert judged(bases=8, labels=80).labels_needed_reason is None
    narrow = judged(bases=8, labels=80, alike=False, width=0.01)
    assert narrow.labels_needed is None
    assert narrow.labels_needed_reason is MissingReason.SCENARIOS_VARY
    approve(needed_words(narrow))


def test_the_labels_that_are_needed_are_those_for_the_corrected_pass_rate() -> None:
    found = judged(bases=8, labels=80, of_rare=6)
    assert f"about {found.labels_needed:,} labels" in needed_words(found)
    approve(needed_words(found))
    approve(lines(found))
