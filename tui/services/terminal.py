"""The terminal around the app: its title, bell and size, whether it still exists, keys one at a
time, a filter for whatever could act on it, and lending it to a pager or editor."""

from __future__ import annotations

import asyncio
import os
import re
import shlex
import shutil
import signal
import sys
import unicodedata
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from shutil import which
from typing import Any, Final

from rich.cells import cell_len
from rich.segment import Segment
from textual.app import App, SuspendNotSupported
from textual.color import Color
from textual.dom import DOMNode
from textual.events import Key
from textual.filter import LineFilter
from textual.geometry import Size
from textual.message_pump import MessagePump
from textual.timer import Timer

from engine.benchmark import Stage
from engine.display import ASCII_SIGNS, one_line, wants_ascii
from engine.errors import CrosswindError
from engine.watch import Watch
from tui.state.run_status import RunPhase, RunStatus, Snapshot

# xterm's: push the title on the terminal's stack, and pop it again
KEEP_TITLE: Final = "\x1b[22;0t"
GIVE_TITLE_BACK: Final = "\x1b[23;0t"
EVERY: Final = 1.0
"""Seconds between two titles."""


class TerminalStatus:
    """Keeps the terminal's title current; checks each tick but rarely writes."""

    def __init__(self, write: Callable[[str], None], environ: Mapping[str, str]) -> None:
        self._plain = wants_ascii(environ)
        self._write = write
        """Writes to the terminal without filtering."""
        self._title = ""
        self._titled_at = float("-inf")
        self._was_on = False

    def begin(self) -> None:
        """Make the terminal save its title for `end`."""
        self._write(KEEP_TITLE)

    def end(self) -> None:
        """Restore the terminal's title."""
        self._write(GIVE_TITLE_BACK)

    def look(self, watch: Watch, now: Snapshot) -> RunStatus | None:
        """Update the title. Returns the status of a run that has just ended."""
        where = now.status
        ended = self._was_on and where.phase.over
        # a process that holds the workspace briefly, to store a label, looks like a run
        self._was_on = not where.phase.over and where.phase is not RunPhase.STARTING
        if ended or now.seconds - self._titled_at >= EVERY:
            self._titled_at = now.seconds
            self._show_title(title(watch, where))
        if ended:
            # a bell for whoever is elsewhere, and a notification where the terminal knows the
            # code
            self._write(f"\x07\x1b]9;Crosswind: {self._shown(where.words)}\x1b\\")
        return where if ended else None

    def _show_title(self, text: str) -> None:
        if text != self._title:
            self._title = text
            self._write(f"\x1b]0;{self._shown(text)}\x1b\\")

    def _shown(self, text: str) -> str:
        return in_ascii(one_line(text)) if self._plain else one_line(text)


def title(watch: Watch, where: RunStatus) -> str:
    """`crosswind 41% ✗12`, with a word for states other than running."""
    part, failed = how_far(watch)
    words = ["crosswind"]
    if part is not None:
        words.append(f"{part}%")
    if failed:
        words.append(f"✗{failed}")
    words.append(where.glyph)
    return " ".join(words)


def how_far(watch: Watch) -> tuple[int | None, int]:
    """The percentage of all conversations, played and judged, None without any; and the number of
    failures, including those of metrics and scenarios."""
    tallies = [
        watch.progress.stage_tally(info.name, stage)
        for info in watch.benchmarks
        for stage in (Stage.SIMULATE, Stage.EVALUATE)
    ]
    total = sum(tally.total for tally in tallies)
    done = sum(tally.done for tally in tallies)
    failed = sum(watch.tally(info, stage).failed for info in watch.benchmarks for stage in Stage)
    return 100 * done // total if total else None, failed


def is_cut() -> bool:
    """Whether the terminal that the app was started on is gone."""
    # the stream that Textual draws on; the others may be redirected
    stream = sys.__stderr__
    # a pseudo-terminal whose other end was closed is none any more: the system refuses to tell its
    # settings, which is what isatty asks for
    return stream is None or not os.isatty(stream.fileno())


def terminal_size() -> Size:
    """The current size of the terminal, queried as Textual does."""
    return Size(*shutil.get_terminal_size())


def forget_exported_size() -> None:
    """Remove `COLUMNS` and `LINES` from the environment, if the terminal itself says its size: they
    would count for more, and do not change with it."""
    try:
        known = all(os.get_terminal_size(sys.__stdout__.fileno() if sys.__stdout__ else 1))
    except (OSError, ValueError):
        return
    if known:
        for name in ("COLUMNS", "LINES"):
            os.environ.pop(name, None)


def go_at_once() -> None:
    """End this process at once. There is no terminal to restore, and a clean exit would wait for a
    writer thread that never returns. The engine has everything that matters."""
    os._exit(0)


def can_suspend() -> bool:
    """Whether a shell with job control would notice a stop and could resume this process: it is in
    the same session, and has put us into our own process group. Directly under tmux, SSH or a
    container there is none."""
    group, session = os.getpgrp(), os.getsid(0)
    # the leader of a session has no parent in it that could resume it
    if group == session:
        return False
    if group != os.getpid():  # within a script or under another program, which stop with us
        return True
    try:
        return os.getsid(os.getppid()) == session
    except (ProcessLookupError, PermissionError):
        return False


def suspend() -> None:
    """Stop the whole process group, like Ctrl-Z in the terminal: otherwise a parent waiting for us
    would leave the terminal unread."""
    os.kill(0, signal.SIGTSTP)


_ACTIVE: Final = re.compile(
    "[\x00-\x1f\x7f-\x9f\u00ad\u061c\u200b\u200e\u200f\u2028-\u202e\u2060\u2066-\u2069"
    "\ufeff\ufff9-\ufffb\ud800-\udfff\U000e0000-\U000e007f]"
)
"""Characters without width that a terminal may act on, or that would be invisible."""


class ControlCodeFilter(LineFilter):
    """Removes from every drawn line what could act on a terminal, links included. It has no width,
    so lines keep their length."""

    def apply(self, segments: list[Segment], background: Color) -> list[Segment]:
        del background
        if not any(map(_acts, segments)):
            return segments
        return [_without_controls(segment) for segment in segments]


def _acts(segment: Segment) -> bool:
    text, style, _ = segment
    return (style is not None and style.link is not None) or (
        # the fast check first: nearly all drawn text is printable
        not text.isprintable() and _ACTIVE.search(text) is not None
    )


def _without_controls(segment: Segment) -> Segment:
    text, style, _ = segment
    if style is not None and style.link is not None:
        style = style.update_link(None)
    return Segment(_ACTIVE.sub("", text), style)


LONGEST: Final = 1.0
"""Seconds after which a key is processed even if the previous one was not reported as done: what
would report it may have left the screen."""


class KeyQueue:
    """Holds a key back until the previous one is processed. Textual sends a key to the current
    focus, even if an earlier key of the same packet (a slow line, a paste) is about to open the
    dialog it is meant for."""

    def __init__(self, app: App[Any]) -> None:
        self._app = app
        self._waiting: deque[Key] = deque()
        self._next: Key | None = None
        """The first waiting key, posted again; later keys must not pass it."""
        self._number = 0
        """The number of the key in progress, or of the last one."""
        self._is_free = True
        self._timer: Timer | None = None

    def must_wait(self, event: Key) -> bool:
        """Whether the key must wait for another in progress; it is then posted again later."""
        if self._is_free or event is self._next:
            self._next = None
            return False
        self._waiting.append(event)
        return True

    def follow(self, nodes: Sequence[DOMNode]) -> None:
        """Follow a key from the first node, to which it was given, up to the app, the last."""
        self._is_free = False
        self._number += 1
        self._timer = self._app.set_timer(LONGEST, partial(self._mark_done, self._number))
        self._pass(self._number, nodes)

    def _pass(self, number: int, nodes: Sequence[MessagePump]) -> None:
        """Follow the key through the same queues."""
        for place, node in enumerate(nodes):
            # a closing node refuses call_later: then the next one up is asked
            if node.call_later(self._pass, number, nodes[place + 1 :]):
                return
        # a screen that the key has opened takes keys once it is there, and what has the focus on
        # it is said to the app
        screen = self._app.screen
        if not screen.call_later(self._app.call_later, self._mark_done, number):
            self._mark_done(number)

    def _mark_done(self, number: int) -> None:
        if number != self._number:
            return
        if self._timer is not None:
            self._timer.stop()
        self._number += 1
        self._is_free = not self._waiting
        if self._waiting:
            self._next = self._waiting.popleft()
            self._app.post_message(self._next)


class PagerError(CrosswindError):
    """No program could show the text."""


def viewer(environ: Mapping[str, str]) -> list[str] | None:
    """The command that shows a file; None if there is none."""
    return _program(environ, ("PAGER", "VISUAL", "EDITOR"), ("less", "more", "vi"))


def editor(environ: Mapping[str, str]) -> list[str] | None:
    """The command that edits a file; None if there is none."""
    return _program(environ, ("VISUAL", "EDITOR"), ("nano", "vi"))


def _program(
    environ: Mapping[str, str], variables: Sequence[str], others: Sequence[str]
) -> list[str] | None:
    for variable in variables:
        try:
            # split as shells do: `EDITOR="code --wait"` is a program and its option
            words = shlex.split(environ.get(variable, ""))
        except ValueError:  # quotation marks that do not close
            continue
        if words and which(words[0], path=environ.get("PATH")):
            return words
    for name in others:
        if which(name, path=environ.get("PATH")):
            return [name]
    return None


async def show_file(app: App[Any], path: Path, words: Sequence[str] | None) -> None:
    """Lend the terminal to this command until it ends. Raises `PagerError`."""
    if words is None:
        raise PagerError(f"There is no pager or editor here; the text is in {path}")
    try:
        # without the batch, a frame drawn meanwhile would wait for a stopped driver
        with app.batch_update(), app.suspend(), _interrupts_are_not_ours():
            program = await asyncio.create_subprocess_exec(*words, str(path))
            await program.wait()
    except SuspendNotSupported as error:
        raise PagerError(f"This terminal cannot be handed over; the text is in {path}") from error
    except OSError as error:
        fault = f"{words[0]} could not be started: {error.strerror}"
        raise PagerError(f"{fault}; the text is in {path}") from error


@contextmanager
def _interrupts_are_not_ours() -> Iterator[None]:
    """Ignore Ctrl-C meanwhile: it reaches every process of the terminal, but is meant for the
    visible one, which does not inherit our handler."""
    before = signal.signal(signal.SIGINT, lambda _number, _frame: None)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


class _LetterTable(dict[int, str]):
    """The replacements of characters, as wide as these; computed on first use."""

    def __missing__(self, code: int) -> str:
        char = chr(code)
        plain = unicodedata.normalize("NFKD", char).encode("ascii", "ignore").decode()
        width = cell_len(char)
        braille = 0x2800 < code < 0x2900  # the lines of a plot
        letters = "*" if braille else plain if len(plain) == width else "?" * width
        self[code] = letters
        return letters


_TABLE: Final = _LetterTable({code: chr(code) for code in range(128)})
_TABLE.update(ASCII_SIGNS)


class AsciiFilter(LineFilter):
    """A line filter that replaces by ASCII and keeps the width of each line."""

    def apply(self, segments: list[Segment], background: Color) -> list[Segment]:
        del background
        if all(segment.text.isascii() for segment in segments):
            return segments
        return [
            Segment(in_ascii(segment.text), segment.style, segment.control) for segment in segments
        ]


def in_ascii(text: str) -> str:
    """The text in ASCII: other characters become a similar one of equal width, or `?`."""
    return text if text.isascii() else text.translate(_TABLE)
