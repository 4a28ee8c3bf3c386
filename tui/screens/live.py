"""The live screen: stages, targets, the conversation being spoken, and verdicts as they come."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import ClassVar

from textual.binding import BindingType
from textual.containers import Horizontal, Vertical
from textual.widget import Widget

from engine.benchmark import Stage
from engine.errors import StoreError
from engine.facts import Fact
from engine.link import Command, Request, Response, WorkRow
from engine.store.browsing import Browser, parse
from engine.store.tables import VerdictRow
from engine.watch import BenchmarkInfo
from tui.bindings import FROZEN, key
from tui.screens.base import DEFINITION, FREEZE, Shell, ShellCommand, WatchingScreen
from tui.services.ticker import begin
from tui.state.benchmark_summary import failures_of
from tui.state.live import LiveState
from tui.state.related import RowCursor, Subject
from tui.state.run_status import Snapshot
from tui.widgets.base import NOT_TINY, CursorView
from tui.widgets.lines import Blank, Lines, OneLine
from tui.widgets.table import VerdictTable
from tui.widgets.target_board import StageStrip, TargetBoard, field_legend
from tui.widgets.transcript import TranscriptView


class LiveScreen(WatchingScreen, inherit_bindings=False):
    """The root of the app."""

    BINDINGS: ClassVar[list[BindingType]] = [
        key("enter", "open", "open", "open the conversation"),
        key(
            "f",
            "pin",
            "pin",
            "stay with this one, go round all, or follow the newest",
        ),
        key(
            "right_square_bracket",
            "next_conversation",
            "next",
            "the next conversation being spoken",
        ),
        key(
            "left_square_bracket",
            "previous_conversation",
            "previous",
            "the previous conversation being spoken",
        ),
        DEFINITION,
        FREEZE,
        key("w", "wall", "wall", "watch as many conversations at once as there is room for"),
        key("t", "toggle_thoughts", "thoughts", "show or hide what the user model thinks"),
        key("plus,equals_sign", "concurrency(1)", "at once", "play one more at once"),
        key("minus", "concurrency(-1)", "at once", "play one fewer at once"),
        key("U", "unpark", "unpark", "call a target again that was given up on"),
        key("a", "again", "try again", "try again what failed here"),
        key("A", "again_all", "all again", "try again everything that failed"),
        key("right,l", "to_verdicts", "to the verdicts", show=False),
        key("left,h", "to_conversation", "to the conversation", show=False),
    ]

    def __init__(self, shell: Shell) -> None:
        super().__init__(shell)
        self._strip = StageStrip(id="stages")
        self._legend = OneLine()
        self._legend.add_class("break")
        self._targets = TargetBoard(id="board")
        self._blockers = Lines(id="blockers")
        self._asks = OneLine(id="asks")
        self._happening = OneLine(id="happening")
        self._waits = OneLine(id="waits")
        self._talk_title = OneLine(id="talk-title", fill=True)
        self._talk_metric = OneLine(id="talk-metric")
        self._talk = TranscriptView(follow=True, id="transcript")
        self._verdicts_title = OneLine(id="verdicts-title", fill=True)
        self._state = LiveState(shell.watch)
        self._table = VerdictTable(self._state.feed, id="table")

    @property
    def subject(self) -> Subject | None:
        if self._table.has_focus and self._table.cursor is not None:
            return Subject(self._state.feed.benchmark, self._table.cursor)
        return self._state.subject

    @property
    def commands(self) -> Sequence[ShellCommand]:
        return [*super().commands, ShellCommand("w", ("watch",))]

    def parts(self) -> Sequence[Widget]:
        talk = Vertical(self._talk_title, self._talk_metric, self._talk, id="talk")
        verdicts = Vertical(self._verdicts_title, self._table, id="verdicts")
        return [
            *(self._blockers, self._asks, self._happening, self._waits),
            *(self._strip, self._legend, self._targets),
            Blank(classes="break"),
            Horizontal(talk, Blank(classes="gutter"), verdicts, id="panes"),
        ]

    def on_mount(self) -> None:
        self._state.thoughts = bool(self.shell.preferences.choices.thoughts)
        self._talk.focus()

    def hint(self, action: str) -> str | None:
        state = self._state
        match action:
            # while the run is on, a message may begin at any moment: the keys stay in the footer,
            # where users look for them
            case "open" if state.failure is not None:
                return None
            case "open" | "next_conversation" | "previous_conversation" | "wall":
                return None if state.is_spoken or (action == "open" and state.subject) else ""
            case "pin":
                return state.follower.mode.next.hint if state.is_spoken or state.subject else ""
            case "freeze":
                if state.missed is not None:
                    return FROZEN
                return "" if state.now.status.phase.over else None
            case "again":
                target = self._target_in_focus
                failed = self.subject if target is None else state.failed_of(target)
                return None if failed else ""
            case "concurrency":
                return "" if state.at_once is None or state.now.status.phase.over else None
            case "toggle_thoughts":
                if state.dialogue is None and not state.is_spoken:
                    return ""
                return "no thoughts" if state.thoughts else None
            case "definition":
                return None if state.is_spoken or self.subject is not None else ""
            case _:
                return None

    def receive(self, facts: Sequence[Fact]) -> None:
        self._state.receive(facts)

    def draw(self, now: Snapshot) -> None:
        state, possible = self._state, self._state.possible
        state.look(now)
        if state.possible != possible:
            self.refresh_bindings()
        width, height = self.size
        self._header.show(*state.header(width))
        # the header keeps moving: it says how far behind the rest is
        if state.missed is not None:
            return
        feed = state.other_feed()
        if feed is not None:
            self._table.replace(feed)
        self._asks.show_if_any(state.asks(width))
        self._strip.show(state.stages())
        if now.info is not None:
            self._read_scores(now.info)
            targets = state.targets(now.info)
            self._legend.show(field_legend(targets, width))
            self._targets.show(targets)
            self._table.tell_apart([target.name for target in targets])
        happening, waits = state.activity(width)
        self._happening.show_if_any(*happening)
        self._blockers.show(state.blockers(width, height))
        # it keeps its place as long as anything may come and go
        self._waits.set_class(state.now.status.phase.over and not any(waits), "-nothing")
        self._waits.show(*waits)
        self._draw_talk()
        self._draw_verdicts()

    def _read_scores(self, info: BenchmarkInfo) -> None:
        """Read the scores off the event loop, if due."""
        scores, seconds = self._state.scores, self._state.now.seconds
        if self.watched.described and self.is_mounted and scores.due(info.name, seconds):
            begin(self, partial(scores.read, info.name, seconds), "scores")

    def _draw_talk(self) -> None:
        tiny = self.size.height < NOT_TINY
        pane = self._talk
        update = self._state.pane(tiny=tiny)
        if update is not None and update.another:
            pane.show_another(update.blocks, follow=update.follow)
        elif update is not None:
            pane.show(update.blocks)
        self._talk_title.show(
            *self._state.pane_title(has_focus=pane.has_focus, rows_below=pane.rows_below)
        )
        self._talk_metric.show_if_any(*self._state.measured(pane.line_width))

    def _draw_verdicts(self) -> None:
        state, table = self._state, self._table
        if state.feed.behind:
            changed, _more = state.feed.pull()
            table.show(changed)
        self._verdicts_title.show(
            *state.verdicts_title(has_focus=table.has_focus, rows_below=table.rows_below)
        )

    def action_open(self) -> None:
        shown, failure = self._state.subject, self._state.failure
        if failure is not None:
            self._open_failure(failure)
        elif shown is None:
            self.shell.tell("There is no conversation to open yet.")
        else:
            self.shell.navigator.open_conversation(*shown)

    def _open_failure(self, failure: VerdictRow) -> None:
        """Open it at its evidence, with the other failures of its metric before and after it."""
        benchmark, key, among = failure.benchmark, failure.key, None
        browser, reader = Browser(self.watched.reader), self.watched.reader
        try:
            take = reader.counting_take(benchmark, key)
            rows = browser.find(parse(failures_of(benchmark, failure.metric_id))).takes
        except StoreError as error:
            self.shell.tell(str(error), bad=True)
            return
        # what was judged again since the pane was drawn may be no failure any more
        if take is not None and take.seq in rows:
            among = RowCursor(browser, rows, rows.index(take.seq))
        self.shell.navigator.open_conversation(benchmark, key, among=among)

    def action_pin(self) -> None:
        mode = self._state.follower.mode = self._state.follower.mode.next
        self.shell.tell(f"{mode.word}: {mode.meaning}")

    def action_wall(self) -> None:
        self.shell.navigator.open_wall()

    def action_next_conversation(self) -> None:
        self._state.step(1)

    def action_previous_conversation(self) -> None:
        self._state.step(-1)

    def action_freeze(self) -> None:
        self._state.freeze()

    def action_toggle_thoughts(self) -> None:
        self._state.thoughts = not self._state.thoughts
        self.shell.preferences.choose(
            replace(self.shell.preferences.choices, thoughts=self._state.thoughts)
        )
        frozen = None if self._state.missed is None else self._state.as_held()
        if frozen is not None:
            self._talk.show(frozen)

    def action_concurrency(self, step: int) -> None:
        now = self._state.at_once
        if now is None:
            self.shell.tell("How many are played at once is not known here.")
        elif now + step >= 1:
            self._state.asked_at_once = now + step
            request = Request(Command.CONCURRENCY, stage=Stage.SIMULATE, number=now + step)
            self.shell.engine.ask(request, self._concurrency_changed)

    def _concurrency_changed(self, answer: Response) -> None:
        self.shell.tell(answer.text, bad=not answer.accepted)
        if not answer.accepted:
            self._state.asked_at_once = None

    def action_unpark(self) -> None:
        parked, chosen = self._state.parked, self._target_in_focus
        for target in [chosen] if chosen in parked else list(parked):
            self.shell.engine.ask(Request(Command.UNPARK, target=target))

    def action_again(self) -> None:
        """Retry what failed of the target or conversation under the cursor."""
        target = self._target_in_focus
        if target is not None:
            if self._state.failed_of(target):
                self.shell.engine.ask(Request(Command.RETRY, target=target))
            else:
                self.shell.tell(f"Nothing of {target} has failed.")
            return
        subject = self.subject
        if subject is None:
            self.shell.tell("There is nothing here to try again: Tab goes to the targets.")
        else:
            row = WorkRow.of(subject.benchmark, subject.key)
            self.shell.engine.ask(Request(Command.RETRY, rows=(row,)))

    def action_again_all(self) -> None:
        self.shell.engine.ask(Request(Command.RETRY))

    @property
    def _target_in_focus(self) -> str | None:
        """The id of the target under the cursor, if the targets have the focus."""
        place = self._targets.cursor if self._targets.has_focus else None
        return None if place is None else self._state.target_ids[place]

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        if action in {"unpark", "again", "again_all"}:
            return action in self._state.possible
        return super().check_action(action, parameters)

    def action_to_verdicts(self) -> None:
        self.focus_pane(self._table)

    def action_to_conversation(self) -> None:
        self.focus_pane(self._talk)

    def on_cursor_view_opened(self, message: CursorView.Opened) -> None:
        benchmark = self._state.feed.benchmark
        if message.view is self._targets and self._targets.cursor is not None:
            typed = f'target:"={self._state.target_ids[self._targets.cursor]}"'
            if len(self.watched.benchmarks) > 1:
                typed = f'benchmark:"={benchmark}" {typed}'
            self.shell.navigator.open_verdicts(typed)
        elif message.view is self._table and self._table.cursor is not None:
            self.shell.navigator.open_conversation(benchmark, self._table.cursor)
