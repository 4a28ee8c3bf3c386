"""Runs stage 4: judges complete takes, and judges them again where asked."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from engine.benchmark import ConversationKey, Metric, Role, Speaker, Stage, Utterance
from engine.checks import CheckKind
from engine.config.schema import Config, ModelSpec
from engine.errors import AnswerError, ModelError
from engine.jury import (
    CUT_BY_OURS,
    CUT_BY_THEIRS,
    HUMAN,
    Jury,
    Vote,
    newest_votes,
    verdict_to_show,
    what_counts,
)
from engine.pipeline.check import MOST_RUNS, CheckAsking, CheckPlanner, make_check
from engine.pipeline.context import BenchmarkContext, RunContext
from engine.pipeline.counting import StoredConversations, WantedConversation
from engine.pipeline.models import model_digest
from engine.pipeline.order import Order, WorkItem, WorkReason, changed_inputs, changed_words
from engine.providers.model import Finish
from engine.stages.evaluate import ANSWERED, NO_ANSWER, EvaluatorAnswer, depends, judge
from engine.store.tables import Depends, MessageRow, Quote, Verdict

Voter = tuple[str, int]
"""A judge's label and its pass number, which together identify a verdict on one take."""


Unchecked = dict[CheckKind, list[str]]
"""Why checks of a kind have no answer."""


@dataclass(frozen=True, slots=True)
class Asking:
    """One judge in one of its passes."""

    judge: ModelSpec
    number: int

    @property
    def voter(self) -> Voter:
        return self.judge.label, self.number

    def __str__(self) -> str:
        return f"{self.judge.label}, pass {self.number + 1}" if self.number else self.judge.label


@dataclass(frozen=True, slots=True)
class PlannedJudging:
    """One take to be judged, and by whom."""

    key: ConversationKey
    metric: Metric
    take: int
    """Its `seq`."""
    askings: tuple[Asking, ...]
    work: WorkItem
    checks: tuple[CheckAsking, ...] = ()

    @property
    def calls(self) -> int:
        """The number of answers to ask for."""
        return len(self.askings) + len(self.checks)


def askings_of(
    config: Config, evaluator: ModelSpec | None, *, replay: bool = False
) -> tuple[Asking, ...]:
    """All verdicts that a take should have: from the configured judges, or from `evaluator`
    instead. With `replay`, from the judges' second set of passes."""
    judges = config.judges if evaluator is None else (evaluator,)
    first = config.evaluation.passes if replay else 0
    return tuple(
        Asking(judge, first + number)
        for number in range(config.evaluation.passes)
        for judge in judges
    )


class VerdictInputs:
    """Digests of the current inputs of verdicts, cached for each metric and judge."""

    def __init__(self) -> None:
        self._depends: dict[tuple[Metric, str], dict[str, str]] = {}

    def what_changed(self, metric: Metric, judge: ModelSpec, then: Verdict) -> str | None:
        """What has changed since this judge's verdict, in words; None if nothing, or not known."""
        return changed_words(self.changed(metric, judge, then))

    def changed(self, metric: Metric, judge: ModelSpec, then: Verdict) -> list[str]:
        """The names of the inputs that have changed."""
        if then.depends is None:
            return []
        # a finished transcript never changes, so its digest need not be computed again
        return changed_inputs(
            {**then.depends, "transcript": ""}, self._present_inputs(metric, judge)
        )

    def _present_inputs(self, metric: Metric, judge: ModelSpec) -> dict[str, str]:
        key = (metric, judge.label)
        if key not in self._depends:
            now = depends(metric, model_digest(judge), ())
            self._depends[key] = {**now, "transcript": ""}
        return self._depends[key]


class JudgingPlanner:
    """Decides which current takes are judged, by whom, and in which passes.

    A verdict is missing where a judge or pass is new beside others of the configuration. A take
    that only earlier judges have judged is stale as a whole: it is judged again only on request,
    and until then the earlier verdicts count.
    """

    def __init__(
        self,
        bench: BenchmarkContext,
        order: Order,
        evaluator: ModelSpec | None,
        stored: StoredConversations,
    ) -> None:
        self._counting = stored.counting
        self._order = order
        self._benchmark = bench.name
        self._again = order.again.get(bench.name, frozenset())
        self.askings = askings_of(bench.config, evaluator, replay=order.replay)
        """All verdicts that a take should have."""
        self._asked = {asking.voter: asking for asking in self.askings}
        self._named = evaluator is not None or order.replay
        self._inputs = VerdictInputs()
        self.checks = CheckPlanner(bench, order, stored, idle=self._named)

    def plan(
        self, wanted: Iterable[WantedConversation], replayed: set[ConversationKey]
    ) -> list[PlannedJudging]:
        """Plan the judging of takes that this run does not replace; new takes come later."""
        planned = []
        for conversation, verdicts in self._takes(wanted):
            if conversation.key not in replayed and self._is_asked_for(conversation.key):
                take, _ = self._counting[conversation.key]
                judging = self._judging(conversation, take.seq, verdicts)
                if judging is not None:
                    planned.append(judging)
        return planned

    def stale(self, wanted: Iterable[WantedConversation]) -> list[WorkItem]:
        items = []
        for conversation, verdicts in self._takes(wanted):
            changed = self._changed_since(conversation, verdicts)
            if changed and any(map(_is_answer, verdicts)):
                items.append(
                    self._reason(conversation.key, WorkReason.STALE, next(iter(changed.values())))
                )
            elif words := self.checks.changed(
                conversation, self._counting[conversation.key][0].seq
            ):
                items.append(self._reason(conversation.key, WorkReason.STALE, words))
        return items

    def of_take(self, wanted: WantedConversation, take: int) -> PlannedJudging:
        """Plan the judging of a take that has just been played."""
        return self._all_judges(wanted, take, WorkReason.MISSING, self.checks.of_take(wanted))

    def _takes(
        self, wanted: Iterable[WantedConversation]
    ) -> Iterable[tuple[WantedConversation, Sequence[Verdict]]]:
        for conversation in wanted:
            if conversation.key in self._counting:
                yield conversation, self._counting[conversation.key][1]

    def _is_asked_for(self, key: ConversationKey) -> bool:
        return self._order.includes(self._benchmark, key)

    def _judging(
        self, wanted: WantedConversation, take: int, verdicts: Sequence[Verdict]
    ) -> PlannedJudging | None:
        if self._again:
            return self._all_judges(wanted, take, WorkReason.ASKED)
        checks = self.checks.due(wanted, take)
        if self._order.force:
            return self._all_judges(wanted, take, WorkReason.FORCED, checks)
        missing = self._missing(wanted, verdicts)
        changed = self._changed_since(wanted, verdicts) if self._order.stale else {}
        if not (missing or changed or checks):
            return None
        askings = tuple(asking for asking in self.askings if asking.voter in {*missing, *changed})
        if missing:
            why, detail = _why_missing(missing, verdicts)
        elif changed:
            why, detail = WorkReason.STALE, next(iter(changed.values()))
        else:
            why, detail = WorkReason.MISSING, ", ".join(check.kind.in_words for check in checks)
        work = replace(self._reason(wanted.key, why, detail), optional=not askings)
        return PlannedJudging(wanted.key, wanted.metric, take, askings, work, checks)

    def _all_judges(
        self,
        wanted: WantedConversation,
        take: int,
        why: WorkReason,
        checks: tuple[CheckAsking, ...] = (),
    ) -> PlannedJudging:
        work = self._reason(wanted.key, why)
        return PlannedJudging(wanted.key, wanted.metric, take, self.askings, work, checks)

    def _missing(self, wanted: WantedConversation, verdicts: Sequence[Verdict]) -> set[Voter]:
        judged = [verdict for verdict in verdicts if _is_model(verdict)]
        return {
            voter
            for voter in missing_votes(self._asked.keys(), judged, named=self._named)
            if not self._is_given_up(wanted.metric, self._asked[voter], judged)
        }

    def _is_given_up(self, metric: Metric, asking: Asking, verdicts: Sequence[Verdict]) -> bool:
        """Whether this judge has had the same question as often as `MOST_RUNS` allows."""
        tries = (verdict for verdict in verdicts if _is_failed_try(verdict, asking.voter))
        same = [
            verdict
            for verdict in tries
            if not self._inputs.what_changed(metric, asking.judge, verdict)
        ]
        return len(same) >= MOST_RUNS

    def _changed_since(
        self, wanted: WantedConversation, verdicts: Sequence[Verdict]
    ) -> dict[Voter, str]:
        """What has changed since each asking's newest valid verdict. Where no configured judge has
        judged, all askings are compared with the newest verdict of anybody; not for a named judge
        or a replay, to which other verdicts do not matter."""
        newest = [verdict for verdict in newest_votes(verdicts) if _is_model(verdict)]
        mine = {_voter(verdict): verdict for verdict in newest}
        of_today = [asking for asking in self.askings if asking.voter in mine]
        pairs = [(asking, mine[asking.voter]) for asking in of_today]
        if newest and not of_today and not self._named:
            pairs = [(asking, newest[-1]) for asking in self.askings]
        return {
            asking.voter: changed
            for asking, verdict in pairs
            if (changed := self._inputs.what_changed(wanted.metric, asking.judge, verdict))
        }

    def _reason(self, key: ConversationKey, why: WorkReason, detail: str | None = None) -> WorkItem:
        return WorkItem(Stage.EVALUATE, str(key), why, key.target_id, detail)


def missing_votes(
    asked: Collection[Voter], verdicts: Iterable[Vote], *, named: bool = False
) -> set[Voter]:
    """Which of the asked judges and passes a take lacks, by the verdicts on it, oldest first: none
    where only others have answered, unless the judge is `named` or it is a replay."""
    judged = [verdict for verdict in verdicts if _is_model(verdict)]
    answered = {_voter(verdict) for verdict in newest_votes(judged) if _is_answer(verdict)}
    if answered and not named and {_voter(verdict) for verdict in judged}.isdisjoint(asked):
        return set()
    return {*asked} - answered


def _voter(verdict: Vote) -> Voter:
    return verdict.judge, verdict.number


def _is_answer(verdict: Vote) -> bool:
    """Whether a judge has answered, even if the answer does not count."""
    return verdict.passed is not None or verdict.unscored in ANSWERED


def _is_failed_try(verdict: Verdict, voter: Voter) -> bool:
    """Whether this judge answered in an unusable way, in contrast to a failed call."""
    return _voter(verdict) == voter and (verdict.unscored or "").startswith(NO_ANSWER)


def _why_missing(missing: set[Voter], verdicts: Sequence[Verdict]) -> tuple[WorkReason, str | None]:
    failed = [verdict for verdict in verdicts if _voter(verdict) in missing]
    if not failed and all(verdict.passed is None for verdict in verdicts):
        failed = list(verdicts)
    return (WorkReason.FAILED, failed[-1].unscored) if failed else (WorkReason.MISSING, None)


def _is_model(verdict: Vote) -> bool:
    return verdict.source != HUMAN


async def give_verdicts(bench: RunContext, judging: PlannedJudging, unchecked: Unchecked) -> None:
    """Make all planned checks and verdicts of one take, and store the result of each. `unchecked`
    receives why checks gave no answer, which is no failure.

    Raises `ModelError` after all have been asked, where a judge gave no answer; that too is stored,
    as an unscored verdict. Raises `StopRequested` between two of them.
    """
    messages = bench.reader.messages(judging.take)
    utterances = [Utterance(message.speaker, message.text) for message in messages]
    # complete turns only: a message without an answer says nothing about the target
    transcript = utterances[: len(utterances) // 2 * 2]
    unit, target = str(judging.key), judging.key.target_id
    for index, check in enumerate(judging.checks):
        if index:
            await bench.control.next_call(Stage.EVALUATE, target, judging.calls - index)
        why = await make_check(bench, check, judging.take, unit, target)
        if why is not None:
            unchecked.setdefault(check.kind, []).append(why)
    faults: list[tuple[Asking, ModelError]] = []
    pressed = pressed_from(messages, bench.reader.turns_without_pressure(judging.take))
    cut = _cut_reason(messages, bench.models.target_spec(target))
    for index, asking in enumerate(judging.askings):
        if index or judging.checks:
            left = len(judging.askings) - index
            await bench.control.next_call(Stage.EVALUATE, target, left)
        fault = await _give_verdict(bench, judging, asking, transcript, pressed, cut)
        if fault is not None:
            faults.append((asking, fault))
    if faults:
        alone = len(judging.askings) == 1
        words = [
            _fault_words(fault) if alone else _named_fault(asking, fault)
            for asking, fault in faults
        ]
        raise AnswerError("; ".join(words))


def _cut_reason(messages: Sequence[MessageRow], target: ModelSpec) -> str | None:
    """Say why a conversation must not be judged: a limit on tokens left no word of a reply, which
    says nothing about what the target does. None if that is not so."""
    cut = any(
        message.speaker is Speaker.TARGET
        and message.finish == Finish.LENGTH
        and not message.text.strip()
        for message in messages
    )
    if not cut:
        return None
    return CUT_BY_OURS if target.params.max_tokens else CUT_BY_THEIRS


def _fault_words(fault: ModelError) -> str:
    return f"{NO_ANSWER}{fault}" if isinstance(fault, AnswerError) else str(fault)


def _named_fault(asking: Asking, fault: ModelError) -> str:
    """A fault with its judge and pass; a call that failed names its judge itself."""
    if isinstance(fault, AnswerError):
        return f"{asking}: {_fault_words(fault)}"
    return f"pass {asking.number + 1}: {fault}" if asking.number else str(fault)


async def _give_verdict(
    bench: RunContext,
    judging: PlannedJudging,
    asking: Asking,
    transcript: Sequence[Utterance],
    pressed: int,
    cut: str | None,
) -> ModelError | None:
    """Return why there is no answer; None where there is one, or no further attempt makes sense.
    With `cut`, the reason why no answer would count, nobody is asked."""
    model = bench.model_for(
        asking.judge,
        Role.EVALUATOR,
        Stage.EVALUATE,
        str(judging.key),
        judging.key.target_id,
        batched=True,
    )
    metric = judging.metric
    made_from = depends(metric, model_digest(asking.judge), transcript)
    fault: ModelError | None = None
    try:
        # the pass number is the seed, so each pass is a separate sample
        judged = EvaluatorAnswer(None, "", (), unscored=cut)
        if cut is None:
            judged = await judge(
                model,
                metric.definition,
                transcript,
                when=metric.when,
                pressed_from=pressed,
                seed=asking.number,
            )
    except ModelError as error:
        fault = error
        judged = EvaluatorAnswer(None, "", (), unscored=_fault_words(error))
    # unusable answers too: they were paid for, and count as attempts
    verdict = _verdict(judging, judged, model.label, asking.number)
    await bench.store.write(
        replace(verdict, depends=made_from, jury=bench.config.jury, served_by=model.served_by),
        *model.settled(),
    )
    if not isinstance(fault, AnswerError):
        return fault
    return None if _was_asked_often(bench, judging.take, asking.voter, made_from) else fault


def _verdict(
    judging: PlannedJudging, judged: EvaluatorAnswer, judge_label: str, number: int
) -> Verdict:
    present, metric = judged.present, judging.metric
    return Verdict(
        take=judging.take,
        metric_id=metric.id,
        track=metric.track,
        judge=judge_label,
        source="model",
        number=number,
        present=present,
        passed=None if present is None else metric.track.passes(present=present),
        unscored=judged.unscored,
        justification=judged.justification,
        quotes=tuple(Quote(quote.text, quote.turn) for quote in judged.quotes),
        marks=judged.marks,
    )


def _was_asked_often(bench: RunContext, take: int, voter: Voter, made_from: Depends) -> bool:
    tries = [
        verdict
        for verdict in bench.reader.verdicts(take)
        if _is_failed_try(verdict, voter) and verdict.depends == made_from
    ]
    return len(tries) >= MOST_RUNS


def pressed_from(messages: Sequence[MessageRow], planned: Sequence[int] = ()) -> int:
    """The turn of the second reached and answered landmark; 0 without one. `planned` are the
    landmarks' turns for a stance without landmarks, so that the same replies are examined."""
    turns = planned or [message.turn for message in messages if message.landmark is not None]
    return turns[1] if len(turns) > 1 and turns[1] <= len(messages) // 2 else 0


def recounted_verdicts(stored: StoredConversations, jury: Jury) -> Iterator[Verdict]:
    """Yield a restated verdict for each conversation whose counting result differs from the stored
    one, because the configured judges have changed since."""
    for take, verdicts in stored.counting.values():
        if not verdicts or verdicts[-1].counted is what_counts(verdicts, jury):
            continue
        shown = verdict_to_show(verdicts, jury) or verdicts[-1]
        yield Verdict(
            take=take.seq,
            metric_id=shown.metric_id,
            track=shown.track,
            judge=shown.judge,
            source=shown.source,
            number=shown.number,
            present=shown.present,
            passed=shown.passed,
            unscored=shown.unscored,
            justification=shown.justification,
            quotes=shown.quotes,
            marks=shown.marks,
            depends=shown.depends,
            jury=jury,
            served_by=shown.served_by,
        )
