"""Loads what other screens need while the first is looked at, so that no first key waits for it."""

from __future__ import annotations

import threading
from importlib import import_module
from typing import Final

from tui.places import PLACES

_SCREENS: Final = (
    "tui.screens.search",
    *(place.screen.partition(":")[0] for place in PLACES),
    "tui.screens.go_to",
    "tui.screens.help",
)
"""One key away from everywhere."""


def preload() -> threading.Thread:
    """On a thread of its own; a key that needs one of them meanwhile waits for that one alone."""
    thread = threading.Thread(target=_load, name="preload", daemon=True)
    thread.start()
    return thread


def _load() -> None:
    for module in _SCREENS:
        import_module(module)
