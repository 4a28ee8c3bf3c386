"""The line to the terminal: whether it stands, how wide it is, and going when it is cut."""

from __future__ import annotations

import os
import shutil
import signal
import sys

from textual.geometry import Size


def is_cut() -> bool:
    """Whether the terminal that this was started on is gone."""
    stream = sys.__stderr__
    return stream is None or not os.isatty(stream.fileno())


def terminal_size() -> Size:
    """As it is now, asked in the way that Textual asks for it."""
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
