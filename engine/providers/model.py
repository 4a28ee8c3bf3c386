"""What the engine asks of a model: messages in, a reply out. Nothing else here knows a provider."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Protocol, Self, runtime_checkable

from engine.benchmark import Usage

JsonSchema = Mapping[str, Any]
"""A JSON schema of the subset that structured output takes; its `title` names the shape."""

OnText = Callable[[str | None], None]
"""Called with each piece of the reply as it arrives, and with None where what was heard so far is
void because the reply begins anew. Never awaited, must not block."""


class MessageRole(StrEnum):
    """Whose message it is in a request, in the words of the chat protocols."""

    SYSTEM = "system"
    USER = "user"
    ASSISTANT = "assistant"


@dataclass(frozen=True, slots=True)
class Message:
    """One message of a request."""

    role: MessageRole
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
    reasoning: str | None = None
    """What the model thought aloud before it answered; no part of the answer, sent to nobody."""
    served_by: str | None = None
    """Another model than the one that was asked, which gave this reply; None where none did."""
    session: str | None = None
    """What the other side calls the conversation from now on; None where it does not say."""


@dataclass(frozen=True, slots=True)
class Attempt:
    """One request that was sent for a reply, whether it brought one or not."""

    outcome: str
    """`answer`, or the class of what went wrong."""
    status: int | None
    """Of HTTP; None where no answer came at all."""
    duration_ms: int
    first_token_ms: int | None
    usage: Usage
    """What the provider reported; tokens of a failed attempt may be billed all the same."""
    detail: str | None
    """What went wrong, in words that hold no key."""
    served: str | None = None
    """The model that the server says answered; None where it names none."""
    is_other: bool = False
    """Whether that is another one than was asked."""
    route: str | None = None
    """What a gateway said of the way there."""
    cost_reported: bool = False
    """Whether the cost is what the provider said, and not worked out here from prices."""
    printed: tuple[str, ...] = ()
    """Lines that a function of the workspace wrote beside its reply, with no key in them."""


OnAttempt = Callable[[Attempt], None]


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


@runtime_checkable
class TakesSession(Protocol):
    """A model that can be told which conversation a request belongs to."""

    def in_session(self, session: str) -> Self:
        """The same model, asked within this conversation, whose name no other has."""
        ...


@runtime_checkable
class TellsAttempts(Protocol):
    """A model that may need several requests for one reply, and tells of each."""

    def telling(self, on_attempt: OnAttempt) -> Self:
        """The same model, telling this listener of every request that it sends."""
        ...
