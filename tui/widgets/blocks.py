"""What a transcript is made of, and where each piece of it lies. Knows no screen.

A document is given its blocks whole again and again, and finds out by itself what has changed. A
passage that has only grown is wrapped from its last row on.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field
from itertools import accumulate
from typing import Final, NamedTuple

from tui.widgets import markdown
from tui.widgets.ink import Ink, Piece, Styled, fitted, length, pad, painted
from tui.widgets.wrap import Row, wrap

LABEL_WIDTH: Final = 10
NARROW: Final = 40
"""Below it, labels stand above their passage instead of beside it."""
READABLE: Final = 96
"""Text is not set wider than this: longer rows are hard to read."""


@dataclass(frozen=True, slots=True)
class Rule:
    """A title, and a thin line behind it."""

    key: Hashable
    title: str
    note: str = ""
    """At the right end."""
    ink: Ink = Ink.MUTED
    lined: bool = True


@dataclass(frozen=True, slots=True)
class Passage:
    """A text and who or what it is from. All of its text is fit to be drawn."""

    key: Hashable
    label: str
    text: str
    label_ink: Ink = Ink.MUTED
    ink: Ink = Ink.TEXT
    gutter: Ink | None = None
    """A thin bar along the text."""
    light_markdown: bool = False
    marks: tuple[Styled, ...] = ()
    """Evidence, and what was searched for, each in the order of the text."""
    folded: bool = False
    """Shown as one row."""
    growing: bool = False
    """It is being written at this moment."""
    close: bool = False
    """No blank row behind it."""


Block = Rule | Passage


class Mark(NamedTuple):
    """Where a piece of evidence is: the index of its block, and which of the block's it is."""

    block: int
    number: int


@dataclass(slots=True)
class _Laid:
    """A block, and its rows in the present width."""

    block: Block
    rows: list[Row] = field(default_factory=list)
    head: int = 0
    """Rows before the text."""
    fences: list[int] = field(default_factory=list)

    @property
    def marks(self) -> tuple[Styled, ...]:
        return self.block.marks if isinstance(self.block, Passage) else ()

    @property
    def height(self) -> int:
        match self.block:
            case Rule():
                return 1
            case Passage(close=close):
                return self.head + len(self.rows) + (not close)


class Document:
    """Blocks one below the other, in rows of a width."""

    def __init__(self, width: int = 80) -> None:
        self.width = width
        self._laid: list[_Laid] = []
        self._tops: list[int] = [0]
        """Of each block, and of what would come behind the last one."""

    @property
    def height(self) -> int:
        return self._tops[-1]

    @property
    def trailing_blank(self) -> int:
        """Rows at the end that show nothing and need not be seen."""
        last = self._laid[-1].block if self._laid else None
        return int(isinstance(last, Passage) and not last.close)

    def set(self, blocks: Sequence[Block]) -> int | None:
        """Hold these blocks; the first row that differs from before, None where none does."""
        laid: list[_Laid] = []
        first: int | None = None
        top = 0
        for index, block in enumerate(blocks):
            before = self._laid[index] if index < len(self._laid) else None
            new, changed = self._renewed(before, block)
            if first is None and changed is not None:
                first = top + changed
            laid.append(new)
            top += new.height
        if first is None and len(laid) < len(self._laid):
            first = top
        self._place(laid)
        return first

    def resize(self, width: int) -> None:
        self.width = width
        self._place([self._lay(laid.block) for laid in self._laid])

    def locate(self, row: int) -> tuple[Hashable, int] | None:
        """The key of the block that has this row, and the row's number in it."""
        index = bisect_right(self._tops, row) - 1
        if not 0 <= index < len(self._laid):
            return None
        return self._laid[index].block.key, row - self._tops[index]

    def find(self, place: tuple[Hashable, int]) -> int | None:
        """The row that `locate` told of, or the nearest one that its block still has."""
        key, row = place
        for laid, top in zip(self._laid, self._tops, strict=False):
            if laid.block.key == key:
                return top + min(row, laid.height - 1)
        return None

    def tops(self) -> list[int]:
        """The first row of each block."""
        return self._tops[:-1]

    def rules(self) -> list[int]:
        """The rows of all rules."""
        return [
            top
            for laid, top in zip(self._laid, self._tops, strict=False)
            if isinstance(laid.block, Rule)
        ]

    def marks(self, ink: Ink | None = None) -> list[Mark]:
        """All marks, or those in an ink, in the order of the text."""
        return [
            Mark(index, number)
            for index, laid in enumerate(self._laid)
            for number, style in enumerate(laid.marks)
            if ink is None or style.ink is ink
        ]

    def mark_rows(self, mark: Mark) -> tuple[int, int]:
        """From which row to before which one a mark reaches."""
        laid = self._laid[mark.block]
        style = laid.marks[mark.number]
        starts = [row.start for row in laid.rows]
        first = max(bisect_right(starts, style.start) - 1, 0)
        last = max(bisect_right(starts, max(style.end - 1, style.start)) - 1, 0)
        base = self._tops[mark.block] + laid.head
        return base + first, base + last + 1

    def line(self, row: int, mark: Mark | None = None) -> list[Piece]:
        """What a row shows; `mark` is the one that was jumped to."""
        index = bisect_right(self._tops, row) - 1
        laid, number = self._laid[index], row - self._tops[index]
        if isinstance(laid.block, Rule):
            return self._rule(laid.block)
        current = mark.number if mark is not None and mark.block == index else None
        return self._passage_row(laid, laid.block, number, current)

    def _place(self, laid: list[_Laid]) -> None:
        self._laid = laid
        self._tops = [0, *accumulate(each.height for each in laid)]

    def _renewed(self, before: _Laid | None, block: Block) -> tuple[_Laid, int | None]:
        """The block laid out, and the first of its rows that differs from what was there."""
        if before is not None and (before.block is block or before.block == block):
            return before, None
        if before is not None and isinstance(block, Passage) and _grew(before.block, block):
            return self._extended(before, block)
        return self._lay(block), 0

    def _lay(self, block: Block) -> _Laid:
        if isinstance(block, Rule):
            return _Laid(block)
        head = int(self._is_narrow and bool(block.label))
        rows = (
            [Row(0, len(block.text))]
            if block.folded
            else wrap(block.text, self._text_width(block.gutter))
        )
        return _Laid(block, rows, head, markdown.fences(block.text) if block.light_markdown else [])

    def _extended(self, laid: _Laid, block: Passage) -> tuple[_Laid, int]:
        last = laid.rows[-1].start
        longer = _Laid(block, laid.rows[:-1], laid.head)
        longer.rows += wrap(block.text, self._text_width(block.gutter), last)
        if block.light_markdown:
            line = block.text.rfind("\n", 0, last) + 1
            longer.fences = [fence for fence in laid.fences if fence < line]
            longer.fences += markdown.fences(block.text, line)
        return longer, laid.head + len(laid.rows) - 1

    @property
    def _is_narrow(self) -> bool:
        return self.width < NARROW

    def _text_width(self, gutter: Ink | None) -> int:
        margin = 0 if self._is_narrow else 1 + LABEL_WIDTH
        return max(min(self.width - margin - 2 * (gutter is not None) - 1, READABLE), 1)

    def _rule(self, rule: Rule) -> list[Piece]:
        title = [Piece(" "), Piece(rule.title, rule.ink), Piece(" ")] if rule.title else []
        note = [Piece(" "), Piece(rule.note, Ink.MUTED), Piece(" ")] if rule.note else []
        room = self.width - length(title) - length(note)
        if room < 1:
            title, note = fitted(title, self.width), []
            room = self.width - length(title)
        return [*title, Piece(("─" if rule.lined else " ") * room, Ink.RULE), *note]

    def _passage_row(
        self, laid: _Laid, passage: Passage, number: int, current: int | None
    ) -> list[Piece]:
        number -= laid.head
        if number < 0:
            return [Piece(passage.label, passage.label_ink)]
        if number >= len(laid.rows):
            return []
        row = laid.rows[number]
        line = [] if self._is_narrow else self._margin(passage, is_first=number == 0)
        if passage.gutter is not None:
            line.append(Piece("▎ ", passage.gutter))
        line += self._text(laid, passage, row, current)
        if passage.growing and number == len(laid.rows) - 1:
            line.append(Piece("▍", Ink.ACCENT))
        return fitted(line, self.width - 1) if passage.folded else line

    def _margin(self, passage: Passage, *, is_first: bool) -> list[Piece]:
        if not is_first:
            return [Piece(" " * (1 + LABEL_WIDTH))]
        return [Piece(" " + pad(passage.label, LABEL_WIDTH - 1) + " ", passage.label_ink)]

    def _text(self, laid: _Laid, passage: Passage, row: Row, current: int | None) -> list[Piece]:
        styles: list[Styled] = []
        if passage.light_markdown:
            start = passage.text.rfind("\n", 0, row.start) + 1
            end = passage.text.find("\n", row.start)
            styles += markdown.styles(
                passage.text, start, len(passage.text) if end < 0 else end, laid.fences
            )
        styles += passage.marks
        if current is not None:
            styles.append(passage.marks[current]._replace(ink=Ink.EVIDENCE_NOW))
        pieces = painted(passage.text, row.start, row.end, styles, passage.ink)
        if passage.folded:
            pieces = [Piece(" ".join(text.split()), ink) for text, ink in pieces]
        return [Piece(" " * row.indent), *pieces] if row.indent else pieces


def _grew(before: Block, after: Passage) -> bool:
    """Whether `after` is the same passage, with more text or as much."""
    return (
        isinstance(before, Passage)
        and before.key == after.key
        and before.growing
        and not (before.folded or after.folded)
        and before.close == after.close
        and (before.label, before.gutter) == (after.label, after.gutter)
        and before.marks == after.marks
        and after.text.startswith(before.text)
    )
