"""What a transcript is made of, and where each piece of it lies. Knows no screen.

A document is given its blocks whole again and again, and finds out by itself what has changed. A
passage that has only grown is wrapped from its last row on.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field
from itertools import accumulate
from operator import attrgetter, itemgetter
from typing import Final, NamedTuple

from tui.text import ink
from tui.text.ink import Ink, Piece, Styled, fitted, length, pad, painted
from tui.text.wrap import TextRow, Wrapped

LABEL_WIDTH: Final = 10
NARROW: Final = 40
"""Below it, labels stand above their passage instead of beside it."""
ROOM_FOR_LEAD: Final = 30
"""Below it, text begins at the very edge."""
READABLE: Final = 96
"""Text is not set wider than this: longer rows are hard to read."""
RAIL: Final = 28
ROOM_FOR_RAIL: Final = 104
"""Of the cells of a document that may have one, and from how many of them on it has it."""
LEAST_TITLE: Final = 20
"""Cells of a title below which it has no note beside it."""
LONG_LINE: Final = 5_000
"""Characters of a line beyond which it is no Markdown."""


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
    aside: bool = False
    """Where there is a rail, it stands on it, beside what follows up to the next rule."""


Block = Rule | Passage

_NOTHING: Final = Wrapped("", 0)


class MarkPosition(NamedTuple):
    """Where a piece of evidence is: the index of its block, and which of the block's it is."""

    block: int
    number: int


@dataclass(slots=True)
class _Laid:
    """A block, and its rows in the present width."""

    block: Block
    rows: Wrapped = _NOTHING
    head: int = 0
    """Rows before the text."""
    fences: list[int] = field(default_factory=list)
    reach: list[int] = field(default_factory=list)
    """How far any of the marks up to each of them reaches."""

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
    """Blocks one below the other, in rows of a width."""

    def __init__(self, width: int = 80, *, rail: bool = False) -> None:
        """At a width of 0, which is not known yet, nothing is shown."""
        self.width = width
        self._may_have_rail = rail
        self._laid: list[_Laid] = []
        self._tops: list[int] = [0]
        """The first row of each block, and the row behind the last one."""
        self._asides: list[tuple[int, _Laid]] = []
        """What stands on the rail, and from which row on."""
        self._marked: dict[Ink, list[MarkPosition]] = {}

    @property
    def height(self) -> int:
        """The rows of the whole document."""
        return self._tops[-1]

    @property
    def trailing_blank(self) -> int:
        """Rows at the end that show nothing and need not be seen."""
        last = self._laid[-1].block if self._laid else None
        filled = self._aside_row(self.height - 1) is not None
        return int(isinstance(last, Passage) and not last.close and not filled)

    def set(self, blocks: Sequence[Block]) -> int | None:
        """Hold these blocks; the first row that differs from before, None where none does."""
        known = {laid.block.key: (index, laid) for index, laid in enumerate(self._laid)}
        laid: list[_Laid] = []
        first: tuple[int, int] | None = None
        for index, block in enumerate(blocks):
            place, before = known.get(block.key, (index, None))
            new, changed = self._renewed(before, block)
            if first is None and (changed is not None or place != index):
                first = index, (changed or 0) if place == index else 0
            laid.append(new)
        if first is None and len(laid) < len(self._laid):
            first = len(laid), 0
        self._place(laid)
        return None if first is None else self._tops[first[0]] + first[1]

    def resize(self, width: int) -> None:
        """Wraps everything anew, for `width` cells."""
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
                return top + max(min(row, laid.height - 1), 0)
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

    def marks(self, ink: Ink) -> list[MarkPosition]:
        """All marks in an ink, in the order of the text."""
        if ink not in self._marked:
            self._marked[ink] = [
                MarkPosition(index, number)
                for index, laid in enumerate(self._laid)
                for number, style in enumerate(laid.marks)
                if style.ink is ink
            ]
        return self._marked[ink]

    def has(self, mark: MarkPosition) -> bool:
        """Whether there still is such a mark."""
        return mark.block < len(self._laid) and mark.number < len(self._laid[mark.block].marks)

    def mark_rows(self, mark: MarkPosition) -> tuple[int, int]:
        """From which row to before which one a mark reaches."""
        laid = self._laid[mark.block]
        style = laid.marks[mark.number]
        first = laid.rows.row_of(style.start)
        last = laid.rows.row_of(max(style.end - 1, style.start))
        base = self._tops[mark.block] + laid.head
        return base + first, base + last + 1

    def line(self, row: int, mark: MarkPosition | None = None) -> list[Piece]:
        """What a row shows; `mark` is the one that was jumped to."""
        beside = self._aside_row(row)
        if beside is None:
            return self._main_row(row, mark)
        width = min(self.width - RAIL, 1 + LABEL_WIDTH + READABLE + 4)
        main = fitted(self._main_row(row, mark), width)
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

    def _place(self, laid: list[_Laid]) -> None:
        self._laid = laid
        self._marked.clear()
        self._tops, self._asides = [], []
        top = end_beside = 0
        for each in laid:
            if isinstance(each.block, Rule):
                # what stands on the rail belongs to this part: the next rule begins below it
                top = max(top, end_beside)
            self._tops.append(top)
            if self._is_aside(each.block):
                self._asides.append((top, each))
                end_beside = top + 1 + len(each.rows)
            else:
                top += each.height
        self._tops.append(max(top, end_beside))

    @property
    def _has_rail(self) -> bool:
        return self._may_have_rail and self.width >= ROOM_FOR_RAIL

    def _is_aside(self, block: Block) -> bool:
        return self._has_rail and isinstance(block, Passage) and block.aside

    def _aside_row(self, row: int) -> list[Piece] | None:
        """What stands on the rail there: a label, and beneath it the text."""
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

    def _renewed(self, before: _Laid | None, block: Block) -> tuple[_Laid, int | None]:
        """The block laid out, and the first of its rows that differs from what was there."""
        # identity first: blocks are compared at each tick, and most are the very objects of the
        # last one
        if before is not None and (before.block is block or before.block == block):
            return before, None
        if before is None or not isinstance(before.block, Passage):
            return self._lay(block), 0
        # a reply that is being spoken grows twelve times a second: only its last row is wrapped
        # anew
        if self.width and isinstance(block, Passage) and _grew(before.block, block):
            return self._extended(before, block)
        return self._lay(block, before), 0

    def _lay(self, block: Block, before: _Laid | None = None) -> _Laid:
        """In rows of its own, or in those of what was `before` where they are the same."""
        if isinstance(block, Rule):
            return _Laid(block)
        head = int(self._is_narrow and bool(block.label))
        reach = list(accumulate((mark.end for mark in block.marks), max))
        if before is not None and _reads_as(before.block, block):
            return _Laid(block, before.rows, head, before.fences, reach)
        if not self.width:
            return _Laid(block, _NOTHING, head, reach=reach)
        width = RAIL - 3 if self._is_aside(block) else self._text_width(block.gutter)
        rows = Wrapped(block.text, 0 if block.folded else width)
        fences = ink.fences(block.text) if block.light_markdown else []
        return _Laid(block, rows, head, fences, reach)

    def _extended(self, laid: _Laid, block: Passage) -> tuple[_Laid, int]:
        last = laid.rows[len(laid.rows) - 1].start
        longer = _Laid(block, Wrapped(block.text, laid.rows.width, laid.rows), laid.head)
        longer.reach = laid.reach
        if block.light_markdown:
            line = block.text.rfind("\n", 0, last) + 1
            # from the begin of its last line on: half a fence may have become a whole one
            longer.fences = [fence for fence in laid.fences if fence < line]
            longer.fences += ink.fences(block.text, line)
        return longer, laid.head + len(laid.rows) - 1

    @property
    def _is_narrow(self) -> bool:
        return self.width < NARROW

    @property
    def _lead(self) -> int:
        """Blank cells before all of what is narrow, as before a title; none where each counts."""
        return int(self.width >= ROOM_FOR_LEAD)

    def _text_width(self, gutter: Ink | None) -> int:
        margin = self._lead if self._is_narrow else 1 + LABEL_WIDTH
        margin += RAIL if self._has_rail else 0
        return max(min(self.width - margin - 2 * (gutter is not None) - 1, READABLE), 1)

    def _rule(self, rule: Rule) -> list[Piece]:
        lead = Piece(" " * self._lead)
        title = [lead, Piece(rule.title, rule.ink), Piece(" ")] if rule.title else []
        note = [Piece(" "), Piece(rule.note, Ink.MUTED), Piece(" ")] if rule.note else []
        room = self.width - length(title) - length(note)
        if room < 1:
            # what is noted may turn the title's meaning round, so the title is cut first
            note = note if self.width - length(note) >= LEAST_TITLE else []
            title = fitted(title, self.width - length(note))
            room = self.width - length(title) - length(note)
        return [*title, Piece(("─" if rule.lined else " ") * room, Ink.RULE), *note]

    def _passage_row(
        self, laid: _Laid, passage: Passage, number: int, current: int | None
    ) -> list[Piece]:
        number -= laid.head
        if number < 0:
            return [Piece(" " * self._lead + passage.label, passage.label_ink)]
        if number >= len(laid.rows):
            return []
        row = laid.rows[number]
        line = self._margin(passage, is_first=number == 0)
        if passage.gutter is not None:
            line.append(Piece("▎ ", passage.gutter))
        line += self._text(laid, passage, row, current)
        if passage.growing and number == len(laid.rows) - 1:
            line.append(Piece("▍", Ink.ACCENT))
        return fitted(line, self.width - 1) if passage.folded else line

    def _margin(self, passage: Passage, *, is_first: bool) -> list[Piece]:
        if self._is_narrow:
            return [Piece(" " * self._lead)] if self._lead else []
        if not is_first:
            return [Piece(" " * (1 + LABEL_WIDTH))]
        return [Piece(" " + pad(passage.label, LABEL_WIDTH - 1) + " ", passage.label_ink)]

    def _text(
        self, laid: _Laid, passage: Passage, row: TextRow, current: int | None
    ) -> list[Piece]:
        styles = [*_light_markdown(passage, row, laid.fences), *laid.marks_within(row)]
        if current is not None:
            styles.append(passage.marks[current]._replace(ink=Ink.EVIDENCE_NOW))
        pieces = painted(passage.text, row.start, row.end, styles, passage.ink)
        if passage.folded:
            # folded is one row, whatever line ends the text has
            pieces = [Piece(" ".join(text.split()), ink) for text, ink in pieces]
        return [Piece(" " * row.indent), *pieces] if row.indent else pieces


_start: Final = attrgetter("start")
_top: Final = itemgetter(0)


def _light_markdown(passage: Passage, row: TextRow, fences: Sequence[int]) -> Sequence[Styled]:
    """The inks of the whole line that the row is part of; asked for with each of its rows."""
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
    """Whether both have the same text in the same rows."""
    return (
        isinstance(before, Passage)
        and before.text == after.text
        and before.folded == after.folded
        and (before.gutter is None) == (after.gutter is None)
        and before.light_markdown == after.light_markdown
    )


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
