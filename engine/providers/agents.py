"""Requests that another process makes for the engine: what it is told, and who chooses it. All that
is decided about a call stays here; only what `exchange` does is done there."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractAsyncContextManager, AbstractContextManager
from dataclasses import dataclass, field
from typing import Protocol

from engine.errors import CrosswindError
from engine.providers.endpoint import Application, Wire
from engine.providers.exchange import CallResult
from engine.providers.http.transport import HostPort
from engine.providers.protocols.base import ChatRequest
from engine.providers.retry import RetryPolicy


class NoVariableError(CrosswindError):
    """No agent has the variables that a request needs. Says which and where; shows no value."""


@dataclass(frozen=True, slots=True)
class RequestDestination:
    """Where a request goes, with every `${NAME}` as it is written: the agent looks them up."""

    wire: Wire
    url: str
    key: str = field(repr=False)
    headers: Mapping[str, str] = field(repr=False)
    variables: tuple[str, ...] = ()
    """Every one that is named here and in the body."""
    application: Application | None = None


@dataclass(frozen=True, slots=True)
class RemoteRequest:
    """One attempt of a call."""

    destination: RequestDestination
    ask: ChatRequest
    """Its `extra_body` is as it is written, too."""
    retry_policy: RetryPolicy
    """Whose deadlines hold."""


class AgentSlot(Protocol):
    """Leave to have one request made by one agent."""

    async def exchange(
        self, request: RemoteRequest, result: CallResult, accepted: Callable[[], None]
    ) -> None:
        """As `exchange.exchange`. Where the agent is lost on the way, the failure's cause is
        `AGENT_LOST`. To cancel it is to have the request cut off."""
        ...


SayWaiting = Callable[[str], AbstractContextManager[None]]
"""Shows, for as long as the block lasts, what a call waits for."""


class Agents(Protocol):
    """Chooses who makes a request. Belongs to one event loop."""

    def place(
        self, destination: RequestDestination, held: SayWaiting
    ) -> AbstractAsyncContextManager[AgentSlot]:
        """Waits until an agent has room; meanwhile `held` shows why.

        Raises `NoVariableError`.
        """
        ...

    async def probe(self, host_port: HostPort) -> bool:
        """Whether anybody accepts a connection there, seen from an agent."""
        ...
