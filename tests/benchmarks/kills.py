"""What is lost by engines that are killed at random moments:
`python -m tests.benchmarks.kills --kills 200`.

Each workspace's engine is killed twice, at moments spread over what an uninterrupted run takes,
then left to finish. Its models are on this machine, and say what they were asked. Times hold the
start of Python and of all that an engine loads, and are stated beside those of a first start.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory

from tests.killing.case import Report, Whole, kill_at_random, play_whole


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks.kills")
    parser.add_argument("--kills", type=int, default=200)
    parser.add_argument("--seed", type=int, default=4)
    options = parser.parse_args(arguments)
    with TemporaryDirectory() as folder:
        root = Path(folder)
        whole = play_whole(root / "whole" / "workspace")
        began = time.monotonic()
        report = kill_at_random(root, whole, options.kills, options.seed)
        took = time.monotonic() - began
    sys.stdout.write("\n".join(_lines(whole, report, took)) + "\n")
    return 0


def _lines(whole: Whole, report: Report, took: float) -> Sequence[str]:
    calls = sorted(report.first_calls_s)
    fresh = whole.ended.first_call_s or 0.0
    slowest = calls[min(len(calls) - 1, int(len(calls) * 0.99))]
    return (
        "| | |",
        "| --- | --- |",
        f"| kills | {report.kills} |",
        f"| messages acknowledged before them | {report.acknowledged} |",
        f"| lost | {report.lost} |",
        f"| asked twice | {report.asked_twice} |",
        f"| calls lost in the air | {report.in_the_air} |",
        f"| restart to first call, median | {median(calls):.2f} s |",
        f"| restart to first call, p99 | {slowest:.2f} s |",
        f"| first start to first call | {fresh:.2f} s |",
        f"| an uninterrupted run | {whole.ended.seconds:.2f} s |",
        f"| all of it | {took:.0f} s |",
    )


if __name__ == "__main__":
    sys.exit(main())
