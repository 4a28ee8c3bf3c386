"""The messages protocol of Anthropic. Pure."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Final, Literal, cast

from engine.providers.attempts import failure_in, is_error, meaning_of_end
from engine.providers.capabilities import BOUNDS, Step
from engine.providers.failures import Cause
from engine.providers.model import Finish, JsonSchema, MessageRole
from engine.providers.protocols.base import (
    BREAK,
    COUNTS,
    FINISHES,
    ChatRequest,
    Dialect,
    InStreamError,
    MessageGroup,
    PromptCache,
    ReplyParser,
    count,
    document,
    has_counts,
    is_end_mark,
    no_reply,
    note_tool,
    parsed,
    schema_without,
    spoken_turns,
    tool_words,
)

if TYPE_CHECKING:  # types only, as importing the client is slow
    from anthropic.types import MessageParam, OutputConfigParam, TextBlockParam
    from anthropic.types.message_create_params import MessageCreateParamsStreaming

    Effort = Literal["low", "medium", "high", "xhigh", "max"]

VERSION: Final = "2026-10-21"
"""The protocol version that this module is written for."""
VERSION_WITH_SAMPLING: Final = "2023-06-01"
"""The newest version whose requests may have `temperature` and `top_p`."""
LIMIT_UNASKED: Final = 8192
"""The default limit of a reply in tokens, as this protocol requires one; all models of Anthropic
allow it. If another server has room for fewer and says so, that number is used."""
PAYS_FROM: Final = 4000
"""Characters of a prefix, about 1,000 tokens: the provider does not cache a shorter one."""

_UNTAKEN: Final = frozenset(
    {"minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf", "minLength"}
    | {"maxLength", "uniqueItems", "default", "pattern"}
    | COUNTS
)
"""Keywords of JSON schema that Anthropic refuses, except a `minItems` of 0 or 1. They are put into
the description, and the answer is checked against them here anyway."""


class AnthropicDialect(Dialect):
    """The messages protocol."""

    __slots__ = ()
    steps = (Step.JSON_SCHEMA, Step.PROMPT)

    def headers(self, ask: ChatRequest) -> Mapping[str, str]:
        return {"anthropic-version": VERSION_WITH_SAMPLING if _samples(ask) else VERSION}

    def body(self, ask: ChatRequest) -> dict[str, Any]:
        groups = spoken_turns(ask)
        system = BREAK.join(turn.text for turn in groups if turn.role is MessageRole.SYSTEM)
        output = _output_config(ask)
        params = ask.params
        body: MessageCreateParamsStreaming = {
            "model": ask.model,
            "max_tokens": _limit(ask),
            "messages": _messages(groups, ask, len(system)),
            "stream": True,
        }
        if system:
            body["system"] = system
        if output:
            body["output_config"] = output
        # the newest version does not have these, so an older one is used with them
        sampling = {"temperature": params.temperature, "top_p": params.top_p}
        asked = {name: value for name, value in sampling.items() if value is not None}
        return {
            name: value
            for name, value in {**body, **asked}.items()
            if name in {"max_tokens", "system"} or ask.takes(name)
        }

    def sent(self, body: Mapping[str, Any]) -> frozenset[str]:
        # a required limit cannot be left out, whatever a refusal says
        names = set(body) - {"max_tokens"}
        if "effort" in body.get("output_config", {}):
            names.add("reasoning_effort")
        if has_counts(body.get("output_config")):
            names.add(BOUNDS)
        if any(isinstance(row["content"], list) for row in body["messages"]):
            names.add("cache_control")
        return frozenset(names)

    def parser(self) -> AnthropicReplyParser:
        return AnthropicReplyParser()


def _limit(ask: ChatRequest) -> int:
    return ask.params.max_tokens or min(LIMIT_UNASKED, ask.learned.room or LIMIT_UNASKED)


def _samples(ask: ChatRequest) -> bool:
    asked = {"temperature": ask.params.temperature, "top_p": ask.params.top_p}
    return any(value is not None and ask.takes(name) for name, value in asked.items())


def _output_config(ask: ChatRequest) -> OutputConfigParam:
    config: OutputConfigParam = {}
    if ask.schema is not None and ask.learned.step is Step.JSON_SCHEMA:
        least = (0, 1) if ask.first_party else None
        schema = plain_schema(ask.schema, least if ask.takes(BOUNDS) else ())
        config["format"] = {"type": "json_schema", "schema": schema}
    if ask.params.reasoning_effort is not None and ask.takes("reasoning_effort"):
        config["effort"] = cast("Effort", ask.params.reasoning_effort)
    return config


def _messages(groups: Sequence[MessageGroup], ask: ChatRequest, before: int) -> list[MessageParam]:
    rows = [(turn.role, turn.texts) for turn in groups if turn.role is not MessageRole.SYSTEM]
    marked = _kept_place(rows, ask, before)
    params: list[MessageParam] = []
    for n, (role, texts) in enumerate(rows):
        content = _content(texts, marked[1] if n == marked[0] else None)
        if role is MessageRole.ASSISTANT:
            params.append({"role": "assistant", "content": content})
        else:
            params.append({"role": "user", "content": content})
    return params


def _kept_place(
    rows: Sequence[tuple[MessageRole, Sequence[str]]], ask: ChatRequest, before: int
) -> tuple[int, int | None]:
    """Return the message, and the text in it, up to which the provider should cache the request."""
    texts = [(n, m, len(text)) for n, (_, row) in enumerate(rows) for m, text in enumerate(row)]
    if ask.cache is PromptCache.HISTORY:
        # a mark after what changes each turn would write a cache that is never read
        texts = texts[:-1]
    long = before + sum(size for *_, size in texts) >= PAYS_FROM
    if ask.cache is None or not ask.takes("cache_control") or not texts or not long:
        return -1, None
    return texts[-1][0], texts[-1][1]


def _content(texts: Sequence[str], marked: int | None) -> str | list[TextBlockParam]:
    """Return one text; or two blocks if the first part is to be cached. The separator belongs to
    the second block, so that the first is the same when it comes again without it."""
    if marked is None:
        return BREAK.join(texts)
    blocks: list[TextBlockParam] = [
        {
            "type": "text",
            "text": BREAK.join(texts[: marked + 1]),
            "cache_control": {"type": "ephemeral"},
        }
    ]
    if texts[marked + 1 :]:
        blocks.append({"type": "text", "text": BREAK + BREAK.join(texts[marked + 1 :])})
    return blocks


def plain_schema(schema: JsonSchema, least: Collection[int] | None = ()) -> dict[str, Any]:
    """Return the schema without refused keywords; objects allow no additional keys. `least` are the
    values of `minItems` that are taken; None if all counts are."""

    def taken(name: str, value: object) -> bool:
        if name in COUNTS:
            return least is None or (name == "minItems" and value in least)
        return name not in _UNTAKEN

    plain = schema_without(schema, taken, partial(plain_schema, least=least))
    untaken = _UNTAKEN - {"default"} - plain.keys() & schema.keys()
    bounds = [f"{name}: {schema[name]}" for name in sorted(untaken)]
    if bounds:
        before = f"{schema['description']} " if "description" in schema else ""
        # a bound that the schema cannot enforce is described, and checked afterwards
        plain["description"] = f"{before}({', '.join(bounds)})"
    return plain


class AnthropicReplyParser(ReplyParser):
    """Parses a stream of message events."""

    __slots__ = ()

    def __init__(self) -> None:
        super().__init__()
        self.oddity = "ends its replies without `message_stop`"

    def feed(self, data: str) -> str | None:
        if is_end_mark(data):
            self.ended = self.finish is not None
            return None
        return self._event(parsed(data))

    def _event(self, event: Mapping[str, Any]) -> str | None:
        match event.get("type"):
            case "content_block_delta":
                # a reason to end that came before this was none
                self.settled = False
                return self._text_of(event.get("delta"))
            case "content_block_start":
                block = event.get("content_block")
                if not isinstance(block, dict):
                    return None
                if block.get("type") == "tool_use":
                    note_tool(self.tools, block.get("name"))
                text = block.get("text")
                return text if isinstance(text, str) and text else None
            case "message_start":
                message = event.get("message")
                if isinstance(message, dict):
                    self.named.add(message.get("model"))
                    self._count(message.get("usage"))
                return None
            case "message_delta":
                self._count(event.get("usage"))
                delta = event.get("delta")
                reason = delta.get("stop_reason") if isinstance(delta, dict) else None
                if isinstance(reason, str):
                    self.finish = FINISHES.get(meaning_of_end(reason), Finish.STOP)
                    self.settled = True
                return ""
            case "message_stop":
                self.ended = True
                self.unexplained = self.finish is None
                unnamed = "ends its replies without a `stop_reason`" if self.unexplained else None
                self.oddity = tool_words(self.tools) or unnamed
                return None
            case _:
                if is_error(event):
                    raise InStreamError(failure_in(event, Cause.IN_STREAM))
                return None

    def feed_document(self, data: str) -> str:
        event = document(data)
        blocks = event.get("content")
        if not isinstance(blocks, list):
            raise no_reply(data)
        text = "".join(self._text_of(block) or "" for block in blocks)
        self._event({"type": "message_start", "message": event})
        self._event({"type": "message_delta", "delta": event})
        self.ended, self.oddity = True, "answers in one document, and not in a stream"
        return text

    def _text_of(self, delta: object) -> str | None:
        if not isinstance(delta, dict):
            return None
        text = delta.get("text")
        if isinstance(text, str):
            return text
        thought = delta.get("thinking")
        if isinstance(thought, str):
            self.thoughts.append(thought)
        return ""

    def _count(self, usage: object) -> None:
        if not isinstance(usage, dict):
            return
        tokens = self.tokens
        fresh = count(usage.get("input_tokens"))
        if fresh is not None:
            tokens.cached = count(usage.get("cache_read_input_tokens"))
            tokens.cache_written = count(usage.get("cache_creation_input_tokens"))
            # `input_tokens` counts only tokens that were neither read from nor written to a cache
            tokens.input = fresh + (tokens.cached or 0) + (tokens.cache_written or 0)
        output = count(usage.get("output_tokens"))
        if output is not None:
            tokens.output = output
