"""The list of all conversations in every state, and of what failed."""

from __future__ import annotations

import asyncio
from collections.abc import Hashable, Mapping, Sequence
from functools import partial
from time import monotonic
from typing import ClassVar, Final

from textual.binding import BindingType
from textual.widget import Widget

from engine.benchmark import ConversationKey, Stage, State
from engine.display import one_line
from engine.errors import StoreError
from engine.facts import Speech
from engine.link import Command, Request, WorkRow
from engine.pipeline.remedies import FailureGroup, KnownFailure, standing_failures
from engine.store.browsing import FAILED, RUNNING, Browser
from engine.store.conversations import ConversationBrowser, ConversationRow
from engine.store.reader import Reader
from engine.store.tables import StateRow
from engine.watch import targets_of
from tui.bindings import key
from tui.screens.base import Shell, ShellCommand
from tui.screens.failures import FailureList, failure_blocks, retrying
from tui.screens.verdicts import VerdictsScreen
from tui.services.ticker import begin_instead
from tui.state.conversations import AllState, LastWords, row_cells, state_blocks
from tui.state.headline import info_of, metric_in
from tui.state.related import Subject, TakeRef
from tui.state.run_status import Snapshot
from tui.text.blocks import Block
from tui.text.ink import Line, shorten_start
from tui.text.wrap import Cells
from tui.widgets.table import PAGE, PAGES_KEPT

SPEAK_SECONDS: Final = 0.5
"""Between two draws of last words."""
CELLS_A_DRAW: Final = 2_000
"""So many cells are sent at most at a draw of last words; the other rows have their turn next."""
CELLS_BESIDE: Final = 60
"""What a row costs beside its cells: moving the cursor and changing colours."""
SORT_SECONDS: Final = 2.0
"""Between two orders of the list while the cursor rests at the top, and at least ten times what one
takes."""
LAST_CHARACTERS: Final = 240
"""Of a message, of which last words are taken."""
MOST_KNOWN: Final = PAGE * PAGES_KEPT
_PLAYED: Final = (Stage.SIMULATE, Stage.EVALUATE)


class AllScreen(VerdictsScreen):
    """All conversations. With the filter `is:failed`, the failures by cause stand in the place of
    the table."""

    BINDINGS: ClassVar[list[BindingType]] = [
        key("a", "again", "try again", "try again what is under the cursor, or all that is marked"),
        key("A", "again_all", "all again", "try again everything that failed"),
        key("D", "hide", "dismiss", "hide this failure until it fails anew; or show all again"),
    ]
    TAB = "All"
    _state: AllState
    _browser: ConversationBrowser

    def __init__(self, shell: Shell, typed: str = "") -> None:
        super().__init__(shell, typed)
        self._keeps_order = True
        self._failures = FailureList(shell)
        self._known: dict[int, ConversationRow] = {}
        """Rows as they were read last."""
        self._rows_by_id: dict[tuple[str, str], int] = {}
        self._said: dict[Subject, LastWords | None] = {}
        self._began: dict[tuple[TakeRef, int, str], float] = {}
        """When the messages that are being spoken were first seen."""
        self._spoken_at = self._found_at = float("-inf")
        self._took = 0.0
        """Seconds that the list took to be made."""
        self._next_place = 0
        """The place of the row that is the first to say its last words at the next draw."""
        self._states: Sequence[tuple[str, Stage, str, State]] = ()

    def _make_state(self, typed: str) -> AllState:
        return AllState(typed)

    def _make_browser(self, reader: Reader) -> Browser:
        return ConversationBrowser(reader)

    def parts(self) -> Sequence[Widget]:
        *above, detail = super().parts()
        return [*above, self._failures, detail]

    def on_mount(self) -> None:
        self._failures.display = False

    @property
    def _shows_failures(self) -> bool:
        return self._state.asks_for_failed

    @property
    def subject(self) -> Subject | None:
        return self._failures.subject if self._shows_failures else super().subject

    @property
    def commands(self) -> Sequence[ShellCommand]:
        if self._shows_failures:
            again = self._failures.command()
            return [] if again is None else [*super().commands[:1], again]
        if (again := retrying(self._chosen_failed())) is not None:
            return [*super().commands[:1], again]
        return super().commands if self._is_judged else super().commands[:1]

    def hint(self, action: str) -> str | None:
        failures = self._failures
        match action:
            case "failures":
                return "all rows" if self._shows_failures else None
            case "again" if self._shows_failures and failures.parked_at_cursor is not None:
                return "call again"
            case "again":
                return None if self._chosen_failed() else ""
            case "again_all":
                return None if failures.failed else ""
            case "hide":
                return None if self._shows_failures and failures.failed else ""
            case "mark" if self._shows_failures:
                return None if failures.unit is not None else ""
            case "judge_again" | "compare":
                return None if self._is_judged else ""
            case _:
                return super().hint(action)

    @property
    def _is_judged(self) -> bool:
        """Whether the conversation under the cursor has a verdict."""
        row = None if self._table.cursor is None else self._known.get(self._table.cursor)
        return row is not None and row.judged is not None

    # What keys do

    def action_failures(self) -> None:
        """Show what failed, by cause, or everything again."""
        if self._shows_failures:
            self.action_clear()
        else:
            self.action_show_failures()

    def action_show_failures(self) -> None:
        if not self._shows_failures:
            self.show_only(f"is:{FAILED}")

    def action_again(self) -> None:
        if self._shows_failures:
            self._failures.again()
        elif rows := self._chosen_failed():
            self.shell.engine.ask(Request(Command.RETRY, rows=tuple(rows)))

    def action_again_all(self) -> None:
        self._failures.again_all()

    def action_hide(self) -> None:
        if self._shows_failures:
            self._failures.dismiss()
            self._find()

    def action_mark(self) -> None:
        if self._shows_failures:
            self._failures.toggle_mark()
        else:
            super().action_mark()

    def _chosen_failed(self) -> Sequence[WorkRow]:
        """The failed conversations among what the cursor or the marks choose."""
        if self._shows_failures:
            return [WorkRow(unit.benchmark, unit.unit) for unit in self._failures.chosen()]
        table = self._table
        chosen = table.marked or ({table.cursor} if table.cursor is not None else set())
        rows = [self._known[row] for row in sorted(chosen) if row in self._known]
        return [WorkRow.of(row.benchmark, row.key) for row in rows if row.state == FAILED]

    def open_row(self) -> None:
        if not self._shows_failures:
            super().open_row()
            return
        group = self._failures.cursor
        if isinstance(group, KnownFailure):
            self._failures.toggle(group)
            self.draw_detail()
            return
        unit = self._failures.unit
        if unit is None:
            return
        if unit.stage in _PLAYED:
            self.shell.navigator.open_conversation(unit.benchmark, ConversationKey.parse(unit.unit))
        elif unit.stage is Stage.GEN_SCENARIOS:
            self.shell.navigator.open_scenario(unit.benchmark, unit.unit)
        else:
            self.shell.tell("Its reason, whole, stands below the list.")

    # What is found

    def _find(self) -> None:
        self._state.begin_find()
        self._known.clear()
        self._rows_by_id.clear()
        super()._find()

    async def _read(self) -> None:
        began = monotonic()
        try:
            groups = await asyncio.to_thread(self._read_states)
        except StoreError as error:
            self._state.fail(error)
            self._failures.fail(error)
            self._show_rows()
            return
        await super()._read()
        found = set(await asyncio.to_thread(self._browser.keys, self._table.rows))
        self._failures.take(groups, partial(self._fits, found))
        self._took = monotonic() - began
        self._show_failures()

    def _read_states(self) -> Sequence[FailureGroup]:
        """Read which failures stand, and thereby in which state each conversation is."""
        watch = self.watched
        corrections = dict(watch.corrections)
        names, targets = [info.name for info in watch.benchmarks], targets_of(watch.benchmarks)
        groups = standing_failures(watch.reader, names, targets, corrections)
        self._states = [
            *(
                (unit.benchmark, unit.stage, unit.unit, unit.state)
                for group in groups
                for unit in group.units
            ),
            *(
                (row.benchmark, row.stage, row.unit, row.state)
                for rows in corrections.values()
                for row in rows
            ),
        ]
        self._browser.states = self._states
        return groups

    def _own_browser(self) -> Browser:
        browser = super()._own_browser()
        assert isinstance(browser, ConversationBrowser)  # noqa: S101  (it makes no other)
        browser.states = self._states
        return browser

    def _fits(self, found: set[tuple[str, ConversationKey]], unit: StateRow) -> bool:
        """Whether a failure fits the filter, which finds conversations."""
        if not self._state.asks_for_more:
            return True
        key = (unit.benchmark, ConversationKey.parse(unit.unit)) if unit.stage in _PLAYED else None
        return key in found

    def _find_row(self, browser: Browser, subject: Subject) -> int | None:
        assert isinstance(browser, ConversationBrowser)  # noqa: S101  (it makes no other)
        return browser.row_of(*subject)

    async def _recount(self) -> None:
        """Nothing: the list is made anew to count."""

    def _takes(self, rows: Sequence[int]) -> list[TakeRef]:
        known = [self._known[row] for row in rows if row in self._known]
        return [
            TakeRef(row.benchmark, row.key, row.number) for row in known if row.number is not None
        ]

    # What is drawn

    def draw(self, now: Snapshot) -> None:
        self._state.sorts_itself = self._shows_failures or not self._table.item
        super().draw(now)
        if not self.is_running:
            return
        parked = {} if now.board is None else dict(now.board.parked)
        if parked != self._failures.parked:
            self._failures.parked = parked
            self._failures.fill()
        self._draw_changed()
        due = now.seconds - self._found_at >= max(
            0 if self._shows_failures else SORT_SECONDS, 10 * self._took
        )
        if self._state.is_behind and due and self._state.sorts_itself:
            self._found_at = now.seconds
            self._find()
        if now.seconds - self._spoken_at >= SPEAK_SECONDS and self._state.missed is None:
            self._spoken_at = now.seconds
            self._draw_last_words(now.speaking, now.seconds)

    def _draw_changed(self) -> None:
        rows = []
        for changed in self._state.take_changed():
            row = self._rows_by_id.get(changed)
            if row is not None:
                self._known.pop(row, None)
                rows.append(row)
        self._table.renew(rows)
        if self._table.cursor in rows:
            self.draw_detail()

    def _draw_last_words(self, speaking: Sequence[Speech], seconds: float) -> None:
        """Draw what is said now in the rows that are seen, as many as the budget allows."""
        speeches = {Subject(each.benchmark, each.key): each for each in speaking}
        self._note_begun(speaking, seconds)
        visible = self._table.rows[self._table.top :][: self._table.page_height]
        changed: list[int] = []
        most = max(CELLS_A_DRAW // (self.size.width + CELLS_BESIDE), 1)
        begin = self._next_place % max(len(visible), 1)
        for place in (*range(begin, len(visible)), *range(begin)):
            known = self._known.get(visible[place])
            if known is None or known.state != RUNNING or len(changed) == most:
                continue
            subject = Subject(known.benchmark, known.key)
            said, before = self._last_words(speeches.get(subject), seconds), self._said.get(subject)
            if said != before:
                self._said[subject] = said
                changed.append(visible[place])
                self._next_place = place + 1
        self._table.renew(changed)

    def _note_begun(self, speaking: Sequence[Speech], seconds: float) -> None:
        """Note when messages were first seen: the engine's own clock only orders them."""
        before = self._began
        names = [(TakeRef.of(each), each.turn, each.speaker) for each in speaking]
        self._began = {name: before.get(name, seconds) for name in names}

    def _last_words(self, speech: Speech | None, seconds: float) -> LastWords | None:
        if speech is None or self.watched.link is None:
            return None
        live = self.watched.link.text(speech.benchmark, speech.key)
        text = "" if live is None else one_line(live.text[-LAST_CHARACTERS:])
        # to the last whole word: what is being spoken would change with each token
        words = shorten_start(text.rpartition(" ")[0], self._words_room)
        began = self._began[TakeRef.of(speech), speech.turn, speech.speaker]
        return LastWords(speech.turn, speech.speaker, int(seconds - began), words)

    @property
    def _words_room(self) -> int:
        """The cells that last words have, beside who speaks and for how long."""
        beside = sum(heading.width + heading.gap for heading in self._columns[:-1])
        return max(self._table.line_width - beside - len(" target 999 s  "), 0)

    def _cells(self, rows: Sequence[int]) -> Mapping[int, Cells]:
        if not self._read_rows(rows):
            return {}
        names, marks = self._known_names, self._row_marks
        return {
            row: row_cells(
                known,
                self._columns,
                names,
                marks,
                self._said.get(Subject(known.benchmark, known.key)),
                self._turns(known.benchmark),
            )
            for row in rows
            if (known := self._known.get(row)) is not None
        }

    def _read_rows(self, rows: Sequence[int]) -> bool:
        """Read those of these rows that are not known. Returns whether the store could be read."""
        unknown = [row for row in rows if row not in self._known]
        if len(self._known) + len(unknown) > MOST_KNOWN:
            self._known.clear()
            self._rows_by_id.clear()
            unknown = list(rows)
        try:
            read = self._browser.conversations(unknown, self.watched.judges) if unknown else {}
        except StoreError as error:
            self._state.fault = str(error)
            return False
        self._known |= read
        self._rows_by_id |= {(row.benchmark, str(row.key)): row.row for row in read.values()}
        return True

    def _turns(self, benchmark: str) -> int:
        info = info_of(self.watched, benchmark)
        return 0 if info is None else info.turns

    def _show_failures(self) -> None:
        """Show the failures in the place of the table where the filter asks for them."""
        shown = self._shows_failures
        if self._failures.display != shown:
            self._failures.display = shown
            for other in (self._table, self._headings):
                other.display = not shown
            self.focus_pane(self._failures if shown else self._table)
            # laid out in the width of the table, which it has with the next layout
            self.call_after_refresh(self._draw_headings)
        self._failures.fill()
        self.draw_detail()
        self._draw_lines()

    def _header_words(self) -> Line:
        return self._failures.header() if self._shows_failures else super()._header_words()

    def draw_detail(self) -> None:
        if self._shows_failures:
            read = partial(self._failures.read_attempts, self.draw_detail)
            begin_instead(self, read, "attempts")
        super().draw_detail()

    def detail(self) -> tuple[Hashable, Sequence[Block]]:
        if self._shows_failures:
            return FAILED, self._failures.blocks()
        return super().detail()

    def _read_detail(self, row: int) -> list[Block]:
        """Read what is known of a conversation. Raises `StoreError`."""
        if not self._read_rows([row]) or row not in self._known:
            return []
        known = self._known[row]
        self._metric = metric_in(self.watched, known.benchmark, known.key.scenario_id)
        if known.judged is not None and known.take is not None:
            return super()._read_detail(known.take)
        unit = self._failures.find(known.benchmark, str(known.key))
        return state_blocks(known) if unit is None else failure_blocks(unit, None)
