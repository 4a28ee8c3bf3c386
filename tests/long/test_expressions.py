"""Every expression on inputs as long as anybody sends: twice the text takes twice the time."""

from __future__ import annotations

import re
from typing import Any, Final

import pytest

from tests.engine.expressions import expressions, seconds, uses, worst_inputs
from tests.engine.test_expressions import APART, MEGABYTE

SHORT: Final = 8192
LONG: Final = 65_536
SLACK: Final = 3.0
"""So many times more than its share a length may take, on a machine that does other things too."""
TRIES: Final = 3


def _worst(expression: re.Pattern[Any], use: str) -> tuple[str, str]:
    return max(
        worst_inputs(expression),
        key=lambda one: seconds(expression, one[0], one[1], SHORT, use),
        default=("", " "),
    )


@pytest.mark.timeout(900)
def test_time_grows_with_the_text_and_no_faster() -> None:
    faster, used = {}, uses()
    for key, expression in expressions().items():
        if key in APART:
            continue
        worst = _worst(expression, used[key])
        share = max(min(seconds(expression, *worst, LONG, used[key]) for _ in range(3)), 0.001)
        took = [seconds(expression, *worst, MEGABYTE, used[key])]
        most = SLACK * share * MEGABYTE / LONG
        while took[-1] > most and len(took) < TRIES:
            took.append(seconds(expression, *worst, MEGABYTE, used[key]))
        if min(took) > most:
            faster[key] = (worst, share, took)
    assert faster == {}
