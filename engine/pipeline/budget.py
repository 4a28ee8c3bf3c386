"""Keeps a run within what it may cost: a call is only made while it fits."""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

from engine.benchmark import Role
from engine.pipeline.control import Drained

USUAL: Final = 0.95
"""The share of a role's calls that cost no more than what a call is expected to cost."""


RECENT: Final = 200
"""Calls that what is usual is taken from."""


class Budget:
    """What a run has spent, what is in the air, and what a call of each role usually costs.

    A call whose role and model have not answered yet is expected to cost `first_usd`. What a call
    costs beyond what was expected of it is what the budget may be overshot by.
    """

    def __init__(
        self,
        limit_usd: float | None,
        *,
        first_usd: Callable[[Role, str], float] = lambda _role, _model: 0.0,
        on_spent: Callable[[], None] = lambda: None,
    ) -> None:
        self._limit = limit_usd
        self._first = first_usd
        self._on_spent = on_spent
        self._costs: defaultdict[tuple[Role, str], deque[float]] = defaultdict(
            lambda: deque(maxlen=RECENT)
        )
        self._in_air = 0.0
        self.spent_usd = 0.0
        """What is known to have been spent; a call without a known price adds nothing."""

    @contextmanager
    def call(self, role: Role, model: str) -> Iterator[Callable[[float | None], None]]:
        """Around one call. Hand what each attempt cost to what this gives.

        Raises `Drained` where the call does not fit, after telling that the budget is spent.
        """
        usual = self.usual_usd(role, model)
        if self._limit is not None and self.spent_usd + self._in_air + usual > self._limit:
            self._on_spent()
            raise Drained
        self._in_air += usual
        cost = 0.0

        def spend(usd: float | None) -> None:
            nonlocal cost
            cost += usd or 0.0
            self.spent_usd += usd or 0.0

        try:
            yield spend
        finally:
            self._in_air -= usual
            if cost:
                self._costs[role, model].append(cost)

    def usual_usd(self, role: Role, model: str) -> float:
        """The 95th percentile of what this role's last calls to this model cost."""
        costs = sorted(self._costs[role, model])
        if not costs:
            return self._first(role, model)
        return costs[min(len(costs) - 1, int(len(costs) * USUAL))]

    @property
    def overshoot_usd(self) -> float:
        """What may be spent beyond the limit, if each call in the air costs twice the usual."""
        return self._in_air
