"""Determines what counts for every conversation of the current benchmark, and analyses it."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from engine.analysis.analyse import analyse
from engine.analysis.comparability import ExposedConversation, GuessedAxis, group_checks
from engine.analysis.figures import (
    Analysis,
    AnalysisContext,
    CastVote,
    LeftOut,
    MetricInfo,
    Outcome,
    UserAuditResult,
)
from engine.analysis.provenance import UP_TO_DATE, Provenance
from engine.benchmark import ConversationKey, Landmark, Stage, Stance, StopReason, base_id
from engine.checks import CheckKind, FaultKind, UserAuditMode
from engine.config.benchmark_file import Definition
from engine.config.schema import Config
from engine.config.values import OFFLINE
from engine.display import joined_names, plural
from engine.jury import (
    HUMAN,
    NO_VERDICT,
    NOT_JUDGED,
    TIED,
    CountedVerdicts,
    Counts,
    Jury,
    counting_votes,
    newest_votes,
    what_counts,
)
from engine.pipeline.counting import StoredConversations, WantedConversation, counts_of, wanted_now
from engine.pipeline.order import changed_words
from engine.pipeline.provenance import (
    StaleFinder,
    equal_targets,
    provenances,
    served_by_others,
    unrecorded,
)
from engine.providers.sender import PARKED
from engine.scripted import (
    CHECKER,
    EVALUATOR,
    TARGET,
    USER,
    all_scripts,
    is_script,
    scripts_in_words,
)
from engine.stages.evaluate import ANSWERED
from engine.store.reader import Reader
from engine.store.tables import StoredTake, TakeCount, Verdict

_WORDS: Final = {
    StopReason.USER_FAILED: "user model failed",
    StopReason.TARGET_FAILED: "target failed",
    StopReason.CANCELLED: "cancelled",
}


@dataclass(frozen=True, slots=True)
class CountedResults:
    """The results of a benchmark and what they were computed from."""

    analysis: Analysis
    outcomes: Sequence[Outcome]
    """One for every conversation that the benchmark asks for."""
    stored: StoredConversations
    counts: Counts


def counted_of(
    definition: Definition,
    config: Config,
    reader: Reader,
    wanted: Iterable[WantedConversation] | None = None,
    stored: StoredConversations | None = None,
    *,
    fresh: bool = False,
) -> CountedResults:
    """Analyse a benchmark's current verdicts. `wanted` and `stored` can be passed if already
    known; with `fresh`, stale results do not count."""
    if wanted is None:
        wanted = wanted_now(definition, config, reader)
    if stored is None:
        stored = StoredConversations.of(reader, definition.name)
    look = _ConversationStatus(definition, config, reader, fresh=fresh)
    counts = counts_of(definition, config, reader)
    outcomes = [_outcome(conversation, stored, counts, look) for conversation in wanted]
    about = _analysis_context(definition, config, reader, stored, outcomes, fresh=fresh)
    models = {target.id: target.label for target in config.targets}
    return CountedResults(analyse(outcomes, about, models), outcomes, stored, counts)


def take_counts(
    counts: Counts, stored: StoredConversations, outcomes: Iterable[Outcome]
) -> Iterator[TakeCount]:
    """What is decided of each take, where it stands beside those of other benchmarks."""
    by_key = {outcome.key: outcome for outcome in outcomes}
    for take in stored.takes:
        counting, verdicts = stored.counting.get(take.key, (None, ()))
        outcome = by_key.get(take.key)
        why = counts.why_not_pooled(take, None if counting is None else counting.seq)
        if counting is None or take.seq != counting.seq:
            yield TakeCount(take.seq, why, None, None, None, None)
            continue
        of_take = counts.verdicts_on(take, verdicts)
        shown, changed = of_take.shown, None
        if outcome is not None and outcome.stale:
            changed = changed_words(outcome.stale.take or outcome.stale.verdicts[0])
        unscored = of_take.unscored if outcome is None else outcome.unscored
        verdict = None if shown is None else shown.seq
        yield TakeCount(take.seq, why, of_take.passed, unscored, changed, verdict)


def decided_otherwise(counts: Counts, stored: StoredConversations) -> dict[int, TakeCount]:
    """The newest finished takes of which the files say otherwise than the newest verdict does: that
    they do not count, or to what their verdicts come."""
    verdicts = {take.seq: verdicts for take, verdicts in stored.counting.values()}
    return {
        row.take: row
        for row in take_counts(counts, stored, ())
        if row.take in verdicts
        and (
            row.why_not is not None
            or (verdicts[row.take] and verdicts[row.take][-1].counted is not row.passed)
        )
    }


def verdicts_left_out(
    counts: Counts, stored: StoredConversations, takes: Collection[int]
) -> Iterator[tuple[int, str]]:
    """The `seq` of each verdict on these takes that does not count, and why."""
    for take, verdicts in stored.counting.values():
        if take.seq in takes:
            counted = counts.verdicts_on(take, verdicts)
            for verdict in verdicts:
                if (why := counted.why_not(verdict)) is not None:
                    yield verdict.seq, why.value


def outcomes_of(
    wanted: Iterable[WantedConversation], stored: StoredConversations, counts: Counts
) -> list[Outcome]:
    """What counts for each of these conversations, without staleness and exposure."""
    return [_outcome(conversation, stored, counts) for conversation in wanted]


class _ConversationStatus:
    """Looks up a conversation's staleness and its exposure."""

    def __init__(
        self, definition: Definition, config: Config, reader: Reader, *, fresh: bool
    ) -> None:
        self.stale = StaleFinder(definition, config)
        self.fresh = fresh
        """Whether stale results are left out."""
        self._turns = reader.turns_begun(definition.name)
        self._withheld = reader.withheld_replies()
        self._reader = reader
        self._earlier: dict[int, Sequence[Landmark]] = {}
        """Landmarks of earlier versions of edited scenarios, by the row's `seq`."""

    def exposed(self, wanted: WantedConversation, take: StoredTake) -> ExposedConversation:
        marks: Sequence[Landmark] = wanted.scenario.scenario.landmarks
        if take.stance is Stance.NEUTRAL:
            marks = ()  # its user model was given no landmarks
        elif take.scenario_seq is not None and take.scenario_seq != wanted.scenario.seq:
            if take.scenario_seq not in self._earlier:
                played = self._reader.scenario_of(take)
                self._earlier[take.scenario_seq] = () if played is None else played.landmarks
            marks = self._earlier[take.scenario_seq]
        turns, withheld = self._turns.get(take.seq, 0), self._withheld.get(take.seq, 0)
        return ExposedConversation.of(marks, turns, take.stop_reason, withheld=withheld)


def _outcome(
    wanted: WantedConversation,
    stored: StoredConversations,
    counts: Counts,
    look: _ConversationStatus | None = None,
) -> Outcome:
    take, verdicts = stored.counting.get(wanted.key, (None, ()))
    counted = None if take is None else counts.verdicts_on(take, verdicts)
    stale, exposed, unscored = UP_TO_DATE, None, None
    if look is not None and take is not None and counted is not None:
        exposed = look.exposed(wanted, take)
        stale = look.stale.staleness_of(wanted, take, counted.votes)
        if stale and look.fresh:
            unscored = f"stale: {changed_words(stale.take or stale.verdicts[0])}"
            fresh = [vote for vote in counted.votes if not look.stale.reasons_of(wanted, vote)]
            counted, stale = counts.verdicts_on(take, () if stale.take else fresh), UP_TO_DATE
    votes = [] if counted is None else counted.votes
    passed = None if counted is None else counted.passed
    if passed is not None:
        unscored = None
    elif counted is not None and votes:
        unscored = counted.unscored
        # what is unscored as the user model was at fault is played again whatever has changed
        stale = stale if unscored == TIED else UP_TO_DATE
    elif unscored is None:
        unscored = _unscored(wanted.key, stored, counted)
    return Outcome(
        key=wanted.key,
        metric_id=wanted.metric.id,
        track=wanted.metric.track,
        demographic=wanted.scenario.scenario.demographic,
        passed=passed,
        unscored=unscored,
        votes=_votes(wanted.metric.id, verdicts, votes),
        stale=stale,
        exposed=exposed,
        transcript=wanted.scenario.scenario.transcript_id,
    )


def _votes(
    metric_id: str, verdicts: Sequence[Verdict], counted: Sequence[Verdict]
) -> tuple[CastVote, ...]:
    """The current vote of each judge and pass, whether it counts or not; people's votes only where
    they count, since otherwise judges are compared with them."""
    counting = {vote.seq for vote in counted}
    return tuple(
        CastVote(
            vote.judge,
            vote.number,
            vote.passed,
            counts=vote.seq in counting,
            lacks_quote=vote.lacks_quote,
        )
        for vote in newest_votes(verdicts)
        if vote.metric_id == metric_id and (vote.source != HUMAN or vote.seq in counting)
    )


def _unscored(
    key: ConversationKey, stored: StoredConversations, counted: CountedVerdicts[Verdict] | None
) -> str | None:
    """Why nothing counts."""
    if counted is not None and counted.shown is not None:
        reason = counted.shown.unscored
        return reason if reason in ANSWERED else counted.unscored
    take = stored.newest.get(key)
    reason = None if take is None else take.stop_reason
    if reason in _WORDS:
        return _WORDS[reason]
    # a row may fail without a take, or before its take has ended: that of a parked target does
    failed = stored.failed.get((Stage.SIMULATE, str(key)))
    if failed is not None:
        return _WORDS[StopReason.TARGET_FAILED] if PARKED in failed else "failed"
    if take is None:
        return "not played yet"
    if reason is None:
        return "not played to its end"
    return NO_VERDICT if (Stage.EVALUATE, str(key)) in stored.failed else NOT_JUDGED


def _analysis_context(
    definition: Definition,
    config: Config,
    reader: Reader,
    stored: StoredConversations,
    outcomes: Sequence[Outcome],
    *,
    fresh: bool,
) -> AnalysisContext:
    asked = {outcome.key for outcome in outcomes}
    others, targets = stored.counting.keys() - asked, {target.id for target in config.targets}
    left_out = LeftOut(
        conversations=len(others),
        targets=sorted({key.target_id for key in others} - targets),
        samples=sum(bool(key.sample) and replace(key, sample=0) in asked for key in others),
    )
    takes = [take for key, take in stored.newest.items() if key in asked]
    checkers = {check.model for take in takes for check in stored.newest_checks(take.seq)}
    made_with = provenances(reader, definition.name, config, stored, asked)
    only_fresh = [_ONLY_FRESH] if fresh else []
    return AnalysisContext(
        benchmark=definition.name,
        title=definition.title,
        metrics=[MetricInfo(metric.id, metric.name, metric.track) for metric in definition.metrics],
        headline_rule=_rule(stored, config.jury),
        scripted_models=_scripted(takes, outcomes, checkers),
        others=served_by_others(reader, definition.name, stored, asked),
        left_out=left_out,
        notes=[
            *only_fresh,
            *_scripted_notes(takes, outcomes, checkers),
            *_left_out_notes(left_out),
            *_other_judges(stored, asked, config.jury),
            *_counted_otherwise(stored, asked, config.jury),
            *_equal_targets(config, made_with),
            *_silent_judges(outcomes, config.jury),
        ],
        cost=reader.cost_origins(definition.name).in_words(),
        provenances=made_with,
        unrecorded=unrecorded(config, stored, asked),
        user_audit=config.user_audit,
        user_audits=_user_audits(config, stored, asked),
        group_checks=group_checks(_guesses(stored, outcomes)),
        unanswered=Counter(
            kind
            for key in stored.counting.keys() & asked
            for kind in stored.unanswered_checks(stored.counting[key][0].seq)
        ),
    )


_ONLY_FRESH: Final = (
    "Only what is up to date counts (--fresh): what is stale is unscored here. Imported rows that "
    "do not record their inputs are not known to be stale."
)


def _guesses(stored: StoredConversations, outcomes: Iterable[Outcome]) -> Iterator[GuessedAxis]:
    """Yield every axis of each complete conversation, guessed or not."""
    for outcome in outcomes:
        if outcome.key not in stored.counting:
            continue
        take, _ = stored.counting[outcome.key]
        checks = stored.newest_checks(take.seq)
        check = next((row for row in checks if row.kind is CheckKind.GROUPS), None)
        answers = {} if check is None else {answer.about: answer for answer in check.answers}
        for axis, group in outcome.demographic.items():
            base, answer = base_id(outcome.key.scenario_id), answers.get(axis)
            if check is None or answer is None:
                yield GuessedAxis(axis, base, group, None)
            else:
                yield GuessedAxis(axis, base, group, answer.holds, check.model)


def _rule(stored: StoredConversations, jury: Jury) -> str:
    """What counts, and the role of people's verdicts if there are any."""
    judged = (verdict for _, verdicts in stored.counting.values() for verdict in verdicts)
    if any(verdict.source == HUMAN for verdict in judged):
        return f"{jury.rule} {jury.people.rule}"
    return jury.rule


def _user_audits(
    config: Config, stored: StoredConversations, asked: set[ConversationKey]
) -> dict[str, UserAuditResult]:
    """Totals of user audits by target, over the takes that count."""
    if config.user_audit is UserAuditMode.OFF:
        return {}
    of: Counter[str] = Counter()
    looked_at: Counter[str] = Counter()
    invalid: Counter[str] = Counter()
    faults: defaultdict[str, Counter[FaultKind]] = defaultdict(Counter)
    checked: Counter[str] = Counter()
    for key in stored.counting.keys() & asked:
        take = stored.counting[key][0]
        of[key.target_id] += 1
        looked_at[key.target_id] += take.looked_at
        invalid[key.target_id] += bool(take.faults)
        faults[key.target_id].update({fault.kind for fault in take.faults})
        checked[key.target_id] += take.landmark_check is not None
    is_checked = config.checks.landmarks or bool(checked.total())
    return {
        target: UserAuditResult(
            of[target],
            looked_at[target],
            invalid[target],
            faults[target],
            checked[target] if is_checked else None,
        )
        for target in sorted(of)
    }


def _left_out_notes(left_out: LeftOut) -> Iterator[str]:
    gone = left_out.conversations - left_out.samples
    if gone:
        yield (
            f"{gone:,} stored conversations are not part of the present benchmark and are not "
            "counted."
        )
    if left_out.samples:
        yield (
            f"{left_out.samples:,} stored conversations are samples beyond `num_samples` under "
            "`generation:` in config.yaml and are not counted."
        )
    if left_out.targets:
        yield f"Targets no longer in the configuration: {', '.join(left_out.targets)}"


def _other_judges(
    stored: StoredConversations, asked: set[ConversationKey], jury: Jury
) -> Iterator[str]:
    """Judges that count in place of the configured ones."""
    counts: Counter[str] = Counter()
    for key in stored.counting.keys() & asked:
        votes = counting_votes(stored.counting[key][1], jury)
        models = {vote.judge for vote in votes if vote.source != HUMAN}
        if not any(jury.holds(vote) for vote in votes):
            counts.update(models)
    for judge, count in sorted(counts.items()):
        yield (
            f"{count:,} conversations count by the verdicts of {judge}, which is not a judge of "
            "the present configuration; `run --stale` has them judged again."
        )


def _counted_otherwise(
    stored: StoredConversations, asked: set[ConversationKey], jury: Jury
) -> Iterator[str]:
    """How many conversations have another result than when they were last judged."""
    judged = (stored.counting[key][1] for key in stored.counting.keys() & asked)
    count = sum(
        verdicts[-1].counted is not what_counts(verdicts, jury) for verdicts in judged if verdicts
    )
    if count:
        yield (
            f"Something else counts than at the last verdict in {plural(count, 'conversation')}, "
            "as the judges of the configuration changed; the app's tables follow with the next "
            "`run`."
        )


def _equal_targets(config: Config, made_with: Mapping[str, Provenance]) -> Iterator[str]:
    for names, left_out in equal_targets(config, made_with):
        why = f" ({joined_names(left_out)} left out after a refusal)" if left_out else ""
        yield (
            f"{names} were asked with equal requests{why}: they are one target, played several "
            "times, and what differs between them is chance."
        )


def _silent_judges(outcomes: Iterable[Outcome], jury: Jury) -> Iterator[str]:
    """Configured judges that lack passes in conversations where another of them counts."""
    counts: Counter[str] = Counter()
    for outcome in outcomes:
        votes_of_judges = Counter(vote.judge for vote in outcome.votes if vote.counts)
        if any(votes_of_judges[judge] for judge in jury.judges):
            counts.update(judge for judge in jury.judges if votes_of_judges[judge] < jury.passes)
    for judge, count in sorted(counts.items()):
        yield (
            f"{count:,} conversations count without all verdicts of {judge}, which is a judge of "
            "the present configuration; `run` asks it again."
        )


def _scripted_notes(
    takes: Sequence[StoredTake], outcomes: Sequence[Outcome], checkers: Iterable[str]
) -> Iterator[str]:
    """Which parts scripts played."""
    targets = {take.key.target_id: is_script(take.model) for take in takes}
    judges = {vote.judge: is_script(vote.judge) for outcome in outcomes for vote in outcome.votes}
    parts = {
        USER: any(is_script(take.user_model) for take in takes),
        **{f"{TARGET} {name}": script for name, script in sorted(targets.items())},
        **{f"{EVALUATOR} {name}": script for name, script in sorted(judges.items())},
        **{f"{CHECKER} {name}": is_script(name) for name in sorted(checkers)},
    }
    if all_scripts(parts):
        yield "Scripted models took part; they are not language models."
    elif (words := scripts_in_words(parts)) is not None:
        yield f"{words[0].upper()}{words[1:]}."


def _scripted(
    takes: Iterable[StoredTake], outcomes: Iterable[Outcome], checkers: Iterable[str]
) -> list[str]:
    labels = {*checkers}
    labels |= {label for take in takes for label in (take.user_model, take.model)}
    labels |= {vote.judge for outcome in outcomes for vote in outcome.votes}
    return sorted(label for label in labels if label.startswith(f"{OFFLINE}:"))
