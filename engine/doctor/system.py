"""Findings about the program, its platform, and the terminal."""

from __future__ import annotations

import os
import platform
import shutil
import sqlite3
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from typing import Final

from engine.display import is_monochrome, wants_ascii
from engine.doctor.findings import Area, Diagnostic, Severity
from engine.providers.http.transport import most_connections_raised

WIDTH: Final = 80
HEIGHT: Final = 24
LONGEST_ESCAPE_MS: Final = 50
"""Beyond this the Escape key feels slow."""

AskTmux = Callable[[Sequence[str]], str | None]
"""Runs tmux with these arguments and returns its output; None where it fails."""


@dataclass(frozen=True, slots=True)
class Terminal:
    """A terminal, as described by the system and the environment."""

    environ: Mapping[str, str]
    size: tuple[int, int] | None
    """Columns and lines; None where there is no terminal."""
    encoding: str
    ask_tmux: AskTmux


def this_terminal(environ: Mapping[str, str]) -> Terminal:
    """The terminal of this process."""
    return Terminal(environ, _size(), sys.stdout.encoding or "ascii", _ask_tmux)


def _size() -> tuple[int, int] | None:
    for stream in (sys.__stdout__, sys.__stderr__, sys.__stdin__):
        try:
            if stream is not None and stream.isatty():
                size = os.get_terminal_size(stream.fileno())
                return size.columns, size.lines
        except (OSError, ValueError):
            continue
    return None


def _ask_tmux(words: Sequence[str]) -> str | None:
    program = shutil.which("tmux")
    if program is None:
        return None
    try:
        done = subprocess.run(  # noqa: S603  (tmux itself, with words of this module)
            [program, *words],
            capture_output=True,
            text=True,
            errors="replace",
            timeout=2,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout.strip() if done.returncode == 0 else None


_Found = tuple[str, Severity, str] | tuple[str, Severity, str, str]
"""Subject, state and sentence, and a remedy if there is one."""


def terminal_findings(terminal: Terminal) -> list[Diagnostic]:
    """Findings about the terminal's abilities that the app needs."""
    environ = terminal.environ
    found = (
        _term(environ.get("TERM", "")),
        _colours(environ),
        _dimensions(terminal.size),
        _letters(terminal.encoding, environ),
        *_tmux(terminal),
        *_ssh(environ),
    )
    return [Diagnostic(Area.TERMINAL, *one) for one in found]


def _term(term: str) -> _Found:
    if term not in {"", "dumb"}:
        return "TERM", Severity.OK, term
    state = "is not set" if not term else "is dumb"
    sentence = f"{state}: commands print plain lines, and the app does not open"
    remedy = "in a terminal that can do more: export TERM=xterm-256color"
    return "TERM", Severity.NOTE, sentence, remedy


def _colours(environ: Mapping[str, str]) -> _Found:
    subject = "colours"
    if environ.get("NO_COLOR"):
        remedy = "to see colours: unset NO_COLOR"
        return subject, Severity.NOTE, "NO_COLOR is set: nothing is coloured", remedy
    # after NO_COLOR, which the app obeys in any terminal
    number = colours(environ)
    if number > 16:
        return subject, Severity.OK, "all" if number > 256 else "256"
    remedy = "if the terminal can do more: export TERM=xterm-256color COLORTERM=truecolor"
    return subject, Severity.NOTE, f"{number}, as TERM and COLORTERM have it", remedy


def colours(environ: Mapping[str, str]) -> int:
    """How many colours the app will use, by the same two variables."""
    term = environ.get("TERM", "").lower()
    if term in {"", "dumb"} or is_monochrome(environ):
        return 0
    if environ.get("COLORTERM", "").strip().lower() in {"truecolor", "24bit"}:
        return 256**3
    return 256 if term.rpartition("-")[2] in {"256color", "kitty"} else 16


def _dimensions(size: tuple[int, int] | None) -> _Found:
    subject = "size"
    if size is None:
        sentence = "this is no terminal: commands print plain lines, and the app does not open"
        return subject, Severity.NOTE, sentence
    columns, lines = size
    sentence = f"{columns} columns, {lines} lines"
    if columns >= WIDTH and lines >= HEIGHT:
        return subject, Severity.OK, sentence
    remedy = f"make the window at least {WIDTH} by {HEIGHT}"
    return subject, Severity.NOTE, f"{sentence}: the app needs more", remedy


def _letters(encoding: str, environ: Mapping[str, str]) -> _Found:
    named = next((name for name in ("LC_ALL", "LC_CTYPE", "LANG") if environ.get(name)), None)
    locale = "no locale is set" if named is None else f"{named}={environ[named]}"
    if wants_ascii(environ):
        encoding = "ASCII"
    elif encoding.lower().replace("-", "").replace("_", "") == "utf8":
        return "letters", Severity.OK, f"UTF-8 ({locale})"
    sentence = f"{encoding} and not UTF-8 ({locale}): similar signs stand for other characters"
    return "letters", Severity.NOTE, sentence, "export LC_ALL=C.UTF-8"


def _tmux(terminal: Terminal) -> Iterator[_Found]:
    if not terminal.environ.get("TMUX"):
        return
    version = terminal.ask_tmux(["-V"])
    if version is None:
        sentence = "this is a tmux session, but no tmux answers, so its settings are not known"
        yield "tmux", Severity.NOTE, sentence
        return
    yield "tmux", Severity.OK, version
    for option, (sentence, fix) in _TMUX_OPTIONS.items():
        value = terminal.ask_tmux(["show-options", "-sqv", option])
        # an older tmux does not know the option, which is no problem
        if value and _is_good(option, value):
            yield "tmux", Severity.OK, f"{option} {value}"
        elif value:
            words = f"{option} is {value}: {sentence}"
            yield "tmux", Severity.NOTE, words, f"tmux set -s {option} {fix}"


_TMUX_OPTIONS: Final = {
    "set-clipboard": ("what is copied in the app stays inside tmux", "on"),
    "escape-time": ("the Escape key is late by so many milliseconds", "10"),
    "focus-events": ("the app does not notice when nobody looks, and keeps drawing", "on"),
}
"""By option, what a value that is not good does, and one that is."""


def _is_good(option: str, value: str) -> bool:
    if option == "escape-time":
        return value.isdecimal() and int(value) <= LONGEST_ESCAPE_MS
    return value == "on" or (option == "set-clipboard" and value != "off")


def _ssh(environ: Mapping[str, str]) -> Iterator[_Found]:
    if not environ.get("SSH_CONNECTION"):
        return
    sentence = "over SSH: the app draws less often"
    if environ.get("COLORTERM"):
        yield "SSH", Severity.NOTE, sentence
        return
    remedy = "if the terminal has all colours: export COLORTERM=truecolor"
    yield "SSH", Severity.NOTE, f"{sentence}; SSH does not pass COLORTERM on", remedy


MANY_CONNECTIONS: Final = 512
"""Connections that are enough for most runs."""
_WAL_RESET_FIXED: Final = (3, 51, 3)


def system_findings(sqlite: tuple[int, ...] = sqlite3.sqlite_version_info) -> list[Diagnostic]:
    """Findings about the program, Python, the limit of open files, and SQLite."""
    found = (
        ("Crosswind", Severity.OK, version("crosswind")),
        ("Python", Severity.OK, f"{platform.python_version()} ({sys.executable})"),
        _descriptors(most_connections_raised()),
        _sqlite(sqlite),
    )
    return [Diagnostic(Area.SYSTEM, *one) for one in found]


def _descriptors(most: int) -> _Found:
    if most >= MANY_CONNECTIONS:
        return "open files", Severity.OK, f"{most} connections at once"
    sentence = f"the limit lets a run have {most} connections at once; more calls wait for one"
    remedy = "raise it before the run: `ulimit -n 4096`, or the hard limit of this user"
    return "open files", Severity.NOTE, sentence, remedy


def _sqlite(version: tuple[int, ...]) -> _Found:
    words = ".".join(str(part) for part in version)
    if version >= _WAL_RESET_FIXED:
        return "SQLite", Severity.OK, words
    sentence = (
        f"{words}; before 3.51.3, two programs that write at once can damage a store. Crosswind "
        "itself has a single writer"
    )
    remedy = "do not write into the store with other programs while a run goes on"
    return "SQLite", Severity.NOTE, sentence, remedy
