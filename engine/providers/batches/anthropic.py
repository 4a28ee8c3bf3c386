"""Anthropic's batches, by its own client, whose import is slow: imported when the first is made."""

from __future__ import annotations

from collections.abc import AsyncIterator, Collection, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any, Final, cast

import anthropic
from anthropic.types.messages import MessageBatch
from anthropic.types.messages.batch_create_params import Request

from engine.providers.batches.lines import (
    MOST_LISTED,
    encoded,
    json_lines,
    moment,
    provider_id_of,
    translated,
)
from engine.providers.batches.queue import (
    NEVER,
    Batch,
    Placed,
    ResultLine,
)

_BEFORE: Final = timedelta(minutes=10)
_AFTER: Final = timedelta(minutes=30)
"""How much earlier or later than ours the provider may say that a batch was made."""

_STATUSES: Final[Mapping[str, int]] = {
    "invalid_request_error": 400,
    "authentication_error": 401,
    "billing_error": 402,
    "permission_error": 403,
    "not_found_error": 404,
    "request_too_large": 413,
    "rate_limit_error": 429,
    "overloaded_error": 529,
}
"""The status of a response with this error; any other is the server's."""

_translated = partial(translated, anthropic.APIStatusError, anthropic.AnthropicError)


class AnthropicBatches:
    """As `BatchClient`."""

    def __init__(self, base_url: str, key: str, headers: Mapping[str, str]) -> None:
        self._keys: dict[str, str] = {}
        """What the names of calls begin with in batches that are over: our key, if one is ours."""
        self._client = anthropic.AsyncAnthropic(
            api_key=key,
            base_url=base_url,
            default_headers=headers,
            http_client=anthropic.DefaultAsyncHttpxClient(follow_redirects=False),
        )
        # without those that a variable of the environment names
        self._client._custom_headers = headers  # noqa: SLF001

    async def submit(self, key: str, calls: Sequence[tuple[str, Mapping[str, Any]]]) -> Placed:
        del key  # there is no place for it but the names of the calls
        requests = [cast("Request", {"custom_id": call, "params": body}) for call, body in calls]
        with _translated():
            # a request that is sent again after a failure would be a second batch
            once = self._client.with_options(max_retries=0)
            return _placed(await once.messages.batches.create(requests=requests))

    async def find(self, batch: Batch, known: Collection[str]) -> Placed | None:
        """The list has times and counts only, so a batch says whose it is when it has ended."""
        number = 0
        with _translated():
            async for theirs in self._client.messages.batches.list(limit=100):
                number += 1
                made = moment(theirs.created_at) or datetime.now(UTC)
                if made < batch.at - _BEFORE or number >= MOST_LISTED:
                    break
                is_late = made > batch.at + _AFTER
                if theirs.id in known or is_late or _size(theirs) != len(batch.asks):
                    continue
                placed = _placed(theirs)
                if not placed.is_over:
                    batch.unsure = True
                elif await self._key(placed.provider_id) == batch.key:
                    return placed
        return None

    async def _key(self, provider_id: str) -> str:
        if provider_id not in self._keys:
            names = [call async for call, _ in self.lines(provider_id)]
            self._keys[provider_id] = names[0].rpartition("-")[0] if names else ""
        return self._keys[provider_id]

    async def look(self, provider_id: str) -> Placed:
        with _translated():
            return _placed(await self._client.messages.batches.retrieve(provider_id))

    async def lines(self, provider_id: str) -> AsyncIterator[tuple[str, ResultLine]]:
        with _translated():
            results = self._client.messages.batches.with_streaming_response.results(provider_id)
            async with results as response:
                async for line in json_lines(response.iter_bytes()):
                    yield str(line.get("custom_id")), _line(line.get("result"))

    async def cancel(self, provider_id: str) -> None:
        with _translated():
            await self._client.messages.batches.cancel(provider_id)

    async def close(self) -> None:
        await self._client.close()


def _placed(batch: MessageBatch) -> Placed:
    return Placed(
        provider_id_of(batch.id), moment(batch.expires_at), batch.processing_status == "ended"
    )


def _size(batch: MessageBatch) -> int:
    """How many calls a batch has. None of them is counted as over before all are."""
    counts = batch.request_counts.to_dict()
    return sum(count for count in counts.values() if isinstance(count, int))


def _line(result: object) -> ResultLine:
    found = result if isinstance(result, dict) else {}
    match found.get("type"):
        case "succeeded":
            return ResultLine(200, encoded(found.get("message")))
        case "errored":
            error = found.get("error")
            inner = error.get("error") if isinstance(error, dict) else None
            kind = inner.get("type") if isinstance(inner, dict) else None
            return ResultLine(_STATUSES.get(str(kind), 500), encoded(error))
        case _:
            return NEVER
