"""What providers answer in ways of their own becomes what they mean, in a run of all of them."""

from __future__ import annotations

import json
import re
import sqlite3
from collections.abc import Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any, Final

import pytest

from engine.providers.retry import RetryPolicy
from tests.approval import approve
from tests.engine.commands import crosswind
from tests.engine.wire.odd_provider import (
    JSON,
    REPLY,
    STOP,
    Answer,
    Odd,
    chunk,
    error,
    event,
    odd_provider,
    refuses,
    says,
    streams,
)
from tests.engine.wire.workplace import SleptTime, Workplace, metric, scenario
from tests.protocol_server.server import ProtocolServer

EXPECTED: Final = Path(__file__).with_name("odd_providers.txt")
TURNS: Final = 3
WORDS: Final = REPLY.split(" ")
HURRIED: Final = RetryPolicy(tries=2, first_token_s=10, between_s=4, ending_s=0.8)
"""Silence of 0.8 s after a reason to end ends a reply; all pauses of one together are longer."""
PAUSE: Final = 2.5


def late(odd: Odd, usual: Odd | None = None) -> Answer:
    """Answer as usual until the third turn."""

    def answer(body: dict[str, Any]) -> Odd:
        replies = sum(row["role"] == "assistant" for row in body["messages"])
        return odd if replies == TURNS - 1 else usual or says(REPLY)

    return answer


def always(odd: Odd) -> Answer:
    return lambda body: odd


def pieces(*finishes: str | None) -> list[str]:
    each = [*finishes, *[finishes[-1]] * len(WORDS)]
    return [chunk(f"{word} ", finish) for word, finish in zip(WORDS, each, strict=False)]


LATE: Final = event({"error": {"message": "This comes too late."}})


def paused(*parts: str | float) -> Answer:
    """A short pause after each part."""
    spread: list[str | float] = []
    for part in parts:
        spread += [part] if isinstance(part, float) else [part, 0.15]
    return always(Odd(spread))


def no_system(odd: Odd) -> Answer:
    return lambda body: odd if body["messages"][0]["role"] == "system" else says(REPLY)


def thinks(body: dict[str, Any]) -> Odd:
    said = [row for row in body["messages"] if row["role"] == "assistant"]
    if any(row.get("reasoning_content") != "They push." for row in said):
        words = "The `reasoning_content` in the thinking mode must be passed back to the API."
        return error(400, words, code="invalid_request_error")
    return streams(chunk(reasoning_content="They push."), chunk(REPLY), STOP)


def refuses_seed(body: dict[str, Any]) -> Odd:
    if "seed" not in body:
        return says(REPLY)
    fault = {"type": "extra_forbidden", "loc": ["body", "seed"], "msg": "Extra inputs"}
    detail = {"detail": [{**fault, "msg": "Extra inputs are not permitted"}]}
    return refuses(422, {"object": "error", "message": detail, "code": None})


def refuses_effort(body: dict[str, Any]) -> Odd:
    if body.get("reasoning_effort") != "minimal":
        return says(REPLY)
    words = "Unsupported value: 'reasoning_effort' does not support 'minimal' with this model."
    return error(400, words, param="reasoning_effort", code="unsupported_value")


def strict(first: Odd) -> Answer:
    """Refuses empty messages, and so its own first reply."""

    def answer(body: dict[str, Any]) -> Odd:
        if any(not row["content"].strip() for row in body["messages"]):
            return error(400, "Value error, Empty content is not allowed")
        return first if len(body["messages"]) < 4 else says(REPLY)

    return answer


def message(*events: str, text: str = REPLY) -> Odd:
    """A reply of the other protocol, with this behind its text."""
    begin = event({"type": "message_start", "message": {"usage": {}}})
    delta = {"type": "content_block_delta", "delta": {"type": "text_delta", "text": text}}
    return streams(begin, event(delta), *events)


ENDS: Final = event({"type": "message_delta", "delta": {"stop_reason": "end_turn"}})
STOPS: Final = event({"type": "message_stop"})
DOCUMENT: Final = {
    "choices": [{"message": {"content": REPLY}, "finish_reason": "stop"}],
    "usage": {"prompt_tokens": 3, "completion_tokens": 4},
}
BLOCKS: Final = {"content": [{"type": "text", "text": REPLY}], "stop_reason": "end_turn"}
NESTED: Final = {"error": {"message": "This model's maximum context length is 4096 tokens."}}
CALL: Final = {"function": {"name": "look_up", "arguments": "{}"}}
GOOGLE: Final = {
    "code": 429,
    "message": "You exceeded your current quota.",
    "details": [
        {"violations": [{"quotaId": "GenerateRequestsPerDayPerProjectPerModel-FreeTier"}]},
        {"retryDelay": "34s"},
    ],
}

OPENAI: Final[Mapping[str, Answer]] = {
    # a filter's answer is the target's
    "filter code": late(error(400, "Invalid prompt.", code="invalid_prompt")),
    "filter 403": late(
        refuses(403, {"code": "The caller may not", "error": "Content violates usage guidelines."})
    ),
    "filter words": late(error(400, "Content Exists Risk", code="invalid_request_error")),
    "filter choice": late(refuses(400, {"choices": [{"finish_reason": "content_filter"}]})),
    "filter finish": late(streams(chunk(finish="content_filter: PROHIBITED_CONTENT"), STOP)),
    "filter silent": late(streams(event({"choices": []}), event("[DONE]"))),
    "filter midway": late(
        streams(chunk("Well, I "), event({"error": {"code": "content_filter", "message": "No."}}))
    ),
    "filter empty": strict(says("", finish="content_filter")),
    # a full context ends the conversation
    "context kimi": late(error(400, "Your request exceeded model token limit: 8192")),
    "context bare": late(Odd(["<html>413</html>"], 413, "text/html")),
    "context stream": late(streams(event({"error": {"message": "when context overflows."}}))),
    "context nested": late(
        streams(event({"error": {"message": "?", "value": {"error_message": json.dumps(NESTED)}}}))
    ),
    "context 500": late(error(500, "the request exceeds the available context size")),
    # a lesson is learned from words about it
    "system o1": no_system(error(400, "'messages[0].role' does not support 'system' here.")),
    "system turns": no_system(
        refuses(400, {"message": "Conversation roles must alternate user/assistant/..."})
    ),
    "system 500": no_system(error(500, "Only user and tool roles are supported, got system.")),
    "reasoning back": thinks,
    "nested 422": refuses_seed,
    "effort": refuses_effort,
    # where a reply ends
    "early end": paused(*pieces("stop"), STOP),
    "first end": paused(chunk(finish="stop"), PAUSE, *pieces(None), STOP),
    "null end": paused(*pieces("null"), STOP),
    "end and silence": paused(*pieces(None), chunk(finish="stop"), PAUSE, LATE),
    "end beside text": paused(*pieces(None)[:-1], chunk(WORDS[-1], "stop"), PAUSE, LATE),
    "silence after an early end": paused(*pieces("stop"), PAUSE, STOP),
    "silence after the first": paused(*pieces("stop", None)[:1], PAUSE, *pieces(None)[1:], STOP),
    "done only": always(streams(*pieces(None), event("[DONE]"))),
    "cut": always(streams(*pieces(None))),
    "no events": always(
        streams("data:\n\n", *pieces(None), *map(event, ("ping", "null", "[]")), STOP)
    ),
    "small done": always(streams(*pieces(None), event("[done]"))),
    "no blanks": always(streams(*(one[:-1] for one in (*pieces(None), chunk(finish="stop"))))),
    "document": always(Odd([json.dumps(DOCUMENT)], kind=JSON)),
    "stream as JSON": always(Odd([chunk(REPLY), STOP], kind=JSON)),
    # what a reply is
    "cumulative": always(
        streams(*(chunk(" ".join(WORDS[: n + 1])) for n in range(len(WORDS))), STOP)
    ),
    "two choices": always(
        streams(
            chunk(REPLY),
            event({"choices": [{"index": 1, "delta": {"content": "NO"}, "finish_reason": None}]}),
            STOP,
        )
    ),
    "as messages": always(
        streams(*(event({"choices": [{"message": {"content": f"{w} "}}]}) for w in WORDS), STOP)
    ),
    "thinking": always(says(f"<thinking>They push.</thinking>\n\n{REPLY}")),
    "THINK": always(says(f"[THINK]They push.[/THINK]{REPLY}")),
    "channels": always(
        says(
            "<|channel|>analysis<|message|>They push.<|end|><|start|>assistant<|channel|>final"
            f"<|message|>{REPLY}"
        )
    ),
    "tool": always(streams(chunk(tool_calls=[CALL]), chunk(finish="tool_calls"), event("[DONE]"))),
    "cut always": always(streams(chunk(reasoning_content="Let me"), chunk(finish="length"))),
    "cut first": strict(streams(chunk(reasoning_content="Let me"), chunk(finish="length"))),
    # errors in a stream of status 200
    "balance": always(
        streams(event({"base_resp": {"status_code": 1008, "status_msg": "insufficient balance"}}))
    ),
    "key": always(streams(event({"code": "InvalidApiKey", "message": "Invalid API-key."}))),
    "FastChat": always(streams(event({"text": "CUDA is gone", "error_code": 50002}))),
    "plain words": always(streams("event: error\ndata: Too many requests, slow down\n\n")),
    "field": always(streams('error: {"code": 500, "message": "the slot was lost"}\n\n')),
    "no stream": always(error(400, "You must be verified to stream this model.", param="stream")),
    # limits that are none of the moment
    "quota 7 h": always(
        refuses(429, {"error": {"message": "RPD"}}, headers={"Retry-After": "25920"})
    ),
    "quota Google": always(refuses(429, [{"error": GOOGLE}])),
    "forbidden once": late(error(403, "Not this one.")),
}
ANTHROPIC: Final[Mapping[str, Answer]] = {
    "a filter": late(
        error(400, "Output blocked by content filtering policy"), message(ENDS, STOPS)
    ),
    "a refusal": late(
        message(event({"type": "message_delta", "delta": {"stop_reason": "refusal"}}), STOPS),
        message(ENDS, STOPS),
    ),
    "a no stop": always(message(ENDS)),
    "a no reason": always(message(STOPS)),
    "a done": always(message(ENDS, event("[DONE]"))),
    "a neither": always(message()),
    "a document": always(Odd([json.dumps(BLOCKS)], kind=JSON)),
    "a tool": always(
        streams(
            event(
                {"type": "content_block_start", "content_block": {"type": "tool_use", "name": "f"}}
            ),
            ENDS,
            STOPS,
        )
    ),
}


@pytest.fixture(scope="module")
def told(tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, str]:
    """A line for each target of one run with all of them."""
    with ProtocolServer() as server, odd_provider({**OPENAI, **ANTHROPIC}) as url:
        place = Workplace(
            tmp_path_factory.mktemp("odd") / "w", server, retry_policy=HURRIED, time=SleptTime()
        )
        own = {"source": "mine", "apikey": "sk-own"}
        own |= {"base_url": f"{url}/v1"}
        targets: list[dict[str, Any]] = [
            {"id": name.replace(" ", "-"), "model": name, **own} for name in OPENAI
        ]
        targets[list(OPENAI).index("nested 422")]["params"] = {"seed": 7}
        targets[list(OPENAI).index("effort")]["params"] = {"reasoning_effort": "minimal"}
        targets += [
            {"id": name.replace(" ", "-"), "model": name, "source": "anthropic", "apikey": "sk-own"}
            | {"base_url": url}
            for name in ANTHROPIC
        ]
        place.configure(targets, turns=TURNS, simulate=40, evaluate=40)
        place.define("odd", "Whether it stays honest.", [metric(1, "It stays honest.")])
        place.stage("odd", [scenario(1, prompt="Be kind.", turns=TURNS)])
        place.run("odd")
        with closing(sqlite3.connect(place.root / "crosswind.db")) as store:
            return {
                target["model"]: _line(store, target["id"], target["model"]) for target in targets
            }


def _line(store: sqlite3.Connection, target: str, model: str) -> str:
    """How its conversation ended, what it said, how it was judged, why it failed, what is noted."""

    def column(sql: str) -> Sequence[str]:
        return [row[0] for row in store.execute(sql, {"target": target, "said": f"{model} %"})]

    texts = store.execute(
        "SELECT m.text, m.finish, m.reasoning FROM message m JOIN take t ON t.seq = m.take "
        "WHERE t.target = :target AND m.speaker = 'assistant' ORDER BY m.turn",
        {"target": target},
    )
    said = [
        ("ok" if text.strip() == REPLY else repr(text))
        + (f" {finish}" if finish != "stop" else "")
        + (f" ({thought})" if thought else "")
        for text, finish, thought in texts
    ]
    ends = column(
        "SELECT stop_reason FROM take_end e JOIN take t ON t.seq = e.take WHERE t.target = :target"
    )
    verdicts = column(
        "SELECT coalesce(v.unscored, 'judged') FROM verdict v JOIN take t ON t.seq = v.take "
        "WHERE t.target = :target"
    )
    reasons = column(
        "SELECT DISTINCT reason FROM state WHERE target = :target AND reason IS NOT NULL"
    )
    notes = column("SELECT text FROM note WHERE text LIKE :said")
    return " | ".join((", ".join(said) or "nothing", *ends, *verdicts, *reasons, *notes))


def test_what_odd_providers_answer_becomes_what_they_mean(told: Mapping[str, str]) -> None:
    lines = "".join(f"{name}: {line}\n" for name, line in told.items())
    assert re.sub(r"until [-0-9]+ [0-9:]+ UTC", "until then", lines) == EXPECTED.read_text("utf-8")


def test_a_filter_that_strikes_in_ten_conversations_in_a_row_parks_its_target(
    server: ProtocolServer, tmp_path: Path
) -> None:
    refusal = error(400, "Content Exists Risk")
    with odd_provider({"all": always(refusal), "some": late(refusal)}) as url:
        place = Workplace(tmp_path / "w", server, retry_policy=HURRIED)
        own = {"source": "mine", "apikey": "sk-own", "base_url": f"{url}/v1"}
        targets = [{"id": name, "model": name, **own} for name in ("all", "some")]
        generation = {"scenarios_per_metric": 1, "turns": 3, "num_samples": 12}
        place.configure(targets, simulate=1, generation=generation)
        place.define("odd", "Whether it stays honest.", [metric(1, "It stays honest.")])
        place.stage("odd", [scenario(1, turns=3)])
        # the tenth has a reply, and no second one
        assert place.run("odd").failed == 3
    with closing(sqlite3.connect(place.root / "crosswind.db")) as store:
        [(reason, rows)] = store.execute(
            "SELECT reason, count(DISTINCT unit) FROM state WHERE state = 'failed' GROUP BY reason"
        )
    approve(reason)
    assert rows == 3
    said = " ".join(crosswind(place.root, "results", "odd", "--details").out.split())
    withheld = "refused: all 27 of 27 replies, some 12 of 36 replies; these count"
    assert withheld in said, said
