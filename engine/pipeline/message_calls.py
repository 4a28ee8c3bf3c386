"""The calls behind a take's messages: how each went, and its request, made again from what is
stored."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from engine.benchmark import ConversationKey, Role, Speaker, Stage, Utterance
from engine.config.benchmark_file import Definition
from engine.config.schema import Config
from engine.pipeline.models import model_digest
from engine.pipeline.order import what_changed
from engine.pipeline.play import setup_of
from engine.providers.model import Message
from engine.stages.simulate import Setup, depends, target_request, user_request
from engine.store.reader import Reader
from engine.store.tables import AttemptRow, MessageRow, StoredTake, UnusableRow

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
