"""A run whose terminal hangs up, stops, shrinks, or is not read: the engine feels none of it."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from engine.store.lock import workspace_holder
from tests.engine.small_workspace import Place, small_workspace
from tests.tui.terminal import Eyes, Terminal
from tests.waiting import PATIENCE_S, until

SIZE = (100, 30)


@dataclass(frozen=True)
class Run:
    """A run that takes long, begun in a terminal."""

    place: Place
    terminal: Terminal

    def engine(self) -> int | None:
        holder = workspace_holder(self.place.root)
        return None if holder is None else holder.pid

    def messages(self) -> int:
        with self.place.reader() as reader:
            return sum(len(reader.messages(take.seq)) for take in reader.takes("giving-in"))

    def goes_on(self) -> None:
        """The same engine is at work, and gets further."""
        assert self.engine() is not None
        before = self.messages()
        until(lambda: self.messages() > before)


@pytest.fixture
def run(tmp_path: Path) -> Iterator[Run]:
    place = small_workspace(tmp_path)
    place.long_talks()
    words = ("run", "--workspace", str(tmp_path))
    with Terminal(words=words, size=SIZE, XDG_CONFIG_HOME=str(tmp_path)) as terminal:
        found = Run(place, terminal)
        terminal.read_until(b"turn 1 of 100")
        yield found
    pid = found.engine()
    if pid is not None:
        os.kill(pid, signal.SIGKILL)
        until(lambda: found.engine() is None)


def test_a_run_feels_none_of_what_its_terminal_goes_through(run: Run) -> None:
    terminal, engine = run.terminal, run.engine()
    eyes = Eyes(terminal, SIZE)
    run.goes_on()
    run.goes_on()
    # nothing was read since the first picture: now all of it is, and the app still hears keys
    eyes.press("?", "On this screen")
    eyes.press("q", "turn ", gone="On this screen")

    terminal.process.send_signal(signal.SIGSTOP)
    run.goes_on()
    terminal.process.send_signal(signal.SIGCONT)
    eyes.press("?", "On this screen")
    eyes.press("q", "turn ", gone="On this screen")

    for size in ((1, 1), (3, 5), (300, 90), (20, 5)):
        terminal.resize(size)
        terminal.process.send_signal(signal.SIGWINCH)
        terminal.read_some(PATIENCE_S)  # until it has drawn something
    terminal.resize(SIZE)
    terminal.process.send_signal(signal.SIGWINCH)
    eyes.press("?", "On this screen")

    assert terminal.hang_up() == 0
    assert run.engine() == engine
    run.goes_on()


def test_a_terminal_without_a_screen_gets_lines_and_the_whole_run(tmp_path: Path) -> None:
    small_workspace(tmp_path)
    words = ("run", "--workspace", str(tmp_path))
    with Terminal(words=words, TERM="dumb") as terminal:
        assert terminal.read_to_the_end() == 0
        assert b"giving-in evaluate 16/16" in terminal.shown
        assert b"\x1b" not in terminal.shown
