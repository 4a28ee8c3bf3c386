"""Worker processes that make the calls of an engine that does not make them itself."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from rich.cells import cell_len

from engine.display import one_line
from engine.link import AgentStatus, workers_words
from tui.text.ink import Ink, Line, Piece, fitted_line, pad

SILENT: Final = 5.0
"""Seconds of silence after which a worker is marked."""
_NAME: Final = 24
"""The most cells of a name."""
_SHORT: Final = 8
"""The fewest cells of a long name."""
_BLANKS: Final = 8
"""The blanks of a worker's line, and one at its end."""


def worker_lines(
    agents: Sequence[AgentStatus], width: int, *, opened: bool, most: int
) -> list[Line]:
    """One line for all workers, or if `opened` one each, the silent ones first, at most `most`. No
    lines without workers."""
    if not agents:
        return []
    hint = "  H folds them" if opened else "  H lists them"
    lines: list[Line] = [
        [Piece(" ⇄  ", Ink.MUTED), Piece(workers_words(agents)), Piece(hint, Ink.MUTED)]
    ]
    if opened:
        lines += _worker_lines(agents, width, most)
    return [fitted_line(line, width) for line in lines]


def _worker_lines(agents: Sequence[AgentStatus], width: int, most: int) -> list[Line]:
    """What a worker does is shown whole, at the cost of names and hosts."""
    silent_first = sorted(agents, key=lambda agent: (-int(agent.heard_s), agent.host, agent.name))
    shown = silent_first if len(agents) <= most else silent_first[: most - 1]
    words = max(cell_len(one_line(agent.words)) for agent in shown)
    rest = max(width - words - _BLANKS, 2 * _SHORT)
    host_room = min(max(cell_len(one_line(agent.host)) for agent in shown), _NAME)
    room = min(max(cell_len(one_line(agent.name)) for agent in shown), _NAME)
    room = min(room, max(rest - host_room, rest // 2))
    host_room = min(host_room, rest - room)
    lines: list[Line] = [
        [
            Piece(f"   {pad(one_line(agent.name), room, middle=True)}  ", Ink.TEXT),
            Piece(f"{pad(one_line(agent.host), host_room, middle=True)}  ", Ink.MUTED),
            Piece(one_line(agent.words), Ink.WARN if agent.heard_s >= SILENT else Ink.MUTED),
        ]
        for agent in shown
    ]
    left = len(agents) - len(shown)
    if left:
        lines.append([Piece(f"   and {left} more; `crosswind status` lists all", Ink.MUTED)])
    return lines
