"""The live screen: stages, targets, the conversation being spoken, and verdicts as they come."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime
from typing import ClassVar, Final

from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Horizontal, Vertical

from engine.benchmark import Speaker, Stage, Track
from engine.display import one_line
from engine.errors import StoreError
from engine.facts import Fact, MessageSpoken, Noted, StateChanged, TakeEnded, VerdictGiven
from engine.link import Board, Command, Request
from engine.progress import Tally, TargetProgress
from engine.speech import Speech
from engine.watch import BenchmarkInfo, TargetInfo, Watch
from tui.dialogue import Dialogue, Thoughts
from tui.explanations import explain
from tui.holdups import holdups
from tui.keys import key
from tui.screens.watching import ROOM_FOR_NOTICE, WatchingScreen
from tui.shell import Subject
from tui.situation import Phase, RunClock, Situation, current_benchmark, situation
from tui.spotlight import Shown, Spotlight
from tui.ticker import Moment
from tui.verdict_feed import VerdictFeed
from tui.widgets.blocks import Block, Passage
from tui.widgets.ink import Ink, Piece, length
from tui.widgets.key_line import KeyLine
from tui.widgets.lines import Lines
from tui.widgets.one_line import Blank, OneLine
from tui.widgets.stage_strip import StageState, StageStrip, StageView
from tui.widgets.target_board import TargetBoard, TargetView
from tui.widgets.transcript import Transcript
from tui.widgets.verdict_table import VerdictTable
from tui.wording import (
    SCRIPTED,
    SPEAKER_NAMES,
    STAGE_NAMES,
    UNKNOWN,
    amount,
    duration,
    money,
    rate,
)

SMALL: Final = 40
"""Cells from which on the header names the benchmark."""


class LiveScreen(WatchingScreen, inherit_bindings=False):
    """The root of the app."""

    BINDINGS: ClassVar[list[BindingType]] = [
        key("f", "pin", "pin", "stay with this conversation, or follow the newest again"),
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
        key("t", "toggle_thoughts", "thoughts", "show or hide what the user model thinks"),
        key("plus,equals_sign", "concurrency(1)", "at once", "play one more at once"),
        key("minus", "concurrency(-1)", "at once", "play one fewer at once"),
        key("U", "unpark", "unpark", "call targets again that were given up"),
        key("right,l", "to_verdicts", "to the verdicts", show=False),
        key("left,h", "to_conversation", "to the conversation", show=False),
    ]

    def __init__(self, watch: Watch) -> None:
        super().__init__(watch)
        self._header = OneLine(id="header")
        self._strip = StageStrip(id="stages")
        self._targets = TargetBoard(id="board")
        self._holdups = Lines(id="holdups")
        self._talk_title = OneLine(id="talk-title", fill=True)
        self._talk = Transcript(follow=True, id="transcript")
        self._verdicts_title = OneLine(id="verdicts-title", fill=True)
        self._clock = RunClock()
        self._clock.hear(list(watch.progress.notes))
        self._spotlight = Spotlight()
        self._dialogue: Dialogue | None = None
        self._problem: str | None = None
        """Why the conversation cannot be read."""
        self._feed = VerdictFeed(watch.reader, current_benchmark(watch))
        self._table = VerdictTable(self._feed, id="table")
        self._board: Board | None = None
        self._seconds = 0.0
        self._thoughts = False
        self._frozen_at: int | None = None
        """The last fact before the display was frozen."""
        self._reload = False
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

    def compose(self) -> ComposeResult:
        yield self._header
        yield Blank(classes="break")
        yield self._strip
        yield Blank(classes="break")
        yield self._targets
        yield self._holdups
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
        self._thoughts = bool(self.shell.choices.thoughts)
        self._talk.focus()

    def hear(self, facts: Sequence[Fact]) -> None:
        for fact in facts:
            match fact:
                case Noted():
                    self._clock.hear([fact])
                case VerdictGiven():
                    self._new_verdicts = True
                case StateChanged():
                    self._new_units = True
                case MessageSpoken() | TakeEnded():
                    self._reload |= Shown(fact.benchmark, fact.key, fact.take) == (
                        self._spotlight.shown
                    )
                case _:
                    pass

    def draw(self, board: Board | None, moment: Moment) -> None:
        self._board, self._seconds = board, moment.seconds
        name = current_benchmark(self.watched)
        info = next((info for info in self.watched.benchmarks if info.name == name), None)
        where = situation(self.watched.progress, board, name)
        self._draw_header(info, where, moment.at)
        if self._frozen_at is not None:
            return
        if name != self._feed.benchmark:
            self._feed = VerdictFeed(self.watched.reader, name)
            self._new_verdicts = True
            self._table.replace(self._feed)
        self._strip.show(_stages(self.watched, name, where))
        if info is not None:
            self._targets.show(_targets(self.watched, info, moment.at))
        self._holdups.show(holdups(board, max(self.size.width - 1, 1)))
        self._draw_talk(info, where, board, moment)
        self._draw_verdicts()

    def action_pin(self) -> None:
        self._spotlight.pinned = not self._spotlight.pinned

    def action_next_conversation(self) -> None:
        self._step(1)

    def action_previous_conversation(self) -> None:
        self._step(-1)

    def action_freeze(self) -> None:
        self._frozen_at = None if self._frozen_at is not None else self.watched.progress.seq

    def action_toggle_thoughts(self) -> None:
        self._thoughts = not self._thoughts
        self._reload = True
        self.shell.choose(replace(self.shell.choices, thoughts=self._thoughts))

    def action_concurrency(self, step: int) -> None:
        now = self._board.concurrency.get(Stage.SIMULATE) if self._board else None
        if now is None:
            self.shell.tell("How many are played at once is not known here.")
        elif now + step >= 1:
            self.shell.ask(Request(Command.CONCURRENCY, stage=Stage.SIMULATE, number=now + step))

    def action_unpark(self) -> None:
        for target in self._board.parked if self._board else ():
            self.shell.ask(Request(Command.UNPARK, target=target))

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        if action == "unpark":
            return self._board is not None and bool(self._board.parked)
        return super().check_action(action, parameters)

    def action_to_verdicts(self) -> None:
        self.set_focus(self._table)  # at once: the next key is for it already

    def action_to_conversation(self) -> None:
        self.set_focus(self._talk)

    def _step(self, step: int) -> None:
        speaking = self._board.speaking if self._board else ()
        self._spotlight.step(speaking, step, self._seconds)

    def _draw_header(self, info: BenchmarkInfo | None, where: Situation, at: datetime) -> None:
        width = self.size.width
        name = [Piece("Crosswind  ", Ink.ACCENT)]
        left = [Piece(" ")]
        if width >= SMALL and info is not None:
            left.append(Piece(one_line(info.name) + "  ", Ink.STRONG))
        notice: list[Piece] = []
        if info is not None and info.scripted:
            words = SCRIPTED if width >= ROOM_FOR_NOTICE else "scripted"
            notice = [Piece(words, Ink.WARN), Piece(" ")]
        state = self._state_words(where, at)
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
        if self._frozen_at is not None:
            behind = self.watched.progress.seq - self._frozen_at
            pieces.append(Piece(f"  frozen, {behind} behind", Ink.WARN))
        return pieces

    def _draw_talk(
        self, info: BenchmarkInfo | None, where: Situation, board: Board | None, moment: Moment
    ) -> None:
        speaking = board.speaking if board else ()
        loaded = self._load_again()
        before = self._spotlight.shown
        ended = [before] if before is not None and self._has_ended() else []
        shown = self._spotlight.look(speaking, ended, moment.seconds)
        if shown is None or self._may_explain(where, moment.seconds):
            self._draw_explanation(info, where)
        else:
            self._draw_conversation(shown, info, loaded=loaded)
        self._draw_talk_title(where)

    def _has_ended(self) -> bool:
        take = self._dialogue.take if self._dialogue else None
        return take is not None and take.stop_reason is not None

    def _may_explain(self, where: Situation, seconds: float) -> bool:
        if self._spotlight.pinned:
            return False
        if where.phase.over:
            return self._spotlight.rested(seconds) or not self._has_ended()
        return False

    def _draw_explanation(self, info: BenchmarkInfo | None, where: Situation) -> None:
        self._dialogue = None
        stamp = (where, info.name if info else None)
        if stamp == self._shown_blocks and not self._new_units:
            return
        pane = self._talk
        blocks = explain(where, self.watched, info)
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

    def _draw_conversation(self, shown: Shown, info: BenchmarkInfo | None, *, loaded: bool) -> None:
        dialogue, pane = self._dialogue, self._talk
        if dialogue is None or dialogue.shown != shown:
            dialogue = self._dialogue = Dialogue(shown, info.turns if info else 0)
            self._shown_blocks = None
            self._load(dialogue)
            dialogue.listen(self.watched.link)
            pane.show_another(self._blocks(dialogue), follow=True)
        elif dialogue.listen(self.watched.link) or loaded:
            pane.show(self._blocks(dialogue))

    def _load(self, dialogue: Dialogue) -> None:
        self._reload = False
        try:
            dialogue.load(self.watched.reader)
            self._problem = None
        except StoreError as error:
            self._problem = one_line(str(error))

    def _blocks(self, dialogue: Dialogue) -> list[Block]:
        thoughts = Thoughts.OPEN if self._thoughts else Thoughts.HIDDEN
        blocks = dialogue.blocks(thoughts=thoughts)
        if self._problem is not None:
            blocks.append(Passage("problem", "problem", self._problem, Ink.BAD, Ink.BAD))
        return blocks

    def _draw_talk_title(self, where: Situation) -> None:
        pane, dialogue = self._talk, self._dialogue
        left = [_focus_mark(has_focus=pane.has_focus)]
        if dialogue is None:
            left.append(Piece(where.words, where.phase.ink))
        else:
            name = one_line(str(dialogue.shown.key))
            left.append(Piece(name, _title_ink(has_focus=pane.has_focus)))
            left += [Piece("  pinned", Ink.WARN)] if self._spotlight.pinned else []
            left += _progress_of(dialogue)
        self._talk_title.show(left, self._mode(pane, where))

    def _mode(self, pane: Transcript, where: Situation) -> list[Piece]:
        if self._dialogue is None:
            return []
        if pane.rows_below:
            return [Piece(f"▼ {pane.rows_below} below", Ink.ACCENT)]
        if self._has_ended():
            return [Piece("ended", Ink.MUTED)]
        if self._spotlight.pinned:
            return []
        return [Piece("paused" if where.phase is Phase.PAUSED else "following", Ink.MUTED)]

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

    def on_verdict_table_opened(self, message: VerdictTable.Opened) -> None:
        # Imported here, since the other screen is seldom the first thing that is needed.
        from tui.screens.conversation import ConversationScreen

        self.app.push_screen(ConversationScreen(self.watched, self._feed.benchmark, message.key))


def _focus_mark(*, has_focus: bool) -> Piece:
    return Piece(" ▸ ", Ink.ACCENT) if has_focus else Piece("   ")


def _title_ink(*, has_focus: bool) -> Ink:
    return Ink.ACCENT if has_focus else Ink.STRONG


def _progress_of(dialogue: Dialogue) -> list[Piece]:
    """`turn 3 of 6  target speaking`."""
    of = f" of {dialogue.turns}" if dialogue.turns else ""
    pieces: list[Piece] = []
    if dialogue.turn:
        pieces.append(Piece(f"  turn {dialogue.turn}{of}", Ink.TEXT))
    live: Speech | None = dialogue.live
    if live is not None and dialogue.take is not None and dialogue.take.stop_reason is None:
        ink = Ink.USER if live.speaker is Speaker.USER else Ink.TARGET
        pieces.append(Piece(f"  {SPEAKER_NAMES[live.speaker]} speaking", ink))
    return pieces


def _stages(watch: Watch, benchmark: str, where: Situation) -> list[StageView]:
    return [
        _stage(stage, watch.progress.stage_tally(benchmark, stage), where.phase) for stage in Stage
    ]


def _stage(stage: Stage, tally: Tally, phase: Phase) -> StageView:
    return StageView(
        STAGE_NAMES[stage],
        _stage_state(tally, phase),
        tally.done,
        tally.total,
        tally.failed,
    )


def _stage_state(tally: Tally, phase: Phase) -> StageState:
    if not tally.total:
        return StageState.WAITING
    if tally.settled == tally.total:
        return StageState.FAILED if tally.failed == tally.total else StageState.DONE
    if phase is Phase.PAUSED:
        return StageState.PAUSED
    begun = tally.running or tally.settled
    return StageState.RUNNING if begun and not phase.over else StageState.WAITING


def _targets(watch: Watch, info: BenchmarkInfo, at: datetime) -> list[TargetView]:
    return [_target(info.name, target, watch, at) for target in info.targets]


def _target(benchmark: str, target: TargetInfo, watch: Watch, at: datetime) -> TargetView:
    progress: TargetProgress = watch.progress.target(benchmark, target.id)
    left = progress.seconds_left(at)
    pace = progress.tokens.per_second(at)
    return TargetView(
        name=one_line(target.id),
        simulated=progress.simulate.done,
        to_simulate=progress.simulate.total,
        running=progress.simulate.running,
        failed=progress.simulate.failed + progress.evaluate.failed,
        judged=progress.evaluate.done,
        to_judge=progress.evaluate.total,
        positive=rate(progress.scores[Track.POSITIVE], Track.POSITIVE),
        negative=rate(progress.scores[Track.NEGATIVE], Track.NEGATIVE),
        tokens=amount(pace) if pace else UNKNOWN,
        spend=money(progress.usage.cost_usd, scripted=target.scripted),
        left=UNKNOWN if left is None else duration(left),
        problem=one_line(progress.last_problem) if progress.last_problem else None,
    )
