"""The live screen: stages, targets, the conversation being spoken, and verdicts as they come."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime
from functools import partial
from typing import ClassVar, Final

from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Horizontal, Vertical

from engine.benchmark import Speaker, Stage
from engine.display import one_line
from engine.errors import StoreError
from engine.facts import Fact, MessageSpoken, Noted, Speech, StateChanged, TakeEnded, VerdictGiven
from engine.link import Board, Command, Request, Response, Row
from engine.watch import BenchmarkInfo
from tui.bindings import key
from tui.format import READING, SPEAKER_NAMES, duration, scripted_words
from tui.screens.base import Shell, WatchingScreen
from tui.services.shell_commands import ShellCommand
from tui.services.ticker import begin
from tui.state.board import Paces, spending, stage_views, target_views
from tui.state.explanations import explain
from tui.state.feeds import StandingFeed, VerdictFeed
from tui.state.follower import Follower
from tui.state.related import Subject, TakeRef
from tui.state.run_status import (
    Instant,
    Missed,
    Phase,
    RunClock,
    Situation,
    current_benchmark,
    situation,
)
from tui.state.stalls import AT_MOST, PATIENCE, Stall, StallDetector, awaited, blockers, since
from tui.state.transcript import Dialogue, Thoughts
from tui.text.blocks import Block, Passage
from tui.text.ink import Ink, Piece, length
from tui.widgets.base import ROOM_FOR_NOTICE
from tui.widgets.key_line import KeyLine
from tui.widgets.lines import Blank, Lines, OneLine
from tui.widgets.stage_strip import StageStrip
from tui.widgets.target_board import TargetBoard
from tui.widgets.transcript import Transcript
from tui.widgets.verdict_table import VerdictTable

SMALL: Final = 40
"""Cells from which on the header names the benchmark."""
LOW: Final = 32
"""Rows below which what holds the run up has little room."""
FEW: Final = 2
"""Lines of it, there."""


class LiveScreen(WatchingScreen, inherit_bindings=False):
    """The root of the app."""

    BINDINGS: ClassVar[list[BindingType]] = [
        key("enter", "open", "open", "read the conversation by itself"),
        key(
            "f",
            "pin",
            "pin",
            "stay with this one, go round all, follow the newest",
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
            "the conversation being spoken before this one",
        ),
        key("space", "freeze", "freeze", "hold the display still; the run goes on"),
        key("w", "wall", "wall", "as many conversations as there is room for, as they are spoken"),
        key("t", "toggle_thoughts", "thoughts", "show or hide what the user model thinks"),
        key("plus,equals_sign", "concurrency(1)", "at once", "play one more at once"),
        key("minus", "concurrency(-1)", "at once", "play one fewer at once"),
        key("U", "unpark", "unpark", "call a target again that was given up"),
        key("a", "again", "try again", "try again what failed of what the cursor is on"),
        key("A", "again_all", "all again", "try everything again that failed"),
        key("right,l", "to_verdicts", "to the verdicts", show=False),
        key("left,h", "to_conversation", "to the conversation", show=False),
    ]

    def __init__(self, shell: Shell) -> None:
        super().__init__(shell)
        self._header = OneLine(id="header")
        self._strip = StageStrip(id="stages")
        self._targets = TargetBoard(id="board")
        self._blockers = Lines(id="blockers")
        self._talk_title = OneLine(id="talk-title", fill=True)
        self._talk = Transcript(follow=True, id="transcript")
        self._verdicts_title = OneLine(id="verdicts-title", fill=True)
        self._clock = RunClock()
        self._clock.receive(list(shell.watch.progress.notes))
        self._follower = Follower()
        self._dialogue: Dialogue | None = None
        self._problem: str | None = None
        """Why the conversation cannot be read."""
        self._feed = VerdictFeed(shell.watch.reader, current_benchmark(shell.watch))
        self._table = VerdictTable(self._feed, id="table")
        self._board: Board | None = None
        self._seconds = 0.0
        self._thoughts = False
        self._missed: Missed | None = None
        """None while the display moves."""
        self._stalls = StallDetector()
        self._paces = Paces()
        self._standings = StandingFeed(shell.watch.reader)
        self._target_ids: Sequence[str] = ()
        """Of the targets on the board."""
        self._at_once: int | None = None
        """How many are to be played at once, where the engine has not taken it up yet."""
        self._heard_at = 0.0
        """When the conversation that is shown last said something."""
        self._reload = False
        self._any_failed = False
        self._any_parked = False
        self._new_verdicts = True
        self._new_units = True
        self._shown_blocks: object = None
        """What the pane was last drawn for, where it is no conversation."""

    @property
    def subject(self) -> Subject | None:
        if self._table.has_focus and self._table.cursor is not None:
            return Subject(self._feed.benchmark, self._table.cursor)
        shown = self._dialogue.shown if self._dialogue else None
        return None if shown is None else Subject(shown.benchmark, shown.key)

    @property
    def commands(self) -> Sequence[ShellCommand]:
        return [*super().commands, ShellCommand("w", ("watch",))]

    def compose(self) -> ComposeResult:
        yield self._header
        yield self._blockers
        yield Blank(classes="break")
        yield self._strip
        yield Blank(classes="break")
        yield self._targets
        yield Blank(classes="break")
        with Horizontal(id="panes"):
            with Vertical(id="talk"):
                yield self._talk_title
                yield self._talk
            yield Blank(classes="gutter")
            with Vertical(id="verdicts"):
                yield self._verdicts_title
                yield self._table
        yield KeyLine()

    def on_mount(self) -> None:
        self._thoughts = bool(self.shell.preferences.choices.thoughts)
        self._talk.focus()

    def receive(self, facts: Sequence[Fact]) -> None:
        self._stalls.receive(facts)
        self._standings.receive(facts)
        if self._missed is not None:
            self._missed.receive(facts)
        for fact in facts:
            match fact:
                case Noted():
                    self._clock.receive([fact])
                case VerdictGiven():
                    self._new_verdicts = True
                case StateChanged():
                    self._new_units = True
                case MessageSpoken() | TakeEnded():
                    self._reload |= TakeRef(fact.benchmark, fact.key, fact.take) == (
                        self._follower.shown
                    )
                case _:
                    pass

    def draw(self, board: Board | None, moment: Instant) -> None:
        self._board, self._seconds = board, moment.seconds
        name = current_benchmark(self.watched)
        info = next((info for info in self.watched.benchmarks if info.name == name), None)
        where = situation(self.watched.progress, board, name)
        self._look(board, where, moment.seconds)
        self._draw_header(info, where, moment.at)
        if self._missed is not None:
            return
        if name != self._feed.benchmark:
            self._feed = VerdictFeed(self.watched.reader, name)
            self._new_verdicts = True
            self._table.replace(self._feed)
        self._strip.show(stage_views(self.watched, name, where, board))
        if info is not None:
            self._ask_for_standings(info.name, moment.seconds)
            self._draw_targets(info, where, board, moment)
        self._draw_blockers(info, where, board, moment.seconds)
        self._draw_talk(info, where, board, moment)
        self._draw_verdicts()

    def action_open(self) -> None:
        shown = self._dialogue.shown if self._dialogue else None
        if shown is None:
            self.shell.tell("There is no conversation to open yet.")
        else:
            self.shell.navigator.open_conversation(shown.benchmark, shown.key)

    def action_pin(self) -> None:
        self._follower.mode = self._follower.mode.next
        self.shell.tell(f"{self._follower.mode.word}: {self._follower.mode.meaning}")

    def action_wall(self) -> None:
        self.shell.navigator.open_wall()

    def action_next_conversation(self) -> None:
        self._step(1)

    def action_previous_conversation(self) -> None:
        self._step(-1)

    def action_freeze(self) -> None:
        self._missed = Missed() if self._missed is None else None

    def action_toggle_thoughts(self) -> None:
        self._thoughts = not self._thoughts
        self._reload = True
        self.shell.preferences.choose(
            replace(self.shell.preferences.choices, thoughts=self._thoughts)
        )

    def action_concurrency(self, step: int) -> None:
        known = self._board.concurrency.get(Stage.SIMULATE) if self._board else None
        now = known if self._at_once is None else self._at_once
        if now is None:
            self.shell.tell("How many are played at once is not known here.")
        elif now + step >= 1:
            self._at_once = now + step
            request = Request(Command.CONCURRENCY, stage=Stage.SIMULATE, number=now + step)
            self.shell.engine.ask(request, self._concurrency_changed)

    def _concurrency_changed(self, answer: Response) -> None:
        self.shell.tell(answer.text, bad=not answer.accepted)
        if not answer.accepted:
            self._at_once = None

    def action_unpark(self) -> None:
        parked = self._board.parked if self._board else {}
        chosen = self._target_in_focus
        for target in [chosen] if chosen in parked else list(parked):
            self.shell.engine.ask(Request(Command.UNPARK, target=target))

    def action_again(self) -> None:
        """What failed of what the cursor is on: a target, or a conversation."""
        benchmark, target = current_benchmark(self.watched), self._target_in_focus
        if target is not None:
            if self._failed_of(benchmark, target):
                self.shell.engine.ask(Request(Command.RETRY, target=target))
            else:
                self.shell.tell(f"Nothing of {target} has failed.")
            return
        subject = self.subject
        if subject is None:
            self.shell.tell("There is nothing here to try again: Tab goes to the targets.")
        else:
            row = Row.of(subject.benchmark, subject.key)
            self.shell.engine.ask(Request(Command.RETRY, rows=(row,)))

    def action_again_all(self) -> None:
        self.shell.engine.ask(Request(Command.RETRY))

    @property
    def _target_in_focus(self) -> str | None:
        """The id of the target that the cursor is on, where the focus is on targets."""
        place = self._targets.cursor if self._targets.has_focus else None
        return None if place is None else self._target_ids[place]

    def _failed_of(self, benchmark: str, target: str) -> int:
        progress = self.watched.progress.target(benchmark, target)
        return progress.simulate.failed + progress.evaluate.failed

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        match action:
            case "unpark":
                return self._board is not None and bool(self._board.parked)
            case "again" | "again_all":
                return self._any_failed
            case _:
                return super().check_action(action, parameters)

    def action_to_verdicts(self) -> None:
        self.set_focus(self._table)  # at once: the next key is for it already

    def action_to_conversation(self) -> None:
        self.set_focus(self._talk)

    def _step(self, step: int) -> None:
        speaking = self._board.speaking if self._board else ()
        self._follower.step(speaking, step, self._seconds)

    def _look(self, board: Board | None, where: Situation, seconds: float) -> None:
        """Take note of what moves, and of what can be done now."""
        if where.phase.over or where.phase is Phase.PAUSED:
            self._stalls.begin_anew(seconds)
        self._stalls.look(board, seconds)
        if board is None or board.concurrency.get(Stage.SIMULATE) == self._at_once:
            self._at_once = None
        any_failed = where.failed > 0
        if any_failed != self._any_failed:
            self._any_failed = any_failed
            self.refresh_bindings()
        if (board is not None and bool(board.parked)) != self._any_parked:
            self._any_parked = not self._any_parked
            self.refresh_bindings()

    def _ask_for_standings(self, benchmark: str, seconds: float) -> None:
        described = self.watched.described
        if described and self.is_mounted and self._standings.due(benchmark, seconds):
            begin(self, partial(self._read_standings, benchmark, seconds), "standings")

    async def _read_standings(self, benchmark: str, seconds: float) -> None:
        await self._standings.read(benchmark, seconds)
        self._new_units = True

    def _draw_targets(
        self, info: BenchmarkInfo, where: Situation, board: Board | None, moment: Instant
    ) -> None:
        def still(target: str) -> float | None:
            return self._stalls.of(target, moment.seconds)

        at_work = None if where.phase.over else still
        known = self._standings.of(info.name) or {}
        views = target_views(self.watched, info, board, moment.at, self._paces, at_work, known)
        self._target_ids = [target.id for target in info.targets]
        progresses = self.watched.progress.targets_of(info.name).values()
        self._targets.show(views, spending(board, progresses))

    def _draw_blockers(
        self, info: BenchmarkInfo | None, where: Situation, board: Board | None, seconds: float
    ) -> None:
        quiet, still = None, self._stalls.of_all(seconds)
        if still is not None and board is not None and info is not None:
            what = awaited(board, self.watched.progress, info, where)
            quiet = None if what is None else Stall(what, still)
        most = FEW if self.size.height < LOW else AT_MOST
        labels = [target.label for target in info.targets] if info is not None else []
        self._blockers.show(blockers(board, max(self.size.width - 1, 1), quiet, most, labels))

    def _draw_header(self, info: BenchmarkInfo | None, where: Situation, at: datetime) -> None:
        width = self.size.width
        name = [Piece("Crosswind  ", Ink.ACCENT)]
        left = [Piece(" ")]
        if width >= SMALL and info is not None:
            left.append(Piece(one_line(info.name) + "  ", Ink.STRONG))
        state = self._state_words(where, at)
        notice: list[Piece] = []
        if info is not None and info.scripted:
            words = scripted_words(info.scripts, roomy=True)
            whole = [Piece(words, Ink.WARN), Piece(" ")]
            roomy = width >= ROOM_FOR_NOTICE and length([*left, *state, *whole]) < width
            short = scripted_words(info.scripts, roomy=False)
            notice = whole if roomy else [Piece(short, Ink.WARN), Piece(" ")]
        elif not self.watched.described:
            notice = [Piece(READING, Ink.MUTED), Piece(" ")]
        title = [] if info is None else [Piece(one_line(info.title) + "  ", Ink.MUTED)]
        if width >= SMALL and length([*left, *name, *state, *notice]) < width:
            left[1:1] = name
        if length([*left, *title, *state, *notice]) < width:
            left += title
        self._header.show([*left, *state], notice)

    def _state_words(self, where: Situation, at: datetime) -> list[Piece]:
        pieces = [Piece(f"{where.phase.glyph} {where.words}", where.phase.ink)]
        seconds = self._clock.seconds(at)
        if seconds is not None and where.phase not in {Phase.CUT_OFF, Phase.LOST}:
            pieces.append(Piece(f"  {duration(seconds)}"))
        if self._missed is not None:
            pieces.append(Piece(f"  {self._missed.words}", Ink.WARN))
        return pieces

    def _draw_talk(
        self, info: BenchmarkInfo | None, where: Situation, board: Board | None, moment: Instant
    ) -> None:
        speaking = board.speaking if board else ()
        loaded = self._load_again()
        before = self._follower.shown
        ended = [before] if before is not None and self._has_ended() else []
        shown = self._follower.look(speaking, ended, moment.seconds)
        if shown is None or self._may_explain(where, moment.seconds):
            self._draw_explanation(info, where)
        else:
            self._draw_conversation(shown, info, moment.seconds, loaded=loaded)
        self._draw_talk_title(where, moment.seconds)

    def _has_ended(self) -> bool:
        take = self._dialogue.take if self._dialogue else None
        return take is not None and take.stop_reason is not None

    def _may_explain(self, where: Situation, seconds: float) -> bool:
        if self._follower.pinned and self._dialogue is not None:
            return False
        if where.phase.over:
            return self._follower.rested(seconds) or not self._has_ended()
        return False

    def _draw_explanation(self, info: BenchmarkInfo | None, where: Situation) -> None:
        self._dialogue = None
        stamp = (where, info.name if info else None)
        if stamp == self._shown_blocks and not self._new_units:
            return
        pane = self._talk
        known = {} if info is None else self._standings.of(info.name) or {}
        blocks = explain(where, self.watched, info, known)
        if stamp == self._shown_blocks:
            pane.show(blocks)
        else:
            pane.show_another(blocks, follow=False)
        self._shown_blocks, self._new_units = stamp, False

    def _load_again(self) -> bool:
        """Read the conversation again where a fact told of it."""
        if self._dialogue is None or not self._reload:
            return False
        self._load(self._dialogue)
        return True

    def _draw_conversation(
        self, shown: TakeRef, info: BenchmarkInfo | None, seconds: float, *, loaded: bool
    ) -> None:
        dialogue, pane = self._dialogue, self._talk
        if dialogue is None or dialogue.shown != shown:
            dialogue = self._dialogue = Dialogue(shown, info.turns if info else 0)
            self._shown_blocks = None
            self._load(dialogue)
            dialogue.listen(self.watched.link)
            self._heard_at = seconds
            pane.show_another(self._blocks(dialogue), follow=True)
            return
        heard = dialogue.listen(self.watched.link)
        if heard or loaded:
            self._heard_at = seconds
            pane.show(self._blocks(dialogue))

    def _load(self, dialogue: Dialogue) -> None:
        self._reload = False
        try:
            dialogue.load(self.watched.reader)
            self._problem = None
        except StoreError as error:
            self._problem = one_line(str(error))

    def _blocks(self, dialogue: Dialogue) -> list[Block]:
        thoughts = Thoughts.OPEN if self._thoughts else Thoughts.FOLDED
        blocks = dialogue.blocks(thoughts=thoughts)
        if self._problem is not None:
            blocks.append(Passage("problem", "problem", self._problem, Ink.BAD, Ink.BAD))
        return blocks

    def _draw_talk_title(self, where: Situation, seconds: float) -> None:
        pane, dialogue = self._talk, self._dialogue
        left = [_focus_mark(has_focus=pane.has_focus)]
        if dialogue is None:
            left.append(Piece(where.words, where.phase.ink))
        else:
            name = one_line(str(dialogue.shown.key))
            left.append(Piece(name, _title_ink(has_focus=pane.has_focus)))
            left += [Piece("  pinned", Ink.WARN)] if self._follower.pinned else []
            silent = seconds - self._heard_at if where.phase in _SPOKEN else 0.0
            left += _progress_of(dialogue, silent)
        self._talk_title.show(left, self._mode(pane, where))

    def _mode(self, pane: Transcript, where: Situation) -> list[Piece]:
        if self._dialogue is None:
            return []
        if pane.rows_below:
            return [Piece(f"▼ {pane.rows_below} below", Ink.ACCENT)]
        if self._has_ended():
            return [Piece("ended", Ink.MUTED)]
        if self._follower.pinned:
            return []
        word = "paused" if where.phase is Phase.PAUSED else self._follower.mode.word
        return [Piece(word, Ink.MUTED)]

    def _draw_verdicts(self) -> None:
        if self._new_verdicts:
            changed, self._new_verdicts = self._feed.pull()
            self._table.show(changed)
        title = [
            _focus_mark(has_focus=self._table.has_focus),
            Piece("verdicts", _title_ink(has_focus=self._table.has_focus)),
            Piece(f"  {len(self._feed)}", Ink.MUTED),
        ]
        below = self._table.rows_below
        more = [Piece(f"▼ {below} below", Ink.ACCENT)] if below else []
        self._verdicts_title.show(title, more)

    def on_target_board_opened(self, message: TargetBoard.Opened) -> None:
        typed = f'target:"={self._target_ids[message.place]}"'
        if len(self.watched.benchmarks) > 1:
            typed = f'benchmark:"={self._feed.benchmark}" {typed}'
        self.shell.navigator.open_verdicts(typed)

    def on_verdict_table_opened(self, message: VerdictTable.Opened) -> None:
        self.shell.navigator.open_conversation(self._feed.benchmark, message.key)


def _focus_mark(*, has_focus: bool) -> Piece:
    return Piece(" ▸ ", Ink.ACCENT) if has_focus else Piece("   ")


def _title_ink(*, has_focus: bool) -> Ink:
    return Ink.ACCENT if has_focus else Ink.STRONG


def _progress_of(dialogue: Dialogue, silent: float) -> list[Piece]:
    """`turn 3 of 6  target speaking`, or after a while of silence what is waited for."""
    of = f" of {dialogue.turns}" if dialogue.turns else ""
    pieces: list[Piece] = []
    if dialogue.turn:
        pieces.append(Piece(f"  turn {dialogue.turn}{of}", Ink.TEXT))
    live: Speech | None = dialogue.live
    if live is None or (dialogue.take is not None and dialogue.take.stop_reason is not None):
        return pieces
    who = SPEAKER_NAMES[live.speaker]
    if silent >= PATIENCE:
        what = "no token yet" if dialogue.wordless else "silent"
        return [*pieces, Piece(f"  {who}: {what}, {since(silent)}", Ink.WARN)]
    ink = Ink.USER if live.speaker is Speaker.USER else Ink.TARGET
    return [*pieces, Piece(f"  {who} speaking", ink)]


_SPOKEN: Final = {Phase.RUNNING, Phase.DRAINING}
"""Phases in which words are to be expected."""
