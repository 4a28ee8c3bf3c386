"""Sizes of the terminal at which what is shown is laid out anew."""

from __future__ import annotations

from typing import Final

SIDE_BY_SIDE: Final = 112
NOT_TINY: Final = 14
"""Cells from which on two panes stand side by side, and rows from which on there is more than one
pane."""
BREAKPOINTS_ACROSS: Final = [(0, "-narrow"), (SIDE_BY_SIDE, "-normal"), (170, "-wide")]
BREAKPOINTS_DOWN: Final = [(0, "-tiny"), (NOT_TINY, "-short"), (32, "-tall")]
ROOM_FOR_NOTICE: Final = 72
"""Cells from which on the whole of a notice fits into the header."""
