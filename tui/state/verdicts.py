"""The state of the verdicts screen: filter, order, rows found, and what arrived since."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Final, NamedTuple

from rich.cells import cell_len

from engine.display import one_line
from engine.facts import Fact, TakeEnded, VerdictGiven
from engine.store.browsing import (
    STALE,
    BrowsedRow,
    Column,
    Field,
    Filter,
    FilterResult,
    Sorting,
)
from engine.watch import BenchmarkInfo
from tui.format import ENDINGS_SHORT, TRACK_SIGNS, conversation_id, verdict
from tui.state.filters import parse
from tui.state.headline import group_parts
from tui.state.related import Subject
from tui.state.run_status import UnseenCounts
from tui.state.transcript import MOST_TURNS, arc
from tui.text.ink import VERDICT_INKS, Ink, Line, Piece, group_text, length_of_group, told_apart
from tui.text.wrap import Cells, Heading

AGAIN_AFTER: Final = 1.0
"""Seconds between two queries for new rows while verdicts arrive."""
ID_WIDTH: Final = (20, 48)
"""The least and the most cells of a conversation's id."""
NARROW: Final = 40
"""Below this many cells, an outcome is shown as its sign only."""
JUDGE_WIDTH: Final = (10, 24)
"""The least and the most cells of a judge's name, with the number of others."""
BENCHMARK_WIDTH: Final = (9, 14, 24)
"""The least and the most cells of a benchmark's name, and the most on a wide screen."""
WHO_WIDTH: Final = (18, 44)
"""The most cells of a demographic group, and on a wide screen, where it may take a quarter."""
WIDE: Final = 150
"""A screen of this many cells or more is wide."""
_OTHERS: Final = len(" +1")
_BESIDE_ROW: Final = 2
"""Cells beside the columns: a blank at the left and the scroll bar."""
_STALE_MARK: Final = "~ "
_STAR_MARK: Final = "★ "
_BESIDE_ID: Final = 6
"""Cells beside an id in a narrow table: its mark, the sign, two blanks, the scroll bar."""
SORTS: Final = (
    ("i", Column.ID, "by conversation"),
    ("o", Column.OUTCOME, "fails, passes, unscored"),
    ("m", Column.METRIC, ""),
    ("t", Column.TYPE, "of the metric"),
    ("a", Column.TARGET, ""),
    ("w", Column.WHO, "demographic"),
    ("n", Column.SAMPLE, ""),
    ("l", Column.TURNS, "how many"),
    ("j", Column.JUDGE, "of the newest verdict"),
    ("e", Column.END, "why the conversation ended"),
    ("d", Column.AT, "when it was judged"),
    ("b", Column.BENCHMARK, ""),
    ("c", Column.BECAUSE, "justification"),
)
"""The orders, each with the letter that chooses it and its description."""


class VerdictsState:
    """What the table shows and what is said above it, and nothing of how either is drawn.

    Rows are takes, by their seq. The screen queries the store and puts the answers in here.
    """

    def __init__(self, typed: str = "") -> None:
        """`typed` is the initial filter line. Raises `FilterFault`."""
        self.typed = typed
        self.wanted: Filter = parse(typed)
        self.sorting = Sorting()
        self.found: FilterResult | None = None
        """The rows found; None until the store was read."""
        self.total: int | None = None
        """The number of judged conversations, whatever the filter."""
        self.fault: str | None = None
        """The reason why the store cannot be read."""
        self.longest_id = 0
        """The length of the longest id in cells; 0 until the store was read."""
        self.groups: tuple[tuple[str, ...], ...] = ()
        """The demographic groups of all conversations."""
        self.has_judges = False
        """Whether there are verdicts of several judges."""
        self.has_stars = False
        """Whether any conversation has a star."""
        self.missed: UnseenCounts | None = None
        """Counts what arrived since the display was frozen; None while it is not."""
        self.unseen: set[int] = set()
        """The number of rows judged since that are not in the table."""
        self.stale: Mapping[int, str] = {}
        """The counted takes that are stale, and why."""
        self._stale_known = False
        """Whether it was worked out what is stale."""
        self._stale_found = 0
        """The number of stale takes in the table."""
        self.read: Collection[int] = ()
        """The rows in the table that were read."""
        self._held: set[int] = set()
        """Rows that have changed since the display was frozen."""
        self._through = 0
        """Verdicts up to this seq are in the table or were looked for."""
        self._received = self._looked_for = 0
        """The newest fact received that may change a row, and the newest one looked up."""
        self._looking = False
        self._looked_at = float("-inf")

    def receive(self, facts: Sequence[Fact]) -> None:
        for fact in facts:
            if isinstance(fact, VerdictGiven | TakeEnded):
                self._received = fact.seq
        if self.missed is not None:
            self.missed.receive(facts)

    def want(self, wanted: Filter) -> bool:
        """Set the filter. Returns whether it differs from before."""
        before, self.wanted = self.wanted, wanted
        return wanted != before

    def must_count(self, found: FilterResult) -> bool:
        """Whether the total must be counted, since a filtered result does not include it."""
        return bool(self.wanted) and (self.total is None or found.through > self._through)

    def find(
        self,
        found: FilterResult,
        total: int | None,
        longest_id: int,
        groups: Iterable[Mapping[str, str]] = (),
        *,
        has_judges: bool = False,
    ) -> None:
        """Take in a query's result; `total` if it was counted, `longest_id` in cells."""
        self.found, self.fault, self._through = found, None, found.through
        if not self.wanted:
            self.total = len(found.takes)
        elif total is not None:
            self.total = total
        self.longest_id, self.groups = longest_id, tuple(map(group_parts, groups))
        self.has_judges = has_judges
        self.unseen.clear()
        self._count_stale()

    def mark_stale(self, stale: Mapping[int, str]) -> None:
        """Replace the set of stale takes."""
        self.stale, self._stale_known = stale, True
        self._count_stale()

    def _count_stale(self) -> None:
        takes = () if self.found is None else self.found.takes
        self._stale_found = sum(take in self.stale for take in takes)

    def mark_read(self, takes: Collection[int]) -> None:
        """Mark these as read, if they are in the table."""
        found = () if self.found is None else self.found.takes
        self.read = {take for take in found if take in takes} if takes else ()

    @property
    def first_unread(self) -> int | None:
        """The first unread row; None if none or all were read."""
        found = () if self.found is None or not self.read else self.found.takes
        return next((take for take in found if take not in self.read), None)

    @property
    def asks_for_stale(self) -> bool:
        """Whether the filter asks for stale conversations."""
        return any(STALE in term.values for term in self.wanted if term.field is Field.IS)

    @property
    def is_behind(self) -> bool:
        """Whether new verdicts are not yet in the table, while the display is not frozen."""
        news = bool(self.unseen) or self._received > self._looked_for
        return news and self.missed is None and self.found is not None

    def begin_look(self, seconds: float) -> int | None:
        """If a query for new verdicts is due, the seq from which to look. It must end with
        `end_look` or `fail`."""
        # seqs of facts, not of verdicts: the end of a take changes which take counts
        due = seconds - self._looked_at >= AGAIN_AFTER and self._received > self._looked_for
        if not due or self._looking or self.found is None:
            return None
        self._looking, self._looked_at, self._looked_for = True, seconds, self._received
        return self._through

    def end_look(
        self, judged: Collection[int], shown: Collection[int], through: int, total: int | None
    ) -> Collection[int]:
        """Take in which rows were `judged` up to a seq and which of them are in the table; gives
        the rows to redraw now. `total` is None where it has not changed."""
        self._looking, self._through = False, through
        self.total = self.total if total is None else total
        # a row added unasked would move others from under the cursor, so it waits for the user
        self.unseen |= set(judged) - set(shown)
        if self.missed is None:
            return shown
        self._held.update(shown)
        return ()

    def recount(self, found: FilterResult, passed: int, failed: int) -> None:
        """Update the counts of `found`, unless other rows are shown by now."""
        if self.found is found:
            self.found = replace(found, passed=passed, failed=failed)

    def fail(self, error: Exception) -> None:
        """Note that the store could not be read; the rows stay."""
        self._looking, self.fault = False, str(error)

    def freeze(self) -> Collection[int]:
        """Freeze or unfreeze the display. Returns the rows to redraw."""
        if self.missed is None:
            self.missed = UnseenCounts()
            return ()
        self.missed = None
        held, self._held = self._held, set()
        return held

    def id_width(self, width: int) -> int:
        """The cells of an id on a screen of `width` cells."""
        low, high = ID_WIDTH
        mark = len(_STALE_MARK) * bool(self._stale_found) + len(_STAR_MARK) * self.has_stars
        wanted = max(min(self.longest_id + mark, high), low)
        return wanted if width >= NARROW else max(min(wanted, width - _BESIDE_ID), 1)

    def columns(
        self, benchmarks: Sequence[BenchmarkInfo], width: int, judges: Sequence[str] = ()
    ) -> list[Heading]:
        """The columns on a screen of so many cells, as wide as what is in them needs; several
        benchmarks and several judges have one more each. `judges` are those that count."""
        turns = max((info.turns for info in benchmarks), default=0)
        narrow = width < NARROW
        columns = [
            Heading(Column.OUTCOME, "" if narrow else "outcome", 1 if narrow else 10),
            Heading(Column.ID, "conversation", self.id_width(width), in_middle=True),
            Heading(Column.METRIC, "metric", 7),
            Heading(Column.TURNS, "turns", min(max(len("turns"), turns), MOST_TURNS) + 2),
            Heading(Column.END, "ended", 10),
            Heading(Column.BECAUSE, "because", 0),
        ]
        if self.groups:
            columns.insert(3, Heading(Column.WHO, "who", self.who_width(width)))
        if len(benchmarks) > 1:
            wide = benchmark_width([info.name for info in benchmarks], width)
            columns.insert(2, Heading(Column.BENCHMARK, "benchmark", wide))
        if self.has_judges:
            used = sum(heading.width + heading.gap for heading in columns) + _BESIDE_ROW
            judge = judge_width(judges, width - used)
            columns.insert(-1, Heading(Column.JUDGE, "judge", judge))
        return columns

    def who_width(self, width: int) -> int:
        """The cells of a demographic group on a screen of `width` cells."""
        longest = max(map(length_of_group, self.groups), default=0)
        most = max(WHO_WIDTH[1], width // 4) if width >= WIDE else WHO_WIDTH[0]
        return max(min(longest, most), len("who ▴"))

    def empty(self) -> Line:
        """The line shown in place of rows."""
        if self.fault is not None:
            text = one_line(self.fault)
        elif self.found is None:
            text = "Reading the store."
        elif self.asks_for_stale and not self._stale_known:
            text = "Working out what is stale."
        elif not self.total or all(term.field is Field.BENCHMARK for term in self.wanted):
            text = "No verdict yet: they come as conversations end."
        else:
            text = "Nothing fits the filter: F changes it, \\ shows all rows."
        return [Piece("  " + text, Ink.MUTED)]

    def header(self) -> Line:
        """The header after the screen's name."""
        total = self.total or 0
        if self.found is None:
            return [Piece("reading the store", Ink.MUTED)]
        if self.wanted:
            return [Piece(f"{len(self.found.takes):,} of {total:,} judged", Ink.ACCENT)]
        return [Piece(f"{total:,} judged", Ink.MUTED)]

    def filter_words(self, columns: Sequence[Heading]) -> Line:
        """The filter, and by what the rows are sorted where no heading says so."""
        if self.fault is not None:
            return [Piece(" " + one_line(self.fault), Ink.BAD)]
        column, arrow = self.sorting.column, "▾" if self.sorting.backwards else "▴"
        named = column.value in {heading.name for heading in columns}
        order = Piece("" if named else f"  by {column} {arrow}", Ink.MUTED)
        if not self.typed:
            return [Piece(" F filters, s sorts", Ink.FAINT), order]
        typed = Piece(one_line(self.typed), Ink.ACCENT)
        return [Piece(" "), typed, Piece("  \\ clears", Ink.FAINT), order]

    def count_words(self, marked: int) -> Line:
        """How many rows passed, failed or are unscored, are `marked`, or have come since."""
        found = self.found
        if found is None:
            return ()
        words = [
            Piece(f"✗ {found.failed:,} ", Ink.BAD),
            Piece(f"✓ {found.passed:,} ", Ink.GOOD),
            Piece(f"· {found.unscored:,} ", Ink.WARN),
        ]
        if self._stale_found:
            words.append(Piece(f"~ {self._stale_found:,} stale ", Ink.WARN))
        if self.read:
            words.insert(0, Piece(f"{len(self.read):,} of {len(found.takes):,} read  ", Ink.MUTED))
        if marked:
            words.insert(0, Piece(f"● {marked:,} marked  ", Ink.ACCENT))
        if self.unseen:
            words.insert(0, Piece(f"+{len(self.unseen):,} new, u  ", Ink.ACCENT))
        if self.missed is not None:
            words.insert(0, Piece(f"{self.missed.words}  ", Ink.WARN))
        return words


def judge_width(judges: Sequence[str], room: int) -> int:
    """The cells of a judge's name, with the number of others, where there are so many for it."""
    low, high = JUDGE_WIDTH
    longest = max(map(cell_len, judges), default=high)
    return max(min(longest + _OTHERS, high, room), low)


def benchmark_width(names: Sequence[str], width: int) -> int:
    """The cells of a benchmark's name on a screen of `width` cells."""
    low, *high = BENCHMARK_WIDTH
    return max(min(max(map(cell_len, names), default=low), high[width >= WIDE]), low)


class KnownNames(NamedTuple):
    """Names that are told apart when cut, and the layout of their columns."""

    targets: Sequence[str]
    judges: Sequence[str]
    id_width: int
    """Cells for a conversation's id."""
    narrow: bool = False
    """Whether an outcome is shown as its sign only."""
    benchmarks: Sequence[str] = ()
    benchmark_width: int = BENCHMARK_WIDTH[1]
    groups: tuple[tuple[str, ...], ...] = ()
    """The demographic groups; without any there is no column for them."""
    who_width: int = WHO_WIDTH[0]
    judge_width: int = 0
    """Cells for the judge; 0 without a column for it."""


def cells(
    rows: Mapping[int, BrowsedRow],
    *,
    several: bool,
    stars: Collection[Subject],
    stale: Mapping[int, str],
    read: Collection[int],
    names: KnownNames,
) -> dict[int, Cells]:
    """What the rows show, in the order of the columns; `several` benchmarks have one more."""
    return {
        take: _cells(
            row,
            several=several,
            star=Subject(row.verdict.benchmark, row.verdict.key) in stars,
            stale=stale.get(take),
            read=take in read,
            names=names,
        )
        for take, row in rows.items()
    }


def _judges(row: BrowsedRow, names: KnownNames) -> str:
    """The judge that counts, and the number of others, which is not cut."""
    others = f" +{row.judges - 1}" if row.judges > 1 else ""
    judge = one_line(row.verdict.judge)
    known = (*names.judges, judge)
    return told_apart(known, names.judge_width - len(others))[judge] + others


def _cells(
    row: BrowsedRow,
    *,
    several: bool,
    star: bool,
    stale: str | None,
    read: bool,
    names: KnownNames,
) -> Cells:
    """The cells in the order of the columns."""
    given = row.verdict
    who = group_parts(row.who)
    why = given.justification if given.unscored is None else f"unscored: {given.unscored}"
    if stale is not None:
        why = f"stale, {stale}: {why}"
    marks = (_STAR_MARK if star else "") + (_STALE_MARK if stale is not None else "")
    end = "" if given.stop_reason is None else ENDINGS_SHORT[given.stop_reason]
    said = verdict(given.passed)
    cells = [
        Piece(said[:1] if names.narrow else said, VERDICT_INKS[given.passed]),
        Piece(
            marks + conversation_id(given.key, names.targets, names.id_width - len(marks)),
            (Ink.MUTED if read else Ink.TEXT) if row.counts else Ink.FAINT,
        ),
        Piece(f"{TRACK_SIGNS[given.track]} {one_line(given.metric_id)}", Ink.MUTED),
        Piece(arc(row.arc), VERDICT_INKS[given.passed] if row.counts else Ink.FAINT),
        Piece(end, Ink.MUTED),
        Piece(one_line(why) if row.counts else "played again since: u reads anew", Ink.MUTED),
    ]
    if names.judge_width:
        cells.insert(-1, Piece(_judges(row, names), Ink.MUTED))
    if names.groups:
        cells.insert(3, Piece(group_text(who, names.groups, names.who_width), Ink.MUTED))
    if several:
        benchmark = one_line(given.benchmark)
        known = (*names.benchmarks, benchmark)
        shown = told_apart(known, names.benchmark_width)[benchmark]
        cells.insert(2, Piece(shown, Ink.MUTED))
    return cells
