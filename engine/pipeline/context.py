"""What all stages of a run work with."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, replace
from typing import Self

from engine.benchmark import ConversationKey, Metric, Role, Stage, State
from engine.config.benchmark_file import Definition
from engine.config.schema import Config, ModelSpec
from engine.config.workspace import LOG_FILE, Workspace
from engine.errors import CrosswindError, DamagedError, ModelError
from engine.facts import LiveText, NoteKind, Speech
from engine.kill_points import KillPoint, reached
from engine.pipeline.budget import Budget
from engine.pipeline.control import Claims, Control, StopRequested
from engine.pipeline.fault_log import FaultLog
from engine.pipeline.models import Models, OtherModel, RecordedModel
from engine.store.database import Store
from engine.store.reader import Reader
from engine.store.tables import NoteRow, StateRow


class LiveMessage:
    """The buffer of one message that is being spoken."""

    def __init__(self, speech: Speech) -> None:
        self.speech = speech
        self._pieces: list[str] = []
        self.length = 0
        """Characters."""

    def add(self, piece: str | None) -> None:
        """Add what arrived; None voids what was heard, as the message begins anew."""
        if piece is None:
            self._pieces, self.length = [], 0
            # another message to whoever has read the beginning of the first
            self.speech = replace(self.speech, began=time.monotonic())
        else:
            # in a list: to add to one string at each word would copy a long reply thousands of
            # times
            self._pieces.append(piece)
            self.length += len(piece)

    def text(self) -> str:
        """All of it so far."""
        return "".join(self._pieces)


class LiveBoard:
    """All messages that are being spoken, one for each conversation."""

    def __init__(self) -> None:
        self._messages: dict[tuple[str, ConversationKey], LiveMessage] = {}

    def begin(self, speech: Speech) -> LiveMessage:
        """Show a message from now on, in place of one of the same conversation."""
        message = LiveMessage(speech)
        self._messages[speech.benchmark, speech.key] = message
        return message

    def end(self, message: LiveMessage) -> None:
        """Forget it, once its message is a row of the store."""
        self._messages.pop((message.speech.benchmark, message.speech.key), None)

    def speaking(self) -> Sequence[Speech]:
        """Messages that are being said, the longest running first."""
        # copied first: other threads ask while the loop adds and takes away
        messages = list(self._messages.values())
        return sorted((message.speech for message in messages), key=lambda speech: speech.began)

    def said(self) -> dict[str, int]:
        """How many characters of it were said so far, by target."""
        found: dict[str, int] = {}
        for message in list(self._messages.values()):
            target = message.speech.key.target_id
            found[target] = found.get(target, 0) + message.length
        return found

    def text(self, benchmark: str, key: ConversationKey, cursor: int) -> LiveText | None:
        """What was said of it from character `cursor` on; a cursor beyond the end, as after a
        message that began anew, is answered from the beginning."""
        message = self._messages.get((benchmark, key))
        if message is None:
            return None
        said = message.text()
        start = cursor if cursor <= len(said) else 0
        return LiveText(message.speech, said[start:], len(said))


@dataclass(frozen=True, slots=True)
class BenchmarkContext:
    """One benchmark as it is written and stored: all that planning looks at."""

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
        """With what its file says now, as when its metrics have just been written into it."""
        return replace(self, definition=definition)


@dataclass(frozen=True, slots=True)
class RunContext(BenchmarkContext):
    """One benchmark that is worked on, and what all orders of a run share."""

    store: Store
    models: Models
    live: LiveBoard
    control: Control
    claims: Claims
    budget: Budget
    faults: FaultLog

    def note(self, kind: NoteKind, text: str, stage: Stage | None = None) -> None:
        """Say something to whoever watches, now or later. Not waited for: the next write that is
        waited for comes after it."""
        self.store.tell(NoteRow(kind=kind, benchmark=self.name, stage=stage, text=text))

    def state(
        self,
        stage: Stage,
        unit: str,
        state: State,
        *,
        target: str | None = None,
        reason: str | None = None,
    ) -> StateRow:
        """A row that says how a row of work stands from now on; it is still to be written."""
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
    ) -> RecordedModel:
        """A model whose calls are paid for by the run's budget and kept as attempts of this row of
        work. Raises `InputError` where it cannot be opened."""
        return RecordedModel(
            model=self.models.open(spec),
            tell=self.store.tell,
            budget=self.budget,
            benchmark=self.name,
            stage=stage,
            unit=unit,
            role=role,
            target=target,
            session=session,
            on_other=self._other_answered,
            on_printed=self.faults.keep_printed,
        )

    def _other_answered(self, other: OtherModel) -> None:
        """Said at once, and once: what is said of each reply is read by nobody."""
        if self.models.is_new(other):
            self.note(NoteKind.WARNING, other.words)

    async def attempt(
        self,
        stage: Stage,
        unit: str,
        do: Callable[[], Awaitable[None]],
        *,
        target: str | None = None,
    ) -> bool:
        """Do one row of work; whether it succeeded. A model that fails, a transcript that is
        damaged, or a fault of this program makes the row fail, with its reason, and nothing else.
        Raises what concerns every row: that the store cannot be written, say."""
        # told and not waited for: a state that is lost with the engine is worked out anew by the
        # next run
        self.store.tell(self.state(stage, unit, State.RUNNING, target=target))
        try:
            await do()
        # queued again and not failed: nothing is wrong with the row
        except (StopRequested, asyncio.CancelledError):
            self.store.tell(self.state(stage, unit, State.QUEUED, target=target))
            raise
        except (ModelError, DamagedError) as error:
            return await self._failed(stage, unit, target, str(error))
        # what concerns every row, as a store that cannot be written: it ends the run, and no row
        # is blamed
        except CrosswindError:
            raise
        except Exception as error:  # noqa: BLE001  (one row's failure is not the others')
            self.faults.keep(f"{stage} of {unit}", error)
            reason = f"a bug in Crosswind: {type(error).__name__}; {LOG_FILE} says where"
            return await self._failed(stage, unit, target, reason)
        reached(KillPoint.CHANGING_STATE)
        await self.store.write(self.state(stage, unit, State.DONE, target=target))
        reached(KillPoint.CHANGED_STATE)
        return True

    async def _failed(self, stage: Stage, unit: str, target: str | None, reason: str) -> bool:
        await self.store.write(self.state(stage, unit, State.FAILED, target=target, reason=reason))
        return False

    def queue(self, stage: Stage, units: Sequence[tuple[str, str | None]]) -> None:
        """Announce rows of work, each with its target."""
        self.store.tell(
            *(self.state(stage, unit, State.QUEUED, target=target) for unit, target in units)
        )
