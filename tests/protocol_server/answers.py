"""What the models behind the server answer: scripted ones, an echo, and so and so many words."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import pairwise
from typing import Any, Final

from engine.identity import seed_from
from engine.providers.model import Finish, JsonSchema, MessageRole
from engine.providers.scripted.models import OFFLINE_MODELS, offline_model
from engine.providers.scripted.request import SeededChoices
from tests.protocol_server.request import Request
from tests.protocol_server.settings import Settings

_PIECE: Final = re.compile(r"\s*\S+(?:\s+\Z)?|\s+\Z")
_COUNTED: Final = re.compile(r"words-([1-9]\d{0,6})")
_LISTED: Final = ("echo", "words-20", *sorted(OFFLINE_MODELS))


@dataclass(frozen=True, slots=True)
class Tokens:
    """What an answer is billed for; a token is a word."""

    input: int = 0
    output: int = 0
    cost: float | None = None
    """As the answer says it; None says nothing."""


@dataclass(frozen=True, slots=True)
class Answer:
    """A whole answer, and the pieces in which it is streamed."""

    pieces: tuple[str, ...]
    finish: Finish
    tokens: Tokens

    @property
    def text(self) -> str:
        return "".join(self.pieces)


@dataclass(frozen=True, slots=True)
class Rejection:
    """An answer with an error status, before either protocol has put it into its own shape."""

    status: int
    message: str
    param: str | None = None
    code: str | None = None
    headers: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Script:
    """A stream, event by event: all that may come before, between and after what is said."""

    opening: tuple[bytes, ...]
    pieces: tuple[bytes, ...]
    """One event for each piece of the answer."""
    closing: tuple[bytes, ...]
    """With the finish marker; a stream without it is not whole."""


def encoded(value: Mapping[str, Any]) -> bytes:
    return json.dumps(value, separators=(",", ":")).encode()


def encoded_text(text: str) -> bytes:
    return json.dumps(text).encode()


def models_listed(aliases: Mapping[str, str]) -> tuple[str, ...]:
    return (*_LISTED, *aliases)


def is_known(model: str) -> bool:
    return model == "echo" or model in OFFLINE_MODELS or _COUNTED.fullmatch(model) is not None


def token_count(text: str) -> int:
    return len(text.split())


async def answer_to(request: Request, model: str, settings: Settings) -> Answer:
    """What `model` answers, cut off where the request's limit on tokens is reached."""
    given = settings.says(request)
    text = await _text(request, model) if given is None else given
    pieces = pieces_of(text, None)
    limit = _limit(request.body)
    finish = Finish.STOP
    if limit is not None and len(pieces) > limit:
        pieces = pieces[:limit]
        finish = Finish.LENGTH
    read = sum(token_count(message.text) for message in request.messages)
    billed = Tokens(read, max(1, len(pieces)), settings.cost)
    if settings.chunks is not None:
        pieces = pieces_of("".join(pieces), settings.chunks)
    return Answer(pieces, finish, billed)


@lru_cache(maxsize=256)
def pieces_of(text: str, chunks: int | None) -> tuple[str, ...]:
    """The text word by word, or in so many parts of much the same length."""
    if chunks is None:
        return tuple(_PIECE.findall(text))
    edges = [round(part * len(text) / chunks) for part in range(chunks + 1)]
    cut = (text[start:end] for start, end in pairwise(edges))
    return tuple(piece for piece in cut if piece)


async def _text(request: Request, model: str) -> str:
    if model in OFFLINE_MODELS:
        seed = request.body.get("seed")
        if not isinstance(seed, int):
            said = (message.text.encode(errors="replace").hex() for message in request.messages)
            seed = seed_from(*said)
        reply = await offline_model(model, pace="instant").reply(
            request.messages, schema=request.schema, seed=seed
        )
        return reply.text
    counted = _COUNTED.fullmatch(model)
    text = _words(int(counted.group(1))) if counted else _last_said(request)
    if request.schema is not None:
        return json.dumps(example_value(request.schema, SeededChoices(text)))
    return json.dumps({"answer": text}) if request.response_format == "json_object" else text


def _last_said(request: Request) -> str:
    users = (m.text for m in reversed(request.messages) if m.role is MessageRole.USER)
    return next(users, "")


@lru_cache(maxsize=16)
def _words(count: int) -> str:
    kinds = ("one", "word", "and", "then", "the", "next", "until", "all", "are", "said")
    return " ".join(kinds[number % len(kinds)] for number in range(count))


def _limit(body: Mapping[str, Any]) -> int | None:
    names = ("max_completion_tokens", "max_tokens", "max_output_tokens")
    limits = map(body.get, names)
    return next((limit for limit in limits if isinstance(limit, int)), None)


_WORDS: Final = ("a plain answer", "something to look at again", "the part that matters", "a start")


def example_value(schema: Mapping[str, Any], draw: SeededChoices, root: Any = None) -> Any:
    """A value of the shape, out of the keywords with which the engine writes its own."""
    root = root or schema
    if "$ref" in schema:
        name = schema["$ref"].removeprefix("#/$defs/")
        return example_value(root["$defs"][name], draw, root)
    if schema.get("enum"):
        return draw.pick(schema["enum"])
    if schema.get("anyOf"):
        return example_value(schema["anyOf"][0], draw, root)
    match schema.get("type"):
        case "object":
            fields: Mapping[str, Any] = schema.get("properties", {})
            wanted = schema.get("required", fields)
            return {name: example_value(fields.get(name, {}), draw, root) for name in wanted}
        case "array":
            return [
                example_value(schema["items"], draw, root) for _ in range(schema.get("minItems", 1))
            ]
        case "string":
            return draw.pick(_WORDS)
        case "integer" | "number":
            return schema.get("minimum", 1)
        case "boolean":
            return draw.chance(0.5)
        case _:
            return "an answer"


def other_shape(schema: JsonSchema) -> str:
    """JSON that is valid and fits no schema that asks for anything."""
    keys = ", ".join(schema.get("properties", {}))
    return json.dumps({"something_else": [1, 2, 3], "instead_of": keys})
