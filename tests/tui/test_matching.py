"""What is typed, as what it means: filter lines, patterns, and texts beside each other."""

from __future__ import annotations

import asyncio
import re

import pytest

from engine.store.browsing import Field, FilterFault, FilterTerm, parse
from tui.screens.search import parse_query
from tui.state.transcript import PatternFault, Spans, matches


def found(text: str, typed: str, deadline: float = 20.0) -> Spans:
    [spans] = asyncio.run(matches([text], typed, deadline))
    return spans


def test_words_are_found_whatever_their_case_and_the_white_space_between() -> None:
    assert found("You  are\nRIGHT. you are right", "you are right") == [(0, 14), (16, 29)]
    assert found("a.c abc", "a.c") == [(0, 3)]
    assert found("anything", "  ") == []


@pytest.mark.process
def test_behind_a_slash_a_regular_expression_is_found() -> None:
    assert found("abc a.c \ud800", r"/a.c\b/") == [(0, 3), (4, 7)]
    assert found("abc", "/") == []


@pytest.mark.process
def test_a_pattern_that_takes_for_ever_is_given_up_and_the_loop_goes_on() -> None:
    async def both() -> int:
        beats = 0

        async def beat() -> None:
            nonlocal beats
            while True:
                await asyncio.sleep(0.01)
                beats += 1

        beating = asyncio.create_task(beat())
        with pytest.raises(PatternFault, match="too long"):
            await matches(["a" * 50], "/(a+)+$b", 0.5)
        beating.cancel()
        return beats

    assert asyncio.run(both()) > 3


@pytest.mark.process
@pytest.mark.parametrize("pattern", ["/(", "/a{99999999999}", "/(?P<a"])
def test_what_is_no_pattern_is_explained(pattern: str) -> None:
    with pytest.raises(PatternFault, match="no regular expression"):
        found("abc", pattern)


def test_a_filter_line_means_what_it_says() -> None:
    assert parse('out:f,p -metric:m01 "you are" word type:- end:turn') == (
        FilterTerm(Field.OUTCOME, ("fail", "pass")),
        FilterTerm(Field.METRIC, ("m01",), negated=True),
        FilterTerm(Field.TEXT, ("you are",)),
        FilterTerm(Field.TEXT, ("word",)),
        FilterTerm(Field.TYPE, ("negative",)),
        FilterTerm(Field.END, ("turn",)),
    )
    assert parse("evaluator:gpt Demographic:age=old sample:01") == (
        FilterTerm(Field.JUDGE, ("gpt",)),
        FilterTerm(Field.WHO, ("age=old",)),
        FilterTerm(Field.SAMPLE, ("1",)),
    )


def test_a_line_that_is_only_begun_lets_everything_through() -> None:
    for line in ("", "   ", "outcome:", '"', "target:,"):
        assert parse(line) == ()


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("colour:red", "there is no `colour:`"),
        ("t:x", "there is no `t:`"),
        ("outcome:maybe", "outcome: takes pass, fail, unscored, not `maybe`"),
        ("sample:one", "sample: takes a number"),
        ("is:odd", "is: takes split, replayed, invalid"),
    ],
)
def test_a_line_that_means_nothing_says_why(line: str, said: str) -> None:
    with pytest.raises(FilterFault, match=re.escape(said)):
        parse(line)


def test_a_search_line_says_who_and_where() -> None:
    line = parse_query('"you are" by:Target in:steadiness right*')
    assert line.words == '"you are" right*'
    assert (line.speaker, line.benchmark) == ("assistant", "steadiness")
