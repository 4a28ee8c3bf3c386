"""The interface of every model: messages in, a reply out. Independent of any provider."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from functools import wraps
from typing import Any, Concatenate, Final, ParamSpec, Protocol, Self, TypeVar

from engine.benchmark import Usage

JsonSchema = Mapping[str, Any]
"""A JSON schema in the subset of structured output; its `title` names the shape."""

_P = ParamSpec("_P")
_R = TypeVar("_R")
_MOST_SCHEMAS: Final = 256


def once_per_schema(
    compute: Callable[Concatenate[JsonSchema, _P], _R],
) -> Callable[Concatenate[JsonSchema, _P], _R]:
    """Keep what is computed from a schema, of which nobody changes either: each call has one of a
    few."""
    # by identity, with the schema itself, so that no other takes its place
    known: dict[tuple[object, ...], tuple[JsonSchema, _R]] = {}

    @wraps(compute)
    def kept(schema: JsonSchema, /, *args: _P.args, **kwargs: _P.kwargs) -> _R:
        found = known.get(key := (id(schema), *args, *kwargs.items()))
        if found is None:
            if len(known) >= _MOST_SCHEMAS:
                known.clear()
            found = known[key] = schema, compute(schema, *args, **kwargs)
        return found[1]

    return kept


OnText = Callable[[str | None], None]
"""Called with each piece of the reply as it arrives, and with None if the pieces so far are void
because the reply starts again. Must not block."""


class MessageRole(StrEnum):
    """The author of a message in a request, in the words of the chat protocols."""

    SYSTEM = "system"
    USER = "user"
    ASSISTANT = "assistant"


@dataclass(frozen=True, slots=True)
class Message:
    """A message of a request."""

    role: MessageRole
    text: str
    reasoning: str | None = None
    """What the model thought before it said this; sent only to a model that wants it back."""


class Finish(StrEnum):
    """How a reply ended."""

    STOP = "stop"
    LENGTH = "length"
    REFUSAL = "refusal"
    CONTENT_FILTER = "content_filter"
    CONTEXT_FULL = "context_full"


@dataclass(frozen=True, slots=True)
class Reply:
    """A complete answer. A stream that breaks off is an error, never a reply."""

    text: str
    finish: Finish
    usage: Usage
    """The usage of this call alone: `calls` is 1."""
    reasoning: str | None = None
    """The model's reasoning before its answer; not part of the answer, and sent to nobody."""
    served_by: str | None = None
    """The model that answered, if it is not the one that was asked."""
    session: str | None = None
    """The other side's name for the conversation, if it gives one."""
    limit: str | None = None
    """The limit that cut it, in words; None if it was not cut, or the limit is not known."""


@dataclass(frozen=True, slots=True)
class Attempt:
    """A request that was sent for a reply, whether or not it got one."""

    outcome: str
    """`answer`, or the class of the failure."""
    status: int | None
    """The HTTP status; None if there was no response."""
    duration_ms: int
    first_token_ms: int | None
    usage: Usage
    """What the provider reported; a failed attempt may be billed, too."""
    detail: str | None
    """What went wrong, redacted."""
    served: str | None = None
    """The model that answered, as the server says; None if it does not."""
    is_other: bool = False
    """Whether that is not the model that was asked."""
    route: str | None = None
    """What a gateway says about the route."""
    cost_reported: bool = False
    """Whether the provider reported the cost; otherwise it is computed from prices."""
    left_out: tuple[str, ...] = ()
    """Parameters that were not sent, as the server had refused them."""
    call: str | None = None
    """Our name for it in its batch; None if it was not made in one."""
    printed: tuple[str, ...] = ()
    """Lines that a function of the workspace printed besides its reply, redacted."""


OnAttempt = Callable[[Attempt], None]


class Model(Protocol):
    """A language model, or a script in place of one."""

    @property
    def label(self) -> str:
        """The name that people see on screens and in files, such as `gpt-x` or
        `offline:steadfast`."""
        ...

    @property
    def scripted(self) -> bool:
        """Whether this is a script, which every screen and file says."""
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

        `seed` distinguishes independent samples: a model that can be seeded gives the same answer
        for the same messages and seed. `on_text` receives the raw text, JSON included.

        Raises `engine.errors.ModelError`.
        """
        ...


Reserve = Callable[[float | None], Awaitable[None]]
"""Called before a call is put into a batch, with None, or when it turns out to be in one of an
earlier run, with the most that it may cost there, in US dollars."""


@dataclass(frozen=True, slots=True)
class BatchWork:
    """What a reply is for that may be asked for in a batch."""

    name: str
    """The same after a restart."""
    most_usd: float
    """The most that it may cost."""
    reserve: Reserve
    """Waits until it may be submitted."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportingModel:
    """A model that reports each request it sends, of which one reply may take several, and that
    knows which conversation they belong to."""

    on_attempt: OnAttempt | None = field(default=None, repr=False)
    session: str = ""
    """The conversation; unique, and empty for a single call."""
    work: BatchWork | None = None
    """What its calls are for, if they are to be made in batches."""

    def telling(self, on_attempt: OnAttempt) -> Self:
        """Return the model with a listener that is called for every request it sends."""
        return replace(self, on_attempt=on_attempt)

    def batched(self, work: BatchWork) -> Self:
        """Return the model for calls in batches."""
        return replace(self, work=work)

    def in_session(self, session: str) -> Self:
        """Return the model for requests of this conversation."""
        return replace(self, session=session)
