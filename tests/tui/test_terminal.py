"""The app on a terminal of its own: it starts lean, and leaves the terminal as it found it."""

from __future__ import annotations

import asyncio
import fcntl
import os
import pty
import select
import signal
import struct
import subprocess
import sys
import termios
import time
from pathlib import Path

import pytest

from tests.tui.theatre import Theatre

PROGRAM = """
import sys
from pathlib import Path
from engine.watch import BenchmarkInfo, TargetInfo, Watch
from tui.app import CrosswindApp

info = BenchmarkInfo("steadiness", "Holding steady", 2, [TargetInfo("t", "t", True)], True)
app = CrosswindApp(Watch.open(Path(sys.argv[1]), [info]))
app.run()
sys.exit(app.return_code)
"""
SECONDS = 20


class Terminal:
    """A pseudo terminal with the app in it."""

    def __init__(self, store: Path) -> None:
        self.shown = b""
        self._main, other = pty.openpty()
        fcntl.ioctl(self._main, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))
        self.process = subprocess.Popen(
            [sys.executable, "-c", PROGRAM, str(store)],
            stdin=other,
            stdout=other,
            stderr=other,
            env={**os.environ, "TERM": "xterm-256color"},
            start_new_session=True,
        )
        os.close(other)

    def read_until(self, wanted: bytes) -> None:
        """Take what it sends until this was among it."""
        until = time.monotonic() + SECONDS
        while wanted not in self.shown and time.monotonic() < until:
            if select.select([self._main], [], [], 0.1)[0]:
                self.shown += os.read(self._main, 65536)
        assert wanted in self.shown

    def read_to_the_end(self) -> int:
        """Take all that is left; the exit code."""
        while True:
            try:
                piece = os.read(self._main, 65536)
            except OSError:
                break
            if not piece:
                break
            self.shown += piece
        os.close(self._main)
        return self.process.wait(SECONDS)


@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 143), (signal.SIGHUP, 129)])
def test_a_signal_leaves_the_terminal_clean(
    theatre: Theatre, number: signal.Signals, code: int
) -> None:
    asyncio.run(theatre.prepare())
    terminal = Terminal(theatre.store.path)
    terminal.read_until(b"help")

    terminal.process.send_signal(number)

    assert terminal.read_to_the_end() == code
    for mode in (b"\x1b[?1049l", b"\x1b[?1003l", b"\x1b[?2004l", b"\x1b[?25h"):
        assert mode in terminal.shown


def test_the_app_knows_no_provider() -> None:
    names = ("openai", "anthropic", "httpx", "httpx2")
    program = f"import sys, tui.app; print([n for n in {names} if n in sys.modules])"

    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )

    assert done.stdout.strip() == "[]"
