"""Plans and runs checks: which finished takes lack one, which model is asked, what is stored."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from engine.benchmark import Role, Speaker, Stage
from engine.checks import CheckAnswer, CheckKind
from engine.config.schema import Config, ModelSpec
from engine.errors import AnswerError, ModelError
from engine.pipeline.context import BenchmarkContext, RecordedModel, RunContext
from engine.pipeline.counting import StoredConversations, WantedConversation
from engine.pipeline.models import model_digest
from engine.pipeline.order import Order, what_changed
from engine.stages.check import Axes, UserMessage, check_landmarks, depends, guess_groups
from engine.store.tables import CheckRow, MessageRow, ScenarioRow

MOST_RUNS: Final = 3
"""In so many runs, a judge that gives no usable answer, or a check whose call fails, is asked about
the same take. A check without a usable answer was asked for it three times, and is not again."""
CALL_FAILED: Final = "the call failed: "
"""Begins the reason of a check that got no answer at all."""


@dataclass(frozen=True, slots=True)
class CheckAsking:
    """One check of one take."""

    kind: CheckKind
    checker: ModelSpec
    axes: Axes
    """The axes whose values are to be guessed."""
    truth: Mapping[str, str]
    """The demographic values that the user model played."""
    made_from: Mapping[str, str]


def axes_of(config: Config, scenarios: Iterable[ScenarioRow]) -> dict[str, tuple[str, ...]]:
    """The axes with at least two values to choose from: those of the configuration, extended by the
    values of imported scenarios."""
    by_axis: dict[str, dict[str, None]] = {
        axis: dict.fromkeys(values) for axis, values in config.demographics.items()
    }
    beside: dict[str, set[str]] = {}
    for row in scenarios:
        for axis, value in row.scenario.demographic.items():
            if value not in by_axis.setdefault(axis, {}):
                beside.setdefault(axis, set()).add(value)
    # always in the same order, as the values are part of the question and of its digest
    axes = {axis: (*values, *sorted(beside.get(axis, ()))) for axis, values in by_axis.items()}
    return {axis: values for axis, values in axes.items() if len(values) > 1}


def usual_checks(config: Config) -> int:
    """How many checks each take of an unwritten scenario will need."""
    asked = {
        CheckKind.GROUPS: bool(axes_of(config, ())),
        CheckKind.LANDMARKS: config.landmarks,
    }
    return sum(asked[kind] for kind in config.checks.kinds)


class CheckPlanner:
    """Decides which takes are checked, and how. With `idle`, none is: when another judge is named,
    its verdicts stand beside the rest of the benchmark and need no checks."""

    def __init__(
        self, bench: BenchmarkContext, order: Order, stored: StoredConversations, *, idle: bool
    ) -> None:
        self._config = bench.config
        self._kinds = () if idle else bench.config.checks.kinds
        self._order = order
        self._done = stored.checks
        self._axes: Axes = {}
        if CheckKind.GROUPS in self._kinds:
            self._axes = axes_of(bench.config, bench.reader.scenarios(bench.name))

    @property
    def usual(self) -> int:
        """As `usual_checks`, but 0 where nothing is checked."""
        return usual_checks(self._config) if self._kinds else 0

    def of_take(self, wanted: WantedConversation) -> tuple[CheckAsking, ...]:
        """All checks that a take needs when it has just been played."""
        return tuple(self._askings(wanted))

    def due(self, wanted: WantedConversation, take: int) -> tuple[CheckAsking, ...]:
        """The checks that a take lacks, or that are to be repeated."""
        rows = self._done.get(take, ())
        return tuple(asking for asking in self._askings(wanted) if self._is_due(asking, rows))

    def changed(self, wanted: WantedConversation, take: int) -> str | None:
        """What has changed since a check was made, in words; None where nothing did."""
        for asking in self._askings(wanted):
            newest = _newest_usable(asking.kind, self._done.get(take, ()))
            if newest and (changed := what_changed(newest.depends, asking.made_from)):
                return changed
        return None

    def _askings(self, wanted: WantedConversation) -> Iterator[CheckAsking]:
        scenario = wanted.scenario.scenario
        for kind in self._kinds:
            axes: Axes = {}
            if kind is CheckKind.GROUPS:
                axes = {name: of for name, of in self._axes.items() if name in scenario.demographic}
                if not axes:
                    continue
            elif not (self._config.landmarks and scenario.landmarks):
                continue
            checker = self._config.checker
            made_from = depends(kind, model_digest(checker), axes)
            yield CheckAsking(kind, checker, axes, scenario.demographic, made_from)

    def _is_due(self, asking: CheckAsking, rows: Sequence[CheckRow]) -> bool:
        if self._order.force:
            return True
        newest = _newest_usable(asking.kind, rows)
        if newest is not None:
            changed = what_changed(newest.depends, asking.made_from)
            return self._order.stale and changed is not None
        return not _is_given_up(asking, rows)


def _newest_usable(kind: CheckKind, rows: Iterable[CheckRow]) -> CheckRow | None:
    """The newest usable row of this kind."""
    usable = [row for row in rows if row.kind is kind and row.unusable is None]
    return usable[-1] if usable else None


def _is_given_up(asking: CheckAsking, rows: Iterable[CheckRow]) -> bool:
    """Whether this model is not asked the same question again."""
    tries = [
        row.unusable
        for row in rows
        if row.kind is asking.kind and row.unusable and row.depends == asking.made_from
    ]
    answered = [why for why in tries if not why.startswith(CALL_FAILED)]
    return bool(answered) or len(tries) >= MOST_RUNS


async def make_check(
    bench: RunContext, asking: CheckAsking, take: int, unit: str, target: str
) -> str | None:
    """Make one check of a finished take and store its answer, or why there is none.

    Return that reason; None where there is an answer.
    """
    messages = user_messages(bench.reader.messages(take))
    checker, role, stage = asking.checker, Role.CHECKER, Stage.EVALUATE
    model = bench.model_for(checker, role, stage, unit, target, batched=True)
    answers: tuple[CheckAnswer, ...] = ()
    unusable = None
    try:
        answers = await _answers(model, asking, messages)
    except ModelError as error:
        unusable = str(error) if isinstance(error, AnswerError) else f"{CALL_FAILED}{error}"
    await bench.store.write(
        CheckRow(
            take=take,
            kind=asking.kind,
            model=model.label if answers or unusable else "",
            answers=answers,
            unusable=unusable,
            depends=dict(asking.made_from),
            served_by=model.served_by,
        ),
        *model.settled(),
    )
    return unusable


async def _answers(
    model: RecordedModel, asking: CheckAsking, messages: Sequence[UserMessage]
) -> tuple[CheckAnswer, ...]:
    """Empty where there is nothing to ask about: no landmark was reached."""
    if asking.kind is CheckKind.GROUPS:
        return await guess_groups(model, messages, asking.axes, asking.truth)
    if all(message.landmark is None for message in messages):
        return ()
    return await check_landmarks(model, messages)


def user_messages(messages: Iterable[MessageRow]) -> list[UserMessage]:
    """The user's messages of complete turns, those that the target answered."""
    messages = list(messages)
    turns = len(messages) // 2
    return [
        UserMessage(message.turn, message.text, message.landmark)
        for message in messages
        if message.speaker is Speaker.USER and message.turn <= turns
    ]
