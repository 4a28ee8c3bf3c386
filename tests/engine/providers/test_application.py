"""Any application over HTTP: what it is sent, what of its answer is the reply, and what is none."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from engine.providers.accounts import Accounts
from engine.providers.endpoint import Application, Endpoint, ExtraBody
from engine.providers.model import Message, MessageRole
from engine.providers.real import real_model
from engine.providers.retry import RetryPolicy
from tests.approval import approve
from tests.engine.providers.applications import (
    AppAnswer,
    RunningApp,
    events,
    json_answer,
    running_app,
)
from tests.engine.providers.conftest import Call, FakeTime, call

SYSTEM, HELLO = Message(MessageRole.SYSTEM, "Be kind."), Message(MessageRole.USER, "Hello")
LONGER = (
    SYSTEM,
    HELLO,
    Message(MessageRole.ASSISTANT, "Hi"),
    Message(MessageRole.USER, "And now?"),
)
ALL = {"messages": "$messages"}
LAST = {"id": "$session", "text": "$message"}


def ask(
    app: RunningApp,
    request: dict[str, Any] = ALL,
    *,
    reply: str | None = "text",
    stream: str | None = None,
    keeps_session: bool = False,
    said: tuple[Message, ...] = (SYSTEM, HELLO),
    login: str = "Bearer sk-secret-token-456",
    follow_redirects: bool = False,
) -> Call:
    async def run() -> Call:
        policy = RetryPolicy(tries=3, empties=0, refused_s=100, unreachable_s=1)
        accounts = Accounts(clock=FakeTime().as_clock(), retry_policy=policy)
        spec = Endpoint(
            "shop",
            "http",
            app.url,
            headers=lambda: {"X-Token": "sk-secret-token-123", "Authorization": login},
            extra_body=lambda: ExtraBody(request),
            application=Application(
                reply, stream, keeps_session, follow_redirects=follow_redirects
            ),
        )
        model = real_model(spec, accounts, label="http:shop").in_session("s1")
        try:
            return await call(model, *said)
        finally:
            await accounts.close()

    return asyncio.run(run())


@pytest.mark.parametrize(
    ("model", "served", "other"),
    [
        ({}, "mock-beta", None),
        ({"model": "mock-beta"}, "mock-beta", None),
        ({"model": "mock-beta"}, "mock-gamma", "mock-gamma"),
        ({"model": "$model"}, "shop", None),
        ({"model": "$model"}, "mock-beta", "mock-beta"),
        ({"options": {"model": "$model"}}, "mock-beta", "mock-beta"),
    ],
)
def test_a_served_model_is_compared_with_the_one_that_the_request_names(
    model: dict[str, Any], served: str, other: str | None
) -> None:
    with running_app(lambda _: json_answer({"text": "Hi", "model": served})) as app:
        reply = ask(app, ALL | model).reply
    assert reply is not None
    assert reply.served_by == other


@pytest.mark.parametrize(
    ("request_", "keeps_session", "said", "sent"),
    [
        (
            ALL,
            False,
            LONGER,
            {
                "messages": [
                    {"role": "system", "content": "Be kind."},
                    {"role": "user", "content": "Hello"},
                    {"role": "assistant", "content": "Hi"},
                    {"role": "user", "content": "And now?"},
                ]
            },
        ),
        (
            {"system": "$system", "list": "$messages", "n": 3, "who": "[$model] $message"},
            False,
            (SYSTEM, HELLO),
            {
                "system": "Be kind.",
                "list": [{"role": "user", "content": "Hello"}],
                "n": 3,
                "who": "[shop] Hello",
            },
        ),
        (LAST, True, LONGER, {"id": "s1", "text": "And now?"}),
        (ALL, True, LONGER, {"messages": [{"role": "user", "content": "And now?"}]}),
        (
            {"m": ["$message", "$message"]},
            False,
            (Message(MessageRole.USER, "a $session"),),
            {"m": ["a $session"] * 2},
        ),
    ],
)
def test_a_template_is_filled_in_and_nothing_that_was_said_is_taken_for_one(
    request_: dict[str, Any],
    keeps_session: bool,
    said: tuple[Message, ...],
    sent: dict[str, Any],
) -> None:
    with running_app(lambda _body: json_answer({"text": "Yes."})) as app:
        done = ask(app, request_, keeps_session=keeps_session, said=said)
    assert done.reply is not None, done.error
    assert (done.reply.text, done.heard) == ("Yes.", ["Yes."])
    assert app.bodies == [sent]
    assert app.headers[0]["Authorization"] == "Bearer sk-secret-token-456"
    assert app.headers[0]["X-Token"] == "sk-secret-token-123"


@pytest.mark.parametrize(
    ("answer", "reply", "stream", "text"),
    [
        (json_answer({"a": [{"b": "Yes."}]}), "a.0.b", None, "Yes."),
        (json_answer({"text": "Made."}, status=201), "text", None, "Made."),
        (json_answer(["x", "Yes."]), "1", None, "Yes."),
        (json_answer({"text": "Yes.", "error": "a word"}), "text", None, "Yes."),
        (AppAnswer('\ufeff{"text": "Yes."}', "text/plain"), "text", None, "Yes."),
        (events({"d": "Ye"}, {"ping": 1}, {"d": "s."}), None, "d", "Yes."),
        (events({"d": "Yes."}, "[DONE]", {"d": "no"}), None, "d", "Yes."),
        (json_answer({"text": "Whole."}), "text", "d", "Whole."),
    ],
)
def test_the_reply_is_what_stands_at_its_path(
    answer: AppAnswer, reply: str | None, stream: str | None, text: str
) -> None:
    with running_app(lambda _body: answer) as app:
        done = ask(app, reply=reply, stream=stream)
    assert done.reply is not None, done.error
    assert done.reply.text == text
    assert done.reply.usage.cost_usd is None


def test_what_it_says_that_it_used_is_counted() -> None:
    used = {"text": "Yes.", "usage": {"prompt_tokens": 12, "completion_tokens": 3}}
    with running_app(lambda _body: json_answer(used)) as app:
        done = ask(app)
    assert done.reply is not None
    assert (done.reply.usage.input_tokens, done.reply.usage.output_tokens) == (12, 3)


@pytest.mark.parametrize(
    ("answer", "stream", "words"),
    [
        (AppAnswer("<html>Sign in</html>", "text/html"), None, "a web page in place of JSON"),
        (AppAnswer(""), None, "nothing in place of JSON"),
        (AppAnswer("Yes."), None, "text in place of JSON"),
        (json_answer({"answer": 3, "id": 1}), None, "no text at `text`; the answer has `answer`"),
        (json_answer({"text": 3}), None, "no text at `text`"),
        (json_answer([]), None, "the answer is a list"),
        (json_answer({"error": {"message": "no docs"}}), None, "no docs"),
        (json_answer({"text": " "}), None, "answered with nothing"),
        (json_answer({"m": "why"}, status=500), None, "500: the server failed"),
        (AppAnswer('{"text": "Ye', missing=5), None, "the connection broke"),
        (AppAnswer("[" * 100_000), None, "text in place of JSON"),
        (AppAnswer('{"text": "' + "x" * (5 << 20) + '"}'), None, "too large"),
        (AppAnswer('{"text": "\udcff"}'), None, "the answer holds bytes that are not UTF-8"),
        (events({"x": "Yes."}), "d", "broke off"),
        (events("Yes."), "d", "not JSON"),
        (AppAnswer('data: {"d": "Ye"}\n\n', "text/event-stream", missing=9), "d", "broke"),
        (events({"d": "Ye"}, {"error": "gone"}), "d", "gone"),
    ],
)
def test_what_is_no_reply_fails_with_what_came_and_is_retryable(
    answer: AppAnswer, stream: str | None, words: str
) -> None:
    with running_app(lambda _body: answer) as app:
        done = ask(app, reply=None if stream else "text", stream=stream)
    assert words in str(done.error)
    assert "sk-secret" not in str(done.error)
    oversized = "too large" in words
    assert getattr(done.error, "retryable", None) is not oversized
    if stream:
        assert done.heard[-1:] in ([], [None])


def test_a_rate_limit_is_waited_out_and_a_wrong_token_parks_it_with_the_keys_to_look_at() -> None:
    answers = [
        json_answer({}, status=429, headers={"Retry-After": "7"}),
        json_answer({"text": "Yes."}),
    ]
    with running_app(lambda _body: answers.pop(0)) as app:
        assert ask(app, LAST, keeps_session=True).outcomes == ["rate_limited", "answer"]
    with running_app(lambda _body: json_answer({}, status=401)) as app:
        approve(str(ask(app).error))


def drops(_body: dict[str, Any]) -> AppAnswer:
    raise ConnectionAbortedError


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
@pytest.mark.parametrize(
    "answering",
    [
        lambda _body: json_answer({}, status=500),
        lambda _body: json_answer({}, status=503),
        lambda _body: json_answer({}, status=400),
        lambda _body: json_answer({"text": ""}),
        lambda _body: json_answer({"other": 1}),
        drops,
    ],
)
def test_what_keeps_a_session_is_never_sent_a_message_twice(
    answering: Callable[[dict[str, Any]], AppAnswer], capfd: pytest.CaptureFixture[str]
) -> None:
    with running_app(answering) as app:
        done = ask(app, LAST, keeps_session=True)
    assert done.error is not None
    assert len(app.bodies) == 1
    capfd.readouterr()  # what the library of the server says of its fault


@pytest.mark.parametrize("status", [301, 302, 307, 308])
def test_a_redirect_is_followed_by_choice_and_on_the_same_host_only(status: int) -> None:
    def answer(_body: dict[str, Any]) -> AppAnswer:
        if len(app.bodies) % 2:
            return AppAnswer("", status=status, headers={"Location": where})
        return json_answer({"text": "Yes."})

    with running_app(answer) as app:
        where = "/there?x=1"
        followed = ask(app, follow_redirects=True)
        assert app.paths == ["POST /chat", f"{'POST' if status > 302 else 'GET'} /there?x=1"]
        app.bodies.clear()
        refused = ask(app)
        app.bodies.clear()
        where = app.url.replace("127.0.0.1", "localhost")
        elsewhere = ask(app, follow_redirects=True)
    assert followed.reply is not None, followed.error
    assert followed.reply.text == "Yes."
    assert f"{status}: the server redirects elsewhere" in str(refused.error)
    assert f"{status}: the server redirects elsewhere (http://localhost" in str(elsewhere.error)
    assert len(app.paths) == 4


def test_redirects_in_a_circle_come_to_an_end() -> None:
    turned = AppAnswer("", status=307, headers={"Location": "/chat"})
    with running_app(lambda _body: turned) as app:
        done = ask(app, keeps_session=True, follow_redirects=True)
    assert "more than 5 redirects" in str(done.error)


def test_a_login_is_carried_out_as_its_scheme_asks_and_is_never_repeated() -> None:
    def answer(_body: dict[str, Any]) -> AppAnswer:
        sent = app.headers[-1].get("Authorization", "")
        if not sent.startswith("Digest "):
            asked = 'Digest realm="shop", nonce="n1", qop="auth", algorithm=SHA-256'
            return json_answer({}, status=401, headers={"WWW-Authenticate": asked})
        return json_answer({"error": f"{sent}; anna:geheim-9876"})

    with running_app(answer) as app:
        done = ask(app, keeps_session=True, login="Digest anna:geheim-9876")
    assert [header.get("Authorization", "")[:22] for header in app.headers] == [
        "",
        'Digest username="anna"',
    ]
    assert 'uri="/chat"' in app.headers[1]["Authorization"]
    assert "geheim" not in str(app.headers)
    assert "geheim" not in str(done.error)
    with running_app(lambda _body: json_answer({"error": "no YW5uYTpnZWhlaW0tOTg3Ng=="})) as app:
        done = ask(app, login="Basic anna:geheim-9876")
    assert app.headers[0]["Authorization"] == "Basic YW5uYTpnZWhlaW0tOTg3Ng=="
    assert "YW5uYT" not in str(done.error)


@pytest.mark.parametrize(
    ("url", "words"),
    [
        ("http://127.0.0.1:9/chat", "no connection (econnrefused)"),
        ("http://no-such-host.invalid/chat", "there is no such host"),
        ("https://127.0.0.1:{port}/chat", "does not speak TLS"),
    ],
)
def test_what_is_not_reached_is_told_as_for_every_server(url: str, words: str) -> None:
    with running_app(lambda _body: json_answer({"text": "Yes."})) as app:
        there = url.format(port=app.url.rsplit(":", 1)[1].removesuffix("/chat"))
        done = ask(replace(app, url=there))
    assert words in str(done.error)
