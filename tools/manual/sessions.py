"""Runs what the worked pages say, in a folder of its own, and holds it against what they show:
`python -m tools.manual.sessions`, with `--write` to paste what was printed now.

A page that begins with `<!-- session -->` is followed from top to bottom: a block with
`title="PATH"` is written into that file, and of a `console` block each line after `$ ` is carried
out: `cd`, and `crosswind`, also with `| head -n N` or `| tail -n N` behind it. What stands below it
is what it printed, and `→ exit code N` where that is not 0. A page with `<!-- session: NAME -->`
begins with a folder that NAME of `STARTS` makes."""

from __future__ import annotations

import argparse
import io
import os
import re
import shlex
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import chdir, contextmanager, redirect_stderr, redirect_stdout
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from engine.cli.main import main as crosswind
from tests.manual import impactbench
from tools.manual.notebook import NOTEBOOK, PAGE, executed
from tools.manual.pages import DOCS

MARK: Final = re.compile(r"<!-- session(?:: (\w+))? -->")
STARTS: Final[Mapping[str, Callable[[Path], None]]] = {"impactbench": impactbench.place}
"""What a page finds where it begins."""
_HOME: Final = "/home/you"
"""What stands for the folder in which a page is followed."""
_COLUMNS: Final = "92"
_BLOCK: Final = re.compile(
    r'^```(?P<kind>\w+)(?: title="(?P<title>[^"]+)")?\n(?P<body>.*?)^```$', re.DOTALL | re.MULTILINE
)
_PROGRESS: Final = re.compile(r"\[\d\d:\d\d\] ")
"""How lines begin that say how far a run is, of which there are more on a slow machine."""
_GAP: Final = re.compile(r"(?<=\S) {2,}(?=\S)")


def worked_pages() -> list[Path]:
    return sorted(path for path in DOCS.rglob("*.md") if MARK.match(path.read_text("utf-8")))


def followed(text: str, folder: Path) -> str:
    """A page with what its commands print when they are carried out in an empty folder."""
    reader = _Reader(folder)
    mark = MARK.match(text)
    if mark is not None and mark[1]:
        STARTS[mark[1]](folder)
    with _terminal():
        return _BLOCK.sub(reader.block, text)


class _Reader:
    """A person who does what the page says."""

    def __init__(self, folder: Path) -> None:
        self._root = folder
        self._here = folder

    def block(self, block: re.Match[str]) -> str:
        if block["title"]:
            path = self._root / block["title"]
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(block["body"], "utf-8")
        if block["kind"] != "console":
            return block[0]
        commands = [line for line in block["body"].splitlines() if line.startswith("$ ")]
        printed = [line for command in commands for line in (command, *self._told(command))]
        return "\n".join(["```console", *printed, "```"])

    def _told(self, command: str) -> Iterator[str]:
        match shlex.split(command.removeprefix("$ "), comments=True):
            case ["cd", folder]:
                self._here = (self._here / folder).resolve()
            case ["crosswind", *words, "|", "head", "-n", number]:
                yield from self._printed(words)[: int(number)]
            case ["crosswind", *words, "|", "tail", "-n", number]:
                yield from self._printed(words)[-int(number) :]
            case ["crosswind", *words]:
                yield from self._printed(words)
            case _:
                raise ValueError(f"a page may say `cd` and `crosswind`, not {command!r}")

    def _printed(self, words: list[str]) -> list[str]:
        said = io.StringIO()
        with chdir(self._here), redirect_stdout(said), redirect_stderr(said):
            code = crosswind(words)
        text = said.getvalue().rstrip()
        if str(self._root) in text:
            # what is lined up behind a path would tell how long the folder's own is
            text = _GAP.sub("   ", text.replace(str(self._root), _HOME))
        lines = text.splitlines()
        ended = [f"→ exit code {code}"] if code else []
        return [line.rstrip() for line in lines if not _PROGRESS.match(line)] + ended


@contextmanager
def _terminal() -> Iterator[None]:
    """Of the pages' width, whatever terminal this is."""
    before = os.environ.get("COLUMNS")
    os.environ["COLUMNS"] = _COLUMNS
    try:
        yield
    finally:
        if before is None:
            del os.environ["COLUMNS"]
        else:
            os.environ["COLUMNS"] = before


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tools.manual.sessions", description=__doc__)
    parser.add_argument("--write", action="store_true", help="paste what is printed now")
    write = parser.parse_args().write
    stale = []
    for page in worked_pages():
        text = page.read_text("utf-8")
        with TemporaryDirectory() as folder:
            now = followed(text, Path(folder).resolve())
            if page == PAGE:
                shown = NOTEBOOK.read_text("utf-8")
                if (ran := executed(shown, Path(folder) / "study")) != shown:
                    stale.append(NOTEBOOK)
                    if write:
                        NOTEBOOK.write_text(ran, "utf-8")
        if now != text:
            stale.append(page)
            if write:
                page.write_text(now, "utf-8")
    for page in stale:
        sys.stderr.write(f"{page}: {'written anew' if write else 'prints something else now'}\n")
    return 0 if write or not stale else 1


if __name__ == "__main__":
    sys.exit(main())
