"""The line to the terminal: whether it still stands, and going when it does not."""

from __future__ import annotations

import os
import sys


def is_cut() -> bool:
    """Whether the terminal that this was started on is gone."""
    stream = sys.__stderr__
    return stream is None or not os.isatty(stream.fileno())


def go_at_once() -> None:
    """End this process. There is no terminal left to put in order, and what would try to waits for
    a thread that writes to it and never comes back; whatever matters is in the engine's hands."""
    os._exit(0)
