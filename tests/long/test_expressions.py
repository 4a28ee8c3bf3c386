"""Every expression on inputs as long as anybody sends: twice the text takes twice the time."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

import pytest

from engine.pipeline.remedies import READ_AT_MOST
from engine.providers.attempts import LONGEST_MESSAGE
from engine.providers.exchange import LONGEST_REFUSAL
from tests.engine.expressions import expressions, seconds, worst_inputs
from tests.engine.test_expressions import APART, AT_MOST_S, MEGABYTE

SHORT: Final = 8192
LONG: Final = 65_536
SLACK: Final = 3.0
"""So many times more than its share a length may take, on a machine that does other things too."""
CUT: Final[Mapping[str, int]] = {
    "engine.pipeline.remedies.": READ_AT_MOST,
    "engine.providers.attempts.": LONGEST_REFUSAL,
    "engine.providers.ladder.": LONGEST_MESSAGE,
    "engine.providers.redaction.": LONGEST_MESSAGE,
    "engine.providers.room.": LONGEST_MESSAGE,
}
"""What servers say of faults is cut to so many characters, or fewer, before these see it."""


def _worst(expression: re.Pattern[Any]) -> tuple[str, str]:
    return max(
        worst_inputs(expression),
        key=lambda one: seconds(expression, one[0], one[1], SHORT),
        default=("", " "),
    )


@pytest.mark.timeout(900)
def test_time_grows_with_the_text_and_no_faster() -> None:
    faster = {}
    for key, expression in expressions().items():
        if key in APART:
            continue
        worst = _worst(expression)
        share = max(min(seconds(expression, *worst, LONG) for _ in range(3)), 0.001)
        took = seconds(expression, *worst, MEGABYTE)
        if took > SLACK * share * MEGABYTE / LONG:
            faster[key] = (worst, share, took)
    assert faster == {}


@pytest.mark.timeout(300)
def test_what_servers_say_of_faults_is_looked_through_in_no_time() -> None:
    slow = {}
    for key, expression in expressions().items():
        sizes = [size for place, size in CUT.items() if key.startswith(place)]
        for size in sizes:
            worst = _worst(expression)
            took = min(seconds(expression, *worst, size) for _ in range(3))
            if took > AT_MOST_S:
                slow[key] = (worst, took)
    assert slow == {}
