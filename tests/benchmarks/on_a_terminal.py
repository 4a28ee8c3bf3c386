"""How soon the app answers in a real terminal, on a large store."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Final, NamedTuple

from engine.config.schema import load_config
from engine.config.workspace import Workspace
from tests.benchmarks.frame import Row
from tests.benchmarks.synthetic import large_workspace
from tests.tui.terminal import Eyes, Terminal

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


SIZE: Final = (120, 40)
QUIET_S: Final = 0.4
PATIENCE_S: Final = 5.0

WALK: Final = (
    ("down a row of Benchmarks", "j"),
    ("to Problems, the first time", "5"),
    ("to Find, the first time", "/"),
    ("back", "\x1b"),
    ("to Benchmarks", "1"),
    ("to Verdicts", "3"),
    ("down a row", "j"),
    ("down a page", "\x04"),
    ("to the last of 30,085 rows", "G"),
    ("up a page", "\x15"),
    ("to the first", "g"),
    ("into a conversation", "\r"),
    ("down a page of it", "\x04"),
    ("to the next turn", "}"),
    ("to its end", "G"),
    ("to the next conversation", "]"),
    ("side by side", "C"),
    ("with the next", "]"),
    ("down a page of both", "\x04"),
    ("back", "q"),
    ("to its scenario", "v"),
    ("back", "q"),
    ("back to Verdicts", "q"),
    ("begin a filter", "F"),
    ("a letter of it", "m"),
    ("a letter of it", "0"),
    ("a letter of it", "2"),
    ("take the filter", "\r"),
    ("clear it", "\\"),
    ("to Live", "2"),
    ("to Benchmarks", "1"),
    ("to Problems", "5"),
    ("down a page of it", "\x04"),
    ("go to an id", "i"),
    ("a letter of it", "m"),
    ("a letter of it", "0"),
    ("a letter of it", "1"),
    ("a letter of it", "_"),
    ("leave it", "\x1b"),
    ("palette", ":"),
    ("a letter of it", "m"),
    ("a letter of it", "0"),
    ("a letter of it", "1"),
    ("leave it", "\x1b"),
    ("help", "?"),
    ("leave it", "q"),
    ("to Results", "4"),
    ("to the next section", "}"),
    ("to the next section", "}"),
    ("to the next benchmark", "]"),
)


class Waited(NamedTuple):
    """Milliseconds; `first` is None where nothing came back."""

    first: float | None
    whole: float


def pressed(terminal: Terminal, keys: str) -> Waited:
    """Press, and take what comes until nothing has for a while."""
    began = time.perf_counter()
    terminal.press(keys)
    first: float | None = None
    last = began
    while True:
        now = time.perf_counter()
        patience = QUIET_S if first is not None else PATIENCE_S
        if now - last > patience:
            return Waited(first, (last - began) * 1000)
        before = len(terminal.shown)
        terminal.read_some(patience - (now - last))
        if len(terminal.shown) > before:
            last = time.perf_counter()
            if first is None:
                first = (last - began) * 1000


def walk(workspace: Path) -> list[tuple[str, Waited]]:
    with (
        TemporaryDirectory(prefix="cw") as home,
        Terminal(
            words=("--workspace", str(workspace)), size=SIZE, XDG_CONFIG_HOME=home
        ) as terminal,
    ):
        terminal.read_until(b"Benchmarks")
        terminal.settle()
        return [(what, pressed(terminal, keys)) for what, keys in WALK]


def keys(workspace: Path | None = None, *, rounds: int = 5) -> Iterator[Row]:
    """How long a key waits in the app at size.

    Opens the app in a real terminal of 120x40 on a store of 30,240 conversations, or on the one
    that is given, walks through every screen, and times each key twice: until the first byte of
    what it does comes back, and until the last one, after which the terminal is quiet. Medians.
    """
    with large_workspace(workspace) as root:
        walks = [walk(root) for _ in range(rounds)]
    for steps in zip(*walks, strict=True):
        firsts = [waited.first for _, waited in steps if waited.first is not None]
        first = f"{median(firsts):.0f} ms" if firsts else "nothing"
        whole = median(waited.whole for _, waited in steps)
        yield Row(f"{steps[0][0]}: first answer, whole", f"{first}, {whole:.0f} ms", "100 ms")


SMALL: Final = (80, 24)
LABELS: Final = 60


def labelled(workspace: Path, benchmark: str, person: str) -> tuple[int, list[Waited], list[float]]:
    """How many keys it took, and how long an answer and a movement waited."""
    words = ("label", benchmark, "--by", person, "--sample", str(LABELS))
    keys, answers, moves = 0, list[Waited](), list[float]()
    with (
        TemporaryDirectory(prefix="cw") as home,
        Terminal(
            words=(*words, "--workspace", str(workspace)), size=SMALL, XDG_CONFIG_HOME=home
        ) as terminal,
    ):
        eyes = Eyes(terminal, SMALL)
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
            [answer.first or 0.0 for answer in answers],
        ),
        ("until it stands", [answer.whole for answer in answers]),
        ("a key that moves the cursor", moves),
    ):
        yield Row(
            f"{what}: median, worst, all together",
            f"{median(times):.0f} ms, {max(times):.0f} ms, {sum(times) / 1000:.1f} s",
        )
