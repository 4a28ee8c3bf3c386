"""Addresses and keys are checked before anything is sent, and say what to write."""

from __future__ import annotations

import pytest

from engine.errors import InputError
from engine.providers.endpoint import (
    Endpoint,
    Wire,
    application_address,
    checked_address,
    checked_headers,
    checked_key,
    model_address,
)


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
