"""What a run would call and cost, in words and as JSON, and the question whether to begin."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from math import isfinite
from typing import Any, Final

from engine.benchmark import Stage
from engine.cli.access import called_from_here, pass_gate, planning, writing
from engine.cli.commands.typed import Spends
from engine.cli.console import goes_on, tell
from engine.cli.lines import rejected_sentence, waiting_sentence
from engine.cli.session import Session
from engine.config.schema import Config, ModelSpec
from engine.display import plural
from engine.doctor.preflight import look_first
from engine.errors import InputError, Problem
from engine.pipeline.batch_ledger import batch_lines
from engine.pipeline.costs.estimate import FEWEST, LONGEST_WORDS, Estimator
from engine.pipeline.costs.ranges import NOTHING, Calls, CostEstimate, Range, StageCalls
from engine.pipeline.order import Order, PricedOrder, budget_words, cut_off_words
from engine.pipeline.plan import RunPlan, plan_run, with_quote
from engine.pipeline.planner import CENT, calls_words, count_words, total_words, usd
from engine.pipeline.power import Detectable, detectable_differences, power_sentences
from engine.pipeline.scenario_edits import reader_of_files
from engine.store.tables import UnsettledRow
from engine.trust import Trust

PILOT_BUDGET: Final = 1.0
"""US dollars."""


@dataclass(frozen=True, slots=True)
class PlannedOrder:
    """What an order would do, benchmark by benchmark."""

    plans: Sequence[RunPlan]
    """Priced."""
    powers: Sequence[Sequence[Detectable]]
    """The smallest differences that each benchmark could detect."""
    call_usd: float = 0.0
    """The most that its dearest call may cost; 0 where not known."""
    doubts: Sequence[str] = ()
    """What published prices say of models that are free by the configuration."""

    @property
    def total(self) -> CostEstimate:
        return sum((plan.total for plan in self.plans), NOTHING)


def plans_of(session: Session, order: Order, *, powers: bool) -> PlannedOrder:
    """The plan of an order, priced; with `powers`, also the differences it could detect. Raises
    `InputError`."""
    named = order.evaluator
    evaluator = None if named is None else session.config.model_named(named)
    with planning(session) as planner:
        benches = planner.contexts(order)
        estimator = planner.estimator(*(() if evaluator is None else (evaluator,)))
        plans = [plan_run(bench, order, evaluator).priced(estimator) for bench in benches]
        return PlannedOrder(
            plans,
            [
                detectable_differences(
                    bench.definition,
                    bench.config,
                    reader_of_files(bench.definition, bench.config, bench.reader),
                )
                # of a plan that is done, results say what they find
                if plan.work
                else []
                for bench, plan in zip(benches, plans, strict=True)
                if powers
            ],
            max((_most_usd(estimator, part) for part in _parts(plans)), default=0.0),
            [*dict.fromkeys(_doubts(estimator, plans))],
        )


def _most_usd(estimator: Estimator, part: Calls) -> float:
    cost = estimator.cost_of_call(part.spec, part.role)
    return 0.0 if cost is None else cost.most_usd


def _doubts(estimator: Estimator, plans: Sequence[RunPlan]) -> Iterator[str]:
    for part in _parts(plans):
        if (listed := estimator.listed_price(part.spec)) is not None:
            yield (
                f"{part.spec.label} is free by its `price`, but {part.spec.destination} is known "
                f"to charge ${listed[0]:.4g} in, ${listed[1]:.4g} out per million tokens"
            )


def called_by(plans: Sequence[RunPlan]) -> list[ModelSpec]:
    return [part.spec for part in _parts(plans)]


def _parts(plans: Sequence[RunPlan]) -> Iterator[Calls]:
    return (part for plan in plans for calls in plan.calls for part in calls.parts)


# In words


def plan_lines(
    plan: RunPlan, power: Sequence[Detectable] = (), *, every_row: bool = False
) -> Iterator[str]:
    yield f"{plan.benchmark}: {_work_words(plan)}"
    yield from (f"  {sentence}" for sentence in plan.assumed)
    yield from stage_lines(plan)
    yield from (f"  {sentence}" for sentence in power_sentences(power))
    if plan.waiting:
        yield f"  {waiting_sentence(plan.benchmark, plan.waiting)}"
    if plan.rejected:
        yield f"  {rejected_sentence(plan.benchmark)}"
    if plan.stale:
        yield f"  {len(plan.stale):,} rows are stale; `--stale` does them again"
    if every_row:
        yield from (f"    {work}" for work in (*plan.work, *plan.stale))


def _work_words(plan: RunPlan) -> str:
    if not plan.calls:
        done_here = f"{plural(len(plan.work), 'row')} to do, without a call"
        return done_here if plan.work else "nothing is missing"
    calls = calls_words(plan.total.calls)
    # what is written first decides how much follows
    return f"{calls}, {plan.calls[0].stage} first" if plan.assumed else calls


def stage_lines(plan: RunPlan) -> Iterator[str]:
    for calls in plan.calls:
        who = f" {calls.target}" if calls.target else ""
        price = usd(calls.cost).removeprefix("about ")  # said of the whole; a line fits 80 columns
        yield f"  {calls.stage}{who}: {_rows(calls)}, {calls_words(calls.cost.calls)}, {price}"


def _rows(calls: StageCalls) -> str:
    """What a stage makes, in the words of the sentence that says what is assumed of it."""
    if calls.stage is Stage.GEN_METRICS:
        return "1 metric" if calls.scenarios.high else "all metrics"
    if calls.stage is not Stage.GEN_SCENARIOS:
        checks = f", {count_words(calls.checks, 'check')}" if calls.checks.high else ""
        return count_words(calls.rows, "conversation") + checks
    counts = [(calls.scenarios, "scenario"), (calls.variants, "variant")]
    return ", ".join(count_words(amount, noun) for amount, noun in counts if amount.high)


def total_lines(
    total: CostEstimate, config: Config, spent_usd: float | None, call_usd: float = 0.0
) -> Iterator[str]:
    """The total of a plan, and the budgets that limit it. `spent_usd` is what all earlier runs
    spent, `call_usd` the most that one call may cost."""
    yield f"all together: {total_words(total)}"
    if not total.is_free:
        read, written = _tokens(total.input_tokens), _tokens(total.output_tokens)
        yield f"  tokens: {read} read, {written} written"
        yield f"  {_on_top(total.tried_again)}"
        yield from (f"  {words}" for words in ESTIMATED[total.measured])
    yield from (f"  {words}" for words in budget_words(config, spent_usd, total.usd.low))
    yield from (f"  {words}" for words in _calls_that_fit(config, spent_usd or 0.0, call_usd))


def _calls_that_fit(config: Config, spent_usd: float, call_usd: float) -> Iterator[str]:
    """How many calls at once the budgets have room for, where that is fewer than may be made."""
    lefts = [] if config.run.budget is None else [config.run.budget]
    lefts += [] if config.workspace_budget is None else [config.workspace_budget - spent_usd]
    concurrency = config.run.concurrency
    if (
        not lefts
        or not call_usd
        or min(lefts) >= call_usd * max(concurrency.simulate, concurrency.evaluate)
    ):
        return
    at_once = int(min(lefts) / call_usd)
    if at_once < 1:
        yield f"! too little for the dearest call: it may cost up to ${call_usd:.2f},"
    else:
        calls = plural(at_once, "call")
        yield f"so about {calls} at once at first: one may cost up to ${call_usd:.2f},"
    yield LONGEST_WORDS


ESTIMATED: Final = {
    True: ("an estimate, from what such calls used in this workspace so far",),
    False: (
        f"an estimate, wide until each model was called {FEWEST} times in its role;",
        "after that, `crosswind run --dry-run` estimates the rest more closely",
    ),
}


def _on_top(tried_again: float) -> str:
    if round(tried_again) < 1:
        return "calls that are tried again after a fault come on top"
    count = round(tried_again)
    come = "comes" if count == 1 else "come"
    number = calls_words(Range.exactly(count))
    return f"about {number} {come} on top, tried again after faults as often as so far"


def _tokens(amount: Range) -> str:
    low, high = _rounded_tokens(amount.low), _rounded_tokens(amount.high)
    return low if low == high else f"{low} to {high}"


def _rounded_tokens(tokens: float) -> str:
    if tokens >= 1e6:
        return f"{tokens / 1e6:.1f} million"
    return f"{round(tokens, -3):,.0f}" if tokens >= 1e4 else f"{round(tokens, -2):,.0f}"


def spent_so_far(session: Session) -> float | None:
    """US dollars spent by all runs; None where no `workspace_budget` is set."""
    if session.config.workspace_budget is None:
        return None
    if not session.store_path.exists():
        return 0.0
    with session.reader() as reader:
        return reader.spent_usd() + reader.unsettled_usd()


# As JSON


def planned_json(
    planned: PlannedOrder, config: Config, spent_usd: float | None
) -> Mapping[str, Any]:
    pairs = zip(planned.plans, planned.powers, strict=True)
    return {
        "benchmarks": [
            {**plan_json(plan), "power": [asdict(detectable) for detectable in power]}
            for plan, power in pairs
        ],
        "total": estimate_json(planned.total),
        "run_budget_usd": config.run.budget,
        "workspace_budget_usd": config.workspace_budget,
        "workspace_spent_usd": spent_usd,
    }


def plan_json(plan: RunPlan) -> dict[str, Any]:
    return {
        "benchmark": plan.benchmark,
        "work": [asdict(work) for work in plan.work],
        "stale": [asdict(work) for work in plan.stale],
        "stages": [
            {
                "stage": call.stage,
                "target": call.target,
                "rows": _range_json(call.rows),
                **estimate_json(call.cost),
            }
            for call in plan.calls
        ],
        "assumed": list(plan.assumed),
        "waiting": list(plan.waiting),
        "rejected": list(plan.rejected),
        "total": estimate_json(plan.total),
    }


def estimate_json(estimate: CostEstimate) -> dict[str, Any]:
    return {
        "calls": _range_json(estimate.calls),
        "input_tokens": _range_json(estimate.input_tokens),
        "output_tokens": _range_json(estimate.output_tokens),
        "usd": asdict(estimate.usd),
        "unpriced_calls": _range_json(estimate.unpriced),
        "measured": estimate.measured,
        "tried_again": round(estimate.tried_again),
    }


def _range_json(amount: Range) -> dict[str, int]:
    return {name: round(value) for name, value in asdict(amount).items()}


# The question


def checked(
    session: Session, order: Order, *, unasked: bool = False, budget: float = PILOT_BUDGET
) -> PricedOrder:
    """An order with its price, after everything that can be checked beforehand, so that nobody
    agrees to a price and is refused then. With `unasked` the quote is not binding. A pilot is
    limited to `budget` in US dollars.

    Raises `InputError` and `StoreError`.
    """
    with planning(session) as planner:
        if refused := planner.refusals(order, anew=session.anew).all:
            raise InputError(refused)
        is_scripted = planner.is_scripted(order)
    session.require_store()
    if is_scripted:
        return PricedOrder(order)
    planned = plans_of(session, order, powers=False)
    notes = looked_first(session, planned.plans)
    # nothing is paid for, so nobody is asked
    if not any(plan.calls for plan in planned.plans):
        return PricedOrder(order)
    trust = Trust(session.workspace.root)
    doubts = [words for words in planned.doubts if not trust.is_agreed(words)]
    if planned.total.is_free and not doubts:
        return PricedOrder(order, notes=notes)
    spent = spent_so_far(session)
    with session.reader_or_empty() as reader:
        if (usd := reader.unsettled_usd()) >= CENT:
            notes = [*notes, f"{cut_off_words(usd)}, and are counted so"]
        notes = [*notes, *batch_lines(reader)]
    total = list(total_lines(planned.total, session.config, spent, planned.call_usd))
    lines = [line for plan in planned.plans for line in plan_lines(plan)]
    # the order carries the price that is agreed to, so that the engine can keep it
    agreed = with_quote(order, planned.total, session.config, unasked=unasked)
    priced_order = PricedOrder(agreed, [*doubts, *lines, *total], total, notes, doubts)
    return within_budget(priced_order, budget) if order.pilot else priced_order


def within_budget(priced: PricedOrder, budget: float) -> PricedOrder:
    """The order with `budget` as its binding limit, `--yes` or not. Raises `InputError` where it is
    expected to cost more."""
    quote = priced.order.quote
    if quote is None:
        return priced
    if quote.expected_usd > budget:
        expected = f"about ${quote.expected_usd:.2f}"
        what = f"the pilot is expected to cost {expected}, and its budget is ${budget:.2f}"
        raise InputError(Problem(what, hint="a larger `--budget`, or fewer `--scenarios`"))
    limited = replace(quote, high_usd=min(quote.high_usd, budget), binding=True)
    return replace(
        priced,
        order=replace(priced.order, quote=limited),
        lines=[*priced.lines, f"  the pilot stops before it has cost more than ${budget:.2f}"],
    )


def looked_first(session: Session, plans: Sequence[RunPlan]) -> Sequence[str]:
    """Warnings about the models that will be called; others may lack their keys. Raises
    `InputError` with what is certain to fail."""
    called = called_from_here(session, called_by(plans))
    return look_first(called, session.config, session.workspace.root, os.environ)


def confirm_order(session: Session, order: Order, arguments: Spends) -> Order | None:
    """The order as it is agreed to; None where it is declined. Asks on a terminal before money is
    spent, unless `--yes` is given. Raises `InputError` and `StoreError`."""
    with planning(session) as planner:
        is_scripted = planner.is_scripted(order)
    if not is_scripted:
        # where nobody can be asked, it is refused with all else that is
        if getattr(arguments, "trust", False) or sys.stdin.isatty():
            pass_gate(session, arguments)
        if not settled(session, arguments):
            return None
    budget = getattr(arguments, "budget", None) or PILOT_BUDGET
    priced = checked(session, order, unasked=arguments.yes, budget=budget)
    agreed_to = answered(priced, arguments)
    if priced.doubts and agreed_to is not None and sys.stdin.isatty():
        Trust(session.workspace.root).agree(priced.doubts)
    return agreed_to


def settled(session: Session, arguments: Spends) -> bool:
    """Whether it is decided what calls that were cut off are counted as: by `--spent`, by an answer
    on a terminal, or by the run, which counts them in full. Raises `InputError`."""
    said: float | None = getattr(arguments, "spent", None)
    if session.holder() is not None or session.unread() or not session.store_path.exists():
        return True
    session.require_store()
    with session.reader() as reader:
        spent, most = reader.spent_usd(), reader.unsettled_usd()
    if said is None:
        if most < CENT or arguments.yes or not sys.stdin.isatty():
            return True
        said = _asked_spent(spent, most)
        if said is None:
            return False
    if said < spent - CENT:
        hint = "name what all runs in this workspace have cost together, as the provider says"
        what = f"${said:.2f} is less than the ${spent:.2f} that are recorded"
        raise InputError(Problem(what, key="--spent", hint=hint))
    with writing(session) as pipeline:
        counted = max(0.0, said - spent)
        pipeline.store.tell(UnsettledRow(most_usd=most, counted_usd=counted))
    tell(f"${said:.2f} are counted as spent by all runs until now")
    return True


def _asked_spent(spent: float, most: float) -> float | None:
    """Ask what all runs have cost; None where that is not answered."""
    tell(f"{cut_off_words(most)} than the ${spent:.2f} that are recorded")
    tell(f"count ${spent + most:.2f} as spent? [y/N, or what the provider's page says, as 12.34]")
    answer = sys.stdin.readline().strip().lower().lstrip("$")
    if answer in {"y", "yes"}:
        return spent + most
    try:
        said = float(answer)
    except ValueError:
        return None
    return said if isfinite(said) else None


def answered(priced: PricedOrder, arguments: Spends) -> Order | None:
    """As `confirmed`, for an order whose price is known."""
    for note in priced.notes:
        tell(f"note: {note}")
    for line in priced.lines:
        tell(line)
    if not priced.lines or arguments.yes:
        return priced.order
    if sys.stdin.isatty():
        return priced.order if goes_on() else None
    quote = priced.order.quote
    # a script must not hang on a question; it is told what happens instead
    if quote is not None and quote.binding:
        tell(
            "there is no terminal to ask on: it begins, and stops before it costs more than "
            f"${quote.high_usd:.2f}; `--yes` or `run.budget` lets it go on"
        )
    return priced.order
