"""Keeps Python's search for garbage from holding up a frame."""

from __future__ import annotations

import gc
from typing import Final

THRESHOLDS: Final = (20_000, 20, 20)
"""A screen makes and drops tens of thousands of objects. At Python's own thresholds everything that
there is was gone through in most of the screens that were opened, for forty milliseconds each."""


def collect_seldom() -> None:
    """Once, before the first screen: what has been loaded by then is there to stay."""
    gc.freeze()
    gc.set_threshold(*THRESHOLDS)
