"""Runs stage 3: plays conversations, with each message on disk before the next is asked for."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Final

from engine.benchmark import (
    AnswerForm,
    ConversationKey,
    Metric,
    Role,
    Scenario,
    Speaker,
    Stage,
    StopReason,
    Utterance,
    base_id,
)
from engine.checks import UserAudit, UserAuditMode, UserFault
from engine.config.benchmark_file import Definition
from engine.config.schema import Config, Target
from engine.errors import AnswerError, ModelError, UnfitAnswerError
from engine.facts import Speech
from engine.identity import digest, seed_from
from engine.pipeline.context import BenchmarkContext, RunContext
from engine.pipeline.counting import StoredConversations, WantedConversation, wanted_conversations
from engine.pipeline.models import model_digest
from engine.pipeline.order import Order, WorkItem, WorkReason, what_changed
from engine.pipeline.review.reviews import Reviews, is_required
from engine.providers.model import Finish, OnText
from engine.stages.simulate import Setup, depends, roughen, roughened, target_turn, user_turn
from engine.store.tables import MessageRow, StoredTake, TakeEndRow, TakeRow


def pilot_of(wanted: Iterable[tuple[str, ConversationKey]], scenarios: int) -> set[ConversationKey]:
    """Choose the conversations of a pilot, given with their metrics: the first sample of one
    variant of each of the metric's first base scenarios, `scenarios` at most. The variants take
    turns, so that each demographic group occurs."""
    bases: dict[str, dict[str, set[str]]] = {}
    conversations = list(wanted)
    for metric, key in conversations:
        of_metric = bases.setdefault(metric, {})
        of_metric.setdefault(base_id(key.scenario_id), set()).add(key.scenario_id)
    chosen = {
        sorted(of_metric[base])[(offset + turn) % len(of_metric[base])]
        for offset, of_metric in enumerate(bases[metric] for metric in sorted(bases))
        for turn, base in enumerate(sorted(of_metric)[:scenarios])
    }
    return {key for _, key in conversations if key.scenario_id in chosen and key.sample == 0}


def asked_conversations(bench: BenchmarkContext, order: Order) -> list[WantedConversation]:
    """The wanted conversations; for a pilot, only its own."""
    wanted = list(wanted_conversations(bench.definition, bench.config, bench.reader))
    if not order.pilot:
        return wanted
    chosen = pilot_of(
        ((conversation.metric.id, conversation.key) for conversation in wanted), order.pilot
    )
    return [conversation for conversation in wanted if conversation.key in chosen]


def setup_of(
    definition: Definition,
    config: Config,
    scenario: Scenario,
    metric: Metric,
    target: Target,
    form: AnswerForm = AnswerForm.JSON,
) -> Setup:
    """What both sides of a conversation are told."""
    own = target.system_prompt
    usual = definition.user_context or config.default_system_prompt
    return Setup(
        scenario=scenario,
        metric=metric,
        # an empty prompt is kept if the target sets one: it is then told nothing
        system_prompt=scenario.target_system_prompt or (usual if own is None else own),
        turns=config.generation.turns,
        landmarks=config.landmarks,
        perfunctory=config.perfunctory,
        stance=config.user_model.stance,
        form=form,
    )


@dataclass(frozen=True, slots=True)
class PlannedConversation:
    """A conversation to be played, and what exists of it."""

    wanted: WantedConversation
    work: WorkItem
    open_take: StoredTake | None
    """The take to continue; None for a new one."""
    number: int
    """The number of the take."""

    form: AnswerForm | None = None
    """How its user model is asked, if that is known before it begins."""

    def in_next_take(self, form: AnswerForm | None = None) -> PlannedConversation:
        """The same conversation from its beginning, in the next take."""
        return replace(self, open_take=None, number=self.number + 1, form=form)


class TakeInputs:
    """Digests of the current inputs of conversations, cached for one scenario at a time."""

    def __init__(self, definition: Definition, config: Config) -> None:
        self._definition = definition
        self._config = config
        self._user_digest = model_digest(config.user_model)
        self._targets = {target.id: target for target in config.targets}
        self._target_digests = {target.id: model_digest(target) for target in config.targets}
        self._scenario: int | None = None
        self._of_scenario: dict[tuple[int, str | None, AnswerForm], Mapping[str, str]] = {}
        self._depends: dict[tuple[int, str, AnswerForm], Mapping[str, str]] = {}

    def of_take(self, wanted: WantedConversation, take: TakeRow) -> Mapping[str, str]:
        """What a stored take would be made from today. Where the configuration leaves open how the
        user model is asked, each take is compared in the form that it was played in."""
        return self.depends(wanted, self._config.user_model.form or take.form)

    def depends(self, wanted: WantedConversation, form: AnswerForm) -> Mapping[str, str]:
        """The digests for a conversation, equal for all its samples. Only "target" and the system
        prompt depend on the target."""
        key = (wanted.scenario.seq, wanted.key.target_id, form)
        # cached: else metric and scenario would be hashed for each of 30,000 conversations; those
        # of one scenario follow each other
        if key not in self._depends:
            if self._scenario != wanted.scenario.seq:
                self._scenario = wanted.scenario.seq
                self._of_scenario.clear()
                self._depends.clear()
            target = self._target_digests[wanted.key.target_id]
            self._depends[key] = {**self._with_any_target(wanted, form), "target": target}
        return self._depends[key]

    def _with_any_target(self, wanted: WantedConversation, form: AnswerForm) -> Mapping[str, str]:
        target = self._targets[wanted.key.target_id]
        key = wanted.scenario.seq, target.system_prompt, form
        if key not in self._of_scenario:
            scenario = wanted.scenario.scenario
            setup = setup_of(self._definition, self._config, scenario, wanted.metric, target, form)
            self._of_scenario[key] = depends(setup, self._user_digest, "")
        return self._of_scenario[key]


def held_scenarios(bench: BenchmarkContext) -> Mapping[str, tuple[str, ...]]:
    """The scenarios that must wait, each with the ids that a person must approve first."""
    if not is_required(bench.config, bench.name):
        return {}
    return Reviews.of(bench.definition, bench.reader).awaiting_approval()


class ConversationPlanner:
    """Decides which wanted conversations are played, and from which message on."""

    def __init__(self, bench: BenchmarkContext, order: Order, stored: StoredConversations) -> None:
        self._bench = bench
        self._order = order
        self._newest = stored.newest
        self._again = order.again.get(bench.name, frozenset())
        self.inputs = TakeInputs(bench.definition, bench.config)
        self._held = held_scenarios(bench)
        self._failed = stored.failed

    def plan(self, wanted: Iterable[WantedConversation]) -> list[PlannedConversation]:
        """Plan the conversations that the order includes, that are due, and that may be played."""
        planned = (
            self._plan_one(conversation, self._newest.get(conversation.key))
            for conversation in wanted
            if self._is_asked_for(conversation.key)
            and conversation.key.scenario_id not in self._held
        )
        return [playing for playing in planned if playing is not None]

    def awaiting_approval(self, wanted: Iterable[WantedConversation]) -> set[str]:
        """The ids that a person must approve before all conversations due can be played."""
        return {
            name
            for conversation in wanted
            if self._is_asked_for(conversation.key)
            for name in self._held.get(conversation.key.scenario_id, ())
            if self._plan_one(conversation, self._newest.get(conversation.key)) is not None
        }

    def stale(self, wanted: Iterable[WantedConversation]) -> list[WorkItem]:
        """Complete takes whose inputs have changed since, with what changed."""
        items: list[WorkItem] = []
        for conversation in wanted:
            take = self._newest.get(conversation.key)
            if take is None or not take.finished:
                continue
            if changed := self._changed(conversation, take):
                items.append(self._work_item(conversation.key, WorkReason.STALE, changed))
        return items

    def _is_asked_for(self, key: ConversationKey) -> bool:
        return self._order.includes(self._bench.name, key)

    def _work_item(
        self, key: ConversationKey, why: WorkReason, detail: str | None = None
    ) -> WorkItem:
        return WorkItem(Stage.SIMULATE, str(key), why, key.target_id, detail)

    def _changed(self, wanted: WantedConversation, take: StoredTake) -> str | None:
        return what_changed(take.depends, self.inputs.of_take(wanted, take))

    def _plan_one(
        self, wanted: WantedConversation, take: StoredTake | None
    ) -> PlannedConversation | None:
        if take is None:
            return PlannedConversation(
                wanted, self._work_item(wanted.key, WorkReason.MISSING), None, 0
            )
        # a new take even if one is open: a repetition begins at the beginning
        if self._again or self._order.force:
            why = WorkReason.ASKED if self._again else WorkReason.FORCED
            return PlannedConversation(
                wanted, self._work_item(wanted.key, why), None, take.number + 1
            )
        if not take.finished:
            why = WorkReason.INTERRUPTED if take.stop_reason is None else WorkReason.FAILED
            # a conversation that began under other inputs cannot be finished under these
            resumable = None if self._changed(wanted, take) else take
            number = take.number if resumable else take.number + 1
            return PlannedConversation(
                wanted, self._work_item(wanted.key, why, take.detail), resumable, number
            )
        reason = self._failed.get((Stage.SIMULATE, str(wanted.key)))
        if reason is not None:
            # it was to be played again, and failed before a new take began
            work = self._work_item(wanted.key, WorkReason.FAILED, reason)
            return PlannedConversation(wanted, work, None, take.number + 1)
        changed = self._changed(wanted, take) if self._order.stale else None
        if changed:
            return PlannedConversation(
                wanted,
                self._work_item(wanted.key, WorkReason.STALE, changed),
                None,
                take.number + 1,
            )
        return None


async def play(bench: RunContext, playing: PlannedConversation, inputs: TakeInputs) -> int | None:
    """Play a conversation to its end; return the take's `seq`, or None if there is nothing to
    judge. A user model that answers in no JSON at its beginning is asked in plain text in the next
    take, unless the configuration says how it is asked.

    Raises `TurnFailedError` where a model failed, after the take's end is on disk, and
    `StopRequested`.
    """
    keeps_session = bench.models.target_spec(playing.wanted.key.target_id).keeps_session
    left = TAKES_AT_ONCE if keeps_session else 1
    while True:
        try:
            return await _play_take(bench, playing, inputs)
        except TurnFailedError as failure:
            if failure.speaks_no_json and bench.config.user_model.form is None:
                playing = playing.in_next_take(AnswerForm.PLAIN)
                continue
            left -= 1
            # the next run asks a failed user model again: a new take loses the target's replies
            if not left or not failure.retryable or failure.reason is not StopReason.TARGET_FAILED:
                raise
            playing = playing.in_next_take()


async def _play_take(
    bench: RunContext, playing: PlannedConversation, inputs: TakeInputs
) -> int | None:
    """As `play`, for one take."""
    opened = await _open(bench, playing, inputs)
    take, player = opened.take, _ConversationPlayer(bench, opened)
    try:
        reason = await player.play()
    except TurnFailedError as failure:
        end = TakeEndRow(take=take, stop_reason=failure.reason, detail=str(failure))
        # awaited before the failure is raised, so that its handlers find the end in the store
        await bench.store.write(end)
        raise
    faults = player.user_faults(reason)
    await bench.store.write(TakeEndRow(take=take, stop_reason=reason, user_faults=faults))
    # a conversation without any reply of the target has nothing to judge
    return take if player.complete_turns else None


TAKES_AT_ONCE: Final = 3
"""Takes that one run tries if the target keeps a session and so cannot be sent a message twice."""


@dataclass(frozen=True, slots=True)
class _OpenTake:
    """A take to which messages can be added."""

    playing: PlannedConversation
    take: int
    messages: list[MessageRow]
    at: int | None
    """When it was begun, in Unix milliseconds, if recorded."""
    form: AnswerForm

    @property
    def session(self) -> str:
        """The id of the session for an application; unique across workspaces and stores."""
        return digest([str(self.playing.wanted.key), self.playing.number, self.take, self.at])


async def _open(bench: RunContext, playing: PlannedConversation, inputs: TakeInputs) -> _OpenTake:
    spec = bench.models.target_spec(playing.wanted.key.target_id)
    if playing.open_take is not None:
        take = playing.open_take
        messages = bench.reader.messages(take.seq)
        # the target may have received the last, unanswered message, and it must not be sent twice;
        # a session id that the application chose is not stored
        is_lost = spec.session_from is not None and bool(messages)
        if not (spec.keeps_session and len(messages) % 2) and not is_lost:
            return _OpenTake(playing, take.seq, messages, take.at, take.form)
        playing = playing.in_next_take()
    user, target = (
        bench.models.open(bench.config.user_model),
        bench.models.target(playing.wanted.key.target_id),
    )
    form = playing.form or bench.models.user_form(bench.config.user_model)
    row = TakeRow(
        benchmark=bench.name,
        key=playing.wanted.key,
        number=playing.number,
        scenario_seq=playing.wanted.scenario.seq,
        user_model=user.label,
        model=target.label,
        scripted=user.scripted or target.scripted,
        depends=inputs.depends(playing.wanted, form),
        # part of the session id of an application; for other targets the store's timestamp will do
        at=round(time.time() * 1000) if spec.is_application else None,
    )
    [seq] = await bench.store.write(row)
    return _OpenTake(playing, seq, [], row.at, form)


class TurnFailedError(ModelError):
    """One side of a conversation failed; `reason` says which."""

    speaks_no_json: bool
    """Whether the user model answered in no JSON at the beginning of a conversation."""

    def __init__(
        self, reason: StopReason, error: ModelError, *, speaks_no_json: bool = False
    ) -> None:
        super().__init__(str(error), retryable=error.retryable)
        self.reason = reason
        self.speaks_no_json = speaks_no_json


class _ConversationPlayer:
    """Plays one take: the two models, and the messages so far."""

    def __init__(self, bench: RunContext, opened: _OpenTake) -> None:
        playing, messages = opened.playing, opened.messages
        self._bench = bench
        self._playing = playing
        self._take = opened.take
        key = playing.wanted.key
        self._key = key
        wanted = playing.wanted
        self._setup = setup_of(
            bench.definition,
            bench.config,
            wanted.scenario.scenario,
            wanted.metric,
            bench.models.target_spec(key.target_id),
            opened.form,
        )
        # only what is on disk decides where a take continues
        self._said = [Utterance(message.speaker, message.text) for message in messages]
        self._thoughts = {
            number: message.reasoning
            for number, message in enumerate(messages)
            if message.speaker is Speaker.TARGET and message.reasoning
        }
        self._begun = False
        self._user_is_done = bool(messages) and any(message.done for message in messages)
        # from names, not row ids: a recreated store gives the same conversation the same seed
        self._seed = seed_from(bench.name, str(key), playing.number)
        unit, target = str(key), key.target_id
        self._user = bench.model_for(
            bench.config.user_model, Role.USER, Stage.SIMULATE, unit, target
        )
        self._target = bench.model_for(
            bench.models.target_spec(target),
            Role.TARGET,
            Stage.SIMULATE,
            unit,
            target,
            session=opened.session,
        )

    @property
    def complete_turns(self) -> int:
        return len(self._said) // 2

    def user_faults(self, reason: StopReason) -> tuple[UserFault, ...] | None:
        """Audit the user model's messages; None where audits are off."""
        if self._bench.config.user_audit is UserAuditMode.OFF:
            return None
        texts = [utterance.text for utterance in self._said if utterance.speaker is Speaker.USER]
        audit = UserAudit(self._setup.scenario)
        return audit.faults(
            list(enumerate(texts, start=1)), turns=self._setup.turns, stop_reason=reason
        )

    async def play(self) -> StopReason:
        """Play to the end. Raises `TurnFailedError`, and `StopRequested` between two messages."""
        while self.complete_turns < self._setup.turns:
            turn = self.complete_turns + 1
            # a take that was interrupted after the user's message continues with the target's
            if len(self._said) % 2 == 0:
                if self._user_is_done:
                    return StopReason.USER_ENDED
                await self._next_call()
                await self._user_speaks(turn)
                if len(self._said) % 2 == 0:
                    return StopReason.USER_ENDED  # without another word
            await self._next_call()
            if not await self._target_speaks(turn):
                return StopReason.CONTEXT_FULL
        return StopReason.TURN_LIMIT

    async def _next_call(self) -> None:
        """Wait until the next call may be made. Raises `StopRequested`."""
        control, left = self._bench.control, 2 * self._setup.turns - len(self._said)
        # between two calls the slot may be given up, if few rows are left by now
        if self._begun:
            await control.next_call(Stage.SIMULATE, self._key.target_id, left)
        else:
            # the first call uses the slot that the row has just been given
            await control.checkpoint()
            self._begun = True

    async def _user_speaks(self, turn: int) -> None:
        instruction = self._setup.instruction_at(turn)
        self._user.turn = turn
        rough_seed = seed_from("perfunctory", self._seed, turn)
        with self._speaking(turn, Speaker.USER, instruction) as hear:
            listen = roughened(rough_seed, hear) if self._setup.perfunctory else hear
            try:
                answer = await user_turn(
                    self._user, self._setup, self._said, turn, seed=self._seed, on_text=listen
                )
            except ModelError as error:
                is_unfit = isinstance(error, UnfitAnswerError) and not self._said
                no_json = is_unfit and self._setup.form is AnswerForm.JSON
                if no_json:
                    self._bench.models.note_json(self._bench.config.user_model, came=False)
                raise TurnFailedError(
                    StopReason.USER_FAILED, error, speaks_no_json=no_json
                ) from error
            if not self._said and self._setup.form is AnswerForm.JSON:
                self._bench.models.note_json(self._bench.config.user_model, came=True)
            text = answer.message
            if not text.strip():
                self._user_is_done = True
                return
            if self._setup.perfunctory:
                # with the same seed as the streamed text, so that both are the same words
                text = roughen(text, rough_seed)
            await self._keep_message(
                turn,
                Utterance(Speaker.USER, text),
                Finish.STOP,
                served_by=self._user.served_by,
                thought=answer.thought or None,
                landmark=instruction,
                done=answer.done,
            )
        self._user_is_done = answer.done

    async def _target_speaks(self, turn: int) -> bool:
        """Make the target's turn; return whether the conversation can go on."""
        instruction = self._setup.instruction_at(turn)
        self._target.turn = turn
        with self._speaking(turn, Speaker.TARGET, instruction) as hear:
            try:
                reply = await target_turn(
                    self._target,
                    self._setup,
                    self._said,
                    seed=self._seed,
                    thoughts=self._thoughts,
                    on_text=hear,
                )
            except ModelError as error:
                raise TurnFailedError(StopReason.TARGET_FAILED, error) from error
            if reply.finish is Finish.CONTEXT_FULL:
                if not self.complete_turns:
                    # no reply to judge: a failure, and not an end of the conversation
                    full = AnswerError("the first message is longer than the target's context")
                    raise TurnFailedError(StopReason.CONTEXT_FULL, full)
                return False
            utterance = Utterance(Speaker.TARGET, reply.text)
            await self._keep_message(
                turn, utterance, reply.finish, served_by=reply.served_by, reasoning=reply.reasoning
            )
        return True

    async def _keep_message(
        self,
        turn: int,
        utterance: Utterance,
        finish: Finish,
        *,
        served_by: str | None,
        thought: str | None = None,
        landmark: str | None = None,
        done: bool = False,
        reasoning: str | None = None,
    ) -> None:
        await self._bench.store.write(
            MessageRow(
                take=self._take,
                turn=turn,
                speaker=utterance.speaker,
                text=utterance.text,
                thought=thought,
                landmark=landmark,
                done=done,
                finish=finish.value,
                reasoning=reasoning,
                served_by=served_by,
            )
        )
        # after the write: no model is shown a message that is not on disk
        if reasoning:
            self._thoughts[len(self._said)] = reasoning
        self._said.append(utterance)

    @contextmanager
    def _speaking(self, turn: int, speaker: Speaker, landmark: str | None) -> Iterator[OnText]:
        """Keep a message on the live board until it is on disk or has failed."""
        speech = Speech(
            benchmark=self._bench.name,
            key=self._key,
            take=self._playing.number,
            turn=turn,
            speaker=speaker,
            landmark=landmark,
            began=time.monotonic(),
        )
        message = self._bench.live.begin(speech, asyncio.current_task())
        try:
            yield message.add
        finally:
            self._bench.live.end(message)
