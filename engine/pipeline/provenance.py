"""Where a benchmark's numbers come from, according to the rows that count: which models answered,
which answers came from substitute models, and what is stale."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from importlib.metadata import version
from typing import Any

from engine.analysis.figures import ServedByOthers
from engine.analysis.provenance import (
    UP_TO_DATE,
    NamesByModel,
    Provenance,
    Stale,
    UnrecordedPrompts,
)
from engine.benchmark import ConversationKey, Role, Speaker, Stage, Utterance
from engine.config.benchmark_file import Definition
from engine.config.schema import Config
from engine.display import joined_names
from engine.identity import digest
from engine.jury import HUMAN, counting_votes
from engine.pipeline.counting import StoredConversations, WantedConversation, wanted_conversations
from engine.pipeline.judge import VerdictInputs
from engine.pipeline.models import model_digest
from engine.pipeline.order import changed_inputs, what_changed
from engine.pipeline.play import TakeInputs, setup_of
from engine.providers.model import Message
from engine.stages.simulate import Setup, depends, target_request, user_request
from engine.store.model_settings import LEFT_OUT, ModelSettings, requested
from engine.store.reader import Reader
from engine.store.tables import (
    AttemptRow,
    CheckRow,
    Depends,
    MessageRow,
    StoredTake,
    UnusableRow,
    Verdict,
    utc_datetime,
)


def provenances(
    reader: Reader,
    benchmark: str,
    config: Config,
    stored: StoredConversations,
    asked: Collection[ConversationKey],
) -> dict[str, Provenance]:
    """The provenance by target of those conversations that count."""
    by_target: defaultdict[str, list[_Evidence]] = defaultdict(list)
    for key in stored.counting.keys() & asked:
        take, verdicts = stored.counting[key]
        votes = counting_votes(verdicts, config.jury)
        by_target[key.target_id].append((take, votes, stored.newest_checks(take.seq)))
    known, served = ModelSettings.of(reader, benchmark), reader.served_names(benchmark)
    program, configuration = version("crosswind"), digest(config.public())
    found: dict[str, Provenance] = {}
    for target, evidence in sorted(by_target.items()):
        takes = [take for take, _, _ in evidence]
        verdicts = [verdict for _, given, _ in evidence for verdict in given]
        checks = [check for _, _, made in evidence for check in made]
        prompts = _prompts(takes, verdicts, checks)
        found[target] = Provenance(
            version=program,
            configuration=configuration,
            prompts={what: sorted(prompts[what]) for what in _in_order(prompts)},
            targets=_served(served, Role.TARGET, {take.model for take in takes}),
            user_models=_served(served, Role.USER, {take.user_model for take in takes}),
            judges=_served(served, Role.EVALUATOR, {verdict.judge for verdict in verdicts}),
            checkers=_served(served, Role.CHECKER, {check.model for check in checks}),
            first_at=_iso(min((take.at for take in takes if take.at), default=None)),
            last_at=_iso(max((one.at for one in verdicts if one.at), default=None)),
            stances=sorted({take.stance.value for take in takes}),
            settings=_settings(known, takes, verdicts, checks),
        )
    return found


_Evidence = tuple[StoredTake, Sequence[Verdict], Sequence[CheckRow]]
"""A take that counts, the verdicts on it that count, and its checks."""


def _prompts(
    takes: Iterable[StoredTake], verdicts: Iterable[Verdict], checks: Iterable[CheckRow]
) -> Mapping[str, set[str]]:
    """The digests of the prompts from which rows were made, by what they were for."""
    made: list[tuple[str, Depends | None]] = [(Stage.SIMULATE, take.depends) for take in takes]
    made += [(Stage.EVALUATE, verdict.depends) for verdict in verdicts]
    made += [(f"checks.{check.kind}", check.depends) for check in checks]
    prompts: defaultdict[str, set[str]] = defaultdict(set)
    for what, made_from in made:
        if made_from is not None and "prompt" in made_from:
            prompts[what].add(made_from["prompt"])
    return prompts


def _settings(
    known: ModelSettings,
    takes: Iterable[StoredTake],
    verdicts: Iterable[Verdict],
    checks: Iterable[CheckRow],
) -> dict[str, list[Mapping[str, Any]]]:
    """What each model was asked with, in every way that occurs."""
    used: list[tuple[str, Mapping[str, Any] | None]] = [
        pair for take in takes for pair in known.of_take(take).items()
    ]
    used += [(f"judge {one.judge}", known.of_verdict(one)) for one in verdicts]
    used += [(f"checker {one.model}", known.of_check(one)) for one in checks]
    ways: defaultdict[str, dict[str, Mapping[str, Any]]] = defaultdict(dict)
    for who, settings in used:
        if settings is not None:
            ways[who][repr(settings)] = settings
    return {who: [some[key] for key in sorted(some)] for who, some in sorted(ways.items())}


def _in_order(made: Iterable[str]) -> list[str]:
    """What was made from prompts, by its stage; the checks last. Rows come in any order."""
    stages = [str(stage) for stage in Stage]
    return sorted(made, key=lambda what: (what not in stages, [*stages, what].index(what), what))


def equal_targets(
    config: Config, provenances: Mapping[str, Provenance]
) -> list[tuple[str, Sequence[str]]]:
    """Targets that were asked with equal requests, together; of each group its names, and which
    parameters were left out of them after a refusal."""
    groups: defaultdict[str, list[tuple[str, Mapping[str, Any]]]] = defaultdict(list)
    for target in config.targets:
        made = provenances.get(target.id)
        some = () if made is None else made.settings.get("target", ())
        if len(some) == 1 and not target.is_application:
            groups[repr((target.identity, requested(some[0])))].append((target.id, some[0]))
    return [
        (
            joined_names([name for name, _ in group]),
            sorted({n for _, s in group for n in s[LEFT_OUT]}),
        )
        for group in groups.values()
        if len(group) > 1
    ]


def unrecorded(
    config: Config, stored: StoredConversations, asked: Collection[ConversationKey]
) -> UnrecordedPrompts:
    """Count the rows of those conversations that do not record their prompts."""
    counted = [stored.counting[key] for key in stored.counting.keys() & asked]
    verdicts_given = [
        verdict
        for _, verdicts in counted
        for verdict in counting_votes(verdicts, config.jury)
        if verdict.source != HUMAN
    ]
    return UnrecordedPrompts(
        takes=sum("prompt" not in (take.depends or {}) for take, _ in counted),
        of_takes=len(counted),
        verdicts=sum("prompt" not in (verdict.depends or {}) for verdict in verdicts_given),
        of_verdicts=len(verdicts_given),
    )


def _served(
    served: Mapping[tuple[Role, str], Collection[str]], role: Role, labels: Iterable[str]
) -> NamesByModel:
    return {label: sorted(served.get((role, label), ())) for label in sorted(labels)}


def _iso(at: int | None) -> str | None:
    """ISO 8601 in UTC; None where unknown, or where a damaged row is out of range."""
    if at is None:
        return None
    try:
        return utc_datetime(at).isoformat(timespec="seconds")
    except OverflowError:
        return None


_Counted = Collection[tuple[StoredTake, Sequence[Verdict]]]


def served_by_others(
    reader: Reader,
    benchmark: str,
    stored: StoredConversations,
    asked: Collection[ConversationKey],
) -> list[ServedByOthers]:
    """Count answers by substitute models in these conversations: replies of each target, then
    messages of the user model, then verdicts of each judge. Empty where there are none."""
    counted = [
        take_and_verdicts for key, take_and_verdicts in stored.counting.items() if key in asked
    ]
    return [*_served_speakers(reader, benchmark, counted), *_served_judges(counted)]


def _served_speakers(reader: Reader, benchmark: str, counted: _Counted) -> Iterator[ServedByOthers]:
    by_others = reader.messages_by_others(benchmark)
    if not by_others:
        return
    for speaker in (Speaker.TARGET, Speaker.USER):
        asked_of: defaultdict[tuple[str | None, str], list[StoredTake]] = defaultdict(list)
        for take, _ in counted:
            asked_of[_asked_model(take, speaker)].append(take)
        for (target, model), takes in sorted(asked_of.items(), key=lambda item: str(item[0])):
            served: Counter[str] = Counter()
            for take in takes:
                served.update(by_others.get((take.seq, speaker), {}))
            if served:
                what = "messages of the user model" if target is None else f"replies of {target}"
                of = reader.messages_said([take.seq for take in takes], speaker)
                yield ServedByOthers(what, target, model, dict(served), of)


def _asked_model(take: StoredTake, speaker: Speaker) -> tuple[str | None, str]:
    """The target, None for the user model, and the label of the requested model."""
    if speaker is Speaker.USER:
        return None, take.user_model
    return take.key.target_id, take.model


def _served_judges(counted: _Counted) -> Iterator[ServedByOthers]:
    served: defaultdict[str, Counter[str]] = defaultdict(Counter)
    totals: Counter[str] = Counter()
    for _, verdicts in counted:
        # the newest usable one of each pass: those that it replaced are counted nowhere
        newest = {
            (verdict.judge, verdict.number): verdict
            for verdict in verdicts
            if verdict.passed is not None
        }
        for verdict in newest.values():
            totals[verdict.judge] += 1
            if verdict.served_by is not None:
                served[verdict.judge][verdict.served_by] += 1
    for judge, names in sorted(served.items()):
        yield ServedByOthers(f"verdicts of {judge}", None, judge, dict(names), totals[judge])


class StaleFinder:
    """Compares results with the current inputs."""

    def __init__(self, definition: Definition, config: Config) -> None:
        self._takes = TakeInputs(definition, config)
        self._verdicts = VerdictInputs()
        self._judges = {judge.label: judge for judge in config.judges}

    def staleness_of(
        self, wanted: WantedConversation, take: StoredTake, votes: Sequence[Verdict]
    ) -> Stale:
        """Compare a take and its counting verdicts `votes`; without these, nothing is stale."""
        if not votes:
            return UP_TO_DATE
        changed = tuple(changed_inputs(take.depends, self._takes.of_take(wanted, take)))
        verdicts = tuple(why for vote in votes if (why := self.reasons_of(wanted, vote)))
        return Stale(changed, verdicts) if changed or verdicts else UP_TO_DATE

    def reasons_of(self, wanted: WantedConversation, vote: Verdict) -> tuple[str, ...]:
        """What has changed since a verdict was given; empty if nothing, or not known."""
        if vote.depends is None:
            return ()
        judge = self._judges.get(vote.judge)
        if judge is None:
            # a judge that the configuration no longer has
            return ("evaluator",)
        return tuple(self._verdicts.changed(wanted.metric, judge, vote))


def stale_takes(definition: Definition, config: Config, reader: Reader) -> dict[int, Stale]:
    """Why takes that count are stale, or have stale verdicts that count; by the take's `seq`."""
    finder, stored = (
        StaleFinder(definition, config),
        StoredConversations.of(reader, definition.name),
    )
    by_take: dict[int, Stale] = {}
    for conversation in wanted_conversations(definition, config, reader):
        take, verdicts = stored.counting.get(conversation.key, (None, ()))
        if take is not None and (
            stale := finder.staleness_of(conversation, take, counting_votes(verdicts, config.jury))
        ):
            by_take[take.seq] = stale
    return by_take


_ROLES = {Speaker.USER: Role.USER, Speaker.TARGET: Role.TARGET}


@dataclass(frozen=True, slots=True)
class MessageCall:
    """What was asked for one message, and what came back."""

    turn: int
    speaker: Speaker
    message: MessageRow | None
    """None where no message came of it."""
    attempts: Sequence[AttemptRow]
    """Oldest first; empty for a take that was imported."""
    request: Sequence[Message]
    """Empty where it cannot be made again."""
    unusable: Sequence[UnusableRow] = ()
    """The last answers that could not be used, where the conversation failed with them."""


@dataclass(frozen=True, slots=True)
class TakeCalls:
    """The calls of a take, in the order of its messages."""

    calls: Sequence[MessageCall]
    changed: str | None = None
    """What the requests are made from that differs from what the take was made from, in words."""


def calls_of_take(
    definition: Definition, config: Config, reader: Reader, key: ConversationKey, number: int
) -> TakeCalls:
    """The calls of the take with this number; none where there is no such take. Raises
    `StoreError`."""
    takes = reader.takes(definition.name, key)
    take = next((each for each in takes if each.number == number), None)
    if take is None:
        return TakeCalls(())
    messages = reader.messages(take.seq)
    later = next((each.seq for each in takes if each.number > number), reader.last_seq() + 1)
    attempts = reader.attempts_of(take, through=later)
    setup = _setup_of_take(definition, config, reader, take)
    spoken = [Utterance(message.speaker, message.text) for message in messages]
    calls, after = list[MessageCall](), take.seq
    for place, message in enumerate(messages):
        own = _between(attempts, message.speaker, after, message.seq)
        asked = _request(setup, spoken[:place], messages[:place], message.speaker, message.turn)
        calls.append(MessageCall(message.turn, message.speaker, message, own, asked))
        after = message.seq
    speaker = Speaker.TARGET if len(messages) % 2 else Speaker.USER
    rest = _between(attempts, speaker, after, later)
    if rest and not take.finished:
        turn = len(messages) // 2 + 1
        unusable = [
            answer
            for row in reader.failed_rows(str(key), definition.name)
            if row.stage is Stage.SIMULATE
            for answer in reader.unusable_answers(row)
        ]
        asked = _request(setup, spoken, messages, speaker, turn)
        calls.append(MessageCall(turn, speaker, None, rest, asked, unusable))
    return TakeCalls(calls, None if setup is None else _changed(setup, config, take))


def _setup_of_take(
    definition: Definition, config: Config, reader: Reader, take: StoredTake
) -> Setup | None:
    """What both sides were told; None where the files no longer have its metric or target."""
    scenario = reader.scenario_of(take)
    metrics = {metric.id: metric for metric in definition.metrics}
    metric = None if scenario is None else metrics.get(scenario.metric_id)
    target = next((each for each in config.targets if each.id == take.key.target_id), None)
    if scenario is None or metric is None or target is None:
        return None
    setup = setup_of(definition, config, scenario, metric, target, take.form)
    return replace(setup, stance=take.stance)


def _changed(setup: Setup, config: Config, take: StoredTake) -> str | None:
    target = next(each for each in config.targets if each.id == take.key.target_id)
    now = depends(setup, model_digest(config.user_model), model_digest(target))
    return what_changed(take.depends, now)


def _request(
    setup: Setup | None,
    spoken: Sequence[Utterance],
    messages: Sequence[MessageRow],
    speaker: Speaker,
    turn: int,
) -> Sequence[Message]:
    if setup is None:
        return ()
    if speaker is Speaker.USER:
        return user_request(setup, spoken, turn)
    thoughts = {
        place: message.reasoning
        for place, message in enumerate(messages)
        if message.speaker is Speaker.TARGET and message.reasoning
    }
    return target_request(setup, spoken, thoughts)


def _between(
    attempts: Sequence[AttemptRow], speaker: Speaker, after: int, before: int
) -> Sequence[AttemptRow]:
    role = _ROLES[speaker]
    return [each for each in attempts if after < each.seq < before and each.role is role]
