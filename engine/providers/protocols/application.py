"""The protocol of any application that takes JSON: a template for requests, a path to the reply.
Pure."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Final

from engine.json_template import (
    FROM_COOKIES,
    FROM_HEADER,
    Placeholder,
    at_path,
    filled_template,
    placeholders,
    without_placeholder,
)
from engine.providers.attempts import failure_in
from engine.providers.capabilities import Step
from engine.providers.failures import Cause, Failure
from engine.providers.model import Finish, MessageRole
from engine.providers.protocols.base import (
    BREAK,
    ChatRequest,
    Dialect,
    InStreamError,
    MessageGroup,
    is_end_mark,
    parsed,
    turns,
)
from engine.providers.protocols.openai import OpenAIReplyParser

MOST: Final = 4_096
"""Characters of a session's name, which may be all cookies of a conversation."""
_MOST_KEYS: Final = 8
"""Keys of an answer that a message names."""


def requested_model(template: Mapping[str, Any], model: str) -> str | None:
    """The name of the model that requests from this template ask for; None if they name none. In
    a configuration, `model` is then only what the application is called."""
    if Placeholder.MODEL in placeholders(template):
        return model
    name = template.get("model")
    return name if isinstance(name, str) and "$" not in name else None


@dataclass(frozen=True, slots=True)
class ApplicationDialect(Dialect):
    """How one application is asked and parsed. The template of its requests is their `extra_body`,
    in which placeholders are filled."""

    reply: str | None
    """The path of the text in an answer that is a single document."""
    stream: str | None
    """The path of a piece of text in each event; None if no stream is expected."""
    keeps_session: bool = False
    """Whether it remembers the conversation, and so must get each message only once."""
    session_from: str | None = None
    """Where it gives its name for the conversation; the first message is then sent without one."""

    fills_template: ClassVar[bool] = True
    steps: ClassVar[tuple[Step, ...]] = (Step.PROMPT,)

    def headers(self, ask: ChatRequest) -> Mapping[str, str]:
        is_first = not any(message.role is MessageRole.ASSISTANT for message in ask.messages)
        if self.session_from != FROM_COOKIES or is_first:
            return {}
        return {"Cookie": ask.session}

    def body(self, ask: ChatRequest) -> dict[str, Any]:
        names = placeholders(ask.extra_body)
        groups = turns(ask)
        system = BREAK.join(group.text for group in groups if group.role is MessageRole.SYSTEM)
        sent = [group for group in groups if group.role is not MessageRole.SYSTEM]
        is_first = len(sent) == 1
        if self.keeps_session:
            sent = sent[-1:]
        # only once: if the template has a place for the system prompt, it is not in the list
        if system and Placeholder.SYSTEM not in names and (is_first or not self.keeps_session):
            sent.insert(0, MessageGroup(MessageRole.SYSTEM, (system,)))
        template: Mapping[str, Any] = ask.extra_body
        if self.session_from is not None and is_first:
            template = without_placeholder(template, Placeholder.SESSION)
        body: dict[str, Any] = filled_template(
            template,
            {
                Placeholder.MESSAGES: [
                    {"role": message.role, "content": message.text} for message in sent
                ],
                Placeholder.MESSAGE: sent[-1].text if sent else "",
                Placeholder.SYSTEM: system,
                Placeholder.SESSION: ask.session,
                Placeholder.MODEL: ask.model,
            },
        )
        return body

    def sent(self, body: Mapping[str, Any]) -> frozenset[str]:
        # nothing that a person wrote is left out because of a refusal
        del body
        return frozenset()

    def parser(self) -> ApplicationReplyParser:
        return ApplicationReplyParser(self.reply, self.stream, self.session_from)


class ApplicationReplyParser(OpenAIReplyParser):
    """Parses what chat protocols do not have: a reply as a single document, and a stream that ends
    with the response. Tokens and the model's name are read where OpenAI's protocol has them."""

    __slots__ = ("_reply", "_session_from", "_spoke", "_stream", "session")

    def __init__(self, reply: str | None, stream: str | None, session_from: str | None) -> None:
        super().__init__()
        self.session: str | None = None
        """The application's name for the conversation, if it gave one."""
        self._session_from = session_from
        self._reply = reply
        self._stream = stream
        self._spoke = False

    @property
    def takes_document(self) -> bool:
        return self._reply is not None

    @property
    def streams(self) -> bool:
        return self._stream is not None

    def hear_headers(self, headers: Mapping[str, str]) -> None:
        """Read the session from a response's header, if it is there; names are in lower case."""
        if self._session_from == FROM_COOKIES:
            self._take_session(headers.get("cookie"))
        name = (self._session_from or "").removeprefix(FROM_HEADER)
        if name != self._session_from:
            self._take_session(headers.get(name.strip().lower()))

    def _take_session(self, name: object) -> None:
        # a bool is an int in Python, but not a name
        if (
            isinstance(name, str | int)
            and not isinstance(name, bool)
            and 0 < len(str(name)) <= MOST
        ):
            self.session = str(name)

    def close(self) -> None:
        """Note that the response ended, completely as far as its framing says."""
        # an application need not mark the end: the end of its answer is enough
        if self._spoke:
            self.finish = self.finish or Finish.STOP
            self._sure = True

    def feed(self, data: str) -> str | None:
        if is_end_mark(data):
            self.ended = True
            self.close()
            return None
        event = parsed(data)
        self._look_at(event)
        text = at_path(event, self._stream or "")
        if not isinstance(text, str):
            return None
        self._spoke = True
        return text

    def feed_document(self, data: str) -> str:
        """Return the reply in a document. Raises `InStreamError` if there is none."""
        try:
            document = json.loads(data)
        except (ValueError, RecursionError):
            raise InStreamError(Failure(Cause.NO_STREAM, _no_json(data))) from None
        text = at_path(document, self._reply or "")
        if isinstance(document, dict):
            # with a reply, what is said of errors is the application's own business
            self._look_at(document, refuse=not isinstance(text, str))
        if not isinstance(text, str):
            words = f"no text at `{self._reply}`; {_keys_of(document)}"
            raise InStreamError(Failure(Cause.NO_STREAM, words))
        self._spoke = True
        self.close()
        return text

    def _look_at(self, event: dict[str, Any], *, refuse: bool = True) -> None:
        if self._session_from not in {None, FROM_COOKIES}:
            self._take_session(at_path(event, self._session_from))
        if refuse and event.get("error"):
            raise InStreamError(failure_in(event, Cause.IN_STREAM))
        self.named.add(event.get("model"))
        usage = event.get("usage")
        if isinstance(usage, dict):
            self._count(usage)


def _no_json(data: str) -> str:
    if not data.strip():
        return "nothing in place of JSON"
    kind = "a web page" if data.lstrip()[:1] == "<" else "text"
    return f"{kind} in place of JSON"


def _keys_of(document: object) -> str:
    if not isinstance(document, dict):
        return "the answer is a list" if isinstance(document, list) else "the answer is one value"
    names = [f"`{str(name)[:40]}`" for name in list(document)[:_MOST_KEYS]]
    more = ", …" if len(document) > _MOST_KEYS else ""
    return f"the answer has {', '.join(names) or 'no keys'}{more}"
