"""When a process of a cluster is asked to end, as terminals, schedulers and Kubernetes ask."""

from __future__ import annotations

import asyncio
import signal
from typing import Final

_ENDING: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


async def asked_to_end() -> None:
    """Once; a second time ends the process at once, as if this was not here."""
    loop = asyncio.get_running_loop()
    asked = asyncio.Event()
    for number in _ENDING:
        loop.add_signal_handler(number, asked.set)
    try:
        await asked.wait()
    finally:
        for number in _ENDING:
            loop.remove_signal_handler(number)
