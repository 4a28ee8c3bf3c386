"""Whose verdicts count."""

from __future__ import annotations

from dataclasses import replace

import pytest

from engine.jury import (
    ABSTENTIONS,
    HUMAN,
    TIED,
    WITHDRAWN,
    Jury,
    People,
    PlainVote,
    counting_votes,
    verdict_to_show,
    what_counts,
    why_unscored,
)
from tests.approval import approve, lines_with

ONE = Jury(("new",))
TWO = Jury(("a", "b"))


def model(
    judge: str, *, passed: bool | None, number: int = 0, definition: str | None = "as it stands"
) -> PlainVote:
    return PlainVote(judge, "model", number, "m01", definition, passed)


def person(name: str, *, passed: bool) -> PlainVote:
    return PlainVote(name, HUMAN, 0, "m01", None, passed)


OLD_FAILS = model("old", passed=False)


@pytest.mark.parametrize(
    ("verdicts", "jury", "counts"),
    [
        ([OLD_FAILS, model("new", passed=True)], ONE, True),
        ([model("new", passed=True), OLD_FAILS], ONE, True),
        ([OLD_FAILS], ONE, False),
        ([OLD_FAILS, model("new", passed=None)], ONE, None),
        ([OLD_FAILS, model("new", passed=None), person("p", passed=True)], ONE, None),
        ([OLD_FAILS, model("new", passed=True)], None, None),
        ([model("a", passed=True), model("b", passed=False)], TWO, None),
        ([model("a", passed=True), model("b", passed=False), model("b", passed=True)], TWO, True),
        ([model("a", passed=True), model("b", passed=False), model("c", passed=True)], TWO, None),
        ([model("a", passed=True), model("b", passed=False), person("p", passed=True)], TWO, None),
        ([OLD_FAILS, person("p", passed=True)], ONE, False),
        ([person("p", passed=True)], ONE, True),
        ([person("p", passed=True)], None, True),
        ([person("old", passed=True), model("new", passed=True), OLD_FAILS], ONE, True),
        ([model("new", passed=True), model("new", passed=None)], ONE, True),
        ([], ONE, None),
    ],
)
def test_the_judges_of_today_count_else_whoever_has_judged(
    verdicts: list[PlainVote], jury: Jury | None, counts: bool | None
) -> None:
    assert what_counts(verdicts, jury) is counts


@pytest.mark.parametrize(
    ("people", "counts"), [(People.COMPARE, False), (People.VOTE, None), (People.OVERRULE, True)]
)
def test_what_people_say_does_what_the_configuration_says(
    people: People, counts: bool | None
) -> None:
    verdicts = [model("new", passed=False), person("p", passed=True)]
    assert what_counts(verdicts, replace(ONE, people=people)) is counts


@pytest.mark.parametrize("people", People)
def test_a_verdict_that_a_person_took_back_is_as_if_it_had_not_been_given(people: People) -> None:
    jury = replace(ONE, people=people)
    back = person("p", passed=False)._replace(passed=None, unscored=WITHDRAWN)
    given = [model("new", passed=True), person("p", passed=False), back]
    assert what_counts(given, jury) is True


def test_an_unusable_verdict_leaves_the_one_before_it_only_under_the_same_definition() -> None:
    before = model("new", passed=True, definition="as it was")
    unusable = model("new", passed=None)
    assert what_counts([before, model("new", passed=False), unusable], ONE) is False
    assert what_counts([before, unusable], ONE) is None
    assert what_counts([before, unusable, unusable], ONE) is None
    assert why_unscored([before, unusable], ONE) == "no usable verdict"


def test_an_answer_that_decides_nothing_leaves_no_verdict_before_it() -> None:
    before = model("new", passed=True)
    for said in sorted(ABSTENTIONS):
        abstained = model("new", passed=None)._replace(unscored=said)
        assert what_counts([before, abstained], ONE) is None
        assert what_counts([abstained, before], ONE) is True
        # what came then cannot be used, and so leaves it
        unusable = model("new", passed=None)._replace(unscored="no JSON")
        assert verdict_to_show([before, abstained, unusable], ONE) == abstained


def test_a_verdict_of_which_no_definition_is_known_is_not_taken_for_one_under_todays() -> None:
    imported = model("new", passed=True, definition=None)
    assert what_counts([imported, model("new", passed=None)], ONE) is None
    assert what_counts([imported, model("new", passed=None, definition=None)], ONE) is True


def test_a_verdict_about_another_metric_stands_in_nobodys_way() -> None:
    off_target = PlainVote("new", "model", 0, "m02", None, None)
    assert what_counts([model("new", passed=True), off_target], ONE) is True


def test_the_verdict_that_is_shown_is_the_newest_that_is_of_the_opinion_that_counts() -> None:
    first, second = model("a", passed=True), model("b", passed=True)
    other = model("c", passed=True)
    assert verdict_to_show([first, second, other], TWO) is second
    unusable = model("a", passed=None)
    assert verdict_to_show([unusable, other], TWO) is unusable
    assert verdict_to_show([first, model("b", passed=False)], TWO) is not None
    assert verdict_to_show([], TWO) is None


def test_passes_that_are_no_longer_asked_for_do_not_count() -> None:
    verdicts = [model("a", passed=True), *(model("a", passed=False, number=n) for n in (1, 2))]
    assert what_counts(verdicts, Jury(("a",), passes=3)) is False
    assert what_counts(verdicts, Jury(("a",), passes=1)) is True


def test_a_model_that_is_called_like_a_person_is_another_voter() -> None:
    verdicts = [model("kim", passed=True), person("kim", passed=True)]
    assert len(counting_votes(verdicts, Jury(("kim",), people=People.VOTE))) == 2


def test_what_is_unscored_has_a_reason() -> None:
    assert why_unscored([OLD_FAILS], ONE) is None
    assert why_unscored([model("a", passed=True), model("b", passed=False)], TWO) == TIED
    assert why_unscored([model("a", passed=None)], TWO) == "no usable verdict"


def test_the_rule_names_the_judges_and_their_passes() -> None:
    approve(lines_with(ONE.rule, "the newest verdict"))
    approve(lines_with(TWO.rule, "the newest verdicts"))
    approve(lines_with(Jury(("a", "b", "c"), passes=3).rule, "of a, b"))
    approve(lines_with(Jury(("a",), passes=2).rule, "of a, 2 passes"))
