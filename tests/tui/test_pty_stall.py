"""A terminal that does not read, or reads slowly: the app stays awake, leaves out frames, and shows
a whole one as soon as it can."""

from __future__ import annotations

import asyncio
import json
import math
import time
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import repeat
from pathlib import Path

import pytest

from tests.tui.babble import LAGS, SCREEN, STOP
from tests.tui.terminal import Eyes, Terminal
from tests.tui.theatre import Theatre
from tests.waiting import until

SIZE = (124, 40)
READ_SECONDS = 1.5
STALL_SECONDS = 2.5
SLOW_SECONDS = 2.0
SLOW_PIECE, SLOW_EVERY = 1000, 0.05
"""20 kB a second."""
TRIES = 3
AT_ONCE = 0.05
"""Seconds of lateness that nobody feels; a loaded machine adds as much as it did while read."""


@dataclass(frozen=True)
class Span:
    begun: float
    ended: float

    def of(self, samples: Sequence[tuple[float, float]]) -> list[float]:
        """Of all that was waited for in it, and if only at its beginning or its end."""
        return sorted(late for at, late in samples if self.begun < at and at - late < self.ended)


def p99(late: Sequence[float]) -> float:
    return late[math.ceil(0.99 * len(late)) - 1]


def span_of_reading(terminal: Terminal, seconds: float) -> Span:
    begun = time.monotonic()
    terminal.read_on(seconds)
    return Span(begun, time.monotonic())


def span_of_stall() -> Span:
    begun = time.monotonic()
    time.sleep(STALL_SECONDS)  # the stall itself
    return Span(begun, time.monotonic())


def span_of_slow_reading(terminal: Terminal) -> Span:
    begun = time.monotonic()
    while time.monotonic() < begun + SLOW_SECONDS:
        terminal.read_some(most=SLOW_PIECE)
        time.sleep(SLOW_EVERY)  # the thin line itself
    return Span(begun, time.monotonic())


@pytest.mark.alone
def test_an_app_whose_terminal_does_not_read_stays_awake(theatre: Theatre, tmp_path: Path) -> None:
    asyncio.run(theatre.prepare(100))
    tries = (lateness(tmp_path) for _ in range(TRIES))
    assert any(all(map(is_awake, repeat(read), others)) for read, *others in tries)


def is_awake(read: Sequence[float], late: Sequence[float]) -> bool:
    """Beside how late it was while it was read: other work of the machine adds to both."""
    at_worst = late[-1] < 10 * AT_ONCE + 3 * read[-1]
    return p99(late) < AT_ONCE + 3 * p99(read) and at_worst


def lateness(tmp_path: Path) -> list[list[float]]:
    """While it is read, while nobody reads, and while somebody reads slowly."""
    for left in (STOP, SCREEN, LAGS):
        (tmp_path / left).unlink(missing_ok=True)
    program = ("-m", "tests.tui.babble", str(tmp_path))
    with Terminal(program=program, size=SIZE) as terminal:
        eyes = Eyes(terminal, SIZE)
        eyes.see("word00", "speaking")
        read = span_of_reading(terminal, READ_SECONDS)
        stalled = span_of_stall()
        slow = span_of_slow_reading(terminal)
        (tmp_path / STOP).touch()
        wait_for_the_right_frame(eyes, tmp_path / SCREEN)
        terminal.press("\x03")
        eyes.see("Leave Crosswind?")
        terminal.process.terminate()
        assert terminal.read_to_the_end() == 0

    found = json.loads((tmp_path / LAGS).read_text())
    for span in (stalled, slow):
        assert len(span.of(found["late"])) > 50
        assert [at for at in found["gated"] if span.begun <= at < span.ended], "frames are left out"
    return [span.of(found["late"]) for span in (read, stalled, slow)]


def wait_for_the_right_frame(eyes: Eyes, told: Path) -> None:
    """What stands in the terminal is what the app believes to be there."""

    def stands() -> bool:
        eyes.look()
        return told.exists() and eyes.screen.rstrip() == told.read_text("utf-8").rstrip()

    until(stands, lambda: f"{eyes.screen}\nbut it is\n{told.read_text('utf-8')}")
