"""Records the demo as a person sees it, from the real app in a terminal of its own, into
`docs/pictures/demo.svg`: `make pictures`."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from tests.tui.terminal import Eyes, Terminal
from tools.manual.film import Frame, film, rows_of
from tools.manual.pages import PICTURES

SIZE: Final = (120, 36)
FORE, BACK = "#d0d0d0", "#121212"
TITLE: Final = "The demo of Crosswind: a run, its verdicts, a conversation, its results"
EVERY_SECONDS: Final = 0.5
MOST_BYTES: Final = 600_000
_STORY: Final = (
    # keys, what is on the screen then, for how long it is looked at; what comes before that is cut
    ("", "target speaking", 7.0),
    ("", "✗ m", 8.0),
    ("w", "Wall", 5.0),
    ("q", "simulate", 1.0),
    ("3", "[All]", 3.0),
    ("}", "[Verdicts]", 2.0),
    ("F", "which rows", 1.0),
    ("outcome:fail", "outcome:fail", 1.5),
    ("\r", "✗", 2.0),
    ("\r", "landmark", 4.0),
    ("c", "landmark", 4.0),
    ("4", "Results", 6.0),
)


def record(folder: Path) -> str:
    """The story on a demo that runs at the pace at which people read."""
    frames: list[Frame] = []
    words = ["demo", "--dir", str(folder)]
    with Terminal(
        size=SIZE,
        words=words,
        COLORTERM="truecolor",
        LANG="C.UTF-8",
        XDG_CONFIG_HOME=str(folder.parent),  # not the theme of whoever records it
    ) as terminal:
        eyes = Eyes(terminal, SIZE)
        for keys, wanted, seconds in _STORY:
            eyes.press(keys, wanted)
            _watch(eyes, frames, seconds)
    last = frames[-1]
    return film([*frames[:-1], last._replace(seconds=4.0)], SIZE, back=BACK, title=TITLE)


def _watch(eyes: Eyes, frames: list[Frame], seconds: float) -> None:
    """What is seen meanwhile; a screen that stays is one frame."""
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        next_look = time.monotonic() + EVERY_SECONDS
        while time.monotonic() < next_look:
            eyes.look()
        rows = rows_of(eyes.whole(), fore=FORE, back=BACK)
        if frames and frames[-1].rows == rows:
            frames[-1] = frames[-1]._replace(seconds=frames[-1].seconds + EVERY_SECONDS)
        else:
            frames.append(Frame(EVERY_SECONDS, rows))


def main() -> int:
    with TemporaryDirectory() as scratch:
        folder = Path(scratch) / "demo"
        try:
            drawn = record(folder)
        finally:
            stop = ["-m", "tui", "stop", "--now", "--wait", "--workspace", str(folder)]
            subprocess.run([sys.executable, *stop], check=False)
    size = len(drawn.encode())
    if size > MOST_BYTES:
        sys.stderr.write(f"the recording has {size:,} bytes, expected at most {MOST_BYTES:,}\n")
        return 1
    path = PICTURES / "demo.svg"
    path.write_text(drawn, "utf-8")
    sys.stderr.write(f"{path}, {size:,} bytes\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
