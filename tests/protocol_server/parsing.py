"""Reads HTTP/1.1 requests out of the bytes of one connection, as they trickle in."""

from __future__ import annotations

import re
from typing import Final
from urllib.parse import urlsplit

from tests.protocol_server.request import Request

LARGEST_BODY: Final = 32 * 1024 * 1024
_TLS_HANDSHAKE: Final = b"\x16"


class UnreadableRequestError(Exception):
    """The bytes are no HTTP request, or one that is too large."""


class RequestReader:
    """Takes bytes in and gives whole requests out, one after the other."""

    def __init__(self) -> None:
        self._received = bytearray()
        self._sought = 0

    def feed(self, data: bytes) -> None:
        self._received += data

    def next_request(self) -> Request | None:
        """The next whole request; None until more bytes arrive."""
        if self._received.startswith(_TLS_HANDSHAKE):
            raise UnreadableRequestError("a greeting of TLS, which is not spoken here")
        end = self._received.find(b"\r\n\r\n", self._sought)
        if end < 0:
            self._sought = max(0, len(self._received) - 3)
            return None
        self._sought = end
        method, path, headers = _head(bytes(self._received[:end]))
        start = end + 4
        if headers.get("transfer-encoding", "").lower() == "chunked":
            found = self._chunked_body(start)
        else:
            found = self._sized_body(start, headers.get("content-length", "0"))
        if found is None:
            return None
        body, used = found
        del self._received[:used]
        self._sought = 0
        return Request(method, path, headers, body)

    def _sized_body(self, start: int, length: str) -> tuple[bytes, int] | None:
        if not length.isdecimal() or int(length) > LARGEST_BODY:
            raise UnreadableRequestError(f"a body of {length!r} bytes")
        end = start + int(length)
        return None if len(self._received) < end else (bytes(self._received[start:end]), end)

    def _chunked_body(self, start: int) -> tuple[bytes, int] | None:
        body = bytearray()
        while (line_end := self._received.find(b"\r\n", start)) >= 0:
            try:
                size = int(bytes(self._received[start:line_end]).partition(b";")[0], 16)
            except ValueError:
                raise UnreadableRequestError("a chunk without a size") from None
            start = line_end + 2
            if len(body) + size > LARGEST_BODY:
                raise UnreadableRequestError("a body that is too large")
            if len(self._received) < start + size + 2:
                return None
            body += self._received[start : start + size]
            start += size + 2
            if size == 0:
                return bytes(body), start
        return None


def _head(head: bytes) -> tuple[str, str, dict[str, str]]:
    first, *lines = head.decode("latin-1").split("\r\n")
    parts = first.split(" ")
    if len(parts) != 3 or not parts[2].startswith("HTTP/1."):
        raise UnreadableRequestError(f"a request that begins with {first[:80]!r}")
    headers = {}
    for line in lines:
        name, _, value = line.partition(":")
        headers[name.strip().lower()] = value.strip()
    where = urlsplit(parts[1])
    return parts[0], _azure_path(where.path, where.query) or where.path, headers


_AZURE: Final = re.compile(r"/openai(?:/deployments/([^/]+)(?=/chat/completions))?(/.+)")


def _azure_path(path: str, query: str) -> str | None:
    """Where a request of Azure's protocol with a version would go at OpenAI; None for any other."""
    found = _AZURE.fullmatch(path)
    if found is None or not query.startswith("api-version=20"):
        return None
    return None if found[2] == "/chat/completions" and not found[1] else f"/v1{found[2]}"
