"""What all connections of the server share: its settings, its plan, its counts, its memory."""

from __future__ import annotations

import asyncio
import threading
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from copy import deepcopy
from dataclasses import dataclass, field, fields
from typing import Final

from tests.protocol_server.faults import Plan, Rule, Strike
from tests.protocol_server.request import Request
from tests.protocol_server.settings import Settings

ANSWERED: Final = "answered"
"""The outcome of a request that was answered whole and as it should be."""
CAPPED: Final = "capped"
"""The outcome of a request that was one too many at the same time."""
ABANDONED: Final = "abandoned"
"""The outcome of a request whose client went away first."""


@dataclass(slots=True)
class Counters:
    """What the server has seen and done; who asks gets a copy of one moment."""

    requests: int = 0
    by_model: Counter[str] = field(default_factory=Counter)
    by_role: Counter[str] = field(default_factory=Counter)
    by_outcome: Counter[str] = field(default_factory=Counter)
    """Of requests that are over: what happened, a fault by its name or an error by its status."""
    concurrent: int = 0
    """Requests to models that are being answered."""
    by_client: Counter[int] = field(default_factory=Counter)
    """These, by the port of the client."""
    concurrent_max: int = 0
    connections: int = 0
    """Open now."""
    connections_made: int = 0
    refusals: int = 0
    """Requests that were told 429."""
    successes: int = 0
    bytes_in: int = 0
    bytes_out: int = 0
    input_tokens: int = 0
    """Billed: of every answer that was begun, whether the client got it whole or not."""
    output_tokens: int = 0

    @property
    def calls(self) -> int:
        """Requests to models, which cost something; lists of models cost nothing."""
        return self.by_model.total()

    @property
    def clients(self) -> Sequence[int]:
        return sorted(+self.by_client)

    def as_json(self) -> dict[str, object]:
        return {each.name: getattr(self, each.name) for each in fields(self)}

    def cleared(self) -> Counters:
        """Begin anew; what is going on now stays counted."""
        return Counters(
            concurrent=self.concurrent,
            concurrent_max=self.concurrent,
            by_client=self.by_client,
            connections=self.connections,
        )

    def begin(self, model: str, role: str, client: int) -> None:
        self.by_model[model] += 1
        self.by_role[role] += 1
        self.concurrent += 1
        self.by_client[client] += 1
        self.concurrent_max = max(self.concurrent_max, self.concurrent)

    def end(self, outcome: str, client: int) -> None:
        self.concurrent -= 1
        self.by_client[client] -= 1
        self.by_outcome[outcome] += 1
        self.successes += outcome == ANSWERED

    def turn_away(self, model: str, role: str) -> None:
        """Count a request that was one too many; it never was one of the concurrent ones."""
        self.by_model[model] += 1
        self.by_role[role] += 1
        self.by_outcome[CAPPED] += 1
        self.refusals += 1


class Service:
    """Written on the server's own thread, read and ordered about from any."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.port = 0
        self.held_after: int | None = None
        """Requests after which models answer none until they are released."""
        self.released = asyncio.Event()
        self.changed = threading.Condition()
        """Held while something changes that another thread may read; tells of each change."""
        self._plan = Plan()
        self._counters = Counters()
        self._requests: list[Request] = []
        self._numbered = 0

    @contextmanager
    def counting(self) -> Iterator[Counters]:
        with self.changed:
            yield self._counters
            self.changed.notify_all()

    def counters(self) -> Counters:
        with self.changed:
            return deepcopy(self._counters)

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
        """Forget the plan, the requests and the counts."""
        with self.counting() as tally:
            self._plan.clear()
            self._requests.clear()
            self._counters = tally.cleared()
