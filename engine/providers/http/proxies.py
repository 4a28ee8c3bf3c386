"""Determines which proxy the environment names for an address."""

from __future__ import annotations

from collections.abc import Mapping
from ipaddress import (
    IPv4Address,
    IPv4Network,
    IPv6Address,
    IPv6Network,
    ip_address,
    ip_network,
)
from typing import Final
from urllib.parse import urlsplit
from urllib.request import getproxies, proxy_bypass

from engine.errors import InputError, Problem
from engine.providers.http.transport import LOOPBACK

_PORT_DIGITS: Final = 5
_PORTS: Final = {"http": 80, "https": 443}
_HINT: Final = "it looks like http://host:port; look at HTTPS_PROXY, HTTP_PROXY and ALL_PROXY"


def proxy_for(url: str) -> str | None:
    """Return the proxy, or None. Raises `InputError`, without the password, if it is unusable."""
    parts = urlsplit(url)
    host = parts.hostname or ""
    proxies = getproxies()
    # to a proxy, a loopback address would be the proxy's own machine
    if host in LOOPBACK or _is_exempt(url, proxies.get("no")):
        return None
    # in the order of curl, requests and the official clients
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


def no_proxy_entry(url: str) -> str | None:
    """Return the entry of NO_PROXY that exempts an address from a proxy; None if none does, or if
    there is no proxy for it."""
    parts, proxies = urlsplit(url), getproxies()
    if parts.hostname in LOOPBACK or not (proxies.get(parts.scheme) or proxies.get("all")):
        return None
    return _entry_for(url, proxies.get("no") or "")


def _is_exempt(url: str, exceptions: str | None) -> bool:
    """Whether NO_PROXY exempts the address; without NO_PROXY, whether the system's settings do."""
    if exceptions is not None:
        return _entry_for(url, exceptions) is not None
    return bool(proxy_bypass(urlsplit(url).hostname or ""))


def _entry_for(url: str, exceptions: str) -> str | None:
    parts = urlsplit(url)
    host = (parts.hostname or "").rstrip(".").lower()
    port = parts.port or _PORTS.get(parts.scheme)
    entries = exceptions.replace(",", " ").split()
    return next((entry for entry in entries if _names(entry.lower(), host, port)), None)


def _names(entry: str, host: str, port: int | None) -> bool:
    """Whether an entry matches: `*`, a name and everything below it, an address (all with or
    without a port), or a network; IPv6 with or without brackets."""
    if entry == "*":
        return True
    address = _address(host)
    if "/" in entry:
        network = _network(entry)
        return address is not None and network is not None and address in network
    before, _, behind = entry.rpartition(":")
    is_whole = before.startswith("[") and before.endswith("]")
    is_port = behind.isascii() and behind.isdecimal() and len(behind) <= _PORT_DIGITS
    # `fe80::1` also ends in digits after a colon: an IPv6 address has a port only after brackets
    if is_port and before and (is_whole or ":" not in before):
        if int(behind) != port:
            return False
        entry = before
    entry = entry.strip("[]")
    if address is not None:
        return _address(entry) == address
    name = entry.removeprefix("*").strip(".")
    return bool(name) and (host == name or host.endswith(f".{name}"))


def _address(text: str) -> IPv4Address | IPv6Address | None:
    try:
        ip = ip_address(text)
    except ValueError:
        return None
    # an IPv4 address may be written as an IPv6 one
    return getattr(ip, "ipv4_mapped", None) or ip


def _network(text: str) -> IPv4Network | IPv6Network | None:
    try:
        return ip_network(text.replace("[", "").replace("]", ""), strict=False)
    except ValueError:
        return None


def _scheme(proxy: str) -> str | None:
    """Return the scheme; None if this is not an address."""
    try:
        parts = urlsplit(proxy)
        named = bool(parts.scheme and parts.hostname) and parts.port != 0
    except ValueError:
        return None
    return parts.scheme if named else None


_FORBIDDEN: Final = 403


def is_of_proxy(status: int, headers: Mapping[str, str]) -> bool:
    """Whether a refusal is the proxy's own: one that it passes on names it in `Via` (RFC 9110,
    7.6.3), and servers of models refuse in JSON."""
    kind = headers.get("content-type", "").lower()
    return status == _FORBIDDEN and "via" not in headers and "json" not in kind
