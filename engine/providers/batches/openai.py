"""OpenAI's batches, by its own client, whose import is slow: imported when the first is made."""

from __future__ import annotations

from collections.abc import AsyncIterator, Collection, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any, Final, Literal

import openai
from openai.types import Batch as TheirBatch

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
from engine.providers.http.official import OfficialTransport, openai_client
from engine.providers.http.transport import Address

_KEY: Final = "crosswind"
"""Under which a batch's metadata has our key."""
_CLOCKS_S: Final = 3600
"""Seconds by which the provider's clock may differ from ours."""
_ENDED: Final = frozenset({"completed", "expired", "cancelled", "failed"})
Path = Literal["/v1/chat/completions", "/v1/responses"]

_translated = partial(translated, openai.APIStatusError, openai.OpenAIError)


class OpenAIBatches:
    """As `BatchClient`."""

    def __init__(self, where: Address, headers: Mapping[str, str], path: Path) -> None:
        self._path = path
        transport = OfficialTransport(where).new_transport()
        self._client = openai_client(where, headers, transport, openai.DEFAULT_TIMEOUT)

    async def submit(self, key: str, calls: Sequence[tuple[str, Mapping[str, Any]]]) -> Placed:
        lines = [
            encoded({"custom_id": call, "method": "POST", "url": self._path, "body": body})
            for call, body in calls
        ]
        with _translated():
            file = await self._client.files.create(
                file=(f"{key}.jsonl", b"\n".join(lines) + b"\n"), purpose="batch"
            )
            batch = await self._client.batches.create(
                input_file_id=file.id,
                endpoint=self._path,
                completion_window="24h",
                metadata={_KEY: key},
            )
        return _placed(batch)

    async def find(self, batch: Batch, known: Collection[str]) -> Placed | None:
        del known  # the metadata say whose it is
        before = batch.at - timedelta(seconds=_CLOCKS_S)
        number = 0
        with _translated():
            async for theirs in self._client.batches.list(limit=100):
                number += 1
                if isinstance(theirs.metadata, dict) and theirs.metadata.get(_KEY) == batch.key:
                    return _placed(theirs)
                made = moment(theirs.created_at) or datetime.now(UTC)
                if made < before or number >= MOST_LISTED:
                    break
        return None

    async def look(self, provider_id: str) -> Placed:
        with _translated():
            return _placed(await self._client.batches.retrieve(provider_id))

    async def lines(self, provider_id: str) -> AsyncIterator[tuple[str, ResultLine]]:
        with _translated():
            batch = await self._client.batches.retrieve(provider_id)
            for file in (batch.output_file_id, batch.error_file_id):
                if not isinstance(file, str) or not file:
                    continue
                content = self._client.files.with_streaming_response.content(file)
                async with content as response:
                    async for line in json_lines(response.iter_bytes()):
                        yield str(line.get("custom_id")), _line(line)

    async def cancel(self, provider_id: str) -> None:
        with _translated():
            await self._client.batches.cancel(provider_id)

    async def close(self) -> None:
        await self._client.close()


def _placed(batch: TheirBatch) -> Placed:
    status = batch.status
    refusal = _refusal(batch) if status == "failed" else None
    return Placed(provider_id_of(batch.id), moment(batch.expires_at), status in _ENDED, refusal)


def _refusal(batch: TheirBatch) -> ResultLine:
    """Why a batch was not begun, as the response to a call would say it."""
    errors = (batch.errors and batch.errors.data) or []
    first = errors[0] if errors else None
    code = getattr(first, "code", None)
    words = getattr(first, "message", None) or "the batch failed, and no reason is given"
    # too much is queued at this account, which passes
    status = 429 if code == "token_limit_exceeded" else 400
    kind = None if status == 429 else code
    return ResultLine(status, encoded({"error": {"code": kind, "message": f"batch: {words}"}}))


def _line(line: Mapping[str, Any]) -> ResultLine:
    response = line.get("response")
    if not isinstance(response, dict):
        return NEVER
    status = response.get("status_code")
    # sometimes it is 0, with a body that says nothing
    known = isinstance(status, int) and 200 <= status < 600
    return ResultLine(status if known else 500, encoded(response.get("body")))
