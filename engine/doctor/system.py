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


def terminal_findings(terminal: Terminal) -> list[Diagnostic]:
    """Findings about the terminal's abilities that the app needs."""
    environ = terminal.environ
    return [
        _terminal_diagnostic(environ.get("TERM", "")),
        _colours(environ),
        _dimensions(terminal.size),
        _letters(terminal.encoding, environ),
        *_tmux(terminal),
        *_ssh(environ),
    ]


def _terminal_diagnostic(term: str) -> Diagnostic:
    if term in {"", "dumb"}:
        state = "is not set" if not term else "is dumb"
        return _finding(
            "TERM",
            Severity.NOTE,
            f"{state}: commands print plain lines, and the app does not open",
            "in a terminal that can do more: export TERM=xterm-256color",
        )
    return _finding("TERM", Severity.OK, term)


def _colours(environ: Mapping[str, str]) -> Diagnostic:
    if environ.get("NO_COLOR"):
        return _finding(
            "colours",
            Severity.NOTE,
            "NO_COLOR is set: nothing is coloured",
            "to see colours: unset NO_COLOR",
        )
    # after NO_COLOR, which the app obeys in any terminal
    number = colours(environ)
    if number > 16:
        words = "all" if number > 256 else "256"
        return _finding("colours", Severity.OK, words)
    return _finding(
        "colours",
        Severity.NOTE,
        f"{number}, as TERM and COLORTERM have it",
        "if the terminal can do more: export TERM=xterm-256color COLORTERM=truecolor",
    )


def colours(environ: Mapping[str, str]) -> int:
    """How many colours the app will use, by the same two variables."""
    term = environ.get("TERM", "").lower()
    if term in {"", "dumb"} or is_monochrome(environ):
        return 0
    if environ.get("COLORTERM", "").strip().lower() in {"truecolor", "24bit"}:
        return 256**3
    return 256 if term.rpartition("-")[2] in {"256color", "kitty"} else 16


def _dimensions(size: tuple[int, int] | None) -> Diagnostic:
    if size is None:
        sentence = "this is no terminal: commands print plain lines, and the app does not open"
        return _finding("size", Severity.NOTE, sentence)
    columns, lines = size
    sentence = f"{columns} columns, {lines} lines"
    if columns < WIDTH or lines < HEIGHT:
        remedy = f"make the window at least {WIDTH} by {HEIGHT}"
        return _finding("size", Severity.NOTE, f"{sentence}: the app needs more", remedy)
    return _finding("size", Severity.OK, sentence)


def _letters(encoding: str, environ: Mapping[str, str]) -> Diagnostic:
    named = next((name for name in ("LC_ALL", "LC_CTYPE", "LANG") if environ.get(name)), None)
    locale = "no locale is set" if named is None else f"{named}={environ[named]}"
    if wants_ascii(environ):
        encoding = "ASCII"
    elif encoding.lower().replace("-", "").replace("_", "") == "utf8":
        return _finding("letters", Severity.OK, f"UTF-8 ({locale})")
    return _finding(
        "letters",
        Severity.NOTE,
        f"{encoding} and not UTF-8 ({locale}): similar signs stand for other characters",
        "export LC_ALL=C.UTF-8",
    )


def _tmux(terminal: Terminal) -> Iterator[Diagnostic]:
    if not terminal.environ.get("TMUX"):
        return
    version = terminal.ask_tmux(["-V"])
    if version is None:
        sentence = "this is a tmux session, but no tmux answers, so its settings are not known"
        yield _finding("tmux", Severity.NOTE, sentence)
        return
    yield _finding("tmux", Severity.OK, version)
    for option, good, sentence, fix in _TMUX_OPTIONS:
        value = terminal.ask_tmux(["show-options", "-sqv", option])
        # an older tmux does not know the option, which is no problem
        if not value:
            continue
        if good(value):
            yield _finding("tmux", Severity.OK, f"{option} {value}")
        else:
            remedy = f"tmux set -s {option} {fix}"
            yield _finding("tmux", Severity.NOTE, f"{option} is {value}: {sentence}", remedy)


def _is_short(value: str) -> bool:
    return value.isdecimal() and int(value) <= LONGEST_ESCAPE_MS


_TMUX_OPTIONS: Final[Sequence[tuple[str, Callable[[str], bool], str, str]]] = (
    (
        "set-clipboard",
        lambda value: value != "off",
        "what is copied in the app stays inside tmux",
        "on",
    ),
    ("escape-time", _is_short, "the Escape key is late by so many milliseconds", "10"),
    (
        "focus-events",
        lambda value: value == "on",
        "the app does not notice when nobody looks, and keeps drawing",
        "on",
    ),
)


def _ssh(environ: Mapping[str, str]) -> Iterator[Diagnostic]:
    if not environ.get("SSH_CONNECTION"):
        return
    lost = "" if environ.get("COLORTERM") else "; SSH does not pass COLORTERM on"
    remedy = "if the terminal has all colours: export COLORTERM=truecolor" if lost else None
    sentence = f"over SSH: the app draws less often{lost}"
    yield _finding("SSH", Severity.NOTE, sentence, remedy)


def _finding(subject: str, state: Severity, sentence: str, remedy: str | None = None) -> Diagnostic:
    return Diagnostic(Area.TERMINAL, subject, state, sentence, remedy)


MANY_CONNECTIONS: Final = 512
"""Connections that are enough for most runs."""
_WAL_RESET_FIXED: Final = (3, 51, 3)


def system_findings(sqlite: tuple[int, ...] = sqlite3.sqlite_version_info) -> list[Diagnostic]:
    """Findings about the program, Python, the limit of open files, and SQLite."""
    python = f"{platform.python_version()} ({sys.executable})"
    return [
        Diagnostic(Area.SYSTEM, "Crosswind", Severity.OK, version("crosswind")),
        Diagnostic(Area.SYSTEM, "Python", Severity.OK, python),
        _descriptors(most_connections_raised()),
        _sqlite(sqlite),
    ]


def _descriptors(most: int) -> Diagnostic:
    if most >= MANY_CONNECTIONS:
        return Diagnostic(Area.SYSTEM, "open files", Severity.OK, f"{most} connections at once")
    return Diagnostic(
        Area.SYSTEM,
        "open files",
        Severity.NOTE,
        f"the limit lets a run have {most} connections at once; more calls wait for one",
        "raise it before the run: `ulimit -n 4096`, or the hard limit of this user",
    )


def _sqlite(version: tuple[int, ...]) -> Diagnostic:
    words = ".".join(str(part) for part in version)
    if version >= _WAL_RESET_FIXED:
        return Diagnostic(Area.SYSTEM, "SQLite", Severity.OK, words)
    return Diagnostic(
        Area.SYSTEM,
        "SQLite",
        Severity.NOTE,
        f"{words}; before 3.51.3, two programs that write at once can damage a store. Crosswind "
        "itself has a single writer",
        "do not write into the store with other programs while a run goes on",
    )
