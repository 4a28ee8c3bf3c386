"""One HTTP request as it came over the wire, and what the server has to know of it."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cached_property
from typing import Any, Final

from engine.benchmark import Role
from engine.providers.model import JsonSchema, Message, MessageRole

CHAT_PATH: Final = "/v1/chat/completions"
MESSAGES_PATH: Final = "/v1/messages"
RESPONSES_PATH: Final = "/v1/responses"
MODELS_PATH: Final = "/v1/models"


class Dialect(StrEnum):
    """Which of the two protocols a request speaks."""

    OPENAI = "openai"
    ANTHROPIC = "anthropic"
    RESPONSES = "responses"


_SHAPES: Final[Mapping[frozenset[str], str]] = {
    frozenset({"metrics"}): "metrics",
    frozenset({"scenarios"}): "scenarios",
    frozenset({"persona", "landmarks"}): "variant",
    frozenset({"thought", "message", "done"}): "user_turn",
    frozenset({"evidence", "reasoning", "marks", "present"}): "judgement",
    frozenset({"guesses"}): "group_guesses",
    frozenset({"landmarks"}): "landmark_marks",
}
"""The shapes that the engine asks for, by their keys: a title may get lost on the way here."""

_ROLE_OF_SHAPE: Final[Mapping[str, Role]] = {
    "metrics": Role.GENERATOR,
    "scenarios": Role.GENERATOR,
    "variant": Role.GENERATOR,
    "user_turn": Role.USER,
    "judgement": Role.EVALUATOR,
    "group_guesses": Role.CHECKER,
    "landmark_marks": Role.CHECKER,
}


@dataclass(frozen=True)
class Request:
    """A request that was received whole."""

    method: str
    path: str
    """Without the query."""
    headers: Mapping[str, str]
    """Names in lower case."""
    raw: bytes = field(repr=False)
    """The body as it came."""

    @cached_property
    def body(self) -> dict[str, Any]:
        """The body as a JSON object; empty where it is none."""
        try:
            value = json.loads(self.raw) if self.raw else {}
        except ValueError:
            return {}
        return value if isinstance(value, dict) else {}

    @cached_property
    def dialect(self) -> Dialect:
        if self.path == CHAT_PATH:
            return Dialect.OPENAI
        if self.path == RESPONSES_PATH:
            return Dialect.RESPONSES
        named = self.path == MESSAGES_PATH or "anthropic-version" in self.headers
        return Dialect.ANTHROPIC if named else Dialect.OPENAI

    @property
    def asks_a_model(self) -> bool:
        return self.method == "POST" and self.path in {*(CHAT_PATH, MESSAGES_PATH, RESPONSES_PATH)}

    @property
    def key(self) -> str | None:
        """The API key it came with."""
        scheme, _, token = self.headers.get("authorization", "").partition(" ")
        if scheme.lower() == "bearer" and token:
            return token
        own = self.headers.get("x-api-key") if self.dialect is Dialect.ANTHROPIC else None
        return own or self.headers.get("api-key") or None

    @property
    def model(self) -> str:
        return str(self.body.get("model", ""))

    @property
    def streams(self) -> bool:
        return self.body.get("stream") is True

    @cached_property
    def messages(self) -> tuple[Message, ...]:
        """What was said, the system's part first; a message without text says nothing."""
        system = text_of(self.body.get("system"))
        said = [Message(MessageRole.SYSTEM, system)] if system else []
        for message in _dicts(self.body.get("messages", self.body.get("input"))):
            speaks = _SPEAKS.get(str(message.get("role")), MessageRole.USER)
            said.append(Message(speaks, text_of(message.get("content"))))
        return tuple(said)

    @property
    def in_midst(self) -> bool:
        """Whether something was answered before in this conversation."""
        return any(message.role is MessageRole.ASSISTANT for message in self.messages)

    @cached_property
    def response_format(self) -> str | None:
        """`json_schema` or `json_object`, where the request asks for it; None where it does not."""
        asked = self._format.get("type")
        return str(asked) if asked in {"json_schema", "json_object"} else None

    @cached_property
    def schema(self) -> JsonSchema | None:
        """The shape that the answer must have, under the title by which scripted models know it.

        A client that must do without structured output writes the schema into a message instead,
        and a real model would follow it there.
        """
        wrapped = self._format.get("json_schema", self._format)
        if isinstance(wrapped, dict) and isinstance(wrapped.get("schema"), dict):
            return _titled(wrapped["schema"], wrapped.get("name"))
        if self.response_format == "json_object" or _role_of_name(self.model) is not Role.TARGET:
            return next((_titled(found, None) for found in self._schemas_in_text()), None)
        return None

    @cached_property
    def role(self) -> Role:
        """Which role the model plays here, as far as a provider could guess."""
        by_name = _role_of_name(self.model)
        if by_name is not Role.TARGET or self.schema is None:
            return by_name
        return _ROLE_OF_SHAPE.get(str(self.schema.get("title")), Role.TARGET)

    @property
    def _format(self) -> dict[str, Any]:
        config = self.body.get("output_config", self.body.get("text"))
        asked = (
            config.get("format") if isinstance(config, dict) else self.body.get("response_format")
        )
        return asked if isinstance(asked, dict) else {}

    def _schemas_in_text(self) -> Iterator[dict[str, Any]]:
        decode = json.JSONDecoder().raw_decode
        for message in self.messages:
            if '"properties"' not in message.text:
                continue
            start = message.text.find("{")
            while start >= 0:
                try:
                    value, end = decode(message.text, start)
                except ValueError:
                    end = start + 1
                else:
                    if isinstance(value, dict) and "properties" in value:
                        yield value
                start = message.text.find("{", end)


_SPEAKS: Final[Mapping[str, MessageRole]] = {
    "system": MessageRole.SYSTEM,
    "developer": MessageRole.SYSTEM,
    "user": MessageRole.USER,
    "assistant": MessageRole.ASSISTANT,
}


def text_of(content: object) -> str:
    """The text of a message's content: a string, or a list of text blocks."""
    if isinstance(content, str):
        return content
    return "".join(str(block["text"]) for block in _dicts(content) if "text" in block)


def _dicts(value: object) -> list[dict[str, Any]]:
    return [one for one in value if isinstance(one, dict)] if isinstance(value, list) else []


def _titled(schema: dict[str, Any], name: object) -> JsonSchema:
    known = _SHAPES.get(frozenset(schema.get("properties", {})))
    return {**schema, "title": known or schema.get("title") or name or "answer"}


def _role_of_name(model: str) -> Role:
    spoken = model.partition("-")[0]
    return Role(spoken) if spoken in {"user", "evaluator", "generator"} else Role.TARGET
