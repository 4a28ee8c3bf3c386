"""Models that are reached by OpenAI's Responses protocol."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, get_args

import pytest

from engine.benchmark import Role
from engine.config.schema import ModelSpec
from engine.config.values import RESPONSES_ONLY
from tests.engine.wire.batched import NAME, judged_usd, prepare, verdicts
from tests.engine.wire.cases import SILENT
from tests.engine.wire.workplace import CANARY, Workplace, watchful
from tests.late import openai
from tests.protocol_server.faults import Fault, first, nth
from tests.protocol_server.request import CHAT_PATH, RESPONSES_PATH, Request
from tests.protocol_server.responses_wire import THOUGHT
from tests.protocol_server.server import ProtocolServer


@pytest.fixture
def place(server: ProtocolServer, tmp_path: Path) -> Workplace:
    return Workplace(tmp_path / "workspace", server)


def spoken(place: Workplace, *, batch: bool = False, target: str = "steadfast") -> None:
    """A workspace whose evaluator and target speak it."""
    prepare(place, batch=batch, target=target, api="responses")


def test_a_run_is_as_one_over_chat_completions(place: Workplace, tmp_path: Path) -> None:
    plain = Workplace(tmp_path / "plain", place.server)
    prepare(plain, batch=False)
    assert not plain.run(NAME).failed
    place.server.reset()
    spoken(place)
    assert not place.run(NAME).failed
    paths = {(call.role, call.path) for call in place.server.calls if call.role is not Role.USER}
    assert paths == {(Role.TARGET, RESPONSES_PATH), (Role.EVALUATOR, RESPONSES_PATH)}
    assert all(call.body["store"] is False for call in place.server.calls if "input" in call.body)
    assert verdicts(place) == verdicts(plain)
    assert judged_usd(place) == pytest.approx(judged_usd(plain))
    with place.reader() as reader:
        messages = [message for take in reader.takes(NAME) for message in reader.messages(take.seq)]
    thoughts = {message.reasoning for message in messages if message.speaker.value == "assistant"}
    assert thoughts == {THOUGHT}


@pytest.mark.parametrize(("api", "batch"), [("chat", False), ("responses", False), ("chat", True)])
def test_azures_addresses_with_a_version_are_spoken_by_its_own_client(
    place: Workplace, api: str, batch: bool
) -> None:
    version = "2025-04-01-preview"
    base_url = f"{place.server.origin}/openai?api-version={version}"
    prepare(place, batch=batch, api=api, base_url=base_url)
    assert not place.run(NAME).failed
    assert len(verdicts(place)) == 3
    asked = [call for call in place.server.calls if call.model == "steadfast"]
    assert {call.path for call in asked} == {CHAT_PATH if api == "chat" else RESPONSES_PATH}
    assert {call.headers.get("api-key") for call in asked} == {CANARY}
    assert not any("authorization" in call.headers for call in asked)
    assert sum(len(one.calls) for one in place.server.batches.submitted) == 3 * batch


def test_it_is_judged_in_batches_too(place: Workplace) -> None:
    spoken(place, batch=True)
    assert not place.run(NAME).failed
    [batch] = place.server.batches.submitted
    assert batch.path == RESPONSES_PATH
    assert len(verdicts(place)) == 3


AGAIN = (
    *(Fault.ERROR_EVENT, Fault.RESET_MIDWAY, Fault.CUT_MIDWAY, Fault.NO_FINISH),
    *(Fault.HALF_EVENT, Fault.JSON_BODY, Fault.SERVER_ERROR, Fault.RATE_LIMITED),
    *(Fault.REJECTS_JSON_SCHEMA, *SILENT),
)


def test_what_goes_wrong_is_made_again_and_stored_once(place: Workplace) -> None:
    """A fault at the verdict of each conversation, silence among them."""

    def concerns(number: int) -> Callable[[Request], bool]:
        return lambda asked: (
            asked.role is Role.EVALUATOR
            and any(f"think. ({number})" in message.text for message in asked.messages)
        )

    prepare(place, batch=False, metrics=len(AGAIN), api="responses")
    place.retry_policy = watchful(1.0)
    for number, fault in enumerate(AGAIN, 1):
        place.server.plan(fault, concerns(number), first)
    assert not place.run(NAME).failed
    assert len(verdicts(place)) == len(AGAIN)
    assert place.server.counters.by_outcome.keys() >= {fault.value for fault in AGAIN}


def test_how_a_reply_ends_is_kept(place: Workplace) -> None:
    spoken(place)
    for number, fault in enumerate((Fault.REFUSAL, Fault.CONTENT_FILTER, Fault.LENGTH), 1):
        place.server.plan(fault, "steadfast", nth(number))
    place.run(NAME)
    with place.reader() as reader:
        takes = reader.takes(NAME)
        ends = {message.finish for take in takes for message in reader.messages(take.seq)}
    assert ends >= {"refusal", "content_filter", "length"}


def test_a_refused_summary_is_not_asked_for_again(place: Workplace) -> None:
    spoken(place, target="words-20")
    assert not place.run(NAME).failed
    refused = [call for call in place.server.calls if call.model == "words-20"]
    summaries = ["reasoning" in call.body for call in refused]
    assert summaries.count(False) == 6, "each reply came without"
    assert not any(summaries[-4:]), "it was remembered"


def test_models_that_exist_only_there_are_those_of_the_client() -> None:
    from openai.types.shared import ResponsesModel

    names = next(kind for kind in get_args(ResponsesModel) if "o3-pro" in get_args(kind))
    assert frozenset(get_args(names)) == RESPONSES_ONLY


@pytest.mark.parametrize(
    ("spec", "speaks"),
    [
        ({"model": "o3-pro"}, True),
        ({"model": "gpt-5.4"}, False),
        ({"model": "gpt-5.4", "api": "responses"}, True),
        ({"model": "o3-pro", "api": "chat"}, False),
        ({"model": "o3-pro", "base_url": "https://gateway.example/v1"}, False),
    ],
)
def test_it_is_spoken_where_a_model_needs_it_or_a_person_says_so(
    spec: dict[str, Any], speaks: bool
) -> None:
    assert ModelSpec(source="openai", **spec).speaks_responses is speaks


@pytest.mark.exhaustive
def test_the_server_of_the_tests_speaks_it_as_the_client_reads_it(server: ProtocolServer) -> None:
    with openai.OpenAI(api_key="key", base_url=server.openai_url, max_retries=0) as client:
        with client.responses.create(model="words-20", input="Hello", stream=True) as events:
            kinds = [event.type for event in events]
        whole = client.responses.create(model="words-20", input="Hello")
    assert kinds[0] == "response.created"
    assert kinds[-1] == "response.completed"
    assert "response.output_text.delta" in kinds
    assert len(whole.output_text.split()) == 20
