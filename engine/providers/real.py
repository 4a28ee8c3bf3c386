"""A model that is reached over a network, with the interface of every model."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Self, cast

from engine.errors import InputError, ModelError
from engine.providers.accounts import Account, Accounts, RequestDestination
from engine.providers.batches.queue import BatchClient, BatchTransport, ModelBatches
from engine.providers.endpoint import (
    PATHS,
    Application,
    Endpoint,
    Wire,
    checked_headers,
    checked_key,
)
from engine.providers.http.transport import Address, HostPort
from engine.providers.limiter import HeldCalls, Limiter, whole_seconds
from engine.providers.model import JsonSchema, Message, MessageRole, OnText, Reply, ReportingModel
from engine.providers.pricing import Price
from engine.providers.protocols.anthropic import AnthropicDialect
from engine.providers.protocols.application import ApplicationDialect, requested_model
from engine.providers.protocols.base import ChatRequest, Dialect, PromptCache
from engine.providers.protocols.openai import OpenAIDialect
from engine.providers.protocols.responses import ResponsesDialect
from engine.providers.redaction import Redactor, secret_parts
from engine.providers.sender import Call, OnNote, Sender
from engine.providers.served_model import ExpectedModel

_FIRST_PARTIES = frozenset({"api.openai.com", "api.anthropic.com"})
_GIVE_AWAY = frozenset({"openrouter.ai"})


def _ignored_note(note: str) -> None:
    del note


def real_model(
    endpoint: Endpoint,
    accounts: Accounts,
    *,
    label: str | None = None,
    price: Price | None = None,
    cache: PromptCache | None = None,
    batches: ModelBatches | None = None,
    on_note: OnNote = _ignored_note,
) -> RealModel:
    """Return a model; `price` is the user's own. Nothing is imported, connected or sent before its
    first call."""
    label = label or endpoint.model
    if endpoint.unencrypted:
        on_note(f"{label} is reached over http: key and messages can be read on the way")
    sender = Sender(
        label,
        endpoint.base_url,
        dialect_of(endpoint.wire, endpoint.application),
        accounts,
        on_note,
        price=price,
        gives_away=endpoint.host in _GIVE_AWAY,
        sends_once=endpoint.wire is Wire.SESSION,
        adapts=endpoint.application is None,
        look_at="url and headers" if endpoint.application is not None else None,
        hide=Redactor(endpoint.secrets),
    )
    return RealModel(endpoint, sender, cache, batches)


def dialect_of(wire: Wire, application: Application | None) -> Dialect:
    if application is not None:
        return ApplicationDialect(
            application.reply,
            application.stream,
            application.keeps_session,
            application.session_from,
        )
    match wire:
        case Wire.ANTHROPIC:
            return AnthropicDialect()
        case Wire.RESPONSES:
            return ResponsesDialect()
        case _:
            return OpenAIDialect()


@dataclass(frozen=True, slots=True)
class RealModel(ReportingModel):
    """A language model of some provider, or an application."""

    endpoint: Endpoint
    sender: Sender = field(repr=False)
    cache: PromptCache | None = None
    batches: ModelBatches | None = field(default=None, repr=False)
    """Where its calls can be made at half the price, if they are allowed a day."""

    @property
    def label(self) -> str:
        return self.sender.label

    @property
    def scripted(self) -> bool:
        return False

    def caching(self, cache: PromptCache | None) -> Self:
        """Return the model for a role in which this part of its requests comes again."""
        return replace(self, cache=cache)

    async def reply(
        self,
        messages: Sequence[Message],
        *,
        schema: JsonSchema | None = None,
        seed: int = 0,
        on_text: OnText | None = None,
    ) -> Reply:
        """As `Model`. Raises `ModelError`, and `BatchUnansweredError` for a call in a batch that
        is to be made in another one, or in none."""
        endpoint = self.endpoint
        try:
            key = checked_key(endpoint.key())
            headers = checked_headers(endpoint.headers())
            extra = endpoint.extra_body()
        except InputError as error:
            raise ModelError(f"{self.label}: {error}", retryable=False) from None
        account = await self._account(key)
        destination = None
        secrets = [key, *secret_parts(headers), *extra.secrets, *endpoint.secrets]
        if (written := endpoint.as_written) is not None:
            # the names of variables are not secret
            secrets = [*endpoint.secrets]
            destination = RequestDestination(
                endpoint.wire,
                written.url,
                key,
                headers,
                written.variables,
                endpoint.application,
            )
        ask = self._ask(messages, schema, seed, extra.values)
        request = Call(
            self.sender,
            account,
            ask,
            headers,
            Redactor(secrets),
            on_text,
            self.on_attempt,
            destination,
            self._batch(key, {**self.sender.dialect.headers(ask), **headers}, seed),
        )
        reply = await request.run()
        where = None if endpoint.application is None else endpoint.application.session_from
        is_first = not any(message.role is MessageRole.ASSISTANT for message in messages)
        if where is not None and is_first and reply.session is None:
            words = f"{self.label}: the answer has no session at `{where}`"
            raise ModelError(words, retryable=True)
        return reply

    async def _account(self, key: str) -> Account:
        endpoint, app = self.endpoint, self.endpoint.application
        return await self.sender.accounts.account(
            endpoint.wire,
            endpoint.base_url,
            key,
            follow_redirects=app is not None and app.follow_redirects,
            slots=endpoint.slots,
        )

    def _batch(self, key: str, headers: Mapping[str, str], seed: int) -> BatchTransport | None:
        if self.batches is None or self.work is None:
            return None
        place = self.sender.memory_key(self.endpoint.model)
        open_client = partial(_batch_client, self.endpoint, key, headers)
        return self.batches.transport(open_client, self.label, place, key, headers, self.work, seed)

    def _ask(
        self,
        messages: Sequence[Message],
        schema: JsonSchema | None,
        seed: int,
        extra_body: Mapping[str, Any],
    ) -> ChatRequest:
        endpoint = self.endpoint
        asked = (
            endpoint.model
            if endpoint.application is None
            else requested_model(extra_body, endpoint.model)
        )
        return ChatRequest(
            model=endpoint.model,
            messages=tuple(messages),
            params=endpoint.params,
            schema=schema,
            seed=_mixed_seed(endpoint.params.seed, seed),
            cache=self.cache,
            first_party=HostPort.of(endpoint.base_url).host in _FIRST_PARTIES,
            meant=ExpectedModel(asked, endpoint.served_as, only=endpoint.only_this),
            extra_body=extra_body,
            session=self.session,
        )

    def held(self) -> HeldCalls | None:
        """Say what calls to it wait for; None if they do not."""
        accounts = self.sender.accounts
        if self.batches is not None and (held := self.batches.held()) is not None:
            return held
        trouble = accounts.reachability.waiting_reason(self.sender.host_port)
        if trouble is not None:
            return HeldCalls(trouble, None)
        limiters = self._limiters()
        closed = max((limiter.closed_for_s for limiter in limiters), default=0.0)
        if closed > 0 and self.sender.waits.calls:
            return HeldCalls("429: rate limit", whole_seconds(closed), self.sender.waits.calls)
        return self.sender.waits.soonest(accounts.clock.monotonic())

    def limit(self) -> tuple[int, int] | None:
        """Return how many of its calls may be in flight and how many of its own wait for that; None
        if none waits."""
        windows = [limiter.window for limiter in self._limiters()]
        at_once = sum(int(window.limit) for window in windows if not window.has_room)
        waiting = self.sender.waits.outside
        return (at_once, waiting) if at_once and waiting else None

    def parked(self) -> str | None:
        """Say why every call to it fails; None if that is not known."""
        reasons = (account.parked_words(self.endpoint.model) for account in self._accounts())
        known = (reason for reason in (*self.sender.refusals, *reasons) if reason is not None)
        return next(known, None)

    def unpark(self) -> None:
        """Allow calls again, after a person said that the reason is gone."""
        self.sender.refusals.clear()
        for account in self._accounts():
            account.unpark(self.endpoint.model)

    def _limiters(self) -> list[Limiter]:
        return [account.model(self.endpoint.model).limiter for account in self._accounts()]

    def _accounts(self) -> Sequence[Account]:
        return self.sender.accounts.at(self.endpoint.wire, self.endpoint.base_url)


def _mixed_seed(own: int | None, call: int) -> int:
    """Mix the seeds of model and call into one, in the range that every server accepts."""
    raw = f"{own} {call}".encode()
    return int.from_bytes(hashlib.blake2b(raw, digest_size=4).digest()) >> 1


def _batch_client(endpoint: Endpoint, key: str, headers: Mapping[str, str]) -> BatchClient:
    # imported here, as few runs use them
    if endpoint.wire is Wire.ANTHROPIC:
        from engine.providers.batches.anthropic import AnthropicBatches

        return AnthropicBatches(endpoint.base_url, key, headers)
    from engine.providers.batches.openai import OpenAIBatches, Path

    # Azure's addresses with a version have none in the path
    version = "" if "?" in endpoint.base_url else "/v1"
    path = cast("Path", version + PATHS[endpoint.wire])
    return OpenAIBatches(Address(endpoint.base_url, {}, key=key), headers, path)
