"""Waits for the signals by which terminals, schedulers and Kubernetes end a process."""

from __future__ import annotations

import asyncio
import signal
from typing import Final

_ENDING: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


async def asked_to_end() -> None:
    """Wait for the first such signal; afterwards, a second one ends the process as usual."""
    loop = asyncio.get_running_loop()
    asked = asyncio.Event()
    for number in _ENDING:
        loop.add_signal_handler(number, asked.set)
    try:
        await asked.wait()
    finally:
        for number in _ENDING:
            loop.remove_signal_handler(number)
