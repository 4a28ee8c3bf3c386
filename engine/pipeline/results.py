"""From the store to what it says: what counts for every conversation of the present benchmark."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Final

from engine.analysis.analyse import About, analyse
from engine.analysis.figures import Analysis, LeftOut, MetricInfo, Outcome, Vote
from engine.benchmark import ConversationKey, StopReason
from engine.config.benchmark_file import Definition
from engine.config.schema import Config
from engine.config.sources import OFFLINE
from engine.jury import HUMAN, Jury, counting, newest, verdict_to_show, what_counts, why_unscored
from engine.pipeline.others import served_by_others
from engine.pipeline.play import Wanted, wanted_conversations
from engine.pipeline.standing import Standing
from engine.scripted import EVALUATOR, TARGET, USER, all_scripts, is_script, scripts_in_words
from engine.stages.aggregate import JsonObject, as_rows
from engine.stages.evaluate import ANSWERED
from engine.store.reader import Reader
from engine.store.tables import StoredTake, Verdict

_WORDS: Final = {
    StopReason.USER_FAILED: "user model failed",
    StopReason.TARGET_FAILED: "target failed",
    StopReason.CANCELLED: "cancelled",
}


def analysis_of(
    definition: Definition,
    config: Config,
    reader: Reader,
    wanted: Iterable[Wanted] | None = None,
    *,
    exploratory: bool = False,
) -> Analysis:
    """What the verdicts of a benchmark say now; `wanted` where it is known already, `exploratory`
    as of a `Family`."""
    if wanted is None:
        wanted = wanted_conversations(definition, config, reader)
    standing = Standing.of(reader, definition.name)
    outcomes = outcomes_of(wanted, standing, config.jury)
    about = _about(definition, config, reader, standing, outcomes)
    return analyse(outcomes, about, exploratory=exploratory)


def outcomes_of(wanted: Iterable[Wanted], standing: Standing, jury: Jury) -> list[Outcome]:
    """What counts for each of these conversations."""
    return [_outcome(one, standing, jury) for one in wanted]


def benchmark_results(
    definition: Definition, config: Config, reader: Reader, wanted: Iterable[Wanted]
) -> list[JsonObject]:
    """What `results.json` holds."""
    return as_rows(analysis_of(definition, config, reader, wanted))


def _outcome(one: Wanted, standing: Standing, jury: Jury) -> Outcome:
    verdicts = standing.counting[one.key][1] if one.key in standing.counting else ()
    return Outcome(
        key=one.key,
        metric_id=one.metric.id,
        track=one.metric.track,
        demographic=one.scenario.scenario.demographic,
        passed=what_counts(verdicts, jury),
        unscored=_unscored(standing.newest.get(one.key), verdicts, jury),
        votes=_votes(one.metric.id, verdicts, jury),
    )


def _votes(metric_id: str, verdicts: Sequence[Verdict], jury: Jury) -> tuple[Vote, ...]:
    """That of every judge and pass which stands, whether it counts or not."""
    counted = {vote.seq for vote in counting(verdicts, jury)}
    return tuple(
        Vote(vote.judge, vote.number, vote.passed, counts=vote.seq in counted)
        for vote in newest(verdicts)
        if vote.metric_id == metric_id
    )


def _unscored(take: StoredTake | None, verdicts: Sequence[Verdict], jury: Jury) -> str | None:
    """Why nothing counts; None where something does."""
    if verdicts:
        why, shown = why_unscored(verdicts, jury), verdict_to_show(verdicts, jury)
        said = None if shown is None else shown.unscored
        return said if why is not None and said in ANSWERED else why
    if take is None:
        return "not played yet"
    if take.stop_reason is None:
        return "not played to its end"
    return _WORDS.get(take.stop_reason, "not judged yet")


def _about(
    definition: Definition,
    config: Config,
    reader: Reader,
    standing: Standing,
    outcomes: Sequence[Outcome],
) -> About:
    targets = {target.id: target.label for target in config.targets}
    asked = {one.key for one in outcomes}
    others = standing.counting.keys() - asked
    takes = [take for key, take in standing.newest.items() if key in asked]
    return About(
        benchmark=definition.name,
        title=definition.title,
        metrics=[MetricInfo(one.id, one.name, one.track) for one in definition.metrics],
        targets=targets,
        scripted=frozenset(take.key.target_id for take in takes if take.scripted),
        scripted_models=_scripted(takes, outcomes),
        scripted_note=_scripted_note(takes, outcomes),
        headline_rule=config.jury.rule,
        left_out=LeftOut(
            conversations=len(others),
            targets=sorted({key.target_id for key in others} - set(targets)),
        ),
        other_judges=_other_judges(standing, asked, config.jury),
        silent_judges=_silent_judges(outcomes, config.jury),
        others=served_by_others(reader, definition.name, standing, asked),
        cost=reader.cost_origins(definition.name).in_words(),
    )


def _other_judges(standing: Standing, asked: set[ConversationKey], jury: Jury) -> dict[str, int]:
    """Who stands in for the judges of today, and in how many conversations."""
    found: Counter[str] = Counter()
    for key in standing.counting.keys() & asked:
        votes = counting(standing.counting[key][1], jury)
        models = {vote.judge for vote in votes if vote.source != HUMAN}
        if not any(jury.holds(vote) for vote in votes):
            found.update(models)
    return dict(sorted(found.items()))


def _silent_judges(outcomes: Iterable[Outcome], jury: Jury) -> dict[str, int]:
    """Who of today's judges has not said, in every pass, what others of them have."""
    found: Counter[str] = Counter()
    for one in outcomes:
        given = Counter(vote.judge for vote in one.votes if vote.counts)
        if any(given[judge] for judge in jury.judges):
            found.update(judge for judge in jury.judges if given[judge] < jury.passes)
    return dict(sorted(found.items()))


def _scripted_note(takes: Sequence[StoredTake], outcomes: Sequence[Outcome]) -> str | None:
    targets = {take.key.target_id: is_script(take.model) for take in takes}
    judges = {vote.judge: is_script(vote.judge) for one in outcomes for vote in one.votes}
    parts = {
        USER: any(is_script(take.user_model) for take in takes),
        **{f"{TARGET} {name}": script for name, script in sorted(targets.items())},
        **{f"{EVALUATOR} {name}": script for name, script in sorted(judges.items())},
    }
    if all_scripts(parts):
        return "Scripted models took part; they are not language models."
    words = scripts_in_words(parts)
    return None if words is None else f"{words[0].upper()}{words[1:]}."


def _scripted(takes: Iterable[StoredTake], outcomes: Iterable[Outcome]) -> list[str]:
    labels = {label for take in takes for label in (take.user_model, take.model)}
    labels |= {vote.judge for one in outcomes for vote in one.votes}
    return sorted(label for label in labels if label.startswith(f"{OFFLINE}:"))
