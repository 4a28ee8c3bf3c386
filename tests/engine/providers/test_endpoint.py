"""Addresses and keys are checked before anything is sent, and say what to write."""

from __future__ import annotations

from collections.abc import Mapping

import httpx2
import pytest

from engine.addresses import PUBLIC_ADDRESSES
from engine.errors import InputError
from engine.providers.endpoint import (
    Endpoint,
    Wire,
    address,
    application_address,
    checked_address,
    checked_headers,
    checked_key,
    model_address,
)
from tests.late import anthropic, openai


@pytest.mark.parametrize(
    ("source", "url", "wire"),
    [
        ("openai", "https://api.openai.com/v1", Wire.OPENAI),
        ("anthropic", "https://api.anthropic.com", Wire.ANTHROPIC),
        ("deepinfra", "https://api.deepinfra.com/v1/openai", Wire.OPENAI),
    ],
)
def test_known_sources_need_no_address(source: str, url: str, wire: Wire) -> None:
    assert model_address("m", source, None, has_key=True) == url
    assert Endpoint("m", source, url).wire is wire


def test_an_unknown_source_is_told_what_to_write() -> None:
    with pytest.raises(InputError, match=r"source 'acme'.*write base_url: https://…"):
        model_address("m", "acme", None, has_key=True)
    assert Endpoint("m", "acme", "https://acme.example/v1").wire is Wire.OPENAI


def test_a_public_source_needs_a_key_and_a_server_of_ones_own_does_not() -> None:
    with pytest.raises(InputError, match=r"no apikey.*\$\{XAI_API_KEY\}"):
        model_address("m", "xai", None, has_key=False)
    assert model_address("m", "ollama", None, has_key=False)
    assert model_address("m", "openai", "http://gpu:8000/v1", has_key=False)


@pytest.mark.parametrize(
    ("given", "source", "kept"),
    [
        ("https://a.example/v1/", "openai", "https://a.example/v1"),
        (" https://a.example/v1 ", "openai", "https://a.example/v1"),
        ("https://a.example/v1/chat/completions", "openai", "https://a.example/v1"),
        ("https://a.example/v1", "anthropic", "https://a.example"),
        ("https://a.example/v1/messages", "anthropic", "https://a.example"),
        ("https://münchen.example/v1", "openai", "https://münchen.example/v1"),
        ("http://[::1]:8000/v1", "openai", "http://[::1]:8000/v1"),
    ],
)
def test_an_address_is_put_into_the_form_that_clients_expect(
    given: str, source: str, kept: str
) -> None:
    assert checked_address(given, source) == kept


@pytest.mark.parametrize(
    "given",
    [
        "api.example.com/v1",
        "ftp://a.example",
        "https://",
        "https://a.example:99999/v1",
        "https://a.example/v1?x=1",
        "https://a b.example/v1",
        "http://[::1/v1",
        "file:///etc",
        "https://a..example/v1",
        "https://*/v1",
        "https://a%20b.example/v1",
        f"https://{'a' * 64}.example/v1",
    ],
)
def test_what_is_no_address_is_refused(given: str) -> None:
    with pytest.raises(InputError, match="base_url"):
        checked_address(given, "openai")


@pytest.mark.parametrize("bad", ["", "  ", "sk-new\nline", "sk-tab\tx", "sk-schlüssel", "sk-\0"])
def test_a_key_that_no_header_can_carry_is_refused_and_not_shown(bad: str) -> None:
    with pytest.raises(InputError) as caught:
        checked_key(bad)
    assert caught.value.__cause__ is None
    assert "sk-" not in str(caught.value)


def test_white_space_around_a_key_is_no_part_of_it() -> None:
    assert checked_key(" sk-x\n") == "sk-x"


@pytest.mark.parametrize(
    "headers",
    [{"Host": "x"}, {"Content-Length": "0"}, {"X Y": "z"}, {"": "z"}, {"X": "a\r\nEvil: 1"}],
)
def test_headers_that_would_break_a_request_are_refused(headers: dict[str, str]) -> None:
    with pytest.raises(InputError, match="extra_headers"):
        checked_headers(headers)


def test_an_endpoint_does_not_show_its_key() -> None:
    found = Endpoint("m", "openai", "https://a", lambda: "sk-secret", lambda: {"a": "b"})
    assert "sk-secret" not in repr(found)
    assert "lambda" not in repr(found)


@pytest.mark.parametrize(
    ("url", "open_to_all"),
    [("http://gpu:8000/v1", True), ("http://127.0.0.1:1/v1", False), ("https://a.example", False)],
)
def test_it_is_known_where_a_key_can_be_read_on_the_way(url: str, *, open_to_all: bool) -> None:
    assert Endpoint("m", "x", url).unencrypted is open_to_all


@pytest.mark.parametrize(
    "given",
    [
        "https://ann:secret@a.example/v1",
        "https://ann:secret@a.example:no/v1",
        "https://ann:secret@[::1/v1",
        "ftp://ann:secret@a.example",
        "ann:secret@a.example",
        "https://secret@a.example?x=1",
    ],
)
def test_a_password_in_an_address_is_refused_and_not_shown(given: str) -> None:
    with pytest.raises(InputError, match="base_url holds a user name or password") as told:
        checked_address(given, "openai")
    assert "secret" not in str(told.value)
    with pytest.raises(InputError, match="url holds a user name or password") as told:
        application_address(given)
    assert "secret" not in str(told.value)


@pytest.mark.parametrize(
    ("given", "fault"),
    [
        ("https://a.example/chat#top", "has a fragment"),
        ("https://a.example:no/chat", "is not an address"),
        ("a.example/chat", "does not begin with https:// or http://"),
    ],
)
def test_an_address_of_an_application_that_is_none_is_refused(given: str, fault: str) -> None:
    with pytest.raises(InputError, match=rf"{fault} \(it looks like https://host.example/chat"):
        application_address(given)
    kept = "https://a.example/@acme/chat?to=ann@example"
    assert application_address(kept) == kept


PLACES = (
    *PUBLIC_ADDRESSES.values(),
    "http://127.0.0.1:8000/v1",
    "http://[::1]:80/v1",
    "https://EXAMPLE.com:443/V1/",
    "https://bücher.example/v1",
    "https://a.example/straße/a b/a%20b/v1",
    "https://a.example/v1beta/openai/",
    "https://a.example//v1",
    "HTTPS://a.example/v1/{x}/'q'",
    "https://a.example/a\\b|c^`/1%zz/v1",
    "https://a.example/./x/../v1",
)
KEYS = ("sk-key", "sk-ant-api03-key", "sk-ant-oat01-key", "none", "a key, with ~signs:")
Asked = tuple[str, Mapping[str, str]]


def asked_by_openai(base_url: str, key: str) -> Asked:
    requests: list[httpx2.Request] = []
    http = httpx2.Client(transport=kept_in(requests), trust_env=False)
    with openai.OpenAI(api_key=key, base_url=base_url, max_retries=0, http_client=http) as client:
        client.with_raw_response.chat.completions.create(
            model="-", messages=[{"role": "user", "content": "-"}]
        )
        return str(requests[0].url), client.auth_headers


def asked_by_anthropic(base_url: str, key: str) -> Asked:
    requests: list[httpx2.Request] = []
    http = httpx2.Client(transport=kept_in(requests), trust_env=False)
    with anthropic.Anthropic(
        api_key=key, base_url=base_url, max_retries=0, http_client=http
    ) as client:
        client.with_raw_response.messages.create(
            model="-", max_tokens=1, messages=[{"role": "user", "content": "-"}]
        )
        return str(requests[0].url), client.auth_headers


def kept_in(requests: list[httpx2.Request]) -> httpx2.MockTransport:
    def keep(request: httpx2.Request) -> httpx2.Response:
        requests.append(request)
        return httpx2.Response(200, json={})

    return httpx2.MockTransport(keep)


@pytest.mark.exhaustive
@pytest.mark.parametrize("source", ["openai", "anthropic"])
def test_we_ask_where_the_official_client_asks_and_show_the_key_as_it_does(source: str) -> None:
    wire = Wire.ANTHROPIC if source == "anthropic" else Wire.OPENAI
    client = asked_by_anthropic if source == "anthropic" else asked_by_openai
    pairs = [(place, KEYS[0]) for place in PLACES] + [(PLACES[0], key) for key in KEYS]
    for place, key in pairs:
        base_url = checked_address(place, source)
        url, auth = client(base_url, key)
        ours = address(wire, base_url, key)
        assert ours.url == url
        shown = {"Authorization", "X-Api-Key"} & ours.headers.keys()
        assert {name: ours.headers[name] for name in shown} == auth
