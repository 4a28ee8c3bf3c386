"""Carries out orders, benchmark by benchmark, with the models and the budget that they need."""

from __future__ import annotations

import asyncio
import json
import os
import socket
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from importlib.metadata import version
from typing import Final

from engine.benchmark import Role, Stage
from engine.config.benchmark_file import Definition, load_definition
from engine.config.schema import Config, ModelId
from engine.config.secrets import Environment
from engine.config.workspace import Workspace
from engine.errors import StopRequested
from engine.facts import NoteKind, RunEnd
from engine.people import ReviewRequest
from engine.pipeline.batch_ledger import StoredBatches
from engine.pipeline.context import BenchmarkContext, FaultLog, LiveBoard, RunContext
from engine.pipeline.control import Claims, Control
from engine.pipeline.costs.budget import Budget, BudgetLimit
from engine.pipeline.costs.estimate import LONGEST_WORDS
from engine.pipeline.costs.ranges import CallCost
from engine.pipeline.files import take_in_edits, write_files
from engine.pipeline.models import (
    GivenValues,
    ModelOpener,
    Models,
    Opener,
    caller_words,
    settings_rows,
    stored_memory,
)
from engine.pipeline.order import Order, PriceRange, cut_off_words
from engine.pipeline.planner import CENT, RUN_BUDGET, WORKSPACE_BUDGET, Planner
from engine.pipeline.review.acts import bring_to_file, do_review
from engine.pipeline.scenario_edits import check_scenarios
from engine.pipeline.scheduler import BenchmarkRun
from engine.providers.accounts import Accounts, Agents, Clock
from engine.providers.retry import RetryPolicy
from engine.store.database import Store
from engine.store.mirror import EditPolicy, MirrorReport
from engine.store.reader import Reader
from engine.store.tables import NoteRow, RunRow, UnsettledRow


@dataclass(frozen=True, slots=True)
class RunResult:
    """The result of a run."""

    failed: int
    """Rows that failed in it."""
    stopped: bool
    """Whether it was stopped before its end; the next run continues it."""


UNATTENDED_SECONDS: Final = 60.0
"""How long a run waits for an answer when nobody is watching any more."""
ARRIVING_SECONDS: Final = 10.0
"""How long whoever has started the engine may take to begin watching."""
LOOK_SECONDS: Final = 0.5


@dataclass(frozen=True, slots=True)
class BudgetQuestion:
    """The question whether a run may cost more than was agreed to."""

    agreed_usd: float
    spent_usd: float
    rest_usd: float
    more_usd: float
    """The amount that a yes agrees to."""

    @classmethod
    def of(cls, budget: Budget, rest_usd: float) -> BudgetQuestion:
        """The question for the current state of the budget."""
        more = budget.more_usd(rest_usd)
        return cls(budget.agreed_usd or 0.0, budget.spent_usd, rest_usd, more)

    @property
    def _status_words(self) -> str:
        return (
            "this run is likely to cost more than was agreed to: at most "
            f"${self.agreed_usd:.2f} were agreed to, ${self.spent_usd:.2f} are spent, and the rest "
            f"is expected to cost about ${self.rest_usd:.2f}"
        )

    @property
    def words(self) -> str:
        return (
            f"{self._status_words}. It waits for an answer: `crosswind resume` lets it cost up to "
            f"${self.more_usd:.2f}, `crosswind stop` ends it"
        )

    @property
    def stopped_words(self) -> str:
        return (
            f"{self._status_words}. Nobody is there to be asked, so it stops; the next "
            "`crosswind run` quotes the rest and goes on from there, and `--yes` or `run.budget` "
            "lets it go on unasked"
        )


@dataclass(slots=True)
class Pipeline:
    """Carries out orders on one workspace. Belongs to one event loop; must be closed."""

    workspace: Workspace
    config: Config
    reader: Reader
    store: Store
    live: LiveBoard = field(default_factory=LiveBoard)
    opener: Opener | None = None
    """Replaces the usual way to open models, for tests."""
    environ: Mapping[str, str] = field(default_factory=lambda: os.environ)
    clock: Clock | None = None
    """Replaces the usual clock, sleep and randomness, for tests."""
    retry_policy: RetryPolicy | None = None
    """Replaces the usual limits of calls to real models."""
    agents: Agents | None = None
    """Worker agents that make the requests; None where this process does."""
    given: GivenValues = field(default_factory=GivenValues)
    """What agents are told of keys."""
    attended: Callable[[], bool] = lambda: False
    """Whether anybody is watching who can be asked."""
    awaits_somebody: bool = False
    """Whether somebody may be about to watch, such as the app that has just started this engine."""
    unattended_seconds: float = UNATTENDED_SECONDS
    question: BudgetQuestion | None = field(init=False, default=None)
    """The open question: `resume` answers yes, `drain` no."""
    quote: PriceRange | None = field(init=False, default=None)
    """The quote of the current order."""
    _waiting: asyncio.Task[None] | None = field(init=False, default=None)
    _told_excess: set[tuple[Role, ModelId]] = field(init=False, default_factory=set)
    """The kinds of calls of which was said that they cost more than they may."""
    _told_enough: set[str] = field(init=False, default_factory=set)
    """The keys of budgets of which was said that they cover no further conversation."""
    control: Control = field(init=False)
    claims: Claims = field(init=False, default_factory=Claims)
    budget: Budget = field(init=False)
    planner: Planner = field(init=False)
    _faults: FaultLog = field(init=False)
    _batches: StoredBatches = field(init=False)
    _accounts: Accounts = field(init=False)

    def __post_init__(self) -> None:
        self.control = Control(_rows_at_once(self.config))
        self._batches = StoredBatches(self.store)
        self._faults = FaultLog(self.workspace.root)
        # one for all orders, which share limits, connections and what was learned
        self._accounts = Accounts(
            clock=self.clock,
            retry_policy=self.retry_policy
            or RetryPolicy(first_token_s=self.config.run.first_word_seconds),
            memory=stored_memory(self.reader, self.store.tell),
            agents=self.agents,
        )
        environment = Environment(self.workspace.root, self.environ)
        given = None if self.agents is None else self.given
        opener = self.opener or ModelOpener(
            environment, self._accounts, self._remark, given, self._batches
        )
        self.planner = Planner(self.workspace, self.config, self.reader, self.environ, opener)
        self.budget = Budget(
            self._limits(),
            cost_of=self._cost_of,
            on_spent=self._budget_spent,
            on_enough=self._budget_covers_enough,
            on_excess=self._call_cost_too_much,
            on_beyond=self._ask_to_go_beyond,
            on_begin=self.store.begin_call,
            on_end=self.store.end_call,
            may_begin=self.control.may_begin,
            waits=self._accounts.stoppable,
            batched_usd=sum(one.most_usd for one in self.reader.batches() if one.is_open),
        )
        self._batches.claimed = self.budget.batch_claimed

    def _limits(self) -> list[BudgetLimit]:
        limits = []
        if self.config.run.budget is not None:
            limits.append(BudgetLimit(RUN_BUDGET, self.config.run.budget))
        if self.config.workspace_budget is not None:
            before = self.reader.spent_usd() + self.reader.unsettled_usd()
            limit = self.config.workspace_budget
            limits.append(BudgetLimit(WORKSPACE_BUDGET, limit, before, counts_batches=True))
        return limits

    def _remark(self, text: str) -> None:
        """Store a warning about a model."""
        self._note(NoteKind.WARNING, text)

    def _budget_spent(self, limit: BudgetLimit, usd: float) -> None:
        if not self.control.draining:
            spent = limit.before_usd + self.budget.spent_usd
            batched = self.budget.batched_usd if limit.counts_batches else 0.0
            out = f"up to ${batched:.4f} more are in batches, " if batched else ""
            self._note(
                NoteKind.WARNING,
                f"`{limit.key}`, ${limit.usd:.2f}, has no room for another call: ${spent:.4f} are "
                f"spent, {out}and it may cost up to ${usd:.4f}, {LONGEST_WORDS}",
            )
            self.drain()

    def _call_cost_too_much(self, role: Role, model: ModelId, usd: float, most_usd: float) -> None:
        # said once of each kind of calls; without a price, nothing was allowed
        if most_usd and (role, model) not in self._told_excess:
            self._told_excess.add((role, model))
            keys = " and ".join(f"`{limit.key}`" for limit in self.budget.limits)
            self._note(
                NoteKind.WARNING,
                f"{caller_words(role, None, model.label)}: a call cost ${usd:.4f}, more than the "
                f"${most_usd:.4f} that its price and `max_tokens` allow, so calls under way may "
                f"pass {keys}; later ones like it are counted with what was charged too much",
            )

    def _budget_covers_enough(self, limit: BudgetLimit) -> None:
        if limit.key not in self._told_enough:
            self._told_enough.add(limit.key)
            left = limit.usd - limit.before_usd - self.budget.spent_usd
            self._note(
                NoteKind.WARNING,
                f"${left:.2f} of `{limit.key}` are left, which is likely to be enough for the "
                "conversations that are open and for no further one, so these are finished first",
            )

    async def _ask_to_go_beyond(self, rest_usd: float) -> bool:
        """Ask whether the run may cost more than was agreed to, and wait for the answer. Stop the
        run if nobody can be asked."""
        if self.control.draining:
            return False
        if self.question is None:
            question = BudgetQuestion.of(self.budget, rest_usd)
            if not (self.attended() or self.awaits_somebody):
                self._note(NoteKind.WARNING, question.stopped_words)
                self.drain()
                return False
            self.question = question
            self._note(NoteKind.WARNING, question.words)
            self.pause()
            # a separate task: the waiting calls are paused and cannot count the time
            self._waiting = asyncio.create_task(self._wait_for_somebody(question))
        self.control.pause()  # a `resume` of another pause has not answered this question
        return await self.control.may_begin()

    async def _wait_for_somebody(self, question: BudgetQuestion) -> None:
        """Stop the run if its question stays unanswered, so that it does not hold the workspace."""
        alone, most = 0.0, ARRIVING_SECONDS
        while self.question is not None and not self.control.draining:
            if self.attended():
                # somebody has been here, and gets more time to come back than one who never came
                alone, most = 0.0, self.unattended_seconds
            await asyncio.sleep(LOOK_SECONDS)
            alone += LOOK_SECONDS
            if alone >= most and not self.attended():
                self._note(NoteKind.WARNING, question.stopped_words)
                self.question = None
                self.drain()

    def _stop_waiting(self) -> None:
        """Cancel the task that waits for an answer. It sleeps between checks: it would wait for the
        answer to the next question too, or be pending when the loop ends."""
        if self._waiting is not None:
            self._waiting.cancel()

    @property
    def waiting_messages(self) -> int:
        """How many messages on the live board wait to be sent. Callable from any thread."""
        return self.live.waiting(self._accounts.stoppable.tasks())

    @property
    def models(self) -> Models:
        return self.planner.models

    def context_of(self, definition: Definition) -> RunContext:
        """The context for working on one benchmark, with its own configuration."""
        return self._bench(self.planner.context(definition))

    def _bench(self, context: BenchmarkContext) -> RunContext:
        return RunContext(
            context.workspace,
            context.config,
            context.reader,
            context.definition,
            store=self.store,
            models=self.models,
            live=self.live,
            control=self.control,
            claims=self.claims,
            budget=self.budget,
            faults=self._faults,
        )

    def check(self, order: Order) -> list[RunContext]:
        """Check everything that can be known to be wrong before a run; return the contexts.

        Raises `InputError`.
        """
        return [self._bench(context) for context in self.planner.check(order)]

    def _cost_of(self, role: Role, model: ModelId) -> CallCost:
        """What a role's calls to a model may cost; 0 without a known price."""
        entries = [spec for spec in self.config.every_model if spec.identity == model]
        estimator = self.planner.estimator(*entries)
        known = [estimator.cost_of_call(spec, role) for spec in entries]
        costs = [cost or CallCost(0.0, 0.0) for cost in known]
        # entries may differ in price and `max_tokens`: what is reserved is enough for each of them
        return CallCost(*map(max, zip(*costs, strict=True)))

    async def reestimate(self, bench: RunContext, order: Order, *, beside: bool = False) -> None:
        """Update the expected remaining cost of a benchmark, if the run was quoted or limited."""
        if order.quote is None and not self.budget.limits:
            return
        work = await asyncio.to_thread(self.planner.expected_work, bench, order)
        if beside:
            self.budget.remaining.expect_more(bench.name, work)
        else:
            self.budget.remaining.expect(bench.name, work)

    async def close(self) -> None:
        """Close all connections."""
        self._stop_waiting()
        await self._accounts.close()

    async def work_beside(self, order: Order) -> int:
        """Carry out an order about conversations beside the current one; return how many rows
        failed.

        Raises `CrosswindError`.
        """
        failed = 0
        benches = self.check(order)
        if order.quote is not None:
            # it was priced and agreed to separately, on top of the run
            self.budget.agree_more(order.quote.high_usd)
        for bench in benches:
            await self.reestimate(bench, order, beside=True)
        for bench in benches:
            failed += await self._benchmark(bench, order, beside=True)
        return failed

    async def run_order(self, order: Order) -> RunResult:
        """Carry out one order, and stay open for more.

        Raises `CrosswindError`.
        """
        for context in self.planner.contexts(order):
            # after a kill, a person's decisions may be in the store but not in the file yet;
            # planning without them would undo them
            await bring_to_file(context, self.store)
        benches = self.check(order)
        self.store.tell(self._run_row(order))
        await self._batches.give_up(unsure=order.resubmit)
        known = {row.digest for row in self.reader.model_settings()}
        for row in settings_rows(self.config, [bench.definition for bench in benches], known):
            self.store.tell(row)
        self._settle()
        self._note(NoteKind.RUN_STARTED, "run started")
        for bench in benches:
            for warning in (*bench.definition.warnings, *check_scenarios(bench)[1]):
                bench.note(NoteKind.WARNING, warning)
        # kept if an error ends the run, so that a later watcher is not told that it is done
        failed, how = 0, RunEnd.BROKEN
        self.quote = quote = order.quote
        if quote is not None:
            agreed = quote.high_usd if quote.binding else None
            self.budget.agree(agreed, quote.expected_usd)
        try:
            for bench in benches:
                # all benchmarks before the first begins: a budget that knows only one would take
                # the others to be free
                await self.reestimate(bench, order)
            for bench in benches:
                failed += await self._benchmark(bench, order)
                if self.control.draining:
                    break
            how = RunEnd.STOPPED if self.control.draining else RunEnd.DONE
        except asyncio.CancelledError:
            how = RunEnd.STOPPED
            raise
        finally:
            self._note(NoteKind.RUN_ENDED, how)
        return RunResult(failed, self.control.draining)

    def _settle(self) -> None:
        """Count calls that were cut off as the most that they may have cost."""
        if usd := self.reader.unsettled_usd():
            self.store.tell(UnsettledRow(most_usd=usd, counted_usd=usd))
            if usd >= CENT:
                self._note(NoteKind.WARNING, f"{cut_off_words(usd)}, and are counted so")

    def pause(self) -> None:
        """Begin nothing new until `resume`. Call this and the next two on the run's event loop."""
        if not self.control.paused and not self.control.draining:
            self.control.pause()
            self._note(NoteKind.PAUSED, "paused")

    def resume(self) -> str:
        """Go on, and say so in words; if the run waits for an answer, agree to the higher cost."""
        answer = "running"
        if self.question is not None:
            more, self.question = self.question.more_usd, None
            self._stop_waiting()
            self.budget.agree(more)
            answer = f"running, for up to ${more:.2f}"
            self._note(NoteKind.WARNING, f"it was agreed that this run costs up to ${more:.2f}")
        if self.control.paused:
            self.control.resume()
            self._note(NoteKind.RESUMED, "resumed")
        return answer

    def drain(self) -> None:
        """Finish the messages being spoken, then end."""
        if not self.control.draining:
            self.control.drain()
            # calls that wait to be sent are not being spoken
            self._accounts.stoppable.stop()
            self._note(NoteKind.DRAINING, "finishing what is being spoken")

    def cancel_batches(self) -> None:
        """Have providers cancel, when this is closed, what is out in batches."""
        self._batches.cancels = True

    def _run_row(self, order: Order) -> RunRow:
        return RunRow(
            benchmarks=order.benchmarks,
            config=json.dumps(self.config.public(), ensure_ascii=False),
            version=version("crosswind"),
            host=socket.gethostname(),
            pid=os.getpid(),
        )

    def _note(self, kind: NoteKind, text: str) -> None:
        self.store.tell(NoteRow(kind=kind, benchmark="", stage=None, text=text))

    async def _benchmark(self, bench: RunContext, order: Order, *, beside: bool = False) -> int:
        run = BenchmarkRun(bench, order, self.planner.judge(order), self.reestimate, beside)
        try:
            async with run.mirrored():
                return await run.all_stages()
        except StopRequested:
            return run.failed


BATCHED_ROWS: Final = 5_000
"""Rows of work at once whose calls are made in batches: many, as each takes hours, and not all, as
a transcript of each is held in memory."""


def _rows_at_once(config: Config) -> dict[Stage, int]:
    concurrency = config.run.concurrency
    judges = [*config.judges, *([config.checker] if config.checks.kinds else [])]
    judged = BATCHED_ROWS if any(spec.batch for spec in judges) else 0
    written = BATCHED_ROWS if config.generator.batch else 0
    return {
        Stage.GEN_SCENARIOS: max(concurrency.gen_scenarios, written),
        Stage.SIMULATE: concurrency.simulate,
        Stage.EVALUATE: max(concurrency.evaluate, judged),
    }


async def mirror_benchmark(
    pipeline: Pipeline, name: str, edits: EditPolicy = EditPolicy.LEAVE
) -> MirrorReport:
    """Write the files of one benchmark, after reading a person's edits."""
    bench = pipeline.context_of(load_definition(pipeline.workspace.definition_path(name)))
    await take_in_edits(bench)
    return await write_files(bench, edits)


async def review_benchmark(pipeline: Pipeline, asked: ReviewRequest) -> str:
    """Carry out a review request and say what was done. Raises as `do_review`."""
    pipeline.workspace.require_benchmarks([asked.benchmark])
    path = pipeline.workspace.definition_path(asked.benchmark)
    return await do_review(pipeline.context_of(load_definition(path)), asked)
