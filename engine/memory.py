"""How a process that lives for hours keeps its memory."""

from __future__ import annotations

import asyncio
import ctypes
import gc
from contextlib import suppress
from typing import Final

_ARENA_MAX: Final = -8
"""`M_ARENA_MAX` in glibc's malloc.h."""
EVERY_S = 60.0
"""Seconds between two collections; tests, in whose process engines run, have none."""


def use_one_heap() -> None:
    """Let all threads share one heap, where the C library is glibc; call it before they begin.

    Otherwise each thread has its own, which keeps the largest size that it ever had. What reads
    much runs on whichever thread is idle: after ten writings of the files of 850 conversations, an
    engine held 108 MB, and 68 with one heap. Python lets one thread allocate at a time anyway.
    """
    with suppress(AttributeError, OSError):  # another C library
        ctypes.CDLL(None).mallopt(_ARENA_MAX, 1)


def free_unused() -> None:
    """Collect garbage, and return what was freed to the system; call it every `EVERY_S`.

    Where collections are rare, as in an app and an engine, cycles of objects pile up for an hour
    and hold on to the pages around them. It takes some 30 ms.
    """
    gc.collect()
    with suppress(AttributeError, OSError):  # another C library
        ctypes.CDLL(None).malloc_trim(0)


async def free_regularly() -> None:
    """As `free_unused`, until it is cancelled."""
    while True:
        await asyncio.sleep(EVERY_S)
        free_unused()
