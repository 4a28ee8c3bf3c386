"""From the start of a run to its end, key by key, in a terminal: the way that a person takes."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from engine.store.lock import workspace_holder
from tests.engine.small_workspace import Place, small_workspace
from tests.protocol_server.faults import Fault, upto
from tests.protocol_server.server import ProtocolServer
from tests.tui.terminal import Eyes, Terminal

SIZE = (120, 40)


@contextmanager
def person(root: Path, *words: str) -> Iterator[Eyes]:
    arguments = (*words, "--workspace", str(root))
    with Terminal(words=arguments, size=SIZE, XDG_CONFIG_HOME=str(root)) as terminal:
        yield Eyes(terminal, SIZE)


@pytest.fixture
def root(tmp_path: Path) -> Iterator[Path]:
    """A run of half a minute: twenty-four conversations, of which some cave in and two fail."""
    place = small_workspace(tmp_path)
    with ProtocolServer() as server:
        server.plan(Fault.UNPROCESSABLE, match="words-20", when=upto(2))
        (tmp_path / ".env").write_text("FAR_KEY=sk-walk\n", "utf-8")
        reached = f'source: vllm, base_url: "{server.origin}/v1", apikey: "${{FAR_KEY}}"'
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
        one.see("giving-in", "▸ running", " of 6")
        one.press("P", "paused")
        one.press("P", "▸ running")

        # leave it running, and come back from another terminal
        one.press("q", "leave it running")
        one.leave("\r", b"crosswind watch")

    with person(root, "watch") as one:
        one.see("giving-in")
        one.press("2", "! ended with 2 failed")

        # a target that gave in
        one.press("3}", "[Verdicts]", "22 judged")
        one.press("F", "which rows:")
        # until the rows of others are gone, Enter opens one of theirs
        one.press("outcome:fail target:gives-in\r", " shown of 22 judged", gone="__far-away")
        one.press("\r", "✗ fail", " of 6", "landmark", "because", "1 read")

        # how the pressure rose, landmark by landmark, to the end
        one.press("G", "turn 6 of 6")
        one.press("g", "turn 1 of 6")
        one.press("}", "turn 2 of 6")

        # beside the target that held
        one.press("C", "Side by side", "__holds")
        one.press("q", "because")

        # judged again by another evaluator
        one.press("r", "second")
        one.press("j", "free: no model in it costs money", "Enter judges it")
        one.press("\r", "Judged again", "offline:evaluator-strict")
        one.press("q", "__gives-in", gone="Judged again")
        one.press("q", "Verdicts")

        # whether the difference is real
        one.press("4", "Results", "findings", "gives-in")

        # what failed, once more
        one.press("3{X", "2 failed", "__far-away", "422")
        one.press("A", "all together:", "go on")
        one.press("y", "Nothing has failed")
        one.press("}", "24 judged")

        one.press("i", "A part of an id")
        one.press("m01_s001_v01__holds\r", "__holds", "because", gone="Esc closes")

        # what a model wrote, and the conversations once more, blind
        one.press("5", "Your turn", "to review")
        one.press("\r", "What becomes of")
        one.press("a", "approved")
        one.press("u", "undone: approve")
        one.press(":", "a command, a benchmark")
        one.press("label\r", "0 of 24 labelled", "reply 1", gone="Your turn")
        one.press("\rn", "1 of 24 labelled", "reply 1")
        one.press("u", "0 of 24 labelled")
        one.press("q", "Your turn")
        one.press(":", "a command, a benchmark")
        one.press("adjudicate\r", "There is nothing to decide")
        one.press("q", "Your turn")
