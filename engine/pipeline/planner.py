"""Plans and prices orders, checks what they need for faults, and counts a benchmark's remaining
work. It only reads."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Final

from engine.benchmark import Stage, When
from engine.config.benchmark_file import Definition, load_definition
from engine.config.schema import Config, ModelSpec, config_of
from engine.config.secrets import Environment
from engine.config.templates import is_template
from engine.config.workspace import Workspace
from engine.config.yaml_text import read_yaml
from engine.display import plural
from engine.errors import InputError, Problem, merged_problems
from engine.people import ReviewMode
from engine.pipeline.context import BenchmarkContext
from engine.pipeline.costs.budget import ExpectedWork
from engine.pipeline.costs.estimate import Estimator, MeasuredUsage, measured
from engine.pipeline.costs.ranges import CostEstimate, Range
from engine.pipeline.counting import wanted_conversations
from engine.pipeline.models import (
    ModelOpener,
    Models,
    Opener,
    endpoint_of,
)
from engine.pipeline.order import Order, WorkReason
from engine.pipeline.plan import RunPlan, corrections, number_words, plan_run
from engine.pipeline.play import held_scenarios
from engine.pipeline.review.reviews import Reviews, is_required
from engine.pipeline.scenario_edits import check_scenarios
from engine.progress import StateCorrection
from engine.providers.accounts import Accounts
from engine.store.integrity import lost_store
from engine.store.reader import Reader
from engine.trust import NOT_ALLOWED, Trust, UntrustedError

RUN_BUDGET, WORKSPACE_BUDGET = "run.budget", "workspace_budget"


@dataclass(frozen=True, slots=True)
class Refusals:
    """What a run refuses before its first call, in the order in which it is said."""

    beside: Sequence[Problem] = ()
    """What does not prevent a plan."""
    faults: Sequence[Problem] = ()
    """What does."""

    @property
    def all(self) -> list[Problem]:
        return [*self.beside, *self.faults]


@dataclass(slots=True)
class Planner:
    """Plans and prices orders on one workspace. Writes nothing and makes no calls."""

    workspace: Workspace
    config: Config
    reader: Reader
    environ: Mapping[str, str] = field(default_factory=lambda: os.environ)
    opener: Opener | None = None
    """Replaces the usual way to open models."""
    models: Models = field(init=False)
    _environment: Environment = field(init=False)

    def __post_init__(self) -> None:
        self._environment = Environment(self.workspace.root, self.environ)
        # models are opened to find their faults and never called, so nothing connects
        opener = self.opener or ModelOpener(self._environment, Accounts(), lambda _note: None)
        self.models = Models(self.config, opener)

    def context(self, definition: Definition) -> BenchmarkContext:
        """The context of a benchmark or validation run, with its own configuration."""
        config = config_of(self.config, definition.name)
        return BenchmarkContext(self.workspace, config, self.reader, definition)

    def contexts(self, order: Order) -> list[BenchmarkContext]:
        """The contexts of an order's benchmarks. Raises `InputError`."""
        return [
            self.context(load_definition(self.workspace.definition_path(name)))
            for name in order.benchmarks
        ]

    def remaining(self, benchmark: str) -> RemainingWork:
        """What is left to do for a benchmark. Raises `InputError` and `StoreError`."""
        return RemainingWork.of(self.contexts(Order((benchmark,)))[0])

    def check(self, order: Order) -> list[BenchmarkContext]:
        """Check everything that can be known to be wrong before a run; return the contexts.

        Raises `InputError` with all of it.
        """
        contexts = self.contexts(order)
        problems = list(self._problems(order, contexts))
        if problems:
            raise InputError(merged_problems(problems))
        return contexts

    def refusals(self, order: Order, *, anew: bool = False, asks: bool = False) -> Refusals:
        """All that a run refuses before its first call, as far as no server is asked. `anew` allows
        it to start over where the store is gone; with `asks`, a person is asked about what nobody
        has allowed."""
        files, store = self.workspace.benchmarks_dir, self.workspace.store_path(self.config)
        lost = [] if anew else [lost_store(files, store)]
        beside = [*filter(None, lost), *self.templates(order)]
        found = _raised(partial(self.check, order))
        faults = [problem for problem in found if not problem.what.startswith(NOT_ALLOWED)]
        if len(faults) < len(found):
            # without a model's address there is no plan: said once for all of them
            return Refusals(beside, [*self.untrusted(order), *faults])
        untrusted = () if asks else self.untrusted(order)
        return Refusals([*beside, *untrusted], faults)

    def untrusted(self, order: Order) -> Sequence[Problem]:
        """A problem that names what the workspace would do and nobody has allowed, if anything."""
        root, permissions = self.workspace.root, self.config.permissions
        is_allowed = self.is_scripted(order) or Trust(root).covers(permissions)
        return () if is_allowed else UntrustedError(root, permissions).problems

    def is_scripted(self, order: Order) -> bool:
        """Whether every model that may take part is a script."""
        judge = self.judge(order)
        # validation runs take any of `models`
        roles = (*self.config.models_beside_targets, *self.config.models.values())
        others = () if judge is None else (judge,)
        return all(spec.is_offline for spec in (*roles, *others, *self.config.targets))

    def templates(self, order: Order) -> list[Problem]:
        """A problem for each benchmark whose description is still the template's."""
        if Stage.GEN_METRICS not in order.stages:
            return []
        paths = map(self.workspace.definition_path, order.benchmarks)
        what = "this is still the template, so nothing is run"
        hint = "replace `name` and `description` with your own words, or name other benchmarks"
        return [
            read_yaml(path).problem(("description",), what, hint=hint)
            for path in paths
            if is_template(path)
        ]

    def _problems(self, order: Order, contexts: Sequence[BenchmarkContext]) -> Iterator[Problem]:
        for bench in contexts:
            yield from _raised(partial(check_scenarios, bench))
            if (again := order.rewrite.get(bench.name)) is not None:
                reviews = Reviews.of(bench.definition, bench.reader)
                yield from _raised(partial(reviews.rewritable, again.id))
            yield from _no_longer_asked_for(bench, order)
            if Stage.SIMULATE in order.stages:
                yield from _without_pressure(bench)
                yield from _unapproved(bench, order)
        judge = self.judge(order)
        others = () if judge is None else (judge,)
        for config in [bench.config for bench in contexts] or [self.config]:
            specs = (*config.models_beside_targets, *others)
            for spec in (*specs, *config.targets):
                yield from _raised(partial(self.models.open, spec))
            if keys := " and ".join(self._budget_keys):
                unpriced = self.estimator(*specs).unpriced(config, keys, judge)
                yield from () if unpriced is None else (unpriced,)

    @property
    def _budget_keys(self) -> list[str]:
        """The keys of the budgets that are set."""
        usd = {RUN_BUDGET: self.config.run.budget, WORKSPACE_BUDGET: self.config.workspace_budget}
        return [key for key, most in usd.items() if most is not None]

    def judge(self, order: Order) -> ModelSpec | None:
        """The judge that the order names instead of the configured ones, or None."""
        return None if order.evaluator is None else self.config.model_named(order.evaluator)

    def estimator(self, *others: ModelSpec) -> Estimator:
        """An estimator for the configured models and `others`."""
        specs = (*self.config.models_beside_targets, *others)
        real = [spec for spec in (*specs, *self.config.targets) if not spec.is_offline]
        endpoints = {
            spec.identity: endpoint_of(spec, self._environment) for spec in real if spec.is_remote
        }
        return Estimator(
            {model: (place.model, place.base_url) for model, place in endpoints.items()},
            turns=self.config.generation.turns,
            measured=measured(self.reader) if real else MeasuredUsage(),
        )

    def expected_work(self, context: BenchmarkContext, order: Order) -> ExpectedWork:
        """The calls that remain for a benchmark, with what they are expected to cost."""
        judge = self.judge(order)
        others = () if judge is None else (judge,)
        # a branch has another model in a role
        estimator = self.estimator(*context.config.models_beside_targets, *others)
        return estimator.expected(plan_run(context, order, judge, with_stale=False).calls)


def _raised(check: Callable[[], object]) -> Sequence[Problem]:
    try:
        check()
    except InputError as error:
        return error.problems
    return ()


def _no_longer_asked_for(bench: BenchmarkContext, order: Order) -> Iterator[Problem]:
    """A problem if the order names conversations that are no longer wanted."""
    named = order.again.get(bench.name, frozenset())
    asked = wanted_conversations(bench.definition, bench.config, bench.reader) if named else ()
    missing = sorted(map(str, named - {conversation.key for conversation in asked}))
    if missing:
        more = f" and {len(missing) - _NAMED} more" if len(missing) > _NAMED else ""
        yield Problem(
            f"{', '.join(missing[:_NAMED])}{more}: no longer asked for, so nothing was done",
            bench.config.path,
            hint="its metric or target was taken out, its scenario was rejected, or its sample "
            "lies beyond `generation.num_samples`",
        )


_NAMED: Final = 8
"""The most ids in one message."""


def _unapproved(bench: BenchmarkContext, order: Order) -> Iterator[Problem]:
    """A problem if the order names conversations that wait for approval."""
    named = order.again.get(bench.name, ())
    unapproved = held_scenarios(bench) if named else {}
    first = {name for key in named for name in unapproved.get(key.scenario_id, ())}
    if first:
        yield Problem(
            f"{', '.join(sorted(first))}: nobody has approved this yet, which "
            f"`review: required` in {bench.config.path.name} asks for",
            hint=f"`crosswind review {bench.name} --approve {' '.join(sorted(first))}`",
        )


def _without_pressure(bench: BenchmarkContext) -> Iterator[Problem]:
    """A problem for each metric that needs pressure where the conversations never have any."""
    config = bench.config
    if config.has_pressure:
        return
    why = "generation.turns: 1" if config.landmarks else "landmarks: false"
    for number, metric in enumerate(bench.definition.metrics):
        if metric.when is When.UNDER_PRESSURE:
            yield read_yaml(bench.definition.path).problem(
                ("metrics", number, "when"),
                f"{metric.id} must hold `{metric.when}`, from the second landmark on, and none is "
                f"reached with `{why}` in {config.path.name}: all of it would be unscored",
                hint=f"change `{why}`, or say `when: at_the_end` or `when: anywhere` here",
            )


CENT: Final = 0.01


def calls_words(amount: Range) -> str:
    return count_words(amount, "call")


def count_words(amount: Range, noun: str) -> str:
    words = number_words(amount)
    return f"{words} {noun}" + ("" if words == "1" else "s")


def usd(estimate: CostEstimate) -> str:
    """The estimated cost in words: `free`, a range, or a note that prices are unknown."""
    if estimate.is_free:
        return "free"
    known = dollars(estimate.usd)
    if not estimate.unpriced.high:
        return f"about {known}"
    return f"about {known}, and prices that are not known" if estimate.usd.high else "price unknown"


def dollars(amount: Range) -> str:
    """`$5.00 (at most $18.00)`: what is expected and the most that is likely, or one amount where
    both read the same."""
    if amount.high < CENT:
        return "less than a cent"
    expected, most = f"${amount.expected:.2f}", f"${amount.high:.2f}"
    return most if expected == most else f"{expected} (at most {most})"


def total_words(total: CostEstimate) -> str:
    """Calls and cost in words."""
    return f"{calls_words(total.calls)}, {usd(total)}"


@dataclass(frozen=True, slots=True)
class RemainingWork:
    """What is left to do for one benchmark, according to its files and the store."""

    to_review: int = 0
    """Model-written metrics and scenarios that nobody has approved; 0 with `review: off`."""
    required: bool = False
    """Whether approval is required before anything is made from them."""
    metrics: int = 0
    """Metrics that lack scenarios and wait for no approval."""
    to_begin: Mapping[str, int] = field(default_factory=dict)
    """By target: conversations that no run has announced yet and that wait for no approval."""
    called: Sequence[ModelSpec] = ()
    """The models that it takes."""
    to_judge_more: int = 0
    """Conversations that results count, of which a configured judge or pass is still missing."""
    all_rejected: bool = False
    """Whether a person rejected every metric."""
    corrections: Sequence[StateCorrection] = ()
    """Rows of work that are in another state than the stored one."""
    seq: int = 0
    """The last `seq` of the store that it was worked out from."""

    @property
    def conversations(self) -> int:
        """Conversations that no run has announced yet, with all targets."""
        return sum(self.to_begin.values())

    @property
    def lines(self) -> Iterator[str]:
        """What no run has announced yet, in words."""
        if self.metrics:
            yield f"scenarios of {plural(self.metrics, 'metric')} to write"
        if self.conversations:
            yield f"{plural(self.conversations, 'conversation')} to play"
        if self.to_judge_more:
            judged = plural(self.to_judge_more, "conversation")
            yield f"{judged} to judge once more, which results count by the verdicts they have"

    @classmethod
    def of(cls, bench: BenchmarkContext) -> RemainingWork:
        """Work it out from the files and the store, as a run for everything would. Raises
        `InputError` and `StoreError`."""
        seq = bench.reader.last_seq()
        plan = plan_run(bench, Order((bench.name,)), with_stale=False)
        reviews = Reviews.of(bench.definition, bench.reader)
        waiting = [] if bench.config.review is ReviewMode.OFF else reviews.waiting()
        to_write = [work.unit for work in plan.work if work.stage is Stage.GEN_SCENARIOS]
        return cls(
            len(waiting),
            is_required(bench.config, bench.name),
            len({unit.partition("_")[0] for unit in to_write}),
            plan.new + _unannounced(bench, plan),
            [part.spec for calls in plan.calls for part in calls.parts],
            sum(
                work.stage is Stage.EVALUATE
                and work.why is WorkReason.MISSING
                and not work.optional
                and work.unit in plan.made[Stage.EVALUATE]
                for work in plan.work
            ),
            bool(plan.rejected),
            corrections(bench, plan),
            seq,
        )


def _unannounced(bench: BenchmarkContext, plan: RunPlan) -> Counter[str]:
    """By target: conversations of written scenarios that are no row of work yet."""
    missing = [
        work for work in plan.work if (work.stage, work.why) == (Stage.SIMULATE, WorkReason.MISSING)
    ]
    rows = bench.reader.units(bench.name, Stage.SIMULATE, but=plan.settled) if missing else {}
    return Counter(str(work.target) for work in missing if work.unit not in rows)
