"""What results say in about ten lines, and in which order."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

from engine.analysis.answer import answer, legend, size_words
from engine.analysis.figures import Analysis
from engine.analysis.overall import overall
from tests.engine.stages.test_overall import benchmark, shares
from tests.engine.stages.verdicts import METRICS, analysed, mixed, outcomes

FAR_APART = {"holds": mixed(0.95), "wavers": mixed(0.55), "gives-in": mixed(0.1)}
MANY = {f"t{number}": mixed(0.97 - 0.12 * number) for number in range(8)}


def both_tracks(pictures: dict[str, str]) -> Analysis:
    found = [one for metric in METRICS for one in outcomes(pictures, metric=metric)]
    return analysed(found)


def said(analysis: Analysis) -> str:
    return "\n".join([size_words(analysis), *map(str, answer(analysis)), legend([analysis])])


CASES: Mapping[str, Callable[[], Analysis]] = {
    "nothing is scored": lambda: analysed([]),
    "three targets far apart": lambda: both_tracks(FAR_APART),
    "one pair that may be chance, and a gap": lambda: both_tracks(
        {"one": "++ +- --", "other": "+- +- +-"}
    ),
    "more pairs than are named": lambda: both_tracks(MANY),
    "a single scenario": lambda: analysed(outcomes({"one": "++", "other": "--"})),
    "some unscored": lambda: both_tracks({"one": "++ +? --", "other": "+- ++ ??"}),
    "several benchmarks": lambda: overall(
        [benchmark(f"b{n}", shares(a=0.95, b=0.3), shares(a=0.9, b=0.2)) for n in range(5)]
    ),
}
APPROVED = Path(__file__).with_name("answers.txt")


def test_answers_read_as_approved() -> None:
    printed = "\n\n".join(f"# {name}\n{said(make())}" for name, make in CASES.items())
    assert f"{printed}\n" == APPROVED.read_text("utf-8")
