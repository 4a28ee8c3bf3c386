"""The chat completions protocol of OpenAI, which most servers speak. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, Final, Literal, cast

from engine.display import one_line
from engine.providers.attempts import Meaning, failure_in, is_error, meaning_of_end
from engine.providers.capabilities import BARE_REPLIES, BOUNDS, FOLDED_SYSTEM, REASONING, Step
from engine.providers.failures import Cause, Failure
from engine.providers.model import Finish, JsonSchema, MessageRole, once_per_schema
from engine.providers.protocols.base import (
    COUNTS,
    FINISHES,
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
    schema_without,
    spoken_turns,
    tool_words,
)
from engine.providers.served_model import LONGEST_NAME, amount

if TYPE_CHECKING:  # types only, as importing the client is slow
    from openai.types import ReasoningEffort
    from openai.types.chat import (
        ChatCompletionAssistantMessageParam,
        ChatCompletionMessageParam,
    )
    from openai.types.chat.completion_create_params import (
        CompletionCreateParamsStreaming,
        ResponseFormat,
    )

_GROWN: Final = 3
_GROWN_TO: Final = 12
"""Pieces that each contain the one before, and characters of the last, from which on that is no
chance."""
_OLLAMA: Final = "fp_ollama"
"""What Ollama writes into each event. It marks the end even if its runner has died in a reply."""

_FINE_TUNED: Final = "ft:"
"""Prefix of fine-tuned models, which according to OpenAI accept no counts and ranges in a
schema."""
_NEVER_TAKEN: Final = frozenset({"default", "minLength", "maxLength"})
_RANGES: Final = frozenset(
    {"minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"}
)
"""OpenAI documents that it accepts these. Elsewhere they slow grammars down, and the answer is
checked against them anyway."""


class OpenAIDialect(Dialect):
    """The chat completions protocol."""

    def body(self, ask: ChatRequest) -> dict[str, Any]:
        params = ask.params
        body: CompletionCreateParamsStreaming = {
            "model": ask.model,
            "messages": _messages(ask),
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
        if (form := response_format(ask)) is not None:
            body["response_format"] = form
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
        roles = {message["role"] for message in body["messages"]}
        names = {FOLDED_SYSTEM} & roles
        names |= {BOUNDS} if has_counts(body.get("response_format")) else set()
        if MessageRole.ASSISTANT in roles:
            thinks = any(REASONING in message for message in body["messages"])
            names.add(REASONING if thinks else BARE_REPLIES)
        return frozenset(body) | names

    def parser(self) -> OpenAIReplyParser:
        return OpenAIReplyParser()


def _messages(ask: ChatRequest) -> list[ChatCompletionMessageParam]:
    messages: list[ChatCompletionMessageParam] = []
    for turn in spoken_turns(ask):
        match turn.role:
            case MessageRole.SYSTEM:
                messages.append({"role": "system", "content": turn.text})
            case MessageRole.USER:
                messages.append({"role": "user", "content": turn.text})
            case MessageRole.ASSISTANT:
                reply: ChatCompletionAssistantMessageParam = {
                    "role": "assistant",
                    "content": turn.text,
                }
                if not ask.takes(BARE_REPLIES) and ask.takes(REASONING):
                    # a name of others, which the official types do not have
                    reply[REASONING] = turn.reasoning  # type: ignore[typeddict-unknown-key]
                messages.append(reply)
    return messages


def _limit_name(ask: ChatRequest) -> Literal["max_tokens", "max_completion_tokens"] | None:
    """Return the name of the limit: OpenAI has renamed it and refuses the old name for new models,
    while compatible servers mostly know the old one."""
    old, new = ask.takes("max_tokens"), ask.takes("max_completion_tokens")
    if new and (ask.first_party or not old):
        return "max_completion_tokens"
    return "max_tokens" if old else None


def response_format(ask: ChatRequest) -> ResponseFormat | None:
    """Return the form of answer that the server is asked to enforce; None for none."""
    if ask.schema is None or ask.learned.step is Step.PROMPT:
        return None
    if ask.learned.step is Step.JSON_OBJECT:
        return {"type": "json_object"}
    # OpenAI allows letters, digits, _ and -, up to 64 of them
    name = re.sub(r"[^A-Za-z0-9_-]", "_", str(ask.schema.get("title", "")))[:64] or "answer"
    untaken = _NEVER_TAKEN
    if not ask.first_party:
        untaken |= _RANGES
    if ask.model.startswith(_FINE_TUNED) or not ask.takes(BOUNDS):
        untaken |= _RANGES | COUNTS
    schema = _kept_strict_schema(ask.schema, untaken)
    return {
        "type": "json_schema",
        "json_schema": {"name": name, "strict": True, "schema": schema},
    }


def strict_schema(schema: JsonSchema, untaken: frozenset[str]) -> dict[str, Any]:
    """Return the schema in the strict subset, without the `untaken` keywords: all keys required, no
    others."""
    inner = partial(strict_schema, untaken=untaken)
    strict = schema_without(schema, lambda name, _value: name not in untaken, inner)
    if isinstance(strict.get("properties"), dict):
        strict["required"] = list(strict["properties"])
    return strict


_kept_strict_schema: Final = once_per_schema(strict_schema)


class OpenAIReplyParser(ReplyParser):
    """Parses a stream of chunks."""

    __slots__ = (
        *(
            "_before",
            "_chosen",
            "_delta",
            "_model",
            "_explains",
            "_grown",
            "_refused",
            "_spoke",
            "_sure",
        ),
    )

    def __init__(self) -> None:
        super().__init__()
        self._sure = False
        self._refused = False
        self._spoke = False
        """Whether there was text or reasoning."""
        self._chosen: bool | None = None
        """Whether there was a choice; None if no list of choices came either."""
        self._model: object = None
        """The name in the event before, which is nearly always the same."""
        self._delta = "delta"
        """The key under which the pieces stand."""
        self._explains = False
        """Whether it always gives a reason, so that without one its reply is not complete."""
        self._before: str | None = ""
        """The piece before, as long as each piece began with the one before it."""
        self._grown = 0
        """How many did, and were longer."""

    @property
    def whole(self) -> bool:
        return self.finish is not None

    @property
    def closing(self) -> bool:
        # some servers give a reason before the first word, which may take minutes
        return self.finish is not None and (self._spoke or self.settled)

    @property
    def sure(self) -> bool:
        return self._sure

    def feed(self, data: str) -> str | None:
        if not data.startswith("{") and is_end_mark(data):
            self._end_without_reason()
            return None
        event = parsed(data)
        choices = event.get("choices")
        # the last chunk of a stream with `include_usage` has no choices, but the usage
        if not choices or "error" in event:
            self._look_beside_choices(event)
        model = event.get("model")
        if model != self._model:
            self._model = model
            self.named.add(model)
        usage = event.get("usage")
        if isinstance(usage, dict):
            self._count(usage)
        if not isinstance(choices, list) or not choices or not isinstance(choices[0], dict):
            return None
        if not self._chosen:
            self._first_choice(event)
        choice = choices[0]
        if choice.get("index"):
            return None  # of a second reply, which nobody asked for
        delta = choice.get(self._delta)
        if delta is None and self._before == "" and "message" in choice:
            # nothing was said so far: a document, or a server that sends pieces as messages
            self._delta, delta = "message", choice["message"]
        text = self._text_of(delta) if isinstance(delta, dict) else None
        if self.finish is not None and text is not None:
            self.settled = self._sure = False
            self.oddity = "gives a reason to end before its reply ends"
        reason = choice.get("finish_reason")
        if reason and isinstance(reason, str):
            self._end(reason, bare=text is None)
        if text is not None:
            self._spoke = True
            return text
        # an end that counts advances the reply even without text
        return "" if reason and self.settled else None

    def _first_choice(self, event: dict[str, Any]) -> None:
        self._chosen = True
        self._explains = event.get("system_fingerprint") == _OLLAMA
        self._note_tier(event)
        provider = event.get("provider")
        if isinstance(provider, str) and provider:
            self.provider = one_line(provider, LONGEST_NAME)

    def _note_tier(self, event: dict[str, Any]) -> None:
        tier = event.get("service_tier")
        if isinstance(tier, str):
            self.tokens.tier = tier

    def _look_beside_choices(self, event: dict[str, Any]) -> None:
        """Handle an event that says nothing of the reply itself."""
        # the status 200 was sent long ago, so an error is an event, in each server's own format
        if is_error(event):
            raise InStreamError(failure_in(event, Cause.IN_STREAM))
        self._note_tier(event)
        if event.get("choices") == []:
            self._chosen = self._chosen or False
            # such as the usage, which comes last
            self.settled = self._sure = self.finish is not None

    def feed_document(self, data: str) -> str:
        event = document(data)
        choices = event.get("choices")
        if not isinstance(choices, list) or not any(isinstance(one, dict) for one in choices):
            raise no_reply(data)
        self.oddity = "answers in one document, and not in a stream"
        text = self.feed(data) or ""
        self._end_without_reason()
        return text

    def _end_without_reason(self) -> None:
        """Note the end of the stream, which some servers mark without a reason for it."""
        self.ended = True
        if self.finish is None and self._explains:
            return
        self._sure = True
        if self.finish is None and self._chosen is False:
            # Google's endpoint answers so if its filter strikes
            self.finish = Finish.CONTENT_FILTER
        elif self.finish is None:
            self.finish = Finish.REFUSAL if self._refused else Finish.STOP
            self.unexplained = True
            self.oddity = self.oddity or "ends its replies without a reason"

    def _text_of(self, delta: dict[str, Any]) -> str | None:
        content = delta.get("content")
        if isinstance(content, str) and content:
            return content if self._before is None else self._piece(content)
        refusal = delta.get("refusal")
        if isinstance(refusal, str) and refusal:
            self._refused = True
            return refusal
        # DeepSeek's and others' name; OpenRouter calls it `reasoning`
        thought = delta.get("reasoning_content") or delta.get("reasoning")
        if isinstance(thought, str):
            self.thoughts.append(thought)
            return ""
        if delta.get("tool_calls"):
            self._note_tools(delta["tool_calls"])
        return self._text_of_parts(content) if isinstance(content, list) else None

    def _piece(self, text: str) -> str:
        """Return a piece without what came before, if each piece so far contains all of those
        before it, as some servers send them; then the last is the whole reply."""
        before = self._before or ""
        if not before or (len(text) > len(before) and text.startswith(before)):
            self._before = text
            self._grown += bool(before)
            if self._grown < _GROWN or len(text) < _GROWN_TO:
                return text
            self.instead, self.oddity = text, "repeats its reply with each piece: the last counts"
            return text[len(before) :]
        if self.instead is not None and text != before:
            words = "its pieces repeat what came before them, and then differ from it"
            raise InStreamError(Failure(Cause.IN_STREAM, words))
        if self.instead is None:
            self._before = None
            return text
        return ""

    def _note_tools(self, calls: object) -> None:
        for call in calls if isinstance(calls, list) else []:
            function = call.get("function") if isinstance(call, dict) else None
            note_tool(self.tools, function.get("name") if isinstance(function, dict) else None)
        self.oddity = tool_words(self.tools)

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

    def _end(self, reason: str, *, bare: bool) -> None:
        """Take a reason to end; `bare` if it came without any text."""
        meaning = meaning_of_end(reason)
        if meaning is Meaning.GOES_ON:
            return
        if meaning is Meaning.BROKE_OFF:
            raise InStreamError(Failure(Cause.IN_STREAM, f"it gave up: {reason}"))
        is_first = self.finish is None
        if self.finish in {None, Finish.STOP}:
            self.finish = FINISHES.get(meaning, Finish.STOP)
        if bare or is_first:
            # before any words, or beside the first, a model that ends has hardly ended
            self.settled = self._spoke or bool(self.tools) or self.finish is not Finish.STOP
            self._sure = bare and self.settled
        if self._refused and self.finish is Finish.STOP:
            self.finish = Finish.REFUSAL

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
