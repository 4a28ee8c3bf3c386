"""The interface to worker processes that send requests for the engine. All decisions about a call
are made here; a worker only does what `exchange` does."""

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
    """No worker has the variables that a request needs. Names them and their place, no values."""


@dataclass(frozen=True, slots=True)
class RequestDestination:
    """Where a request goes, with every `${NAME}` unexpanded: the worker looks them up."""

    wire: Wire
    url: str
    key: str = field(repr=False)
    headers: Mapping[str, str] = field(repr=False)
    variables: tuple[str, ...] = ()
    """All variables that are named here and in the body."""
    application: Application | None = None


@dataclass(frozen=True, slots=True)
class RemoteRequest:
    """One attempt of a call."""

    destination: RequestDestination
    ask: ChatRequest
    """Its `extra_body` is unexpanded, too."""
    retry_policy: RetryPolicy
    """For its deadlines."""


class AgentSlot(Protocol):
    """Permission to send one request from one worker."""

    async def exchange(
        self, request: RemoteRequest, result: CallResult, accepted: Callable[[], None]
    ) -> None:
        """As `exchange.exchange`. If the worker is lost, the failure's cause is `AGENT_LOST`.
        Cancelling cuts the request off."""
        ...


SayWaiting = Callable[[str], AbstractContextManager[None]]
"""Shows what a call waits for while the block runs."""


class Agents(Protocol):
    """Assigns requests to workers. Belongs to one event loop."""

    def slot(
        self, destination: RequestDestination, say_waiting: SayWaiting
    ) -> AbstractAsyncContextManager[AgentSlot]:
        """Wait until a worker has room, while `say_waiting` shows why. Raises `NoVariableError`."""
        ...

    async def probe(self, host_port: HostPort) -> bool:
        """Whether anything accepts a connection there, as seen from a worker."""
        ...
