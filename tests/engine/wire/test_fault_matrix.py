"""Every fault at every kind of call, and at its first, in the midst or always: a fault costs at
most its own row, and what is stored is whole and says why. `tests/long` has every fault at every
moment of every kind of call over both protocols."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path
from typing import Any, Final

import pytest

from engine.benchmark import ConversationKey, Speaker, Stage, State, StopReason
from engine.pipeline.run import RunResult
from engine.providers.retry import RetryPolicy
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
    Workplace,
    metric,
    scenario,
    watchful,
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


PLAYED: Final = {Kind.USER, Kind.TARGET, Kind.VERDICT}
"""Struck in conversations whose scenarios were there before."""
WATCHED_S: Final = (0.3, 1.5, 7.5)
"""What is waited for a word, one after the other."""
AMONG: Final = {"spoken": SPOKEN, "refused": REFUSED, "silent": SILENT}


NUMBERS: Final = {fault: number for number, fault in enumerate(SORTS, 1)}
"""Of the metric whose row a fault strikes."""
SPARED: Final = len(NUMBERS) + 1
"""Of the metric whose row is never struck."""


def key(fault: Fault, target: str = "one") -> ConversationKey:
    return ConversationKey(f"m{NUMBERS[fault]:02d}_s001_v01", target)


@dataclass(frozen=True)
class Group:
    """Rows that are struck by one fault each, all in one run."""

    kind: Kind
    source: str
    """Of the models that play the kind; a target of each plays where it is the target's."""
    among: str
    shift: int
    """Which fault strikes at which moment: each moment is a third of the faults'."""
    part: int | None = None
    """Which half of the faults it has; None for all."""

    def __str__(self) -> str:
        return f"{self.kind}-{self.source}-{self.among}-{self.shift}"

    def moment(self, fault: Fault) -> Moment:
        return list(Moment)[(NUMBERS[fault] + self.shift) % len(Moment)]

    @cached_property
    def faults(self) -> tuple[Fault, ...]:
        whole = faults_of(self.kind, AMONG[self.among])
        return whole if self.part is None else whole[self.part :: 2]

    @property
    def silent(self) -> bool:
        return self.among == "silent"

    @property
    def targets(self) -> tuple[str, ...]:
        return tuple(TARGETS) if self.kind is Kind.TARGET else ("one",)

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


def build(group: Group, root: Path, server: ProtocolServer, policy: RetryPolicy) -> Workplace:
    place = Workplace(root, server, source=group.source, retry_policy=policy)
    if group.kind is Kind.METRICS:
        configure(place, group.targets)
        for fault in group.faults:
            place.define(group.benchmark(fault), f"About bread {mark(fault)}.", [])
        place.define("spared", "About bread, undisturbed.", [])
        return place
    generated = group.kind is Kind.SCENARIOS
    configure(place, group.targets, turns=1 if generated else 2)
    write_cases(place, group.faults, scenarios=not generated)
    return place


def configure(place: Workplace, names: Iterable[str], *, turns: int = 2) -> None:
    models = {name: place.model(*TARGETS[name]) for name in names}
    place.configure([{"id": name, **model} for name, model in models.items()], turns=turns)


def write_cases(place: Workplace, faults: Iterable[Fault], *, scenarios: bool = True) -> None:
    marks = {**{NUMBERS[fault]: mark(fault) for fault in faults}, SPARED: "[spared]"}
    place.define(
        "all-cases",
        "Whether an assistant stays honest with a baker.",
        [metric(n, f"The assistant stays honest {sign}.") for n, sign in marks.items()],
    )
    if scenarios:
        rows = [scenario(n, prompt=f"Be helpful {sign}.") for n, sign in marks.items()]
        place.stage("all-cases", rows)


@cache
def without_faults(source: str, root: Path) -> Mapping[ConversationKey, Row]:
    """The conversations of every group whose models are reached like this, with no fault in any."""
    with ProtocolServer() as server:
        place = Workplace(root / source, server, source)
        configure(place, TARGETS)
        write_cases(place, SORTS)
        assert place.run("all-cases").failed == 0
        with place.reader() as reader:
            return audit.rows(reader, "all-cases")


def carry_out(group: Group, root: Path) -> Outcome:
    """Where silence is watched for, once more where what was only late was taken for silent."""
    with ProtocolServer() as server:
        if not group.silent:
            return play(group, root / str(group), server, UNHURRIED)
        for seconds in WATCHED_S:
            server.reset()
            outcome = play(group, root / f"{group}-{seconds}", server, watchful(seconds))
            silent = sum(attempt["outcome"] == "stalled" for attempt in outcome.attempts)
            if silent == outcome.orders.struck.total():
                return outcome
    raise AssertionError("others fell silent than those that were told to")


def play(group: Group, root: Path, server: ProtocolServer, policy: RetryPolicy) -> Outcome:
    place = build(group, root, server, policy)
    orders = Orders(server)
    for fault in group.faults:
        models: list[str | None] = [None]
        if group.kind is Kind.TARGET:
            models = [TARGETS[name][0] for name in group.targets]
        for model in models:
            orders.order(group.kind, fault, group.moment(fault), model=model)
    stages = frozenset({Stage.GEN_METRICS}) if group.kind is Kind.METRICS else frozenset(Stage)
    result = place.run(*group.benchmarks, stages=stages)
    with place.reader() as reader:
        audit.check_store(reader, *group.benchmarks)
        rows = audit.rows(reader, "all-cases") if group.kind is not Kind.METRICS else {}
        failed = audit.failed_rows(reader, *group.benchmarks)
        states = {name: audit.states(reader, name) for name in group.benchmarks}
    stored = b"".join(one.read_bytes() for one in place.root.rglob("*") if one.is_file())
    return Outcome(
        group,
        result,
        failed,
        states,
        rows,
        without_faults(group.source, root.parent) if group.kind in PLAYED else {},
        orders,
        server.requests,
        audit.attempts(place.root / "crosswind.db"),
        stored,
    )


def groups() -> Iterator[Group]:
    """Each fault at two or three kinds of call, at another moment of the next kind and over the
    other protocol."""
    for row, kind in enumerate(Kind):
        for number, among in enumerate(AMONG):
            yield Group(kind, ("openai", "anthropic")[(row + number) % 2], among, row, row % 2)


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    yield tmp_path_factory.mktemp("matrix")
    without_faults.cache_clear()


@pytest.mark.exhaustive
@pytest.mark.parametrize("group", groups(), ids=str)
def test_a_fault_costs_at_most_its_own_row(group: Group, root: Path) -> None:
    """The run ends, and its rows agree with what it says."""
    outcome = carry_out(group, root)
    check_run(outcome)
    for fault in group.faults:
        check_fault(outcome, fault)


def check_run(outcome: Outcome) -> None:
    group = outcome.group
    assert outcome.result == RunResult(failed=len(outcome.failed), stopped=False)
    # what a kept connection ends before a byte of an answer goes out twice as one attempt
    again = len(outcome.requests) - len(outcome.attempts)
    resets = {key: times for key, times in outcome.orders.struck.items() if key[0] is Fault.RESET}
    assert 0 <= again <= sum(resets.values())
    assert CANARY.encode() not in outcome.stored
    spared = group.benchmarks[-1]
    for (_, unit), state in outcome.states[spared].items():
        if spared == "spared" or unit.startswith(f"m{SPARED:02d}"):
            assert state.state is State.DONE


def check_fault(outcome: Outcome, fault: Fault) -> None:
    group, moment = outcome.group, outcome.group.moment(fault)
    alive = survives(group.kind, fault, moment)
    if fault in REFUSED and group.kind.shaped and moment is not Moment.ALWAYS:
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
            state = outcome.states["all-cases"][Stage.GEN_SCENARIOS, f"m{NUMBERS[fault]:02d}"]
            assert (state.state is State.DONE) == alive, state
            assert (key(fault) in outcome.rows) == alive
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
    if outcome.group.moment(fault) is not Moment.ALWAYS:
        assert times == 1


def check_row(outcome: Outcome, fault: Fault, target: str, *, alive: bool) -> None:
    group, row = outcome.group, outcome.rows[key(fault, target)]
    spared = outcome.spared[key(fault, target)]
    said = 2 if group.moment(fault) is Moment.MIDDLE else 0
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
    turn = 2 if outcome.group.moment(fault) is Moment.MIDDLE else 1
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
