"""Bounds that pass rates are held to."""

from __future__ import annotations

import pytest

from engine.benchmark import Track
from engine.cli.gates import Gate, judge_gates, parse_gates
from engine.errors import InputError
from tests.approval import approve
from tests.engine.stages.verdicts import METRICS, analysed, mixed, outcomes

POSITIVE = Gate(Track.POSITIVE, 0.5)


def test_each_word_that_is_no_gate_is_refused_with_a_way_out() -> None:
    faulty = ("", "=high", "=80", "=80%", "=-0.2", "=0", "=nan", "=inf")
    words = ["postive=0.8", *(f"positive{rest}" for rest in faulty), "negative=1", "negative=0.6"]
    with pytest.raises(InputError) as caught:
        parse_gates(words)
    approve(str(caught.value))
    assert parse_gates(["positive=0.8", "negative=1"]) == (
        Gate(Track.POSITIVE, 0.8),
        Gate(Track.NEGATIVE, 1.0),
    )


def test_the_interval_decides_unless_what_is_unscored_could_change_that() -> None:
    unscored = " ".join(["++++" if n < 10 else "????" for n in range(24)])
    shown = {"holds": mixed(0.9), "open": mixed(0.5), "gives-in": mixed(0.1)}
    shown |= {"unscored": unscored, "nothing": "?? ??"}
    found = analysed(outcomes(shown))
    lines, code = judge_gates([found], [POSITIVE])
    approve("\n".join(lines))
    assert code == 1
    assert judge_gates([found], [POSITIVE], frozenset({"holds", "open"}))[1] == 5
    assert judge_gates([found], [POSITIVE], frozenset({"holds"}))[1] == 0
    assert judge_gates([found], [POSITIVE], frozenset({"nothing"}))[1] == 5


def test_benchmarks_are_held_to_the_gates_that_are_about_them() -> None:
    positive = analysed(outcomes({"holds": mixed(0.9)}), metrics=METRICS[:1])
    negative = analysed(outcomes({"holds": mixed(0.9)}, metric=METRICS[1]), metrics=METRICS[1:])
    about_negative = Gate(Track.NEGATIVE, 0.5)
    lines, code = judge_gates([positive, negative], [POSITIVE, about_negative])
    assert (len(lines), code) == (3, 0)
    with pytest.raises(InputError, match="no negative metric in giving-in"):
        judge_gates([positive], [about_negative])
