"""Copies text to wherever a person can paste it from, and says where that is.

Over a terminal there is no one way that always works, and none of them says whether it did. Inside
tmux, what an app writes for the terminal's clipboard is dropped as tmux comes; only tmux itself may
set it. So every way that may work is gone, and the text is always in a file as well.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from shutil import which
from typing import Final

from engine.display import clean
from tui.private import cache_folder, write_private

MOST_FOR_TERMINAL: Final = 50_000
"""Bytes. Terminals drop what is longer than their own limit, and the lowest that are known lie a
little above this once it is written in base64."""
PATIENCE: Final = 2.0
"""Seconds for a program that takes the text."""


@dataclass(frozen=True, slots=True)
class Copied:
    """What became of it."""

    characters: int
    taken: Sequence[str]
    """Who has it for certain."""
    asked: bool
    """Whether the terminal was asked to take it, which never answers."""
    file: Path | None

    def __str__(self) -> str:
        where = list(self.taken)
        if self.asked:
            where.append("the terminal, if it takes it")
        if self.file is not None:
            where.append(str(self.file))
        if not where:
            return "Nothing took the text: neither tmux, the terminal nor a file."
        return f"Copied {self.characters:,} characters to " + ", ".join(where)


def programs(environ: Mapping[str, str]) -> list[tuple[str, Sequence[str]]]:
    """Those that take text here, by the names that people know them by."""
    found: list[tuple[str, Sequence[str]]] = []
    if environ.get("TMUX"):
        found.append(("tmux", ("tmux", "load-buffer", "-w", "-")))
    if environ.get("SSH_CONNECTION"):
        return found
    local = [
        (True, ("pbcopy",)),
        (bool(environ.get("WAYLAND_DISPLAY")), ("wl-copy",)),
        (bool(environ.get("DISPLAY")), ("xclip", "-selection", "clipboard")),
        (bool(environ.get("DISPLAY")), ("xsel", "--clipboard", "--input")),
    ]
    for fits, words in local:
        if fits and which(words[0], path=environ.get("PATH")):
            found.append(("the clipboard", words))
            break
    return found


async def copy(text: str, environ: Mapping[str, str], to_terminal: Callable[[str], None]) -> Copied:
    """Copy what is fit to be pasted: nothing in it acts on a terminal any more."""
    text = clean(text)
    taken = [name for name, words in programs(environ) if await _give(words, text)]
    short = len(text.encode("utf-8", "replace")) <= MOST_FOR_TERMINAL
    if short:
        to_terminal(text)
    file: Path | None = cache_folder(environ) / "copied.txt"
    try:
        if file is not None:
            await asyncio.to_thread(write_private, file, text)
    except OSError:
        file = None
    return Copied(len(text), taken, short, file)


async def _give(words: Sequence[str], text: str) -> bool:
    """Whether the program took it."""
    try:
        program = await asyncio.create_subprocess_exec(
            *words,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.DEVNULL,
            stderr=asyncio.subprocess.DEVNULL,
        )
    except OSError:
        return False
    try:
        await asyncio.wait_for(program.communicate(text.encode("utf-8", "replace")), PATIENCE)
    except TimeoutError:
        with suppress(ProcessLookupError):
            program.kill()
        await program.wait()
        return False
    return program.returncode == 0
