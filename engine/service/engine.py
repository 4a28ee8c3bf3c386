"""Carries out orders on one workspace one after the other, and watchers' requests beside them."""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Final

from engine.benchmark import ConversationKey, Stage
from engine.cluster.pool import AgentPool
from engine.config.schema import ModelId
from engine.display import plural
from engine.errors import CrosswindError
from engine.facts import LiveText
from engine.link import (
    AgentStatus,
    Board,
    Command,
    EngineState,
    Identity,
    ModelLimit,
    Request,
    Response,
    Wait,
    WorkRow,
    again_order,
    asked_of_failed,
    key_of,
    retry_order,
)
from engine.pipeline.labelling.storing import mirror_labels, store_labels
from engine.pipeline.order import Order
from engine.pipeline.planner import Planner
from engine.pipeline.remedies import standing_failures
from engine.pipeline.run import Pipeline, RunResult, review_benchmark

CHANGEABLE: Final = (Stage.GEN_SCENARIOS, Stage.SIMULATE, Stage.EVALUATE)
"""Stages whose concurrency can be changed."""

MOST_AT_ONCE: Final = 10_000
BROKEN_OFF: Final = "a bug in Crosswind ended the engine; crosswind.log in the workspace says where"
NAMED: Final = 3
"""The most rows named in a message; the others are counted."""


def _nothing_edited() -> Sequence[str]:
    return ()


def _ignored(text: str) -> None:
    del text


class _RequestRefused(Exception):  # noqa: N818  (an answer, not a fault)
    """Carries the reason why a request is refused."""


_UNDERWAY: Final = "it is being done already"


@dataclass(slots=True)
class _RunningOrder:
    """The order at work, and the orders beside it."""

    pipeline: Pipeline
    order: Order
    main: asyncio.Task[RunResult]
    beside: dict[asyncio.Task[int], Order] = field(default_factory=dict)
    failed_beside: int = 0
    """Rows that failed in the orders beside it that have ended."""
    broken: BaseException | None = None
    """The error of an order beside it, which ends everything."""

    @property
    def is_stopping(self) -> bool:
        return self.pipeline.control.draining

    @property
    def state(self) -> EngineState:
        return EngineState.PAUSED if self.pipeline.control.paused else EngineState.RUNNING

    def cancel(self) -> None:
        for task in [*self.beside, self.main]:
            task.cancel()

    async def end(self) -> None:
        """Cancel all of its tasks and close the pipeline."""
        for task in [*self.beside, self.main]:
            if not task.done():
                task.cancel()
                with contextlib.suppress(asyncio.CancelledError):
                    await task
        await self.pipeline.close()

    def begin_beside(self, order: Order) -> None:
        task = asyncio.create_task(self.pipeline.work_beside(order))
        self.beside[task] = order
        # not awaited, because the requester is answered at once
        task.add_done_callback(self._beside_ended)

    def _beside_ended(self, task: asyncio.Task[int]) -> None:
        self.beside.pop(task, None)
        if task.cancelled():
            return
        error = task.exception()
        if error is not None:
            # what breaks one order, such as a store that cannot be written, breaks all
            self.broken = error
            self.main.cancel()
        else:
            self.failed_beside += task.result()


class Engine:
    """Belongs to one event loop, except for `board` and `text`, which any thread may call.

    `open_pipeline` reads the configuration again for each order, so edits made while one is at work
    apply to the next. `edited` returns notices about such edits. `linger` is how many seconds the
    engine waits for further orders when all are done.
    """

    def __init__(
        self,
        open_pipeline: Callable[[], Pipeline],
        *,
        linger: float = 0.0,
        edited: Callable[[], Sequence[str]] = _nothing_edited,
        warn: Callable[[str], None] = _ignored,
    ) -> None:
        self._open_pipeline = open_pipeline
        self._linger = linger
        self._edited = edited
        self.warn = warn
        """Stores a warning for watchers."""
        self.attended: Callable[[], bool] = lambda: False
        """Whether anybody is watching who can be asked."""
        self.agents: AgentPool | None = None
        """Makes the calls if set; otherwise this process does."""
        self._loop: asyncio.AbstractEventLoop | None = None
        self._identity = Identity(os.getpid(), socket.gethostname(), datetime.now(UTC))
        self._orders: deque[Order] = deque()
        self._came = asyncio.Event()
        """Set when there is an order, or a reason to end."""
        self._now: _RunningOrder | EngineState = EngineState.STARTING
        """The work at hand; `IDLE` between two orders, `STOPPED` at the end."""
        self._pending: set[asyncio.Task[str] | asyncio.Task[None]] = set()
        """Requests that are being handled, and files being written after labels or reviews."""
        self._stopping = False
        """Whether to end after the current work."""
        self._troubles: dict[str, str] = {}
        """What holds the work up, by source: `store` or `workers`."""
        self._paused_by_trouble = False
        self.problem: str | None = None
        """Why it ended, unless it finished or was stopped."""

    # At work

    async def serve(self, first: Order | None = None) -> RunResult:
        """Carry out this order and those requested meanwhile. Raises `CrosswindError`."""
        if first is not None:
            self._orders.append(first)
        failed, stopped, whole = 0, False, False
        self._loop = asyncio.get_running_loop()
        if self.agents is not None:
            self.agents.start()
        try:
            while (order := await self._next_order()) is not None:
                result = await self._do_order(order)
                failed += result.failed
                stopped = stopped or result.stopped
                self._stopping = self._stopping or result.stopped
            whole = True
        except CrosswindError as error:
            self.problem = str(error)
            raise
        finally:
            if not whole and self.problem is None:
                self.problem = BROKEN_OFF
            # before it reports its end: commands that wait for that expect the files
            while self._pending:
                await asyncio.wait(self._pending)
            self._now = EngineState.STOPPED
            if self.agents is not None:
                await self.agents.close()
        return RunResult(failed, stopped)

    async def _next_order(self) -> Order | None:
        """Wait for the next order; None to end, with nothing left of what was accepted."""
        if not self._orders and not self._stopping:
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._came.wait(), self._linger)
        while self._pending and not self._orders:
            await asyncio.wait(self._pending, return_when=asyncio.FIRST_COMPLETED)
        self._came.clear()
        return self._orders.popleft() if self._orders and not self._stopping else None

    async def _do_order(self, order: Order) -> RunResult:
        pipeline = self._open_pipeline()
        pipeline.attended = lambda: self.attended()
        pipeline.awaits_somebody = self._linger > 0
        self._now = work = _RunningOrder(
            pipeline, order, asyncio.create_task(pipeline.run_order(order))
        )
        # a disk that filled up between two orders is still full for the next
        if self._troubles:
            pipeline.control.pause()
            self._paused_by_trouble = True
        try:
            result = await work.main
            while work.beside and work.broken is None:
                # checked again: further orders may begin while some are awaited
                await asyncio.wait(work.beside, return_when=asyncio.FIRST_COMPLETED)
            if work.broken is not None:
                raise work.broken
            return RunResult(result.failed + work.failed_beside, work.is_stopping)
        except asyncio.CancelledError:
            # cancelled by ourselves, because an order beside it failed: that error is the result
            if work.broken is not None:
                raise work.broken from None
            # cancelled from outside, not by `stop_now`: the canceller expects the cancellation
            if not self._stopping:
                raise
            return RunResult(work.failed_beside, stopped=True)
        finally:
            await work.end()
            self._now = EngineState.IDLE

    @property
    def _running_order(self) -> _RunningOrder | None:
        now = self._now
        return now if isinstance(now, _RunningOrder) else None

    # Queries, from any thread

    def board(self) -> Board:
        """The current board. Callable from any thread: what it reads is replaced or copied."""
        work = self._running_order
        if work is None:
            known = Board(self._state(), (), self.problem, engine=self._identity)
            return replace(known, agents=self._agents_status())
        pipeline = work.pipeline
        models = pipeline.models
        targets = [target.id for target in pipeline.config.targets]
        parked = {target: why for target in targets if (why := models.parked(target)) is not None}

        def targets_of(model: ModelId) -> tuple[str, ...]:
            entries = pipeline.config.targets
            return tuple(target.id for target in entries if target.identity == model)

        return Board(
            state=self._state(),
            speaking=tuple(pipeline.live.speaking()),
            problem="; ".join(self._troubles.values()) or None,
            waits=tuple(
                Wait(model.label, *held, targets=targets_of(model))
                for held_calls in (models.held(), pipeline.budget.held())
                for model, held in held_calls.items()
            ),
            parked=parked,
            concurrency={stage: slots.number for stage, slots in pipeline.control.slots.items()},
            between=dict(pipeline.control.slots[Stage.SIMULATE].between),
            notices=tuple(self._edited()),
            engine=self._identity,
            said=pipeline.live.characters_spoken(),
            spent_usd=pipeline.budget.spent_usd,
            budget_usd=pipeline.config.run.budget,
            quote=pipeline.quote,
            agreed_usd=pipeline.budget.agreed_usd,
            rest_usd=None if pipeline.quote is None else pipeline.budget.remaining.rest_usd,
            question=None if pipeline.question is None else pipeline.question.words,
            waiting_messages=pipeline.waiting_messages,
            limits=tuple(
                ModelLimit(model.label, *limit, targets=targets_of(model))
                for model, limit in models.limits().items()
            ),
            agents=self._agents_status(),
            stages=tuple(stage for stage in Stage if stage in work.order.stages),
            writing=pipeline.live.writing(),
            benchmarks=tuple(
                name for order in (work.order, *self._orders.copy()) for name in order.benchmarks
            ),
        )

    def text(self, benchmark: str, key: ConversationKey, cursor: int = 0) -> LiveText | None:
        """The message being spoken in a conversation, from character `cursor` on; None without one.
        Callable from any thread."""
        work = self._running_order
        return None if work is None else work.pipeline.live.text(benchmark, key, cursor)

    def _agents_status(self) -> tuple[AgentStatus, ...]:
        return () if self.agents is None else self.agents.status()

    def _state(self) -> EngineState:
        now = self._now
        if isinstance(now, EngineState):
            return now
        return EngineState.DRAINING if now.is_stopping or self._stopping else now.state

    # Requests

    async def answer(self, request: Request) -> Response:
        """Carry out a request, or refuse it with a reason."""
        if self._now is EngineState.STOPPED or self.problem is not None:
            return Response(accepted=False, text="the engine has ended")
        handling = asyncio.create_task(self._handle(request))
        self._finish_before_end(handling)
        try:
            return Response(accepted=True, text=await handling)
        except (_RequestRefused, CrosswindError) as refusal:
            return Response(accepted=False, text=str(refusal))

    def _finish_before_end(self, task: asyncio.Task[str] | asyncio.Task[None]) -> None:
        self._pending.add(task)
        task.add_done_callback(self._pending.discard)

    async def _handle(self, request: Request) -> str:
        match request.command:
            case Command.STOP:
                return self.stop()
            case Command.STOP_NOW:
                if (work := self._running_order) is not None:
                    work.pipeline.cancel_batches()
                return self.stop_now()
            case Command.PAUSE:
                return self._pause()
            case Command.RESUME:
                return self._resume()
            case Command.CONCURRENCY:
                return self._set_concurrency(request)
            case Command.UNPARK:
                return self._unpark(request.target)
            case Command.RUN:
                return self._queue_run(request)
            case Command.RETRY:
                return await self._retry(request)
            case Command.EVALUATE:
                return await self._evaluate(request)
            case Command.SIMULATE:
                return await self._simulate(request)
            case Command.REVIEW:
                return await self._review(request)
            case Command.LABEL:
                return await self._label(request)

    def stop(self) -> str:
        """Finish the messages being spoken, then end. Idempotent."""
        self._stopping = True
        self._orders.clear()
        self._came.set()
        if (work := self._running_order) is not None:
            work.pipeline.drain()
        self._end_without_workers()
        return "stopping after what is being spoken"

    def stop_now(self) -> str:
        """End without finishing the messages being spoken."""
        self.stop()
        if (work := self._running_order) is not None:
            work.cancel()
        return "stopping now"

    def _pause(self) -> str:
        pipeline = self._running_pipeline()
        if pipeline.control.draining:
            raise _RequestRefused("the run is stopping")
        pipeline.pause()
        self._paused_by_trouble = False
        return "paused after what is being spoken"

    def _resume(self) -> str:
        return self._running_pipeline().resume()

    def trouble(self, why: str | None, about: str = "store") -> None:
        """Pause while something external, such as a full disk, holds the work up; `why` None ends
        it. A person's pause stays."""
        work, had = self._running_order, bool(self._troubles)
        if why is None:
            self._troubles.pop(about, None)
        else:
            self._troubles[about] = why
        if work is None:
            return
        control = work.pipeline.control
        if self._troubles and not had and not control.paused:
            control.pause()
            self._paused_by_trouble = True
        elif had and not self._troubles and self._paused_by_trouble:
            control.resume()
            self._paused_by_trouble = False

    def waiting_for_workers(self, why: str | None) -> None:
        """Pause while there is no worker to make calls; `why` None means there is one again."""
        if why is not None and "workers" not in self._troubles:
            self.warn(why)
        self.trouble(why, "workers")
        if self._stopping:
            self._end_without_workers()

    def _end_without_workers(self) -> None:
        """Cut off messages being spoken, because without workers none can be finished."""
        if "workers" in self._troubles and (work := self._running_order) is not None:
            work.cancel()

    def trouble_from_thread(self, why: str | None) -> None:
        """As `trouble`, callable from another thread."""
        if self._loop is not None:
            with contextlib.suppress(RuntimeError):  # the loop was closed: no work to pause
                self._loop.call_soon_threadsafe(self.trouble, why)

    def _running_pipeline(self) -> Pipeline:
        if (work := self._running_order) is None:
            raise _RequestRefused("nothing is being done at this moment")
        return work.pipeline

    def _pipeline(self) -> Pipeline:
        """The pipeline at work, or a new one for looking things up."""
        return self._open_pipeline() if (work := self._running_order) is None else work.pipeline

    def _set_concurrency(self, request: Request) -> str:
        stage, number = request.stage, request.number
        slots = self._running_pipeline().control.slots
        if stage is None or stage not in slots:
            stages = ", ".join(CHANGEABLE)
            raise _RequestRefused(f"how much is done at once can be changed for {stages}")
        if number is None or not 1 <= number <= MOST_AT_ONCE:
            raise _RequestRefused(f"expected a whole number from 1 to {MOST_AT_ONCE}, not {number}")
        slots[stage].resize(number)
        return f"{stage}: {number} at once, until this run ends"

    def _unpark(self, target: str | None) -> str:
        pipeline = self._running_pipeline()
        known = [target.id for target in pipeline.config.targets]
        if target not in known:
            raise _RequestRefused(f"there is no target {target!r}; there is: {', '.join(known)}")
        if pipeline.models.parked(target) is None:
            return f"{target} is not parked"
        pipeline.models.unpark(target)
        return f"{target} is called again; the next run does again what failed meanwhile"

    def _queue_run(self, request: Request) -> str:
        order = request.order
        if order is None:
            raise _RequestRefused("there is no order in the request")
        self._not_stopping()
        if self._is_underway(order):
            return _UNDERWAY
        self._check(order)
        # a rewrite is one call, and nothing at work depends on it
        return self._begin(order, can_be_beside=bool(order.rewrite))

    def _check(self, order: Order) -> None:
        """Raise `CrosswindError` with everything that can be known to be wrong."""
        self._pipeline().check(order)

    def _follow_up(self, order: Order) -> str:
        """Queue an order; return a message about when it begins."""
        self._orders.append(order)
        self._came.set()
        return "begun" if self._running_order is None else "it follows what is being done now"

    def _not_stopping(self) -> None:
        work = self._running_order
        if self._stopping or (work is not None and work.is_stopping):
            raise _RequestRefused("the run is stopping; ask again when it has ended")

    async def _retry(self, request: Request) -> str:
        self._not_stopping()
        pipeline = self._pipeline()
        # off the loop: with 30,000 rows, reading takes long enough to delay streams
        failed = await asyncio.to_thread(failed_rows, pipeline.planner)
        asked = asked_of_failed(request, failed)
        if request.rows and not asked:
            raise _RequestRefused(f"not among what has failed: {_rows_words(request.rows)}")
        if not asked:
            parked = request.target is not None and pipeline.models.parked(request.target)
            return self._unpark(request.target) if parked else "nothing has failed"
        for target in {target for target in asked.values() if target is not None}:
            if pipeline.models.parked(target) is not None:
                pipeline.models.unpark(target)
        order = retry_order(request, failed)
        how = self._begin(
            order, can_be_beside=not any(map(order.includes_generation, order.benchmarks))
        )
        return f"trying {len(asked):,} again: {how}"

    async def _evaluate(self, request: Request) -> str:
        self._not_stopping()
        pipeline = self._pipeline()
        order = again_order(request)
        missing = await asyncio.to_thread(_unplayed, pipeline, order)
        if missing:
            raise _RequestRefused(f"not played to the end yet: {_rows_words(missing)}")
        pipeline.check(order)
        if self._is_underway(order):
            return _UNDERWAY
        return f"{plural(len(request.rows), 'conversation')} judged again: {self._begin(order)}"

    async def _simulate(self, request: Request) -> str:
        self._not_stopping()
        pipeline = self._pipeline()
        order = again_order(request)
        known = {target.id for target in pipeline.config.targets}
        unknown = [row for row in request.rows if key_of(row).target_id not in known]
        if unknown:
            raise _RequestRefused(
                f"their target is not in the configuration: {_rows_words(unknown)}"
            )
        pipeline.check(order)
        taken = [
            row
            for row in request.rows
            if pipeline.claims.is_claimed(row.benchmark, Stage.SIMULATE, row.unit)
        ]
        if len(taken) == len(request.rows) or self._is_underway(order):
            return _UNDERWAY
        count = plural(len(request.rows) - len(taken), "conversation")
        return f"{count} played again: {self._begin(order)}"

    async def _label(self, request: Request) -> str:
        if (labels := request.labels) is None:
            raise _RequestRefused("there is no label in the request")
        pipeline = self._pipeline()
        answer = await store_labels(pipeline, labels)
        # the label is stored; writing the files of a large benchmark takes seconds
        self._mirror_soon(pipeline, labels.benchmark)
        return answer

    def _mirror_soon(self, pipeline: Pipeline, benchmark: str) -> None:
        """Write the files in a task, without keeping the requester waiting."""
        self._finish_before_end(asyncio.create_task(self._mirror(pipeline, benchmark)))

    async def _mirror(self, pipeline: Pipeline, benchmark: str) -> None:
        try:
            async with pipeline.claims.files(benchmark):
                await mirror_labels(pipeline, benchmark)
        except CrosswindError as error:
            self.warn(f"the files of {benchmark} lack what people said last: {error}")

    async def _review(self, request: Request) -> str:
        if (asked := request.review) is None:
            raise _RequestRefused("there is no review in the request")
        pipeline = self._pipeline()
        answer = await review_benchmark(pipeline, asked)
        self._mirror_soon(pipeline, asked.benchmark)
        return answer

    def _is_underway(self, order: Order) -> bool:
        """Whether this very order is at work or queued."""
        work = self._running_order
        at_work = () if work is None else (work.order, *work.beside.values())
        return order in at_work or order in self._orders

    def _begin(self, order: Order, *, can_be_beside: bool = True) -> str:
        """Begin an order beside the one at work if possible; otherwise queue it."""
        work = self._running_order
        if work is None or work.main.done() or not can_be_beside:
            return self._follow_up(order)
        work.begin_beside(order)
        return "begun"


def failed_rows(planner: Planner) -> dict[WorkRow, str | None]:
    """Every failed row that a run would try again, with its target. Raises `CrosswindError`."""
    names = planner.workspace.benchmark_names()
    targets = {target.id for target in planner.config.targets}
    over = {name: planner.remaining(name).corrections for name in names}
    return {
        WorkRow(unit.benchmark, unit.unit): unit.target
        for group in standing_failures(planner.reader, names, targets, over)
        for unit in group.units
        if unit.benchmark in over and unit.stage is not Stage.AGGREGATE
    }


def _unplayed(pipeline: Pipeline, order: Order) -> list[WorkRow]:
    """Conversations without a take that counts."""
    return [
        WorkRow.of(name, key)
        for name, wanted in order.again.items()
        for key in sorted(wanted)
        if pipeline.reader.counting_take(name, key) is None
    ]


def _rows_words(rows: Sequence[WorkRow]) -> str:
    rest = len(rows) - NAMED
    named = ", ".join(row.unit for row in rows[:NAMED])
    return named + (f" and {rest} more" if rest > 0 else "")
