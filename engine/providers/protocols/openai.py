"""The chat completions protocol of OpenAI, which most servers speak. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, Final, Literal, cast

from engine.display import one_line
from engine.providers.attempts import Cause, Failure, failure_in
from engine.providers.capabilities import BOUNDS, Step
from engine.providers.model import Finish, JsonSchema, MessageRole
from engine.providers.protocols.base import (
    ChatRequest,
    InStreamError,
    MessageGroup,
    Tokens,
    count,
    parsed,
    schema_without,
    turns,
)
from engine.providers.served_model import LONGEST_NAME, ServedNames, amount

if TYPE_CHECKING:  # types only, as importing the client is slow
    from openai.types import ReasoningEffort
    from openai.types.chat import ChatCompletionMessageParam
    from openai.types.chat.completion_create_params import (
        CompletionCreateParamsStreaming,
        ResponseFormat,
    )

_FINISHES: Final[Mapping[str, Finish]] = {
    "length": Finish.LENGTH,
    "max_tokens": Finish.LENGTH,
    "model_length": Finish.CONTEXT_FULL,
    "content_filter": Finish.CONTENT_FILTER,
    "safety": Finish.CONTENT_FILTER,
    "sensitive": Finish.CONTENT_FILTER,
    "refusal": Finish.REFUSAL,
    "model_context_window_exceeded": Finish.CONTEXT_FULL,
}
"""Any other reason means that the model ended by itself, whatever a server calls it."""

_NO_FINISH: Final = frozenset({"error", "abort", "cancelled", "insufficient_system_resource"})
"""Reasons that mean that the server broke off."""


_FINE_TUNED: Final = "ft:"
"""Prefix of fine-tuned models, which according to OpenAI accept no counts and ranges in a
schema."""
_NEVER_TAKEN: Final = frozenset({"default", "minLength", "maxLength"})
_COUNTS_AND_RANGES: Final = frozenset(
    {"minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"}
    | {"minItems", "maxItems"}
)
"""OpenAI documents that it accepts these. Elsewhere any of them can have the whole schema refused,
or slow the grammar down; the answer is checked against them anyway."""


class OpenAIDialect:
    """The chat completions protocol."""

    @property
    def fills_template(self) -> bool:
        return False

    @property
    def steps(self) -> tuple[Step, ...]:
        return (Step.JSON_SCHEMA, Step.JSON_OBJECT, Step.PROMPT)

    def headers(self, ask: ChatRequest) -> Mapping[str, str]:
        del ask
        return {}

    def body(self, ask: ChatRequest) -> dict[str, Any]:
        params = ask.params
        body: CompletionCreateParamsStreaming = {
            "model": ask.model,
            "messages": [_message(turn) for turn in turns(ask)],
            "stream": True,
            # otherwise most servers do not report the usage of a streamed reply
            "stream_options": {"include_usage": True},
            "temperature": params.temperature,
            "top_p": params.top_p,
            # some servers have efforts that OpenAI does not have
            "reasoning_effort": cast("ReasoningEffort", params.reasoning_effort),
            # only if a person asked for one: some servers refuse it, and most ignore it
            "seed": None if params.seed is None else ask.seed,
        }
        response_format = _response_format(ask)
        if response_format is not None:
            body["response_format"] = response_format
        if ask.cache is not None and ask.first_party:
            # routes the requests of a conversation to the machine that has cached its beginning
            body["prompt_cache_key"] = f"crosswind-{ask.seed:x}"
        limit = _limit_name(ask)
        if limit is not None:
            body[limit] = params.max_tokens
        return {
            name: value for name, value in body.items() if value is not None and ask.takes(name)
        }

    def sent(self, body: Mapping[str, Any]) -> frozenset[str]:
        return frozenset(body)

    def parser(self) -> OpenAIReplyParser:
        return OpenAIReplyParser()


def _message(turn: MessageGroup) -> ChatCompletionMessageParam:
    match turn.role:
        case MessageRole.SYSTEM:
            return {"role": "system", "content": turn.text}
        case MessageRole.USER:
            return {"role": "user", "content": turn.text}
        case MessageRole.ASSISTANT:
            return {"role": "assistant", "content": turn.text}


def _limit_name(ask: ChatRequest) -> Literal["max_tokens", "max_completion_tokens"] | None:
    """Return the name of the limit: OpenAI has renamed it and refuses the old name for new models,
    while compatible servers mostly know the old one."""
    old, new = ask.takes("max_tokens"), ask.takes("max_completion_tokens")
    if new and (ask.first_party or not old):
        return "max_completion_tokens"
    return "max_tokens" if old else None


def _response_format(ask: ChatRequest) -> ResponseFormat | None:
    if ask.schema is None or ask.learned.step is Step.PROMPT:
        return None
    if ask.learned.step is Step.JSON_OBJECT:
        return {"type": "json_object"}
    # OpenAI allows letters, digits, _ and -, up to 64 of them
    name = re.sub(r"[^A-Za-z0-9_-]", "_", str(ask.schema.get("title", "")))[:64] or "answer"
    bounded = ask.first_party and not ask.model.startswith(_FINE_TUNED) and ask.takes(BOUNDS)
    schema = strict_schema(ask.schema, bounded=bounded)
    return {
        "type": "json_schema",
        "json_schema": {"name": name, "strict": True, "schema": schema},
    }


def strict_schema(schema: JsonSchema, *, bounded: bool = False) -> dict[str, Any]:
    """Return the schema in the strict subset: all keys required, no others, no defaults; counts and
    ranges only if `bounded`."""
    untaken = _NEVER_TAKEN if bounded else _NEVER_TAKEN | _COUNTS_AND_RANGES
    inner = partial(strict_schema, bounded=bounded)
    strict = schema_without(schema, lambda name, _value: name not in untaken, inner)
    if isinstance(strict.get("properties"), dict):
        strict["required"] = list(strict["properties"])
    return strict


class OpenAIReplyParser:
    """Parses a stream of chunks."""

    __slots__ = ("_refused", "ended", "finish", "named", "provider", "thoughts", "tokens")

    def __init__(self) -> None:
        self.tokens = Tokens()
        self.finish: Finish | None = None
        self.ended = False
        self.thoughts: list[str] = []
        self.named = ServedNames()
        self.provider: str | None = None
        self._refused = False

    @property
    def whole(self) -> bool:
        return self.finish is not None

    def feed(self, data: str) -> str | None:
        if data == "[DONE]":
            self.ended = True
            return None
        event = parsed(data)
        # the status 200 was sent long ago, so an error is an event, in each server's own format
        if event.get("error") or event.get("object") == "error" or event.get("type") == "error":
            raise InStreamError(failure_in(event, Cause.IN_STREAM))
        self.named.add(event.get("model"))
        provider = event.get("provider")
        if self.provider is None and isinstance(provider, str) and provider:
            self.provider = one_line(provider, LONGEST_NAME)
        tier = event.get("service_tier")
        if isinstance(tier, str):
            self.tokens.tier = tier
        usage = event.get("usage")
        if isinstance(usage, dict):
            self._count(usage)
        choices = event.get("choices")
        # the last chunk of a stream with `include_usage` has no choices, but the usage
        if not isinstance(choices, list) or not choices or not isinstance(choices[0], dict):
            return None
        choice = choices[0]
        delta = choice.get("delta")
        text = self._text_of(delta) if isinstance(delta, dict) else None
        reason = choice.get("finish_reason")
        if isinstance(reason, str) and reason:
            self._end(reason)
            # an end advances the reply even without text
            return text or ""
        return text

    def _text_of(self, delta: dict[str, Any]) -> str | None:
        content = delta.get("content")
        if isinstance(content, str) and content:
            return content
        refusal = delta.get("refusal")
        if isinstance(refusal, str) and refusal:
            self._refused = True
            return refusal
        # DeepSeek's and others' name; OpenRouter calls it `reasoning`
        thought = delta.get("reasoning_content") or delta.get("reasoning")
        if isinstance(thought, str):
            self.thoughts.append(thought)
            return ""
        return self._text_of_parts(content) if isinstance(content, list) else None

    def _text_of_parts(self, parts: list[Any]) -> str:
        """Join typed parts, as some servers send them, reasoning among them."""
        text = ""
        for part in parts:
            if not isinstance(part, dict):
                continue
            if part.get("type") == "thinking":
                inner = part.get("thinking")
                self.thoughts.append(
                    self._text_of_parts(inner) if isinstance(inner, list) else str(inner)
                )
            elif isinstance(part.get("text"), str):
                text += part["text"]
        return text

    def _end(self, reason: str) -> None:
        reason = reason.lower()
        if reason in _NO_FINISH:
            raise InStreamError(Failure(Cause.IN_STREAM, f"it gave up: {reason}"))
        finish = _FINISHES.get(reason, Finish.STOP)
        self.finish = Finish.REFUSAL if self._refused and finish is Finish.STOP else finish

    def _count(self, usage: dict[str, Any]) -> None:
        tokens = self.tokens
        tokens.cost_usd = _cost(usage)
        tokens.input = count(usage.get("prompt_tokens"))
        tokens.output = count(usage.get("completion_tokens"))
        total = count(usage.get("total_tokens"))
        if tokens.input is not None and tokens.output is not None and total is not None:
            # some leave reasoning out of the completion, but all include it in the total
            tokens.output = max(tokens.output, total - tokens.input)
        details = usage.get("prompt_tokens_details")
        if isinstance(details, dict):
            tokens.cached = count(details.get("cached_tokens"))
            tokens.cache_written = count(details.get("cache_write_tokens"))
        if tokens.cached is None:
            # DeepSeek's name
            tokens.cached = count(usage.get("prompt_cache_hit_tokens"))


def _cost(usage: Mapping[str, Any]) -> float | None:
    """Return the cost of the request in US dollars, if a gateway or provider reports it."""
    reported = usage.get("cost")
    if isinstance(reported, Mapping):
        reported = reported.get("total_cost")
    cost = amount(usage.get("estimated_cost") if reported is None else reported)
    details = usage.get("cost_details")
    if cost is None or usage.get("is_byok") is not True or not isinstance(details, Mapping):
        return cost
    # a gateway that uses a person's own key reports its fee, and separately the provider's cost
    return amount(cost + (amount(details.get("upstream_inference_cost")) or 0.0))
