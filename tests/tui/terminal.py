"""A pseudo terminal with the app in it: for what only a real terminal shows."""

from __future__ import annotations

import contextlib
import fcntl
import os
import pty
import select
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final, Self

import pyte

from tests.waiting import PATIENCE_S

PROGRAM: Final = """
import os, sys
from pathlib import Path
from engine.watch import BenchmarkInfo, TargetInfo, Watch
from tui.app import CrosswindApp

title = os.environ.get("TITLE", "Holding steady")
names = ("steadfast", "pushover")
info = BenchmarkInfo("steadiness", title, 2, [TargetInfo(n, n, True) for n in names], True)
app = CrosswindApp(Watch.open(Path(sys.argv[1]), [info]))
app.run()
sys.exit(app.return_code)
"""


class Terminal:
    """Reads what the app sends, and presses keys. The app is opened on `store`, or by `words` after
    `crosswind`."""

    def __init__(
        self,
        store: Path | None = None,
        size: tuple[int, int] = (80, 24),
        words: Sequence[str] = (),
        program: Sequence[str] = ("-m", "tui"),
        **variables: str,
    ) -> None:
        self.shown = b""
        self._main, other = pty.openpty()
        self.resize(size)
        command = ["-c", PROGRAM, str(store)] if store is not None else [*program, *words]
        self.process = subprocess.Popen(
            [sys.executable, *command],
            stdin=other,
            stdout=other,
            stderr=other,
            env=_environment(variables),
            start_new_session=True,
            preexec_fn=_take_terminal,
        )
        os.close(other)

    def resize(self, size: tuple[int, int]) -> None:
        across, down = size
        fcntl.ioctl(self._main, termios.TIOCSWINSZ, struct.pack("HHHH", down, across, 0, 0))

    @property
    def settings(self) -> list[object]:
        """As `stty -a` tells them."""
        return list(termios.tcgetattr(self._main))

    def hang_up(self) -> int:
        """Close the line, as a lost connection does; the exit code."""
        os.close(self._main)
        return self.process.wait(PATIENCE_S)

    def press(self, keys: str) -> None:
        os.write(self._main, keys.encode())

    def read_until(self, wanted: bytes, *, since: int = 0) -> None:
        """Take what it sends until this was among what came after the first `since` bytes."""
        until = time.monotonic() + PATIENCE_S
        while wanted not in self.shown[since:] and time.monotonic() < until:
            if select.select([self._main], [], [], 0.1)[0]:
                self.shown += os.read(self._main, 65536)
        assert wanted in self.shown[since:], self.shown[-3000:]

    def press_until(self, keys: str, wanted: bytes) -> None:
        """Press these, and wait for what follows."""
        since = len(self.shown)
        self.press(keys)
        self.read_until(wanted, since=since)

    def read_on(self, seconds: float = 0.5) -> None:
        """Take what it sends for so long: a screen on which something grows never settles."""
        until = time.monotonic() + seconds
        while (left := until - time.monotonic()) > 0:
            self.read_some(left)

    def read_some(self, patience: float = 0.2, most: int = 65536) -> None:
        """Take what is there, or what comes first."""
        if select.select([self._main], [], [], patience)[0]:
            try:
                self.shown += os.read(self._main, most)
            except OSError:
                raise AssertionError(f"the app has gone: {self.shown[-3000:]!r}") from None

    def drain(self) -> None:
        """Take what is there, if anything; the app may have gone."""
        with contextlib.suppress(OSError):
            if select.select([self._main], [], [], 0.02)[0]:
                self.shown += os.read(self._main, 65536)

    def settle(self, quiet: float = 0.4) -> None:
        """Take what it sends until nothing more comes for a while."""
        while select.select([self._main], [], [], quiet)[0]:
            self.shown += os.read(self._main, 65536)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        """Whatever went wrong, nothing is left running."""
        if self.process.poll() is None:
            self.process.kill()
            self.read_to_the_end()

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
        return self.process.wait(PATIENCE_S)


class Eyes:
    """What stands on the screen of a terminal, as a person sees it."""

    def __init__(self, terminal: Terminal, size: tuple[int, int]) -> None:
        self._terminal = terminal
        self.grid = pyte.Screen(*size)
        self._stream = pyte.ByteStream(self.grid)
        self._fed = 0
        self._lines = dict[int, str]()

    @property
    def screen(self) -> str:
        across = range(self.grid.columns)
        for number in self.grid.dirty:
            line = self.grid.buffer[number]
            self._lines[number] = "".join(line[cell].data for cell in across).rstrip()
        self.grid.dirty.clear()
        return "\n".join(self._lines[number] for number in range(self.grid.lines))

    def see(self, *wanted: str, gone: str | None = None) -> str:
        """Wait until all of it stands on one screen, and what is to be gone does not."""
        until = time.monotonic() + PATIENCE_S
        while not self._sees(wanted, gone):
            assert time.monotonic() < until, f"{wanted} never came; the screen:\n{self.screen}"
            self.look()
        return self.screen

    def press(self, keys: str, *wanted: str, gone: str | None = None) -> str:
        self._terminal.press(keys)
        return self.see(*wanted, gone=gone)

    def leave(self, keys: str, wanted: bytes) -> None:
        """Press the last keys; what the terminal is left with holds this."""
        since = len(self._terminal.shown)
        self._terminal.press(keys)
        assert self._terminal.read_to_the_end() == 0
        assert wanted in self._terminal.shown[since:]

    def _sees(self, wanted: Sequence[str], gone: str | None) -> bool:
        screen = self.screen
        return all(each in screen for each in wanted) and (gone is None or gone not in screen)

    def look(self) -> None:
        self._terminal.read_some()
        self.take()

    def whole(self) -> pyte.Screen:
        """The screen when nothing more comes for a moment: a drawing that has ended."""
        seen = -1
        while seen != len(self._terminal.shown):
            seen = len(self._terminal.shown)
            self._terminal.drain()
        self.take()
        return self.grid

    def take(self) -> None:
        """See what was read."""
        self._stream.feed(self._terminal.shown[self._fed :])
        self._fed = len(self._terminal.shown)


def _take_terminal() -> None:
    """Make what it reads from its own terminal, which then tells it of a line that is cut."""
    fcntl.ioctl(0, termios.TIOCSCTTY, 0)


def _environment(variables: Mapping[str, str]) -> dict[str, str]:
    """Of a plain terminal, whatever the one is that the tests run in."""
    left_out = {"NO_COLOR", "COLORTERM", "TMUX", "SSH_CONNECTION", "PAGER", "EDITOR", "VISUAL"}
    left_out |= {"COLUMNS", "LINES"}  # which would count for more than the size of its terminal
    kept = {name: value for name, value in os.environ.items() if name not in left_out}
    return {**kept, "TERM": "xterm-256color", **variables}
