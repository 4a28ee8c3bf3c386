"""Which addresses go by a proxy: NO_PROXY as curl, Go and requests read it."""

from __future__ import annotations

import pytest

from engine.providers.http.proxies import no_proxy_entry, proxy_for

PROXY = "http://proxy.example:3128"


@pytest.fixture(autouse=True)
def proxies(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.lower(), raising=False)
    monkeypatch.setenv("ALL_PROXY", PROXY)


@pytest.mark.parametrize(
    ("said", "url"),
    [
        ("*", "https://api.example/v1"),
        ("api.example", "https://api.example/v1"),
        ("api.example", "https://eu.api.example/v1"),
        (".api.example", "https://api.example/v1"),
        (".api.example", "https://eu.api.example/v1"),
        ("*.api.example", "https://eu.api.example/v1"),
        ("API.Example", "https://api.example/v1"),
        ("api.example", "https://API.EXAMPLE./v1"),
        (" one.example ,\tapi.example ", "https://api.example/v1"),
        ("one.example api.example", "https://api.example/v1"),
        ("api.example:8443", "https://api.example:8443/v1"),
        ("api.example:443", "https://api.example/v1"),
        ("api.example:80", "http://api.example/v1"),
        ("10.0.0.0/8", "http://10.2.3.4:8000/v1"),
        ("10.2.3.4/8", "http://10.200.0.1/v1"),
        ("10.2.3.4", "http://10.2.3.4:8000/v1"),
        ("10.2.3.4:8000", "http://10.2.3.4:8000/v1"),
        ("fd00::/8", "http://[fd12::7]:8000/v1"),
        ("[fd00::]/8", "http://[fd12::7]/v1"),
        ("fd12::7", "http://[fd12:0:0::7]:8000/v1"),
        ("[fd12::7]", "http://[fd12::7]/v1"),
        ("[fd12::7]:8000", "http://[fd12::7]:8000/v1"),
        ("10.0.0.0/8", "http://[::ffff:10.2.3.4]/v1"),
    ],
)
def test_an_address_that_no_proxy_names_is_asked_without_one(
    monkeypatch: pytest.MonkeyPatch, said: str, url: str
) -> None:
    assert proxy_for(url) == PROXY
    monkeypatch.setenv("NO_PROXY", said)
    assert proxy_for(url) is None
    assert no_proxy_entry(url) in said.replace(",", " ").split()


@pytest.mark.parametrize(
    ("said", "url"),
    [
        ("", "https://api.example/v1"),
        ("api.example", "https://notapi.example/v1"),
        ("api.example", "https://api.example.org/v1"),
        ("api.example:8443", "https://api.example/v1"),
        ("api.example:443", "http://api.example/v1"),
        ("10.0.0.0/8", "http://11.0.0.1/v1"),
        ("10.0.0.0/8", "https://api.example/v1"),
        ("10.0.0.0/99", "http://10.0.0.1/v1"),
        ("10.0.0.1", "http://10.0.0.10/v1"),
        ("0.0.1", "http://10.0.0.1/v1"),
        ("fd00::/8", "http://10.0.0.1/v1"),
        ("[fd12::7]:8000", "http://[fd12::7]:8001/v1"),
        ("., :80, [], /, api", "https://api.example/v1"),
    ],
)
def test_every_other_one_goes_by_the_proxy(
    monkeypatch: pytest.MonkeyPatch, said: str, url: str
) -> None:
    monkeypatch.setenv("NO_PROXY", said)
    assert proxy_for(url) == PROXY
    assert no_proxy_entry(url) is None


def test_where_there_is_no_proxy_nothing_is_exempt(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("ALL_PROXY")
    monkeypatch.setenv("NO_PROXY", "*")
    assert proxy_for("https://api.example/v1") is None
    assert no_proxy_entry("https://api.example/v1") is None
