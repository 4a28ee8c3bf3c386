"""A run: what an order asks, benchmark by benchmark, with the models and the budget it needs."""

from __future__ import annotations

import asyncio
import json
import os
import socket
from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib.metadata import version

from engine.benchmark import Role, Stage
from engine.config.definition import Definition, load_definition
from engine.config.environment import Environment
from engine.config.settings import Config, ModelSpec
from engine.config.workspace import Workspace
from engine.facts import NoteKind, RunEnd
from engine.pipeline.benchmark_run import BenchmarkRun
from engine.pipeline.branching import config_of
from engine.pipeline.budget import Budget
from engine.pipeline.control import Control, Drained
from engine.pipeline.desk import Desk
from engine.pipeline.estimate import Estimator
from engine.pipeline.fault_log import FaultLog
from engine.pipeline.files import write_files
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
from engine.pipeline.scenarios_file import check_scenarios, take_in_edits
from engine.pipeline.workbench import Bench
from engine.providers.accounts import Accounts
from engine.providers.course import Patience
from engine.providers.ladder import Memory
from engine.providers.world import World
from engine.store.database import Store
from engine.store.mirror import Edits, MirrorReport
from engine.store.reader import Reader
from engine.store.rows import NoteRow, RunRow


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
    evaluator: ModelSpec | None = None
    """Another judge than the configuration's, for this run."""
    opener: Opener | None = None
    """Another way to open models than the usual one, for tests."""
    environ: Mapping[str, str] = field(default_factory=lambda: os.environ)
    world: World | None = None
    """Another clock, sleep and chance than the usual ones, for tests."""
    patience: Patience | None = None
    """What a call to a real model may take, where that is not the usual."""
    control: Control = field(init=False)
    desk: Desk = field(init=False, default_factory=Desk)
    budget: Budget = field(init=False)
    _faults: FaultLog = field(init=False)
    _environment: Environment = field(init=False)
    _accounts: Accounts = field(init=False)
    _models: Models = field(init=False)

    def __post_init__(self) -> None:
        concurrency = self.config.run.concurrency
        self.control = Control(
            {
                Stage.GEN_SCENARIOS: concurrency.gen_scenarios,
                Stage.SIMULATE: concurrency.simulate,
                Stage.EVALUATE: concurrency.evaluate,
            }
        )
        self._faults = FaultLog(self.workspace.root)
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
    def models(self) -> Models:
        return self._models

    @property
    def store(self) -> Store:
        if self.writing is None:
            raise RuntimeError("a plan writes nothing")
        return self.writing

    def bench(self, definition: Definition) -> Bench:
        return Bench(
            workspace=self.workspace,
            config=config_of(self.config, definition.name),
            reader=self.reader,
            writing=self.writing,
            models=self._models,
            live=self.live,
            control=self.control,
            desk=self.desk,
            budget=self.budget,
            definition=definition,
            faults=self._faults,
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
        judge = self._judge(order)
        others = () if judge is None else (judge,)
        for config in [bench.config for bench in benches] or [self.config]:
            roles = (config.user_model, *config.judges, config.generator)
            for spec in (*roles, *config.targets, *others):
                self._models.open(spec)
            if config.run.budget is not None:
                self.estimator(*roles).require_prices(config)
        return benches

    def estimator(self, *others: ModelSpec) -> Estimator:
        """Prices calls before they are made, also those of other models than the usual ones."""
        specs = (self.config.user_model, *self.config.judges, self.config.generator, *others)
        real = [spec for spec in (*specs, *self.config.targets) if not spec.is_offline]
        addresses = {spec.model: endpoint_of(spec, self._environment).base_url for spec in real}
        return Estimator(prices_of(self.config), addresses)

    def _first_usd(self, role: Role, label: str) -> float:
        """What the first call of a role to a model may cost, before one has been seen."""
        if self.config.run.budget is None:
            return 0.0
        specs = (self.config.user_model, *self.config.judges, self.config.generator)
        every = (*specs, *self.config.targets, *self.config.models.values())
        spec = next((one for one in every if one.label == label), None)
        price = None if spec is None else self.estimator().call(spec, role)
        return 0.0 if price is None else price.high

    def _judge(self, order: Order) -> ModelSpec | None:
        """Another judge than those of the configuration, where one is named."""
        if order.evaluator is not None:
            return self.config.model_named(order.evaluator)
        return self.evaluator

    async def run(self, order: Order) -> RunResult:
        """Do one order and close. Cancelling the task that awaits this stops at once; what is on
        disk stays.

        Raises `CrosswindError`.
        """
        try:
            return await self.work(order)
        finally:
            await self.close()

    async def close(self) -> None:
        """Let go of every connection."""
        await self._accounts.close()

    async def beside(self, order: Order) -> int:
        """Do an order about conversations while another is at work; how many rows failed.

        Raises `CrosswindError`.
        """
        failed = 0
        for bench in self.check(order):
            failed += await self._benchmark(bench, order, beside=True)
        return failed

    async def work(self, order: Order) -> RunResult:
        """Do one order, as `run` does, and stay open for more.

        Raises `CrosswindError`.
        """
        benches = self.check(order)
        self.store.tell(self._run_row(order))
        self._note(NoteKind.RUN_STARTED, "", "run started")
        for bench in benches:
            for warning in (*bench.definition.warnings, *check_scenarios(bench)[1]):
                bench.note(NoteKind.WARNING, warning)
        failed, how = 0, RunEnd.BROKEN
        try:
            for bench in benches:
                failed += await self._benchmark(bench, order)
                if self.control.draining:
                    break
            how = RunEnd.STOPPED if self.control.draining else RunEnd.DONE
        except asyncio.CancelledError:
            how = RunEnd.STOPPED
            raise
        finally:
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

    async def _benchmark(self, bench: Bench, order: Order, *, beside: bool = False) -> int:
        run = BenchmarkRun(bench, order, self._judge(order), beside)
        try:
            async with run.mirrored():
                return await run.all_stages()
        except Drained:
            return run.failed


async def mirror_benchmark(
    pipeline: Pipeline, name: str, edits: Edits = Edits.LEAVE
) -> MirrorReport:
    """Write the files of one benchmark, after taking in what a person edited."""
    bench = pipeline.bench(load_definition(pipeline.workspace.definition_path(name)))
    await take_in_edits(bench)
    return await write_files(bench, edits)
