"""The paragraphs for a paper say the figures of the analysis, and only formulas that were used."""

from __future__ import annotations

from dataclasses import replace

from engine.analysis.methods import AGREEMENT, COMPARING, RATES, methods
from engine.analysis.provenance import Provenance
from tests.engine.stages.verdicts import analysed, outcomes

MADE = Provenance(
    version="1.2.3",
    configuration="c0ffee",
    prompts={"simulate": ["aa", "bb"], "evaluate": ["cc"]},
    targets={"gpt-5": ["gpt-5-2026-08-07"]},
    user_models={"person": []},
    checkers={},
    judges={"strict": ["strict"]},
    first_at="2026-01-02T03:04:05+00:00",
    last_at="2026-02-03T04:05:06+00:00",
)


def test_what_was_played_counted_and_made_with_is_said() -> None:
    found = replace(
        analysed(outcomes({"holds": "++ ++ ?+ ++", "wavers": "+- -- ++ --"})),
        provenances={"holds": MADE},
    )
    played, counted, formulas, made = methods(found)
    assert "16 conversations of 2 targets" in played
    assert "rest on 4 base scenarios" in played
    assert "played, turn by turn, by person, told the scenario" in played
    assert "judged by strict, told the metric's definition" in counted
    assert "15 of 16 conversations were scored (no usable verdict 1)." in counted
    assert formulas.startswith(RATES)
    assert COMPARING in formulas
    assert (
        "Bonferroni, with shares of the 5 %: 0.02 to pairs of targets, on all metrics" in formulas
    )
    assert f"the family is {found.family}." in formulas
    assert "else by least squares with an effect of each base scenario" in formulas
    assert AGREEMENT not in formulas
    assert made.startswith("Counted by Crosswind 1.2.3, configuration c0ffee. Played and judged")
    assert "evaluate cc, simulate aa, simulate bb." in made
    assert "Servers answered under the names: gpt-5 (gpt-5-2026-08-07)." in made


def test_agreement_is_explained_where_there_is_some() -> None:
    twice = analysed(outcomes({"holds": "++ +- ++"}, samples=2))
    [_, _, formulas] = methods(twice)
    assert AGREEMENT in formulas
    assert COMPARING not in formulas  # of one target


def test_of_nothing_only_that_is_said() -> None:
    said = methods(analysed([]))
    assert "0 of 0 conversations were scored." in said[-1]
    assert len(said) == 2
    unscored = methods(analysed(outcomes({"holds": "?? ??"})))
    assert "0 of 4 conversations were scored (no usable verdict 4)." in unscored[1]
    assert len(unscored) == 2
