"""What a pilot costs, and the problems that its few conversations of every metric reveal before all
of them are paid for."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Final

from engine.analysis.figures import MetricInfo
from engine.analysis.pilot import Pilot, PilotedMetric, pilot
from engine.benchmark import ConversationKey, Stage
from engine.cli.access import planning
from engine.cli.console import out, out_json, table, tell
from engine.cli.lines import rejected_sentence, waiting_sentence
from engine.cli.pricing import estimate_json, plans_of
from engine.cli.results_table import page_of_output
from engine.cli.session import Session
from engine.config.benchmark_file import load_definition
from engine.config.schema import config_of
from engine.display import plural
from engine.pipeline.order import PILOT_SCENARIOS, Order
from engine.pipeline.plan import RunPlan, plan_run
from engine.pipeline.planner import total_words
from engine.pipeline.power import Detectable, power_sentences
from engine.pipeline.results import counted_of
from engine.store.reader import Reader

_COLUMN_NOTE: Final = (
    "landmarks: reached, of those planned; early: ended before the last planned turn"
)


def report_pilot(session: Session, order: Order, *, as_json: bool) -> None:
    """Print what a pilot found so far. Raises `InputError` and `StoreError`."""
    rest = plans_of(session, Order(order.benchmarks), powers=True)
    benchmarks: dict[str, Any] = {}
    with session.reader() as reader:
        for name, priced, powers in zip(order.benchmarks, rest.plans, rest.powers, strict=True):
            piloted = _piloted(session, reader, name)
            left = priced.total
            if as_json:
                benchmarks[name] = {
                    **_json(piloted),
                    "left": estimate_json(left),
                    "power": [asdict(power) for power in powers],
                }
                continue
            page = _page(name, piloted, priced, powers)
            out("\n".join(page.table))
            for sentence in page.sentences:
                _wrapped(sentence)
            out()
    if as_json:
        out_json("pilot", {"benchmarks": benchmarks, "left": estimate_json(rest.total)})
        return
    if len(order.benchmarks) > 1:
        out(f"left to run in all benchmarks: {total_words(rest.total)}")
    tell("what was played is kept and counts; `crosswind run` does the rest")


def _piloted(session: Session, reader: Reader, name: str) -> Pilot:
    definition = load_definition(session.workspace.definition_path(name))
    config = config_of(session.config, name)
    counted = counted_of(definition, config, reader)
    return pilot(
        [MetricInfo(metric.id, metric.name, metric.track) for metric in definition.metrics],
        counted.outcomes,
        {
            key: frozenset(fault.kind for fault in take.faults or ())
            for key, (take, _) in counted.stored.counting.items()
        },
        _costs(reader, name),
    )


def _costs(reader: Reader, name: str) -> dict[ConversationKey, float | None]:
    """US dollars by conversation, for it and its verdicts, failed attempts included; None where a
    price is not known."""
    costs: dict[ConversationKey, float | None] = {}
    for stage in (Stage.SIMULATE, Stage.EVALUATE):
        for unit, usage in reader.usage_by_unit(name, stage).items():
            key = ConversationKey.parse(unit)
            before = costs.get(key, 0.0)
            known = before is not None and usage.cost_usd is not None
            costs[key] = (before or 0.0) + (usage.cost_usd or 0.0) if known else None
    return costs


@dataclass(frozen=True, slots=True)
class PilotPage:
    """What a pilot found in one benchmark, as text."""

    table: Sequence[str]
    """A heading, and the lines of a table."""
    sentences: Sequence[str]
    is_played: bool = True
    """Whether the whole pilot has been played."""


def pilot_page(session: Session, name: str) -> PilotPage:
    """What the pilot found so far. Raises `InputError` and `StoreError`."""
    order = Order((name,), pilot=PILOT_SCENARIOS)
    with planning(session) as planner:
        [bench] = planner.check(order)
        plan = plan_run(bench, order)
    rest = plans_of(session, Order((name,)), powers=True)
    with session.reader() as reader:
        piloted = _piloted(session, reader, name)
    page = _page(name, piloted, rest.plans[0], rest.powers[0])
    waits = [f"! {waiting_sentence(name, plan.waiting)}"] if plan.waiting else []
    if plan.rejected:
        waits.append(f"! {rejected_sentence(name)}")
    return PilotPage(page.table, [*waits, *page.sentences], not plan.work)


def _page(name: str, pilot: Pilot, rest: RunPlan, powers: Sequence[Detectable]) -> PilotPage:
    head = f"{name}: {plural(pilot.conversations, 'conversation')} played to an end"
    return PilotPage(
        [head, *_table(pilot).splitlines()],
        [
            _COLUMN_NOTE,
            *_lines(pilot),
            _left_to_run(rest),
            *(f"  {sentence}" for sentence in power_sentences(powers)),
        ],
    )


def _left_to_run(rest: RunPlan) -> str:
    waiting = ", and what follows from what waits for approval" if rest.waiting else ""
    if rest.work or waiting:
        return f"left to run: {total_words(rest.total)}{waiting}"
    return "nothing is left to run"


# In words


def _wrapped(line: str) -> None:
    margin = " " * (len(line) - len(line.lstrip()) + 2)
    out(textwrap.fill(line, page_of_output().width, subsequent_indent=margin))


def _lines(pilot: Pilot) -> Iterator[str]:
    sound: list[str] = []
    for metric in pilot.metrics:
        doubts = list(metric.doubts())
        for doubt in doubts:
            yield f"! {metric.metric.id} {metric.metric.name}: {doubt.says} ({doubt.remedy})"
        if metric.conversations and not doubts:
            sound.append(metric.metric.id)
    if sound:
        yield f"no problem found in {', '.join(sound)}"
    unplayed = [metric.metric.id for metric in pilot.metrics if not metric.conversations]
    if unplayed:
        yield f"no conversation was played to an end of {', '.join(unplayed)}"
    yield _cost_words(pilot)


def _table(pilot: Pilot) -> str:
    targets = list(dict.fromkeys(target for metric in pilot.metrics for target in metric.targets))
    head = ["metric", *targets, "landmarks", "early"]
    rows = [_row(metric, targets) for metric in pilot.metrics]
    return table(head, rows, right=frozenset(range(1, len(head))))


def _row(piloted: PilotedMetric, targets: Sequence[str]) -> list[str]:
    tallies = [piloted.targets.get(target) for target in targets]
    return [
        f"{piloted.metric.id} {piloted.metric.track}",
        *("—" if tally is None else f"{tally.passed}/{tally.scored}" for tally in tallies),
        f"{piloted.exposure.reached}/{piloted.exposure.planned}",
        f"{piloted.exposure.early}/{piloted.conversations}",
    ]


def _cost_words(pilot: Pilot) -> str:
    if pilot.costs is None:
        return "what a conversation costs is not known: a model has no price (`price`)"
    if pilot.mean_usd is None:
        return "nothing was played to an end"
    if not any(pilot.costs):
        return "a conversation costs nothing"
    low, high = min(pilot.costs), max(pilot.costs)
    return (
        f"a conversation with its verdicts cost ${pilot.mean_usd:.4f} on average (${low:.4f} to "
        f"${high:.4f})"
    )


def _json(pilot: Pilot) -> dict[str, Any]:
    return {
        "conversations": pilot.conversations,
        "usd_per_conversation": pilot.mean_usd,
        "metrics": [
            {
                "id": metric.metric.id,
                "conversations": metric.conversations,
                "targets": {name: asdict(tally) for name, tally in metric.targets.items()},
                "unscored": dict(metric.unscored),
                "landmarks_planned": metric.exposure.planned,
                "landmarks_reached": metric.exposure.reached,
                "ended_early": metric.exposure.early,
                "user_faults": dict(metric.faults),
                "doubts": [
                    {"kind": doubt.kind, "says": doubt.says, "mend": doubt.remedy}
                    for doubt in metric.doubts()
                ],
            }
            for metric in pilot.metrics
        ],
    }
