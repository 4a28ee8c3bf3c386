"""From the store to `results.json`: what counts for every conversation of the present benchmark."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from engine.benchmark import StopReason
from engine.config.definition import Definition
from engine.config.settings import Config
from engine.pipeline.conversations import Wanted
from engine.pipeline.standing import Standing
from engine.stages.aggregate import JsonObject, LeftOut, Outcome, results
from engine.statistics import headline
from engine.store.reader import Reader
from engine.store.records import StoredTake, StoredVerdict

_WORDS = {
    StopReason.USER_FAILED: "user model failed",
    StopReason.TARGET_FAILED: "target failed",
    StopReason.CANCELLED: "cancelled",
}


def counted(verdicts: Sequence[StoredVerdict]) -> bool | None:
    """The majority over the newest usable verdict of each judge and pass."""
    newest = {(v.judge, v.number): v.passed for v in verdicts if v.passed is not None}
    return headline(newest.values())


def benchmark_results(
    definition: Definition, config: Config, reader: Reader, wanted: Iterable[Wanted]
) -> list[JsonObject]:
    """What `results.json` holds."""
    standing = Standing.of(reader, definition.name)
    judged = {key: verdicts for key, (_, verdicts) in standing.counting.items()}
    takes = standing.newest
    outcomes = [
        Outcome(
            key=one.key,
            metric_id=one.metric.id,
            track=one.metric.track,
            demographic=one.scenario.scenario.demographic,
            passed=counted(judged.get(one.key, ())),
            unscored=_unscored(takes.get(one.key), judged.get(one.key)),
        )
        for one in wanted
    ]
    asked = {one.key for one in outcomes}
    others = {key for key in judged if key not in asked}
    targets = [target.id for target in config.targets]
    return results(
        outcomes,
        targets=targets,
        scripted={
            target: any(take.scripted for key, take in takes.items() if key.target_id == target)
            for target in targets
        },
        left_out=LeftOut(
            conversations=len(others),
            targets=sorted({key.target_id for key in others} - set(targets)),
        ),
    )


def _unscored(take: StoredTake | None, verdicts: Sequence[StoredVerdict] | None) -> str | None:
    """Why nothing counts; None where something does."""
    if verdicts and counted(verdicts) is not None:
        return None
    if verdicts:
        usable = [verdict for verdict in verdicts if verdict.passed is not None]
        return "judges are tied" if usable else "no usable verdict"
    if take is None:
        return "not played yet"
    if take.stop_reason is None:
        return "not played to its end"
    return _WORDS.get(take.stop_reason, "not judged yet")
