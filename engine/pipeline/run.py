"""A run: for each benchmark the stages in order, judging while others still talk."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import socket
from collections.abc import AsyncIterator, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from importlib.metadata import version

from engine.benchmark import ConversationKey, Role, Stage, State
from engine.config.definition import Definition, load_definition
from engine.config.environment import Environment
from engine.config.settings import Config, ModelSpec
from engine.config.workspace import Workspace
from engine.facts import NoteKind
from engine.pipeline.budget import Budget
from engine.pipeline.control import Control, Drained
from engine.pipeline.conversations import (
    ConversationPlanner,
    Playing,
    Wanted,
    play,
    wanted_conversations,
)
from engine.pipeline.estimate import Estimator
from engine.pipeline.fair_queue import FairQueue
from engine.pipeline.generation import (
    do_metrics,
    do_scenarios,
    plan_metrics,
    plan_scenarios,
)
from engine.pipeline.judging import Judging, JudgingPlanner, give_verdict
from engine.pipeline.live import LiveBoard
from engine.pipeline.models import (
    ModelOpener,
    Models,
    Opener,
    StoredMemory,
    endpoint_of,
    prices_of,
)
from engine.pipeline.order import Order
from engine.pipeline.results import benchmark_results
from engine.pipeline.scenarios_file import check_scenarios, take_in_edits
from engine.pipeline.standing import Standing, settled
from engine.pipeline.together import together
from engine.pipeline.workbench import Bench
from engine.providers.accounts import Accounts
from engine.providers.course import Patience
from engine.providers.ladder import Memory
from engine.providers.world import World
from engine.store.database import Store, open_reader
from engine.store.mirror import Mirror, MirrorReport, TargetName
from engine.store.reader import Reader
from engine.store.rows import NoteRow, RunRow

MIRROR_SECONDS = 30.0


@dataclass(frozen=True, slots=True)
class RunResult:
    """How a run came out."""

    failed: int
    """Rows that failed in it."""
    stopped: bool
    """Whether it was stopped before its end; the next run goes on from there."""


@dataclass(slots=True)
class Pipeline:
    """Does what an order asks, on one workspace."""

    workspace: Workspace
    config: Config
    reader: Reader
    writing: Store | None = None
    """None for planning, which writes nothing."""
    live: LiveBoard = field(default_factory=LiveBoard)
    control: Control = field(default_factory=Control)
    evaluator: ModelSpec | None = None
    """Another judge than the configuration's, for this run."""
    opener: Opener | None = None
    """Another way to open models than the usual one, for tests."""
    environ: Mapping[str, str] = field(default_factory=lambda: os.environ)
    world: World | None = None
    """Another clock, sleep and chance than the usual ones, for tests."""
    patience: Patience | None = None
    """What a call to a real model may take, where that is not the usual."""
    budget: Budget = field(init=False)
    _environment: Environment = field(init=False)
    _accounts: Accounts = field(init=False)
    _models: Models = field(init=False)

    def __post_init__(self) -> None:
        self._accounts = Accounts(
            world=self.world,
            patience=self.patience,
            memory=self._memory(),
            prices=prices_of(self.config),
        )
        self._environment = Environment(self.workspace.root, self.environ)
        opener = self.opener or ModelOpener(self._environment, self._accounts, self._remark)
        self._models = Models(self.config, opener)
        self.budget = Budget(
            self.config.run.budget, first_usd=self._first_usd, on_spent=self._spent
        )

    def _memory(self) -> Memory | None:
        return None if self.writing is None else StoredMemory(self.reader, self.writing.tell)

    def _remark(self, text: str) -> None:
        """Something about a model that a person should know."""
        if self.writing is not None:
            self._note(NoteKind.WARNING, "", text)

    def _spent(self) -> None:
        if not self.control.draining:
            over = self.budget.overshoot_usd
            self._note(
                NoteKind.WARNING,
                "",
                f"the budget of ${self.config.run.budget:.2f} has no room for another call: "
                f"${self.budget.spent_usd:.4f} are spent, and up to ${over:.4f} are in the air",
            )
            self.drain()

    @property
    def store(self) -> Store:
        if self.writing is None:
            raise RuntimeError("a plan writes nothing")
        return self.writing

    def bench(self, definition: Definition) -> Bench:
        return Bench(
            workspace=self.workspace,
            config=self.config,
            reader=self.reader,
            writing=self.writing,
            models=self._models,
            live=self.live,
            control=self.control,
            budget=self.budget,
            definition=definition,
        )

    def check(self, order: Order) -> list[Bench]:
        """Everything that can be known to be wrong before anything is done.

        Raises `InputError` with all of it.
        """
        benches = [
            self.bench(load_definition(self.workspace.definition_path(name)))
            for name in order.benchmarks
        ]
        for bench in benches:
            check_scenarios(bench)
        for spec in (self.config.user_model, self.config.evaluator_model, self.config.generator):
            self._models.open(spec)
        for target in self.config.targets:
            self._models.open(target)
        if self.evaluator is not None:
            self._models.open(self.evaluator)
        if self.config.run.budget is not None:
            self.estimator().require_prices(self.config)
        return benches

    def estimator(self) -> Estimator:
        """Prices calls before they are made."""
        specs = (self.config.user_model, self.config.evaluator_model, self.config.generator)
        real = [spec for spec in (*specs, *self.config.targets) if not spec.is_offline]
        addresses = {spec.model: endpoint_of(spec, self._environment).base_url for spec in real}
        return Estimator(prices_of(self.config), addresses)

    def _first_usd(self, role: Role, label: str) -> float:
        """What the first call of a role to a model may cost, before one has been seen."""
        if self.config.run.budget is None:
            return 0.0
        specs = (self.config.user_model, self.config.evaluator_model, self.config.generator)
        spec = next(one for one in (*specs, *self.config.targets) if one.label == label)
        price = self.estimator().call(spec, role)
        return 0.0 if price is None else price.high

    async def run(self, order: Order) -> RunResult:
        """Do it. Cancelling the task that awaits this stops at once; what is on disk stays.

        Raises `CrosswindError`.
        """
        benches = self.check(order)
        self.store.tell(self._run_row(order))
        self._note(NoteKind.RUN_STARTED, "", "run started")
        for bench in benches:
            for warning in (*bench.definition.warnings, *check_scenarios(bench)[1]):
                bench.note(NoteKind.WARNING, warning)
        failed, how = 0, "stopped"
        try:
            for bench in benches:
                failed += await self._benchmark(bench, order)
                if self.control.draining:
                    break
            how = "stopped" if self.control.draining else "done"
        finally:
            await self._accounts.close()
            self._note(NoteKind.RUN_ENDED, "", how)
        return RunResult(failed, self.control.draining)

    def pause(self) -> None:
        """Begin nothing new until `resume`. Call these on the run's event loop."""
        if not self.control.paused and not self.control.draining:
            self.control.pause()
            self._note(NoteKind.PAUSED, "", "paused")

    def resume(self) -> None:
        if self.control.paused:
            self.control.resume()
            self._note(NoteKind.RESUMED, "", "resumed")

    def drain(self) -> None:
        """Finish what is being spoken, then end."""
        if not self.control.draining:
            self.control.drain()
            self._note(NoteKind.DRAINING, "", "finishing what is being spoken")

    def _run_row(self, order: Order) -> RunRow:
        return RunRow(
            benchmarks=order.benchmarks,
            config=json.dumps(self.config.public(), ensure_ascii=False),
            version=version("crosswind"),
            host=socket.gethostname(),
            pid=os.getpid(),
        )

    def _note(self, kind: NoteKind, benchmark: str, text: str, stage: Stage | None = None) -> None:
        self.store.tell(NoteRow(kind=kind, benchmark=benchmark, stage=stage, text=text))

    async def _benchmark(self, bench: Bench, order: Order) -> int:
        run = _BenchmarkRun(bench, order, self.evaluator or bench.config.evaluator_model)
        try:
            async with run.mirrored():
                return await run.all_stages()
        except Drained:
            return run.failed


@dataclass(slots=True)
class _BenchmarkRun:
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


async def write_files(bench: Bench) -> MirrorReport:
    """Mirror the store to the documented files, off the loop."""
    report = await asyncio.to_thread(_mirror, bench)
    await bench.store.set_mirrored(report.digests, through=report.through)
    return report


async def mirror_benchmark(pipeline: Pipeline, name: str) -> MirrorReport:
    """Write the files of one benchmark, after taking in what a person edited."""
    bench = pipeline.bench(load_definition(pipeline.workspace.definition_path(name)))
    await take_in_edits(bench)
    return await write_files(bench)


def _mirror(bench: Bench) -> MirrorReport:
    """On a thread of its own, so with a reader of its own."""
    with contextlib.closing(open_reader(bench.store.path)) as reader:
        wanted = list(wanted_conversations(bench.definition, bench.config, reader))
        rows = benchmark_results(bench.definition, bench.config, reader, wanted)
        return Mirror(bench.workspace.root, reader).write_benchmark(
            bench.name,
            metrics=bench.definition.metrics,
            targets=[TargetName(target.id, target.model) for target in bench.config.targets],
            results=rows if wanted else None,
        )


@dataclass(frozen=True, slots=True)
class _Talker:
    """Plays conversations one after the other and hands each to the judges."""

    run: _BenchmarkRun
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
            return
        finished: int | None = None

        async def do() -> None:
            nonlocal finished
            finished = await play(bench, playing, self.planner.depends(one))

        if not await bench.attempt(Stage.SIMULATE, str(one.key), do, target=lane):
            self.run.failed += 1
        if Stage.EVALUATE not in self.run.order.stages:
            return
        if finished is None:
            # there is nothing to judge until it is played again
            out = bench.state(Stage.EVALUATE, str(one.key), State.DROPPED, target=lane)
            bench.store.tell(out)
        else:
            await self.verdicts.put(lane, self.judging.of_take(one, finished))
