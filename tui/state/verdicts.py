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
    parse,
)
from engine.store.tables import TakeCount
from engine.watch import BenchmarkInfo
from tui.format import ENDINGS_SHORT, TRACK_SIGNS, conversation_id, verdict
from tui.state.headline import group_words
from tui.state.related import Subject
from tui.state.run_status import UnseenCounts
from tui.state.transcript import MOST_TURNS, arc
from tui.text.ink import VERDICT_INKS, Ink, Line, Piece, told_apart
from tui.text.wrap import Cells, Heading

AGAIN_AFTER: Final = 1.0
"""Seconds between two queries for new rows while verdicts arrive."""
ID_WIDTH: Final = (20, 48)
"""The least and the most cells of a conversation's id."""
NARROW: Final = 40
"""Below this many cells, an outcome is shown as its sign only."""
JUDGE_WIDTH: Final = (10, 24)
"""The least and the most cells of a judge's name, with the number of others."""
BENCHMARK_WIDTH: Final = (11, 14, 24)
"""The least and the most cells of a benchmark's name, and the most on a wide screen."""
WHO_WIDTH: Final = (18, 40)
"""The least and the most cells of a demographic group."""
BECAUSE_WIDTH: Final = 24
"""In this many cells, the beginning of a justification says something."""
WIDE: Final = 150
"""A screen of this many cells or more is wide."""
_OTHERS: Final = len(" +1")
_GIVE_WAY: Final = {
    Column.END: 0,
    Column.METRIC: 1,
    Column.OUTCOME: 1,
    Column.JUDGE: JUDGE_WIDTH[0],
    Column.WHO: WHO_WIDTH[0],
}
"""The columns that give way where not all fit, the least useful first, and their width then. An id
names its metric, whose direction is one cell; an outcome has a sign; without a width, a column is
left out."""
_SHRINK: Final = frozenset({Column.JUDGE, Column.WHO})
"""Those that give way by as many cells as are missing."""
_UNTITLED: Final = 4
"""A column of fewer cells has no title."""
_BESIDE_ROW: Final = 2
"""Cells beside the columns: a blank at the left and the scroll bar."""
_STALE_MARK: Final = "~ "
STAR_MARK: Final = "★ "
_BESIDE_ID: Final = 6
"""Cells beside an id in a narrow table: its mark, the sign, two blanks, the scroll bar."""
_TITLES: Final = {Column.ID: "conversation", Column.END: "ended"}
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
        self.result: FilterResult | None = None
        """The rows found; None until the store was read."""
        self.total: int | None = None
        """The number of judged conversations, whatever the filter."""
        self.fault: str | None = None
        """The reason why the store cannot be read."""
        self.longest_id = 0
        """The length of the longest id in cells; 0 until the store was read."""
        self.groups: tuple[str, ...] = ()
        """The demographic groups of all conversations."""
        self.has_judges = False
        """Whether there are verdicts of several judges."""
        self.has_stars = False
        """Whether any conversation has a star."""
        self.missed: UnseenCounts | None = None
        """Counts what arrived since the display was frozen; None while it is not."""
        self.unseen: set[int] = set()
        """The number of rows judged since that are not in the table."""
        self.decided: Mapping[int, TakeCount] = {}
        """The takes that the files decide otherwise than the store says."""
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

    def must_count(self, result: FilterResult) -> bool:
        """Whether the total must be counted, since a filtered result does not include it."""
        return bool(self.wanted) and (self.total is None or result.through > self._through)

    def find(
        self,
        result: FilterResult,
        total: int | None,
        longest_id: int,
        groups: Iterable[Mapping[str, str]] = (),
        *,
        has_judges: bool = False,
    ) -> None:
        """Take in a query's result; `total` if it was counted, `longest_id` in cells."""
        self.result, self.fault, self._through = result, None, result.through
        if not self.wanted:
            self.total = len(result.takes)
        elif total is not None:
            self.total = total
        self.longest_id, self.groups = longest_id, tuple(map(group_words, groups))
        self.has_judges = has_judges
        self.unseen.clear()
        self._count_stale()

    def mark_stale(self, stale: Mapping[int, str]) -> None:
        """Replace the set of stale takes."""
        self.stale, self._stale_known = stale, True
        self._count_stale()

    def _count_stale(self) -> None:
        takes = () if self.result is None else self.result.takes
        self._stale_found = sum(take in self.stale for take in takes)

    def mark_read(self, takes: Collection[int]) -> None:
        """Mark these as read, if they are in the table."""
        takes_found = () if self.result is None else self.result.takes
        self.read = {take for take in takes_found if take in takes} if takes else ()

    @property
    def first_unread(self) -> int | None:
        """The first unread row; None if none or all were read."""
        takes = () if self.result is None or not self.read else self.result.takes
        return next((take for take in takes if take not in self.read), None)

    @property
    def asks_for_stale(self) -> bool:
        """Whether the filter asks for stale conversations."""
        return any(STALE in term.values for term in self.wanted if term.field is Field.IS)

    @property
    def is_behind(self) -> bool:
        """Whether new verdicts are not yet in the table, while the display is not frozen."""
        news = bool(self.unseen) or self._received > self._looked_for
        return news and self.missed is None and self.result is not None

    def begin_look(self, seconds: float) -> int | None:
        """If a query for new verdicts is due, the seq from which to look. It must end with
        `end_look` or `fail`."""
        # seqs of facts, not of verdicts: the end of a take changes which take counts
        due = seconds - self._looked_at >= AGAIN_AFTER and self._received > self._looked_for
        if not due or self._looking or self.result is None:
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

    def recount(self, result: FilterResult, passed: int, failed: int) -> None:
        """Update the counts of `result`, unless other rows are shown by now."""
        if self.result is result:
            self.result = replace(result, passed=passed, failed=failed)

    def fail(self, error: Exception) -> None:
        """Note that the store could not be read; the rows stay."""
        self._looking, self.fault = False, str(error)

    def freeze(self) -> Collection[int]:
        """Freeze or unfreeze the display. Returns the rows to redraw."""
        if self.missed is None:
            self.missed = UnseenCounts()
            return ()
        self.missed = None
        rows_held, self._held = self._held, set()
        return rows_held

    def id_width(self, width: int) -> int:
        """The cells of an id on a screen of `width` cells."""
        low, high = ID_WIDTH
        mark = len(_STALE_MARK) * bool(self._stale_found) + len(STAR_MARK) * self.has_stars
        wanted = max(min(self.longest_id + mark, high), low)
        return wanted if width >= NARROW else max(min(wanted, width - _BESIDE_ID), 1)

    def columns(
        self, benchmarks: Sequence[BenchmarkInfo], width: int, judges: Sequence[str] = ()
    ) -> list[Heading]:
        """The columns on a screen of so many cells, as wide as what is in them needs; several
        benchmarks and several judges have one more each. `judges` are those that count. Where not
        all fit, the less useful ones give way to a legible justification."""
        widths = self._own_widths(benchmarks, width, judges)
        for column, least in _GIVE_WAY.items():
            others = sum(wide + 1 for wide in widths.values() if wide)
            missing = BECAUSE_WIDTH - (width - _BESIDE_ROW - others)
            if missing > 0 and column in widths:
                partly = widths[column] - missing if column in _SHRINK else 0
                widths[column] = max(partly, least)
        return [
            Heading(
                column,
                "" if column in _GIVE_WAY and wide < _UNTITLED else _TITLES.get(column, column),
                wide,
                in_middle=column is Column.ID,
            )
            for column, wide in widths.items()
            if wide or column is Column.BECAUSE
        ]

    def _own_widths(
        self, benchmarks: Sequence[BenchmarkInfo], width: int, judges: Sequence[str]
    ) -> dict[Column, int]:
        """The width of each column for what is in it, in the order of the columns."""
        turns = max((info.turns for info in benchmarks), default=0)
        names = [one_line(info.name) for info in benchmarks]
        widths = {
            Column.OUTCOME: 1 if width < NARROW else 10,
            Column.ID: self.id_width(width),
            Column.BENCHMARK: _benchmark_width(names, width) if len(names) > 1 else 0,
            Column.METRIC: 8,
            Column.WHO: _between(WHO_WIDTH, map(cell_len, self._shown_groups(width))),
            Column.TURNS: min(max(len("turns"), turns), MOST_TURNS) + 2,
            Column.END: 10,
            Column.JUDGE: _judge_width(judges) if self.has_judges else 0,
            Column.BECAUSE: 0,
        }
        return {column: wide for column, wide in widths.items() if wide or column is Column.BECAUSE}

    def _shown_groups(self, width: int) -> tuple[str, ...]:
        """The demographic groups, where they have a column on a screen of so many cells."""
        del width
        return self.groups

    def empty(self) -> Line:
        """The line shown in place of rows."""
        if self.fault is not None:
            text = one_line(self.fault)
        elif self.result is None:
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
        if self.result is None:
            return [Piece("reading the store", Ink.MUTED)]
        if self.wanted:
            return [Piece(f"{len(self.result.takes):,} shown of {total:,} judged", Ink.ACCENT)]
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
        result = self.result
        if result is None:
            return ()
        words = [
            Piece(f"✗ {result.failed:,} ", Ink.BAD),
            Piece(f"✓ {result.passed:,} ", Ink.GOOD),
            Piece(f"· {result.unscored:,} ", Ink.WARN),
        ]
        if result.uncounted:
            words.append(Piece(f"{result.uncounted:,} do not count ", Ink.MUTED))
        if self._stale_found:
            words.append(Piece(f"~ {self._stale_found:,} stale ", Ink.WARN))
        if self.read:
            words.insert(0, Piece(f"{len(self.read):,} of {len(result.takes):,} read  ", Ink.MUTED))
        if marked:
            words.insert(0, Piece(f"● {marked:,} marked  ", Ink.ACCENT))
        if self.unseen:
            words.insert(0, Piece(f"+{len(self.unseen):,} new, F5  ", Ink.ACCENT))
        if self.missed is not None:
            words.insert(0, Piece(f"{self.missed.words}  ", Ink.WARN))
        return words


def _judge_width(judges: Sequence[str]) -> int:
    """The cells of a judge's name, with the number of others."""
    names = [cell_len(judge) + _OTHERS for judge in judges]
    return _between(JUDGE_WIDTH, names or [JUDGE_WIDTH[1]])


def _between(bounds: tuple[int, int], widths: Iterable[int]) -> int:
    """The greatest of the widths, within bounds; 0 without any."""
    widest = max(widths, default=None)
    return 0 if widest is None else max(min(widest, bounds[1]), bounds[0])


def _benchmark_width(names: Sequence[str], width: int) -> int:
    """The cells of a benchmark's name on a screen of `width` cells."""
    low, *high = BENCHMARK_WIDTH
    return _between((low, high[width >= WIDE]), map(cell_len, names))


class KnownNames(NamedTuple):
    """Names that are told apart when cut."""

    targets: Sequence[str] = ()
    judges: Sequence[str] = ()
    benchmarks: Sequence[str] = ()
    groups: tuple[str, ...] = ()
    """The demographic groups."""


class RowMarks(NamedTuple):
    """What is marked about rows."""

    stars: Collection[Subject] = ()
    stale: Mapping[int, str] = {}
    """The stale rows, and why."""
    read: Collection[int] = ()


def cells(
    rows: Mapping[int, BrowsedRow],
    columns: Sequence[Heading],
    names: KnownNames,
    marks: RowMarks,
) -> dict[int, Cells]:
    """What the rows show in these columns."""
    return {
        take: [cell(column, take, row, names, marks) for column in columns]
        for take, row in rows.items()
    }


def cell(heading: Heading, take: int, row: BrowsedRow, names: KnownNames, marks: RowMarks) -> Piece:
    """What a row shows in a column; marks are looked up by `take`."""
    shown, stale, width = row.verdict, marks.stale.get(take), heading.width
    match Column(heading.name):
        case Column.OUTCOME:
            words = verdict(shown.passed)
            ink = VERDICT_INKS[shown.passed] if row.why_not is None else Ink.FAINT
            return Piece(words if width > 1 else words[:1], ink)
        case Column.ID:
            star = STAR_MARK if Subject(shown.benchmark, shown.key) in marks.stars else ""
            sign = star + (_STALE_MARK if stale is not None else "")
            name = conversation_id(shown.key, names.targets, width - len(sign))
            counted = Ink.MUTED if take in marks.read else Ink.TEXT
            return Piece(sign + name, counted if row.counts and not row.why_not else Ink.FAINT)
        case Column.BENCHMARK:
            benchmark = one_line(shown.benchmark)
            known = (*names.benchmarks, benchmark)
            return Piece(told_apart(known, width)[benchmark], Ink.MUTED)
        case Column.METRIC:
            sign = TRACK_SIGNS[shown.track]
            metric = f"{sign} {one_line(shown.metric_id)}"
            return Piece(metric if width > 1 else sign, Ink.MUTED)
        case Column.WHO:
            who = group_words(row.who)
            return Piece(told_apart((*names.groups, who), width)[who], Ink.MUTED)
        case Column.TURNS:
            return Piece(arc(row.arc), VERDICT_INKS[shown.passed] if row.counts else Ink.FAINT)
        case Column.END:
            end = "" if shown.stop_reason is None else ENDINGS_SHORT[shown.stop_reason]
            return Piece(end, Ink.MUTED)
        case Column.JUDGE:
            return Piece(_judges(row, names.judges, width), Ink.MUTED)
        case _:
            why = shown.justification if shown.unscored is None else f"unscored: {shown.unscored}"
            why = why if stale is None else f"stale, {stale}: {why}"
            why = why if row.why_not is None else f"does not count, {row.why_not}: {why}"
            return Piece(
                one_line(why) if row.counts else "played again since: F5 reads anew", Ink.MUTED
            )


def _judges(row: BrowsedRow, judges: Sequence[str], width: int) -> str:
    """The judge that counts, and the number of others, which is not cut."""
    others = f" +{row.judges - 1}" if row.judges > 1 else ""
    judge = one_line(row.verdict.judge)
    return told_apart((*judges, judge), width - len(others))[judge] + others
