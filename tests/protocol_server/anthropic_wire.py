"""The Anthropic protocol as its messages speak it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from engine.providers.model import Finish
from tests.protocol_server.answers import Answer, Rejection, Script, Tokens, encoded, encoded_text
from tests.protocol_server.openai_wire import schema_parts
from tests.protocol_server.request import Request, text_of

WITHOUT_SAMPLING: Final = "2026-10-21"
"""From this version on `temperature`, `top_p` and `top_k` are refused, whatever their value."""

_KNOWN: Final = frozenset(
    """cache_control container diagnostics inference_geo max_tokens messages metadata model
    output_config service_tier speed stop_sequences stream system thinking tool_choice tools
    user_profile_id workspace_id""".split()
)
_SAMPLING: Final = frozenset({"temperature", "top_p", "top_k"})

_KINDS: Final[Mapping[int, str]] = {
    401: "authentication_error",
    402: "billing_error",
    403: "permission_error",
    404: "not_found_error",
    408: "timeout_error",
    409: "conflict_error",
    413: "request_too_large",
    429: "rate_limit_error",
    500: "api_error",
    503: "api_error",
    529: "overloaded_error",
}

_STOP_REASON: Final[Mapping[Finish, str]] = {
    Finish.STOP: "end_turn",
    Finish.LENGTH: "max_tokens",
    Finish.REFUSAL: "refusal",
    Finish.CONTENT_FILTER: "refusal",
    Finish.CONTEXT_FULL: "model_context_window_exceeded",
}


_BOUNDS: Final = (
    "minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf",
    "minLength", "maxLength", "maxItems",
)  # fmt: skip


class AnthropicWire:
    """Messages: checks, bodies, streams and errors."""

    def __init__(self, *, lenient: bool) -> None:
        self._lenient = lenient

    def rejection(self, request: Request) -> Rejection | None:
        message = next(self._faults(request), None)
        return None if message is None else Rejection(400, message)

    def headers(self, request_id: str) -> dict[str, str]:
        return {"request-id": request_id}

    def error(self, rejection: Rejection, request_id: str) -> bytes:
        kind = _KINDS.get(rejection.status, "invalid_request_error")
        error = {"type": kind, "message": rejection.message}
        return encoded({"type": "error", "error": error, "request_id": request_id})

    def error_event(self, rejection: Rejection, request_id: str) -> bytes:
        return _framed("error", self.error(rejection, request_id))

    def body(self, request: Request, answer: Answer, number: int) -> bytes:
        content = [{"type": "text", "text": answer.text}] if answer.text else []
        message = _message(request, number)
        usage = _usage(answer.tokens, answer.tokens.output)
        return encoded({**message, "content": content, **_stop(answer), "usage": usage})

    def script(self, request: Request, answer: Answer, number: int) -> Script:
        message = {**_message(request, number), "content": [], **_NOT_STOPPED}
        started = {"message": {**message, "usage": _usage(answer.tokens, 1)}}
        opening = [_event("message_start", started)]
        usage = _usage(answer.tokens, answer.tokens.output)
        closing = [
            _event("message_delta", {"delta": _stop(answer), "usage": usage}),
            _event("message_stop", {}),
        ]
        if answer.pieces:
            block = {"index": 0, "content_block": {"type": "text", "text": ""}}
            opening += [_event("content_block_start", block), self.sign_of_life()]
            closing.insert(0, _event("content_block_stop", {"index": 0}))
        return Script(tuple(opening), tuple(_deltas(answer.pieces)), tuple(closing))

    def sign_of_life(self) -> bytes:
        return _event("ping", {})

    def models(self, names: tuple[str, ...]) -> bytes:
        data = [_model(name) for name in names]
        edges = {"first_id": names[0], "last_id": names[-1]}
        return encoded({"data": data, "has_more": False, **edges})

    def model(self, name: str) -> bytes:
        return encoded(_model(name))

    def _faults(self, request: Request) -> Iterator[str]:
        body = request.body
        version = request.headers.get("anthropic-version")
        if version is None:
            yield "anthropic-version: header is required"
            return
        if version >= WITHOUT_SAMPLING:
            for name in sorted(_SAMPLING & set(body)):
                yield f"{name}: this parameter is not supported with version {version}"
        if not self._lenient:
            for name in sorted(set(body) - _KNOWN - _SAMPLING):
                yield f"{name}: Extra inputs are not permitted"
        limit = body.get("max_tokens")
        if not isinstance(limit, int):
            yield "max_tokens: Field required"
        elif limit < 1:
            yield "max_tokens: Input should be greater than or equal to 1"
        yield from _message_faults(body.get("messages"))
        yield from _format_faults(body)


def _message_faults(messages: object) -> Iterator[str]:
    if not isinstance(messages, list):
        yield "messages: Field required"
        return
    if not messages:
        yield "messages: at least one message is required"
        return
    for position, message in enumerate(messages):
        place = f"messages.{position}"
        if not isinstance(message, dict):
            yield f"{place}: Input should be an object"
            continue
        if message.get("role") not in {"user", "assistant", "system"}:
            yield f"{place}.role: Input should be 'user', 'assistant' or 'system'"
        if not text_of(message.get("content")):
            yield f"{place}: all messages must have non-empty content"
        elif not all(text.strip() for text in _texts(message["content"])):
            yield f"{place}: text content blocks must contain non-whitespace text"
    roles = [message.get("role") for message in messages if isinstance(message, dict)]
    if roles and roles[0] != "user":
        yield 'messages: first message must use the "user" role'
    if roles and roles[-1] == "assistant":
        # consecutive messages of one role are merged by the real one and no fault
        yield "messages: the conversation must end with a user message"


def _texts(content: object) -> list[str]:
    if isinstance(content, str):
        return [content]
    blocks = content if isinstance(content, list) else []
    return [str(block.get("text", "")) for block in blocks if isinstance(block, dict)]


def _format_faults(body: Mapping[str, Any]) -> Iterator[str]:
    config = body.get("output_config")
    asked = config.get("format") if isinstance(config, dict) else None
    if asked is None:
        return
    if not isinstance(asked, dict) or asked.get("type") != "json_schema":
        yield "output_config.format.type: Input should be 'json_schema'"
    elif not isinstance(asked.get("schema"), dict):
        yield "output_config.format.schema: Field required"
    elif fault := anthropic_fault(asked["schema"]):
        yield f"output_config.format.schema: {fault}"


_NOT_STOPPED: Final[Mapping[str, None]] = {
    "stop_reason": None,
    "stop_sequence": None,
    "stop_details": None,
}


def _stop(answer: Answer) -> dict[str, object]:
    reason = _STOP_REASON[answer.finish]
    details = {"type": "refusal", "category": "general_harms", "explanation": None}
    return {
        "stop_reason": reason,
        "stop_sequence": None,
        "stop_details": details if reason == "refusal" else None,
    }


def _message(request: Request, number: int) -> dict[str, object]:
    return {
        "id": f"msg_{number:06d}",
        "type": "message",
        "role": "assistant",
        "model": request.model,
    }


_MARK: Final = "~piece~"


def _deltas(pieces: tuple[str, ...]) -> Iterator[bytes]:
    sample = _event(
        "content_block_delta", {"index": 0, "delta": {"type": "text_delta", "text": _MARK}}
    )
    before, _, after = sample.partition(encoded_text(_MARK))
    for piece in pieces:
        yield before + encoded_text(piece) + after


def _event(kind: str, data: Mapping[str, object]) -> bytes:
    return _framed(kind, encoded({"type": kind, **data}))


def _framed(kind: str, data: bytes) -> bytes:
    return b"event: " + kind.encode() + b"\ndata: " + data + b"\n\n"


def _usage(tokens: Tokens, output: int) -> dict[str, object]:
    return {
        "input_tokens": tokens.input,
        "cache_creation_input_tokens": 0,
        "cache_read_input_tokens": 0,
        "output_tokens": output,
        "service_tier": "standard",
    }


def _model(name: str) -> dict[str, object]:
    return {
        "type": "model",
        "id": name,
        "display_name": name,
        "created_at": "2026-01-01T00:00:00Z",
        "lifecycle": "active",
    }


def anthropic_fault(schema: Mapping[str, Any]) -> str | None:
    """Why Anthropic's structured output would not take the schema; None where it would."""
    for _, part in schema_parts(schema, ()):
        kind = part.get("type")
        if kind == "object" and part.get("additionalProperties") is not False:
            return "For 'object' type, 'additionalProperties' must be explicitly set to false"
        unfit = [bound for bound in _BOUNDS if bound in part]
        if unfit:
            return f"For {kind!r} type, property {unfit[0]!r} is not supported"
        if part.get("minItems", 0) not in {0, 1}:
            return "For 'array' type, 'minItems' values other than 0 or 1 are not supported"
    return None
