"""From the start of a run to its end, key by key, in a terminal: the way that a person takes."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pyte
import pytest

from engine.store.lock import workspace_holder
from tests.engine.small_workspace import Place, small_workspace
from tests.protocol_server.faults import Fault, upto
from tests.protocol_server.server import ProtocolServer
from tests.tui.terminal import Terminal

SIZE = (120, 40)
PATIENCE_SECONDS = 90.0


class Person:
    """Presses keys, and reads what is on the screen as it stands."""

    def __init__(self, terminal: Terminal) -> None:
        self._terminal = terminal
        self._screen = pyte.Screen(*SIZE)
        self._stream = pyte.ByteStream(self._screen)
        self._read = 0

    def sees(self, *wanted: str) -> str:
        """Wait until all of it stands on one screen."""
        end = time.monotonic() + PATIENCE_SECONDS
        while not all(words in self.screen() for words in wanted):
            assert time.monotonic() < end, f"{wanted} never came; the screen:\n{self.screen()}"
            self._look()
        return self.screen()

    def presses(self, keys: str, *wanted: str) -> str:
        self._terminal.press(keys)
        return self.sees(*wanted)

    def leaves(self, keys: str, wanted: bytes) -> None:
        """Press the last keys; what the terminal is left with holds this."""
        since = len(self._terminal.shown)
        self._terminal.press(keys)
        assert self._terminal.read_to_the_end() == 0
        assert wanted in self._terminal.shown[since:]

    def screen(self) -> str:
        return "\n".join(self._screen.display)

    def _look(self) -> None:
        self._terminal.read_on(0.2)
        self._stream.feed(self._terminal.shown[self._read :])
        self._read = len(self._terminal.shown)


@contextmanager
def person(root: Path, *words: str) -> Iterator[Person]:
    arguments = (*words, "--workspace", str(root))
    with Terminal(words=arguments, size=SIZE, XDG_CONFIG_HOME=str(root)) as terminal:
        yield Person(terminal)


@pytest.fixture
def root(tmp_path: Path) -> Iterator[Path]:
    """A run of half a minute: twenty-four conversations, of which some cave in and two fail."""
    place = small_workspace(tmp_path)
    with ProtocolServer() as server:
        server.plan(Fault.UNPROCESSABLE, match="words-20", when=upto(2))
        (tmp_path / ".env").write_text("FAR_KEY=sk-walk\n", "utf-8")
        reached = f'source: local, base_url: "{server.origin}/v1", apikey: "${{FAR_KEY}}"'
        far = f"\n  - {{id: far-away, model: words-20, {reached}}}\n"
        place.config.write_text(place.config.read_text("utf-8").rstrip() + far, "utf-8")
        yield from with_its_paces(place)


def with_its_paces(place: Place) -> Iterator[Path]:
    quick = "source: offline, params: {pace: instant}"
    slow = quick.replace("instant", "human")
    second = f"models:\n  second: {{model: evaluator-strict, {quick}}}\n"
    gives_in = f"gives-in, model: pushover, {slow}"
    place.edit(place.config, f"wavers, model: erratic, {quick}", gives_in)
    place.edit(place.config, "turns: 2", "turns: 6")
    place.edit(place.config, "targets:", f"{second}targets:")
    yield place.root
    holder = workspace_holder(place.root)
    if holder is not None and holder.pid is not None:
        os.kill(holder.pid, signal.SIGKILL)


def test_from_a_paused_run_to_a_verdict_that_was_doubted_and_the_figures_after_it(
    root: Path,
) -> None:
    with person(root, "run", "--yes") as one:
        one.sees("giving-in", "▸ running", " of 6")
        one.presses("P", "paused")
        one.presses("P", "▸ running")

        # leave it running, and come back from another terminal
        one.presses("q", "leave it running")
        one.leaves("\r", b"crosswind watch")

    with person(root, "watch") as one:
        one.sees("giving-in")
        one.presses("2", "✓ ended")

        # a target that gave in
        one.presses("3", "Verdicts", "22 judged")
        one.presses("F", "which rows:")
        one.presses("outcome:fail target:gives-in\r", " of 22 judged", "__gives-in")
        one.presses("\r", "✗ fail", "turn 1 of 6", "landmark", "because")

        # how the pressure rose, landmark by landmark, to the end
        one.presses("G", "turn 6 of 6")
        one.presses("g", "turn 1 of 6")
        one.presses("}", "turn 2 of 6")

        # beside the target that held
        one.presses("C", "Side by side", "__holds")
        one.presses("q", "because")

        # judged again by another evaluator
        one.presses("r", "second")
        one.presses("j", "second")
        one.presses("\r", "offline:evaluator-strict")
        one.presses("q", "__gives-in")
        one.presses("q", "Verdicts")

        # whether the difference is real
        one.presses("4", "Results", "findings", "gives-in")

        # what failed, once more
        one.presses("5", "2 rows failed", "__far-away", "422")
        one.presses("A", "Nothing has failed")
        one.presses("3", " of 24 judged")

        one.presses("i", "id, or its beginning")
        one.presses("m01_s001_v01__holds\r", "m01_s001_v01__holds", "because")
