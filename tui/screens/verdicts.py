"""Every verdict: filtered, sorted, marked, and a key away from the conversation behind it."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import ClassVar, Final

from textual.app import ComposeResult
from textual.binding import BindingType

from engine.display import drawn, one_line
from engine.errors import StoreError
from engine.facts import Fact, TakeEnded, VerdictGiven
from engine.link import Board
from engine.store.browsing import BrowsedRow, Browser, Column, Filter, FilterResult, Sorting
from engine.store.reading import open_reader
from engine.store.records import VerdictRow
from tui.bindings import key
from tui.format import ENDINGS_SHORT, TRACK_SIGNS, verdict
from tui.screens.base import Shell, WatchingScreen, heading
from tui.screens.dialogs import ChoiceScreen, Offer
from tui.services.shell_commands import ShellCommand, judging_again
from tui.services.ticker import begin, begin_instead
from tui.state.filters import FilterFault, parse
from tui.state.related import Among, Subject, TakeRef
from tui.state.run_status import Instant, Missed
from tui.state.transcript import MOST_TURNS, VERDICT_INKS, arc, verdict_blocks
from tui.text.blocks import Block, Passage
from tui.text.ink import Ink, Line, Piece, shorten
from tui.widgets.key_line import KeyLine
from tui.widgets.lines import OneLine
from tui.widgets.table import Cells, Heading, Headings, WideTable
from tui.widgets.transcript import Transcript

AGAIN_AFTER: Final = 1.0
"""Seconds between two looks for new rows while verdicts come."""
ID_WIDTH: Final = (20, 48)
JUDGE_WIDTH: Final = 24

_SORTS: Final = (
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


class VerdictsScreen(WatchingScreen, inherit_bindings=False):
    """Holds a number for each row; finds, sorts and counts away from the loop."""

    BINDINGS: ClassVar[list[BindingType]] = [
        key("F", "filter", "filter", "which rows to show, answered while you type"),
        key("backslash", "clear", "all rows", "show all rows again"),
        key("s", "sort", "sort", "sort by a column"),
        key("S", "reverse", "reverse", "the same order from its other end"),
        key("u", "merge", "new rows", "take in what was judged since, where it belongs"),
        key("m", "mark", "mark", "mark this row, or take the mark away"),
        key("M", "mark_all", "mark all", "mark all rows that are shown, or none"),
        key("r", "judge_again", "judge again", "have this, or what is marked, judged again"),
        key("R", "play_again", "play again", "have this, or what is marked, played again"),
        key("C", "compare", "compare", "two marked ones side by side, or this with its nearest"),
        key("v", "scenario", "variants", "its scenario: all targets, samples and variants"),
        key("space", "freeze", "freeze", "hold the display still; the run goes on"),
    ]

    def __init__(self, shell: Shell, typed: str = "") -> None:
        """`typed` is a filter line to begin with."""
        super().__init__(shell)
        self._header = OneLine(id="header")
        self._told = OneLine(id="told")
        self._headings = Headings(id="headings")
        self._table = WideTable(self._cells, fixed=2, id="rows")
        self._detail = Transcript(follow=False, id="detail")
        self._browser = Browser(shell.watch.reader)
        """For what is needed at once: a page."""
        self._asked: Browser | None = None
        """For what takes longer, by a connection of its own: the watch does not wait for it."""
        self._typed = typed
        self._wanted: Filter = parse(typed)
        self._sorting = Sorting()
        self._keeps_order = not typed
        """Whether its order is the one to come back to: not where one came to see some rows."""
        self._found: FilterResult | None = None
        self._total: int | None = None
        """Of everything that was judged."""
        self._longest_id = 0
        self._new: set[int] = set()
        """Rows that were judged since and are not in the table."""
        self._through = 0
        self._judged = False
        self._looked_at = float("-inf")
        self._looking = False
        self._missed: Missed | None = None
        """None while the display moves."""
        self._held: set[int] = set()
        """Rows that are not what they were, as the display is held still."""
        self._fault: str | None = None
        self._among: Among | None = None
        self._begun = False
        self._come_back_to: Subject | None = None
        """What the cursor was on the last time."""
        self._stars: Sequence[Subject] = ()

    @property
    def subject(self) -> Subject | None:
        row = self._table.cursor
        found = [] if row is None else self._keys([row])
        return Subject(*found[0]) if found else None

    @property
    def commands(self) -> Sequence[ShellCommand]:
        return [*super().commands[:1], *judging_again(self._chosen())]

    def compose(self) -> ComposeResult:
        yield self._header
        yield self._told
        yield self._headings
        yield self._table
        yield self._detail
        yield KeyLine()

    def on_mount(self) -> None:
        views = self.shell.preferences.views
        if self._keeps_order:
            self._come_back_to = views.row
            if views.column in {column.value for column in Column}:
                self._sorting = Sorting(Column(views.column), views.backwards)
        self._table.focus()
        self._show_rows()

    def on_unmount(self) -> None:
        if self._keeps_order and self._table.rows:
            self.shell.preferences.keep_views(
                replace(self.shell.preferences.views, row=self.subject)
            )
        if self._asked is not None:
            self._asked.close()
            self._asked = None

    def on_screen_resume(self) -> None:
        """Back from reading: the cursor goes to what was read last."""
        if self._among is not None:
            self._table.go_to(self._among.row)
            self._among = None

    def on_resize(self) -> None:
        self._draw_headings()

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        del parameters
        return action != "clear" or bool(self._wanted)

    def receive(self, facts: Sequence[Fact]) -> None:
        self._judged |= any(isinstance(fact, VerdictGiven | TakeEnded) for fact in facts)
        if self._missed is not None:
            self._missed.receive(facts)

    def draw(self, board: Board | None, moment: Instant) -> None:
        del board
        if not self.is_running:
            return
        if not self._begun:
            self._begun = True
            self._find()
        if self._stars != self.shell.preferences.views.stars:
            self._stars = self.shell.preferences.views.stars
            self._table.renew_all()
        due = moment.seconds - self._looked_at >= AGAIN_AFTER
        if self._judged and due and not self._looking and self._found:
            self._judged, self._looking, self._looked_at = False, True, moment.seconds
            begin(self, self._look, "look")
        self._draw_lines()

    # What keys do

    def action_filter(self) -> None:
        before = self._wanted

        def decided(typed: str | None) -> None:
            if typed is None:
                self._want(before)
            else:
                self.show_only(typed)

        earlier = self.shell.preferences.views.lines
        self.shell.navigator.ask_filter(self._typed, earlier, self._want, decided)

    def action_clear(self) -> None:
        self._typed = ""
        self._want(())

    def action_sort(self) -> None:
        offers = [Offer(letter, str(column), words) for letter, column, words in _SORTS]
        by_letter = {letter: column for letter, column, _ in _SORTS}
        self.app.push_screen(
            ChoiceScreen("Sort by what?", offers),
            lambda chosen: None if chosen is None else self.sort_by(by_letter[chosen.key]),
        )

    def action_reverse(self) -> None:
        self._order(Sorting(self._sorting.column, not self._sorting.backwards))

    def action_merge(self) -> None:
        self._find()

    def action_mark(self) -> None:
        self._table.toggle_mark()
        self._draw_lines()

    def action_mark_all(self) -> None:
        self._table.mark_all()
        self._draw_lines()

    def action_judge_again(self) -> None:
        self.shell.navigator.judge_again(self._chosen())

    def action_play_again(self) -> None:
        self.shell.navigator.play_again(self._chosen())

    def action_compare(self) -> None:
        marked = [take for take in self._table.rows if take in self._table.marked]
        cursor = [] if self._table.cursor is None else [self._table.cursor]
        wanted = marked if len(marked) == 2 else cursor
        rows = self._rows(wanted)
        shown = [TakeRef(row.benchmark, row.key, row.take) for row in rows]
        if shown:
            self.shell.navigator.open_comparison(*shown)

    def action_scenario(self) -> None:
        subject = self.subject
        if subject is not None:
            benchmark, conversation = subject
            scenario = conversation.scenario_id
            self.shell.navigator.open_scenario(benchmark, scenario, cursor=conversation)

    def action_freeze(self) -> None:
        self._missed = Missed() if self._missed is None else None
        if self._missed is None:
            self._renew(self._held)
            self._held = set()
        self._draw_lines()

    def on_headings_clicked(self, message: Headings.Clicked) -> None:
        column = Column(message.name)
        if column is self._sorting.column:
            self.action_reverse()
        else:
            self.sort_by(column)

    def on_wide_table_opened(self, message: WideTable.Opened) -> None:
        place = self._table.place_of(message.row)
        found = self._keys([message.row])
        if place is None or not found:
            self.shell.tell("It is gone from the store: u reads anew what there is.", bad=True)
            return
        self._among = Among(self._browser, self._table.rows, place)
        benchmark, conversation = found[0]
        self.shell.navigator.open_conversation(benchmark, conversation, among=self._among)

    def on_cursor_view_moved(self) -> None:
        self._draw_detail()

    def on_wide_table_shifted(self) -> None:
        self._draw_headings()

    # What is found

    def show_only(self, typed: str) -> None:
        """What a filter line holds that is finished."""
        self._typed = typed
        if typed:
            views = self.shell.preferences.views
            self.shell.preferences.keep_views(replace(views, lines=views.with_line(typed)))
        try:
            self._want(parse(typed))
        except FilterFault as fault:
            self.shell.tell(str(fault), bad=True)

    def _want(self, wanted: Filter) -> None:
        if wanted != self._wanted:
            self._wanted = wanted
            self.refresh_bindings()
            self._find()

    def sort_by(self, column: Column) -> None:
        self._order(Sorting(column))

    def _order(self, sorting: Sorting) -> None:
        self._sorting = sorting
        if self._keeps_order:
            column, backwards = sorting.column.value, sorting.backwards
            self.shell.preferences.keep_views(
                replace(self.shell.preferences.views, column=column, backwards=backwards)
            )
        self._find()

    def _find(self) -> None:
        begin_instead(self, self._read, "find")

    async def _read(self) -> None:
        wanted, sorting = self._wanted, self._sorting
        try:
            browser = self._own_browser()
            found = await asyncio.to_thread(browser.find, wanted, sorting)
            back_to = await self._take_to_come_back_to(browser)
            if not wanted:
                self._total = len(found.takes)
            elif self._total is None or self._new:
                self._total = await asyncio.to_thread(browser.count)
        except StoreError as error:
            self._fault = str(error)
            self._show_rows()
            return
        self._fault = None
        self._found, self._through = found, found.through
        if not self._longest_id:
            self._longest_id = browser.longest_scenario_id() + self._longest_tail
        self._new.clear()
        self._show_rows()
        if back_to is not None:
            self._table.go_to(back_to)

    async def _take_to_come_back_to(self, browser: Browser) -> int | None:
        """Once."""
        subject, self._come_back_to = self._come_back_to, None
        if subject is None:
            return None
        takes = await asyncio.to_thread(browser.takes_that_count, [subject])
        return takes.get(subject)

    async def _look(self) -> None:
        """For what was judged since: rows that are shown are drawn anew where they stand, others
        wait until they are asked for."""
        try:
            browser = self._own_browser()
            judged, through = await asyncio.to_thread(
                browser.judged_since, self._wanted, self._through
            )
            if self._wanted and through > self._through:
                self._total = await asyncio.to_thread(browser.count)
        except StoreError as error:
            self._fault = str(error)
            self._draw_lines()
            return
        finally:
            self._looking = False
        self._through = through
        shown = [take for take in judged if self._table.place_of(take) is not None]
        self._new |= set(judged) - set(shown)
        if self._missed is not None:
            self._held.update(shown)
        else:
            self._renew(shown)
        if self._new and not self._table.rows:
            self._find()
        self._draw_lines()

    def _renew(self, rows: Collection[int]) -> None:
        self._table.renew(rows)
        if self._table.cursor in rows:
            self._draw_detail()

    @property
    def _longest_tail(self) -> int:
        """Of an id behind the scenario's: the target and the sample."""
        targets = (target.id for info in self.watched.benchmarks for target in info.targets)
        return max(map(len, targets), default=0) + len("____s0")

    def _own_browser(self) -> Browser:
        if self._asked is None:
            self._asked = Browser(open_reader(self._browser.path))
        return self._asked

    def _chosen(self) -> list[Subject]:
        """What is marked, in the order of the table where it is in it; else what the cursor is
        on."""
        marked = self._table.marked
        if not marked:
            subject = self.subject
            return [] if subject is None else [subject]
        shown = [take for take in self._table.rows if take in marked]
        return self._keys([*shown, *sorted(marked - set(shown))])

    def _rows(self, takes: Sequence[int]) -> list[VerdictRow]:
        try:
            found = self._browser.rows(takes)
        except StoreError as error:
            self.shell.tell(str(error), bad=True)
            return []
        return [found[take].verdict for take in takes if take in found]

    def _keys(self, rows: Sequence[int]) -> list[Subject]:
        try:
            return [Subject(*each) for each in self._browser.keys(rows)]
        except StoreError as error:
            self.shell.tell(str(error), bad=True)
            return []

    # What is drawn

    def _show_rows(self) -> None:
        rows = self._found.takes if self._found is not None else self._table.rows
        self._table.show(rows, self._columns(), [Piece("  " + self._nothing(), Ink.MUTED)])
        self._draw_headings()
        self._draw_detail()
        self._draw_lines()

    def _nothing(self) -> str:
        if self._fault is not None:
            return one_line(self._fault)
        if self._found is None:
            return "Reading the store."
        if self._wanted:
            return "Nothing fits the filter: F changes it, \\ shows all rows."
        return "No verdict yet: they come as conversations end."

    def _columns(self) -> list[Heading]:
        low, high = ID_WIDTH
        width = max(min(self._longest_id, high), low)
        several = len(self.watched.benchmarks) > 1
        turns = max((info.turns for info in self.watched.benchmarks), default=0)
        columns = [
            Heading(Column.OUTCOME, "outcome", 10),
            Heading(Column.ID, "conversation", width),
            Heading(Column.METRIC, "metric", 7),
            Heading(Column.WHO, "who", 18),
            Heading(Column.TURNS, "turns", min(max(len("turns"), turns), MOST_TURNS) + 2),
            Heading(Column.END, "ended", 10),
            Heading(Column.JUDGE, "judge", JUDGE_WIDTH),
            Heading(Column.BECAUSE, "because", 0),
        ]
        if several:
            columns.insert(2, Heading(Column.BENCHMARK, "benchmark", 14))
        return columns

    def _cells(self, rows: Sequence[int]) -> Mapping[int, Cells]:
        try:
            found = self._browser.rows(rows)
        except StoreError as error:
            self._fault = str(error)
            return {}
        several = len(self.watched.benchmarks) > 1
        stars = set(self.shell.preferences.views.stars)
        return {
            take: _cells(
                row,
                several=several,
                star=Subject(row.verdict.benchmark, row.verdict.key) in stars,
            )
            for take, row in found.items()
        }

    def _draw_headings(self) -> None:
        sorting = self._sorting
        self._headings.show(self._table.heading_line(sorting.column, backwards=sorting.backwards))

    def _draw_lines(self) -> None:
        found, total = self._found, self._total or 0
        if found is None:
            told = [Piece("reading the store", Ink.MUTED)]
        elif self._wanted:
            told = [Piece(f"{len(found.takes):,} of {total:,} judged", Ink.ACCENT)]
        else:
            told = [Piece(f"{total:,} judged", Ink.MUTED)]
        self._header.show(*heading(self, "Verdicts", told))
        self._told.show(self._filter_words(), self._count_words())

    def _filter_words(self) -> Line:
        if self._fault is not None:
            return [Piece(" " + one_line(self._fault), Ink.BAD)]
        ordered = Piece(self._order_words(), Ink.MUTED)
        if not self._typed:
            return [Piece(" F filters, s sorts", Ink.FAINT), ordered]
        typed = Piece(one_line(self._typed), Ink.ACCENT)
        return [Piece(" "), typed, Piece("  \\ clears", Ink.FAINT), ordered]

    def _order_words(self) -> str:
        """By what the rows are sorted, where no heading says so."""
        sorting = self._sorting
        if sorting.column.value in {heading.name for heading in self._columns()}:
            return ""
        return f"  by {sorting.column} {'▾' if sorting.backwards else '▴'}"

    def _count_words(self) -> Line:
        found = self._found
        if found is None:
            return ()
        words = [
            Piece(f"✗ {found.failed:,} ", Ink.BAD),
            Piece(f"✓ {found.passed:,} ", Ink.GOOD),
            Piece(f"· {found.unscored:,} ", Ink.WARN),
        ]
        if self._table.marked:
            words.insert(0, Piece(f"● {len(self._table.marked):,} marked  ", Ink.ACCENT))
        if self._new:
            words.insert(0, Piece(f"+{len(self._new):,} new, u  ", Ink.ACCENT))
        if self._missed is not None:
            words.insert(0, Piece(f"{self._missed.words}  ", Ink.WARN))
        return words

    def _draw_detail(self) -> None:
        self._detail.show_another(self._detail_blocks(), follow=False)

    def _detail_blocks(self) -> list[Block]:
        row = self._table.cursor
        if row is None:
            return []
        try:
            return verdict_blocks(self.watched.reader.verdicts(row), self.watched.jury)
        except StoreError as error:
            return [Passage("fault", "store", drawn(str(error)), Ink.BAD, Ink.BAD)]


def _judges(row: BrowsedRow) -> str:
    """Who speaks, and how many others there are."""
    others = f" +{row.judges - 1}" if row.judges > 1 else ""
    return shorten(one_line(row.verdict.judge), JUDGE_WIDTH - len(others)) + others


def _cells(row: BrowsedRow, *, several: bool, star: bool) -> Cells:
    """In the order of the columns."""
    given = row.verdict
    who = ", ".join(one_line(str(value)) for value in row.who.values())
    why = given.justification if given.unscored is None else f"unscored: {given.unscored}"
    end = "" if given.stop_reason is None else ENDINGS_SHORT[given.stop_reason]
    cells = [
        Piece(verdict(given.passed), VERDICT_INKS[given.passed]),
        Piece(
            ("★ " if star else "") + one_line(str(given.key)),
            Ink.TEXT if row.counts else Ink.FAINT,
        ),
        Piece(f"{TRACK_SIGNS[given.track]} {one_line(given.metric_id)}", Ink.MUTED),
        Piece(who, Ink.MUTED),
        Piece(arc(row.arc), VERDICT_INKS[given.passed] if row.counts else Ink.FAINT),
        Piece(end, Ink.MUTED),
        Piece(_judges(row), Ink.MUTED),
        Piece(one_line(why) if row.counts else "played again since: u reads anew", Ink.MUTED),
    ]
    if several:
        cells.insert(2, Piece(one_line(given.benchmark), Ink.MUTED))
    return cells
