"""What an engine may rely on whose calls are made by agents, whatever becomes of those."""

from __future__ import annotations

import asyncio
import sqlite3
from collections import Counter
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from engine.benchmark import Stage, State
from engine.cluster.agent import Agent
from engine.cluster.wire import WIRE_VERSION, CallChanges, Greeting, encoded, own_version
from engine.errors import CrosswindError, InputError
from engine.pipeline.models import GivenValues
from engine.providers.accounts import RemoteRequest, RequestDestination
from engine.providers.endpoint import Wire
from engine.providers.model import Message, MessageRole
from engine.providers.protocols.base import ChatRequest
from engine.providers.retry import RetryPolicy
from tests.approval import approve
from tests.engine.cluster.here import PATIENT, HereAgent, Scene, run_with
from tests.engine.providers.applications import AppAnswer, json_answer, running_app
from tests.engine.wire import audit
from tests.engine.wire.workplace import (
    CANARY,
    HEADER_CANARY,
    VARIABLES,
    SleptTime,
    Workplace,
    metric,
    scenario,
)
from tests.protocol_server.faults import Fault
from tests.protocol_server.server import ProtocolServer
from tests.protocol_server.service import ABANDONED
from tests.protocol_server.settings import Settings

pytestmark = pytest.mark.run

ROWS = 4
SLOW = Settings(latency_ms=50)


def workplace(root: Path, server: ProtocolServer, rows: int = ROWS, **changes: Any) -> Workplace:
    place = Workplace(root, server, headers=True)
    place.configure([{"id": "good", **place.model("steadfast")}], **changes)
    place.define("bread", "About bread.", [metric(n, f"Honest {n}.") for n in range(1, rows + 1)])
    prompt = "Never say ${CANARY_KEY}."
    place.stage("bread", [scenario(n, prompt=prompt) for n in range(1, rows + 1)])
    return place


@pytest.fixture
def place(tmp_path: Path, server: ProtocolServer) -> Workplace:
    return workplace(tmp_path / "workspace", server)


def agent(name: str, environ: dict[str, str] = VARIABLES, **says: Any) -> HereAgent:
    """The variables are its own: the engine has none."""
    return HereAgent(name, says, Agent(environ))


def outcomes(place: Workplace) -> Counter[str]:
    """Of all attempts."""
    with closing(sqlite3.connect(place.root / "crosswind.db")) as store:
        return Counter(outcome for (outcome,) in store.execute("SELECT outcome FROM attempt"))


def said(place: Workplace) -> dict[str, tuple[object, ...]]:
    """All that came of every conversation."""
    with place.reader() as reader:
        audit.check_store(reader, "bread")
        assert {take.number for take in reader.takes("bread")} == {0}
        return {
            str(key): (row.outcome, row.texts, [verdict.passed for verdict in row.verdicts])
            for key, row in audit.rows(reader, "bread").items()
        }


def all_done(place: Workplace) -> bool:
    found = said(place)
    return len(found) == ROWS and all(row[0] == (State.DONE, State.DONE) for row in found.values())


def test_the_same_comes_of_it_as_without_agents(place: Workplace, tmp_path: Path) -> None:
    result, scene = run_with(place, agent("one"), agent("two"))
    assert (result.failed, result.stopped, scene.notes) == (0, False, [])
    alone = workplace(tmp_path / "alone", place.server)
    alone.run("bread")
    assert said(place) == said(alone)
    assert outcomes(place) == outcomes(alone)


def test_a_budget_holds_to_the_call_over_all_agents(place: Workplace, tmp_path: Path) -> None:
    def dear(name: str) -> dict[str, Any]:
        # a limit for each answer: without one, a call might cost more than half of what there is
        price, params = {"input": 1_000.0, "output": 1_000.0}, {"max_tokens": 400}
        return place.model(name, price=price, params=params)

    def price(place: Workplace, **run: Any) -> None:
        roles: dict[str, Any] = {
            f"{role}_model": dear(role) for role in ("user", "evaluator", "generator")
        }
        run["concurrency"] = {"gen_scenarios": 1, "simulate": 3, "evaluate": 2}
        place.configure([{"id": "good", **dear("steadfast")}], **roles, run=run)

    def spent(place: Workplace) -> tuple[int, float]:
        with place.reader() as reader:
            used = [reader.usage("bread", stage) for stage in Stage]
        return sum(one.calls for one in used), sum(one.cost_usd or 0.0 for one in used)

    alone = workplace(tmp_path / "alone", place.server)
    price(alone)
    assert not alone.run("bread").stopped
    usual, usd = spent(alone)
    place.server.reset()
    budget = round(0.9 * usd, 2)
    price(place, budget=budget)
    assert run_with(place, agent("one"), agent("two"))[0].stopped
    calls, cost = spent(place)
    assert place.server.counters.calls == calls < usual
    assert 0 < cost <= budget
    assert place.server.counters.concurrent_max <= 5


@pytest.mark.exhaustive
def test_where_a_server_asks_one_agent_to_wait_all_of_them_wait(
    tmp_path: Path, server: ProtocolServer
) -> None:
    """What it refuses is what was on its way when it said so: the calls behind it stay here."""
    rows = 24
    place = workplace(tmp_path / "workspace", server, rows, simulate=rows, evaluate=rows)
    server.settings = Settings(cap=0, cap_retry_after="30")
    refused = list[int]()
    begun = place.time.seconds

    def answer_again(_: int) -> None:
        if place.time.seconds >= begun + 30:
            refused.append(server.counters.refusals)
            server.settings = Settings()

    place.time = SleptTime(answer_again)
    agents = agent("one"), agent("two")
    result, _ = run_with(place, *agents, clock=place.time.as_clock())
    assert (result.failed, result.stopped) == (0, False)
    assert 0 < refused[0] == server.counters.refusals < rows
    assert all(one.most for one in agents)


def test_a_session_that_an_application_names_is_told_to_it_by_whichever_agent(
    place: Workplace,
) -> None:
    told: dict[str, list[str]] = {}

    def answer(body: dict[str, Any]) -> AppAnswer:
        name = body.get("id") or f"conversation-{len(told)}"
        told.setdefault(name, []).append(body["text"])
        return json_answer({"say": "It is yours to decide.", "conversation": {"id": name}})

    agents = agent("one", capacity=1), agent("two", capacity=1)
    with running_app(answer) as app:
        shop = {
            "id": "shop",
            "source": "http",
            "url": app.url,
            "reply": "say",
            "request": {"id": "$session", "text": "$message"},
            "session": "per conversation",
            "session_from": "conversation.id",
        }
        place.configure([shop])
        assert run_with(place, *agents)[0].failed == 0
    with place.reader() as reader:
        audit.check_store(reader, "bread")
        takes = reader.takes("bread")
        spoken = [[message.text for message in reader.messages(take.seq)][::2] for take in takes]
    assert sorted(told.values()) == sorted(spoken)
    assert len(told) == ROWS
    asked = [b"/chat" in one.crossed for one in agents]
    assert asked == [True, True]


def test_an_agent_never_has_more_than_it_takes(place: Workplace) -> None:
    agents = [agent("one", capacity=1), agent("two", capacity=2)]
    place.server.settings = Settings(latency_ms=20)
    held: list[str] = []

    async def watch(scene: Scene) -> None:
        await scene.until(scene.pipeline.models.held)
        held.extend(map(str, scene.pipeline.models.held().values()))

    run_with(place, *agents, meanwhile=watch)
    assert all_done(place)
    assert [one.most for one in agents] == [1, 2]
    assert place.server.counters.concurrent_max <= 3
    approve(held[0])


def test_what_a_lost_agent_had_is_done_once_more_and_counts_for_nothing(place: Workplace) -> None:
    first, second = agent("one"), agent("two")
    place.server.settings = SLOW
    place.retry_policy = RetryPolicy(tries=1)  # the model is forgiven nothing
    lost = 0

    async def kill(scene: Scene) -> None:
        nonlocal lost
        await scene.until(lambda: len(first.agent._tasks) >= 2)
        lost = len(first.agent._tasks)
        await first.lose()

    _, scene = run_with(place, first, second, meanwhile=kill)
    assert all_done(place)
    assert outcomes(place)["agent_lost"] == lost
    [note] = scene.notes
    assert f"one was lost, with {lost} calls" in note


def test_a_silent_agent_is_lost_and_what_it_says_later_is_not_heard(place: Workplace) -> None:
    first, second = agent("one"), agent("two")
    place.server.settings = SLOW

    async def silence(scene: Scene) -> None:
        await scene.until(lambda: first.agent._tasks)
        first.silent = True

    _, scene = run_with(place, first, second, meanwhile=silence, times=replace(PATIENT, silent=0.5))
    assert all_done(place)
    assert outcomes(place)["agent_lost"] >= 1
    assert "one was lost" in scene.notes[0]


def test_an_agent_that_is_not_understood_is_lost_or_refused(place: Workplace) -> None:
    first, second, third = agent("one"), agent("two"), agent("three")
    place.server.settings = SLOW

    async def babble(_wait_s: float) -> bytes:
        while not first.agent._tasks:  # noqa: ASYNC110  (what is looked at is not the test's)
            await asyncio.sleep(0.002)
        return b"\xa3\xff\xfe\xfd"

    async def mumble(_greeting: bytes) -> bytes:
        return b"\x91" * 10_000

    vars(first)["events"], vars(third)["hello"] = babble, mumble
    _, scene = run_with(place, first, second, third)
    assert all_done(place)
    assert outcomes(place)["agent_lost"] >= 1
    approve(scene.notes)


async def test_an_agent_that_nobody_asks_cuts_its_calls_off(place: Workplace) -> None:
    place.server.settings = Settings(latency_ms=60_000)
    where = RequestDestination(Wire.OPENAI, place.server.openai_url, "any", {})
    ask = ChatRequest("steadfast", (Message(MessageRole.USER, "Hello?"),))
    lonely = Agent({})
    await lonely.hello(encoded(Greeting(WIRE_VERSION, own_version(), 0.2)))
    await lonely.submit(encoded(CallChanges({1: RemoteRequest(where, ask, RetryPolicy())})))
    while not place.server.counters.concurrent:
        await lonely.events(0.01)
    await place.server.until(lambda seen: seen.by_outcome.get(ABANDONED, 0) == 1)
    await lonely.close()


async def test_an_agent_serves_only_the_engine_that_greeted_it_first() -> None:
    found = Agent({})
    greeting = encoded(Greeting(WIRE_VERSION, own_version(), 60))
    await found.hello(greeting)
    with pytest.raises(CrosswindError, match="greeted before"):
        await found.hello(greeting)
    await found.close()


def test_a_run_without_agents_waits_and_goes_on_when_one_comes(place: Workplace) -> None:
    async def come_late(scene: Scene) -> None:
        await scene.until(lambda: scene.waiting)
        await scene.until(scene.pipeline.models.held)
        assert {str(held) for held in scene.pipeline.models.held().values()} == {
            "waiting for workers"
        }
        scene.source.add(agent("late"))

    _, scene = run_with(place, meanwhile=come_late)
    assert all_done(place)
    approve(scene.waiting)


@pytest.mark.parametrize("agents", [0, 1])
def test_calls_that_wait_for_an_agent_end_at_a_stop(place: Workplace, agents: int) -> None:
    """Whether there is none, or those that there are have no room."""
    place.server.settings = SLOW

    async def stop(scene: Scene) -> None:
        await scene.until(scene.pipeline.models.held)
        scene.pipeline.drain()

    result, _ = run_with(place, *(agent("one", capacity=1) for _ in range(agents)), meanwhile=stop)
    assert (result.failed, result.stopped) == (0, True)
    assert place.server.counters.calls <= agents
    with place.reader() as reader:
        units = reader.units("bread", Stage.SIMULATE).values()
    assert [unit.state for unit in units] == [State.QUEUED] * ROWS
    assert run_with(place, agent("two"))[0].failed == 0
    assert all_done(place)


def test_an_agent_of_another_version_is_refused_and_the_others_go_on(place: Workplace) -> None:
    other = agent("old", crosswind="0.0.9")
    _, scene = run_with(place, other, agent("new"), agent("odd", wire=WIRE_VERSION + 1))
    assert all_done(place)
    assert other.most == 0
    told = sorted(scene.notes, key=len)
    versions = f"version {WIRE_VERSION + 1} of its messages, {WIRE_VERSION} here"
    assert f"odd is not used: {versions}" in told[0]
    approve(told[1])


def test_a_call_goes_to_an_agent_that_has_the_key(place: Workplace) -> None:
    bare, whole = agent("bare", {}), agent("whole")
    run_with(place, bare, whole)
    assert all_done(place)
    assert "agent_lost" not in outcomes(place)


def test_an_agent_that_comes_with_the_key_after_one_without_is_waited_for(
    place: Workplace,
) -> None:
    late = agent("late")

    async def come(scene: Scene) -> None:
        await scene.until(scene.pipeline.models.held)
        held = {str(one) for one in scene.pipeline.models.held().values()}
        approve(held)
        scene.source.add(late)

    times = replace(PATIENT, grace=60)
    result, _ = run_with(place, agent("early", {}), meanwhile=come, times=times)
    assert result.failed == 0
    assert all_done(place)
    assert late.most


def test_where_no_agent_has_the_key_its_rows_fail_and_the_others_go_on(place: Workplace) -> None:
    keyless = {"id": "bad", **place.model("erratic"), "apikey": "${NOWHERE_KEY}"}
    place.configure([keyless, {"id": "good", **place.model("steadfast")}])
    result, _ = run_with(place, agent("one"), agent("two"))
    assert result.failed == ROWS
    with place.reader() as reader:
        reasons = [state.reason for state in audit.failed_rows(reader, "bread").values()]
        assert all("NOWHERE_KEY is not set" in (why or "") for why in reasons)
        done = [key.target_id for key, row in audit.rows(reader, "bread").items() if row.verdicts]
    assert done == ["good"] * ROWS


@pytest.mark.parametrize("fault", [Fault.ECHOES_KEY, Fault.SHOWS_REQUEST])
def test_no_key_crosses_in_either_direction(place: Workplace, fault: Fault) -> None:
    place.server.plan(fault, match="steadfast")
    one = agent("one")
    _, scene = run_with(place, one)
    assert one.crossed
    for secret in (CANARY, HEADER_CANARY):
        assert secret.encode() not in one.crossed
        assert secret.encode() not in (place.root / "crosswind.db").read_bytes()
        assert secret not in str(scene.notes)
    assert {call.headers["x-own-key"] for call in place.server.calls} == {HEADER_CANARY}


def test_a_variable_that_is_only_spoken_of_is_not_filled_in(place: Workplace) -> None:
    run_with(place, agent("one"))
    bodies = [str(call.body) for call in place.server.calls]
    assert any("${CANARY_KEY}" in body for body in bodies)
    assert not any(CANARY in body for body in bodies)


def test_a_key_in_plain_text_is_told_only_to_processes_of_this_run(place: Workplace) -> None:
    place.configure([{"id": "good", **place.model("steadfast"), "apikey": "sk-in-plain-text"}])
    with pytest.raises(InputError, match="is a key in plain text, and no worker is told one"):
        run_with(place, agent("one"))
    given = GivenValues(at_home=True)
    one = agent("one")
    run_with(place, one, given=given)
    assert all_done(place)
    assert list(given.values.values()) == ["sk-in-plain-text"]
    assert one.crossed.count(b"sk-in-plain-text") == 1


def test_what_is_being_said_is_seen_while_it_is_said(place: Workplace) -> None:
    place.server.settings = Settings(tokens_per_second=400)

    async def look(scene: Scene) -> None:
        await scene.until(lambda: any(scene.pipeline.live.characters_spoken().values()))

    run_with(place, agent("one"), meanwhile=look)
    assert all_done(place)
