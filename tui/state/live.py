"""The live screen's state: folded from facts and boards, and compared with what was drawn last."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Final, NamedTuple

from rich.cells import cell_len

from engine.benchmark import Speaker, Stage
from engine.display import one_line
from engine.facts import (
    Fact,
    Noted,
    StateChanged,
)
from engine.store.tables import VerdictRow
from engine.watch import BenchmarkInfo, Watch
from tui.format import (
    READING,
    ROOM_FOR_NOTICE,
    SPEAKER_NAMES,
    TRACK_LEGEND,
    duration,
    scripted_words,
)
from tui.state.benchmark_summary import newest_failure, weakest_metric
from tui.state.board import (
    StageView,
    TargetSpeeds,
    TargetView,
    spending_words,
    stage_views,
    target_view,
)
from tui.state.explanations import (
    end_words,
    explain,
    judging_blocks,
    writing_block,
    writing_now,
)
from tui.state.feeds import ScoreFeed, VerdictFeed
from tui.state.follower import FollowedTalk, Follower, FollowMode
from tui.state.headline import elsewhere_words, info_of, measured
from tui.state.related import Subject, TakeRef
from tui.state.run_status import (
    AT_MOST,
    PATIENCE,
    Instant,
    RunClock,
    RunPhase,
    Snapshot,
    StallDetector,
    UnseenCounts,
    awaited_words,
    blocker_lines,
    elapsed_words,
    run_sentence,
    turn_strip,
    turns_of,
    wait_line,
    worker_lines,
)
from tui.state.transcript import Dialogue, Thoughts
from tui.text.blocks import Block
from tui.text.ink import Ink, Line, Piece, fitted_line, length

ROOM_FOR_NAME: Final = 40
"""In this many cells or more, the header names the benchmark."""
LOW: Final = 32
"""On a screen with fewer rows, what holds the run up has little room."""
FEW: Final = 2
"""The most lines about it on such a screen."""
_END_UNKNOWN: Final = {RunPhase.CUT_OFF, RunPhase.LOST}
"""Phases in which it is unknown when the run ended."""
_SPOKEN: Final = {RunPhase.RUNNING, RunPhase.DRAINING}
"""Phases in which new messages can be expected."""


class PaneUpdate(NamedTuple):
    """New contents of the conversation pane."""

    blocks: Sequence[Block]
    another: bool
    """Whether the subject is another, to be read from the beginning or followed at the end."""
    follow: bool


class LiveState:
    """What is on the screen, and nothing of how it is drawn.

    It reads the store for the conversation and the verdicts that are shown, and for nothing else.
    Changes are found by comparing: the seq of the newest fact received with that of the newest
    fact already read, and what the pane was last given with what it would be given now.
    """

    def __init__(self, watch: Watch) -> None:
        self._watch = watch
        self.now = Snapshot.of(watch, None, Instant(datetime.now(UTC), 0.0))
        """As of the last look."""
        self.target_ids: Sequence[str] = ()
        """The ids of the targets on the board, in its order."""
        self.thoughts = False
        """Whether the user model's thoughts are shown in full."""
        self.missed: UnseenCounts | None = None
        """Counts what arrived since the display was frozen; None while it is not."""
        self.asked_at_once: int | None = None
        """The number of conversations at once that was requested, until the engine adopts it."""
        self.talk = FollowedTalk(watch)
        """The conversation in the pane."""
        self.feed = VerdictFeed(watch, self.now.current)
        self.scores = ScoreFeed(watch)
        self._clock = RunClock()
        # notes from before this screen was opened
        self._clock.receive(list(watch.progress.notes))
        self._stalls = StallDetector()
        self._paces = TargetSpeeds()
        self._moved = 0
        """The seq of the newest fact on a row of work."""
        self._spoken_at = 0.0
        """The time of the shown conversation's last message, as `seconds`."""
        self._pane: tuple[object, object] = (None, None)
        """The subject and the version that the pane was given last."""

    def receive(self, facts: Sequence[Fact]) -> None:
        for folding in (self._stalls, self.scores, self.feed, self.talk, self.missed):
            if folding is not None:
                folding.receive(facts)
        for fact in facts:
            match fact:
                case Noted():
                    self._clock.receive([fact])
                case StateChanged():
                    self._moved = fact.seq
                case _:
                    pass

    def look(self, now: Snapshot) -> None:
        """Update the run's status and activity, even while the display is frozen."""
        self.now, board = now, now.board
        scores = self.scores.of(now.current)
        self.feed.asked = None if scores is None else scores.asked
        if now.status.phase.over or now.status.phase is RunPhase.PAUSED:
            self._stalls.begin_anew(now.seconds)
        self._stalls.look(board, now.seconds)
        # the board changes a little later than the engine agrees
        if board is None or board.concurrency.get(Stage.SIMULATE) == self.asked_at_once:
            self.asked_at_once = None

    @property
    def subject(self) -> Subject | None:
        """The conversation in the pane."""
        shown = None if self.dialogue is None else self.dialogue.shown
        return None if shown is None else Subject(shown.benchmark, shown.key)

    @property
    def failure(self) -> VerdictRow | None:
        """The failure that the pane names at the end of a run."""
        info = self.now.info
        if info is None or self.dialogue is not None or self.now.status.phase is not RunPhase.ENDED:
            return None
        scores = self.scores.of(info.name)
        weakest = None if scores is None else weakest_metric(scores, info)
        if scores is None or weakest is None:
            return None
        return newest_failure(scores, info, weakest.metric)

    @property
    def is_spoken(self) -> bool:
        """Whether a message is in progress, or will be in a moment."""
        if self.now.board is None:
            return False
        return bool(self.now.speaking) or self.now.status.phase in _SPOKEN

    @property
    def parked(self) -> Mapping[str, str]:
        """The targets that are not called for now, with the reasons."""
        return {} if self.now.board is None else self.now.board.parked

    @property
    def possible(self) -> frozenset[str]:
        """Of the actions that need something to act on, those that have it now."""
        retry = ("again", "again_all") if self.now.status.failed else ()
        unpark = ("unpark",) if self.parked else ()
        return frozenset((*retry, *unpark))

    @property
    def at_once(self) -> int | None:
        """The number of conversations at once, requested or current; None if unknown."""
        known = None if self.now.board is None else self.now.board.concurrency.get(Stage.SIMULATE)
        return known if self.asked_at_once is None else self.asked_at_once

    def failed_of(self, target: str) -> int:
        """The number of a target's failed rows of work, simulated and judged."""
        progress = self._watch.progress.target(self.now.current, target)
        return progress.simulate.failed + progress.evaluate.failed

    def freeze(self) -> None:
        """Freeze the display, or let it move again."""
        self.missed = UnseenCounts() if self.missed is None else None

    def step(self, by: int) -> None:
        """Follow the next or the previous live conversation."""
        self.follower.step(self.now.speaking, by, self.now.seconds)

    def stages(self) -> list[StageView]:
        return stage_views(self._watch, self.now.current, self.now.status, self.now.board)

    def targets(self, info: BenchmarkInfo) -> list[TargetView]:
        """The views of all targets, in the benchmark's order."""
        self.target_ids = [target.id for target in info.targets]
        still = None if self.now.status.phase.over else self._still_for
        rates, counts = self.scores.rates(info.name), self.scores.counts(info.name)
        paused = self.now.status.phase is RunPhase.PAUSED
        views = []
        for target in info.targets:
            progress = self._watch.progress.target(info.name, target.id)
            pace = self._paces.of(info, target.id, progress, self.now.at)
            view = target_view(
                target, progress, self.now.board, pace, still, rates, counts, paused=paused
            )
            views.append(view)
        return views

    def _still_for(self, target: str) -> float | None:
        return self._stalls.of(target, self.now.seconds)

    def blockers(self, width: int, height: int) -> list[Line]:
        """What holds the run up until somebody acts, and who makes the calls, on a screen of so
        many cells and rows."""
        room = max(width - 1, 1)
        return [
            *blocker_lines(self.now.board, room, FEW if height < LOW else AT_MOST),
            *worker_lines(self.now.board, room, height // 8 - 1),
        ]

    def waits(self) -> tuple[Line, Line]:
        """Both ends of the line that is always there: what the run waits for; what it has spent and
        is expected to spend in all, which is never cut."""
        board, info, stall = self.now.board, self.now.info, None
        if info is None:
            return (), ()
        still = self._stalls.of_all(self.now.seconds)
        if still is not None and board is not None:
            what = awaited_words(board, self._watch.progress, info, self.now.status)
            stall = None if what is None else f"{what}, {elapsed_words(still)}"
        spent = spending_words(board)
        return wait_line(board, stall, [target.id for target in info.targets]), spent

    def other_feed(self) -> VerdictFeed | None:
        """The feed to show from now on, if another benchmark is in progress; else None."""
        benchmark = self.now.current
        if benchmark == self.feed.benchmark:
            return None
        self.feed = VerdictFeed(self._watch, benchmark)
        return self.feed

    def pane(self, *, tiny: bool = False) -> PaneUpdate | None:
        """The pane's new contents, in a terminal that may be `tiny`; None if they are unchanged."""
        now = self.now
        shown = self.talk.choose(now.speaking, now.seconds, over=now.status.phase.over)
        if shown is None or self._may_explain:
            return self._explanation(tiny=tiny)
        return self._conversation(shown)

    def as_held(self) -> Sequence[Block] | None:
        """The frozen conversation drawn with the current options; None where the pane holds an
        explanation instead."""
        return self.talk.blocks(self._shown_thoughts) or None

    @property
    def dialogue(self) -> Dialogue | None:
        """The conversation in the pane; None while it shows an explanation."""
        return self.talk.dialogue

    @property
    def follower(self) -> Follower:
        return self.talk.follower

    @property
    def _shown_thoughts(self) -> Thoughts:
        return Thoughts.OPEN if self.thoughts else Thoughts.FOLDED

    @property
    def _may_explain(self) -> bool:
        if not self.now.status.phase.over or (self.follower.pinned and self.dialogue is not None):
            return False
        return self.follower.rested(self.now.seconds) or not self.talk.has_ended

    def _explanation(self, *, tiny: bool) -> PaneUpdate | None:
        self.talk.leave()
        info = self.now.info
        # the run's status is part of the subject: another status is another text, read from the top
        writing = [] if info is None else writing_now(self.now.board, info.name)
        subject = self.now.status, None if info is None else info.name, bool(writing)
        scores = None if info is None else self.scores.of(info.name)
        through = None if scores is None else scores.through
        another = self._compare(subject, (self._moved, through, tiny, writing))
        if another is None:
            return None
        blocks = explain(
            self.now.status, self._watch, info, scores, tiny=tiny, board=self.now.board
        )
        blocks += [writing_block(each, one_line(each.unit)) for each in writing]
        # like a conversation, it is followed while it grows
        return PaneUpdate(blocks, another, follow=bool(writing))

    def _conversation(self, shown: TakeRef) -> PaneUpdate | None:
        dialogue = self.talk.show(shown, self._shown_thoughts)
        judged = judging_blocks(self.now.board, dialogue)
        another = self._compare(shown, (dialogue.version, self.thoughts, judged))
        if another is None:
            return None
        # a new version of it is a sign of life, whether it was spoken or read
        self._spoken_at = self.now.seconds
        blocks = [*self.talk.blocks(self._shown_thoughts), *judged]
        return PaneUpdate(blocks, another, follow=True)

    def _compare(self, subject: object, version: object) -> bool | None:
        """Whether the pane has another subject now; None if it shows this version already."""
        before, self._pane = self._pane, (subject, version)
        return None if before == self._pane else before[0] != subject

    def header(self, width: int) -> tuple[Line, Line]:
        """Both ends of the first line, in so many cells. While the display is frozen, it names the
        benchmark that stands still below."""
        info = self.now.info if self.missed is None else info_of(self._watch, self.feed.benchmark)
        name = [Piece("Crosswind  ", Ink.ACCENT)]
        left = [Piece(" ")]
        if width >= ROOM_FOR_NAME and info is not None:
            left.append(Piece(one_line(info.name) + "  ", Ink.STRONG))
        state = self._state_words()
        notice = self._notice(width, length([*left, *state]))
        if width >= ROOM_FOR_NAME and length([*left, *name, *state, *notice]) < width:
            left[1:1] = name
        return [*left, *state], notice

    def _notice(self, width: int, taken: int) -> list[Piece]:
        """A notice that scripts are used, or that the configuration is still being read."""
        info = self.now.info
        if info is not None and info.scripted:
            whole = [Piece(scripted_words(info.scripts, roomy=True), Ink.WARN), Piece(" ")]
            if width >= ROOM_FOR_NOTICE and taken + length(whole) < width:
                return whole
            return [Piece(scripted_words(info.scripts, roomy=False), Ink.WARN), Piece(" ")]
        return [] if self._watch.described else [Piece(READING, Ink.MUTED), Piece(" ")]

    def _state_words(self) -> list[Piece]:
        phase = self.now.status.phase
        pieces = [Piece(f"{self.now.status.glyph} {self.now.status.words}", self.now.status.ink)]
        seconds = self._clock.seconds(self.now.at)
        if seconds is not None and phase not in _END_UNKNOWN:
            pieces.append(Piece(f"  {duration(seconds)}"))
        if self.missed is not None:
            pieces.append(Piece(f"  {self.missed.words}", Ink.WARN))
        return pieces

    def pane_title(self, *, has_focus: bool, rows_below: int) -> tuple[Line, Line]:
        """Both ends of the line above the pane; `rows_below` are those that lie out of sight."""
        left = [_focus_mark(has_focus=has_focus)]
        if self.dialogue is None:
            left.append(Piece(self.now.status.words, self.now.status.ink))
            return left, ()
        left.append(Piece(one_line(str(self.dialogue.shown.key)), _title_ink(has_focus=has_focus)))
        left += elsewhere_words(self.dialogue.shown.benchmark, self.now.current)
        left += [Piece("  pinned", Ink.WARN)] if self.follower.pinned else []
        silent = self.now.seconds - self._spoken_at if self.now.status.phase in _SPOKEN else 0.0
        left += _turn_words(self.dialogue, silent)
        return left, self._follow_words(rows_below)

    def asks(self, width: int) -> Line:
        """The beginning of the benchmark's description, or else its title; empty before that is
        known."""
        info = self.now.info
        words = "" if info is None else one_line(info.description) or one_line(info.title)
        return fitted_line([Piece(f" {words}", Ink.TEXT)], width - 2) if words else ()

    def activity(self, width: int) -> tuple[tuple[Line, Line], tuple[Line, Line]]:
        """Both ends of two lines: what is going on; and what the run waits for, with its spending.
        A wait without a known end, as for a batch, takes the first line if it would be cut."""
        board, (wait, spent) = self.now.board, self.waits()
        lasts = board is not None and any(one.seconds is None for one in board.waits)
        if lasts and length(wait) + length(spent) >= width:
            return (wait, ()), (self.happening(width - length(spent))[0], spent)
        return self.happening(width), (wait, spent)

    def happening(self, width: int) -> tuple[Line, Line]:
        """Both ends of the line that says what is going on: a sentence, and turns with speed."""
        info = self.now.info
        if info is None or not self._watch.described:
            return (), ()
        sentence = run_sentence(self.now.status, self._watch, info, self.now.board)
        if cell_len(sentence) > width - 2:
            sentence = run_sentence(self.now.status, self._watch, info, self.now.board, brief=True)
        left = [Piece(f" {sentence}", Ink.TEXT)]
        return left, self._by_turns(info, width - length(left) - 3)

    def _by_turns(self, info: BenchmarkInfo, room: int) -> Line:
        """The turns in progress and the tokens per second, as far as they fit."""
        if self.now.status.phase.over:
            return ()
        right: list[Piece] = []
        turns = turn_strip(turns_of(self.now.board, info.name), info.turns)
        strips = turns, self._paces.whole(info.name)
        for strip in strips:
            if 0 < length(strip) <= room - length(right) - 2:
                right += [*strip, Piece("  ")]
        return right

    def measured(self, width: int) -> tuple[Line, Line]:
        """Both ends of the line below the id of the conversation in the pane."""
        shown = self.subject
        info = None if shown is None else info_of(self._watch, shown.benchmark)
        return measured(info, self.dialogue, self._watch.jury, width)

    def _follow_words(self, rows_below: int) -> Line:
        if rows_below:
            return [Piece(f"▼ {rows_below} below", Ink.ACCENT)]
        if self.dialogue is not None and self.talk.has_ended:
            awaited = self.talk.awaits_verdict and not self.now.status.phase.over
            return end_words(self.dialogue, self._watch.jury, awaited=awaited)
        if self.follower.pinned:
            return ()
        if self.now.status.phase is RunPhase.PAUSED:
            return [Piece("paused", Ink.MUTED)]
        # that it follows the newest is what it always does
        mode = self.follower.mode
        return [] if mode is FollowMode.FOLLOW else [Piece(mode.word, Ink.MUTED)]

    def verdicts_title(self, *, has_focus: bool, rows_below: int) -> tuple[Line, Line]:
        """Both ends of the line above the verdicts. Where no rows are below, it explains the signs
        of the tracks, which the targets' rates have too."""
        title = [
            _focus_mark(has_focus=has_focus),
            Piece("verdicts", _title_ink(has_focus=has_focus)),
            Piece(f"  {len(self.feed)}", Ink.MUTED),
        ]
        if rows_below:
            return title, [Piece(f"▼ {rows_below} below", Ink.ACCENT)]
        return title, [Piece(TRACK_LEGEND, Ink.MUTED)]


def _focus_mark(*, has_focus: bool) -> Piece:
    return Piece(" ▸ ", Ink.ACCENT) if has_focus else Piece("   ")


def _title_ink(*, has_focus: bool) -> Ink:
    return Ink.ACCENT if has_focus else Ink.STRONG


def _turn_words(dialogue: Dialogue, silent: float) -> list[Piece]:
    """`turn 3 of 6  target speaking`, or after a while of silence what is waited for."""
    of = f" of {dialogue.turns}" if dialogue.turns else ""
    pieces: list[Piece] = []
    if dialogue.turn:
        pieces.append(Piece(f"  turn {dialogue.turn}{of}", Ink.TEXT))
    live = dialogue.live
    if live is None or (dialogue.take is not None and dialogue.take.stop_reason is not None):
        return pieces
    who = SPEAKER_NAMES[live.speaker]
    if silent >= PATIENCE:
        what = "no token yet" if dialogue.wordless else "silent"
        return [*pieces, Piece(f"  {who}: {what}, {elapsed_words(silent)}", Ink.WARN)]
    ink = Ink.USER if live.speaker is Speaker.USER else Ink.TARGET
    return [*pieces, Piece(f"  {who} speaking", ink)]
