"""What both providers' batches share: files of JSON lines, dates, and errors."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Any, Final, Protocol, cast

import httpx2

from engine.providers.batches.queue import BatchRefusedError, BatchUnseenError, ResultLine

LONGEST_LINE: Final = 64_000_000
"""Bytes; more than any reply has."""
_ODD: Final = (ValueError, TypeError, AttributeError)
"""What the clients raise beside their own errors for a response of another shape, which they do not
check."""
LONGEST_NAME: Final = 200
MOST_LISTED: Final = 5_000
"""Batches of a list that are looked through, the newest first."""


class _StatusError(Protocol):
    """What both clients raise for a status other than success."""

    status_code: int
    response: httpx2.Response


@contextmanager
def translated(status_error: type[Exception], client_error: type[Exception]) -> Iterator[None]:
    """Raise the errors of a client as `BatchRefusedError` and `BatchUnseenError`."""
    try:
        yield
    except status_error as found:
        error = cast("_StatusError", found)
        if error.status_code >= 500 or error.status_code == 408:
            raise BatchUnseenError(f"the provider answers {error.status_code}") from None
        raise BatchRefusedError(ResultLine(error.status_code, error.response.content)) from None
    # some faults in a response are none of the client's own errors
    except (client_error, httpx2.HTTPError, *_ODD) as odd:
        raise BatchUnseenError(f"the provider cannot be asked: {type(odd).__name__}") from None


async def json_lines(chunks: AsyncIterator[bytes]) -> AsyncIterator[dict[str, Any]]:
    """Yield the objects in a file of lines; a line that is none is left out. Raises
    `BatchUnseenError` for a line of a length that no reply has."""
    rest = b""
    async for chunk in chunks:
        *lines, rest = (rest + chunk).split(b"\n")
        if len(rest) > LONGEST_LINE:
            raise BatchUnseenError("a result is longer than any reply")
        for line in lines:
            if (found := _object(line)) is not None:
                yield found
    if (found := _object(rest)) is not None:
        yield found


def _object(line: bytes) -> dict[str, Any] | None:
    try:
        found = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) else None


def provider_id_of(value: object) -> str:
    """A name that a provider gave a batch. Raises `BatchUnseenError` if it is none."""
    if not isinstance(value, str) or not 0 < len(value) <= LONGEST_NAME:
        raise BatchUnseenError("what the provider says of a batch does not name one")
    return value


def encoded(value: object) -> bytes:
    return json.dumps(value, ensure_ascii=False).encode("utf-8", "replace")


def moment(value: object) -> datetime | None:
    """A time that a provider gave, in seconds since 1970 or already read; None if it is none."""
    if isinstance(value, datetime):
        return value if value.tzinfo is not None else value.replace(tzinfo=UTC)
    try:
        return datetime.fromtimestamp(value, UTC) if isinstance(value, int | float) else None
    except (ValueError, OverflowError, OSError):
        return None
