"""How long a key waits in the app at size."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Final, NamedTuple

from tests.benchmarks.frame import Row
from tests.benchmarks.synthetic import large_workspace
from tests.tui.terminal import Terminal

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
