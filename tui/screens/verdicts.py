"""The list of all verdicts: filter, sort and mark them, and open the conversations behind them."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Hashable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import ClassVar

from textual.binding import BindingType
from textual.widget import Widget

from engine.benchmark import ConversationKey, Metric
from engine.display import one_line
from engine.errors import CrosswindError, StoreError
from engine.facts import Fact
from engine.store.browsing import BrowsedRow, Browser, Column, Filter, FilterFault, Sorting, parse
from engine.store.open_reader import open_reader
from engine.store.reader import Reader
from engine.store.tables import TakeCount
from tui.bindings import FROZEN, key
from tui.navigation import TABS
from tui.screens.base import (
    DEFINITION,
    FREEZE,
    VARIANTS,
    ListScreen,
    Shell,
    ShellCommand,
    judging_again,
)
from tui.screens.dialogs import ChoiceOption, ChoiceScreen
from tui.services.preferences import TableView
from tui.services.ticker import begin, begin_instead
from tui.state.headline import group_words, metric_in, metric_line, shown_words, votes_words
from tui.state.related import RowCursor, Subject, TakeRef
from tui.state.run_status import Snapshot
from tui.state.transcript import verdict_blocks
from tui.state.verdicts import (
    SORTS,
    KnownNames,
    RowMarks,
    VerdictsState,
    cells,
)
from tui.text.blocks import Block
from tui.text.ink import Ink, Line, Piece
from tui.text.wrap import Cells, Heading
from tui.widgets.lines import OneLine, Titles
from tui.widgets.table import WideTable


class VerdictsScreen(ListScreen, inherit_bindings=False):
    """The verdicts screen: a number per row; queries, sorting and counts off the event loop."""

    BINDINGS: ClassVar[list[BindingType]] = [
        key("F", "filter", "filter", "choose which rows to show; it answers while you type"),
        key("backslash", "clear", "all rows", "show all rows again"),
        key("s", "sort", "sort", "sort by a column"),
        key("S", "reverse", "reverse", "reverse the order"),
        key("f5,ctrl+r", "merge", "new rows", "add what was judged since"),
        key("space", "mark", "mark", "mark this row, or take the mark away"),
        key("M", "mark_all", "mark all", "mark all rows shown, or none"),
        key("r", "judge_again", "judge again", "judge this one, or all that are marked, again"),
        key("R", "play_again", "play again", "play this one, or all that are marked, again"),
        key(
            "C",
            "compare",
            "compare",
            "read the two marked, or this and the nearest, side by side",
        ),
        VARIANTS,
        DEFINITION,
        key("X", "failures", "what failed", "show what failed, by cause, or all again"),
        key("right_curly_bracket", "tab", "tab", "show the other tab"),
        key("left_curly_bracket", "tab", "before", "show the other tab", show=False),
        FREEZE,
    ]

    TAB: ClassVar[str] = "Verdicts"
    """Its name, by which order and cursor are remembered too."""
    _browser: Browser
    """For quick queries: a page of rows."""
    _own: Browser | None
    """For slow queries, on a separate connection, so that the watch does not wait."""
    _state: VerdictsState

    def __init__(self, shell: Shell, typed: str = "") -> None:
        """`typed` is the initial filter line."""
        super().__init__(shell)
        self._told = OneLine(id="told")
        self._headings = Titles(id="headings")
        self._table = WideTable(self._cells, fixed=2, id="rows")
        self._asked = OneLine(id="metric")
        self._state = self._make_state(typed)
        self._columns: Sequence[Heading] = ()
        """The columns of the rows as last shown."""
        self._keeps_order = not typed
        """Whether it is a tab, whose order is remembered, and was not opened with a filter."""
        self._browser = self._make_browser(shell.watch.reader)
        self._own = None
        self._among: RowCursor | None = None
        """The rows paged through while reading, to return to."""
        self._begin_at: Subject | None = None
        """The remembered cursor position, until the cursor is placed."""
        self._stale_takes: Collection[int] = ()
        self._stale_due = True
        """Whether stale rows must be determined again."""
        self._from_top = False
        """Whether the next result is shown from its first row."""
        self._metric: Metric | None = None
        """The metric of the row under the cursor."""
        self._asked_words: Sequence[str] = ()
        """The text beside the metric of the row under the cursor."""
        self._group = ""
        """As whom the person of that row speaks."""
        self._stars: Sequence[Subject] = ()
        """The stars as last drawn."""
        self._read_before: Sequence[TakeRef] = ()
        """The read rows as last drawn."""
        self._goes_on = bool(typed)
        """Whether the cursor must still move to the first unread row."""

    def _make_state(self, typed: str) -> VerdictsState:
        return VerdictsState(typed)

    def _make_browser(self, reader: Reader) -> Browser:
        return Browser(reader)

    @property
    def subject(self) -> Subject | None:
        row = self._table.cursor
        subjects = [] if row is None else self._keys([row])
        return Subject(*subjects[0]) if subjects else None

    @property
    def commands(self) -> Sequence[ShellCommand]:
        return [*super().commands[:1], *judging_again(self.chosen)]

    def parts(self) -> Sequence[Widget]:
        return [self._told, self._headings, self._table, self._asked, self._detail]

    def on_mount(self) -> None:
        kept = self.shell.preferences.views.tables.get(self.TAB.lower())
        if self._keeps_order and kept is not None:
            self._begin_at = kept.row
            if kept.column in {column.value for column in Column}:
                self._state.sorting = Sorting(Column(kept.column), kept.backwards)
        self._table.focus()
        self._show_rows()
        self._find()

    def on_unmount(self) -> None:
        if self._keeps_order and self._table.rows:
            self._keep_table(self.subject)
        if self._own is not None:
            self._own.close()
            self._own = None

    def on_screen_resume(self) -> None:
        """Move the cursor to what was read last, on return from reading. On return from elsewhere,
        sort in new verdicts."""
        if self._among is not None:
            self._table.go_to(self._among.row)
            self._among = None
        elif self._state.is_behind:
            self.action_merge()

    def on_resize(self) -> None:
        if self._state.result is not None:
            self._show_rows()

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        del parameters
        if action == "tab":
            return self._keeps_order
        return action != "clear" or bool(self._state.wanted)

    def hint(self, action: str) -> str | None:
        match action:
            case "merge":
                return None if self._state.unseen else ""
            case "freeze":
                return None if self._state.missed is None else FROZEN
            case "filter" | "clear" | "go" | "tab" | "failures":
                return None
            case "mark_all" if self._table.marked and self._table.marked >= set(self._table.rows):
                return "mark none"
            case _:
                return None if self._table.rows else ""

    def receive(self, facts: Sequence[Fact]) -> None:
        self._state.receive(facts)

    def draw(self, now: Snapshot) -> None:
        if not self.is_running:
            return
        if self._stars != self.shell.preferences.views.stars:
            self._stars = self.shell.preferences.views.stars
            self._state.has_stars = bool(self._stars)
            self._table.renew_all()
            self._show_rows()
        if (
            self._state.result is not None
            and self._read_before is not self.shell.preferences.views.read
        ):
            begin_instead(self, self._find_read, "read")
        # after the first rows, which would wait for it: both compute
        if self._stale_due and self.watched.described and self._state.result is not None:
            self._stale_due = False
            begin_instead(self, self._read_stale, "stale")
        after = self._state.begin_look(now.seconds)
        if after is not None:
            begin(self, partial(self._look, after), "look")
        self._draw_lines()

    # What keys do

    def action_filter(self) -> None:
        before = self._state.wanted

        def decided(typed: str | None) -> None:
            if typed is None:
                self._want(before)
            else:
                self.show_only(" ".join(typed.split()))

        earlier = self.shell.preferences.views.lines
        self.shell.navigator.ask_filter(self._state.typed, earlier, self._want, decided)

    def action_clear(self) -> None:
        self._state.typed = ""
        self._want(())

    def action_sort(self) -> None:
        offers = [ChoiceOption(letter, str(column), words) for letter, column, words in SORTS]
        by_letter = {letter: column for letter, column, _ in SORTS}
        columns = list(by_letter.values())

        def decided(chosen: ChoiceOption | None) -> None:
            if chosen is not None:
                letter = chosen.key.lower()
                self.sort_by(by_letter[letter], stay=chosen.key != letter)

        asked = ["Sort by what?", "From the first row on; a capital letter stays with this row."]
        here = columns.index(self._state.sorting.column)
        self.app.push_screen(ChoiceScreen(asked, offers, begin=here, capitals=True), decided)

    def action_reverse(self) -> None:
        sorting = self._state.sorting
        self._order(Sorting(sorting.column, not sorting.backwards))

    def action_tab(self) -> None:
        """Show the other tab, as it was left."""
        self.shell.navigator.go(next(tab for tab in TABS if tab != self.TAB))

    def action_failures(self) -> None:
        """Show in the tab of all conversations what failed."""
        self.shell.navigator.go("All")
        # of the screen that is shown then
        self.app.call_later(self.app.run_action, "screen.show_failures")

    def action_merge(self) -> None:
        self._stale_due = True
        self._find()

    def action_mark(self) -> None:
        self._table.toggle_mark()
        self._draw_lines()

    def action_mark_all(self) -> None:
        self._table.mark_all()
        self._draw_lines()

    def action_compare(self) -> None:
        marked = [take for take in self._table.rows if take in self._table.marked]
        cursor = [] if self._table.cursor is None else [self._table.cursor]
        wanted = marked if len(marked) == 2 else cursor
        shown = self._takes(wanted)
        if shown:
            self.shell.navigator.open_comparison(*shown)

    def action_freeze(self) -> None:
        self._renew(self._state.freeze())
        self._draw_lines()

    def on_titles_clicked(self, message: Titles.Clicked) -> None:
        column = Column(message.name)
        if column is self._state.sorting.column:
            self.action_reverse()
        else:
            self.sort_by(column)

    def on_cursor_view_opened(self) -> None:
        self.open_row()

    def open_row(self) -> None:
        """Open what the cursor is on."""
        row, place = self._table.cursor, self._table.item
        keys = [] if row is None else self._keys([row])
        if place is None or not keys:
            self.shell.tell("It is gone from the store: F5 reads anew what there is.", bad=True)
            return
        self._among = RowCursor(self._browser, self._table.rows, place, self._state.read)
        benchmark, conversation = keys[0]
        self.shell.navigator.open_conversation(benchmark, conversation, among=self._among)

    def on_wide_table_shifted(self) -> None:
        self._draw_headings()

    # What is found

    def show_only(self, typed: str) -> None:
        """Show the rows of a complete filter line."""
        self._state.typed = typed
        if typed:
            views = self.shell.preferences.views
            self.shell.preferences.keep_views(replace(views, lines=views.with_line(typed)))
        try:
            self._want(parse(typed))
        except FilterFault as fault:
            self.shell.tell(str(fault), bad=True)

    def _want(self, wanted: Filter) -> None:
        if self._state.want(wanted):
            self.refresh_bindings()
            self._find()

    def sort_by(self, column: Column, *, stay: bool = False) -> None:
        """Sort by a column in its own order, which `action_reverse` reverses. With `stay`, the row
        under the cursor stays visible."""
        self._order(Sorting(column), stay=stay)

    def _order(self, sorting: Sorting, *, stay: bool = False) -> None:
        self._state.sorting = sorting
        self._from_top = not stay
        if self._keeps_order:
            kept = self.shell.preferences.views.tables.get(self.TAB.lower(), TableView())
            self._keep_table(kept.row)
        self._find()

    def _keep_table(self, row: Subject | None) -> None:
        """Remember the order and a row for the next time."""
        views, sorting = self.shell.preferences.views, self._state.sorting
        kept = TableView(sorting.column.value, sorting.backwards, row)
        tables = {**views.tables, self.TAB.lower(): kept}
        self.shell.preferences.keep_views(replace(views, tables=tables))

    async def _read_stale(self) -> None:
        by_take: dict[int, str] = {}
        decided: dict[int, TakeCount] = {}
        try:
            for info in self.watched.benchmarks:
                by_take |= await asyncio.to_thread(self.shell.engine.backend.stale, info.name)
            # validation runs and benchmarks without files, too, whose rows are listed
            for name in await asyncio.to_thread(self._own_browser().benchmarks):
                decided |= await asyncio.to_thread(self.shell.engine.backend.decided, name)
        except CrosswindError as error:
            self.shell.tell(str(error), bad=True)
        self._stale_takes = by_take.keys()
        self._state.mark_stale(by_take)
        changed, self._state.decided = decided != self._state.decided, decided
        self._browser.decided = decided
        if self._state.asks_for_stale or changed:
            self._find()
        # the mark may take up space
        self._table.renew_all()
        self._show_rows()

    async def _find_read(self) -> None:
        """Find the rows that were read. With an initial filter, the cursor goes on after them."""
        known = self._read_before = self.shell.preferences.views.read
        try:
            takes = await asyncio.to_thread(self._own_browser().takes_of, known) if known else ()
        except StoreError as error:
            self._state.fail(error)
            return
        self._state.mark_read(takes)
        self._table.renew_all()
        first, self._goes_on = self._state.first_unread if self._goes_on else None, False
        if first is not None:
            self._table.go_to(first)
        self._draw_lines()

    def _find(self) -> None:
        begin_instead(self, self._read, "find")

    async def _read(self) -> None:
        state, back_to = self._state, None
        try:
            browser = self._own_browser()
            result = await asyncio.to_thread(browser.find, state.wanted, state.sorting)
            begin_at, self._begin_at = self._begin_at, None
            if begin_at is not None:
                back_to = await asyncio.to_thread(self._find_row, browser, begin_at)
            must_count = state.must_count(result)
            total = await asyncio.to_thread(browser.count) if must_count else None
            longest = await asyncio.to_thread(browser.longest_id)
            groups = await asyncio.to_thread(browser.groups)
            judges = await asyncio.to_thread(browser.has_several_judges)
        except StoreError as error:
            state.fail(error)
        else:
            state.find(result, total, longest, groups, has_judges=judges)
        self._show_rows()
        if self._from_top:
            self._from_top = False
            self._table.move_to(0)
        if back_to is not None:
            self._table.go_to(back_to)
        await self._find_read()

    def _find_row(self, browser: Browser, subject: Subject) -> int | None:
        return browser.takes_that_count([subject]).get(subject)

    async def _look(self, after: int) -> None:
        """Query new verdicts: visible rows are redrawn in place; new rows wait for the user."""
        state, browser = self._state, self._own_browser()
        try:
            judged, through = await asyncio.to_thread(browser.judged_since, (), after)
            more, fitting = bool(state.wanted) and through > after, judged
            if more:
                fitting, _ = await asyncio.to_thread(browser.judged_since, state.wanted, after)
            total = await asyncio.to_thread(browser.count) if more else None
        except StoreError as error:
            state.fail(error)
            self._draw_lines()
            return
        # including rows that no longer match the filter, which stay where they are read
        shown = [take for take in judged if self._table.place_of(take) is not None]
        self._renew(state.end_look(fitting, shown, through, total))
        # an empty table is filled unasked: there is nothing to push away
        if state.unseen and not self._table.rows:
            self._find()
        self._draw_lines()

    def _renew(self, rows: Collection[int]) -> None:
        self._table.renew(rows)
        if self._table.cursor in rows:
            self.draw_detail()
        if rows:
            begin_instead(self, self._recount, "count")
        marked = {*self._state.stale, *self._state.decided}
        self._stale_due |= any(row in marked for row in rows)

    async def _recount(self) -> None:
        """Count outcomes again, after rows were judged again."""
        result = self._state.result
        if result is None:
            return
        try:
            outcomes = await asyncio.to_thread(self._own_browser().outcomes, result.takes)
        except StoreError as error:
            self._state.fail(error)
        else:
            self._state.recount(result, *outcomes)
        self._draw_lines()

    def _own_browser(self) -> Browser:
        if self._own is None:
            # SQLite serves one question at a time on a connection, and a sort of all rows takes
            # long
            self._own = self._make_browser(open_reader(self._browser.path))
        self._own.stale, self._own.decided = self._stale_takes, self._state.decided
        views = self.shell.preferences.views
        self._own.starred, self._own.opened = views.stars, views.read
        return self._own

    @property
    def chosen(self) -> Sequence[Subject]:
        """The marked rows, those in the table in its order; else the row under the cursor."""
        marked = self._table.marked
        if not marked:
            return super().chosen
        shown = [take for take in self._table.rows if take in marked]
        return self._keys([*shown, *sorted(marked - set(shown))])

    def _takes(self, rows: Sequence[int]) -> list[TakeRef]:
        by_take: Mapping[int, BrowsedRow] = {}
        with self.shell.telling():
            by_take = self._browser.rows(rows, self.watched.judges)
        found = [by_take[take].verdict for take in rows if take in by_take]
        return [TakeRef(row.benchmark, row.key, row.take) for row in found]

    def _keys(self, rows: Sequence[int]) -> list[Subject]:
        keys: Sequence[tuple[str, ConversationKey]] = ()
        with self.shell.telling():
            keys = self._browser.keys(rows)
        return [Subject(*key) for key in keys]

    # What is drawn

    def _show_rows(self) -> None:
        result = self._state.result
        rows = self._table.rows if result is None else result.takes
        infos, width = self.watched.benchmarks, self.size.width
        self._columns = self._state.columns(infos, width, self._judge_names)
        self._table.show(rows, self._columns, self._state.empty())
        self._draw_headings()
        self.draw_detail()
        self._draw_lines()

    @property
    def _judge_names(self) -> Sequence[str]:
        return tuple(map(one_line, self.watched.judges))

    def _cells(self, rows: Sequence[int]) -> Mapping[int, Cells]:
        try:
            browsed = self._browser.rows(rows, self.watched.judges)
        except StoreError as error:
            self._state.fault = str(error)
            return {}
        return cells(browsed, self._columns, self._known_names, self._row_marks)

    @property
    def _known_names(self) -> KnownNames:
        infos = self.watched.benchmarks
        return KnownNames(
            sorted({one_line(target.id) for info in infos for target in info.targets}),
            self._judge_names,
            [one_line(info.name) for info in infos],
            self._state.groups,
        )

    @property
    def _row_marks(self) -> RowMarks:
        stars = set(self.shell.preferences.views.stars)
        return RowMarks(stars, self._state.stale, self._state.read)

    def _draw_headings(self) -> None:
        sorting = self._state.sorting
        self._headings.show(self._table.heading_line(sorting.column, backwards=sorting.backwards))

    def _draw_lines(self) -> None:
        state, table = self._state, self._table
        self.show_heading(self._title, self._header_words())
        self._told.show(state.filter_words(self._columns), state.count_words(len(table.marked)))

    @property
    def _title(self) -> Line:
        """The tabs of the place, or the name of a list that was opened over another screen."""
        if not self._keeps_order:
            return [Piece(self.TAB, Ink.STRONG)]
        return [
            piece
            for tab in TABS
            for piece in (
                [Piece("[", Ink.ACCENT), Piece(tab, Ink.STRONG), Piece("] ", Ink.ACCENT)]
                if tab == self.TAB
                else [Piece(f" {tab}  ", Ink.MUTED)]
            )
        ]

    def _header_words(self) -> Line:
        return self._state.header()

    def draw_detail(self) -> None:
        self._metric, self._asked_words, self._group = None, (), ""
        super().draw_detail()
        line = metric_line(self._metric, self._asked_words, self.size.width, self._group)
        self._asked.show_if_any(*line)

    def detail(self) -> tuple[Hashable, Sequence[Block]]:
        row = self._table.cursor
        return row, [] if row is None else self._read_detail(row)

    def _read_detail(self, row: int) -> list[Block]:
        """Read the verdicts on a row. Raises `StoreError`."""
        verdicts, jury = self.watched.reader.verdicts(row), self.watched.jury
        browsed = self._browser.rows([row], self.watched.judges).get(row)
        if browsed is not None:
            verdict = browsed.verdict
            self._metric = metric_in(self.watched, verdict.benchmark, verdict.key.scenario_id)
            self._group = group_words(browsed.who)
            self._asked_words = [votes_words(verdicts, jury), shown_words(verdicts, jury)]
        return verdict_blocks(verdicts, jury)
