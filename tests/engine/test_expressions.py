"""No text that somebody else wrote makes an expression slow."""

from __future__ import annotations

import time
from typing import Final

import pytest

from engine.providers.attempts import Cause, describe, failure_in, sort
from engine.providers.ladder import Learned, Step, lesson
from engine.providers.redaction import Redactor
from engine.stages.answers import parse_answer
from engine.stages.evaluate import Judgement
from tests.engine.expressions import LISTED, expressions, seconds, worst_inputs

MEGABYTE: Final = 1_000_000
AT_MOST_S: Final = 0.05
APART: Final = {
    "engine.store.filesystem._TOLD": "what this system itself says of what is mounted",
    "tui.widgets.markdown._ITEM": "matched at the beginning of a line, and nowhere else",
}
"""Slow where they were looked for all over a foreign text, and why they are not."""


def test_every_expression_is_in_the_list() -> None:
    """A new one is added, by `python -m tests.engine.expressions`, when its worst input has been
    thought of."""
    assert sorted(map(ascii, expressions())) == LISTED.read_text("utf-8").splitlines()


def test_no_expression_takes_the_square_of_a_text() -> None:
    """8 kB of the worst take a linear one some hundred microseconds, and a quadratic one 70 ms."""
    slow = {
        key: (before, repeated)
        for key, expression in expressions().items()
        for before, repeated in worst_inputs(expression)
        if key not in APART and seconds(expression, before, repeated, 8192) > 0.02
        # once more, as the machine may have been at something else
        if seconds(expression, before, repeated, 8192) > 0.02
    }
    assert slow == {}


WORST: Final = (
    *("a", "sk-", "bearer ", "*", "a.", "<title", "<", "<title>", "no endpoints found"),
    *("exceed the ", " ", "\n", "context ", "must be", "²", "max_tokens", "system role is "),
)


@pytest.mark.parametrize("piece", WORST)
def test_a_megabyte_of_what_a_server_says_is_read_in_no_time(piece: str) -> None:
    text = piece * (MEGABYTE // len(piece))
    redact = Redactor(["sk-canary-0123456789abcdefXYZ"])
    for body in (text, {"error": {"message": text, "type": text, "code": text, "param": text}}):
        began = time.process_time()
        failure = failure_in(body, Cause.IN_STREAM)
        kind = sort(failure)
        sent = {"max_tokens", "temperature", "response_format"}
        lesson(failure, kind, Learned(), sent=sent, steps=tuple(Step), shaped=True)
        assert len(redact(describe(failure))) <= 300
        assert time.process_time() - began <= AT_MOST_S


@pytest.mark.parametrize("piece", ["\n", " \n", "`", "```json\n", "<think>", "```\n\n"])
def test_a_megabyte_of_an_answer_is_taken_apart_in_no_time(piece: str) -> None:
    for text in (piece * (MEGABYTE // len(piece)), "```json\n" + piece * (MEGABYTE // len(piece))):
        began = time.process_time()
        with pytest.raises(ValueError):
            parse_answer(text, Judgement)
        assert time.process_time() - began <= AT_MOST_S
