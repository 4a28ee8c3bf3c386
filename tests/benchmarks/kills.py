"""What is lost by engines that are killed at random moments."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory

from tests.benchmarks.frame import Row
from tests.benchmarks.measuring import quantile
from tests.killing.case import kill_at_random, play_whole


def kills(*, kills: int = 200, seed: int = 4) -> Iterator[Row]:
    """What is lost by engines that are killed at random moments.

    Each workspace's engine is killed twice, at moments spread over what an uninterrupted run takes,
    then left to finish. Its models are on this machine, and say what they were asked. Times hold
    the start of Python and of all that an engine loads, and are stated beside those of a first
    start.
    """
    with TemporaryDirectory() as folder:
        root = Path(folder)
        whole = play_whole(root / "whole" / "workspace")
        began = time.monotonic()
        report = kill_at_random(root, whole, kills, seed)
        took = time.monotonic() - began
    calls, fresh = report.first_calls_s, whole.ended.first_call_s or 0.0
    yield Row("kills", f"{report.kills}, in {took:.0f} s")
    yield Row("messages acknowledged before them", f"{report.acknowledged}")
    yield Row("lost", f"{report.lost}", "0", missed=report.lost > 0)
    yield Row("asked twice", f"{report.asked_twice}")
    yield Row("calls lost in the air", f"{report.in_the_air}")
    yield Row(
        "restart to first call, median and p99",
        f"{median(calls):.2f} s and {quantile(calls, 0.99):.2f} s; {median(calls) / fresh:.2f} x a "
        f"first start ({fresh:.2f} s)",
    )
    yield Row("an uninterrupted run", f"{whole.ended.seconds:.2f} s")
