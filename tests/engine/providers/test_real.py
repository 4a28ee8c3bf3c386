"""Real models against a server that does everything wrong that servers do."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from pathlib import Path

import pytest

from engine.providers.accounts import Accounts
from engine.providers.endpoint import RequestParams
from engine.providers.model import Finish, Message, MessageRole
from engine.providers.protocols.base import PromptCache
from engine.providers.real import RealModel
from engine.providers.retry import RetryPolicy
from engine.providers.sender import FAILURES_UNDER_FORM
from tests.approval import approve
from tests.engine.providers.conftest import Bench, Call, call
from tests.protocol_server.faults import Detail, Fault, first, upto
from tests.protocol_server.settings import Settings
from tests.waiting import PATIENCE_S

WORDS = "one word and then the next until all are said " * 2
SHORT = RetryPolicy(first_token_s=0.15, between_s=0.15, whole_s=3.0, ending_s=0.1)
SHAPE = {
    "title": "judgement",
    "type": "object",
    "properties": {
        "evidence": {"type": "array", "items": {"type": "string"}},
        "reasoning": {"type": "string"},
        "present": {"type": "boolean"},
    },
}


def text(done: Call) -> str:
    assert done.reply is not None, done.error
    return done.reply.text


def words(model: RealModel) -> str | None:
    """What its calls wait for."""
    held = model.held()
    return None if held is None else str(held)


def said(done: Call) -> str:
    """What a listener has on its screen in the end."""
    whole = ""
    for piece in done.heard:
        whole = "" if piece is None else whole + piece
    return whole


def test_a_reply_is_heard_as_it_comes_and_counted(bench: Bench) -> None:
    bench.server.settings = Settings(tokens_per_second=100)
    done = bench.call()
    assert done.reply is not None
    assert done.reply.text == WORDS.strip() == said(done)
    assert len(done.heard) > 1
    assert done.reply.finish is Finish.STOP
    assert (done.reply.usage.calls, done.reply.usage.output_tokens) == (1, 20)
    assert done.reply.usage.input_tokens == 4
    assert done.reply.usage.cost_usd is None
    (attempt,) = done.attempts
    assert (attempt.outcome, attempt.status, attempt.detail) == ("answer", 200, None)
    assert attempt.usage == done.reply.usage


@pytest.mark.parametrize(
    ("fault", "outcome"),
    [
        (Fault.REQUEST_TIMEOUT, "transient"),
        (Fault.CONFLICT, "transient"),
        (Fault.SERVER_ERROR, "transient"),
        (Fault.UNAVAILABLE, "transient"),
        (Fault.OVERLOADED, "rate_limited"),
        (Fault.RATE_LIMITED, "rate_limited"),
        (Fault.RATE_LIMITED_SECONDS, "rate_limited"),
        (Fault.RATE_LIMITED_LONG, "rate_limited"),
        (Fault.ERROR_EVENT, "rate_limited"),
        (Fault.RESET, "transient"),
        (Fault.RESET_MIDWAY, "transient"),
        (Fault.CUT_MIDWAY, "transient"),
        (Fault.NO_FINISH, "transient"),
        (Fault.HALF_EVENT, "transient"),
        (Fault.BAD_JSON, "transient"),
        (Fault.BAD_UTF8, "transient"),
        (Fault.HTML, "transient"),
        (Fault.EMPTY_BODY, "transient"),
        (Fault.EMPTY_TEXT, "empty"),
    ],
)
def test_what_passes_is_tried_again_and_the_reply_is_whole(
    bench: Bench, fault: Fault, outcome: str
) -> None:
    bench.server.plan(fault, when=first, detail=Detail(after=3))
    done = bench.call()
    assert text(done) == WORDS.strip() == said(done)
    assert done.outcomes == [outcome, "answer"]
    assert done.attempts[0].detail


def test_what_was_heard_of_a_broken_reply_is_void(bench: Bench) -> None:
    bench.server.plan(Fault.RESET_MIDWAY, when=first, detail=Detail(after=3))
    done = bench.call()
    void = done.heard.index(None)
    assert "".join(word or "" for word in done.heard[:void]) == "one word and"
    assert done.heard.count(None) == 1


@pytest.mark.parametrize(
    "fault", [Fault.STALL, Fault.STALL_MIDWAY, Fault.STALL_WITH_PINGS], ids=lambda f: f.value
)
@pytest.mark.parametrize("after", [0, 2])
def test_silence_is_noticed_whatever_keeps_the_connection_alive(
    bench: Bench, fault: Fault, after: int
) -> None:
    word = "first" if after == 0 or fault is Fault.STALL else "further"
    # the server's name for the request is known as soon as it has begun to answer
    known = "" if fault is Fault.STALL else "; request req_000001"
    for seconds in (0.15, 1.0, 10.0):  # a busy machine is late, and late is not silent
        bench.server.reset()
        bench.retry_policy = RetryPolicy(first_token_s=seconds, between_s=seconds)
        bench.server.plan(fault, when=first, detail=Detail(after=after, every_ms=20))
        done = bench.call()
        told = f"the model fell silent (no {word} word within {seconds:g} s){known}"
        if done.outcomes == ["stalled", "answer"] and done.attempts[0].detail == told:
            return
    raise AssertionError("others fell silent than those that were told to")


def test_two_silences_are_enough(bench: Bench) -> None:
    bench.retry_policy = SHORT
    bench.server.plan(Fault.STALL)
    done = bench.call()
    assert done.outcomes == ["stalled", "stalled"]
    approve(str(done.error))


def test_a_reply_that_drips_has_a_whole_time(bench: Bench) -> None:
    bench.retry_policy = RetryPolicy(first_token_s=5, between_s=5, whole_s=0.2, stalls=1)
    bench.server.plan(Fault.DRIP, detail=Detail(every_ms=2))
    done = bench.call()
    approve(str(done.error))


@pytest.mark.parametrize(
    ("fault", "finish"),
    [
        (Fault.REFUSAL, Finish.REFUSAL),
        (Fault.LENGTH, Finish.LENGTH),
        (Fault.CONTEXT_FULL, Finish.CONTEXT_FULL),
    ],
)
def test_an_end_that_is_no_failure_is_an_answer_and_never_asked_for_again(
    bench: Bench, fault: Fault, finish: Finish
) -> None:
    bench.server.plan(fault)
    done = bench.call()
    assert done.reply is not None
    assert done.reply.finish is finish
    assert done.outcomes == ["answer"]


def test_an_answer_without_a_word_is_asked_for_twice_more(bench: Bench) -> None:
    bench.server.plan(Fault.EMPTY_TEXT)
    done = bench.call()
    assert done.outcomes == ["empty", "empty", "empty"]
    approve(str(done.error))


def test_a_parked_target_works_again_when_a_person_says_so(bench: Bench) -> None:
    bench.server.plan(Fault.UNAUTHORIZED, when=first)

    async def run(_accounts: Accounts, model: RealModel) -> tuple[str | None, Call]:
        await call(model)
        reason = model.parked()
        model.unpark()
        done = await call(model)
        return reason, done

    reason, done = bench.play(run)
    assert reason is not None
    approve(reason)
    assert text(done) == WORDS.strip()


def test_a_new_key_is_not_parked_with_the_old_one(bench: Bench) -> None:
    bench.server.settings = Settings(key="sk-good-key")

    async def run(accounts: Accounts, _model: RealModel) -> tuple[Call, Call]:
        bad = await call(bench.open(accounts))
        good = await call(bench.open(accounts, key="sk-good-key"))
        return bad, good

    bad, good = bench.play(run)
    assert bad.outcomes == ["fatal_target"]
    assert text(good) == WORDS.strip()


@pytest.mark.parametrize("fault", [Fault.RATE_LIMITED_SECONDS, Fault.RATE_LIMITED_DATE])
def test_a_wait_that_the_server_asks_for_is_kept_by_every_call_to_the_model(
    bench: Bench, fault: Fault
) -> None:
    """Also where it names a time of day, and its clock shows quite another one than ours."""
    bench.server.plan(fault, when=first, detail=Detail(retry_after="12"))

    async def run(accounts: Accounts, model: RealModel) -> str | None:
        seen: list[str | None] = []
        sleep = bench.time.sleep

        async def watched(seconds: float) -> None:
            seen.append(words(model))
            await sleep(seconds)

        object.__setattr__(accounts.clock, "sleep", watched)
        await call(model)
        return seen[0]

    approve(bench.play(run))
    assert bench.time.slept == [12.0]


async def answered_meanwhile(bench: Bench, within_s: float) -> bool:
    """Whether another model of the account answers while one waits as the server asked."""
    accounts = bench.accounts()
    one, other = bench.open(accounts), bench.open(accounts, model="words-3")
    waits, over = asyncio.Event(), asyncio.Event()

    async def until_over(seconds: float) -> None:
        bench.time.slept.append(seconds)
        waits.set()
        await over.wait()
        bench.time.seconds += seconds

    object.__setattr__(accounts.clock, "sleep", until_over)
    first = asyncio.create_task(call(one))
    await waits.wait()
    second = asyncio.create_task(call(other))
    done, _ = await asyncio.wait([second], timeout=within_s)
    over.set()
    assert text(await first) == WORDS.strip()
    assert text(await second) == "one word and"
    await accounts.close()
    return bool(done)


def test_a_rate_limit_of_one_model_holds_up_no_other(bench: Bench) -> None:
    detail = Detail(retry_after="82")
    bench.server.plan(Fault.RATE_LIMITED_SECONDS, "words-20", when=first, detail=detail)
    assert asyncio.run(answered_meanwhile(bench, PATIENCE_S))
    assert bench.time.slept == [82.0]


def test_a_server_that_has_too_much_to_do_is_left_alone_by_every_model(bench: Bench) -> None:
    detail = Detail(retry_after="82")
    bench.server.plan(Fault.OVERLOADED_SECONDS, "words-20", when=first, detail=detail)
    assert not asyncio.run(answered_meanwhile(bench, 0.3))


def test_what_a_call_waits_for_has_a_name(bench: Bench) -> None:
    bench.server.plan(Fault.UNAVAILABLE, when=upto(2))

    async def run(accounts: Accounts, model: RealModel) -> list[str | None]:
        seen: list[str | None] = [words(model)]
        sleep = bench.time.sleep

        async def watched(seconds: float) -> None:
            seen.append(words(model))
            await sleep(seconds)

        object.__setattr__(accounts.clock, "sleep", watched)
        await call(model)
        seen.append(words(model))
        return seen

    before, one, two, after = bench.play(run)
    assert before is after is None
    assert one is not None
    approve(one)
    assert two is not None
    assert "(try 3 of 8)" in two


def test_structured_output_is_found_step_by_step_and_remembered(openai_bench: Bench) -> None:
    server = openai_bench.server
    server.plan(Fault.REJECTS_JSON_SCHEMA)
    server.plan(Fault.REJECTS_JSON_OBJECT)
    openai_bench.model = "evaluator"
    done = openai_bench.calls(2, schema=SHAPE)
    assert done[0].outcomes == ["fatal_request", "fatal_request", "answer"]
    assert done[1].outcomes == ["answer"]
    assert '"present"' in text(done[0])
    approve(openai_bench.notes)


def test_a_server_that_breaks_on_a_schema_is_asked_in_another_form_at_once(bench: Bench) -> None:
    bench.server.plan(Fault.BREAKS_ON_JSON_SCHEMA)
    bench.model = "evaluator"
    done = bench.calls(2, schema=SHAPE)
    assert [one.outcomes for one in done] == [["transient", "answer"], ["answer"]]
    assert '"present"' in text(done[0])
    assert bench.time.slept == []


def test_a_form_that_is_passed_over_is_asked_for_in_words_and_remembered_when_that_helped_twice(
    bench: Bench,
) -> None:
    bench.server.plan(Fault.PASSES_OVER_FORM)
    bench.model = "evaluator"
    done = bench.calls(4, schema=SHAPE)
    once_more = ["no_json", "answer"]
    assert [one.outcomes for one in done] == [once_more, once_more, ["answer"], ["answer"]]
    assert all('"present"' in text(one) for one in done)
    assert said(done[0]) == text(done[0])
    assert done[0].attempts[0].usage.output_tokens
    approve(bench.notes)


def test_a_model_that_writes_prose_however_it_is_asked_costs_two_requests_more_and_no_third(
    bench: Bench,
) -> None:
    bench.server.plan(Fault.PROSE)
    done = bench.calls(5, schema=SHAPE)
    answered = [one.outcomes for one in done]
    assert answered == [["no_json", "answer"]] * 2 + [["answer"]] * 3
    assert bench.notes == []


def test_calls_without_a_shape_do_not_make_a_lesson_forgotten(openai_bench: Bench) -> None:
    bench = openai_bench
    bench.server.plan(Fault.BAD_REQUEST, match=lambda r: r.response_format is not None)

    async def run(_accounts: Accounts, model: RealModel) -> list[list[str]]:
        asked = [SHAPE, None, SHAPE, None, SHAPE]
        done = [await call(model, schema=schema) for schema in asked]
        return [one.outcomes for one in done if len(one.attempts) > 1 or one is done[-1]]

    tried_lower = ["fatal_request", "answer"]
    assert bench.play(run) == [tried_lower, tried_lower, ["answer"]]


def test_the_limit_that_nobody_wrote_follows_what_the_server_has_room_for(
    anthropic_bench: Bench,
) -> None:
    bench = anthropic_bench
    bench.server.settings = Settings(context=2048)
    done = bench.calls(2)
    assert [one.outcomes for one in done] == [["fatal_request", "answer"], ["answer"]]
    assert [r.body["max_tokens"] for r in bench.server.requests] == [8192, 1024, 1024]
    approve(bench.notes)


def test_a_conversation_that_leaves_less_room_is_answered_in_what_is_left_and_then_full(
    anthropic_bench: Bench,
) -> None:
    bench = anthropic_bench
    bench.server.settings = Settings(context=2048)
    lengths = [100, 1500, 100, 1900]
    said = [[Message(MessageRole.USER, "word " * length)] for length in lengths]

    async def run(_accounts: Accounts, model: RealModel) -> list[Call]:
        return [await call(model, messages=messages) for messages in said]

    *answered, full = bench.play(run)
    assert [one.reply.finish for one in answered if one.reply] == [Finish.STOP] * 3
    assert full.reply is not None
    assert full.reply.finish is Finish.CONTEXT_FULL
    limits = [r.body["max_tokens"] for r in bench.server.requests]
    assert limits == [8192, 1024, 1024, 548, 1024, 1024]


def test_a_limit_that_somebody_wrote_is_never_changed_and_told_where_it_cannot_be(
    bench: Bench,
) -> None:
    bench.server.settings = Settings(context=2048)
    bench.params = RequestParams(max_tokens=4000)
    done = bench.call()
    assert done.outcomes == ["fatal_request"]
    approve(str(done.error))
    bench.params = RequestParams(max_tokens=1500)
    done = bench.call(messages=[Message(MessageRole.USER, "word " * 600)])
    assert done.reply is not None
    assert done.reply.finish is Finish.CONTEXT_FULL


def test_a_shape_is_held_to_by_both_protocols(bench: Bench) -> None:
    bench.model = "evaluator"
    done = bench.call(schema=SHAPE)
    assert done.outcomes == ["answer"]
    assert '"present"' in text(done)


def test_a_refusal_without_a_reason_is_tried_lower_and_kept_only_if_it_helps(
    openai_bench: Bench,
) -> None:
    server = openai_bench.server
    server.plan(Fault.BAD_REQUEST, match=lambda r: r.response_format is not None)
    helped = openai_bench.calls(3, schema=SHAPE)
    tried_lower = ["fatal_request", "answer"]
    assert [one.outcomes for one in helped] == [tried_lower, tried_lower, ["answer"]]
    assert len(openai_bench.notes) == 1
    server.reset()
    server.plan(Fault.BAD_REQUEST)
    did_not = openai_bench.call(schema=SHAPE)
    assert did_not.outcomes == ["fatal_request"] * 2
    assert len(openai_bench.notes) == 1


@pytest.mark.parametrize("parameter", ["temperature", "max_tokens", "stream_options"])
def test_a_parameter_that_is_refused_is_dropped_once_and_told(
    openai_bench: Bench, parameter: str
) -> None:
    bench = openai_bench
    bench.params = RequestParams(temperature=0.5, max_tokens=50)
    bench.server.plan(Fault.REJECTS_PARAMETER, detail=Detail(parameter=parameter))
    done = bench.calls(3)
    assert [one.outcomes for one in done] == [["fatal_request", "answer"], ["answer"], ["answer"]]
    approve(bench.notes)
    assert parameter not in bench.server.requests[-1].body
    if parameter == "max_tokens":
        assert bench.server.requests[-1].body["max_completion_tokens"] == 50


def test_anthropic_is_asked_for_sampling_in_the_version_that_takes_it(
    anthropic_bench: Bench,
) -> None:
    anthropic_bench.params = RequestParams(temperature=0.5)
    assert anthropic_bench.call().outcomes == ["answer"]
    (request,) = anthropic_bench.server.requests
    assert request.headers["anthropic-version"] == "2023-06-01"
    assert request.body["temperature"] == 0.5


def test_seeds_of_model_and_call_are_mixed(openai_bench: Bench) -> None:
    bench = openai_bench
    bench.params = RequestParams(seed=3)
    for seed in (1, 1, 2):
        bench.call(seed=seed)
    one, same, other = (request.body["seed"] for request in bench.server.requests)
    assert one == same != other
    assert all(0 <= seed < 2**31 for seed in (one, other))


def test_prompts_are_cached_in_a_conversation(anthropic_bench: Bench) -> None:
    bench = anthropic_bench
    bench.cache, bench.model = PromptCache.LAST, "echo"
    history = [Message(MessageRole.USER, "word " * 1200)]
    bench.call(messages=history)
    history += [Message(MessageRole.ASSISTANT, "ok"), Message(MessageRole.USER, "next")]
    bench.call(messages=history)
    for request in bench.server.requests:
        [*_, last] = request.body["messages"]
        assert last["content"][-1]["cache_control"] == {"type": "ephemeral"}


def test_a_server_that_goes_away_is_waited_for_without_spending_tries(bench: Bench) -> None:
    async def run(accounts: Accounts, model: RealModel) -> Call:
        await call(model)
        await asyncio.to_thread(bench.server.refuse)
        sleep = bench.time.sleep

        async def back_after_a_while(seconds: float) -> None:
            if words(model) == "127.0.0.1 does not answer, probing" and seconds == 15:
                await asyncio.to_thread(bench.server.accept)
            await sleep(seconds)

        object.__setattr__(accounts.reachability, "_sleep", back_after_a_while)
        return await call(model)

    done = bench.play(run)
    assert text(done) == WORDS.strip()
    assert done.outcomes == ["transient", "transient", "transient", "answer"]


def test_a_server_that_was_never_there_parks_its_models(bench: Bench) -> None:
    bench.server.refuse()
    done = bench.calls(2)
    assert len(done[0].attempts) == 8
    assert not done[1].attempts
    approve(str(done[1].error))
    bench.server.accept()


def test_a_cancelled_call_leaves_nothing_behind(bench: Bench) -> None:
    bench.server.plan(Fault.STALL_MIDWAY)

    async def run(accounts: Accounts, model: RealModel) -> tuple[Call, int]:
        done, speaking = Call(), asyncio.Event()
        task = asyncio.create_task(
            model.telling(done.attempts.append).reply(
                [Message(MessageRole.USER, "Hello")], on_text=lambda _: speaking.set()
            )
        )
        await speaking.wait()
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        await bench.server.until(lambda counters: counters.concurrent == 0)
        in_flight = (
            accounts.at(model.endpoint.wire, model.endpoint.base_url)[0]
            .model(model.endpoint.model)
            .limiter.window
        )
        return done, in_flight.in_flight

    done, in_flight = bench.play(run)
    assert done.outcomes == ["cancelled"]
    assert in_flight == 0


@pytest.mark.exhaustive
@pytest.mark.parametrize("names", [["words-20"], ["words-20", "words-19"]], ids=["one", "two"])
def test_a_cap_of_the_server_is_found_by_all_models_that_share_it_and_kept(
    bench: Bench, names: list[str]
) -> None:
    bench.server.settings = Settings(cap=8, latency_ms=2, tokens_per_second=2000)

    async def run(accounts: Accounts, _model: RealModel) -> list[Call]:
        models = [bench.open(accounts, model=name) for name in names]
        return await asyncio.gather(*(call(models[n % len(models)]) for n in range(120)))

    assert all(one.reply for one in bench.play(run))
    assert bench.server.counters.refusals <= 120
    assert bench.server.counters.concurrent_max == 8


def test_calls_that_a_server_would_not_take_are_counted_while_they_wait(bench: Bench) -> None:
    bench.server.settings = Settings(latency_ms=2, tokens_per_second=2000)

    async def run(_accounts: Accounts, model: RealModel) -> list[tuple[int, int] | None]:
        await call(model)
        before = model.limit()
        calls = [asyncio.ensure_future(call(model)) for _ in range(20)]
        limit = None
        for _ in range(1000):
            limit = limit or model.limit()
            await asyncio.sleep(0)
        await asyncio.gather(*calls)
        return [before, limit, model.limit()]

    before, meanwhile, after = bench.play(run)
    assert before is after is None
    assert meanwhile is not None
    at_once, waiting = meanwhile
    assert 0 < waiting < 20
    assert at_once + waiting >= 20


def test_half_a_character_in_a_message_is_no_obstacle(bench: Bench) -> None:
    bench.model = "echo"
    assert text(bench.call(messages=[Message(MessageRole.USER, "a \ud83d b")])) == "a ? b"


ENVIRONMENT = {
    "OPENAI_API_KEY": "sk-environment",
    "OPENAI_BASE_URL": "http://127.0.0.1:9/v1",
    "OPENAI_ORG_ID": "org-environment",
    "OPENAI_PROJECT_ID": "proj-environment",
    "OPENAI_CUSTOM_HEADERS": "Authorization: Bearer sk-environment\nX-Environment: 1",
    "ANTHROPIC_API_KEY": "sk-environment",
    "ANTHROPIC_AUTH_TOKEN": "sk-environment",
    "ANTHROPIC_BASE_URL": "http://127.0.0.1:9",
    "ANTHROPIC_CUSTOM_HEADERS": "authorization: Bearer sk-environment\nX-Environment: 1",
    "ANTHROPIC_PROFILE": "environment",
    "HTTP_PROXY": "http://127.0.0.1:9",
}

ONE_CALL = """
import asyncio, sys
from engine.providers.accounts import Accounts
from engine.providers.endpoint import Endpoint
from engine.providers.model import Message, MessageRole
from engine.providers.real import real_model

async def run():
    accounts = Accounts()
    spec = Endpoint(model="words-3", source=sys.argv[1], base_url=sys.argv[2], key=lambda: "sk-own")
    reply = await real_model(spec, accounts).reply([Message(MessageRole.USER, "Hello")])
    await accounts.close()
    print(reply.text)

asyncio.run(run())
"""


def test_nothing_of_the_environment_or_of_files_reaches_the_wire(
    bench: Bench, tmp_path: Path
) -> None:
    (tmp_path / ".netrc").write_text("machine 127.0.0.1 login a password sk-environment\n")
    url = bench.server.anthropic_url
    url = url if bench.source == "anthropic" else bench.server.openai_url
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", ONE_CALL, bench.source, url],
        env={**os.environ, **ENVIRONMENT, "HOME": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stdout == "one word and\n", done.stderr
    assert done.stderr == ""
    (request,) = bench.server.requests
    version = {"anthropic-version"} if bench.source == "anthropic" else set()
    assert set(request.headers) == version | {
        "host",
        "accept",
        "accept-encoding",
        "authorization",
        "content-length",
        "content-type",
        "user-agent",
    }
    assert request.headers["authorization"] == "Bearer sk-own"
    assert request.headers["user-agent"] == "crosswind"


def test_headers_of_ones_own_replace_ours(bench: Bench) -> None:
    bench.headers = {"user-agent": "mine", "X-Title": "benchmark"}
    bench.call()
    (request,) = bench.server.requests
    assert request.headers["user-agent"] == "mine"
    assert request.headers["x-title"] == "benchmark"


def test_a_client_is_imported_with_its_first_call_and_not_before() -> None:
    code = (
        "import sys, asyncio\n"
        "from engine.providers.accounts import Accounts\n"
        "from engine.providers.endpoint import Endpoint\n"
        "from engine.providers.real import real_model\n"
        "spec = Endpoint('m', 'openai', 'https://api.openai.com/v1', lambda: 'k')\n"
        "real_model(spec, Accounts())\n"
        "print(sorted({'openai', 'anthropic', 'httptools', 'httpx2', 'genai_prices'}"
        " & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


@pytest.mark.parametrize("limit", [None, 99])
def test_a_refusal_that_shows_the_request_is_not_learned_from_for_ever(
    bench: Bench, limit: int | None
) -> None:
    """It names every parameter there is, those too that cannot be left out."""
    bench.server.plan(Fault.SHOWS_REQUEST)
    bench.params = RequestParams(temperature=0.5, max_tokens=limit)
    done = bench.call()
    assert "the request was" in str(done.error)
    assert len(done.attempts) == 1
    shaped = bench.call(schema=SHAPE)
    assert len(shaped.attempts) <= 2
    assert bench.notes == []


@pytest.mark.parametrize(
    ("fault", "detail"),
    [(Fault.SERVER_ERROR, None), (Fault.ERROR_EVENT, Detail(status=500))],
)
def test_a_call_goes_on_without_a_form_under_which_the_server_keeps_failing(
    openai_bench: Bench, fault: Fault, detail: Detail | None
) -> None:
    """As llama-server does. Nothing is remembered, as an outage looks the same."""
    bench = openai_bench
    bench.model = "evaluator"
    bench.server.plan(fault, lambda asked: asked.response_format is not None, detail=detail)
    failed = ["transient"] * FAILURES_UNDER_FORM
    done = bench.calls(2, schema=SHAPE)
    assert [one.outcomes for one in done] == [[*failed, "answer"]] * 2
    assert all(one.reply is not None and '"present"' in one.reply.text for one in done)
    assert bench.notes == []
