"""Each line of the table of vendors' words is understood, with the statuses that it has."""

from __future__ import annotations

from typing import Final

import pytest

from engine.providers.attempts import (
    LONGEST_MESSAGE,
    Meaning,
    VendorWords,
    failure_in,
    meaning_of,
    meaning_of_end,
    meaning_of_error,
    phrases,
    table,
)
from engine.providers.failures import Cause
from tests.engine.expressions import seconds

ERRORS: Final = [line for line in table() if not line.is_end]


@pytest.mark.parametrize("line", ERRORS, ids=lambda line: f"{line.vendor}: {line.words}")
def test_the_example_of_a_line_means_what_the_line_says(line: VendorWords) -> None:
    any_status = frozenset({200, 400, 429, 500})
    known = any_status if line.meaning.statuses is None else line.meaning.statuses or {200}
    statuses = {line.status} if line.status else known
    code = {"code": line.words} if line.is_code else {}
    body = {"error": {"message": line.example, **code}}
    assert line.example
    for status in statuses:
        assert meaning_of(failure_in(body, Cause.STATUS, status)) is line.meaning


def test_words_stand_once_in_the_table_and_ends_are_known_with_more_behind_them() -> None:
    words = [(line.words.lower(), line.status) for line in table()]
    assert len(set(words)) == len(words)
    ends = {line.words.removeprefix("finish: "): line.meaning for line in table() if line.is_end}
    assert {word: meaning_of_end(f" {word.upper()} ") for word in ends} == ends
    assert meaning_of_end("content_filter: SPII") is meaning_of_end("x: spii") is Meaning.FILTERED
    assert meaning_of_end("whatever") is Meaning.ENDED


@pytest.mark.parametrize(
    ("status", "message"),
    [
        (500, "the content policy service could not be reached"),
        (429, "maximum context length"),
        (503, "Content Exists Risk"),
        (403, "this key has no permission"),
        (400, "the maximum of messages is 4"),
        (400, 'this cannot be read: {"model": "x", "messages": "is my content flagged?"}'),
    ],
)
def test_words_beside_another_status_or_of_the_request_mean_nothing(
    status: int, message: str
) -> None:
    failure = failure_in({"error": {"message": message}}, Cause.STATUS, status)
    assert meaning_of(failure) is None


def test_the_most_important_of_several_meanings_counts() -> None:
    message = "Insufficient balance; the prompt is too long"
    assert meaning_of_error(["content_filter"], message, 400) is Meaning.NO_CREDIT
    assert meaning_of_error(["content_filter"], "prompt is too long", 400) is Meaning.CONTEXT_FULL


def test_every_meaning_of_an_error_says_what_to_do() -> None:
    assert {line.meaning for line in table()} | {Meaning.ENDED} == set(Meaning)
    assert not [line for line in ERRORS if line.meaning.kind is None]


def test_no_text_makes_looking_for_phrases_slow() -> None:
    begins = {line.words.partition("…")[0] for line in ERRORS if "…" in line.words}
    took = {
        (pattern.pattern, begin): seconds(pattern, "", begin, LONGEST_MESSAGE, "search")
        for pattern in phrases().values()
        for begin in begins
    }
    assert max(took.values()) < 0.05, max(took, key=took.__getitem__)
