"""What holds a run up, in words: so that nothing that waits looks as if it were stuck."""

from __future__ import annotations

from typing import Final

from engine.display import one_line
from engine.link import Board, Wait
from tui.widgets.ink import Ink, Line, Piece, fitted
from tui.wording import count

AT_MOST: Final = 4
"""Lines."""


def holdups(board: Board | None, width: int) -> list[Line]:
    """What a person must do something about comes first."""
    if board is None:
        return []
    lines: list[Line] = [
        _line("‖ parked", f"{one_line(target)}: {one_line(why)}", "  U calls it again")
        for target, why in board.parked.items()
    ]
    lines += [_line("! note", one_line(notice)) for notice in board.notices]
    lines += [_line("… waits", _waiting(wait)) for wait in board.waits]
    if len(lines) > AT_MOST:
        left = len(lines) - AT_MOST + 1
        lines = [*lines[: AT_MOST - 1], _line("…", f"and {left} more; 5 lists what is parked")]
    return [fitted(line, width) for line in lines]


def _waiting(wait: Wait) -> str:
    """`gpt: 429, again in 12 s (3 calls)`."""
    again = "" if wait.seconds is None else f", again in {wait.seconds:.0f} s"
    calls = "" if wait.calls == 1 else f" ({count(wait.calls, 'call')})"
    return f"{one_line(wait.model)}: {one_line(wait.why)}{again}{calls}"


def _line(sign: str, text: str, hint: str = "") -> Line:
    return [Piece(f" {sign}  ", Ink.WARN), Piece(text), Piece(hint, Ink.MUTED)]
