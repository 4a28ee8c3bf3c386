"""Bounds that pass rates are held to."""

from __future__ import annotations

import pytest

from engine.benchmark import Track
from engine.cli.gates import Gate, Ruling, judge_all, judge_gates, parse_gates
from engine.errors import InputError
from tests.approval import approve
from tests.engine.stages.verdicts import METRICS, analysed, mixed, outcomes

POSITIVE = Gate(Track.POSITIVE, 0.5)


@pytest.mark.parametrize(
    ("word", "what", "hint"),
    [
        ("positive", "expected TRACK=RATE", "write it as positive=0.8"),
        ("postive=0.8", "there is no track 'postive'", "did you mean positive=0.8?"),
        ("positive=high", "'high' is no number", "write it as positive=0.8"),
        ("positive=", "'' is no number", "write it as positive=0.8"),
        ("positive=80", "a rate is a number from 0 to 1", "did you mean positive=0.8?"),
        ("positive=80%", "a rate is a number from 0 to 1", "did you mean positive=0.8?"),
        ("positive=-0.2", "'-0.2' is no rate", "write it as positive=0.8"),
        ("positive=0", "'0' is no rate", "write it as positive=0.8"),
        ("positive=nan", "'nan' is no rate", "write it as positive=0.8"),
        ("positive=inf", "'inf' is no rate", "write it as positive=0.8"),
    ],
)
def test_what_is_no_gate_is_refused_with_a_way_out(word: str, what: str, hint: str) -> None:
    with pytest.raises(InputError) as caught:
        parse_gates([word])
    said = str(caught.value)
    assert f"--fail-under {word}: " in said
    assert what in said
    assert hint in said


def test_every_gate_that_is_wrong_is_named_at_once() -> None:
    with pytest.raises(InputError) as caught:
        parse_gates(["positive=2000", "both=0.5", "negative=0.5", "negative=0.6"])
    assert len(caught.value.problems) == 3


def test_gates_are_read() -> None:
    assert parse_gates(["positive=0.8", "negative=1"]) == (
        Gate(Track.POSITIVE, 0.8),
        Gate(Track.NEGATIVE, 1.0),
    )


@pytest.mark.parametrize(
    ("share", "ruling", "code"),
    [(0.9, Ruling.MET, 0), (0.5, Ruling.OPEN, 5), (0.1, Ruling.MISSED, 1)],
)
def test_the_interval_decides(share: float, ruling: Ruling, code: int) -> None:
    outcome = judge_gates(analysed(outcomes({"holds": mixed(share)})), [POSITIVE])
    assert [one.ruling for one in outcome.judged] == [ruling]
    assert outcome.exit_code == code


def test_one_target_that_misses_is_a_miss_whatever_the_others_do() -> None:
    found = outcomes({"holds": mixed(0.95), "open": mixed(0.5), "gives-in": mixed(0.05)})
    analysis = analysed(found)
    assert judge_gates(analysis, [POSITIVE]).exit_code == 1
    assert judge_gates(analysis, [POSITIVE], frozenset({"holds", "open"})).exit_code == 5
    assert judge_gates(analysis, [POSITIVE], frozenset({"holds"})).exit_code == 0


def test_what_is_unscored_can_keep_a_gate_open() -> None:
    picture = " ".join(["++++" if n < 10 else "????" for n in range(24)])
    [one] = judge_gates(analysed(outcomes({"holds": picture})), [POSITIVE]).judged
    assert one.ruling is Ruling.OPEN
    approve(str(one))


def test_nothing_scored_is_open_and_not_met() -> None:
    outcome = judge_gates(analysed(outcomes({"holds": "?? ??"})), [POSITIVE])
    assert outcome.exit_code == 5
    assert "nothing is scored" in str(outcome.judged[0])


def test_each_target_is_told_in_words() -> None:
    found = outcomes({"holds": mixed(0.95), "gives-in": mixed(0.05)})
    lines = judge_gates(analysed(found), [POSITIVE]).lines
    approve(lines[0])
    assert lines[1].endswith("gate 50%: missed")
    assert lines[2] == "gates: 1 met, 1 missed"


def test_a_gate_that_is_about_no_benchmark_is_refused() -> None:
    analysis = analysed(outcomes({"holds": mixed(0.9)}), metrics=METRICS[:1])
    with pytest.raises(InputError, match="no negative metric in giving-in"):
        judge_all([analysis], [Gate(Track.NEGATIVE, 0.5)])


def test_benchmarks_are_held_to_the_gates_that_are_about_them() -> None:
    positive = analysed(outcomes({"holds": mixed(0.9)}), metrics=METRICS[:1])
    negative = analysed(outcomes({"holds": mixed(0.9)}, metric=METRICS[1]), metrics=METRICS[1:])
    outcome = judge_all([positive, negative], [POSITIVE, Gate(Track.NEGATIVE, 0.5)])
    assert [one.gate.track for one in outcome.judged] == [Track.POSITIVE, Track.NEGATIVE]
    assert outcome.exit_code == 0
