"""Lay out the blocks of a transcript in rows. Independent of any screen.

A document is given all of its blocks each time, and works out what has changed. A passage that has
only grown is wrapped again from its last row on."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field
from itertools import accumulate
from operator import attrgetter, itemgetter
from typing import Final, NamedTuple

from rich.cells import cell_len

from tui.text import ink
from tui.text.ink import Ink, Piece, Styled, fitted_line, length, pad, painted
from tui.text.wrap import TextRow, Wrapped

LABEL_WIDTH: Final = 10
NARROW: Final = 40
"""Below this many cells, a label stands above its passage instead of beside it."""
ROOM_FOR_LEAD: Final = 30
"""Below this many cells, text begins in the first column."""
READABLE: Final = 96
"""Text is set at most this many cells wide: longer rows are hard to read."""
RAIL: Final = 28
ROOM_FOR_RAIL: Final = 104
"""The rail's width in cells, and how wide a document must be to show its rail."""
LEAST_TITLE: Final = 20
"""If a title would have fewer cells than this, its note is left out."""
LONG_LINE: Final = 5_000
"""A line with more characters than this is not read as Markdown."""


@dataclass(frozen=True, slots=True)
class Rule:
    """A title followed by a thin line."""

    key: Hashable
    title: str
    note: str = ""
    """Shown at the right end."""
    ink: Ink = Ink.MUTED
    lined: bool = True


@dataclass(frozen=True, slots=True)
class Passage:
    """A text with a label that names its source. The text must be safe to draw already."""

    key: Hashable
    label: str
    text: str
    label_ink: Ink = Ink.MUTED
    ink: Ink = Ink.TEXT
    gutter: Ink | None = None
    """The ink of a thin bar along the left edge of the text; None draws no bar."""
    light_markdown: bool = False
    marks: tuple[Styled, ...] = ()
    """Ranges of evidence and of search hits; each kind in the order of the text."""
    folded: bool = False
    """Whether the passage is shown as a single row."""
    growing: bool = False
    """Whether the text is still being written."""
    close: bool = False
    """Whether the blank row after the passage is left out."""
    aside: bool = False
    """Whether it stands on the rail, if there is one, beside what follows up to the next rule."""


Block = Rule | Passage

_NOTHING: Final = Wrapped("", 0)


class MarkPosition(NamedTuple):
    """The position of a mark: the index of its block, and its number within that block."""

    block: int
    number: int


@dataclass(slots=True)
class _LaidOutBlock:
    """A block and its rows at the current width."""

    block: Block
    rows: Wrapped = _NOTHING
    head: int = 0
    """Rows above the text: 1 if the label stands there, else 0."""
    fences: list[int] = field(default_factory=list)
    reach: list[int] = field(default_factory=list)
    """For each mark, the greatest end of all marks up to and including it."""

    @property
    def marks(self) -> tuple[Styled, ...]:
        return self.block.marks if isinstance(self.block, Passage) else ()

    def marks_within(self, row: TextRow) -> Sequence[Styled]:
        if not self.reach:
            return ()
        first = bisect_right(self.reach, row.start)
        return self.marks[first : bisect_left(self.marks, row.end, key=_start)]

    @property
    def height(self) -> int:
        match self.block:
            case Rule():
                return 1
            case Passage(close=close):
                return self.head + len(self.rows) + (not close)


class Document:
    """Blocks stacked in rows of a fixed width."""

    def __init__(self, width: int = 80, *, rail: bool = False) -> None:
        """`width` is in cells; at 0, which means not known yet, no text is laid out."""
        self.width = width
        self._may_have_rail = rail
        self._laid: list[_LaidOutBlock] = []
        self._tops: list[int] = [0]
        """The first row of each block, then the row after the last block."""
        self._asides: list[tuple[int, _LaidOutBlock]] = []
        """The passages on the rail, each with its first row."""
        self._marked: dict[Ink, list[MarkPosition]] = {}

    @property
    def height(self) -> int:
        """The number of rows."""
        return self._tops[-1]

    @property
    def trailing_blank(self) -> int:
        """The number of blank rows at the end, 0 or 1, that need not be visible."""
        last = self._laid[-1].block if self._laid else None
        filled = self._aside_row(self.height - 1) is not None
        return int(isinstance(last, Passage) and not last.close and not filled)

    def set(self, blocks: Sequence[Block]) -> int | None:
        """Replace the blocks. Returns the first row that differs from before; None if none does."""
        known = {laid.block.key: (index, laid) for index, laid in enumerate(self._laid)}
        laid: list[_LaidOutBlock] = []
        first: tuple[int, int] | None = None
        for index, block in enumerate(blocks):
            place, before = known.get(block.key, (index, None))
            new, changed = self._renewed(before, block)
            if first is None and (changed is not None or place != index):
                first = index, (changed or 0) if place == index else 0
            laid.append(new)
        if first is None and len(laid) < len(self._laid):
            first = len(laid), 0
        self._place_rows(laid)
        return None if first is None else self._tops[first[0]] + first[1]

    def resize(self, width: int) -> None:
        """Wrap everything again, for `width` cells."""
        self.width = width
        self._place_rows([self._lay_out(laid.block) for laid in self._laid])

    def locate(self, row: int) -> tuple[Hashable, int] | None:
        """The key of the block that contains this row, and the row's number within the block."""
        index = bisect_right(self._tops, row) - 1
        if not 0 <= index < len(self._laid):
            return None
        return self._laid[index].block.key, row - self._tops[index]

    def find(self, place: tuple[Hashable, int]) -> int | None:
        """The nearest row still there to a place from `locate`; None if its block is gone."""
        key, row = place
        for laid, top in zip(self._laid, self._tops, strict=False):
            if laid.block.key == key:
                return top + max(min(row, laid.height - 1), 0)
        return None

    def keys_from(self, row: int) -> list[Hashable]:
        """The keys of the block that contains this row and of those after it, then of those before
        it, the nearest first."""
        index = max(bisect_right(self._tops, row) - 1, 0)
        keys = [laid.block.key for laid in self._laid]
        return [*keys[index:], *reversed(keys[:index])]

    def tops(self) -> list[int]:
        """The first row of each block."""
        return self._tops[:-1]

    def rules(self) -> list[int]:
        """The row of each rule."""
        return [
            top
            for laid, top in zip(self._laid, self._tops, strict=False)
            if isinstance(laid.block, Rule)
        ]

    def marks(self, ink: Ink) -> list[MarkPosition]:
        """All marks of one ink, in the order of the text."""
        if ink not in self._marked:
            self._marked[ink] = [
                MarkPosition(index, number)
                for index, laid in enumerate(self._laid)
                for number, style in enumerate(laid.marks)
                if style.ink is ink
            ]
        return self._marked[ink]

    def has(self, mark: MarkPosition) -> bool:
        """Whether the mark still exists."""
        return mark.block < len(self._laid) and mark.number < len(self._laid[mark.block].marks)

    def mark_rows(self, mark: MarkPosition) -> tuple[int, int]:
        """The rows of a mark, as the first row and the row after the last."""
        laid = self._laid[mark.block]
        style = laid.marks[mark.number]
        first = laid.rows.row_of(style.start)
        last = laid.rows.row_of(max(style.end - 1, style.start))
        base = self._tops[mark.block] + laid.head
        return base + first, base + last + 1

    def line(self, row: int, mark: MarkPosition | None = None) -> list[Piece]:
        """What a row shows, with `mark`, the mark jumped to last, highlighted."""
        beside = self._aside_row(row)
        if beside is None:
            return self._main_row(row, mark)
        width = min(self.width - RAIL, 1 + LABEL_WIDTH + READABLE + 4)
        main = fitted_line(self._main_row(row, mark), width)
        return [*main, Piece(" " * (width - length(main))), *beside]

    def _main_row(self, row: int, mark: MarkPosition | None) -> list[Piece]:
        index = bisect_right(self._tops, row) - 1
        laid, number = self._laid[index], row - self._tops[index]
        if isinstance(laid.block, Rule):
            return self._rule(laid.block)
        if self._is_aside(laid.block):
            return []
        current = mark.number if mark is not None and mark.block == index else None
        return self._passage_row(laid, laid.block, number, current)

    def _place_rows(self, laid: list[_LaidOutBlock]) -> None:
        self._laid = laid
        self._marked.clear()
        self._tops, self._asides = [], []
        top = end_beside = 0
        for block in laid:
            if isinstance(block.block, Rule):
                # what stands on the rail belongs to this part, so the next rule begins below it
                top = max(top, end_beside)
            self._tops.append(top)
            if self._is_aside(block.block):
                self._asides.append((top, block))
                end_beside = top + 1 + len(block.rows)
            else:
                top += block.height
        self._tops.append(max(top, end_beside))

    @property
    def _has_rail(self) -> bool:
        return self._may_have_rail and self.width >= ROOM_FOR_RAIL

    def _is_aside(self, block: Block) -> bool:
        return self._has_rail and isinstance(block, Passage) and block.aside

    def _aside_row(self, row: int) -> list[Piece] | None:
        """What the rail shows on this row: a label, and the text below it. None if nothing."""
        index = bisect_right(self._asides, row, key=_top) - 1
        if index < 0:
            return None
        top, laid = self._asides[index]
        number = row - top - 1
        if number >= len(laid.rows) or not isinstance(laid.block, Passage):
            return None
        bar = Piece("│ ", laid.block.label_ink)
        if number < 0:
            return [bar, Piece(laid.block.label, Ink.MUTED)]
        return [bar, *self._text(laid, laid.block, laid.rows[number], None)]

    def _renewed(
        self, before: _LaidOutBlock | None, block: Block
    ) -> tuple[_LaidOutBlock, int | None]:
        """The block laid out, and its first row that differs from `before`; None if none
        differs."""
        # identity first: blocks are compared at each tick, and most are the same objects as before
        if before is not None and (before.block is block or before.block == block):
            return before, None
        if before is None or not isinstance(before.block, Passage):
            return self._lay_out(block), 0
        # a reply that is being written grows twelve times a second, so only its last row is wrapped
        # again
        if self.width and isinstance(block, Passage) and _has_grown(before.block, block):
            return self._extend(before, block)
        return self._lay_out(block, before), 0

    def _lay_out(self, block: Block, before: _LaidOutBlock | None = None) -> _LaidOutBlock:
        """Lay out a block. Reuses the rows of `before` if text and layout are the same."""
        if isinstance(block, Rule):
            return _LaidOutBlock(block)
        head = int(bool(block.label) and (self._is_narrow or _is_long(block.label)))
        reach = list(accumulate((mark.end for mark in block.marks), max))
        if before is not None and _reads_as(before.block, block):
            return _LaidOutBlock(block, before.rows, head, before.fences, reach)
        if not self.width:
            return _LaidOutBlock(block, _NOTHING, head, reach=reach)
        width = RAIL - 3 if self._is_aside(block) else self._text_width(block.gutter)
        rows = Wrapped(block.text, 0 if block.folded else width)
        fences = ink.code_fences(block.text) if block.light_markdown else []
        return _LaidOutBlock(block, rows, head, fences, reach)

    def _extend(self, laid: _LaidOutBlock, block: Passage) -> tuple[_LaidOutBlock, int]:
        last = laid.rows[len(laid.rows) - 1].start
        longer = _LaidOutBlock(block, Wrapped(block.text, laid.rows.width, laid.rows), laid.head)
        longer.reach = laid.reach
        if block.light_markdown:
            line = block.text.rfind("\n", 0, last) + 1
            # from the beginning of the last line on: half a fence may have become a whole one
            longer.fences = [fence for fence in laid.fences if fence < line]
            longer.fences += ink.code_fences(block.text, line)
        return longer, laid.head + len(laid.rows) - 1

    @property
    def _is_narrow(self) -> bool:
        return self.width < NARROW

    @property
    def _leading_cells(self) -> int:
        """Blank cells before titles, and before text in a narrow document."""
        return int(self.width >= ROOM_FOR_LEAD)

    def _text_width(self, gutter: Ink | None) -> int:
        margin = self._leading_cells if self._is_narrow else 1 + LABEL_WIDTH
        margin += RAIL if self._has_rail else 0
        return max(min(self.width - margin - 2 * (gutter is not None) - 1, READABLE), 1)

    def _rule(self, rule: Rule) -> list[Piece]:
        lead = Piece(" " * self._leading_cells)
        title = [lead, Piece(rule.title, rule.ink), Piece(" ")] if rule.title else []
        note = [Piece(" "), Piece(rule.note, Ink.MUTED), Piece(" ")] if rule.note else []
        room = self.width - length(title) - length(note)
        if room < 1:
            # the note may reverse the meaning of the title, so the title is cut first
            note = note if self.width - length(note) >= LEAST_TITLE else []
            title = fitted_line(title, self.width - length(note))
            room = self.width - length(title) - length(note)
        return [*title, Piece(("─" if rule.lined else " ") * room, Ink.RULE), *note]

    def _passage_row(
        self, laid: _LaidOutBlock, passage: Passage, number: int, current: int | None
    ) -> list[Piece]:
        number -= laid.head
        if number < 0:
            return [Piece(" " * self._leading_cells + passage.label, passage.label_ink)]
        if number >= len(laid.rows):
            return []
        row = laid.rows[number]
        line = self._margin(passage, is_first=number == 0)
        if passage.gutter is not None:
            line.append(Piece("▎ ", passage.gutter))
        line += self._text(laid, passage, row, current)
        if passage.growing and number == len(laid.rows) - 1:
            line.append(Piece("▍", Ink.ACCENT))
        return fitted_line(line, self.width - 1) if passage.folded else line

    def _margin(self, passage: Passage, *, is_first: bool) -> list[Piece]:
        if self._is_narrow:
            return [Piece(" " * self._leading_cells)] if self._leading_cells else []
        if not is_first:
            return [Piece(" " * (1 + LABEL_WIDTH))]
        label = "" if _is_long(passage.label) else passage.label
        return [Piece(" " + pad(label, LABEL_WIDTH - 1) + " ", passage.label_ink)]

    def _text(
        self, laid: _LaidOutBlock, passage: Passage, row: TextRow, current: int | None
    ) -> list[Piece]:
        styles = [*_light_markdown(passage, row, laid.fences), *laid.marks_within(row)]
        if current is not None:
            styles.append(passage.marks[current]._replace(ink=Ink.EVIDENCE_NOW))
        pieces = painted(passage.text, row.start, row.end, styles, passage.ink)
        if passage.folded:
            # a folded passage is one row, even if its text has line breaks
            pieces = [Piece(" ".join(text.split()), ink) for text, ink in pieces]
        return [Piece(" " * row.indent), *pieces] if row.indent else pieces


_start: Final = attrgetter("start")
_top: Final = itemgetter(0)


def _is_long(label: str) -> bool:
    """Whether a label has no room beside the text, so that it has a row of its own above."""
    return cell_len(label) >= LABEL_WIDTH


def _light_markdown(passage: Passage, row: TextRow, fences: Sequence[int]) -> Sequence[Styled]:
    """The Markdown inks of the whole line that this row is part of."""
    if not passage.light_markdown:
        return ()
    text, earliest = passage.text, max(row.start - LONG_LINE, 0)
    start = text.rfind("\n", earliest, row.start) + 1
    end = text.find("\n", row.start, row.start + LONG_LINE)
    if end < 0:
        end = len(text)
    if (earliest and not start) or end - start > LONG_LINE:
        return ()
    return ink.styles(text, start, end, fences)


def _reads_as(before: Block, after: Passage) -> bool:
    """Whether both blocks have the same text, wrapped into the same rows."""
    return (
        isinstance(before, Passage)
        and before.text == after.text
        and before.folded == after.folded
        and (before.gutter is None) == (after.gutter is None)
        and before.light_markdown == after.light_markdown
    )


def _has_grown(before: Block, after: Passage) -> bool:
    """Whether `after` is the same passage with the same text, or with text appended."""
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
