"""A run as a watcher sees it: counts that each fact moves. Pure; it holds no row of work itself."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from math import log, sqrt
from typing import NamedTuple

from engine.benchmark import Role, Speaker, Stage, State, Track, Usage
from engine.facts import (
    CallMade,
    Fact,
    MessageSpoken,
    Noted,
    NoteKind,
    RunEnd,
    StateChanged,
    TakeEnded,
    TakeStarted,
    VerdictGiven,
)

ANSWER = "answer"
"""The outcome of an attempt that brought a reply."""

RATE_WINDOW = timedelta(seconds=30)
"""Rates are over the last half minute: long enough to be calm, short enough to be true."""
MOST_NAMED = 3
"""Other models that are named of one target."""
FEWEST_TO_JUDGE = 4
"""Calls that were answered lately, to say anything of their pace."""
LENGTHS = 50
"""Conversations from whose lengths those of the next are told."""


@dataclass(slots=True)
class StateCounts:
    """How many rows of work stand where."""

    queued: int = 0
    running: int = 0
    done: int = 0
    failed: int = 0
    dropped: int = 0
    """No longer part of the benchmark: in no total."""

    @property
    def total(self) -> int:
        return self.queued + self.running + self.done + self.failed

    @property
    def settled(self) -> int:
        return self.done + self.failed

    def move(self, was: State | None, state: State, count: int = 1) -> None:
        """`count` rows go from one state to another; from None where they are new."""
        if was is not None:
            setattr(self, was.value, getattr(self, was.value) - count)
        setattr(self, state.value, getattr(self, state.value) + count)

    def __add__(self, other: StateCounts) -> StateCounts:
        return StateCounts(
            self.queued + other.queued,
            self.running + other.running,
            self.done + other.done,
            self.failed + other.failed,
            self.dropped + other.dropped,
        )


@dataclass(slots=True)
class TrackScore:
    """What counts so far on one track."""

    passed: int = 0
    scored: int = 0

    @property
    def rate(self) -> float | None:
        return self.passed / self.scored if self.scored else None

    def replace(self, before: bool | None, after: bool | None) -> None:  # noqa: FBT001  (two values of one kind, not switches)
        """What counts for one conversation is now `after`; None is unscored, or nothing yet."""
        if before is not None:
            self.scored -= 1
            self.passed -= before
        if after is not None:
            self.scored += 1
            self.passed += after


class EventRate:
    """Events in the last `RATE_WINDOW`, by the clock of the facts themselves."""

    def __init__(self) -> None:
        self._events: deque[tuple[datetime, int]] = deque()
        self._sum = 0

    def add(self, at: datetime, amount: int) -> None:
        """`amount` of something happened. Times may come out of order by a little."""
        if self._events and at - self._events[-1][0] < timedelta(seconds=1):
            first, held = self._events[-1]
            self._events[-1] = (first, held + amount)
        else:
            self._events.append((at, amount))
        self._sum += amount
        self._forget(at)

    def per_second(self, now: datetime) -> float:
        """Over the window, or where less of it has passed, over that."""
        self._forget(now)
        if not self._events:
            return 0.0
        span = max((now - self._events[0][0]).total_seconds(), 1.0)
        return self._sum / span

    def total(self, now: datetime) -> int:
        """In the window that ends now."""
        self._forget(now)
        return self._sum

    def since_first(self, now: datetime) -> tuple[int, float]:
        """How much came since the first that is remembered, without it, and in how many seconds:
        nobody knows how long that one took to come."""
        self._forget(now)
        if not self._events:
            return 0, 0.0
        first, amount = self._events[0]
        return self._sum - amount, max((now - first).total_seconds(), 1.0)

    def _forget(self, now: datetime) -> None:
        while self._events and now - self._events[0][0] > RATE_WINDOW:
            self._sum -= self._events.popleft()[1]


def others_in_words(others: Mapping[str, int], total: int, what: str) -> str | None:
    """How many of `what` came from whom else than they were asked of; None where none did."""
    if not others:
        return None
    most, *rest = sorted(others.items(), key=lambda one: (-one[1], one[0]))
    more = [f"{count:,} from {name}" for name, count in rest[: MOST_NAMED - 1]]
    left = sum(count for _, count in rest[MOST_NAMED - 1 :])
    more += [f"{left:,} from others"] if left else []
    return ", ".join([f"{most[1]:,} of {total:,} {what} came from {most[0]}", *more])


@dataclass(slots=True)
class TargetProgress:
    """What a person who pays for a target wants to know of it."""

    simulate: StateCounts = field(default_factory=StateCounts)
    evaluate: StateCounts = field(default_factory=StateCounts)
    scores: dict[Track, TrackScore] = field(
        default_factory=lambda: {Track.POSITIVE: TrackScore(), Track.NEGATIVE: TrackScore()}
    )
    usage: Usage = field(default_factory=Usage)
    """Of every call made on this target's behalf, the user model's and evaluator's included."""
    tokens: EventRate = field(default_factory=EventRate)
    """Output tokens of the same calls."""
    settled: EventRate = field(default_factory=EventRate)
    """Conversations played to their end."""
    calls: EventRate = field(default_factory=EventRate)
    """Answers in its conversations, the user model's and its own."""
    call_ms: EventRate = field(default_factory=EventRate)
    """How long those took, in milliseconds."""
    open: dict[str, int] = field(default_factory=dict)
    """Messages of each conversation that has begun and is not over, by its id."""
    lengths: deque[int] = field(default_factory=lambda: deque(maxlen=LENGTHS))
    """Messages of those that were played last."""
    last_problem: str | None = None
    replies: int = 0
    """What the target's own model was asked and answered."""
    others: dict[str, int] = field(default_factory=dict)
    """How many of those came from another model than the one that was asked, by its name."""

    @property
    def served_by_others(self) -> str | None:
        """How many replies came from whom else; None where none did."""
        return others_in_words(self.others, self.replies, "replies")

    def end(self, unit: str, *, finished: bool) -> None:
        """A conversation is over, or can be continued."""
        said = self.open.pop(unit, 0)
        if finished and said:
            self.lengths.append(said)

    def time_left(self, now: datetime, turns: int) -> TimeLeft | None:
        """Until all conversations are played; `turns` is how long one is at most. None where
        nothing is left to do, or the pace is not known yet.

        It goes by messages, not by conversations that end: where all that are left have begun, they
        share the slots and end close to each other. Nor is it less than the longest of them takes
        by itself, which is what counts when fewer are left than slots.
        """
        left = self.simulate.queued + self.simulate.running
        made, seconds = self.calls.since_first(now)
        most = 2 * turns or max(self.lengths, default=0)
        if not left or not most or made < FEWEST_TO_JUDGE:
            return None
        said = sorted(self.open.values())[:left]
        said = [*([0] * (left - len(said))), *said]
        each = self.call_ms.total(now) / self.calls.total(now) / 1000
        # what is in the air counts for nothing yet, and may all come in at once
        off = min(1 / sqrt(made) + each / seconds, 0.5)
        low, likely, high = (
            max(seconds / made * work, each * longest) for work, longest in self._to_say(said, most)
        )
        return TimeLeft(low / (1 + off), likely, high / (1 - off))

    def _to_say(self, said: Sequence[int], most: int) -> Iterator[tuple[float, float]]:
        """Messages that all of these have still to say, and the longest of them alone, of `most`
        at most: few, as is likely, and many. Any message may be the last, alike often."""
        early = sum(length < most for length in self.lengths)
        seen = sum(self.lengths) + sum(said) + 1
        doubt = sqrt(early)
        longest = max(most - said[0], 1)
        for ends, share in ((early + 1 + doubt, 1.0), (early, 0.5), (early - doubt, 0.0)):
            chance = min(max(ends / seen, 0.0), 0.99)
            work = sum(_expected(max(most - one, 1), chance) for one in said)
            if share and chance:  # as many as this share of such conversations would not outlast
                yield work, min(longest, max(1.0, log(share / len(said)) / log(1 - chance)))
            else:
                yield work, longest


class TimeLeft(NamedTuple):
    """In seconds; it lies between the outer two in about two cases of three."""

    low: float
    likely: float
    high: float


def _expected(most: int, chance: float) -> float:
    """How many come where each may be the last, and the last of `most` is."""
    return float(most) if not chance else (1 - (1 - chance) ** most) / chance


@dataclass(slots=True)
class Progress:
    """Everything that `apply` has folded, for one store."""

    seq: int = 0
    """Of the last fact folded in, or of the snapshot this began with."""
    stages: dict[tuple[str, Stage], StateCounts] = field(default_factory=dict)
    targets: dict[tuple[str, str], TargetProgress] = field(default_factory=dict)
    """By (benchmark, target id)."""
    benchmark: str | None = None
    """The one that is being worked on, or was last."""
    stage: Stage | None = None
    messages: int = 0
    run_state: NoteKind | None = None
    """The last that happened to the run as a whole; None where nothing ever ran."""
    notes: deque[Noted] = field(default_factory=lambda: deque(maxlen=100))

    @property
    def run_end(self) -> RunEnd | None:
        """How the last run ended; None where it did not, or nothing ever ran."""
        if self.run_state is not NoteKind.RUN_ENDED:
            return None
        ends = [note.text for note in self.notes if note.kind is NoteKind.RUN_ENDED]
        return RunEnd(ends[-1]) if ends and ends[-1] in set(RunEnd) else RunEnd.DONE

    def stage_tally(self, benchmark: str, stage: Stage) -> StateCounts:
        return self.stages.setdefault((benchmark, stage), StateCounts())

    def target(self, benchmark: str, target: str) -> TargetProgress:
        return self.targets.setdefault((benchmark, target), TargetProgress())

    def targets_of(self, benchmark: str) -> dict[str, TargetProgress]:
        return {
            target: progress
            for (name, target), progress in self.targets.items()
            if name == benchmark
        }

    def apply(self, fact: Fact) -> None:
        """Fold one fact in. Facts come in the order of their `seq`; one seen before is ignored."""
        if fact.seq <= self.seq:
            return
        self.seq = fact.seq
        match fact:
            case StateChanged():
                self._state_changed(fact)
            case VerdictGiven():
                score = self.target(fact.benchmark, fact.key.target_id).scores[fact.track]
                score.replace(fact.counted_before, fact.counted)
            case CallMade():
                self._call_made(fact)
            case MessageSpoken():
                self.messages += 1
                said = 2 * fact.turn - (fact.speaker is Speaker.USER)
                self.target(fact.benchmark, fact.key.target_id).open[str(fact.key)] = said
            case TakeStarted():
                self.target(fact.benchmark, fact.key.target_id).open[str(fact.key)] = 0
            case TakeEnded():
                target = self.target(fact.benchmark, fact.key.target_id)
                target.end(str(fact.key), finished=fact.stop_reason.finished)
            case Noted():
                self._noted(fact)
            case _:
                pass

    def _state_changed(self, fact: StateChanged) -> None:
        self.stage_tally(fact.benchmark, fact.stage).move(fact.was, fact.state)
        if fact.target is None:
            return
        target = self.target(fact.benchmark, fact.target)
        match fact.stage:
            case Stage.SIMULATE:
                target.simulate.move(fact.was, fact.state)
                if fact.state in {State.DONE, State.FAILED}:
                    target.settled.add(fact.at, 1)
            case Stage.EVALUATE:
                target.evaluate.move(fact.was, fact.state)
            case _:
                pass
        if fact.state is State.FAILED:
            target.last_problem = fact.reason

    def _call_made(self, fact: CallMade) -> None:
        if fact.target is None:
            return
        target = self.target(fact.benchmark, fact.target)
        used = Usage(1, fact.input_tokens, 0, fact.output_tokens, fact.cost_usd)
        if fact.outcome != ANSWER:
            # a failed attempt that reported nothing adds nothing to what is known
            used = Usage(
                1, fact.input_tokens or 0, 0, fact.output_tokens or 0, fact.cost_usd or 0.0
            )
        if fact.role is Role.TARGET and fact.outcome == ANSWER:
            target.replies += 1
            if fact.other is not None:
                target.others[fact.other] = target.others.get(fact.other, 0) + 1
        target.usage += used
        target.tokens.add(fact.at, fact.output_tokens or 0)
        if fact.stage is Stage.SIMULATE and fact.outcome == ANSWER:
            target.calls.add(fact.at, 1)
            target.call_ms.add(fact.at, fact.duration_ms)

    def _noted(self, fact: Noted) -> None:
        self.notes.append(fact)
        if fact.benchmark:
            self.benchmark = fact.benchmark
        match fact.kind:
            case NoteKind.STAGE_STARTED:
                self.stage = fact.stage
            case NoteKind.WARNING | NoteKind.STAGE_FINISHED:
                pass
            case kind:
                self.run_state = kind
