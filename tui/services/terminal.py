"""The terminal around the app: its title and bell, its size and whether it is there, keys one after
the other, a filter behind every widget for what could act on it; and lent to a pager or editor."""

from __future__ import annotations

import asyncio
import os
import re
import shlex
import shutil
import signal
import sys
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from shutil import which
from typing import Any, Final

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
from engine.display import one_line, wants_ascii
from engine.errors import CrosswindError
from engine.link import Board
from engine.watch import Watch
from tui.services.plain_letters import in_ascii
from tui.state.run_status import RunPhase, RunStatus, current_benchmark, status_of

# xterm's: the title is put on a stack of the terminal's own, and taken from it again
KEEP_TITLE: Final = "\x1b[22;0t"
GIVE_TITLE_BACK: Final = "\x1b[23;0t"
# ConEmu's, which other terminals took over: 1 is running, 2 has failures, 4 is paused
NO_PROGRESS: Final = "\x1b]9;4;0;\x1b\\"
PROGRESS_VARIABLE: Final = "CROSSWIND_PROGRESS"
"""In the environment: set to anything, the terminal is told how far the run is."""
EVERY: Final = 1.0
"""Seconds between two titles."""


class TerminalStatus:
    """Looks at each tick, and speaks seldom."""

    def __init__(self, write: Callable[[str], None], environ: Mapping[str, str]) -> None:
        """Where `PROGRESS_VARIABLE` is set, the terminal is told how far the run is, for its tab or
        the task bar: some show what they do not know as text, so a person asks for it."""
        self._plain = wants_ascii(environ)
        self._write = write
        """To the terminal, as it is."""
        self._progress = bool(environ.get(PROGRESS_VARIABLE))
        self._title = ""
        self._shown_progress = NO_PROGRESS
        self._titled_at = float("-inf")
        self._was_on = False

    def begin(self) -> None:
        """Has the terminal keep its title for `end`."""
        self._write(KEEP_TITLE)

    def end(self) -> None:
        """Gives the terminal its title back and takes the progress away."""
        self._write((NO_PROGRESS if self._progress else "") + GIVE_TITLE_BACK)

    def look(self, watch: Watch, board: Board | None, seconds: float) -> RunStatus | None:
        """Where the run stands, where it has ended since the last look."""
        where = status_of(watch.progress, board, current_benchmark(watch))
        ended = self._was_on and where.phase.over
        # whoever holds the workspace for a moment, to store a label, seems to start a run
        self._was_on = not where.phase.over and where.phase is not RunPhase.STARTING
        if ended or seconds - self._titled_at >= EVERY:
            self._titled_at = seconds
            self._show_title(title(watch, where))
            self._show_progress(watch, where)
        if ended:
            # a bell for whoever is elsewhere, and a notification where the terminal knows the
            # code
            self._write(f"\x07\x1b]9;Crosswind: {self._shown(where.words)}\x1b\\")
        return where if ended else None

    def _show_progress(self, watch: Watch, where: RunStatus) -> None:
        if not self._progress:
            return
        part, failed = how_far(watch)
        # OSC 9;4, which began with ConEmu: 1 goes on, 2 has faults, 4 pauses
        state = 2 if failed else 4 if where.phase is RunPhase.PAUSED else 1
        known = part is not None and not where.phase.over
        text = f"\x1b]9;4;{state};{part}\x1b\\" if known else NO_PROGRESS
        if text != self._shown_progress:
            self._shown_progress = text
            self._write(text)

    def _show_title(self, text: str) -> None:
        if text != self._title:
            self._title = text
            self._write(f"\x1b]0;{self._shown(text)}\x1b\\")

    def _shown(self, text: str) -> str:
        return in_ascii(one_line(text)) if self._plain else one_line(text)


def title(watch: Watch, where: RunStatus) -> str:
    """`crosswind 41% ✗12`, with a word for what is not plain running."""
    part, failed = how_far(watch)
    words = ["crosswind"]
    if part is not None:
        words.append(f"{part}%")
    if failed:
        words.append(f"✗{failed}")
    words.append(where.glyph)
    return " ".join(words)


def how_far(watch: Watch) -> tuple[int | None, int]:
    """Percent of all conversations, played and judged, None without any; and what failed, of
    metrics and scenarios too."""
    tallies = [
        watch.progress.stage_tally(info.name, stage)
        for info in watch.benchmarks
        for stage in (Stage.SIMULATE, Stage.EVALUATE)
    ]
    total = sum(tally.total for tally in tallies)
    done = sum(tally.done for tally in tallies)
    failed = sum(
        watch.progress.stage_tally(info.name, stage).failed
        for info in watch.benchmarks
        for stage in Stage
    )
    return 100 * done // total if total else None, failed


def is_cut() -> bool:
    """Whether the terminal that this was started on is gone."""
    # what Textual draws on; the others may be redirected
    stream = sys.__stderr__
    # a pseudo-terminal whose other end was closed is none any more: the system refuses to tell its
    # settings, which is what isatty asks for
    return stream is None or not os.isatty(stream.fileno())


def terminal_size() -> Size:
    """The size as it is now, asked in the way that Textual asks for it."""
    return Size(*shutil.get_terminal_size())


def go_at_once() -> None:
    """End this process. There is no terminal left to put in order, and what would try to waits for
    a thread that writes to it and never comes back; whatever matters is in the engine's hands."""
    os._exit(0)


def can_suspend() -> bool:
    """Whether a shell with job control would notice that this process has stopped, and could bring
    it back: it is in the same session, and has put us into a process group of our own. Without one,
    as right under tmux, SSH or a container, nobody could."""
    group, session = os.getpgrp(), os.getsid(0)
    # the leader of a session has no parent in it that could continue it
    if group == session:
        return False
    if group != os.getpid():  # within a script or under another program, which stop with us
        return True
    try:
        return os.getsid(os.getppid()) == session
    except (ProcessLookupError, PermissionError):
        return False


def suspend() -> None:
    """Stop everything of this process group, as the terminal's own Ctrl-Z does: whoever started us
    and waits for us would else sit before a terminal that nobody reads."""
    os.kill(0, signal.SIGTSTP)


_ACTIVE: Final = re.compile(
    "[\x00-\x1f\x7f-\x9f\u00ad\u061c\u200b\u200e\u200f\u2028-\u202e\u2060\u2066-\u2069"
    "\ufeff\ufff9-\ufffb\ud800-\udfff\U000e0000-\U000e007f]"
)
"""Characters without width that some terminal acts on, or that nobody would see."""


class ControlCodeFilter(LineFilter):
    """Takes out of every drawn line what could act on a terminal, links included.

    What it removes has no width, so the line keeps its length.
    """

    def apply(self, segments: list[Segment], background: Color) -> list[Segment]:
        del background
        if not any(map(_acts, segments)):
            return segments
        return [_disarmed(segment) for segment in segments]


def _acts(segment: Segment) -> bool:
    text, style, _ = segment
    return (style is not None and style.link is not None) or (
        # the quick question first: nearly all that is drawn is printable
        not text.isprintable() and _ACTIVE.search(text) is not None
    )


def _disarmed(segment: Segment) -> Segment:
    text, style, _ = segment
    if style is not None and style.link is not None:
        style = style.update_link(None)
    return Segment(_ACTIVE.sub("", text), style)


LONGEST: Final = 1.0
"""Seconds after which a key is taken though nobody has said that the one before it is done: what
was to say it may have gone from the screen."""


class KeyQueue:
    """Holds a key back until the one before it is done. Textual gives a key to whatever has the
    focus when it arrives, though an earlier key of the same packet (a slow line, a paste) may be
    about to open the dialog that it is meant for."""

    def __init__(self, app: App[Any]) -> None:
        self._app = app
        self._waiting: deque[Key] = deque()
        self._next: Key | None = None
        """The first that waited, on its way back to the app: none that comes in passes it."""
        self._number = 0
        """Of the key that is on its way, or was last."""
        self._is_free = True
        self._timer: Timer | None = None

    def must_wait(self, event: Key) -> bool:
        """Whether it is kept for later, since another is on its way. It is posted anew then."""
        if self._is_free or event is self._next:
            self._next = None
            return False
        self._waiting.append(event)
        return True

    def follow(self, nodes: Sequence[DOMNode]) -> None:
        """A key was handed to the first of these, from which it goes up to the app, the last."""
        self._is_free = False
        self._number += 1
        self._timer = self._app.set_timer(LONGEST, partial(self._done, self._number))
        self._pass(self._number, nodes)

    def _pass(self, number: int, nodes: Sequence[MessagePump]) -> None:
        """Behind the key through the same queues."""
        for place, node in enumerate(nodes):
            # call_later is refused by a node that is closing: then the next one up is asked
            if node.call_later(self._pass, number, nodes[place + 1 :]):
                return
        # a screen that the key has opened takes keys once it is there, and what has the focus on
        # it is said to the app
        screen = self._app.screen
        if not screen.call_later(self._app.call_later, self._done, number):
            self._done(number)

    def _done(self, number: int) -> None:
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
    """The words of the program that shows a file here; None where there is none."""
    return _program(environ, ("PAGER", "VISUAL", "EDITOR"), ("less", "more", "vi"))


def editor(environ: Mapping[str, str]) -> list[str] | None:
    """The words of the program that changes a file here; None where there is none."""
    return _program(environ, ("VISUAL", "EDITOR"), ("nano", "vi"))


def _program(
    environ: Mapping[str, str], variables: Sequence[str], others: Sequence[str]
) -> list[str] | None:
    for variable in variables:
        try:
            # as shells take it: `EDITOR="code --wait"` is a program and its option
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
    """Hand the terminal over to the program of these words until it ends. Raises `PagerError`."""
    if words is None:
        raise PagerError(f"There is no pager or editor here; the text is in {path}")
    try:
        # without the batch, a frame that is drawn meanwhile waits for a driver that is at rest
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
    """Ctrl-C reaches every process of the terminal, and is meant for the one that is seen. A
    handler of ours is not inherited, so that one has its own."""
    before = signal.signal(signal.SIGINT, lambda _number, _frame: None)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
