"""The app on a terminal of its own: it starts lean, and leaves the terminal as it found it."""

from __future__ import annotations

import asyncio
import signal
import subprocess
import sys

import pytest

from tests.tui.terminal import Terminal
from tests.tui.theatre import Theatre


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_a_signal_leaves_the_terminal_clean(theatre: Theatre, number: signal.Signals) -> None:
    asyncio.run(theatre.prepare())
    terminal = Terminal(theatre.store.path)
    terminal.read_until(b"help")

    terminal.process.send_signal(number)

    assert terminal.read_to_the_end() == 0
    for mode in (b"\x1b[?1049l", b"\x1b[?1003l", b"\x1b[?2004l", b"\x1b[?25h"):
        assert mode in terminal.shown


def test_the_mouse_is_left_to_the_terminal_and_taken_again_by_a_key(theatre: Theatre) -> None:
    asyncio.run(theatre.prepare())
    with Terminal(theatre.store.path) as terminal:
        terminal.read_until(b"help")
        assert b"\x1b[?1003h" in terminal.shown
        assert b"\x1b[?1003l" not in terminal.shown
        terminal.press_until("Z", b"\x1b[?1003l")
        terminal.press_until("Z", b"\x1b[?1003h")


def test_the_app_knows_no_provider() -> None:
    names = ("openai", "anthropic", "httpx", "httpx2")
    program = f"import sys, tui.app; print([n for n in {names} if n in sys.modules])"

    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )

    assert done.stdout.strip() == "[]"
