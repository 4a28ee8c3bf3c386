"""Stage 4 at work: takes that are played to their end are judged, again where that is asked."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from engine.benchmark import ConversationKey, Metric, Role, Stage, Utterance
from engine.config.settings import ModelSpec
from engine.errors import AnswerError, ModelError
from engine.pipeline.conversations import Wanted
from engine.pipeline.models import model_digest
from engine.pipeline.order import Order, Why, Work, what_changed
from engine.pipeline.standing import Standing
from engine.pipeline.workbench import Bench
from engine.stages.evaluate import Judged, depends, judge
from engine.store.records import Quote, StoredVerdict
from engine.store.rows import NewVerdict


@dataclass(frozen=True, slots=True)
class Judging:
    """One take to be judged."""

    key: ConversationKey
    metric: Metric
    take: int
    """Its `seq`."""
    work: Work


class JudgingPlanner:
    """Decides which of the takes that count are judged."""

    def __init__(
        self, bench: Bench, order: Order, evaluator: ModelSpec, standing: Standing
    ) -> None:
        self._counting = standing.counting
        self._order = order
        self._again = order.again.get(bench.name, frozenset())
        self._judge = bench.models.open(evaluator).label
        self._digest = model_digest(evaluator)

    def plan(self, wanted: Iterable[Wanted], replayed: set[ConversationKey]) -> list[Judging]:
        """Those that are played anyway in this run are judged when they are finished, not now."""
        found = []
        for one, verdicts in self._takes(wanted):
            if one.key not in replayed and self._asked(one.key):
                work = self._work(one, verdicts)
                if work is not None:
                    take, _ = self._counting[one.key]
                    found.append(Judging(one.key, one.metric, take.seq, work))
        return found

    def stale(self, wanted: Iterable[Wanted]) -> list[Work]:
        found = []
        for one, verdicts in self._takes(wanted):
            changed = self._changed(one, verdicts)
            if changed and any(verdict.passed is not None for verdict in verdicts):
                found.append(self._reason(one.key, Why.STALE, changed))
        return found

    def of_take(self, one: Wanted, take: int) -> Judging:
        return Judging(one.key, one.metric, take, self._reason(one.key, Why.MISSING))

    def _takes(self, wanted: Iterable[Wanted]) -> Iterable[tuple[Wanted, Sequence[StoredVerdict]]]:
        for one in wanted:
            if one.key in self._counting:
                yield one, self._counting[one.key][1]

    def _asked(self, key: ConversationKey) -> bool:
        if self._order.again:
            return key in self._again
        return self._order.targets is None or key.target_id in self._order.targets

    def _work(self, one: Wanted, verdicts: Sequence[StoredVerdict]) -> Work | None:
        if self._again:
            return self._reason(one.key, Why.ASKED)
        if self._order.force:
            return self._reason(one.key, Why.FORCED)
        if not verdicts:
            return self._reason(one.key, Why.MISSING)
        if all(verdict.passed is None for verdict in verdicts):
            return self._reason(one.key, Why.FAILED, verdicts[-1].unscored)
        changed = self._changed(one, verdicts) if self._order.stale else None
        return self._reason(one.key, Why.STALE, changed) if changed else None

    def _changed(self, one: Wanted, verdicts: Sequence[StoredVerdict]) -> str | None:
        """Compared with this evaluator's newest verdict, or where it has none with the newest."""
        given = [verdict for verdict in verdicts if verdict.source == "model"]
        mine = [verdict for verdict in given if verdict.judge == self._judge] or given
        if not mine or mine[-1].depends is None:
            return None
        # a transcript never changes once it is finished: its digest need not be worked out again
        now = {**depends(one.metric, self._digest, ()), "transcript": ""}
        then = {**mine[-1].depends, "transcript": ""}
        return what_changed(then, now)

    def _reason(self, key: ConversationKey, why: Why, detail: str | None = None) -> Work:
        return Work(Stage.EVALUATE, str(key), why, target=key.target_id, detail=detail)


async def give_verdict(bench: Bench, judging: Judging, evaluator: ModelSpec) -> None:
    """Judge one take and store what came of it.

    Raises `ModelError` where nothing usable came of it; that too is stored, as an unscored verdict.
    """
    messages = bench.reader.messages(judging.take)
    said = [Utterance(message.speaker, message.text) for message in messages]
    transcript = said[: len(said) // 2 * 2]
    model = bench.model_for(
        evaluator, Role.EVALUATOR, Stage.EVALUATE, str(judging.key), judging.key.target_id
    )
    metric = judging.metric
    try:
        judged = await judge(model, metric.definition, transcript)
    except ModelError as error:
        judged = Judged(None, "", (), unscored=str(error))
    present = judged.present
    await bench.store.write(
        NewVerdict(
            take=judging.take,
            metric_id=metric.id,
            track=metric.track,
            judge=model.label,
            source="model",
            number=0,
            present=present,
            passed=None if present is None else metric.track.passes(present=present),
            unscored=judged.unscored,
            justification=judged.justification,
            quotes=tuple(Quote(quote.text, quote.turn) for quote in judged.quotes),
            depends=depends(metric, model_digest(evaluator), transcript),
        )
    )
    if judged.unscored is not None:
        raise AnswerError(judged.unscored)
