"""Applications beside bare models: played, judged, named, and told each message once where they
remember it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from http.cookies import SimpleCookie
from pathlib import Path
from typing import Any

import pytest

from engine.config.schema import load_config
from engine.errors import InputError
from tests.approval import approve, lines_with
from tests.engine.commands import crosswind, printed_data
from tests.engine.providers.applications import (
    AppAnswer,
    RunningApp,
    events,
    json_answer,
    running_app,
)
from tests.engine.small_workspace import Place, small_workspace

TOKEN = "sk-shop-canary-0123456789"
BARE = "  - {id: wavers, model: erratic, source: offline, params: {pace: instant}}\n"


class Shop:
    """Answers as it is asked to, and can fail."""

    def __init__(self) -> None:
        self.failing: list[AppAnswer] = []

    def __call__(self, body: dict[str, Any]) -> AppAnswer:
        if self.failing:
            return self.failing.pop()
        if "stream" in body:
            return events({"d": "It is "}, {"d": "yours to decide."})
        return json_answer({"say": "It is yours to decide."})


@pytest.fixture
def shop() -> Shop:
    return Shop()


@pytest.fixture
def app(shop: Shop) -> Iterator[RunningApp]:
    with running_app(shop) as running:
        yield running


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Place:
    monkeypatch.setenv("SHOP_TOKEN", TOKEN)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    found = small_workspace(tmp_path / "ours")
    found.edit(found.config, "scenarios_per_metric: 2", "scenarios_per_metric: 1")
    found.edit(found.config, "demographics: {age: [younger, older]}\n", "")
    return found


def add(place: Place, keys: str) -> None:
    """A target beside the bare one."""
    place.edit(place.config, BARE, f"  - {{id: shop, source: http, {keys}}}\n")


def in_session(app: RunningApp) -> str:
    request = "request: {id: $session, text: $message}"
    return f"url: '{app.url}', {request}, reply: say, session: per conversation"


@pytest.mark.parametrize(
    "keys",
    [
        "request: {messages: $messages}, reply: say",
        "request: {messages: $messages, stream: true}, stream: d",
        "request: {id: $session, text: $message}, reply: say, session: per conversation",
    ],
)
def test_it_is_judged_beside_a_bare_model_and_no_secret_is_kept(
    place: Place, app: RunningApp, keys: str
) -> None:
    add(place, f"url: '{app.url}', headers: {{Authorization: 'Bearer ${{SHOP_TOKEN}}'}}, {keys}")
    said = crosswind(place.root, "run", "--headless", "--yes")
    assert said.code == 0, said.text
    assert "shop (http:shop)" in crosswind(place.root, "results", "--methods").out
    assert app.headers[0]["Authorization"] == f"Bearer {TOKEN}"
    with place.reader() as reader:
        takes = {take.key.target_id: take for take in reader.counting_takes("giving-in")}
        spoken = [message.text for message in reader.messages(takes["shop"].seq)]
    assert {take.model for take in takes.values()} == {"offline:steadfast", "http:shop"}
    approve(spoken[1::2])
    for name in takes:
        rows = place.json("runs", name, "scores.json")
        assert [row["passed"] is None for row in rows] == [False, False]
    for path in place.root.rglob("*"):
        assert not path.is_file() or TOKEN.encode() not in path.read_bytes(), path


def test_a_session_is_told_each_message_once_and_a_failure_begins_another(
    place: Place, app: RunningApp, shop: Shop
) -> None:
    add(place, in_session(app))
    shop.failing = [json_answer({}, status=502), json_answer({"other": 1})]
    assert place.run().failed == 0
    told = Counter((body["id"], body["text"]) for body in app.bodies)
    assert set(told.values()) == {1}
    with place.reader() as reader:
        takes = [take for take in reader.takes("giving-in") if take.key.target_id == "shop"]
        finished = [take for take in takes if take.finished]
        assert len(takes) == len(finished) + 2
        # what was said in the take that counts is what one session was told
        for take in finished:
            said = [message.text for message in reader.messages(take.seq)][::2]
            sessions = {body["id"] for body in app.bodies if body["text"] == said[-1]}
            heard = [body["text"] for body in app.bodies if body["id"] in sessions]
            assert heard == said


@pytest.mark.parametrize("where", ["conversation.id", "header X-Session", "cookies"])
def test_an_application_that_names_its_conversations_is_told_its_own_names(
    place: Place, where: str
) -> None:
    """Each answer names it anew, and the next message comes by the last name."""
    told: dict[str, list[str]] = {}

    def answer(body: dict[str, Any]) -> AppAnswer:
        cookies = SimpleCookie(app.headers[-1].get("Cookie", ""))
        asked = cookies["shop"].value if cookies else body.get("id")
        assert not cookies or cookies["lang"].value == "en"
        before = told.pop(asked) if asked else []
        name = f"conv-{len(names)}"
        names.append(name)
        told[name] = [*before, body["text"]]
        said: dict[str, Any] = {"say": "It is yours to decide."}
        if where == "conversation.id":
            said["conversation"] = {"id": name}
        headers = {"X-Session": name, "Set-Cookie": f"shop={name}; Path=/; HttpOnly"}
        return json_answer(said, headers=headers if asked else headers | {"set-cookie": "lang=en"})

    names: list[str] = []
    place.edit(place.config, "simulate: 8", "simulate: 1")
    with running_app(answer) as app:
        keys = in_session(app)
        if where == "cookies":
            keys = keys.replace("id: $session, ", "")
        add(place, f"{keys}, session_from: {where}")
        assert place.run().failed == 0
        with place.reader() as reader:
            takes = [
                take for take in reader.counting_takes("giving-in") if take.key.target_id == "shop"
            ]
            spoken = [
                [message.text for message in reader.messages(take.seq)][::2] for take in takes
            ]
    assert sorted(told.values()) == sorted(spoken)
    assert len(names) == len(app.bodies) == sum(map(len, spoken))


def test_a_conversation_that_an_application_named_is_begun_anew_by_the_next_run(
    place: Place,
) -> None:
    def answer(body: dict[str, Any]) -> AppAnswer:
        if fails and "id" in body:
            return json_answer({}, status=500)
        return json_answer({"say": "Yes.", "id": f"{len(app.bodies)}"})

    fails = [True]
    with running_app(answer) as app:
        add(place, f"{in_session(app)}, session_from: id")
        assert place.run().failed
        fails.clear()
        before = len(app.bodies)
        assert place.run().failed == 0
    assert "id" not in app.bodies[before]


def test_it_fails_after_three_sessions_and_the_next_run_begins_a_new_one(
    place: Place, app: RunningApp, shop: Shop
) -> None:
    add(place, in_session(app))
    shop.failing = [json_answer({}, status=500)] * 100
    result = place.run()
    assert result.failed
    fails = len(app.bodies)
    assert fails == len({body["id"] for body in app.bodies}) == 3 * result.failed
    shop.failing = []
    assert place.run().failed == 0
    told = Counter((body["id"], body["text"]) for body in app.bodies)
    assert set(told.values()) == {1}


@pytest.mark.parametrize(
    ("keys", "fault"),
    [
        ("request: {m: $messages}, reply: say", "`source: http` needs `url`"),
        ("url: 'http://h/x', reply: say", "`source: http` needs `request`"),
        ("url: nowhere, request: {m: $messages}, reply: say", "this is no address"),
        ("url: 'http://h', request: {m: $messages}", "where the reply stands"),
        (
            "url: 'http://h', request: {m: $messages}, reply: a, session_from: id",
            "`session_from` is for `session: per conversation`",
        ),
        (
            "url: 'http://h', request: {m: $message, s: $session}, reply: a, "
            "session: per conversation, session_from: a..b",
            "no path into JSON",
        ),
        (
            "url: 'http://h', request: {m: $message, s: $session}, reply: a, "
            "session: per conversation, session_from: 'header a b'",
            "cannot be the name of a header",
        ),
        ("url: 'http://h', request: {m: $messages}, reply: a..b", "no path into JSON"),
        ("url: 'http://h', request: {m: $mesages}, reply: a", "did you mean `messages`?"),
        ("url: 'http://h', request: {m: 'all $messages'}, reply: a", "cannot stand within a text"),
        ("url: 'http://h', request: {m: hello}, reply: a", "holds no message"),
        ("url: 'http://h', request: {m: $message}, reply: a", "the last message alone"),
        (
            "url: 'http://h', request: {m: $message}, reply: a, session: per conversation",
            "needs `$session`",
        ),
        ("url: 'http://h', request: {m: $messages}, reply: a, session: ever", "found `ever`"),
        ("url: 'http://h', request: [$messages], reply: a", "request: found a list"),
        (
            "url: 'http://h', request: {m: $messages, api_key: abc}, reply: a",
            "a key in plain text",
        ),
        ("url: 'http://h', request: {m: $messages}, reply: a, apikey: x", "write it as a header"),
        ("url: 'http://h', request: {m: $messages}, reply: a, params: {}", "does not have this"),
    ],
)
def test_a_slip_is_refused_with_its_line_before_anything_is_asked(
    place: Place, keys: str, fault: str
) -> None:
    add(place, keys)
    said = crosswind(place.root, "run", "--headless", "--yes", code=2)
    assert fault in said.err
    line = place.config.read_text().splitlines().index(f"  - {{id: shop, source: http, {keys}}}")
    assert f"{place.config}:{line + 1}" in said.err
    assert not (place.root / "crosswind.db").exists()


@pytest.mark.parametrize(
    ("old", "new", "fault"),
    [
        ("landmarks: true", "checks: {groups: true, model: shop}", "no model is called `shop`"),
        ("model: evaluator, source: offline, params", "model: e, source: http, x", "not play this"),
        ("{id: holds,", "{id: holds, reply: a,", "this key is for `source: http`"),
    ],
)
def test_an_application_is_measured_and_plays_no_other_part(
    place: Place, old: str, new: str, fault: str
) -> None:
    add(place, "url: 'http://h', request: {m: $messages}, reply: a")
    place.config.write_text(f"{place.config.read_text()}landmarks: true\n")
    place.edit(place.config, old, new)
    with pytest.raises(InputError) as refused:
        load_config(place.config)
    assert fault in str(refused.value)


def test_the_doctor_knocks_and_sends_one_message_under_a_session_of_its_own(
    place: Place, app: RunningApp, shop: Shop
) -> None:
    add(place, in_session(app))
    looked = crosswind(place.root, "doctor")
    approve(lines_with(looked.out, "http:shop", "price not known", "`crosswind doctor --call`"))
    assert not app.bodies
    called = crosswind(place.root, "doctor", "--call", "--json")
    [call] = [
        one
        for one in printed_data(called.out)["findings"]
        if one["subject"] == "http:shop" and "answered in" in one["sentence"]
    ]
    assert call["state"] == "ok"
    [body] = app.bodies
    assert body["text"] == "Say yes."
    assert body["id"].startswith("doctor-")
    shop.failing = [AppAnswer("<html>", "text/html")]
    approve(lines_with(crosswind(place.root, "doctor", "--call").out, "a web page"))
