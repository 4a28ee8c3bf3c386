"""Takes one benchmark through the stages, judging conversations while others are played."""

from __future__ import annotations

import asyncio
import contextlib
from collections import Counter, deque
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Generic, TypeVar

from engine.benchmark import ConversationKey, Role, Stage, State
from engine.config.benchmark_file import load_definition
from engine.config.schema import ModelSpec
from engine.display import plural
from engine.errors import InputError, StopRequested
from engine.facts import NoteKind
from engine.pipeline.context import RunContext
from engine.pipeline.control import run_together, side_by_side
from engine.pipeline.costs.ranges import JUDGING, SPEAKING
from engine.pipeline.counting import StoredConversations
from engine.pipeline.files import take_in_edits, write_files
from engine.pipeline.generate import (
    ScenarioPlan,
    do_metrics,
    do_scenarios,
    plan_metrics,
    plan_scenarios,
)
from engine.pipeline.judge import (
    JudgingPlanner,
    PlannedJudging,
    Unchecked,
    give_verdicts,
    recounted_verdicts,
)
from engine.pipeline.models import caller_words
from engine.pipeline.order import Order
from engine.pipeline.plan import corrections, plan_run
from engine.pipeline.play import ConversationPlanner, PlannedConversation, asked_conversations, play
from engine.pipeline.review.rewriting import write_again

T = TypeVar("T")


class FairQueue(Generic[T]):
    """Hands out items in order, always for the target that has the fewest in work.

    Items can be added until `close`; afterwards `next` returns None once the queue is empty.
    """

    def __init__(
        self, items: Iterable[tuple[str, T]] = (), *, source: FairQueue[Any] | None = None
    ) -> None:
        self._source = source
        """A queue whose items will become items of this one."""
        self._waiting: dict[str, deque[T]] = {}
        self._in_work: Counter[str] = Counter()
        self._changed = asyncio.Condition()
        self._closed = False
        for lane, item in items:
            self._waiting.setdefault(lane, deque()).append(item)

    @property
    def left(self) -> int:
        """Unfinished items, including those still to come from the source."""
        here = sum(map(len, self._waiting.values())) + self._in_work.total()
        return here + (0 if self._source is None else self._source.left)

    async def put(self, lane: str, item: T) -> None:
        """Append an item to its lane."""
        async with self._changed:
            self._waiting.setdefault(lane, deque()).append(item)
            # each queue has one waiter, the loop that hands out its items
            self._changed.notify()

    async def close(self) -> None:
        """Declare that no more items will be added."""
        async with self._changed:
            self._closed = True
            self._changed.notify_all()

    async def next(self) -> tuple[str, T] | None:
        """Return (lane, item), waiting for one. The caller must call `done` when it is finished."""
        async with self._changed:
            while True:
                lanes = [lane for lane, items in self._waiting.items() if items]
                if lanes:
                    # ties go to the lane that received its first item first
                    lane = min(lanes, key=lambda name: self._in_work[name])
                    self._in_work[lane] += 1
                    return lane, self._waiting[lane].popleft()
                if self._closed:
                    return None
                await self._changed.wait()

    def done(self, lane: str) -> None:
        """Mark a handed-out item of this lane as finished."""
        self._in_work[lane] -= 1


MIRROR_SECONDS = 30.0


@dataclass(slots=True)
class BenchmarkRun:
    """Takes one benchmark through the stages of an order."""

    bench: RunContext
    order: Order
    evaluator: ModelSpec | None
    """A judge to use instead of the configured ones."""
    reestimate: Callable[[RunContext, Order], Awaitable[None]]
    """Updates the expected remaining cost, when more is known about it."""
    beside: bool = False
    """Whether another order is at work. Then this one only plays and judges, leaves the states of
    other rows alone, and writes no notes about stages."""
    failed: int = 0
    kept: set[str] = field(default_factory=set)
    """Warnings about files left as they are that were already given."""
    _unchecked: Unchecked = field(default_factory=dict)
    _taken: set[tuple[Stage, str]] = field(default_factory=set)
    """Rows that this order has claimed."""

    async def all_stages(self) -> int:
        """Do everything that the order asks of this benchmark; return how many rows failed."""
        if self.order.rewrite:
            asked = self.order.rewrite.get(self.bench.name)
            if asked is not None and not await write_again(self.bench, asked):
                self.failed += 1
            return self.failed
        if self.beside:
            return await self._stages()
        self.correct_states()
        try:
            return await self._stages()
        finally:
            # a file that is being edited now is read by the next run
            with contextlib.suppress(InputError):
                self.correct_states(at_end=True)

    async def _stages(self) -> int:
        if not self.beside and self.order.includes_generation(self.bench.name):
            if await self._metrics():
                await self._reestimate_without(Stage.GEN_METRICS)
            # first, because scenarios that a person wrote count before any are planned
            await take_in_edits(self.bench)
            if await self._scenarios():
                await self._reestimate_without(Stage.GEN_METRICS, Stage.GEN_SCENARIOS)
        try:
            await self._talk_and_judge()
        finally:
            for kind, reasons in self._unchecked.items():
                count = plural(len(reasons), "conversation")
                words = f"{count} without a {kind.in_words}: {reasons[-1]}"
                self.bench.note(NoteKind.WARNING, words, Stage.EVALUATE)
            # rows that were not begun, because the run stopped or failed
            for stage, unit in self._taken:
                self.bench.claims.release(self.bench.name, stage, unit)
        add_up = Stage.AGGREGATE in self.order.stages and not self.beside
        if add_up and not self.bench.control.draining:
            with self._stage(Stage.AGGREGATE):
                await self.bench.attempt(Stage.AGGREGATE, self.bench.name, self._write_files)
        return self.failed

    async def _reestimate_without(self, *over: Stage) -> None:
        await self.reestimate(self.bench, replace(self.order, stages=self.order.stages - {*over}))

    @contextlib.contextmanager
    def _stage(self, stage: Stage) -> Iterator[None]:
        if self.beside:
            yield
            return
        self.bench.note(NoteKind.STAGE_STARTED, f"{stage} started", stage)
        yield
        self.bench.note(NoteKind.STAGE_FINISHED, f"{stage} finished", stage)

    async def _metrics(self) -> bool:
        """Write missing metrics; return whether any were planned."""
        if Stage.GEN_METRICS not in self.order.stages:
            return False
        planned = plan_metrics(self.bench, self.order)
        known = self.bench.reader.units(self.bench.name, Stage.GEN_METRICS)
        if not planned and not known:
            # a person wrote them
            done = self.bench.state_row(Stage.GEN_METRICS, self.bench.name, State.DONE)
            self.bench.store.tell(done)
        for work in planned:
            with self._stage(Stage.GEN_METRICS):
                await self.bench.control.checkpoint()
                if await do_metrics(self.bench, work):
                    definition = load_definition(self.bench.definition.path)
                    self.bench = self.bench.with_definition(definition)
                else:
                    self.failed += 1
        return bool(planned)

    async def _scenarios(self) -> bool:
        """Write missing scenarios; return whether any were planned."""
        if Stage.GEN_SCENARIOS not in self.order.stages:
            return False
        plan = plan_scenarios(self.bench, self.order)
        self._tell_of_written(plan)
        if plan.work:
            with self._stage(Stage.GEN_SCENARIOS):
                self.failed += await do_scenarios(self.bench, plan)
                await self._write_files()
            await self.bench.control.checkpoint()
        return bool(plan.work)

    def _tell_of_written(self, plan: ScenarioPlan) -> None:
        """Mark scenarios done that a person wrote, of which no run has announced a row."""
        known = self.bench.reader.units(self.bench.name, Stage.GEN_SCENARIOS)
        rows = self.bench.reader.scenarios(self.bench.name)
        written = dict.fromkeys(row.scenario.metric_id for row in rows)
        written |= dict.fromkeys(row.scenario.id for row in rows if row.played)
        new = written.keys() - known.keys() - {work.unit for work in plan.work}
        self.bench.store.tell(
            *(
                self.bench.state_row(Stage.GEN_SCENARIOS, unit, State.DONE)
                for unit in written
                if unit in new
            )
        )

    async def _talk_and_judge(self) -> None:
        wanted = asked_conversations(self.bench, self.order)
        stored = StoredConversations.of(self.bench.reader, self.bench.name)
        if not self.beside:
            self.bench.store.tell(*recounted_verdicts(stored, self.bench.config.jury))
        talk = ConversationPlanner(self.bench, self.order, stored)
        judging = JudgingPlanner(self.bench, self.order, self.evaluator, stored)
        stages = self.order.stages
        playings = talk.plan(wanted) if Stage.SIMULATE in stages else []
        # claimed before rows are announced as queued, so that no two orders queue the same row
        playings = [
            playing for playing in playings if await self._take(Stage.SIMULATE, playing.wanted.key)
        ]
        # a verdict on a take that is about to be replaced would be wasted
        replayed = {playing.wanted.key for playing in playings}
        judgings = judging.plan(wanted, replayed) if Stage.EVALUATE in stages else []
        judgings = [
            planned for planned in judgings if await self._take(Stage.EVALUATE, planned.key)
        ]
        to_judge = {planned.key for planned in judgings}
        if Stage.EVALUATE in stages:
            # claimed now, judged later: no other order may judge a take about to be replaced
            to_judge |= {key for key in replayed if await self._take(Stage.EVALUATE, key)}
        if not playings and not judgings:
            return
        # what was begun is finished first
        playings.sort(key=lambda playing: playing.open_take is None)
        self._queue(Stage.SIMULATE, [playing.wanted.key for playing in playings])
        self._queue(Stage.EVALUATE, sorted(to_judge))
        talks = FairQueue((playing.wanted.key.target_id, playing) for playing in playings)
        verdicts = FairQueue(
            ((planned.key.target_id, planned) for planned in judgings), source=talks
        )
        for planned in judgings:
            self._open_to_judge(planned.key)
        with contextlib.ExitStack() as notes:
            if playings:
                notes.enter_context(self._stage(Stage.SIMULATE))
            if Stage.EVALUATE in stages:
                notes.enter_context(self._stage(Stage.EVALUATE))
            await self._work_off(talks, verdicts, talk, judging)

    async def _take(self, stage: Stage, key: ConversationKey) -> bool:
        """Claim a row; return whether this order has it now. An order beside another waits for rows
        that the other is about to release."""
        claims, name, unit = self.bench.claims, self.bench.name, str(key)
        take = claims.claim_again(name, stage, unit) if self.beside else None
        taken = claims.claim(name, stage, unit) if take is None else await take
        if taken:
            self._taken.add((stage, unit))
        return taken

    def release(self, stage: Stage, unit: str) -> None:
        """Release a row, so that another order can claim it."""
        self.bench.claims.release(self.bench.name, stage, unit)
        self._taken.discard((stage, unit))

    def correct_states(self, *, at_end: bool = False) -> None:
        """Store the state of each row of work that is in another than the stored one. At the end,
        a failure is kept until the next run, so that its reason can be read."""
        plan = plan_run(self.bench, Order((self.bench.name,)), with_stale=False)
        self.bench.store.tell(
            *(
                self.bench.state_row(row.stage, row.unit, row.state, target=row.target)
                for row in corrections(self.bench, plan)
                if not (at_end and row.was is State.FAILED)
            )
        )

    def _queue(self, stage: Stage, keys: Sequence[ConversationKey]) -> None:
        self.bench.queue(stage, [(str(key), key.target_id) for key in keys])

    async def _work_off(
        self,
        talks: FairQueue[PlannedConversation],
        verdicts: FairQueue[PlannedJudging],
        talk: ConversationPlanner,
        judging: JudgingPlanner,
    ) -> None:
        """Play and judge concurrently; each complete conversation goes to the judges."""
        # all conversations are planned by now, while `verdicts` fills as they end
        await talks.close()
        runner = _ConversationRunner(self, verdicts, talk, judging)

        async def talk_all() -> None:
            await self._hand_out(
                Stage.SIMULATE, talks, runner.play, runner.calls, self._open_to_play
            )
            # not in a `finally`: if playing fails, `together` cancels the judging too
            await verdicts.close()

        judge_all = self._hand_out(
            Stage.EVALUATE, verdicts, self._judge, lambda judging: judging.calls
        )
        await run_together([talk_all(), judge_all])

    def _open_to_judge(self, key: ConversationKey) -> None:
        """Count a finished conversation as open until it is judged."""
        remaining, name = self.bench.budget.remaining, self.bench.name
        calls = remaining.conversation(name, key.target_id, roles=JUDGING)
        remaining.begin(name, str(key), calls)

    async def _open_to_play(self, playing: PlannedConversation) -> None:
        """Wait until the budget covers this conversation beside those that are open. Raises
        `StopRequested`."""
        key, take, bench = playing.wanted.key, playing.open_take, self.bench
        calls = bench.budget.remaining.conversation(
            bench.name,
            key.target_id,
            turns_done=0 if take is None else len(bench.reader.messages(take.seq)) // 2,
            roles=SPEAKING | (JUDGING if Stage.EVALUATE in self.order.stages else frozenset()),
        )
        await bench.budget.begin(bench.name, str(key), calls)

    async def _hand_out(
        self,
        stage: Stage,
        queue: FairQueue[T],
        work: Callable[[str, T], Awaitable[None]],
        calls: Callable[[T], int],
        may_open: Callable[[T], Awaitable[None]] | None = None,
    ) -> None:
        """Run each item in a task of its own, as many at once as the stage allows. `calls` gives
        the number of calls that an item takes; `may_open` waits until an item may be begun, or
        raises `StopRequested`."""
        control = self.bench.control
        slots = control.slots[stage]

        async def one(lane: str, item: T) -> None:
            try:
                async with slots.hold(lane, calls(item)):
                    if await control.may_begin():
                        await work(lane, item)
            finally:
                queue.done(lane)
                slots.end()

        with slots.counting_remaining(queue):
            async with side_by_side() as group:
                while (handed := await queue.next()) is not None:
                    await slots.begin()
                    try:
                        await control.checkpoint()
                        if may_open is not None:
                            await may_open(handed[1])
                    except StopRequested:
                        slots.end()
                        return
                    group.create_task(one(*handed))

    async def _judge(self, lane: str, judging: PlannedJudging) -> None:
        give = partial(give_verdicts, self.bench, judging, self._unchecked)
        unit = str(judging.key)
        try:
            if not await self.bench.attempt(Stage.EVALUATE, unit, give, target=lane):
                self.failed += 1
        except StopRequested:
            return
        finally:
            self.bench.budget.end(self.bench.name, unit)
            self.release(Stage.EVALUATE, unit)

    async def _write_files(self) -> None:
        async with self.bench.claims.files(self.bench.name):
            report = await write_files(self.bench)
        sentences = {*report.kept, *report.failed}
        for sentence in sorted(sentences - self.kept):
            self.bench.note(NoteKind.WARNING, sentence)
        self.kept |= sentences

    @contextlib.asynccontextmanager
    async def mirrored(self) -> AsyncIterator[None]:
        """Mirror the files every `MIRROR_SECONDS` during the block, and when it ends or fails."""
        over = asyncio.Event()
        keeper = asyncio.create_task(self._keep_mirroring(over))
        try:
            yield
        finally:
            over.set()  # not cancelled: a thread that is writing cannot be
            await keeper
            await self._write_files()

    async def _keep_mirroring(self, over: asyncio.Event) -> None:
        while not over.is_set():
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(over.wait(), MIRROR_SECONDS)
            if not over.is_set():
                await self._write_files()


@dataclass(frozen=True, slots=True)
class _ConversationRunner:
    """Plays conversations and hands each to the judges."""

    run: BenchmarkRun
    verdicts: FairQueue[PlannedJudging]
    planner: ConversationPlanner
    judging: JudgingPlanner

    def calls(self, playing: PlannedConversation) -> int:
        """The most calls it may take; how much already exists is known only when it is opened."""
        del playing
        return self.run.bench.config.generation.turns * 2

    async def play(self, lane: str, playing: PlannedConversation) -> None:
        unit = str(playing.wanted.key)
        to_judge = False
        try:
            to_judge = await self._play(lane, playing, unit)
        except StopRequested:
            return
        finally:
            if not to_judge:
                self.run.bench.budget.end(self.run.bench.name, unit)
            self.run.release(Stage.SIMULATE, unit)

    async def _play(self, lane: str, playing: PlannedConversation, unit: str) -> bool:
        """Return whether it goes to the judges."""
        bench, wanted = self.run.bench, playing.wanted
        parked = bench.models.parked(lane)
        if parked is not None:
            # the user model would be paid for a message that nobody answers
            # as a call would fail, so that all rows of the target give the same reason
            who = caller_words(Role.TARGET, lane, bench.models.target(lane).label)
            reason = f"{who}: {parked}"
            failed = bench.state_row(Stage.SIMULATE, unit, State.FAILED, target=lane, reason=reason)
            bench.store.tell(failed)
            self.run.failed += 1
            self._drop_judging(unit, lane)
            return False
        if not bench.reader.has_scenario(bench.name, wanted.key.scenario_id):
            # a person has removed the scenario since this was planned
            bench.store.tell(bench.state_row(Stage.SIMULATE, unit, State.DROPPED, target=lane))
            self._drop_judging(unit, lane)
            return False
        finished: int | None = None

        async def do() -> None:
            nonlocal finished
            finished = await play(bench, playing, self.planner.inputs)

        if not await bench.attempt(Stage.SIMULATE, unit, do, target=lane):
            self.run.failed += 1
        if finished is None:
            self._drop_judging(unit, lane)
            return False
        if Stage.EVALUATE not in self.run.order.stages:
            return False
        await self.verdicts.put(lane, self.judging.of_take(wanted, finished))
        return True

    def _drop_judging(self, unit: str, lane: str) -> None:
        """Drop the row of the verdict: there is nothing to judge until it is played again."""
        bench = self.run.bench
        if Stage.EVALUATE in self.run.order.stages:
            bench.store.tell(bench.state_row(Stage.EVALUATE, unit, State.DROPPED, target=lane))
