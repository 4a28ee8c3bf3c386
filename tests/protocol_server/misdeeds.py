"""How each fault is done: as an error status, as another answer, or in the middle of a stream."""

from __future__ import annotations

import asyncio
import base64
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from typing import Final, NoReturn
from urllib.parse import quote

from engine.providers.model import Finish
from tests.protocol_server.answers import (
    Answer,
    Rejection,
    Script,
    other_shape,
    pieces_of,
    token_count,
)
from tests.protocol_server.channel import Channel, OnSpoken, Pace, speak
from tests.protocol_server.faults import Fault, Strike
from tests.protocol_server.request import Dialect, Request

_PAGE: Final = b"<!doctype html><title>Sign in</title><h1>Sign in to this network</h1>"
_HUGE: Final = 8 * 1024 * 1024
_HUGE_PIECE: Final = 16 * 1024

_STATUS: Final[Mapping[Fault, Rejection]] = {
    Fault.BAD_REQUEST: Rejection(400, "This request cannot be read."),
    Fault.PAYMENT_REQUIRED: Rejection(402, "There are no credits left on this account."),
    Fault.FORBIDDEN: Rejection(403, "This key may not use this model."),
    Fault.REQUEST_TIMEOUT: Rejection(408, "The request took too long to arrive."),
    Fault.CONFLICT: Rejection(409, "Another request holds this resource."),
    Fault.TOO_LARGE: Rejection(413, "The request is larger than what is allowed."),
    Fault.UNPROCESSABLE: Rejection(422, "The request was read but cannot be processed."),
    Fault.SERVER_ERROR: Rejection(500, "The server had an error while answering."),
    Fault.UNAVAILABLE: Rejection(503, "The service is not available at present."),
    Fault.OVERLOADED: Rejection(529, "Overloaded"),
    Fault.QUOTA_EXHAUSTED: Rejection(
        429, "You exceeded your current quota.", code="insufficient_quota"
    ),
}


def rejection_of(strike: Strike, request: Request) -> Rejection | None:
    """The error status of a fault; None for a fault that begins with 200 or with nothing."""
    detail = strike.detail
    match strike.fault:
        case Fault.UNAUTHORIZED:
            return wrong_key(request)
        case Fault.NOT_FOUND:
            return unknown_model(request)
        case Fault.RATE_LIMITED:
            return rate_limit(None)
        case Fault.RATE_LIMITED_SECONDS:
            return rate_limit(detail.retry_after)
        case Fault.OVERLOADED_SECONDS:
            return Rejection(529, "Overloaded", headers={"retry-after": detail.retry_after})
        case Fault.RATE_LIMITED_DATE:
            now = datetime.now(UTC)
            then = now + timedelta(seconds=float(detail.retry_after))
            refusal = rate_limit(format_datetime(then, usegmt=True))
            date = format_datetime(now, usegmt=True)
            return replace(refusal, headers={**refusal.headers, "date": date})
        case Fault.RATE_LIMITED_LONG:
            return rate_limit("200")
        case Fault.CONTEXT_FULL if request.dialect is Dialect.OPENAI:
            message = "This model's maximum context length is smaller than this conversation."
            return Rejection(400, message, "messages", "context_length_exceeded")
        case Fault.ECHOES_KEY:
            return _echo(request.key or "")
        case Fault.SHOWS_REQUEST:
            return Rejection(400, f"This cannot be read; the request was {_unsaid(request)}.")
        case Fault.REJECTS_JSON_SCHEMA | Fault.REJECTS_JSON_OBJECT:
            return _no_format(request)
        case Fault.BREAKS_ON_JSON_SCHEMA:
            return _broken_by_format(request)
        case Fault.REJECTS_PARAMETER:
            return _no_parameter(detail.parameter, request)
        case fault:
            return _STATUS.get(fault)


def rate_limit(retry_after: str | None) -> Rejection:
    headers = {} if retry_after is None else {"retry-after": retry_after}
    message = "Rate limit reached: too many requests at once."
    return Rejection(429, message, code="rate_limit_exceeded", headers=headers)


def over_context(request: Request, context: int | None) -> Rejection | None:
    """What a server of one's own says to a limit that leaves no room for the request."""
    limits = (request.body.get("max_completion_tokens"), request.body.get("max_tokens"))
    asked = next((limit for limit in limits if isinstance(limit, int)), 0)
    said = sum(token_count(message.text) for message in request.messages)
    if context is None or said + asked <= context:
        return None
    message = (
        f"'max_tokens' or 'max_completion_tokens' is too large: {asked}. This model's maximum"
        f" context length is {context} tokens and your request has {said} input tokens"
        f" ({asked} > {context} - {said})."
    )
    return Rejection(400, message, "max_tokens")


def wrong_key(request: Request) -> Rejection:
    """With the key half masked in the message, as real servers send it."""
    key = request.key or ""
    message = f"Incorrect API key provided: {key[:5]}{'*' * 8}{key[-4:]}."
    return Rejection(401, message, code="invalid_api_key")


def unknown_model(request: Request) -> Rejection:
    if request.dialect is Dialect.ANTHROPIC:
        return Rejection(404, f"model: {request.model}")
    message = f"The model `{request.model}` does not exist or you do not have access to it."
    return Rejection(404, message, code="model_not_found")


def _echo(key: str) -> Rejection:
    hidden = base64.b64encode(key.encode()).decode()
    return Rejection(400, f"Got key {key}, {hidden}, {quote(key, safe='')}.")


def _no_format(request: Request) -> Rejection:
    if request.dialect is Dialect.ANTHROPIC:
        return Rejection(400, "output_config.format: this model does not support output formats")
    message = (
        f"Invalid parameter: 'response_format' of type '{request.response_format}' is not "
        "supported with this model."
    )
    return Rejection(400, message, "response_format")


def _broken_by_format(request: Request) -> Rejection:
    """As a server says it that checks requests by their types and shows what it got."""
    place = "output_config" if request.dialect is Dialect.ANTHROPIC else "response_format"
    fault = {
        "type": "literal_error",
        "loc": ("body", place, "type"),
        "msg": "Input should be 'text' or 'json_object'",
        "input": _unsaid(request),
    }
    return Rejection(500, str([fault]), code="internal_server_error")


def _unsaid(request: Request) -> dict[str, object]:
    """The body of a request without what was said."""
    return {name: request.body[name] for name in sorted(request.body) if name != "messages"}


def _no_parameter(name: str, request: Request) -> Rejection:
    if request.dialect is Dialect.ANTHROPIC:
        return Rejection(400, f"{name}: this parameter is not supported with this model")
    message = f"Unsupported parameter: '{name}' is not supported with this model."
    if name == "max_tokens":
        message += " Use 'max_completion_tokens' instead."
    return Rejection(400, message, name, "unsupported_parameter")


def altered(answer: Answer, fault: Fault, request: Request) -> Answer:
    """The answer that is given instead; the same where the fault does not lie in the answer."""
    match fault:
        case Fault.EMPTY_TEXT:
            return _instead(answer, ())
        case Fault.REFUSAL:
            text = "I am not able to help with that."
            return _instead(answer, pieces_of(text, None), Finish.REFUSAL)
        case Fault.CONTENT_FILTER:
            return _instead(answer, _half(answer), Finish.CONTENT_FILTER)
        case Fault.LENGTH:
            return _instead(answer, _half(answer), Finish.LENGTH)
        case Fault.CONTEXT_FULL:
            return _instead(answer, _half(answer), Finish.CONTEXT_FULL)
        case Fault.WRONG_SCHEMA:
            return _instead(answer, pieces_of(other_shape(request.schema or {}), None))
        case Fault.FENCED_JSON:
            return _instead(answer, ("```json\n", *answer.pieces, "\n```"))
        case Fault.PROSE | Fault.PASSES_OVER_FORM:
            text = "Here is what I think: it depends, and I would rather not put it into a form."
            return _instead(answer, pieces_of(text, None))
        case Fault.HUGE_REPLY:
            return _instead(answer, ("x" * _HUGE_PIECE,) * (_HUGE // _HUGE_PIECE))
        case Fault.HUGE_EVENT:
            return _instead(answer, ("x" * _HUGE,))
        case _:
            return answer


def _instead(answer: Answer, pieces: tuple[str, ...], finish: Finish = Finish.STOP) -> Answer:
    return Answer(pieces, finish, replace(answer.tokens, output=max(1, len(pieces))))


def _half(answer: Answer) -> tuple[str, ...]:
    return answer.pieces[: max(1, len(answer.pieces) // 2)]


async def stall() -> NoReturn:
    """Wait for the client to go away, or the server to close: both cancel this."""
    await asyncio.Event().wait()
    raise AssertionError("a stall is never over")


def send_page(channel: Channel) -> None:
    channel.respond(200, {"content-type": "text/html; charset=utf-8"}, _PAGE)


@dataclass(frozen=True, slots=True)
class Breaking:
    """A stream that goes wrong on its way."""

    channel: Channel
    script: Script
    pace: Pace
    on_spoken: OnSpoken
    sign_of_life: bytes
    error_event: bytes

    async def go_wrong(self, strike: Strike) -> None:
        """Send the pieces that come before the fault, then do it."""
        if strike.fault is Fault.DRIP:
            await self._drip(strike.detail.every_ms / 1000)
            return
        after = min(strike.detail.after, len(self.script.pieces))
        if after:
            self.channel.send(self.script.opening)
            await speak(self.channel, self.script.pieces[:after], self.pace, self.on_spoken)
        self.channel.flush()
        next_piece = next(iter(self.script.pieces[after:]), b"data: {}\n\n")
        await self._misdeed(strike, next_piece, (*self.script.pieces[after + 1 :],))

    async def _misdeed(self, strike: Strike, next_piece: bytes, rest: tuple[bytes, ...]) -> None:
        channel = self.channel
        match strike.fault:
            case Fault.ERROR_EVENT:
                channel.send((self.error_event,))
                channel.end()
            case Fault.RESET_MIDWAY:
                channel.reset()
            case Fault.CUT_MIDWAY:
                channel.cut()
            case Fault.NO_FINISH:
                channel.end()
            case Fault.HALF_EVENT:
                channel.send((next_piece[: len(next_piece) // 2],))
                channel.end()
            case Fault.BAD_JSON:
                self._send_rest(_without_end(next_piece), rest)
            case Fault.BAD_UTF8:
                self._send_rest(_with_bad_bytes(next_piece), rest)
            case Fault.STALL_WITH_PINGS:
                await self._ping(strike.detail.every_ms / 1000)
            case _:
                await stall()

    def _send_rest(self, broken: bytes, rest: tuple[bytes, ...]) -> None:
        self.channel.send((broken, *rest, *self.script.closing))
        self.on_spoken(len(self.script.pieces))
        self.channel.end()

    async def _ping(self, seconds: float) -> NoReturn:
        while True:
            self.channel.send((self.sign_of_life,))
            self.channel.flush()
            await asyncio.sleep(seconds)

    async def _drip(self, seconds: float) -> None:
        script = self.script
        self.channel.send((*script.opening, *script.pieces, *script.closing))
        self.on_spoken(len(script.pieces))
        for byte in self.channel.taken():
            self.channel.write(bytes((byte,)))
            await asyncio.sleep(seconds)
        self.channel.end()


def _without_end(event: bytes) -> bytes:
    body = event.rstrip(b"\n")
    return body[:-2] + event[len(body) :]


def _with_bad_bytes(event: bytes) -> bytes:
    body = event.rstrip(b"\n")
    return body[:-4] + b"\xff\xfe" + body[-4:] + event[len(body) :]
