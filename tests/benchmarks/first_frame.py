"""How long until the first frame: `crosswind` on a finished workspace beside an empty Textual app.

`python -m tests.benchmarks.first_frame WORKSPACE`
"""

from __future__ import annotations

import os
import statistics
import sys
import tempfile
import time
from pathlib import Path

from tests.tui.terminal import Terminal

ROUNDS = 5
EMPTY = """
from textual.app import App
from textual.widgets import Label

class Empty(App):
    def compose(self):
        yield Label("an empty app")

Empty().run()
"""


def first_frame(program: list[str], marker: bytes, folder: str) -> tuple[float, float]:
    """Seconds of wall and of CPU until the marker was on the terminal."""
    began = time.monotonic()
    terminal = Terminal(program=program, size=(120, 40), XDG_CONFIG_HOME=folder)
    with terminal:
        terminal.read_until(marker)
        wall = time.monotonic() - began
        ticks = Path(f"/proc/{terminal.process.pid}/stat").read_text("ascii").rsplit(")", 1)[1]
        fields = ticks.split()
        cpu = (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
    return wall, cpu


def main() -> None:
    workspace = sys.argv[1]
    with tempfile.TemporaryDirectory() as folder:
        empty = Path(folder) / "empty.py"
        empty.write_text(EMPTY, "utf-8")
        found: dict[str, list[tuple[float, float]]] = {"empty Textual app": [], "crosswind": []}
        for _ in range(ROUNDS):
            found["empty Textual app"].append(first_frame([str(empty)], b"an empty app", folder))
            words = ["-m", "tui", "--workspace", workspace]
            found["crosswind"].append(first_frame(words, b"Benchmarks", folder))
    walls = {name: statistics.median(wall for wall, _ in rows) for name, rows in found.items()}
    cpus = {name: statistics.median(cpu for _, cpu in rows) for name, rows in found.items()}
    base = "empty Textual app"
    print("| until the first frame | wall s | against empty | CPU s | against empty |")  # noqa: T201
    print("|---|---|---|---|---|")  # noqa: T201
    for name in found:
        wall, cpu = walls[name], cpus[name]
        ratios = (wall / walls[base], cpu / cpus[base])
        print(f"| {name} | {wall:.2f} | {ratios[0]:.1f} | {cpu:.2f} | {ratios[1]:.1f} |")  # noqa: T201


if __name__ == "__main__":
    main()
