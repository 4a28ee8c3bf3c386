"""Requests that OpenAI's own client sends: the Responses protocol, and Azure's addresses with a
version. Slow to import, so imported when the first is made.

The client makes addresses and headers. What it receives goes to the same handler as all answers,
piece by piece, so that deadlines, limits, retries and hidden keys are those of every other request.
Its own reading of streams is not used: it takes one that ends early for a whole reply, and is eight
times as slow.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Mapping
from contextlib import AbstractAsyncContextManager
from typing import Any, Final, cast

import httpx2
import openai

from engine.providers.http.application import ApplicationTransport
from engine.providers.http.transport import Address, ConnectionFailedError, OnResponse

LONGEST_REFUSAL: Final = 64 * 1024
_REFUSED: Final = 300


class _BoundedTransport(httpx2.AsyncHTTPTransport):
    """Cuts refusals short, which the client reads whole before anybody sees them."""

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        response = await super().handle_async_request(request)
        if response.status_code >= _REFUSED:
            response.stream = _Beginning(cast("httpx2.AsyncByteStream", response.stream))
        return response


class _Beginning(httpx2.AsyncByteStream):
    """The first bytes of a stream."""

    def __init__(self, stream: httpx2.AsyncByteStream) -> None:
        self._stream = stream

    async def __aiter__(self) -> AsyncIterator[bytes]:
        left = LONGEST_REFUSAL
        async for piece in self._stream:
            yield piece[:left]
            left -= len(piece)
            if left <= 0:
                return

    async def aclose(self) -> None:
        await self._stream.aclose()


class OfficialTransport(ApplicationTransport):
    """A `Transport` without kept connections, too: this client takes what was left in one for the
    answer to the next request."""

    _kind = _BoundedTransport
    _client: openai.AsyncOpenAI | None = None

    async def post(self, headers: Mapping[str, str], body: bytes, on_response: OnResponse) -> None:
        """As `Transport`."""
        opened = await self._opened()
        if self._client is None:
            self._client = openai_client(self._address, {}, opened, self._timeout)
        try:
            await self._send(self._client, headers, json.loads(body), on_response)
        except openai.APIStatusError as error:
            failure, refusal = None, error.response
            self._heard(refusal, {}, on_response)(refusal.content)
        except (openai.APIConnectionError, httpx2.TransportError, httpx2.DecodingError) as error:
            inner = error.__cause__ if isinstance(error, openai.APIConnectionError) else error
            failure = self._failure(inner)
        else:
            failure = None
        # raised outside the handler: the errors of the client hold the request and so the key
        if failure is not None:
            raise ConnectionFailedError(failure)

    async def _send(
        self,
        client: openai.AsyncOpenAI,
        headers: Mapping[str, str],
        body: Mapping[str, object],
        on_response: OnResponse,
    ) -> None:
        # the whole body is in `extra_body`: the client knows fewer parameters than people write
        model = cast("str", body["model"])
        sent: AbstractAsyncContextManager[openai.AsyncAPIResponse[Any]]
        if "input" in body:
            sent = client.responses.with_streaming_response.create(
                model=model, stream=True, extra_body=body, extra_headers=headers
            )
        else:
            sent = client.chat.completions.with_streaming_response.create(
                model=model, messages=[], stream=True, extra_body=body, extra_headers=headers
            )
        async with sent as response:
            on_body = self._heard(response.http_response, {}, on_response)
            async for piece in response.iter_bytes():
                on_body(piece)


def openai_client(
    where: Address,
    headers: Mapping[str, str],
    transport: httpx2.AsyncBaseTransport,
    timeout: httpx2.Timeout,
) -> openai.AsyncOpenAI:
    """Return OpenAI's client for an address, that of Azure if it has a version. It sends each
    request once, and nothing that variables of the environment say."""
    base_url, _, query = where.url.partition("?")
    http = httpx2.AsyncClient(transport=transport, trust_env=False, follow_redirects=False)
    client: openai.AsyncOpenAI
    more: Any = {"api_key": where.key, "max_retries": 0, "timeout": timeout, "http_client": http}
    # only chat is below a deployment: the client knows what is beside it
    host, is_deployment, name = base_url.partition("/openai/deployments/")
    if not query:
        client = openai.AsyncOpenAI(base_url=base_url, **more)
    else:
        more["api_version"] = query.partition("=")[2]
        place: Any = {"base_url": base_url}
        if is_deployment:
            place = {"azure_endpoint": host, "azure_deployment": name}
        client = openai.AsyncAzureOpenAI(**place, **more)
    client.organization = client.project = None
    client._custom_headers = {"Accept-Encoding": "identity", **headers}  # noqa: SLF001
    return client
