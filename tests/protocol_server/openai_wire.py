"""The OpenAI protocol as chat completions speak it."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Mapping
from typing import Any, Final

from engine.providers.model import Finish
from tests.protocol_server.answers import Answer, Rejection, Script, Tokens, encoded, encoded_text
from tests.protocol_server.request import Request

_KNOWN: Final = frozenset(
    """audio frequency_penalty function_call functions logit_bias logprobs max_completion_tokens
    max_tokens messages metadata modalities model moderation n parallel_tool_calls prediction
    presence_penalty prompt_cache_key prompt_cache_options prompt_cache_retention reasoning_effort
    response_format safety_identifier seed service_tier stop store stream stream_options temperature
    tool_choice tools top_logprobs top_p user verbosity web_search_options""".split()
)
_ROLES: Final = frozenset({"system", "developer", "user", "assistant", "tool", "function"})

_KINDS: Final[Mapping[int, str]] = {
    402: "insufficient_credits",
    403: "permission_error",
    408: "timeout",
    429: "requests",
    500: "server_error",
    503: "server_error",
    529: "overloaded",
}

_FINISH: Final[Mapping[Finish, str]] = {
    Finish.STOP: "stop",
    Finish.LENGTH: "length",
    Finish.REFUSAL: "stop",
    Finish.CONTENT_FILTER: "content_filter",
    Finish.CONTEXT_FULL: "length",
}


class OpenAIWire:
    """Chat completions: checks, bodies, streams and errors."""

    def __init__(self, *, lenient: bool) -> None:
        self._lenient = lenient

    def rejection(self, request: Request) -> Rejection | None:
        body = request.body
        return (
            self._unknown(body) or _bad_messages(body) or _bad_limits(body) or _bad_format(request)
        )

    def headers(self, request_id: str) -> dict[str, str]:
        return {"x-request-id": request_id, "openai-version": "2020-10-01"}

    def error(self, rejection: Rejection, request_id: str) -> bytes:
        del request_id
        return encoded({"error": _error(rejection)})

    def error_event(self, rejection: Rejection, request_id: str) -> bytes:
        return _event(self.error(rejection, request_id))

    def body(self, request: Request, answer: Answer, number: int) -> bytes:
        refused = answer.finish is Finish.REFUSAL
        message: dict[str, object] = {
            "role": "assistant",
            "content": None if refused else answer.text,
            "refusal": answer.text if refused else None,
            "annotations": [],
        }
        choice = {
            "index": 0,
            "message": message,
            "logprobs": None,
            "finish_reason": _FINISH[answer.finish],
        }
        head = _completion(request, "chat.completion", number)
        return encoded({**head, "choices": [choice], "usage": _usage(answer.tokens)})

    def script(self, request: Request, answer: Answer, number: int) -> Script:
        wants_usage = _wants_usage(request)
        head = _completion(request, "chat.completion.chunk", number)
        tail = {"usage": None} if wants_usage else {}
        field = "refusal" if answer.finish is Finish.REFUSAL else "content"
        before, after = _around(head, field, tail)
        first = {"role": "assistant", "content": "", "refusal": None}
        closing = [_chunk(head, {}, tail, _FINISH[answer.finish])]
        if wants_usage:
            last = {**head, "choices": [], "usage": _usage(answer.tokens)}
            closing.append(_event(encoded(last)))
        return Script(
            opening=(_chunk(head, first, tail),),
            pieces=tuple(before + encoded_text(piece) + after for piece in answer.pieces),
            closing=(*closing, b"data: [DONE]\n\n"),
        )

    def sign_of_life(self) -> bytes:
        return b": still working\n\n"

    def models(self, names: tuple[str, ...]) -> bytes:
        return encoded({"object": "list", "data": [_model(name) for name in names]})

    def model(self, name: str) -> bytes:
        return encoded(_model(name))

    def _unknown(self, body: Mapping[str, Any]) -> Rejection | None:
        unknown = [] if self._lenient else sorted(set(body) - _KNOWN)
        if not unknown:
            return None
        message = f"Unknown parameter: '{unknown[0]}'."
        return Rejection(400, message, unknown[0], "unknown_parameter")


def _bad_messages(body: Mapping[str, Any]) -> Rejection | None:
    messages = body.get("messages")
    if not isinstance(messages, list):
        return _missing("messages")
    if not messages:
        message = "Invalid 'messages': empty array. Expected an array with minimum length 1."
        return Rejection(400, message, "messages", "empty_array")
    for position, message in enumerate(messages):
        role = message.get("role") if isinstance(message, dict) else None
        place = f"messages[{position}]"
        if role not in _ROLES:
            return Rejection(400, f"Invalid value: {role!r}.", f"{place}.role", "invalid_value")
        content = message.get("content")
        if not isinstance(content, (str, list)):
            text = f"Invalid value for 'content': expected a string, got {json.dumps(content)}."
            return Rejection(400, text, f"{place}.content")
    return None


def _bad_limits(body: Mapping[str, Any]) -> Rejection | None:
    names = [name for name in ("max_tokens", "max_completion_tokens") if body.get(name) is not None]
    if len(names) == 2:
        message = "Setting 'max_tokens' and 'max_completion_tokens' at once is not supported."
        return Rejection(400, message, "max_tokens", "invalid_parameter_combination")
    for name in names:
        if not isinstance(body[name], int) or body[name] < 1:
            message = f"Invalid '{name}': expected a value >= 1, but got {body[name]} instead."
            return Rejection(400, message, name, "integer_below_min_value")
    if body.get("stream_options") is not None and body.get("stream") is not True:
        message = "The 'stream_options' parameter is only allowed when 'stream' is enabled."
        return Rejection(400, message, "stream_options")
    return None


def _bad_format(request: Request) -> Rejection | None:
    asked = request.body.get("response_format")
    if asked is None:
        return None
    kind = asked.get("type") if isinstance(asked, dict) else None
    match kind:
        case "text":
            return None
        case "json_object":
            if any("json" in message.text.lower() for message in request.messages):
                return None
            message = (
                "'messages' must contain the word 'json' in some form, to use 'response_format' of "
                "type 'json_object'."
            )
            return Rejection(400, message, "messages")
        case "json_schema":
            return bad_schema(asked.get("json_schema"))
        case _:
            return Rejection(400, f"Invalid value: {kind!r}.", "response_format.type")


def bad_schema(wrapped: object) -> Rejection | None:
    """What is wrong with a schema, its name and its strictness."""
    if not isinstance(wrapped, dict):
        return _missing("response_format.json_schema")
    name = wrapped.get("name")
    if not isinstance(name, str):
        return _missing("response_format.json_schema.name")
    if not name.replace("-", "").replace("_", "").isalnum() or len(name) > 64:
        message = f"Invalid 'response_format.json_schema.name': {name!r} does not match."
        return Rejection(400, message, "response_format.json_schema.name", "invalid_value")
    fault = strict_fault(wrapped.get("schema", {})) if wrapped.get("strict") else None
    if fault is None:
        return None
    message = f"Invalid schema for response_format '{name}': {fault}"
    return Rejection(400, message, "response_format")


def _missing(name: str) -> Rejection:
    message = f"Missing required parameter: '{name}'."
    return Rejection(400, message, name, "missing_required_parameter")


def _error(rejection: Rejection) -> dict[str, object]:
    kind = _KINDS.get(rejection.status, "invalid_request_error")
    if rejection.code == "insufficient_quota":
        kind = "insufficient_quota"
    return {
        "message": rejection.message,
        "type": kind,
        "param": rejection.param,
        "code": rejection.code,
    }


def _wants_usage(request: Request) -> bool:
    options = request.body.get("stream_options")
    return isinstance(options, dict) and options.get("include_usage") is True


def _completion(request: Request, kind: str, number: int) -> dict[str, object]:
    return {
        "id": f"chatcmpl-{number:06d}",
        "object": kind,
        "created": int(time.time()),
        "model": request.model,
        "service_tier": "default",
        "system_fingerprint": "fp_0",
    }


def _chunk(
    head: Mapping[str, object],
    delta: Mapping[str, object],
    tail: Mapping[str, object],
    finish: str | None = None,
) -> bytes:
    choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish}
    return _event(encoded({**head, "choices": [choice], **tail}))


_MARK: Final = "~piece~"


def _around(
    head: Mapping[str, object], field: str, tail: Mapping[str, object]
) -> tuple[bytes, bytes]:
    """What stands before and after a piece's text: the rest of a chunk is the same each time."""
    before, _, after = _chunk(head, {field: _MARK}, tail).partition(encoded_text(_MARK))
    return before, after


def _event(data: bytes) -> bytes:
    return b"data: " + data + b"\n\n"


def _usage(tokens: Tokens) -> dict[str, object]:
    return {
        **({} if tokens.cost is None else {"cost": tokens.cost}),
        "prompt_tokens": tokens.input,
        "completion_tokens": tokens.output,
        "total_tokens": tokens.input + tokens.output,
        "prompt_tokens_details": {"cached_tokens": 0},
    }


def _model(name: str) -> dict[str, object]:
    return {"id": name, "object": "model", "created": 1_700_000_000, "owned_by": "tests"}


def strict_fault(schema: Mapping[str, Any]) -> str | None:
    """Why OpenAI's strict mode would not take the schema; None where it would."""
    for place, part in schema_parts(schema, ()):
        if "properties" not in part and part.get("type") != "object":
            continue
        if part.get("additionalProperties") is not False:
            return f"In context={place}, 'additionalProperties' must be supplied and be false."
        missing = set(part.get("properties", {})) - set(part.get("required", ()))
        if missing:
            return f"In context={place}, 'required' must hold every key. Missing {min(missing)!r}."
    return None


def schema_parts(
    schema: Mapping[str, Any], place: tuple[str, ...]
) -> Iterator[tuple[tuple[str, ...], Mapping[str, Any]]]:
    yield place, schema
    for key in ("properties", "$defs"):
        for name, part in schema.get(key, {}).items():
            yield from schema_parts(part, (*place, key, name))
    if isinstance(schema.get("items"), Mapping):
        yield from schema_parts(schema["items"], (*place, "items"))
    for key in ("anyOf", "oneOf", "allOf"):
        for number, part in enumerate(schema.get(key, ())):
            yield from schema_parts(part, (*place, key, str(number)))
