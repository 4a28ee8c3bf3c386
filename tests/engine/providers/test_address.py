"""Requests go where those of the official clients go, and show the key as they do."""

from __future__ import annotations

from collections.abc import Mapping

import httpx2
import pytest

from engine.addresses import PUBLIC_ADDRESSES
from engine.providers.endpoint import Wire, address, checked_address
from tests.late import anthropic, openai

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
