"""A run as a watcher sees it: counters that each fact updates. Pure; holds no rows of work."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
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
"""The outcome of a successful attempt."""

RATE_WINDOW = timedelta(seconds=30)
"""The window for rates: long enough to be steady, short enough to be current."""
MOST_NAMED = 3
"""The most substitute models that are named for one target."""
FEWEST_TO_JUDGE = 4
"""Answered calls in the window that are needed to estimate a pace."""
LENGTHS = 50
"""The number of latest conversations whose lengths predict those of the next."""


@dataclass(slots=True)
class StateCounts:
    """How many rows of work are in each state."""

    queued: int = 0
    running: int = 0
    done: int = 0
    failed: int = 0
    dropped: int = 0
    """No longer part of the benchmark, and not in `total`."""

    @property
    def total(self) -> int:
        return self.queued + self.running + self.done + self.failed

    @property
    def settled(self) -> int:
        return self.done + self.failed

    def move(self, was: State | None, state: State, count: int = 1) -> None:
        """Move `count` rows from one state to another; `was` is None for new rows."""
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
    """Passed and scored conversations of one track."""

    passed: int = 0
    scored: int = 0

    @property
    def rate(self) -> float | None:
        return self.passed / self.scored if self.scored else None

    def replace(self, before: bool | None, after: bool | None) -> None:  # noqa: FBT001  (two values of one kind, not switches)
        """Update what counts for one conversation; None means unscored or not judged yet."""
        if before is not None:
            self.scored -= 1
            self.passed -= before
        if after is not None:
            self.scored += 1
            self.passed += after


class StateCorrection(NamedTuple):
    """A row of work whose stored state is not so."""

    benchmark: str
    stage: Stage
    unit: str
    target: str | None
    was: State
    state: State


class EventRate:
    """Sums amounts over the last `RATE_WINDOW`, by the timestamps of the facts."""

    def __init__(self) -> None:
        self._events: deque[tuple[datetime, int]] = deque()
        self._sum = 0

    def add(self, at: datetime, amount: int) -> None:
        """Record an amount. Timestamps may be slightly out of order."""
        if self._events and at - self._events[-1][0] < timedelta(seconds=1):
            # one entry for a second, so that the window stays short however fast events come
            first, held = self._events[-1]
            self._events[-1] = (first, held + amount)
        else:
            self._events.append((at, amount))
        self._sum += amount
        self._forget(at)

    def per_second(self, now: datetime) -> float:
        """The rate over the window, or over the time since its first event where that is
        shorter."""
        self._forget(now)
        if not self._events:
            return 0.0
        span = max((now - self._events[0][0]).total_seconds(), 1.0)
        return self._sum / span

    def total(self, now: datetime) -> int:
        """The sum over the window that ends now."""
        self._forget(now)
        return self._sum

    def since_first(self, now: datetime) -> tuple[int, float]:
        """The sum after the first event in the window, and the seconds since that event. The first
        amount is left out because the time it took is unknown."""
        self._forget(now)
        if not self._events:
            return 0, 0.0
        first, amount = self._events[0]
        return self._sum - amount, max((now - first).total_seconds(), 1.0)

    def _forget(self, now: datetime) -> None:
        while self._events and now - self._events[0][0] > RATE_WINDOW:
            self._sum -= self._events.popleft()[1]


def others_in_words(others: Mapping[str, int], total: int, what: str) -> str | None:
    """Say how many of `what` came from other models than the requested one; None where none did."""
    if not others:
        return None
    most, *rest = sorted(others.items(), key=lambda other: (-other[1], other[0]))
    more = [f"{count:,} from {name}" for name, count in rest[: MOST_NAMED - 1]]
    left = sum(count for _, count in rest[MOST_NAMED - 1 :])
    more += [f"{left:,} from others"] if left else []
    return ", ".join([f"{most[1]:,} of {total:,} {what} came from {most[0]}", *more])


@dataclass(slots=True)
class TargetProgress:
    """Counters for one target."""

    simulate: StateCounts = field(default_factory=StateCounts)
    evaluate: StateCounts = field(default_factory=StateCounts)
    scores: dict[Track, TrackScore] = field(
        default_factory=lambda: {Track.POSITIVE: TrackScore(), Track.NEGATIVE: TrackScore()}
    )
    usage: Usage = field(default_factory=Usage)
    """Of every call made for this target, the user model's and the evaluator's included."""
    tokens: EventRate = field(default_factory=EventRate)
    """Output tokens of the same calls."""
    settled: EventRate = field(default_factory=EventRate)
    """Conversations done or failed."""
    calls: EventRate = field(default_factory=EventRate)
    """Answers in its conversations, from the target and the user model."""
    call_ms: EventRate = field(default_factory=EventRate)
    """The duration of those calls, in milliseconds."""
    judged: EventRate = field(default_factory=EventRate)
    """Conversations judged, or failed to be."""
    judge_ms: EventRate = field(default_factory=EventRate)
    """The duration of the evaluators' answers, in milliseconds."""
    open: dict[str, int] = field(default_factory=dict)
    """Messages so far of each open conversation, by its id."""
    lengths: deque[int] = field(default_factory=lambda: deque(maxlen=LENGTHS))
    """Messages of each of the latest completed conversations."""
    last_problem: str | None = None
    replies: int = 0
    """Answers by the target's role."""
    others: dict[str, int] = field(default_factory=dict)
    """How many of those came from another model than the requested one, by the model's name."""

    @property
    def served_by_others(self) -> str | None:
        """How many replies came from other models, in words; None where none did."""
        return others_in_words(self.others, self.replies, "replies")

    def end(self, unit: str, *, finished: bool) -> None:
        """Close a conversation; one that did not finish can be continued and has no final
        length."""
        messages = self.open.pop(unit, 0)
        if finished and messages:
            self.lengths.append(messages)

    def time_left(self, now: datetime, turns: int) -> TimeLeft | None:
        """Estimate the time until all conversations are played; `turns` is their limit. None where
        nothing is left or the pace is not known yet.

        It counts messages, not completed conversations: when all that are left have begun, they
        share the slots and end close together. The estimate is at least the time that the longest
        remaining conversation takes by itself, which decides when fewer are left than slots.
        """
        left = self.simulate.queued + self.simulate.running
        made, seconds = self.calls.since_first(now)
        most = 2 * turns or max(self.lengths, default=0)
        if not left or not most or made < FEWEST_TO_JUDGE:
            return None
        spoken = sorted(self.open.values())[:left]
        # those that wait have all their messages ahead
        spoken = [*([0] * (left - len(spoken))), *spoken]
        call_seconds = self.call_ms.total(now) / self.calls.total(now) / 1000
        # calls in flight do not count yet, and may all complete at once
        off = min(1 / sqrt(made) + call_seconds / seconds, 0.5)
        low, likely, high = (
            max(seconds / made * work, call_seconds * longest)
            for work, longest in self._messages_needed(spoken, most)
        )
        return TimeLeft(low / (1 + off), likely, high / (1 - off))

    def time_to_end(self, now: datetime, turns: int) -> TimeLeft | None:
        """Estimate the time until all conversations are judged as well; `turns` as above. None
        where nothing is left or the pace is not known yet.

        The end is one verdict after the last conversation, or, where conversations wait for their
        verdict, at the earliest when the judges are done with all at their pace.
        """
        playing = self.time_left(now, turns)
        judged, to_judge = self.judged.total(now), self.evaluate.queued + self.evaluate.running
        if not to_judge or not judged:
            return playing  # where nothing is left to play either, nothing can be said
        if playing is None and self.simulate.queued + self.simulate.running:
            return None
        call_seconds = self.judge_ms.total(now) / judged / 1000
        if not call_seconds:
            return None  # judged in batches, which end when the provider likes
        at_once = max(self.evaluate.running, 1)
        made, seconds = self.judged.since_first(now)
        # judges that had little to do were slower than they can be
        pace = min(seconds / max(made, 1), call_seconds / at_once)
        some_wait = self.simulate.done - self.evaluate.settled > at_once
        backlog = to_judge * pace if some_wait else call_seconds
        off = min(1 / sqrt(judged), 0.5)
        played = playing or TimeLeft(0.0, 0.0, 0.0)
        return TimeLeft(
            max(played.low + call_seconds, backlog / (1 + off)),
            max(played.likely + call_seconds, backlog),
            max(played.high + call_seconds, backlog / (1 - off)),
        )

    def _messages_needed(self, spoken: Sequence[int], most: int) -> Iterator[tuple[float, float]]:
        """Yield (messages that all conversations still need, messages that the longest one needs)
        for three cases: few, likely, many. Each message is assumed equally likely to be the
        last."""
        early = sum(length < most for length in self.lengths)
        seen = sum(self.lengths) + sum(spoken) + 1
        doubt = sqrt(early)
        longest = max(most - spoken[0], 1)
        for ends, share in ((early + 1 + doubt, 1.0), (early, 0.5), (early - doubt, 0.0)):
            chance = min(max(ends / seen, 0.0), 0.99)
            work = sum(_expected_count(max(most - turns, 1), chance) for turns in spoken)
            if share and chance:  # a length that this share of such conversations does not exceed
                yield work, min(longest, max(1.0, log(share / len(spoken)) / log(1 - chance)))
            else:
                yield work, longest


class TimeLeft(NamedTuple):
    """Seconds. The true value lies between `low` and `high` in about two cases of three."""

    low: float
    likely: float
    high: float


def _expected_count(most: int, chance: float) -> float:
    """The expected number of messages, at most `most`, if each is the last with this chance."""
    return float(most) if not chance else (1 - (1 - chance) ** most) / chance


@dataclass(slots=True)
class Progress:
    """The state of all runs in one store, folded from its facts by `apply`."""

    seq: int = 0
    """The `seq` of the last fact applied, or of the snapshot that this began with."""
    stages: dict[tuple[str, Stage], StateCounts] = field(default_factory=dict)
    targets: dict[tuple[str, str], TargetProgress] = field(default_factory=dict)
    """By (benchmark, target id)."""
    benchmark: str | None = None
    """The benchmark being worked on, or the last one."""
    stage: Stage | None = None
    messages: int = 0
    run_state: NoteKind | None = None
    """The latest event of the run as a whole; None where nothing ever ran."""
    notes: deque[Noted] = field(default_factory=lambda: deque(maxlen=100))
    begun: set[tuple[str, Stage]] = field(default_factory=set)
    """The stages of which a row was begun by the current run, as far as its facts were applied."""

    @property
    def run_end(self) -> RunEnd | None:
        """How the last run ended; None while one runs, or where nothing ever ran."""
        if self.run_state is not NoteKind.RUN_ENDED:
            return None
        ends = [note.text for note in self.notes if note.kind is NoteKind.RUN_ENDED]
        return RunEnd(ends[-1]) if ends and ends[-1] in set(RunEnd) else RunEnd.DONE

    def stage_tally(self, benchmark: str, stage: Stage) -> StateCounts:
        tally = self.stages.get((benchmark, stage))
        if tally is None:
            tally = self.stages[benchmark, stage] = StateCounts()
        return tally

    def target(self, benchmark: str, target: str) -> TargetProgress:
        return self.targets.setdefault((benchmark, target), TargetProgress())

    def targets_of(self, benchmark: str) -> dict[str, TargetProgress]:
        return {
            target: progress
            for (name, target), progress in self.targets.items()
            if name == benchmark
        }

    def apply(self, fact: Fact) -> None:
        """Apply one fact. Facts must come in order of `seq`; one that was applied is ignored."""
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
                messages = 2 * fact.turn - (fact.speaker is Speaker.USER)
                self.target(fact.benchmark, fact.key.target_id).open[str(fact.key)] = messages
            case TakeStarted():
                self.target(fact.benchmark, fact.key.target_id).open[str(fact.key)] = 0
            case TakeEnded():
                target = self.target(fact.benchmark, fact.key.target_id)
                target.end(str(fact.key), finished=fact.stop_reason.finished)
            case Noted():
                self._apply_noted(fact)
            case _:
                pass

    def correct(self, corrections: Iterable[StateCorrection], *, back: bool = False) -> None:
        """Count these rows in the states that they are in; with `back`, in the stored ones again.
        No fact may be applied in between, as facts say how a row's stored state changes."""
        for row in corrections:
            was, state = (row.state, row.was) if back else (row.was, row.state)
            self.stage_tally(row.benchmark, row.stage).move(was, state)
            if row.target is not None:
                target = self.target(row.benchmark, row.target)
                tally = target.simulate if row.stage is Stage.SIMULATE else target.evaluate
                tally.move(was, state)

    def _state_changed(self, fact: StateChanged) -> None:
        self.stage_tally(fact.benchmark, fact.stage).move(fact.was, fact.state)
        if fact.state is State.RUNNING:
            self.begun.add((fact.benchmark, fact.stage))
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
                if fact.state in {State.DONE, State.FAILED}:
                    target.judged.add(fact.at, 1)
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
            # a failed attempt without reported usage counts as zero, so known sums stay known
            used = Usage(
                1, fact.input_tokens or 0, 0, fact.output_tokens or 0, fact.cost_usd or 0.0
            )
        if fact.role is Role.TARGET and fact.outcome == ANSWER:
            target.replies += 1
            if fact.other is not None:
                target.others[fact.other] = target.others.get(fact.other, 0) + 1
        target.usage += used
        target.tokens.add(fact.at, fact.output_tokens or 0)
        if fact.duration_ms is None:
            return
        if fact.stage is Stage.SIMULATE and fact.outcome == ANSWER:
            target.calls.add(fact.at, 1)
            target.call_ms.add(fact.at, fact.duration_ms)
        elif fact.stage is Stage.EVALUATE and fact.outcome == ANSWER:
            target.judge_ms.add(fact.at, fact.duration_ms)

    def _apply_noted(self, fact: Noted) -> None:
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
                if kind is NoteKind.RUN_STARTED:
                    self.begun.clear()
