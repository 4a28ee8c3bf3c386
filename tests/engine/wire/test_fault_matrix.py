"""Every fault at every kind of call, at its first, in the midst and always: a fault costs at most
its own row, and what is stored is whole and says why."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Final

import pytest

from engine.benchmark import ConversationKey, Speaker, Stage, State, StopReason
from engine.pipeline.run import RunResult
from engine.store.tables import StateRow
from tests.engine.wire import audit
from tests.engine.wire.audit import Row
from tests.engine.wire.cases import (
    REFUSED,
    SILENT,
    SORTS,
    SPOKEN,
    Kind,
    Moment,
    Orders,
    Sort,
    faults_of,
    is_marked,
    mark,
    survives,
)
from tests.engine.wire.workplace import (
    CANARY,
    UNHURRIED,
    WATCHFUL,
    Workplace,
    metric,
    scenario,
)
from tests.protocol_server.faults import Fault
from tests.protocol_server.request import Request
from tests.protocol_server.server import ProtocolServer

TARGETS: Final = {"one": ("steadfast", "openai"), "two": ("erratic", "anthropic")}
FINISHES: Final = {
    Fault.REFUSAL: {"openai": "refusal", "anthropic": "refusal"},
    # the other protocol has one word for both
    Fault.CONTENT_FILTER: {"openai": "content_filter", "anthropic": "refusal"},
    Fault.LENGTH: {"openai": "length", "anthropic": "length"},
}


_AMONG: Final = {"spoken": SPOKEN, "refused": REFUSED, "silent": SILENT}


@dataclass(frozen=True)
class Group:
    """Rows that are struck by one fault each, all in one run."""

    kind: Kind
    moment: Moment
    source: str
    """Of the models that play the kind; a target of each plays where it is the target's."""
    among: str = "spoken"

    def __str__(self) -> str:
        return "-".join([self.kind, self.moment, self.source, self.among])

    @cached_property
    def faults(self) -> tuple[Fault, ...]:
        return faults_of(self.kind, _AMONG[self.among])

    @property
    def silent(self) -> bool:
        return self.among == "silent"

    @property
    def targets(self) -> tuple[str, ...]:
        return tuple(TARGETS) if self.kind is Kind.TARGET else ("one",)

    def number(self, fault: Fault) -> int:
        """Of the metric whose row the fault strikes. The last one is never struck."""
        return self.faults.index(fault) + 1

    def key(self, fault: Fault, target: str = "one") -> ConversationKey:
        return ConversationKey(f"m{self.number(fault):02d}_s001_v01", target)

    def benchmark(self, fault: Fault) -> str:
        return f"case-{fault.value}" if self.kind is Kind.METRICS else "all-cases"

    @property
    def benchmarks(self) -> tuple[str, ...]:
        if self.kind is Kind.METRICS:
            return (*(self.benchmark(fault) for fault in self.faults), "spared")
        return ("all-cases",)


@dataclass(frozen=True)
class Outcome:
    """What came of a group, and of the same run without faults."""

    group: Group
    result: RunResult
    failed: Mapping[tuple[str, Stage, str], StateRow]
    states: Mapping[str, Mapping[tuple[Stage, str], StateRow]]
    rows: Mapping[ConversationKey, Row]
    spared: Mapping[ConversationKey, Row]
    """Of the run without faults."""
    orders: Orders
    requests: list[Request]
    attempts: list[Mapping[str, Any]]
    stored: bytes

    def asked(self, fault: Fault, model: str | None = None) -> list[Request]:
        """The requests of the kind in the row of a fault."""
        return [
            request
            for request in self.requests
            if is_marked(request, fault, self.group.kind.role)
            and (model is None or request.model == model)
        ]


def build(group: Group, root: Path, server: ProtocolServer) -> Workplace:
    place = Workplace(root, server, source=group.source)
    place.retry_policy = WATCHFUL if group.silent else UNHURRIED
    targets = [
        {"id": name, **place.model(model, source)}
        for name, (model, source) in TARGETS.items()
        if name in group.targets
    ]
    place.configure(targets)
    if group.kind is Kind.METRICS:
        for fault in group.faults:
            place.define(group.benchmark(fault), f"About bread {mark(fault)}.", [])
        place.define("spared", "About bread, undisturbed.", [])
        return place
    marks = [*(mark(fault) for fault in group.faults), "[spared]"]
    place.define(
        "all-cases",
        "Whether an assistant stays honest with a baker.",
        [metric(n, f"The assistant stays honest {sign}.") for n, sign in enumerate(marks, 1)],
    )
    if group.kind is not Kind.SCENARIOS:
        place.stage(
            "all-cases",
            [scenario(n, prompt=f"Be helpful {sign}.") for n, sign in enumerate(marks, 1)],
        )
    return place


_WITHOUT: dict[tuple[Kind, str, str], Mapping[ConversationKey, Row]] = {}
"""Runs without faults, which several groups are held against."""


def without_faults(group: Group, root: Path, server: ProtocolServer) -> Mapping[Any, Row]:
    name = (group.kind, group.source, group.among)
    if name not in _WITHOUT and group.kind is not Kind.METRICS:
        place = build(group, root, server)
        place.retry_policy = UNHURRIED
        assert place.run(*group.benchmarks).failed == 0
        with place.reader() as reader:
            _WITHOUT[name] = audit.rows(reader, "all-cases")
        server.reset()
    return _WITHOUT.get(name, {})


def carry_out(group: Group, root: Path, server: ProtocolServer) -> Outcome:
    spared = without_faults(group, root / "spared", server)
    place = build(group, root / "struck", server)
    orders = Orders(server)
    for fault in group.faults:
        models: list[str | None] = [None]
        if group.kind is Kind.TARGET:
            models = [TARGETS[name][0] for name in group.targets]
        for model in models:
            orders.order(group.kind, fault, group.moment, model=model)
    stages = frozenset({Stage.GEN_METRICS}) if group.kind is Kind.METRICS else frozenset(Stage)
    result = place.run(*group.benchmarks, stages=stages)
    with place.reader() as reader:
        audit.check_store(reader, *group.benchmarks)
        rows = audit.rows(reader, "all-cases") if group.kind is not Kind.METRICS else {}
        failed = audit.failed_rows(reader, *group.benchmarks)
        states = {name: audit.states(reader, name) for name in group.benchmarks}
    path = place.root / "crosswind.db"
    stored = b"".join(one.read_bytes() for one in place.root.rglob("*") if one.is_file())
    return Outcome(
        group,
        result,
        failed,
        states,
        rows,
        spared,
        orders,
        server.requests,
        audit.attempts(path),
        stored,
    )


def groups() -> Iterator[Group]:
    """All of them, with the two protocols in turns so that each kind of call sees both."""
    sources = ("openai", "anthropic")
    for row, kind in enumerate(Kind):
        for column, moment in enumerate(Moment):
            for number, among in enumerate(_AMONG):
                yield Group(kind, moment, sources[(row + column + number) % 2], among)


GROUPS: Final = list(groups())
CASES: Final = [(group, fault) for group in GROUPS for fault in group.faults]
_DONE: dict[Group, Outcome | AssertionError] = {}


@pytest.fixture(scope="module")
def outcome_of(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """A group is run when the first of its rows is looked at, and once."""

    def outcome(group: Group) -> Outcome:
        if group not in _DONE:
            with ProtocolServer() as server:
                try:
                    _DONE[group] = carry_out(group, tmp_path_factory.mktemp("wire"), server)
                except AssertionError as error:
                    # told by each of its rows, and not found out again by each
                    _DONE[group] = error
        found = _DONE[group]
        if isinstance(found, AssertionError):
            raise found
        return found

    yield outcome
    _DONE.clear()
    _WITHOUT.clear()


@pytest.mark.parametrize("group", GROUPS, ids=str)
def test_a_run_ends_and_its_rows_agree_with_what_it_says(group: Group, outcome_of: Any) -> None:
    outcome: Outcome = outcome_of(group)
    assert outcome.result == RunResult(failed=len(outcome.failed), stopped=False)
    # what a kept connection ends before a byte of an answer goes out twice as one attempt
    again = len(outcome.requests) - len(outcome.attempts)
    resets = {key: times for key, times in outcome.orders.struck.items() if key[0] is Fault.RESET}
    assert 0 <= again <= sum(resets.values())
    assert CANARY.encode() not in outcome.stored
    spared = group.benchmarks[-1]
    last = f"m{len(group.faults) + 1:02d}"
    for (_, unit), state in outcome.states[spared].items():
        if spared == "spared" or unit.startswith(last):
            assert state.state is State.DONE


@pytest.mark.parametrize(
    ("group", "fault"), CASES, ids=[f"{group}-{fault.value}" for group, fault in CASES]
)
def test_a_fault_costs_at_most_its_own_row(group: Group, fault: Fault, outcome_of: Any) -> None:
    outcome: Outcome = outcome_of(group)
    alive = survives(group.kind, fault, group.moment)
    if fault in REFUSED and group.kind.shaped and group.moment is not Moment.ALWAYS:
        # the first of them teaches another form and the last finds no form left
        check_struck(outcome, fault)
        return
    match group.kind:
        case Kind.METRICS:
            state = outcome.states[group.benchmark(fault)][
                Stage.GEN_METRICS, group.benchmark(fault)
            ]
            check_struck(outcome, fault)
            assert (state.state is State.DONE) == alive, state
        case Kind.SCENARIOS:
            check_struck(outcome, fault)
            state = outcome.states["all-cases"][Stage.GEN_SCENARIOS, f"m{group.number(fault):02d}"]
            assert (state.state is State.DONE) == alive, state
            assert (group.key(fault) in outcome.rows) == alive
        case Kind.USER | Kind.VERDICT:
            check_struck(outcome, fault)
            check_row(outcome, fault, "one", alive=alive)
        case Kind.TARGET:
            for name in group.targets:
                check_struck(outcome, fault, TARGETS[name][0])
                check_row(outcome, fault, name, alive=alive)


def check_struck(outcome: Outcome, fault: Fault, model: str | None = None) -> None:
    times = outcome.orders.struck[fault, model]
    assert times >= 1
    if outcome.group.moment is not Moment.ALWAYS:
        assert times == 1


def check_row(outcome: Outcome, fault: Fault, target: str, *, alive: bool) -> None:
    group = outcome.group
    key = group.key(fault, target)
    row, spared = outcome.rows[key], outcome.spared[key]
    said = 2 if group.moment is Moment.MIDDLE else 0
    if group.kind is Kind.VERDICT:
        assert row.texts == spared.texts
        assert row.outcome == (State.DONE, State.DONE if alive else State.FAILED)
    elif group.kind is Kind.TARGET and SORTS[fault] is Sort.ANSWER:
        check_kept(outcome, fault, target, row)
    elif alive:
        assert row.outcome == (State.DONE, State.DONE)
        if SORTS[fault] in {Sort.PASSING, Sort.HARMLESS}:
            assert row.texts == spared.texts
    else:
        by_user = group.kind is Kind.USER
        reason = StopReason.USER_FAILED if by_user else StopReason.TARGET_FAILED
        assert row.take.stop_reason is reason
        assert row.texts == spared.texts[: said + (not by_user)]
        assert row.outcome == (State.FAILED, State.DROPPED)


def check_kept(outcome: Outcome, fault: Fault, target: str, row: Row) -> None:
    """An end of the target's own is kept as what it is, and asked for exactly once."""
    model, source = TARGETS[target]
    turn = 2 if outcome.group.moment is Moment.MIDDLE else 1
    if fault is Fault.CONTEXT_FULL:
        assert row.take.stop_reason is StopReason.CONTEXT_FULL
        assert len(row.messages) == 2 * turn - 1
        # without one whole turn there is nothing to judge
        nothing = (State.FAILED, State.DROPPED)
        assert row.outcome == (nothing if turn == 1 else (State.DONE, State.DONE))
        assert len(outcome.asked(fault, model)) == turn
        return
    assert row.outcome == (State.DONE, State.DONE)
    [kept] = [m for m in row.messages if (m.turn, m.speaker) == (turn, Speaker.TARGET)]
    assert kept.finish == FINISHES[fault][source]
    assert len(outcome.asked(fault, model)) == 2
