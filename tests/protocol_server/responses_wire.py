"""OpenAI's Responses protocol."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final

from engine.providers.model import Finish
from tests.protocol_server.answers import Answer, Rejection, Script, encoded
from tests.protocol_server.openai_wire import OpenAIWire, bad_schema
from tests.protocol_server.request import Request

_KNOWN: Final = frozenset(
    """background conversation include input instructions max_output_tokens max_tool_calls metadata
    model moderation parallel_tool_calls previous_response_id prompt prompt_cache_key
    prompt_cache_options prompt_cache_retention reasoning safety_identifier service_tier store
    stream stream_options temperature text tool_choice tools top_logprobs top_p truncation
    user""".split()
)
_REASONS: Final[Mapping[Finish, str]] = {
    Finish.LENGTH: "max_output_tokens",
    Finish.CONTENT_FILTER: "content_filter",
}
WITHOUT_THOUGHT: Final = "words-20"
"""The model that has no reasoning to summarise."""
THOUGHT: Final = "I weigh what was asked."
"""The summary of what it thought, where one is asked for."""


class ResponsesWire(OpenAIWire):
    """Checks, bodies, streams and errors."""

    def rejection(self, request: Request) -> Rejection | None:
        body = request.body
        unknown = sorted(set(body) - _KNOWN)
        if unknown:
            message = f"Unknown parameter: '{unknown[0]}'."
            return Rejection(400, message, unknown[0], "unknown_parameter")
        if not body.get("input"):
            return Rejection(400, "Missing required parameter: 'input'.", "input")
        if body["model"] == WITHOUT_THOUGHT and "reasoning" in body:
            name = "reasoning.summary"
            message = f"Unsupported parameter: '{name}' is not supported with this model."
            return Rejection(400, message, name, "unsupported_parameter")
        form = body.get("text", {}).get("format")
        if form is None or form.get("type") != "json_schema":
            return None
        return bad_schema(form)

    def body(self, request: Request, answer: Answer, number: int) -> bytes:
        return encoded(_response(request, answer, number, is_over=True))

    def error_event(self, rejection: Rejection, request_id: str) -> bytes:
        error = json.loads(self.error(rejection, request_id))["error"]
        return _event({"type": "error", "sequence_number": 9, **error, "param": None})

    def script(self, request: Request, answer: Answer, number: int) -> Script:
        begun = _response(request, answer, number, is_over=False)
        ended = _response(request, answer, number, is_over=True)
        status = "completed" if ended["status"] == "completed" else "incomplete"
        kind = "refusal" if answer.finish is Finish.REFUSAL else "output_text"
        place = {"item_id": f"msg_{number}", "output_index": 0, "content_index": 0}
        opening = [_event({"type": "response.created", "response": begun})]
        if request.body.get("reasoning", {}).get("summary"):
            thought = {"type": "response.reasoning_summary_text.delta", "delta": THOUGHT}
            opening.append(_event({**thought, **place, "summary_index": 0}))
        deltas = (
            {"type": f"response.{kind}.delta", "delta": piece, **place} for piece in answer.pieces
        )
        closing = _event({"type": f"response.{status}", "response": ended})
        return Script(tuple(opening), tuple(map(_event, deltas)), (closing,))


def _event(data: Mapping[str, Any]) -> bytes:
    numbered = {"sequence_number": 0, **data}
    return f"event: {data['type']}\n".encode() + b"data: " + encoded(numbered) + b"\n\n"


def _response(request: Request, answer: Answer, number: int, *, is_over: bool) -> dict[str, Any]:
    reason = _REASONS.get(answer.finish)
    status = "incomplete" if reason else "completed"
    text: dict[str, Any] = {"type": "output_text", "text": answer.text, "annotations": []}
    if answer.finish is Finish.REFUSAL:
        text = {"type": "refusal", "refusal": answer.text}
    message = {"type": "message", "id": f"msg_{number}", "role": "assistant", "content": [text]}
    tokens = answer.tokens
    usage = {
        "input_tokens": tokens.input,
        "input_tokens_details": {"cached_tokens": 0},
        "output_tokens": tokens.output,
        "output_tokens_details": {"reasoning_tokens": 0},
        "total_tokens": tokens.input + tokens.output,
    }
    return {
        "id": f"resp_{number:06d}",
        "object": "response",
        "created_at": 0,
        "model": request.model,
        "status": status if is_over else "in_progress",
        "error": None,
        "incomplete_details": {"reason": reason} if is_over and reason else None,
        "output": [{**message, "status": status}] if is_over else [],
        "parallel_tool_calls": True,
        "tool_choice": "auto",
        "tools": [],
        "usage": usage if is_over else None,
    }
