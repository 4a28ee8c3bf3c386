"""What a person wants in each request is in it, below our own keys, and its secrets are nowhere."""

from __future__ import annotations

from typing import Any, Final

import pytest

from engine.benchmark import Role
from engine.config.schema import ModelSpec, load_config
from engine.config.workspace import Workspace
from engine.identity import digest
from engine.pipeline.models import model_digest
from engine.pipeline.order import Order, WorkReason
from engine.pipeline.plan import plan_run
from engine.pipeline.planner import Planner
from tests.approval import approve, lines_with
from tests.engine.commands import command, crosswind
from tests.engine.wire import audit
from tests.engine.wire.workplace import BOTH_PROTOCOLS, VARIABLES, Workplace, metric, scenario
from tests.protocol_server.faults import Fault
from tests.protocol_server.settings import Settings

ROUTED: Final = {"min_p": 0.4, "provider": {"order": ["somewhere"], "ignore": ["elsewhere"]}}
TENANT: Final = "tenant-4f6a8b0c2d9e-north"


def prepare(place: Workplace, *, target: dict[str, Any] | None = None, **roles: Any) -> None:
    place.server.settings = Settings(lenient=True)
    place.configure([{"id": "alpha", **place.model("steadfast", **(target or {}))}], **roles)
    place.define("bread", "About bread.", [metric(1, "Honest.")])
    place.stage("bread", [scenario(1)])


def bodies(place: Workplace, role: Role) -> list[dict[str, Any]]:
    return [
        request.body
        for request in place.server.requests
        if request.asks_a_model and request.role is role
    ]


@BOTH_PROTOCOLS
def test_it_is_in_every_request_of_its_model_and_in_no_other(place: Workplace) -> None:
    kwargs = {"chat_template_kwargs": {"enable_thinking": False}}
    judge = place.model("evaluator", extra_body=kwargs)
    prepare(place, target={"extra_body": ROUTED}, evaluator_model=judge)
    assert place.run("bread").failed == 0
    asked = bodies(place, Role.TARGET)
    assert len(asked) == 2
    for body in asked:
        assert {name: body[name] for name in ROUTED} == ROUTED
        assert (body["model"], body["stream"]) == ("steadfast", True)
    judged = bodies(place, Role.EVALUATOR)
    assert judged
    assert all(body["chat_template_kwargs"] == {"enable_thinking": False} for body in judged)
    for body in bodies(place, Role.USER):
        assert not {*ROUTED, *kwargs} & {*body}


@BOTH_PROTOCOLS
def test_nothing_in_it_takes_the_place_of_what_is_sent_anyway(
    place: Workplace, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The configuration refuses these; the wire does not rely on that."""
    monkeypatch.setattr("engine.config.checks.extra_body_problems", lambda *_: iter(()))
    mine = {"model": "x", "messages": [], "stream": False, "temperature": 1.9, "max_tokens": 1}
    params = {"temperature": 0.5, "max_tokens": 99}
    prepare(place, target={"params": params, "extra_body": {**mine, "min_p": 0.7}})
    assert place.run("bread").failed == 0
    for body in bodies(place, Role.TARGET):
        assert body["messages"]
        assert (body["model"], body["stream"], body["min_p"]) == ("steadfast", True, 0.7)
        assert (body["temperature"], body["max_tokens"]) == (0.5, 99)


def stale(place: Workplace) -> set[tuple[WorkReason, str, str | None]]:
    order = Order(("bread",))
    with place.reader() as reader:
        config = load_config(place.root / "config.yaml")
        [bench] = Planner(Workspace(place.root), config, reader).check(order)
        plan = plan_run(bench, order)
    assert list(plan.work) == []
    return {(one.why, one.stage.value, one.detail) for one in plan.stale}


def test_what_changes_in_it_makes_stale_what_was_made_with_it(place: Workplace) -> None:
    prepare(place, target={"extra_body": ROUTED})
    place.run("bread")
    assert stale(place) == set()
    # its order is no difference
    turned = {"provider": {"ignore": ["elsewhere"], "order": ["somewhere"]}, "min_p": 0.4}
    place.configure([{"id": "alpha", **place.model("steadfast", extra_body=turned)}])
    assert stale(place) == set()
    place.configure([{"id": "alpha", **place.model("steadfast", extra_body={"min_p": 0.41})}])
    assert stale(place) == {(WorkReason.STALE, "simulate", "target changed")}
    place.configure(
        [{"id": "alpha", **place.model("steadfast", extra_body=ROUTED)}],
        evaluator_model=place.model("evaluator", extra_body={"min_p": 0.1}),
    )
    assert stale(place) == {(WorkReason.STALE, "evaluate", "evaluator changed")}


def test_an_empty_one_leaves_the_fingerprint_that_models_had_before_there_was_any() -> None:
    spec = ModelSpec.model_validate(
        {"model": "m", "source": "openai", "params": {"temperature": 0.5}, "extra_body": {}}
    )
    assert model_digest(spec) == digest(["openai", "m", None, {"temperature": 0.5}])
    more = spec.model_copy(update={"extra_body": {"min_p": 1}})
    assert model_digest(more) != model_digest(spec)


def test_a_variable_in_it_is_sent_and_kept_nowhere(
    place: Workplace, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in {**VARIABLES, "TENANT": TENANT}.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("XDG_CACHE_HOME", str(place.root.parent / "cache"))
    body = {"routing": {"tenant": "${TENANT}", "for": ["of ${TENANT}"]}}
    prepare(place, target={"extra_body": body})
    place.server.plan(Fault.SHOWS_REQUEST, match="steadfast")
    told = [crosswind(place.root, "run", "--headless", "--plain", "--yes", code=1).text]
    others = (
        ["doctor", "--call"],
        ["status", "--json"],
        ["show", "m01_s001_v01__alpha", "--json"],
        ["export", "jsonl", "bread"],
        ["repair", "--files"],
    )
    told += [crosswind(place.root, *words).text for words in others]
    sent = bodies(place, Role.TARGET)[0]["routing"]
    assert sent == {"tenant": TENANT, "for": [f"of {TENANT}"]}
    [failed] = [
        attempt
        for attempt in audit.attempts(place.root / "crosswind.db")
        if attempt["role"] == "target" and attempt["detail"]
    ][:1]
    assert "the request was" in failed["detail"]
    assert "[hidden]" in failed["detail"]
    kept = {str(path): path.read_bytes() for path in place.root.parent.rglob("*") if path.is_file()}
    texts = [text.encode() for text in told]
    for name, content in {**kept, **{str(n): text for n, text in enumerate(texts)}}.items():
        assert TENANT.encode() not in content, name


def test_a_variable_in_it_that_is_not_set_is_told_before_the_first_call(
    place: Workplace, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in VARIABLES.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("XDG_CACHE_HOME", str(place.root.parent / "cache"))
    monkeypatch.delenv("TENANT", raising=False)
    prepare(place, target={"extra_body": {"routing": {"tenant": "${TENANT}"}}})
    root = ["--workspace", str(place.root)]
    told = command("run", "--headless", "--plain", "--yes", *root, code=2)
    approve(lines_with(told.err, "the variable TENANT"))
    assert place.server.counters.by_role == {}
    told = command("doctor", *root, code=2)
    assert "the variable TENANT" in told.words


def test_the_doctor_says_where_a_variable_in_it_comes_from(
    place: Workplace, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in {**VARIABLES, "TENANT": TENANT}.items():
        monkeypatch.setenv(name, value)
    prepare(place, target={"extra_body": {"routing": {"tenant": "${TENANT}"}}})
    said = " ".join(crosswind(place.root, "doctor").out.split())
    assert "extra_body is set" in said
    assert TENANT not in said
