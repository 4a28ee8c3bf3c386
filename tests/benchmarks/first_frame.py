"""How long until the first frame, and until all that it shows is read: `crosswind` on a workspace
beside an empty Textual app.

`python -m tests.benchmarks.first_frame WORKSPACE`
"""

from __future__ import annotations

import statistics
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from engine.config.schema import load_config
from tests.tui.terminal import Terminal

ROUNDS = 7
EMPTY = """
from textual.app import App
from textual.widgets import Label

class Empty(App):
    def compose(self):
        yield Label("an empty app")

Empty().run()
"""


class Row(NamedTuple):
    wall: float
    cpu: float


def timed(program: list[str], markers: Sequence[bytes], folder: str) -> list[Row]:
    """Seconds of wall and of CPU until each marker was on the terminal."""
    began = time.monotonic()
    found = []
    terminal = Terminal(program=program, size=(120, 40), XDG_CONFIG_HOME=folder)
    with terminal:
        for marker in markers:
            terminal.read_until(marker)
            found.append(Row(time.monotonic() - began, cpu_seconds(terminal.process.pid)))
    return found


def cpu_seconds(process: int) -> float:
    """Finer than `stat` tells it; of threads that are there."""
    threads = Path(f"/proc/{process}/task").iterdir()
    return sum(int((each / "schedstat").read_text("ascii").split()[0]) for each in threads) / 1e9


def median(rows: Sequence[Row]) -> Row:
    return Row(statistics.median(row.wall for row in rows), statistics.median(r.cpu for r in rows))


def main() -> None:
    workspace = Path(sys.argv[1])
    target = load_config(workspace / "config.yaml").targets[0].id.encode()
    empty_rows, first, whole = [], [], []
    with tempfile.TemporaryDirectory() as folder:
        empty = Path(folder) / "empty.py"
        empty.write_text(EMPTY, "utf-8")
        for _ in range(ROUNDS):
            empty_rows += timed([str(empty)], [b"an empty app"], folder)
            words = ["-m", "tui", "--workspace", str(workspace)]
            frame, rest = timed(words, [b"Benchmarks", target], folder)
            first.append(frame)
            whole.append(rest)
    base = median(empty_rows)
    print("| until | wall s | against empty | CPU s | against empty |")  # noqa: T201
    print("|---|---|---|---|---|")  # noqa: T201
    for name, rows in {
        "an empty Textual app": empty_rows,
        "the first frame": first,
        "all of it is read": whole,
    }.items():
        wall, cpu = median(rows)
        ratios = f"| {wall / base.wall:.1f} | {cpu:.2f} | {cpu / base.cpu:.1f} |"
        print(f"| {name} | {wall:.2f} {ratios}")  # noqa: T201


if __name__ == "__main__":
    main()
