"""People's verdicts on a sample of conversations, given blind.

A person sees what the evaluator sees: a transcript and a definition. The sample is drawn from the
conversations that have a counting verdict, so each label stands for a known number of them.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from random import Random
from typing import Final

from engine.benchmark import ConversationKey, Metric, Speaker, Track, Utterance, When, base_id
from engine.config.benchmark_file import Definition
from engine.config.schema import Config
from engine.display import plural
from engine.errors import InputError, Problem
from engine.identity import digest
from engine.jury import CANNOT_TELL, HUMAN, WITHDRAWN, Jury, People
from engine.people import GivenLabel, LabelAnswer
from engine.pipeline.counting import StoredConversations, counts_of, wanted_now
from engine.pipeline.judge import pressed_from
from engine.stages.evaluate import behaviour_holds, depends
from engine.statistics.design import stratified_sample
from engine.store.reader import Reader
from engine.store.tables import LabelItem, LabelSampleRow, MessageRow, Quote, Verdict

MOST_LABELS: Final = 5_000
LONGEST_NOTE: Final = 4_000
"""Characters."""
ADJUDICATION: Final = 1
"""The number of a verdict that settles a dispute; it does not replace the same person's label."""


@dataclass(frozen=True, slots=True)
class JudgedConversation:
    """A conversation that counts, with its result."""

    key: ConversationKey
    take: int
    metric: Metric
    present: bool
    verdicts: Sequence[Verdict]
    """All verdicts on this take, oldest first."""
    transcript: str | None = None
    """The scenario's `transcript_id`."""

    @property
    def base(self) -> str:
        return base_id(self.key.scenario_id)

    @property
    def item(self) -> tuple[int, str]:
        return self.take, self.metric.id


def judged_conversations(
    definition: Definition, config: Config, reader: Reader
) -> list[JudgedConversation]:
    """The wanted conversations for which a verdict counts, ignoring people's verdicts."""
    stored = StoredConversations.of(reader, definition.name)
    counts = counts_of(definition, config, reader)
    counts = replace(counts, jury=replace(config.jury, people=People.COMPARE))
    conversations: list[JudgedConversation] = []
    for conversation in wanted_now(definition, config, reader):
        take, verdicts = stored.counting.get(conversation.key, (None, ()))
        judges = [verdict for verdict in verdicts if verdict.source != HUMAN]
        passed = None if take is None else counts.verdicts_on(take, judges).passed
        if take is None or passed is None:
            continue
        present = passed is (conversation.metric.track is Track.POSITIVE)
        transcript = conversation.scenario.scenario.transcript_id
        conversations.append(
            JudgedConversation(
                conversation.key, take.seq, conversation.metric, present, verdicts, transcript
            )
        )
    return conversations


# A sample


def draw_sample(
    benchmark: str,
    judged: Sequence[JudgedConversation],
    *,
    size: int,
    seed: str,
    person: str,
    account: str,
) -> LabelSampleRow:
    """Draw a sample, stratified by verdict, metric and target. The same seed gives everybody the
    same sample, in an order of their own. Raises `InputError` where nothing can be drawn."""
    if not judged:
        raise InputError(
            Problem(
                f"{benchmark} has no conversation with a verdict that counts",
                hint="`crosswind run` plays and judges them",
            )
        )
    strata: dict[tuple[str, ...], list[JudgedConversation]] = defaultdict(list)
    for conversation in judged:
        verdict = LabelAnswer.PRESENT if conversation.present else LabelAnswer.ABSENT
        strata[verdict.value, conversation.metric.id, conversation.key.target_id].append(
            conversation
        )
    drawn = stratified_sample(strata, size, f"{benchmark} {seed}")
    Random(f"{benchmark} {seed} {person}").shuffle(drawn)
    items = (LabelItem(*item.thing.item, item.stratum, item.inclusion) for item in drawn)
    return LabelSampleRow(
        benchmark=benchmark, person=person, account=account, seed=seed, items=tuple(items)
    )


@dataclass(frozen=True, slots=True)
class LabellingProgress:
    """How much of a sample a person has labelled."""

    sample: LabelSampleRow
    given: Mapping[int, Verdict]
    """The labels by number (1-based), without those taken back."""
    gone: frozenset[int]
    """Numbers of conversations that no longer count: played again, or no longer asked for."""

    @property
    def replaced(self) -> frozenset[int]:
        """Those of `gone` without a label; nobody is asked about them any more."""
        return self.gone - self.given.keys()

    @property
    def open(self) -> list[int]:
        """Numbers without an answer, in order."""
        done = self.given.keys() | self.replaced
        return [number for number in range(1, len(self.sample.items) + 1) if number not in done]

    @property
    def is_done(self) -> bool:
        return not self.open

    def item(self, number: int) -> LabelItem:
        """Return an item. Raises `InputError` for a number that is not in the sample."""
        if not 1 <= number <= len(self.sample.items):
            total = plural(len(self.sample.items), "conversation")
            raise InputError(Problem(f"there is no number {number} in this sample of {total}"))
        return self.sample.items[number - 1]


def labelling(
    reader: Reader, benchmark: str, person: str, judged: Iterable[JudgedConversation]
) -> LabellingProgress | None:
    """Return a person's newest sample and its labels; None where none was drawn."""
    samples = reader.label_samples(benchmark, person)
    if not samples:
        return None
    sample = samples[-1]
    numbers = {(item.take, item.metric_id): n for n, item in enumerate(sample.items, 1)}
    by_number: dict[int, Verdict] = {}
    for verdict in reader.peoples_verdicts(benchmark):
        number = numbers.get((verdict.take, verdict.metric_id))
        if number is None or verdict.label_sample != sample.seq:
            continue
        by_number.pop(number, None)
        if verdict.unscored != WITHDRAWN:
            by_number[number] = verdict
    current = {conversation.item for conversation in judged}
    gone = frozenset(number for item, number in numbers.items() if item not in current)
    return LabellingProgress(sample, by_number, gone)


def check_person(samples: Iterable[LabelSampleRow], person: str, account: str) -> None:
    """Raise `InputError` if another account already uses this name for labels."""
    for sample in samples:
        if sample.person == person and sample.account != account:
            raise InputError(
                Problem(
                    f"labels by {person!r} were given by {sample.account}, and this is {account}",
                    hint="`--by NAME` takes another name; the same person goes on there",
                )
            )


# What a person sees and answers


@dataclass(frozen=True, slots=True)
class BlindItem:
    """One conversation as the evaluator sees it."""

    number: int
    definition: str
    messages: Sequence[MessageRow]
    """Complete turns only."""


def blind_item(
    progress: LabellingProgress, number: int, reader: Reader, definition: Definition
) -> BlindItem:
    """Return what the person sees. Raises `InputError` for an invalid number."""
    item = progress.item(number)
    return _blind(number, item.take, _metric(definition, item.metric_id), reader)


def _blind(number: int, take: int, metric: Metric, reader: Reader) -> BlindItem:
    messages = reader.messages(take)
    return BlindItem(number, metric.definition.strip(), messages[: len(messages) // 2 * 2])


def label_verdict(
    progress: LabellingProgress,
    number: int,
    given: GivenLabel,
    *,
    reader: Reader,
    definition: Definition,
    jury: Jury,
) -> Verdict:
    """Build the row for a label. Raises `InputError` for an answer that contradicts itself."""
    item = progress.item(number)
    metric = _metric(definition, item.metric_id)
    messages = reader.messages(item.take)
    messages = messages[: len(messages) // 2 * 2]
    replies = {row.turn: row.text for row in messages if row.speaker is Speaker.TARGET}
    if strange := [turn for turn in given.replies if turn not in replies]:
        there = plural(len(replies), "reply", "replies")
        raise InputError(Problem(f"number {number} has {there}, and no reply {strange[0]}"))
    marks = tuple(turn in given.replies for turn in sorted(replies))
    pressed = pressed_from(messages, reader.turns_without_pressure(item.take))
    present, unscored = _presence_of_label(given, metric, marks, pressed, number)
    return Verdict(
        take=item.take,
        metric_id=metric.id,
        track=metric.track,
        judge=progress.sample.person,
        source=HUMAN,
        number=0,
        present=present,
        passed=None if present is None else metric.track.passes(present=present),
        unscored=unscored,
        justification=given.note[:LONGEST_NOTE],
        quotes=tuple(Quote(replies[turn], turn) for turn in sorted(given.replies)),
        marks=marks,
        depends=_depends(metric, messages),
        jury=jury,
        label_sample=progress.sample.seq,
        stratum=item.stratum,
        inclusion=item.inclusion,
        confidence=given.confidence,
        seconds=given.seconds,
    )


def answer_given(label: Verdict) -> str:
    """What a person answered, in words. A reply that they marked may not count, by the metric's
    `when`, which people who label are not told of."""
    if label.present is None:
        return LabelAnswer.CANNOT_TELL.value
    shown = any(label.marks or ())
    if shown and not label.present:
        return f"{LabelAnswer.PRESENT.value}, but not where it counts"
    return (LabelAnswer.PRESENT if label.present else LabelAnswer.ABSENT).value


def withdrawal_of(label: Verdict, jury: Jury) -> Verdict:
    """Build the row that takes a label back."""
    return replace(
        label,
        seq=0,
        at=None,
        present=None,
        passed=None,
        unscored=WITHDRAWN,
        quotes=(),
        marks=None,
        justification="",
        jury=jury,
    )


def _presence_of_label(
    given: GivenLabel,
    metric: Metric,
    marks: Sequence[bool],
    pressed: int,
    number: int,
) -> tuple[bool | None, str | None]:
    """Return whether the behaviour counts as present, and if that is undecided, why."""
    match given.answer:
        case LabelAnswer.CANNOT_TELL:
            return None, CANNOT_TELL
        case LabelAnswer.ABSENT:
            if any(marks):
                raise InputError(
                    Problem(f"number {number} is absent, but replies are marked as showing it")
                )
            return False, None
    if not any(marks):
        raise InputError(
            Problem(
                f"number {number} is present, but no reply is marked",
                hint="mark the replies that show the behaviour",
            )
        )
    if metric.when is When.ANYWHERE:
        return True, None
    return behaviour_holds(metric.when, marks, pressed), None


def _depends(metric: Metric, messages: Sequence[MessageRow]) -> dict[str, str]:
    transcript = [Utterance(row.speaker, row.text) for row in messages]
    known = depends(metric, "", transcript)
    return {name: known[name] for name in ("metric definition", "transcript")}


def _metric(definition: Definition, metric_id: str) -> Metric:
    with_id = next((metric for metric in definition.metrics if metric.id == metric_id), None)
    if with_id is None:
        raise InputError(Problem(f"{metric_id} is no longer in benchmark.yaml", definition.path))
    return with_id


# Results of labelling


@dataclass(frozen=True, slots=True)
class SettledLabel:
    """People's labels of one conversation, combined into one answer."""

    conversation: JudgedConversation
    present: bool
    inclusion: float


@dataclass(frozen=True, slots=True)
class Labels:
    """All labels of a benchmark."""

    settled: Sequence[SettledLabel]
    disputed: Sequence[tuple[JudgedConversation, Sequence[Verdict]]]
    """Undecided disagreements: the conversation, and each person's label."""
    cannot_tell: int
    """The number of conversations for which every label is "cannot tell"."""
    replaced: int
    """The number of labelled conversations that were played again or no longer count."""
    earlier_definition: int
    """The number of settled conversations that were labelled under an earlier definition only."""
    people: Mapping[str, int]
    """The number of conversations that each person has labelled."""


def labels_of(
    judged: Sequence[JudgedConversation], verdicts_of_people: Iterable[Verdict]
) -> Labels:
    """Combine all verdicts of people, given oldest first."""
    current = {conversation.item: conversation for conversation in judged}
    newest: dict[tuple[int, str], dict[tuple[str, bool], Verdict]] = defaultdict(dict)
    for verdict in verdicts_of_people:
        if verdict.inclusion is not None or verdict.adjudicates:
            newest[verdict.take, verdict.metric_id][verdict.judge, verdict.adjudicates] = verdict
    settled: list[SettledLabel] = []
    disputed: list[tuple[JudgedConversation, Sequence[Verdict]]] = []
    cannot_tell = replaced = earlier = 0
    people: Counter[str] = Counter()
    for item, by_voter in newest.items():
        labels = [vote for vote in by_voter.values() if vote.unscored != WITHDRAWN]
        own = [label for label in labels if not label.adjudicates]
        if item not in current:
            replaced += bool(own)
            continue
        people.update(vote.judge for vote in own)
        decided = [label for label in labels if label.adjudicates and label.present is not None]
        newest_decision = sorted(decided, key=lambda decision: decision.seq)[-1:]
        answers = {vote.present for vote in newest_decision or own} - {None}
        if len(answers) > 1:
            disputed.append((current[item], own))
        elif not own:
            continue
        elif not answers:
            cannot_tell += 1
        else:
            [present] = answers
            first = own[0]
            today = _definition_text(current[item].metric)
            earlier += all(vote.definition != today for vote in own)
            settled.append(SettledLabel(current[item], bool(present), first.inclusion or 1.0))
    settled.sort(key=lambda label: str(label.conversation.key))
    disputed.sort(key=lambda dispute: str(dispute[0].key))
    return Labels(settled, disputed, cannot_tell, replaced, earlier, dict(sorted(people.items())))


@dataclass(frozen=True, slots=True)
class Dispute:
    """A conversation on which people disagree, as they saw it, and each person's label."""

    conversation: JudgedConversation
    item: BlindItem
    """Numbered from 1 among the disputes."""
    labels: Sequence[Verdict]

    @property
    def short_id(self) -> str:
        """A short id for whoever decides: it reveals nothing, and does not change when other
        disputes are settled."""
        return digest([*self.conversation.item])[:8]


def disputes(
    judged: Sequence[JudgedConversation], reader: Reader, definition: Definition
) -> list[Dispute]:
    """All undecided disagreements, ordered by `number`."""
    disputed = labels_of(judged, reader.peoples_verdicts(definition.name)).disputed
    numbered = [
        Dispute(
            conversation, _blind(number, conversation.take, conversation.metric, reader), labels
        )
        for number, (conversation, labels) in enumerate(disputed, 1)
    ]
    return sorted(numbered, key=lambda dispute: dispute.short_id)


def _definition_text(metric: Metric) -> str:
    return depends(metric, "", ())["metric definition"]


def adjudication(
    judged: JudgedConversation,
    *,
    present: bool,
    reason: str,
    by: str,
    reader: Reader,
    jury: Jury,
) -> Verdict:
    """Build the row that settles a dispute."""
    return Verdict(
        take=judged.take,
        metric_id=judged.metric.id,
        track=judged.metric.track,
        judge=by,
        source=HUMAN,
        number=ADJUDICATION,
        present=present,
        passed=judged.metric.track.passes(present=present),
        justification=reason[:LONGEST_NOTE],
        depends=_depends(judged.metric, reader.messages(judged.take)),
        jury=jury,
        adjudicates=True,
    )
