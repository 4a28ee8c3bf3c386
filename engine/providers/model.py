"""What the engine asks of a model: messages in, a reply out. Nothing else here knows a provider."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Protocol

from engine.benchmark import Usage

JsonSchema = Mapping[str, Any]
"""A JSON schema of the subset that structured output takes; its `title` names the shape."""

OnText = Callable[[str | None], None]
"""Called with each piece of the reply as it arrives, and with None where what was heard so far is
void because the reply begins anew. Never awaited, must not block."""


class Speaks(StrEnum):
    """Whose message it is in a request, in the words of the chat protocols."""

    SYSTEM = "system"
    USER = "user"
    ASSISTANT = "assistant"


@dataclass(frozen=True, slots=True)
class Message:
    """One message of a request."""

    role: Speaks
    text: str


class Finish(StrEnum):
    """How a reply came to its end."""

    STOP = "stop"
    LENGTH = "length"
    REFUSAL = "refusal"
    CONTENT_FILTER = "content_filter"
    CONTEXT_FULL = "context_full"


@dataclass(frozen=True, slots=True)
class Reply:
    """A whole answer. A stream that broke off is an error, never a reply."""

    text: str
    finish: Finish
    usage: Usage
    """Of this call alone: `calls` is 1."""


class Model(Protocol):
    """A language model, or a scripted one that stands in for it."""

    @property
    def label(self) -> str:
        """What people call it on screens and in files, such as `gpt-x` or `offline:steadfast`."""
        ...

    @property
    def scripted(self) -> bool:
        """Whether this is a script and not a language model. Every screen and file says so."""
        ...

    async def reply(
        self,
        messages: Sequence[Message],
        *,
        schema: JsonSchema | None = None,
        seed: int = 0,
        on_text: OnText | None = None,
    ) -> Reply:
        """Answer the messages; with `schema`, in JSON of that shape.

        `seed` tells independent draws apart: the same messages and seed get the same answer from
        a model that can be seeded. `on_text` is given the raw text, JSON included.

        Raises `engine.errors.ModelError`.
        """
        ...
