"""How long a target still takes, and how sure that is."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from pathlib import Path
from random import Random

import pytest

from engine.facts import Fact, MessageSpoken, VerdictGiven
from engine.progress import FEWEST_TO_JUDGE, Progress, TargetProgress, TimeLeft
from engine.store.open_reader import open_reader
from tests.engine.pipeline.timed_run import NAME, Ends, Takes, TimedRun

NOW = datetime(2026, 5, 1, 12, tzinfo=UTC)
TURNS = 6
MARKS = (0.25, 0.5, 0.75, 0.9, 0.97)
Estimate = Callable[[TargetProgress, datetime, int], TimeLeft | None]


def playing(made: int, left: int, every: float, took_ms: int = 500) -> TargetProgress:
    """So many calls were answered, one every so many seconds, the last one now."""
    target = TargetProgress()
    target.simulate.queued = left
    for number in reversed(range(made)):
        target.calls.add(NOW - timedelta(seconds=number * every), 1)
        target.call_ms.add(NOW - timedelta(seconds=number * every), took_ms)
    return target


@pytest.mark.parametrize(
    "target",
    [playing(FEWEST_TO_JUDGE, 40, 1.0), playing(20, 0, 1.0), TargetProgress()],
    ids=["too few", "nothing left", "nothing yet"],
)
def test_what_cannot_be_told_is_not_said(target: TargetProgress) -> None:
    assert target.time_left(NOW, TURNS) is None


def judging(target: TargetProgress, made: int, waiting: int, took_ms: int) -> TargetProgress:
    """So many were judged, one a second, and so many wait, of which two are being judged."""
    target.simulate.done, target.evaluate.done = made + waiting, made
    target.evaluate.running = min(waiting, 2)
    target.evaluate.queued = waiting - target.evaluate.running
    for number in reversed(range(made)):
        target.judged.add(NOW - timedelta(seconds=number), 1)
        target.judge_ms.add(NOW - timedelta(seconds=number), took_ms)
    return target


def test_a_verdict_of_which_no_pace_is_known_is_not_told() -> None:
    target = judging(TargetProgress(), 0, 8, took_ms=2000)
    assert target.time_to_end(NOW, TURNS) is None
    assert judging(TargetProgress(), 20, 0, took_ms=2000).time_to_end(NOW, TURNS) is None
    in_batches = judging(TargetProgress(), 20, 8, took_ms=0)
    assert in_batches.time_to_end(NOW, TURNS) is None


def told(
    run: TimedRun,
    estimate: Estimate = TargetProgress.time_left,
    kind: type[Fact] = MessageSpoken,
) -> dict[float, tuple[TimeLeft, float]]:
    """What was told when so much of the time had gone by in which conversations were played, or
    facts of another kind came, and how long it then took. A target that takes longest decides."""
    progress, found = Progress(), {}
    with closing(open_reader(run.root / "crosswind.db")) as reader:
        facts = reader.facts(0, 1_000_000)
    spoken = [fact.at for fact in facts if isinstance(fact, kind)]
    began, ended = facts[0].at, spoken[-1]
    marks = {began + share * (ended - began): share for share in MARKS}
    for before, fact in pairwise([facts[0], *facts]):
        for at in [at for at in marks if before.at <= at < fact.at]:
            targets = progress.targets_of(NAME).values()
            lefts = [
                left for target in targets if (left := estimate(target, at, TURNS)) is not None
            ]
            found[marks[at]] = max(lefts, key=lambda one: one.likely), (ended - at).total_seconds()
        progress.apply(fact)
    return found


def varied(model: str, seed: int, messages: int) -> float:
    return Random(f"{model} {seed} {messages}").uniform(0.5, 1.5)


def often_early(seed: int, messages: int) -> bool:
    return messages // 2 >= Random(seed).randint(1, TURNS)


def alike(_model: str, _seed: int, _messages: int) -> float:
    return 1.0


def never(_seed: int, _messages: int) -> bool:
    return False


CALL_S = 1.0
FACTOR = 1.6


@pytest.mark.exhaustive
@pytest.mark.parametrize(
    ("conversations", "at_once", "takes", "ends"),
    [
        (48, 40, alike, never),
        (48, 40, varied, often_early),
    ],
    ids=["alike", "ended early"],
)
def test_what_is_told_is_true_to_the_end(
    tmp_path: Path, conversations: int, at_once: int, takes: Takes, ends: Ends
) -> None:
    run = TimedRun(
        tmp_path, conversations, simulate=at_once, evaluate=at_once, takes=takes, ends=ends
    )
    run.run()
    found = told(run)
    assert list(found) == list(MARKS)
    for share, (left, truth) in found.items():
        words = f"at {share:.0%} {left} was told, and it took {truth:.1f} s"
        assert truth / FACTOR <= left.likely <= max(truth * FACTOR, truth + CALL_S), words
    early, truth = found[MARKS[0]]
    assert early.low <= truth <= early.high, "while little is known, it is between these"
    assert found[MARKS[-1]][0].high - found[MARKS[-1]][0].low < 2 * CALL_S


@pytest.mark.exhaustive
@pytest.mark.parametrize(
    # the judges are shared: a target that is judged last has them for itself in the end
    ("evaluate", "factor"),
    [(40, FACTOR), (2, 2.0)],
    ids=["judged soon", "judged late"],
)
def test_what_is_told_of_the_last_verdict_is_true_to_the_end(
    tmp_path: Path, evaluate: int, factor: float
) -> None:
    run = TimedRun(tmp_path, 48, simulate=40, evaluate=evaluate, takes=varied, ends=often_early)
    run.run()
    found = told(run, TargetProgress.time_to_end, VerdictGiven)
    assert list(found) == list(MARKS)
    for share, (left, truth) in found.items():
        words = f"at {share:.0%} {left} was told, and it took {truth:.1f} s"
        assert truth / factor <= left.likely <= max(truth * factor, truth + CALL_S), words
