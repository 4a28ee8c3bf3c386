"""Says what holds a run up: when that begins, at growing intervals, and when it ends."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from engine.link import Board, PauseKind

SHORT_S: Final = 5.0
"""Seconds that calls may wait before that is a pause."""
FIRST_S: Final = 60.0
"""Seconds until a pause is said again, which are doubled each time."""
LONGEST_S: Final = 3600.0
_TRIED_S: Final = 15.0
"""Seconds without a wait after which it is over: none is seen during the next try itself."""


@dataclass(slots=True)
class _Pause:
    words: str
    since: float
    seen: float
    due: float
    interval: float = 0.0
    """Seconds between the last two times that it was said; 0 if it was not yet said."""


class PauseNews:
    """Hears the board of an engine again and again, with the seconds of a steady clock."""

    def __init__(self, *, questions: bool = True) -> None:
        """`questions` are pauses, too, unless they are asked in another way."""
        self._questions = questions
        self._pauses: dict[tuple[PauseKind, str], _Pause] = {}

    def hear(self, board: Board, now: float) -> Iterator[str]:
        """Yield a line for each pause that has begun, goes on or is over."""
        for key, words in board.pauses.items():
            if key[0] is PauseKind.ASKED and not self._questions:
                continue
            begins = now + SHORT_S if key[0] is PauseKind.WAITS else now
            pause = self._pauses.setdefault(key, _Pause(words, now, now, begins))
            pause.words, pause.seen = words, now
            if now >= pause.due:
                still = f"still, after {_elapsed(now - pause.since)}: " if pause.interval else ""
                pause.interval = min(2 * pause.interval or FIRST_S, LONGEST_S)
                pause.due = now + pause.interval
                yield f"held up: {still}{words}"
        for key, pause in list(self._pauses.items()):
            if now - pause.seen > (_TRIED_S if key[0] is PauseKind.WAITS else 0):
                del self._pauses[key]
                if pause.interval:
                    yield f"over, after {_elapsed(pause.seen - pause.since)}: {pause.words}"


def _elapsed(seconds: float) -> str:
    if seconds < 120:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 7200 else f"{seconds / 3600:.0f} h"
