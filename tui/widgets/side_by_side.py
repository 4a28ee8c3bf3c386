"""Two texts side by side, scrolled together. Blocks with the same key on both sides begin on the
same row."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Hashable, Sequence
from itertools import accumulate
from typing import ClassVar, Final, NamedTuple

from textual import events
from textual.binding import Binding, BindingType

from tui.text.blocks import Block, Document, Rule
from tui.text.ink import Ink, Line, Piece, fitted_line, length
from tui.widgets.base import LineView

_BETWEEN: Final = Piece("│", Ink.RULE)


class _AlignedRows(NamedTuple):
    """Rows of both sides that stand beside each other: their first rows and their numbers."""

    key: Hashable
    """The key of the block that it begins with on both sides; None for rows before the first."""
    begins_turn: bool
    tops: tuple[int, int]
    heights: tuple[int, int]

    @property
    def height(self) -> int:
        return max(self.heights)


class SideBySide(LineView):
    """A view of two documents side by side. `{` and `}` go from rule to rule."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("left_curly_bracket", "previous_rule", "previous turn", show=False),
        Binding("right_curly_bracket", "next_rule", "next turn", show=False),
    ]

    def __init__(self, *, id: str | None = None) -> None:  # noqa: A002  (Textual's name for it)
        super().__init__(lambda: self._tops[-1], self._row, id=id)
        self._sides: tuple[Sequence[Block], Sequence[Block]] = ((), ())
        self._documents = (Document(), Document())
        self._parts: list[_AlignedRows] = []
        self._tops: list[int] = [0]

    def show(self, left: Sequence[Block], right: Sequence[Block]) -> None:
        """Show these blocks; what the user is reading stays in place if it is still there."""
        if (left, right) == self._sides:
            return
        place = self._part_at(self.top)
        self._sides = (left, right)
        self._lay()
        if place is not None:
            self._go_to_part(*place)

    def _row(self, index: int) -> Line:
        number = bisect_right(self._tops, index) - 1
        part, offset = self._parts[number], index - self._tops[number]
        left, right = (
            document.line(top + offset) if offset < height else []
            for document, top, height in zip(self._documents, part.tops, part.heights, strict=True)
        )
        left = fitted_line(left, self._width)
        blank = Piece(" " * (self._width - length(left)))
        return [*left, blank, _BETWEEN, *fitted_line(right, self._width)]

    def on_resize(self, event: events.Resize) -> None:
        del event
        place = self._part_at(self.top)
        self._lay()
        if place is not None:
            self._go_to_part(*place)

    def action_next_rule(self) -> None:
        below = [top for top in self._turns() if top > self.top]
        if below:
            self.jump(below[0])

    def action_previous_rule(self) -> None:
        above = [top for top in self._turns() if top < self.top]
        self.jump(above[-1] if above else 0)

    def _turns(self) -> list[int]:
        """The rows of rules that both sides share."""
        return [top for part, top in zip(self._parts, self._tops, strict=False) if part.begins_turn]

    @property
    def _width(self) -> int:
        """The width of one side in cells."""
        return max((self.line_width - 1) // 2, 1)

    def _lay(self) -> None:
        if not self.size:
            return  # it comes here again as soon as it has one
        for document, blocks in zip(self._documents, self._sides, strict=True):
            if document.width != self._width:
                document.resize(self._width)
            document.set(blocks)
        self._parts = _aligned_parts(self._documents, self._sides)
        self._tops = [0, *accumulate(part.height for part in self._parts)]
        self.measure(self._tops[-1])
        self.redraw()

    def _part_at(self, row: int) -> tuple[Hashable, int] | None:
        number = bisect_right(self._tops, row) - 1
        if not 0 <= number < len(self._parts):
            return None
        return self._parts[number].key, row - self._tops[number]

    def _go_to_part(self, key: Hashable, offset: int) -> None:
        for part, top in zip(self._parts, self._tops, strict=False):
            if part.key == key:
                self.jump(top + min(offset, max(part.height - 1, 0)))
                return


def _aligned_parts(
    documents: tuple[Document, Document], sides: tuple[Sequence[Block], Sequence[Block]]
) -> list[_AlignedRows]:
    """Split at the blocks whose keys are on both sides, in the same order."""
    left, right = (
        {block.key: (top, isinstance(block, Rule)) for block, top in zip(side, tops, strict=True)}
        for side, tops in zip(sides, (document.tops() for document in documents), strict=True)
    )
    starts: list[tuple[Hashable, bool, int, int]] = [(None, False, 0, 0)]
    for key, (top, is_rule) in left.items():
        other = right.get(key, (-1, False))[0]
        # blocks that have changed places cannot both be aligned: the first on the left is
        if other >= starts[-1][3]:
            starts.append((key, is_rule, top, other))
    ends = [(start[2], start[3]) for start in starts[1:]]
    ends.append((documents[0].height, documents[1].height))
    parts = [
        _AlignedRows(key, is_rule, (one, other), (end - one, other_end - other))
        for (key, is_rule, one, other), (end, other_end) in zip(starts, ends, strict=True)
    ]
    return [part for part in parts if part.height]
