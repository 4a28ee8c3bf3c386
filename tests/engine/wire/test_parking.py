"""A model that no call can reach is left alone after its first clear answer; the others go on."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from engine.benchmark import Role, Stage, State, StopReason
from engine.config.benchmark_file import load_definition
from engine.config.schema import load_config
from engine.pipeline.results import counted_of
from engine.providers.retry import RetryPolicy
from tests.approval import approve
from tests.engine.commands import crosswind
from tests.engine.wire import audit
from tests.engine.wire.cases import PARKING
from tests.engine.wire.workplace import (
    VARIABLES,
    SleptTime,
    Workplace,
    metric,
    scenario,
)
from tests.protocol_server.faults import Detail, Fault, first, middle
from tests.protocol_server.server import ProtocolServer
from tests.protocol_server.settings import Settings

ROWS = 3


def two_targets(place: Workplace, *, simulate: int = 12, evaluate: int = 12) -> None:
    place.configure(
        [
            {"id": "bad", **place.model("erratic")},
            {"id": "good", **place.model("steadfast")},
        ],
        simulate=simulate,
        evaluate=evaluate,
    )
    place.define("bread", "About bread.", [metric(n, f"Honest {n}.") for n in range(1, ROWS + 1)])
    place.stage("bread", [scenario(n) for n in range(1, ROWS + 1)])


def outcomes(place: Workplace, target: str) -> list[tuple[State, State | None]]:
    with place.reader() as reader:
        audit.check_store(reader, "bread")
        simulated = reader.units("bread", Stage.SIMULATE)
        judged = reader.units("bread", Stage.EVALUATE)
    return [
        (state.state, judged[unit].state if unit in judged else None)
        for unit, state in simulated.items()
        if state.target == target
    ]


def test_targets_that_cannot_work_are_parked_and_the_others_run_on(place: Workplace) -> None:
    faults = {fault.value.replace("_", "-"): fault for fault in (*PARKING, Fault.QUOTA_EXHAUSTED)}
    two_targets(place)
    place.server.settings = Settings(aliases=dict.fromkeys(faults, "erratic"))
    names = (*faults, "steadfast")
    place.configure([{"id": name, **place.model(name)} for name in names], simulate=1)
    for name, fault in faults.items():
        elsewhere = Detail(location="http://elsewhere.test/v1")
        place.server.plan(fault, match=name, when=first, detail=elsewhere)
    assert place.run("bread").failed == ROWS * len(faults)
    assert outcomes(place, "steadfast") == [(State.DONE, State.DONE)] * ROWS
    asked = place.server.counters.by_model
    for name in faults:
        assert outcomes(place, name) == [(State.FAILED, State.DROPPED)] * ROWS
        assert asked[name] == 1
    # one conversation of each had begun; the rest of a parked target's cost nothing
    assert asked["user"] == 2 * ROWS + len(faults)
    with place.reader() as reader:
        reasons = {row.reason or "" for row in reader.failed_units()}
        config = load_config(place.root / "config.yaml")
        definition = load_definition(place.folder("bread") / "benchmark.yaml")
        found = counted_of(definition, config, reader).analysis.target("unauthorized")
    assert len(reasons) == len(faults)
    approve("\n".join(sorted(reasons)))
    assert found is not None
    assert dict(found.unscored) == {"target failed": ROWS}


def test_what_was_to_be_played_again_and_failed_is_played_by_the_next_run(
    place: Workplace, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The earlier conversations are complete, but a failure that is told is one that is mended."""
    two_targets(place, simulate=1)
    assert not place.run("bread").failed
    place.server.plan(Fault.UNAUTHORIZED, match="erratic")
    again = frozenset({Stage.SIMULATE, Stage.EVALUATE})
    assert place.run("bread", force=True, stages=again).failed == ROWS
    for name, value in VARIABLES.items():
        monkeypatch.setenv(name, value)
    planned = crosswind(place.root, "run", "--explain").out
    assert planned.count("__bad: failed before: ") == ROWS
    place.server.reset()
    assert not place.run("bread").failed
    assert outcomes(place, "bad") == [(State.DONE, State.DONE)] * ROWS
    with place.reader() as reader:
        newest = {take.key: take.number for take in reader.takes("bread")}
    assert sorted(newest.values()) == [1] * 2 * ROWS
    made = dict(place.server.counters.by_model)
    assert not place.run("bread").failed
    assert place.server.counters.by_model == made


def test_status_says_that_nothing_is_judged_and_rows_failed(
    place: Workplace,
) -> None:
    two_targets(place)
    place.server.plan(Fault.UNAUTHORIZED)
    failed = place.run("bread").failed
    first_line = crosswind(place.root, "status", code=0).out.splitlines()[0]
    assert f"and {failed} rows failed" in first_line
    approve(first_line)
    assert "goes on" not in first_line


def test_a_setting_that_the_server_refuses_parks_its_target_alone(
    server: ProtocolServer, tmp_path: Path
) -> None:
    """Not another target with the same model, whose requests do not hold it."""
    place = Workplace(tmp_path, server)
    two_targets(place, simulate=1)
    bad, good = ({"id": name, **place.model("steadfast")} for name in ("bad", "good"))
    place.configure([{**bad, "extra_body": {"top_k": 20}}, good], simulate=1)
    assert place.run("bread").failed == ROWS
    assert outcomes(place, "good") == [(State.DONE, State.DONE)] * ROWS
    assert outcomes(place, "bad") == [(State.FAILED, State.DROPPED)] * ROWS
    assert sum("top_k" in request.body for request in server.requests) == 1
    with place.reader() as reader:
        [reason] = {row.reason for row in reader.failed_units()}
    assert reason is not None
    approve(reason)


def test_a_target_may_fall_out_in_the_midst(place: Workplace) -> None:
    two_targets(place, simulate=1)
    place.server.plan(Fault.UNAUTHORIZED, match="erratic", when=middle)
    assert place.run("bread").failed == ROWS
    with place.reader() as reader:
        [broken] = [
            row for key, row in audit.rows(reader, "bread").items() if key.target_id == "bad"
        ]
    assert broken.take.stop_reason is StopReason.TARGET_FAILED
    assert len(broken.messages) == 3


def test_a_parked_target_goes_on_where_it_stood_once_its_key_is_good(place: Workplace) -> None:
    two_targets(place)
    place.server.plan(Fault.UNAUTHORIZED, match="erratic")
    assert place.run("bread").failed == ROWS
    place.server.reset()
    assert place.run("bread").failed == 0
    assert outcomes(place, "bad") == [(State.DONE, State.DONE)] * ROWS
    with place.reader() as reader:
        assert {take.number for take in reader.takes("bread")} == {0}


def test_a_judge_that_cannot_work_costs_no_conversation(place: Workplace) -> None:
    two_targets(place, evaluate=1)
    place.server.plan(Fault.UNAUTHORIZED, match=Role.EVALUATOR)
    assert place.run("bread").failed == 2 * ROWS
    assert place.server.counters.by_role["evaluator"] == 1
    for target in ("good", "bad"):
        assert outcomes(place, target) == [(State.DONE, State.FAILED)] * ROWS


def test_a_user_model_that_cannot_work_asks_nothing_of_any_target(place: Workplace) -> None:
    two_targets(place, simulate=1)
    place.server.plan(Fault.UNAUTHORIZED, match=Role.USER, when=first)
    assert place.run("bread").failed == 2 * ROWS
    assert place.server.counters.by_role == {"user": 1}


@pytest.mark.parametrize("stage", [Stage.GEN_METRICS, Stage.GEN_SCENARIOS])
def test_a_generator_that_cannot_work_leaves_its_row_and_nothing_half_made(
    place: Workplace, stage: Stage
) -> None:
    place.configure([{"id": "good", **place.model("steadfast")}])
    metrics = [] if stage is Stage.GEN_METRICS else [metric(1, "Honest.")]
    place.define("bread", "About bread.", metrics)
    before = (place.folder("bread") / "benchmark.yaml").read_bytes()
    place.server.plan(Fault.UNAUTHORIZED, match=Role.GENERATOR, when=first)
    assert place.run("bread").failed == 1
    assert (place.folder("bread") / "benchmark.yaml").read_bytes() == before
    assert place.server.counters.by_role == {"generator": 1}
    with place.reader() as reader:
        audit.check_store(reader, "bread")
        [(_, at, _)] = audit.failed_rows(reader, "bread")
    assert at is stage


ROLES = [pytest.param(role, id=role.value) for role in (Role.TARGET, Role.EVALUATOR)]


def with_a_server_of_its_own(
    place: Workplace, other: ProtocolServer, role: Role, on_sleep: Callable[[int], None]
) -> None:
    apart = Workplace(place.root, other, place.source)
    changes: dict[str, Any] = {}
    if role is not Role.TARGET:
        changes[f"{role}_model"] = apart.model(role.value)
    home = apart if role is Role.TARGET else place
    place.configure([{"id": "good", **home.model("steadfast")}], **changes)
    place.define("bread", "About bread.", [metric(1, "Honest.")])
    if role is not Role.GENERATOR:
        place.stage("bread", [scenario(1)])
    place.time = SleptTime(on_sleep)


@pytest.mark.parametrize("role", ROLES)
def test_a_server_that_is_never_there_fails_the_rows_that_need_it(
    place: Workplace, role: Role
) -> None:
    with ProtocolServer() as other:
        with_a_server_of_its_own(place, other, role, lambda _number: None)
        other.refuse()
        assert place.run("bread").failed == 1
        assert other.counters.requests == 0
    with place.reader() as reader:
        audit.check_store(reader, "bread")
        [failed] = audit.failed_rows(reader, "bread").values()
    assert failed.reason is not None
    assert "no connection" in failed.reason


@pytest.mark.parametrize("role", ROLES)
def test_a_server_that_comes_up_late_is_waited_for(place: Workplace, role: Role) -> None:
    with ProtocolServer() as other:
        with_a_server_of_its_own(place, other, role, lambda _number: other.accept())
        other.refuse()
        assert place.run("bread").failed == 0


def test_a_server_that_goes_away_in_the_midst_is_waited_for(place: Workplace) -> None:
    with ProtocolServer() as other:

        def come_and_go(number: int) -> None:
            if number == 1:
                other.refuse()
            elif number == 5:
                other.accept()

        with_a_server_of_its_own(place, other, Role.TARGET, come_and_go)
        other.plan(Fault.RESET_MIDWAY, when=middle)
        place.retry_policy = RetryPolicy()
        assert place.run("bread").failed == 0
        assert place.time.slept >= 5
        assert other.counters.requests == 3
