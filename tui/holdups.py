"""What holds a run up, in words: so that nothing that waits looks as if it were stuck."""

from __future__ import annotations

from collections.abc import Collection
from typing import Final, NamedTuple

from engine.display import one_line
from engine.link import Board, EngineState, Limit, Wait
from tui.widgets.ink import Ink, Line, Piece, fitted
from tui.wording import count, duration

AT_MOST: Final = 4
"""Lines."""
MINUTE: Final = 60
_HELD: Final = {EngineState.PAUSED, EngineState.RUNNING, EngineState.DRAINING}
"""States in which a problem is no end."""


class Quiet(NamedTuple):
    """Nothing moves."""

    awaited: str
    """What for, in words."""
    seconds: float
    """For how long."""


def holdups(
    board: Board | None,
    width: int,
    quiet: Quiet | None = None,
    most: int = AT_MOST,
    targets: Collection[str] = (),
) -> list[Line]:
    """What a person must do something about comes first; at most so many lines. The limits of
    `targets` are told elsewhere."""
    if board is None:
        return []
    lines: list[Line] = []
    if board.problem is not None and board.state in _HELD:
        on = "  it goes on by itself when that is over"
        lines.append(_line("! held", one_line(board.problem), on, Ink.BAD))
    lines += [
        _line("‖ parked", f"{one_line(target)}: {one_line(why)}", "  U calls it again")
        for target, why in board.parked.items()
    ]
    lines += [_line("! note", one_line(notice)) for notice in board.notices]
    lines += [_line("… waits", waiting(wait)) for wait in board.waits]
    lines += [
        _line("· limit", f"{one_line(limit.model)}: {limited(limit)}", ink=Ink.MUTED)
        for limit in board.limits
        if limit.model not in targets
    ]
    if quiet is not None and not lines:
        lines.append(_line("… quiet", f"{quiet.awaited}, {since(quiet.seconds)}"))
    if len(lines) > most:
        left = len(lines) - most + 1
        lines = [*lines[: most - 1], _line("…", f"and {left} more; 5 lists what is parked")]
    return [fitted(line, width) for line in lines]


def waiting(wait: Wait) -> str:
    """`gpt: 429, again in 12 s (3 calls)`."""
    return f"{one_line(wait.model)}: {reason(wait)}"


def reason(wait: Wait) -> str:
    """The same of a model that is named already."""
    return one_line(wait.words)


def limited(limit: Limit) -> str:
    """`8 calls let through at once, 42 wait`."""
    return f"{count(limit.at_once, 'call')} let through at once, {limit.waiting} wait"


def since(seconds: float) -> str:
    """`8 s`, `2:05`."""
    return f"{seconds:.0f} s" if seconds < MINUTE else duration(seconds)


def _line(sign: str, text: str, hint: str = "", ink: Ink = Ink.WARN) -> Line:
    return [Piece(f" {sign}  ", ink), Piece(text), Piece(hint, Ink.MUTED)]
