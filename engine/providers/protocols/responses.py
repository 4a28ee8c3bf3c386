"""The Responses protocol of OpenAI, for models that exist only there. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final, cast

from engine.providers.attempts import failure_in, is_error
from engine.providers.capabilities import BOUNDS, FOLDED_SYSTEM, SUMMARIES
from engine.providers.failures import Cause, Failure
from engine.providers.model import Finish, MessageRole
from engine.providers.protocols.base import (
    ChatRequest,
    Dialect,
    InStreamError,
    ReplyParser,
    count,
    document,
    has_counts,
    is_end_mark,
    no_reply,
    note_tool,
    parsed,
    spoken_turns,
    tool_words,
)
from engine.providers.protocols.openai import response_format

if TYPE_CHECKING:  # types only, as importing the client is slow
    from openai.types.responses import ResponseTextConfigParam
    from openai.types.responses.response_create_params import ResponseCreateParamsStreaming
    from openai.types.shared_params import Reasoning

_CUT: Final[Mapping[str, Finish]] = {
    "max_output_tokens": Finish.LENGTH,
    "content_filter": Finish.CONTENT_FILTER,
}
_THOUGHTS: Final = frozenset(
    {"response.reasoning_summary_text.delta", "response.reasoning_text.delta"}
)
_ENDS: Final = frozenset({"response.completed", "response.incomplete", "response.failed"})


class ResponsesDialect(Dialect):
    """The Responses protocol."""

    def body(self, ask: ChatRequest) -> dict[str, Any]:
        params = ask.params
        body: ResponseCreateParamsStreaming = {
            "model": ask.model,
            "input": [_message(turn.role, turn.text) for turn in spoken_turns(ask)],
            "stream": True,
            # otherwise the provider keeps each conversation for a month
            "store": False,
            "temperature": params.temperature,
            "top_p": params.top_p,
            "max_output_tokens": params.max_tokens,
        }
        if reasoning := _reasoning(ask):
            body["reasoning"] = reasoning
        if text := _text(ask):
            body["text"] = text
        if ask.cache is not None and ask.first_party:
            body["prompt_cache_key"] = f"crosswind-{ask.seed:x}"
        return {
            name: value for name, value in body.items() if value is not None and ask.takes(name)
        }

    def sent(self, body: Mapping[str, Any]) -> frozenset[str]:
        names = {FOLDED_SYSTEM} & {message["role"] for message in body["input"]}
        names |= {BOUNDS} if has_counts(body.get("text")) else set()
        reasoning = body.get("reasoning", {})
        names |= {SUMMARIES} if "summary" in reasoning else set()
        names |= {"reasoning_effort"} if "effort" in reasoning else set()
        return frozenset(body) | names

    def parser(self) -> ResponsesReplyParser:
        return ResponsesReplyParser()


def _message(role: MessageRole, text: str) -> Any:
    return {"role": role.value, "content": text}


def _reasoning(ask: ChatRequest) -> Reasoning:
    reasoning: Reasoning = {}
    effort = ask.params.reasoning_effort
    if effort is not None and ask.takes("reasoning_effort"):
        reasoning["effort"] = cast("Any", effort)
    if ask.takes(SUMMARIES):
        reasoning["summary"] = "auto"
    return reasoning


def _text(ask: ChatRequest) -> ResponseTextConfigParam:
    form = cast("dict[str, Any] | None", response_format(ask))
    if form is None:
        return {}
    # what chat completions put into an object of its own stands beside the type here
    return {"format": cast("Any", {"type": form["type"], **form.get("json_schema", {})})}


class ResponsesReplyParser(ReplyParser):
    """Parses a stream of typed events."""

    __slots__ = ("_refused",)

    def __init__(self) -> None:
        super().__init__()
        self._refused = False

    def feed(self, data: str) -> str | None:
        if is_end_mark(data):
            return None
        event = parsed(data)
        kind = event.get("type")
        if kind == "response.output_text.delta":
            return _words(event.get("delta"))
        if kind == "response.refusal.delta":
            self._refused = True
            return _words(event.get("delta"))
        if kind in _THOUGHTS:
            self.thoughts.append(_words(event.get("delta")))
            return ""
        if kind == "response.reasoning_summary_part.added" and self.thoughts:
            self.thoughts.append("\n\n")
            return ""
        if kind == "response.output_item.added":
            self._note_tool(event.get("item"))
            return ""
        if kind == "response.created" or kind in _ENDS:
            self._take(event.get("response"), is_end=kind in _ENDS)
            return ""
        if kind == "error" or is_error(event):
            error = event.get("error")
            raise InStreamError(failure_in({"error": error or event}, Cause.IN_STREAM))
        return None

    def feed_document(self, data: str) -> str:
        event = document(data)
        output = event.get("output")
        if not isinstance(output, list):
            raise no_reply(data)
        text = "".join(self._text_of(item) for item in output if isinstance(item, dict))
        self._take(event, is_end=True)
        self.oddity = self.oddity or "answers in one document, and not in a stream"
        return text

    def _text_of(self, item: Mapping[str, Any]) -> str:
        self._note_tool(item)
        for part in _parts(item, "summary"):
            self.thoughts.append(_words(part.get("text")))
        if item.get("type") != "message":
            return ""
        text = ""
        for part in _parts(item, "content"):
            self._refused = self._refused or part.get("type") == "refusal"
            text += _words(part.get("text")) or _words(part.get("refusal"))
        return text

    def _note_tool(self, item: object) -> None:
        if isinstance(item, dict) and str(item.get("type")).endswith("_call"):
            note_tool(self.tools, item.get("name") or item.get("type"))
            self.oddity = tool_words(self.tools)

    def _take(self, response: object, *, is_end: bool) -> None:
        """Take what the response as a whole says."""
        if not isinstance(response, dict):
            return
        self.named.add(response.get("model"))
        tier = response.get("service_tier")
        # what was asked stands there until the end, and then what was served
        if is_end and isinstance(tier, str):
            self.tokens.tier = tier
        if isinstance(usage := response.get("usage"), dict):
            self._count(usage)
        if not is_end:
            return
        status, details = response.get("status"), response.get("incomplete_details")
        if status in {"failed", "cancelled"} or response.get("error"):
            error = response.get("error") or {"message": f"the response is {status}"}
            raise InStreamError(failure_in({"error": error}, Cause.IN_STREAM))
        self.ended = self.settled = True
        self.finish = Finish.REFUSAL if self._refused else Finish.STOP
        if status == "incomplete":
            reason = details.get("reason") if isinstance(details, dict) else None
            cut = _CUT.get(str(reason))
            if cut is None:
                raise InStreamError(Failure(Cause.IN_STREAM, f"it gave up: {reason}"))
            self.finish = cut

    def _count(self, usage: Mapping[str, Any]) -> None:
        self.tokens.input = count(usage.get("input_tokens"))
        self.tokens.output = count(usage.get("output_tokens"))
        details = usage.get("input_tokens_details")
        if isinstance(details, dict):
            self.tokens.cached = count(details.get("cached_tokens"))
            self.tokens.cache_written = count(details.get("cache_write_tokens"))


def _words(value: object) -> str:
    return value if isinstance(value, str) else ""


def _parts(item: Mapping[str, Any], name: str) -> list[dict[str, Any]]:
    parts = item.get(name)
    return [part for part in parts if isinstance(part, dict)] if isinstance(parts, list) else []
