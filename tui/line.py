"""The line to the terminal: whether it stands, how wide it is, and going when it is cut."""

from __future__ import annotations

import os
import shutil
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
