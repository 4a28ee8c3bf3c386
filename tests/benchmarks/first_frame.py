"""How long until the first frame, and until all that it shows is read."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import NamedTuple

from engine.config.schema import load_config
from tests.benchmarks.frame import Row
from tests.benchmarks.synthetic import large_workspace
from tests.tui.terminal import Terminal

EMPTY = """
from textual.app import App
from textual.widgets import Label

class Empty(App):
    def compose(self):
        yield Label("an empty app")

Empty().run()
"""


class Until(NamedTuple):
    wall: float
    cpu: float


def timed(program: list[str], markers: Sequence[bytes], folder: str) -> list[Until]:
    """Seconds of wall and of CPU until each marker was on the terminal."""
    began = time.monotonic()
    found = []
    terminal = Terminal(program=program, size=(120, 40), XDG_CONFIG_HOME=folder)
    with terminal:
        for marker in markers:
            terminal.read_until(marker)
            found.append(Until(time.monotonic() - began, cpu_seconds(terminal.process.pid)))
    return found


def cpu_seconds(process: int) -> float:
    """Finer than `stat` tells it; of threads that are there."""
    threads = Path(f"/proc/{process}/task").iterdir()
    return sum(int((each / "schedstat").read_text("ascii").split()[0]) for each in threads) / 1e9


def first_frame(workspace: Path | None = None, *, rounds: int = 7) -> Iterator[Row]:
    """How long until the first frame, and until all that it shows is read.

    `crosswind` on a workspace of 30,240 conversations, or the one that is given, beside an empty
    Textual app.
    """
    empty, first, whole = list[Until](), list[Until](), list[Until]()
    with large_workspace(workspace) as root, TemporaryDirectory() as folder:
        target = load_config(root / "config.yaml").targets[0].id.encode()
        program = Path(folder) / "empty.py"
        program.write_text(EMPTY, "utf-8")
        for _ in range(rounds):
            empty += timed([str(program)], [b"an empty app"], folder)
            words = ["-m", "tui", "--workspace", str(root)]
            frame, rest = timed(words, [b"Benchmarks", target], folder)
            first.append(frame)
            whole.append(rest)
    floor_wall, floor_cpu = median(one.wall for one in empty), median(one.cpu for one in empty)
    yield Row("an empty Textual app", f"{floor_wall:.2f} s, {floor_cpu:.2f} s of CPU")
    for what, found in (("the first frame", first), ("all that it shows is read", whole)):
        wall, cpu = median(one.wall for one in found), median(one.cpu for one in found)
        yield Row(
            f"{what}, beside an empty app",
            f"{wall / floor_wall:.1f} x, {wall:.2f} s; CPU {cpu / floor_cpu:.1f} x, {cpu:.2f} s",
        )
