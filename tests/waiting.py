"""How tests wait for what others do, and hold what takes time: on a slow or busy machine, too."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Callable
from types import TracebackType
from typing import Final, TypeVar

T = TypeVar("T")

PATIENCE_S: Final = 120.0
"""Longer than anything takes that ends at all, and shorter than a test may take."""
_PLAIN_S: Final = 0.0055
"""Seconds of CPU that `_plain_work` took where the bounds were set."""
_TRIES: Final = 6


def until(met: Callable[[], T], otherwise: Callable[[], str] = str, every_s: float = 0.005) -> T:
    """Look again and again until there is something to see, and hand that back; `otherwise` says
    what there is where it never comes."""
    end = time.monotonic() + PATIENCE_S
    while not (found := met()):
        assert time.monotonic() < end, f"it never came to that; {otherwise()}"
        time.sleep(every_s)
    return found


class Child(subprocess.Popen[str]):
    """A process that does not outlive its block, however that ends."""

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.kill()  # nothing happens where it has ended
        super().__exit__(kind, error, trace)


def slowness(work: Callable[[], object], at_most_s: float) -> str:
    """Empty where it takes no more CPU at one of several tries; on a machine on which plain work
    takes longer, it may take as much longer."""
    took = list[str]()
    for _ in range(_TRIES):
        spent = _cpu_s(work)
        if spent <= at_most_s:
            return ""
        slowed = _cpu_s(_plain_work) / _PLAIN_S
        if spent <= at_most_s * slowed:
            return ""
        took.append(f"{spent:.3f} s where plain work takes {slowed:.1f} times as long")
    return f"more than {at_most_s} s: {', '.join(took)}"


def assert_quick(work: Callable[[], object], at_most_s: float) -> None:
    assert not (told := slowness(work, at_most_s)), told


def _cpu_s(work: Callable[[], object]) -> float:
    began = time.process_time()
    work()
    return time.process_time() - began


def _plain_work() -> None:
    found = dict[int, int]()
    for number in range(60_000):
        found[number % 997] = found.get(number % 997, 0) + len(str(number))
