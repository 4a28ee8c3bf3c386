"""The clock of this room, which comes in from outside so that a test can hold it."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime


def _now() -> datetime:
    return datetime.now(UTC)


@dataclass(frozen=True, slots=True)
class Clock:
    """Time and chance, as the retries of this room go by them."""

    monotonic: Callable[[], float] = time.monotonic
    """Seconds from no particular beginning."""
    now: Callable[[], datetime] = _now
    """Aware, UTC; for dates that servers send."""
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep
    random: Callable[[], float] = field(default_factory=lambda: random.Random().random)
    """From 0 up to 1."""
