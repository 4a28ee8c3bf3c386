"""What all connections of the server share: its settings, its plan, its counts, its memory."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from tests.protocol_server.answers import PromptCache
from tests.protocol_server.counters import Counters, Tally
from tests.protocol_server.faults import Plan, Rule, Strike
from tests.protocol_server.request import Request
from tests.protocol_server.settings import Settings


class Service:
    """Written on the server's own thread, read and ordered about from any."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.port = 0
        self.cache = PromptCache()
        self.held_after: int | None = None
        """Requests after which models answer none until they are released."""
        self.released = asyncio.Event()
        self.changed = threading.Condition()
        """Held while something changes that another thread may read; tells of each change."""
        self._plan = Plan()
        self._tally = Tally()
        self._requests: list[Request] = []
        self._numbered = 0

    @contextmanager
    def counting(self) -> Iterator[Tally]:
        with self.changed:
            yield self._tally
            self.changed.notify_all()

    def counters(self) -> Counters:
        with self.changed:
            return self._tally.read()

    def requests(self) -> list[Request]:
        with self.changed:
            return list(self._requests)

    def order(self, rule: Rule) -> None:
        with self.changed:
            self._plan.add(rule)

    def strike(self, request: Request) -> Strike | None:
        with self.changed:
            return self._plan.strike(request)

    def received(self, request: Request) -> int:
        """Keep the request, and give it a number."""
        with self.counting() as tally:
            self._numbered += 1
            tally.requests += 1
            if self.settings.keep_requests:
                self._requests.append(request)
            return self._numbered

    def reset(self) -> None:
        """Forget the plan, the requests, the counts and the prompt cache."""
        with self.counting() as tally:
            self._plan.clear()
            self._requests.clear()
            self.cache = PromptCache()
            tally.clear()
