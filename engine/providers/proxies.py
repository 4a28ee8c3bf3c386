"""Which proxy the environment names for an address."""

from __future__ import annotations

from typing import Final
from urllib.parse import urlsplit
from urllib.request import getproxies, proxy_bypass

from engine.errors import InputError, Problem
from engine.providers.endpoint import LOOPBACK

_HINT: Final = "it looks like http://host:port; look at HTTPS_PROXY, HTTP_PROXY and ALL_PROXY"


def proxy_for(url: str) -> str | None:
    """Raises `InputError`, which does not show a proxy's password, for one that cannot be used."""
    parts = urlsplit(url)
    host = parts.hostname or ""
    if host in LOOPBACK or proxy_bypass(host):
        return None
    proxies = getproxies()
    proxy = proxies.get(parts.scheme) or proxies.get("all")
    if not proxy:
        return None
    scheme = _scheme(proxy)
    if scheme is None:
        raise InputError(Problem("the environment names a proxy that is no address", hint=_HINT))
    if scheme not in {"http", "https"}:
        raise InputError(
            Problem(
                f"the environment names a {scheme} proxy for {host}, "
                "but only http and https proxies can be used",
                hint="set HTTPS_PROXY, or add the host to NO_PROXY",
            )
        )
    return proxy


def _scheme(proxy: str) -> str | None:
    """None for what is no address."""
    try:
        parts = urlsplit(proxy)
        named = bool(parts.scheme and parts.hostname) and parts.port != 0
    except ValueError:
        return None
    return parts.scheme if named else None
