"""What 60 blind labels take of the program."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Final

from engine.config.workspace import Workspace
from tests.benchmarks.frame import Row
from tests.benchmarks.keys import Waited, pressed
from tests.benchmarks.synthetic import large_workspace
from tests.tui.terminal import Eyes, Terminal

SIZE: Final = (80, 24)
LABELS: Final = 60


def labelled(workspace: Path, benchmark: str, person: str) -> tuple[int, list[Waited], list[float]]:
    """How many keys it took, and how long an answer and a movement waited."""
    words = ("label", benchmark, "--by", person, "--sample", str(LABELS))
    keys, answers, moves = 0, list[Waited](), list[float]()
    with (
        TemporaryDirectory(prefix="cw") as home,
        Terminal(
            words=(*words, "--workspace", str(workspace)), size=SIZE, XDG_CONFIG_HOME=home
        ) as terminal,
    ):
        eyes = Eyes(terminal, SIZE)
        eyes.see(f"0 of {LABELS} labelled", "reply 1")
        for number in range(LABELS):
            terminal.settle()
            moves.append(pressed(terminal, "}").first or 0.0)
            pressed(terminal, "{")
            if number % 2:
                keys += 1
                pressed(terminal, " ")
            keys += 1
            answers.append(pressed(terminal, "p" if number % 2 else "n"))
        eyes.see(f"All of this sample is labelled: {LABELS} of {LABELS}")
        terminal.press("q")
        terminal.read_to_the_end()
    return keys, answers, moves


def labelling(
    workspace: Path | None = None, benchmark: str | None = None, *, by: str = "bench"
) -> Iterator[Row]:
    """What 60 blind labels take of the program.

    Draws a sample in a workspace of 30,240 conversations, or in the one that is given, and labels
    it in a real terminal of 80x24: every other one absent with `n`, the rest present with Space and
    `p`. Times, for each, the last key until the next transcript is there, and beside it a key that
    only moves a cursor in the same terminal, so that a loaded machine shows. 60 labels in 30
    minutes are 30 s each.
    """
    with large_workspace(workspace) as root:
        name = benchmark or Workspace(root).benchmark_names()[0]
        keys, answers, moves = labelled(root, name, by)
    yield Row(f"keys of {LABELS} labels", str(keys))
    for what, times in (
        (
            "an answer until the next transcript begins to show",
            [one.first or 0.0 for one in answers],
        ),
        ("until it stands", [one.whole for one in answers]),
        ("a key that moves the cursor", moves),
    ):
        yield Row(
            f"{what}: median, worst, all together",
            f"{median(times):.0f} ms, {max(times):.0f} ms, {sum(times) / 1000:.1f} s",
        )
