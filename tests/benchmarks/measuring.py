"""What it took, and how late an event loop came to what was due. It loads next to nothing: some of
what is measured runs in processes that load nothing else."""

from __future__ import annotations

import asyncio
import json
import math
import resource
import sys
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import asdict, dataclass


@dataclass(frozen=True, slots=True)
class Cost:
    cpu_s: float
    wall_s: float
    peak_mb: float
    lag_p99_ms: float | None = None
    lag_max_ms: float | None = None
    failed: int = 0


async def measured(work: Callable[[], Awaitable[int]], every_s: float = 0.01) -> Cost:
    """Of work that says how much of it failed, in this process."""
    late: list[float] = []
    watching = asyncio.create_task(note_lateness(late, every_s))
    began, spent = time.perf_counter(), time.process_time()
    failed = await work()
    wall, cpu = time.perf_counter() - began, time.process_time() - spent
    watching.cancel()
    p99, most = quantile(late, 0.99) * 1000, max(late, default=0.0) * 1000
    return Cost(cpu, wall, peak_mb(), p99, most, failed)


async def note_lateness(late: list[float], every_s: float = 0.005) -> None:
    """Until it is cancelled: by how many seconds this loop wakes too late, each time."""
    while True:
        began = time.perf_counter()
        await asyncio.sleep(every_s)
        late.append(time.perf_counter() - began - every_s)


async def lateness(seconds: float) -> list[float]:
    """Of a loop that does nothing else, or of one that does what it does."""
    late: list[float] = []
    watching = asyncio.create_task(note_lateness(late))
    await asyncio.sleep(seconds)
    watching.cancel()
    return late


def quantile(values: Sequence[float], part: float) -> float:
    """The least value that so large a part does not exceed; 0 of none."""
    ordered = sorted(values)
    return ordered[max(0, math.ceil(part * len(ordered)) - 1)] if ordered else 0.0


def peak_mb(used: resource.struct_rusage | None = None) -> float:
    """The most memory that this process, or the one that is given, has had."""
    most = (used or resource.getrusage(resource.RUSAGE_SELF)).ru_maxrss
    return most / 1024 if sys.platform == "linux" else most / 2**20


def told(cost: Cost) -> str:
    """For whoever began this process, all of whose CPU it took."""
    return json.dumps({**asdict(cost), "cpu_s": time.process_time()})
