"""One benchmark's way through the stages, judging while others still talk."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial

from engine.benchmark import ConversationKey, Stage, State
from engine.config.definition import load_definition
from engine.config.settings import ModelSpec
from engine.facts import NoteKind
from engine.pipeline.control import Drained
from engine.pipeline.conversations import (
    ConversationPlanner,
    Playing,
    Wanted,
    play,
    wanted_conversations,
)
from engine.pipeline.fair_queue import FairQueue
from engine.pipeline.files import write_files
from engine.pipeline.generation import (
    do_metrics,
    do_scenarios,
    plan_metrics,
    plan_scenarios,
)
from engine.pipeline.judging import Judging, JudgingPlanner, give_verdict
from engine.pipeline.order import Order
from engine.pipeline.scenarios_file import take_in_edits
from engine.pipeline.standing import Standing, settled
from engine.pipeline.together import together
from engine.pipeline.workbench import Bench

MIRROR_SECONDS = 30.0


@dataclass(slots=True)
class BenchmarkRun:
    """One benchmark's way through the stages."""

    bench: Bench
    order: Order
    evaluator: ModelSpec
    failed: int = 0
    kept: set[str] = field(default_factory=set)
    """What was said of files that a person changed; once is enough."""

    async def all_stages(self) -> int:
        """How many rows failed."""
        if not self.order.again:
            await self._metrics()
            await take_in_edits(self.bench)
            await self._scenarios()
        await self._talk_and_judge()
        if Stage.AGGREGATE in self.order.stages and not self.bench.control.draining:
            with self._stage(Stage.AGGREGATE):
                await self.bench.attempt(Stage.AGGREGATE, self.bench.name, self._write_files)
        return self.failed

    @contextlib.contextmanager
    def _stage(self, stage: Stage) -> Iterator[None]:
        self.bench.note(NoteKind.STAGE_STARTED, f"{stage} started", stage)
        yield
        self.bench.note(NoteKind.STAGE_FINISHED, f"{stage} finished", stage)

    async def _metrics(self) -> None:
        if Stage.GEN_METRICS not in self.order.stages:
            return
        planned = plan_metrics(self.bench, self.order)
        known = self.bench.reader.units(self.bench.name, Stage.GEN_METRICS).get(self.bench.name)
        if not planned and (known is None or known.state is not State.DONE):
            # a person wrote them, or an engine died before it could say that it had
            done = self.bench.state(Stage.GEN_METRICS, self.bench.name, State.DONE)
            self.bench.store.tell(done)
        for work in planned:
            with self._stage(Stage.GEN_METRICS):
                await self.bench.control.checkpoint()
                if await do_metrics(self.bench, work):
                    definition = load_definition(self.bench.definition.path)
                    self.bench = self.bench.with_definition(definition)
                else:
                    self.failed += 1

    async def _scenarios(self) -> None:
        if Stage.GEN_SCENARIOS not in self.order.stages:
            return
        plan = plan_scenarios(self.bench, self.order)
        stored = self.bench.reader.scenarios(self.bench.name)
        made = {row.scenario.id for row in stored} | {row.scenario.metric_id for row in stored}
        planned = {work.unit for work in plan.work}
        self._correct(Stage.GEN_SCENARIOS, wanted=made | planned, planned=planned, made=made)
        if plan.work:
            with self._stage(Stage.GEN_SCENARIOS):
                self.failed += await do_scenarios(self.bench, plan)
                await self._write_files()
            await self.bench.control.checkpoint()

    async def _talk_and_judge(self) -> None:
        wanted = self._wanted()
        standing = Standing.of(self.bench.reader, self.bench.name)
        talk = ConversationPlanner(self.bench, self.order, standing)
        judging = JudgingPlanner(self.bench, self.order, self.evaluator, standing)
        stages = self.order.stages
        playings = talk.plan(wanted) if Stage.SIMULATE in stages else []
        replayed = {playing.wanted.key for playing in playings}
        judgings = judging.plan(wanted, replayed) if Stage.EVALUATE in stages else []
        self._settle(Stage.SIMULATE, wanted, replayed, standing.counting)
        to_judge = {one.key for one in judgings}
        if Stage.EVALUATE in stages:
            to_judge |= replayed
        self._settle(Stage.EVALUATE, wanted, to_judge, standing.judged)
        if not playings and not judgings:
            return
        self._queue(Stage.SIMULATE, [playing.wanted.key for playing in playings])
        self._queue(Stage.EVALUATE, sorted(to_judge))
        talks = FairQueue((playing.wanted.key.target_id, playing) for playing in playings)
        verdicts = FairQueue((one.key.target_id, one) for one in judgings)
        with contextlib.ExitStack() as notes:
            if playings:
                notes.enter_context(self._stage(Stage.SIMULATE))
            if Stage.EVALUATE in stages:
                notes.enter_context(self._stage(Stage.EVALUATE))
            await self._work_off(talks, verdicts, talk, judging)
        await self._write_files()

    def _settle(
        self,
        stage: Stage,
        wanted: Iterable[Wanted],
        planned: Iterable[ConversationKey],
        made: Iterable[ConversationKey],
    ) -> None:
        self._correct(
            stage,
            wanted={str(one.key) for one in wanted},
            planned={str(key) for key in planned},
            made={str(key) for key in made},
        )

    def _correct(
        self, stage: Stage, *, wanted: set[str], planned: set[str], made: set[str]
    ) -> None:
        rows = self.bench.reader.units(self.bench.name, stage).values()
        self.bench.store.tell(
            *(
                self.bench.state(stage, row.unit, state, target=row.target)
                for row, state in settled(rows, wanted=wanted, planned=planned, made=made)
            )
        )

    def _queue(self, stage: Stage, keys: Sequence[ConversationKey]) -> None:
        self.bench.queue(stage, [(str(key), key.target_id) for key in keys])

    async def _work_off(
        self,
        talks: FairQueue[Playing],
        verdicts: FairQueue[Judging],
        talk: ConversationPlanner,
        judging: JudgingPlanner,
    ) -> None:
        """Talk and judge side by side; what is played to its end goes over to the judges."""
        concurrency = self.bench.config.run.concurrency
        await talks.close()

        async def talk_all() -> None:
            worker = _Talker(self, talks, verdicts, talk, judging)
            await together(worker.work() for _ in range(concurrency.simulate))
            await verdicts.close()

        await together(
            [talk_all(), *(self._judge_all(verdicts) for _ in range(concurrency.evaluate))]
        )

    async def _judge_all(self, verdicts: FairQueue[Judging]) -> None:
        while (item := await verdicts.next()) is not None:
            lane, judging = item
            try:
                if not await self.bench.control.may_begin():
                    return
                give = partial(give_verdict, self.bench, judging, self.evaluator)
                unit = str(judging.key)
                if not await self.bench.attempt(Stage.EVALUATE, unit, give, target=lane):
                    self.failed += 1
            finally:
                verdicts.done(lane)

    def _wanted(self) -> list[Wanted]:
        bench = self.bench
        return list(wanted_conversations(bench.definition, bench.config, bench.reader))

    async def _write_files(self) -> None:
        report = await write_files(self.bench)
        for sentence in set(report.kept) - self.kept:
            self.bench.note(NoteKind.WARNING, sentence)
        self.kept |= set(report.kept)

    @contextlib.asynccontextmanager
    async def mirrored(self) -> AsyncIterator[None]:
        """Keep the files no more than half a minute behind, and write them at the end, however
        that comes."""
        keeper = asyncio.create_task(self._keep_mirroring())
        try:
            yield
        finally:
            keeper.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await keeper
            await self._write_files()

    async def _keep_mirroring(self) -> None:
        while True:
            await asyncio.sleep(MIRROR_SECONDS)
            await self._write_files()


@dataclass(frozen=True, slots=True)
class _Talker:
    """Plays conversations one after the other and hands each to the judges."""

    run: BenchmarkRun
    talks: FairQueue[Playing]
    verdicts: FairQueue[Judging]
    planner: ConversationPlanner
    judging: JudgingPlanner

    async def work(self) -> None:
        while (item := await self.talks.next()) is not None:
            lane, playing = item
            try:
                if not await self.run.bench.control.may_begin():
                    return
                await self._play(lane, playing)
            except Drained:
                return
            finally:
                self.talks.done(lane)

    async def _play(self, lane: str, playing: Playing) -> None:
        bench, one = self.run.bench, playing.wanted
        parked = bench.models.parked(lane)
        if parked is not None:
            # the user model would be paid for a message that nobody answers
            unit = str(one.key)
            failed = bench.state(
                Stage.SIMULATE, unit, State.FAILED, target=lane, reason=f"parked: {parked}"
            )
            bench.store.tell(failed)
            self.run.failed += 1
            self._drop_judging(unit, lane)
            return
        finished: int | None = None

        async def do() -> None:
            nonlocal finished
            finished = await play(bench, playing, self.planner.depends(one))

        if not await bench.attempt(Stage.SIMULATE, str(one.key), do, target=lane):
            self.run.failed += 1
        if finished is None:
            self._drop_judging(str(one.key), lane)
        elif Stage.EVALUATE in self.run.order.stages:
            await self.verdicts.put(lane, self.judging.of_take(one, finished))

    def _drop_judging(self, unit: str, lane: str) -> None:
        """There is nothing to judge until it is played again."""
        bench = self.run.bench
        if Stage.EVALUATE in self.run.order.stages:
            bench.store.tell(bench.state(Stage.EVALUATE, unit, State.DROPPED, target=lane))
