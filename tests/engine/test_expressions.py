"""No text that somebody else wrote makes an expression slow."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Final

import pytest

from engine.benchmark import NAME_LENGTH
from engine.checks import LONGEST as LONGEST_AUDITED
from engine.config.values import LONGEST as LONGEST_EXTRA_BODY
from engine.importing.fields import LONGEST as LONGEST_FOREIGN_NAME
from engine.lint import LONGEST as LONGEST_LINTED
from engine.pipeline.remedies import READ_AT_MOST
from engine.providers.attempts import LONGEST_MESSAGE, LONGEST_REFUSAL, describe, failure_in
from engine.providers.capabilities import ModelCapabilities, Step, adaptation_from
from engine.providers.failures import Cause
from engine.providers.redaction import Redactor
from engine.providers.scripted.request import LONGEST as READ_BY_A_SCRIPT
from engine.providers.scripted.request import tagged
from engine.providers.served_model import LONGEST_NAME
from engine.quotes import LONGEST as LONGEST_QUOTE
from engine.stages.answers import parse_answer
from engine.stages.evaluate import Judgement
from engine.stages.simulate import LONGEST as ROUGHENED
from engine.stages.simulate import Roughener
from engine.store.browsing import LONGEST as LONGEST_FILTER
from tests.engine.expressions import LISTED, expressions, seconds, uses, worst_inputs
from tests.waiting import assert_quick, slowness
from tui.state.reviewing import LONGEST as LONGEST_DIFFED
from tui.text.blocks import LONG_LINE
from tui.text.wrap import AT_ONCE

MEGABYTE: Final = 1_000_000
AT_MOST_S: Final = 0.05
APART: Final = {
    "engine.store.filesystem._MOUNT_LINE": "what this system itself says of what is mounted",
    "engine.store.search._WORD_IN_TEXT": "finds each word: of a megabyte of emoji, a million",
}
"""Slow where they were looked for all over a foreign text, and why they are not."""
AT_MOST: Final[Mapping[str, int]] = {
    "engine.benchmark._NAME": NAME_LENGTH,
    "engine.config.values": LONGEST_EXTRA_BODY,
    "engine.doctor.reachability._DATED": LONGEST_NAME,  # only the end of a name
    "engine.importing.fields": LONGEST_FOREIGN_NAME,
    "engine.lint": LONGEST_LINTED,
    "engine.pipeline.remedies": READ_AT_MOST,
    "engine.providers.attempts": LONGEST_REFUSAL,
    "engine.providers.capabilities": LONGEST_MESSAGE,
    "engine.providers.scripted.request._TRANSCRIPT": MEGABYTE,
    "engine.providers.scripted.request._MESSAGES": MEGABYTE,
    "engine.providers.scripted.request._NOTE": MEGABYTE,
    "engine.providers.scripted.request._NUMBER": MEGABYTE,
    "engine.providers.scripted": READ_BY_A_SCRIPT,
    "engine.providers.redaction": LONGEST_MESSAGE,
    "engine.providers.served_model": LONGEST_NAME,
    "engine.quotes": LONGEST_QUOTE,
    "engine.stages.simulate._WORD": ROUGHENED,
    "engine.store.search._TERM": 1000,
    "engine.checks": LONGEST_AUDITED,
    "tui.services.terminal._ACTIVE": LONG_LINE,  # what stands on one line of the screen
    "engine.store.browsing": LONGEST_FILTER,
    "engine.report.html.page._WORD": NAME_LENGTH,
    "tui.results.sections": NAME_LENGTH,
    "tui.services.export": 150,
    "tui.text.ink": LONG_LINE,
    "tui.state.reviewing": LONGEST_DIFFED,
    "tui.text.wrap._UNIT": AT_ONCE,
}
"""What cuts a text before it is looked through; all else may be given a megabyte. The longer of two
names that fit counts."""
OWN: Final = (
    *("engine.config.", "engine.providers.endpoint", "engine.providers.protocols.openai "),
    "tui.text.plot._CODES",
)
"""Looks through what the user wrote into the configuration, or what stands in the code, or what a
library of ours has drawn."""


def longest_text(key: str) -> int:
    return next(
        (AT_MOST[name] for name in sorted(AT_MOST, key=len, reverse=True) if key.startswith(name)),
        MEGABYTE,
    )


def test_every_expression_is_in_the_list() -> None:
    """A new one is added, by `python -m tests.engine.expressions`, when its worst input has been
    thought of."""
    assert sorted(map(ascii, expressions())) == LISTED.read_text("utf-8").splitlines()


@pytest.mark.exhaustive
def test_no_expression_takes_the_square_of_a_text_nor_long_over_the_longest_one() -> None:
    """8 kB of the worst take a linear one some hundred microseconds, and a quadratic one 70 ms."""
    used = uses()
    assert [name for name in AT_MOST if not any(key.startswith(name) for key in used)] == []
    square, slow = {}, {}
    for key, expression in expressions().items():
        if key in APART:
            continue
        took = {one: seconds(expression, *one, 8192, used[key]) for one in worst_inputs(expression)}
        if over := [
            one
            for one in took
            if took[one] > 0.02 and slowness(partial(seconds, expression, *one, 8192), 0.02)
        ]:
            square[key] = over
            continue
        worst = max(took, key=took.__getitem__, default=("", " "))
        size = longest_text(key)
        is_foreign = size != MEGABYTE or not key.startswith(OWN)
        at_length = partial(seconds, expression, *worst, size, used[key])
        if is_foreign and (told := slowness(at_length, AT_MOST_S)):
            slow[key] = worst, told
    assert (square, slow) == ({}, {})


@pytest.mark.parametrize("closed", ["", "</x>"])
def test_what_stands_between_marks_is_found_however_much_white_space_it_has(closed: str) -> None:
    text = f"<x>{' ' * MEGABYTE}{closed}"
    assert tagged(text, "x") == ("" if closed else None)
    assert_quick(lambda: tagged(text, "x"), AT_MOST_S)


def test_a_script_looks_at_the_beginning_of_what_is_very_long() -> None:
    assert tagged(f"<x>{'a' * MEGABYTE}</x>", "x") == "a" * READ_BY_A_SCRIPT


@pytest.mark.exhaustive
def test_a_word_of_many_pieces_is_roughened_once() -> None:
    def roughened() -> str:
        writer = Roughener(1)
        told = [writer.feed("a") for _ in range(MEGABYTE // 4)]
        return "".join(told) + writer.finish()

    assert len(roughened()) == MEGABYTE // 4
    assert_quick(roughened, 1)


WORST: Final = (
    *("a", "sk-", "bearer ", "*", "a.", "<title", "<", "<title>", "no endpoints found"),
    *("exceed the ", " ", "\n", "context ", "must be", "²", "max_tokens", "system role is "),
)


@pytest.mark.exhaustive
@pytest.mark.parametrize("piece", WORST)
def test_a_megabyte_of_what_a_server_says_is_read_in_no_time(piece: str) -> None:
    text = piece * (MEGABYTE // len(piece))
    redact = Redactor(["sk-canary-0123456789abcdefXYZ"])
    sent = {"max_tokens", "temperature", "response_format"}

    def read(body: object) -> None:
        failure = failure_in(body, Cause.IN_STREAM)
        adaptation_from(
            failure,
            ModelCapabilities(),
            sent=sent,
            steps=tuple(Step),
            shaped=True,
        )
        assert len(redact(describe(failure))) <= 300

    for body in (text, {"error": {"message": text, "type": text, "code": text, "param": text}}):
        assert_quick(partial(read, body), AT_MOST_S)


@pytest.mark.parametrize("piece", ["\n", " \n", "`", "```json\n", "<think>", "```\n\n"])
def test_a_megabyte_of_an_answer_is_taken_apart_in_no_time(piece: str) -> None:
    def refuse(text: str) -> None:
        with pytest.raises(ValueError):
            parse_answer(text, Judgement)

    for text in (piece * (MEGABYTE // len(piece)), "```json\n" + piece * (MEGABYTE // len(piece))):
        assert_quick(partial(refuse, text), AT_MOST_S)
