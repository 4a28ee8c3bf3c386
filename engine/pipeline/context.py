"""The context that all stages of a run share: configuration, store, live messages, and models
whose calls are recorded."""

from __future__ import annotations

import asyncio
import json
import os
import time
import traceback
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final, Self

from engine.benchmark import ConversationKey, Metric, Role, Stage, State, Usage
from engine.config.benchmark_file import Definition
from engine.config.schema import Config, ModelId, ModelSpec
from engine.config.workspace import LOG_FILE, Workspace
from engine.display import one_line
from engine.errors import CrosswindError, DamagedError, ModelError, StopRequested
from engine.facts import LiveText, NoteKind, Speech, Writing
from engine.kill_points import KillPoint, reached
from engine.pipeline.control import Claims, Control
from engine.pipeline.costs.budget import Budget
from engine.pipeline.models import Models, OtherModel, caller_words, role_words
from engine.progress import ANSWER
from engine.providers.batches.queue import BatchUnansweredError
from engine.providers.failures import FailureKind
from engine.providers.model import (
    Attempt,
    BatchWork,
    JsonSchema,
    Message,
    Model,
    OnText,
    Reply,
    ReportingModel,
    once_per_schema,
)
from engine.providers.protocols.base import PromptCache
from engine.providers.real import RealModel
from engine.stages.answers import NotesForm, strings_so_far
from engine.store.database import Store
from engine.store.reader import Reader
from engine.store.tables import (
    AttemptRow,
    BatchTakenRow,
    NoteRow,
    StateRow,
    StoredRow,
    UnsettledRow,
    UnusableRow,
)

_LINES: Final = 12
"""Frames of a traceback that are kept."""
LONGEST_LINE: Final = 300
MOST_PRINTED: Final = 256 * 1024
"""The most characters printed by a workspace's functions that are kept of one run."""


def traceback_text(error: BaseException) -> str:
    """The traceback of an error without any values: they may contain model text or a key."""
    return "".join(traceback.format_tb(error.__traceback__, -_LINES))


@dataclass(slots=True)
class FaultLog:
    """The faults of one run; each traceback is written once, however many rows it fails."""

    root: Path
    _shown: set[str] = field(default_factory=set)
    _printed: int = 0
    """Characters of function output written so far."""

    def keep(self, what: str, error: BaseException) -> None:
        """Log a bug. Never raises."""
        kind, where = type(error).__name__, traceback_text(error)
        trace = "as above" if where in self._shown else f"\n{where}"
        self._shown.add(where)
        append_to_log(self.root, f"a bug in Crosswind failed {what}: {kind}, {trace.rstrip()}")

    def keep_printed(self, row: str, lines: Sequence[str]) -> None:
        """Log what a function of the workspace wrote to standard error. Never raises."""
        whole = "\n".join(f"  {one_line(line, LONGEST_LINE)}" for line in lines)
        if self._printed > MOST_PRINTED:
            return
        entry = " as above" if whole in self._shown else f"\n{whole}"
        self._shown.add(whole)
        self._printed += len(entry)
        if self._printed > MOST_PRINTED:
            entry += "\n  and more, which is not kept: it is too much for one run"
        append_to_log(self.root, f"printed by the function, {row}:{entry}")


def append_to_log(root: Path, words: str) -> None:
    """Write a line with the time to a workspace's log. Never raises."""
    line = f"{datetime.now(UTC):%Y-%m-%d %H:%M:%S} engine {os.getpid()} {words}\n"
    flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
    with suppress(OSError):  # a full disk must not end a run for want of a log
        descriptor = os.open(root / LOG_FILE, flags | os.O_NONBLOCK, 0o600)
        with os.fdopen(descriptor, "ab") as log:
            log.write(line.encode("utf-8", "replace"))


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
        model, identity = self.models.open(spec), spec.identity
        return RecordedModel(
            self, model, identity, stage, unit, role, target, session=session, batched=batched
        )

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


_COMES_AGAIN: Final = {Role.TARGET: PromptCache.LAST, Role.USER: PromptCache.HISTORY}
"""The part of a role's requests that the next one repeats, which makes caching it pay off."""
_CUT_OFF: Final = frozenset({"cancelled", FailureKind.AGENT_LOST.outcome})
"""The outcomes of requests that a server may have answered and billed without our knowing."""


@dataclass(slots=True)
class RecordedModel(NotesForm):
    """A model whose attempts are stored under a row of work, and whose calls the budget limits."""

    bench: RunContext
    model: Model
    identity: ModelId
    stage: Stage
    unit: str
    role: Role
    target: str | None = None
    session: str = ""
    """Identifies the conversation to the application; empty where there is none."""
    batched: bool = False
    """Whether its calls may be made in batches. Then whoever stores what they came to stores
    `settled` with it."""
    turn: int = 0
    """The turn of the conversation that the next call is for; 0 where it has none."""
    served_by: str | None = None
    """The other model that gave the last reply; None where the requested one did."""
    _unstored: list[StoredRow] = field(default_factory=list, init=False)
    _replies: int = field(default=0, init=False)

    def settled(self) -> list[StoredRow]:
        """The attempts at calls in batches, which were not told, to be stored in one transaction
        with what they came to: until then, a later run gets the same results again."""
        rows, self._unstored = self._unstored, []
        return rows

    @contextmanager
    def settling(self) -> Iterator[None]:
        """Store them also where the block fails with `ModelError`."""
        try:
            yield
        except ModelError:
            self.bench.store.tell(*self.settled())
            raise

    @property
    def label(self) -> str:
        return self.model.label

    @property
    def scripted(self) -> bool:
        return self.model.scripted

    def note_form(self) -> None:
        """Say once of a model in a role that its answers have other text around them."""
        if self.bench.models.writes_loosely(self.role, self.label):
            who = f"the {role_words(self.role, None)} ({self.label})"
            words = (
                f"{who} writes more than the JSON that is asked for: the one object in it is read"
            )
            self.bench.note(NoteKind.WARNING, f"{words}: the one object in it is read")

    def note_unusable(self, answer: str, fault: str) -> None:
        self.bench.store.tell(
            UnusableRow(
                benchmark=self.bench.name,
                stage=self.stage,
                unit=self.unit,
                role=self.role,
                model=self.label,
                fault=fault,
                answer=answer[:LONGEST_UNUSABLE],
            )
        )

    async def reply(
        self,
        messages: Sequence[Message],
        *,
        schema: JsonSchema | None = None,
        seed: int = 0,
        on_text: OnText | None = None,
    ) -> Reply:
        """Make a call. Raises `ModelError` that says whose model failed, and `StopRequested` where
        the budget has no room."""
        row = self.bench.name, self.stage, self.unit
        if self.role in _WRITERS and on_text is None:
            on_text = self.bench.live.write(*row)
        try:
            return await self._reply(messages, schema, seed, on_text)
        except ModelError as error:
            # who it is names the model, too
            message = str(error).removeprefix(f"{self.label}: ")
            who = caller_words(self.role, self.target, self.label)
            raise ModelError(f"{who}: {message}", retryable=error.retryable) from error
        finally:
            self.bench.live.end_writing(*row)

    async def _reply(
        self,
        messages: Sequence[Message],
        schema: JsonSchema | None,
        seed: int,
        on_text: OnText | None,
    ) -> Reply:
        batches = self.model.batches if isinstance(self.model, RealModel) else None
        self._replies += 1
        again = self._replies > 1
        if self.batched and batches is not None and not (again and batches.only_first):
            for _ in range(1 if batches.only_first else MOST_BATCHES):
                with suppress(BatchUnansweredError):
                    return await self._call(messages, schema, seed, on_text, in_batch=True)
            # with `only_first`, what no batch has answered is asked directly
            if not batches.only_first:
                words = f"{MOST_BATCHES} batches ended before it was answered"
                raise ModelError(words, retryable=True)
        return await self._call(messages, schema, seed, on_text, in_batch=False)

    async def _call(
        self,
        messages: Sequence[Message],
        schema: JsonSchema | None,
        seed: int,
        on_text: OnText | None,
        *,
        in_batch: bool,
    ) -> Reply:
        budget = self.bench.budget
        await budget.wait_until_agreed(self.role, self.identity)
        # the tokens are only counted where they cost anything
        most, most_usd = 0, budget.most_usd(self.role, self.identity)
        if most_usd > 0:
            most = most_tokens(messages, schema)
            most_usd = budget.most_usd(self.role, self.identity, most)
        room = budget.call(
            self.role,
            self.identity,
            self.bench.name,
            self.unit,
            turn=self.turn,
            input_tokens=most,
            leased=not in_batch,
        )
        async with room as booking:

            def keep(attempt: Attempt) -> None:
                booking.spend(attempt.usage.cost_usd)
                self._keep_attempt(attempt)
                if attempt.outcome in _CUT_OFF and attempt.usage.cost_usd is None:
                    self.bench.store.tell(UnsettledRow(most_usd=most_usd))

            model: Model = self.model
            if isinstance(model, RealModel):
                model = model.caching(_COMES_AGAIN.get(self.role))
                if in_batch:
                    name = f"{self.bench.name} {self.stage} {self.unit} {self.role}"
                    model = model.batched(BatchWork(name, most_usd, booking.reserve))
            # other models make one attempt per reply, so timing them from outside is enough
            if isinstance(model, ReportingModel):
                model = model.in_session(self.session).telling(keep)
                reply = await model.reply(messages, schema=schema, seed=seed, on_text=on_text)
                self.served_by = reply.served_by
                self.session = reply.session or self.session
                return reply
            return await self._timed_reply(model, keep, messages, schema, seed, on_text)

    async def _timed_reply(
        self,
        model: Model,
        keep: Callable[[Attempt], None],
        messages: Sequence[Message],
        schema: JsonSchema | None,
        seed: int,
        on_text: OnText | None,
    ) -> Reply:
        """Call a model that makes one attempt per reply, and time it from outside."""
        began = time.monotonic()
        # what stands where the call is cancelled, which is no `ModelError`
        outcome, usage, detail = "cancelled", Usage(1, None, None, None, None), None
        try:
            reply = await model.reply(messages, schema=schema, seed=seed, on_text=on_text)
            outcome, usage = "answer", reply.usage
        except ModelError as error:
            outcome, detail = "failed", str(error)
            raise
        else:
            return reply
        finally:
            took = round((time.monotonic() - began) * 1000)
            keep(Attempt(outcome, None, took, None, usage, detail))

    def _keep_attempt(self, attempt: Attempt) -> None:
        row = AttemptRow(
            benchmark=self.bench.name,
            stage=self.stage,
            unit=self.unit,
            target=self.target,
            role=self.role,
            model=self.label,
            outcome=attempt.outcome,
            status=attempt.status,
            duration_ms=attempt.duration_ms,
            usage=attempt.usage,
            detail=attempt.detail,
            first_token_ms=attempt.first_token_ms,
            served=attempt.served,
            is_other=attempt.is_other,
            route=attempt.route,
            cost_reported=attempt.cost_reported,
            left_out=" ".join(attempt.left_out) or None,
        )
        if attempt.call is None:
            self.bench.store.tell(row)
        else:
            self._unstored += [row, BatchTakenRow(call=attempt.call)]
        if attempt.printed:
            who = f"{self.target or self.label}, {self.unit}"
            self.bench.faults.keep_printed(who, attempt.printed)
        if attempt.is_other and attempt.outcome == ANSWER:
            served = attempt.served or ""
            other = OtherModel(self.role, self.target, self.label, served, attempt.route)
            # once about each: nobody would read a warning for each reply
            if self.bench.models.is_new(other):
                self.bench.note(NoteKind.WARNING, other.words)


MOST_BATCHES: Final = 3
"""In how many batches a call is asked for that they do not answer, as they expire or are
cancelled."""
LONGEST_UNUSABLE: Final = 4_000
"""Characters of an unusable answer that are kept."""


def most_tokens(messages: Sequence[Message], schema: JsonSchema | None) -> int:
    """The most tokens that a request has: one for each byte, and the marks between messages."""
    most = sum(len(message.text.encode()) + MARKS for message in messages)
    return most if schema is None else most + _schema_bytes(schema) + MARKS


@once_per_schema
def _schema_bytes(schema: JsonSchema) -> int:
    return len(json.dumps(schema).encode())


MARKS: Final = 16
"""Tokens that a server may add to each message, for the names of roles and the like."""
