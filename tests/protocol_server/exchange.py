"""One request and the answer to it, from the first check to the last byte."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Final

from tests.protocol_server.answers import (
    Answer,
    Rejection,
    Script,
    Tokens,
    answer_to,
    encoded,
    is_known,
    models_listed,
)
from tests.protocol_server.anthropic_wire import AnthropicWire
from tests.protocol_server.channel import Channel, Pace, speak
from tests.protocol_server.faults import Fault, Strike
from tests.protocol_server.misdeeds import (
    Breaking,
    altered,
    over_context,
    rate_limit,
    rejection_of,
    send_page,
    stall,
    unknown_model,
    wrong_key,
)
from tests.protocol_server.openai_wire import OpenAIWire
from tests.protocol_server.request import CHAT_PATH, MESSAGES_PATH, MODELS_PATH, Dialect, Request
from tests.protocol_server.responses_wire import ResponsesWire
from tests.protocol_server.service import ABANDONED, ANSWERED, Service
from tests.protocol_server.settings import Settings

COUNTERS_PATH: Final = "/counters"
RESET_PATH: Final = "/reset"

_JSON: Final = {"content-type": "application/json"}
_EVENTS: Final = {"content-type": "text/event-stream; charset=utf-8", "cache-control": "no-cache"}
_IN_STREAM: Final = Rejection(529, "Overloaded")

_MIDWAY: Final = frozenset(
    {
        Fault.ERROR_EVENT,
        Fault.RESET_MIDWAY,
        Fault.CUT_MIDWAY,
        Fault.NO_FINISH,
        Fault.HALF_EVENT,
        Fault.BAD_JSON,
        Fault.BAD_UTF8,
        Fault.STALL_MIDWAY,
        Fault.STALL_WITH_PINGS,
        Fault.DRIP,
    }
)


async def serve(service: Service, request: Request, channel: Channel) -> None:
    """Answer one request."""
    number = service.received(request)
    if request.asks_a_model:
        await carry_out(service, request, channel, number)
    else:
        _look_up(service, request, channel)


async def carry_out(service: Service, request: Request, channel: Channel, number: int) -> None:
    """Answer a request to a model."""
    await _Exchange(service, request, channel, number).carry_out()


Wire = AnthropicWire | OpenAIWire


def _wire(dialect: Dialect, settings: Settings) -> Wire:
    if dialect is Dialect.ANTHROPIC:
        return AnthropicWire(lenient=settings.lenient)
    if dialect is Dialect.RESPONSES:
        return ResponsesWire(lenient=settings.lenient)
    return OpenAIWire(lenient=settings.lenient)


def _look_up(service: Service, request: Request, channel: Channel) -> None:
    """Answer a request that needs no model."""
    wire = _wire(request.dialect, service.settings)
    rejection = None
    match request.method, request.path:
        case "GET", path if path == COUNTERS_PATH:
            channel.respond(200, _JSON, encoded(service.counters().as_json()))
        case "POST", path if path == RESET_PATH:
            service.reset()
            channel.respond(200, _JSON, b"{}")
        case "GET", path if path.startswith(MODELS_PATH):
            name = path.removeprefix(MODELS_PATH).strip("/")
            names = models_listed(service.settings.aliases)
            rejection = wrong_key_of(request, service.settings)
            if rejection is None and not name:
                channel.respond(200, _JSON, wire.models(names))
            elif rejection is None and (name in names or is_known(name)):
                channel.respond(200, _JSON, wire.model(name))
            elif rejection is None:
                rejection = Rejection(404, f"The model {name!r} does not exist.")
        case _, path if path in {CHAT_PATH, MESSAGES_PATH}:
            rejection = Rejection(405, f"{request.method} is not allowed here.")
        case _:
            rejection = Rejection(404, f"There is nothing at {request.path}.")
    if rejection is not None:
        channel.respond(rejection.status, _JSON, wire.error(rejection, "req_000000"))


def wrong_key_of(request: Request, settings: Settings) -> Rejection | None:
    if request.key is None:
        return Rejection(401, "You did not provide an API key.", code="missing_api_key")
    if settings.key is not None and request.key != settings.key:
        if settings.is_gateway:
            return Rejection(400, "No connected db.", code="400")
        return wrong_key(request)
    return None


class _Exchange:
    """A request to a model."""

    def __init__(self, service: Service, request: Request, channel: Channel, number: int) -> None:
        self._service = service
        self._settings = service.settings
        self._request = request
        self._channel = channel
        self._number = number
        self._id = f"req_{number:06d}"
        self._wire = _wire(request.dialect, service.settings)
        self._strike: Strike | None = None
        self._outcome = ANSWERED
        self._rejected_with = 0
        self._open = False
        self._named = request
        """With the model by the name that the answer gives it."""
        self._headers: Mapping[str, str] = {}
        self._tokens = Tokens()
        self._pieces = self._spoken = 0

    async def carry_out(self) -> None:
        if not self._admitted():
            return
        try:
            rejection = self._rejection()
            if rejection is not None:
                self._outcome = str(rejection.status)
                self._reject(rejection)
            else:
                await self._answer_or_fail()
        finally:
            if self._strike is None:
                self._outcome = ABANDONED
            self._end()

    def _admitted(self) -> bool:
        request, cap = self._request, self._settings.cap
        with self._service.counting() as tally:
            if cap is None or tally.concurrent < cap:
                tally.begin(request.model, request.role.value, self._channel.client_port)
                self._open = True
                self._channel.on_end = self._end
                return True
            tally.turn_away(request.model, request.role.value)
        self._reject(rate_limit(self._settings.cap_retry_after))
        return False

    def _end(self) -> None:
        """Count what came of it, once."""
        if not self._open:
            return
        self._open = False
        whole = self._spoken >= self._pieces
        with self._service.counting() as tally:
            tally.end(self._outcome, self._channel.client_port)
            tally.input_tokens += self._tokens.input
            tally.output_tokens += self._tokens.output if whole else self._spoken
            tally.bytes_out += self._channel.bytes_out
            tally.refusals += self._rejected_with == 429

    def _rejection(self) -> Rejection | None:
        """What is wrong with the request itself."""
        request = self._request
        if request.raw and not request.body:
            return Rejection(400, "The body of your request is no JSON object.")
        wrong = wrong_key_of(request, self._settings)
        if wrong is not None:
            return wrong
        if not is_known(self._model):
            return unknown_model(request)
        return self._wire.rejection(request) or over_context(request, self._settings.context)

    @property
    def _model(self) -> str:
        return self._settings.aliases.get(self._request.model, self._request.model)

    def _reject(self, rejection: Rejection) -> None:
        self._rejected_with = rejection.status
        headers = {**_JSON, **self._wire.headers(self._id), **rejection.headers}
        self._channel.respond(rejection.status, headers, self._wire.error(rejection, self._id))

    async def _answer_or_fail(self) -> None:
        strike = self._strike = self._service.strike(self._request)
        if strike is None:
            await self._answer(None)
            return
        self._outcome = strike.fault.value
        rejection = rejection_of(strike, self._request)
        if rejection is not None:
            self._reject(rejection)
            return
        match strike.fault:
            case Fault.REDIRECT:
                self._redirect(strike.detail.location)
            case Fault.RESET:
                self._channel.reset()
            case Fault.STALL:
                await stall()
            case Fault.HTML:
                send_page(self._channel)
            case Fault.OTHER_MODEL:
                answered = self._request
                named = {**answered.body, "model": strike.detail.served}
                self._named = replace(answered, raw=encoded(named))
                self._headers = strike.detail.headers
                await self._answer(strike)
            case Fault.EMPTY_BODY:
                self._channel.respond(200, _EVENTS if self._request.streams else _JSON, b"")
            case _:
                await self._answer(strike)

    def _redirect(self, location: str | None) -> None:
        elsewhere = f"http://localhost:{self._service.port}/elsewhere"
        self._channel.respond(307, {"location": location or elsewhere}, b"")

    async def _answer(self, strike: Strike | None) -> None:
        held_after = self._service.held_after
        if held_after is not None and self._number > held_after:
            await self._service.released.wait()
        pace = Pace.from_now(self._settings)
        answer = await answer_to(self._request, self._model, self._settings)
        fault = None if strike is None else strike.fault
        if fault is not None:
            answer = altered(answer, fault, self._request)
        self._tokens = answer.tokens
        if self._settings.cost is not None and self._request.dialect is Dialect.ANTHROPIC:
            told = {"x-litellm-response-cost": str(self._settings.cost)}
            self._headers = {**self._headers, **told}
        if strike is not None and fault in _MIDWAY:
            await self._break(answer, pace, strike)
        elif self._request.streams and fault is not Fault.JSON_BODY:
            await self._stream(answer, pace)
        else:
            await self._send_whole(answer, pace)

    async def _send_whole(self, answer: Answer, pace: Pace) -> None:
        self._pieces = len(answer.pieces)
        await pace.until_last(self._pieces)
        self._spoken = self._pieces
        headers = {**_JSON, **self._wire.headers(self._id), **self._headers}
        body = self._wire.body(self._named, answer, self._number)
        self._channel.respond(200, headers, body)

    async def _stream(self, answer: Answer, pace: Pace) -> None:
        script = self._wire.script(self._named, answer, self._number)
        self._pieces = len(script.pieces)
        await pace.until_first()
        self._channel.begin({**_EVENTS, **self._wire.headers(self._id), **self._headers})
        self._channel.send(script.opening)
        await speak(self._channel, script.pieces, pace, self._say)
        self._channel.send(script.closing)
        self._channel.end()

    async def _break(self, answer: Answer, pace: Pace, strike: Strike) -> None:
        streams = self._request.streams
        error = self._wire.error_event if streams else self._wire.error
        script = (
            self._wire.script(self._request, answer, self._number)
            if streams
            else _in_two(self._wire.body(self._request, answer, self._number))
        )
        self._pieces = len(script.pieces)
        self._channel.begin({**(_EVENTS if streams else _JSON), **self._wire.headers(self._id)})
        sign = self._wire.sign_of_life() if streams else b"\n"
        status = strike.detail.status
        why = _IN_STREAM if status is None else Rejection(status, "It broke.", code=str(status))
        breaking = Breaking(self._channel, script, pace, self._say, sign, error(why, self._id))
        await breaking.go_wrong(strike)

    def _say(self, pieces: int) -> None:
        self._spoken = pieces


def _in_two(body: bytes) -> Script:
    """An answer that is not streamed, so that it too can break in the middle."""
    half = len(body) // 2
    return Script((), (body[:half], body[half:]), ())
