"""The context that all stages of a run share: configuration, store, models, live messages."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, Self

from engine.benchmark import ConversationKey, Metric, Role, Stage, State
from engine.config.benchmark_file import Definition
from engine.config.schema import Config, ModelSpec
from engine.config.workspace import LOG_FILE, Workspace
from engine.errors import CrosswindError, DamagedError, ModelError, StopRequested
from engine.facts import LiveText, NoteKind, Speech, Writing
from engine.kill_points import KillPoint, reached
from engine.pipeline.control import Claims, Control
from engine.pipeline.costs.budget import Budget
from engine.pipeline.fault_log import FaultLog
from engine.pipeline.models import Models, OtherModel, RecordedModel, role_words
from engine.providers.model import OnText
from engine.stages.answers import strings_so_far
from engine.store.database import Store
from engine.store.reader import Reader
from engine.store.tables import NoteRow, StateRow


class LiveMessage:
    """The buffer of one message while it is being spoken."""

    def __init__(self, speech: Speech, task: asyncio.Task[Any] | None) -> None:
        self.speech = speech
        self.task = task
        """The task that makes its call."""
        self._pieces: list[str] = []
        self.length = 0
        """Characters."""

    def add(self, piece: str | None) -> None:
        """Append a piece of text; None discards everything, because the message begins again."""
        if piece is None:
            self._pieces, self.length = [], 0
            # a new message to whoever has read the beginning of the first attempt
            self.speech = replace(self.speech, began=time.monotonic())
        else:
            # a list: appending to one string at each word would copy a long reply thousands of
            # times
            self._pieces.append(piece)
            self.length += len(piece)

    def text(self) -> str:
        """The whole text so far."""
        return "".join(self._pieces)


LONGEST_WRITING: Final = 6_000
"""Characters that are kept of what is written for a row of work: the last."""
MOST_WRITING: Final = 12_000
"""Characters of all that is written that watchers are shown: the newest."""


class LiveAnswer:
    """A JSON answer while it is written. It is read when somebody looks, as mostly nobody does."""

    def __init__(self) -> None:
        self._pieces: list[str] = []

    def add(self, piece: str | None) -> None:
        """Append a piece of the answer; None discards everything, because it begins again."""
        if piece is None:
            self._pieces = []
        else:
            self._pieces.append(piece)

    def text(self) -> str:
        """The end of what its strings hold so far. Callable from any thread."""
        return strings_so_far("".join(self._pieces))[-LONGEST_WRITING:]


class LiveBoard:
    """All messages being spoken, at most one for each conversation, and what else is written."""

    def __init__(self) -> None:
        self._messages: dict[tuple[str, ConversationKey], LiveMessage] = {}
        self._writing: dict[tuple[str, Stage, str], LiveAnswer] = {}

    def write(self, benchmark: str, stage: Stage, unit: str) -> OnText:
        """Show the strings of a JSON answer as it is written for a row of work, until
        `end_writing`; returns what takes its pieces."""
        row = benchmark, stage, unit
        self._writing.pop(row, None)
        self._writing[row] = answer = LiveAnswer()
        return answer.add

    def end_writing(self, benchmark: str, stage: Stage, unit: str) -> None:
        self._writing.pop((benchmark, stage, unit), None)

    def writing(self) -> tuple[Writing, ...]:
        """What is written, the newest last."""
        shown: list[Writing] = []
        room = MOST_WRITING
        # copied, because other threads read while the loop changes it
        for row, answer in reversed(list(self._writing.items())):
            if (text := answer.text()) and len(text) <= room:
                shown.append(Writing(*row, text))
                room -= len(text)
        return tuple(reversed(shown))

    def begin(self, speech: Speech, task: asyncio.Task[Any] | None = None) -> LiveMessage:
        """Show a new message, whose call `task` makes, replacing one of the same conversation."""
        message = LiveMessage(speech, task)
        self._messages[speech.benchmark, speech.key] = message
        return message

    def end(self, message: LiveMessage) -> None:
        """Remove a message, once it is a row of the store or has failed."""
        self._messages.pop((message.speech.benchmark, message.speech.key), None)

    def speaking(self) -> Sequence[Speech]:
        """The messages being spoken, the longest-running first."""
        # copied, because other threads read while the loop changes it
        messages = list(self._messages.values())
        return sorted((message.speech for message in messages), key=lambda speech: speech.began)

    def waiting(self, tasks: set[asyncio.Task[Any] | None]) -> int:
        """How many of these messages have a call that waits, given the tasks that wait."""
        messages = list(self._messages.values())
        return sum(message.task is not None and message.task in tasks for message in messages)

    def characters_spoken(self) -> dict[str, int]:
        """Characters spoken so far in these messages, by target."""
        lengths: dict[str, int] = {}
        for message in list(self._messages.values()):
            target = message.speech.key.target_id
            lengths[target] = lengths.get(target, 0) + message.length
        return lengths

    def text(self, benchmark: str, key: ConversationKey, cursor: int) -> LiveText | None:
        """The text from character `cursor` on; a cursor beyond the end (the message was begun
        again) returns the text from its start. None where nothing is being spoken."""
        message = self._messages.get((benchmark, key))
        return None if message is None else LiveText.since(cursor, message.speech, message.text())


_WRITERS: Final = {Role.GENERATOR, Role.EVALUATOR}
"""Roles whose answers are shown while they are written; those of conversations are messages."""


@dataclass(frozen=True, slots=True)
class BenchmarkContext:
    """One benchmark as its files and the store have it: the input of all planning."""

    workspace: Workspace
    config: Config
    reader: Reader
    definition: Definition

    @property
    def name(self) -> str:
        return self.definition.name

    @property
    def metrics(self) -> dict[str, Metric]:
        return {metric.id: metric for metric in self.definition.metrics}

    def with_definition(self, definition: Definition) -> Self:
        """The same with a new definition, such as after its metrics have been written."""
        return replace(self, definition=definition)


@dataclass(frozen=True, slots=True)
class RunContext(BenchmarkContext):
    """A benchmark being worked on, with what all orders of a run share."""

    store: Store
    models: Models
    live: LiveBoard
    control: Control
    claims: Claims
    budget: Budget
    faults: FaultLog

    def note(self, kind: NoteKind, text: str, stage: Stage | None = None) -> None:
        """Store a note for watchers, without waiting; any later awaited write comes after it."""
        self.store.tell(NoteRow(kind=kind, benchmark=self.name, stage=stage, text=text))

    def state_row(
        self,
        stage: Stage,
        unit: str,
        state: State,
        *,
        target: str | None = None,
        reason: str | None = None,
    ) -> StateRow:
        """Build the row that sets a row of work's state; it still has to be written."""
        return StateRow(
            benchmark=self.name,
            stage=stage,
            unit=unit,
            target=target,
            state=state,
            reason=reason,
        )

    def model_for(
        self,
        spec: ModelSpec,
        role: Role,
        stage: Stage,
        unit: str,
        target: str | None = None,
        *,
        session: str = "",
        batched: bool = False,
    ) -> RecordedModel:
        """Open a model whose calls are charged to the run's budget and recorded as attempts of this
        row of work; with `batched`, the caller stores them with what they came to. Raises
        `InputError` where it cannot be opened."""
        return RecordedModel(
            model=self.models.open(spec),
            identity=spec.identity,
            tell=self.store.tell,
            budget=self.budget,
            benchmark=self.name,
            stage=stage,
            unit=unit,
            role=role,
            target=target,
            session=session,
            batched=batched,
            on_other=self._other_answered,
            on_loose=self._answered_loosely,
            on_printed=self.faults.keep_printed,
            live=self.live if role in _WRITERS else None,
        )

    def _other_answered(self, other: OtherModel) -> None:
        """Warn once about each substitute model: nobody would read a warning for each reply."""
        if self.models.is_new(other):
            self.note(NoteKind.WARNING, other.words)

    def _answered_loosely(self, role: Role, label: str) -> None:
        if self.models.writes_loosely(role, label):
            words = (
                f"the {role_words(role, None)} ({label}) writes more than the JSON that is asked"
            )
            self.note(NoteKind.WARNING, f"{words} for: the one object in it is read")

    async def attempt(
        self,
        stage: Stage,
        unit: str,
        do: Callable[[], Awaitable[None]],
        *,
        target: str | None = None,
    ) -> bool:
        """Do one row of work and return whether it succeeded. A model that fails, a damaged
        transcript or a bug marks only this row as failed, with its reason. Errors that concern
        every row, such as a store that cannot be written, are raised."""
        # not awaited: a state lost with the engine is worked out again by the next run
        self.store.tell(self.state_row(stage, unit, State.RUNNING, target=target))
        try:
            await do()
        # back to queued, not failed: nothing is wrong with the row
        except (StopRequested, asyncio.CancelledError):
            self.store.tell(self.state_row(stage, unit, State.QUEUED, target=target))
            raise
        except (ModelError, DamagedError) as error:
            return await self._row_failed(stage, unit, target, str(error))
        # concerns every row, such as a store that cannot be written: ends the run, blames no row
        except CrosswindError:
            raise
        except Exception as error:  # noqa: BLE001  (one row's failure is not the others')
            self.faults.keep(f"{stage} of {unit}", error)
            reason = f"a bug in Crosswind: {type(error).__name__}; {LOG_FILE} says where"
            return await self._row_failed(stage, unit, target, reason)
        reached(KillPoint.CHANGING_STATE)
        await self.store.write(self.state_row(stage, unit, State.DONE, target=target))
        reached(KillPoint.CHANGED_STATE)
        return True

    async def _row_failed(self, stage: Stage, unit: str, target: str | None, reason: str) -> bool:
        await self.store.write(
            self.state_row(stage, unit, State.FAILED, target=target, reason=reason)
        )
        return False

    def queue(self, stage: Stage, units: Sequence[tuple[str, str | None]]) -> None:
        """Announce rows of work, given as (unit, target), as queued."""
        self.store.tell(
            *(self.state_row(stage, unit, State.QUEUED, target=target) for unit, target in units)
        )
