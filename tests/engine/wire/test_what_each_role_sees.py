"""What goes over the wire to each role: all that its part needs, and nothing else."""

from __future__ import annotations

import json

from engine.benchmark import Role
from engine.providers.model import MessageRole
from tests.engine.wire.workplace import BOTH_PROTOCOLS, CANARY, HEADER_CANARY, Workplace
from tests.protocol_server.request import Request

METRIC = {
    "id": "m01",
    "name": "Zebra-named behaviour",
    "type": "negative",
    "definition": "The assistant quotes a definition-of-orange.",
    "examples": ["an example-of-violet"],
}
SCENARIO = {
    "id": "m01_s001_v01",
    "metric_id": "m01",
    "persona": "You are persona-of-copper, who bakes.",
    "user_goal": "You want goal-of-silver.",
    "latent_adversarial_goal": "You want latent-of-gold.",
    "landmarks": [
        {"turn": 1, "instruction": "Do landmark-of-iron."},
        {"turn": 2, "instruction": "Do landmark-of-lead."},
    ],
    "demographic": {"age": "age-of-tin"},
    "target_system_prompt": "Prompt-of-zinc.",
}
ABOUT_THE_TEST = (
    "Zebra-named",
    "m01",
    "example-of-violet",
    "age-of-tin",
    "About benchmark-of-brass",
)
ABOUT_THE_PERSON = (
    "persona-of-copper",
    "goal-of-silver",
    "latent-of-gold",
    "landmark-of-iron",
    "landmark-of-lead",
)


def by_role(place: Workplace) -> dict[Role, list[Request]]:
    place.headers = True
    place.configure([{"id": "target-of-slate", **place.model("words-9")}])
    place.define("bread", "About benchmark-of-brass.", [METRIC])
    place.stage("bread", [SCENARIO])
    assert place.run("bread").failed == 0
    found: dict[Role, list[Request]] = {role: [] for role in Role}
    for request in place.server.requests:
        found[request.role].append(request)
    return found


def held(request: Request) -> str:
    """All of the body, as it would be read."""
    return json.dumps(request.body, ensure_ascii=False)


@BOTH_PROTOCOLS
def test_a_target_sees_its_prompt_and_what_was_said(place: Workplace) -> None:
    sent = by_role(place)
    first, second = sent[Role.TARGET]
    with place.reader() as reader:
        [take] = reader.takes("bread")
        said = reader.messages(take.seq)
    assert [(m.role, m.text) for m in second.messages] == [
        (MessageRole.SYSTEM, "Prompt-of-zinc."),
        (MessageRole.USER, said[0].text),
        (MessageRole.ASSISTANT, said[1].text),
        (MessageRole.USER, said[2].text),
    ]
    assert second.messages[:2] == first.messages
    # what it did not say itself is in no other field of the request either
    allowed = {"model", "messages", "system", "stream", "stream_options", "seed", "max_tokens"}
    assert set(first.body) | set(second.body) <= allowed | {"prompt_cache_key"}
    for request in (first, second):
        for word in (*ABOUT_THE_TEST, "definition-of-orange", "latent-of-gold", "slate"):
            assert word not in held(request)
        for thought in (message.thought for message in said if message.thought):
            assert thought not in held(request)


def test_a_user_model_is_told_of_no_turn_but_the_present_one(place: Workplace) -> None:
    first, second = by_role(place)[Role.USER]
    assert "landmark-of-iron" in held(first)
    assert "landmark-of-lead" not in held(first)
    assert "Do landmark-of-lead." in second.messages[-1].text
    assert "Do landmark-of-iron." not in held(second)
    for request in (first, second):
        system = request.messages[0]
        assert system.role is MessageRole.SYSTEM
        for word in (*ABOUT_THE_PERSON[:3], "definition-of-orange"):
            assert word in system.text
        assert "Prompt-of-zinc" not in held(request)
        assert "slate" not in held(request)
    # its own words come back as its own, the target's as another's
    spoken = [m.role for m in second.messages if m.text in {"", first.messages[-1].text}]
    assert MessageRole.ASSISTANT not in spoken
    assert second.in_midst


@BOTH_PROTOCOLS
def test_an_evaluator_sees_transcript_and_definition(place: Workplace) -> None:
    sent = by_role(place)
    with place.reader() as reader:
        [take] = reader.takes("bread")
        said = reader.messages(take.seq)
    for request in sent[Role.EVALUATOR]:
        text = "\n".join(message.text for message in request.messages)
        assert "definition-of-orange" in text
        for message in said:
            assert json.dumps(message.text, ensure_ascii=False)[1:-1] in text
            if message.thought:
                assert message.thought not in held(request)
        hidden = (*ABOUT_THE_TEST, "latent-of-gold", "Do landmark", "Prompt-of-zinc", "slate")
        assert [word for word in hidden if word in held(request)] == []
        assert "negative" not in held(request)


@BOTH_PROTOCOLS
def test_keys_and_headers_go_to_every_role_and_the_key_into_no_body(place: Workplace) -> None:
    for requests in by_role(place).values():
        for request in requests:
            assert request.headers["authorization"] == f"Bearer {CANARY}"
            assert request.headers["x-own-key"] == HEADER_CANARY
            assert request.headers["user-agent"] == "crosswind"
            assert CANARY not in held(request)
            assert HEADER_CANARY not in held(request)
