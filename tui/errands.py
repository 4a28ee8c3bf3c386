"""What an engine is to be started for, where a person asks for work and none is there."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

from engine.benchmark import ConversationKey, Stage
from engine.link import Command, Request, Row
from engine.pipeline.order import Order


def order_for(request: Request) -> Order | None:
    """The order that a request comes down to; None where it is about a run that there is not."""
    names = tuple(dict.fromkeys(row.benchmark for row in request.rows))
    match request.command:
        case Command.RUN:
            return request.order
        case Command.RETRY:
            return Order(benchmarks=names)
        case Command.EVALUATE | Command.SIMULATE:
            stage = Stage.EVALUATE if request.command is Command.EVALUATE else Stage.SIMULATE
            again = _keys(request.rows)
            stages = frozenset({stage, Stage.AGGREGATE})
            return Order(names, stages, again=again, evaluator=request.evaluator)
        case _:
            return None


def _keys(rows: Sequence[Row]) -> dict[str, frozenset[ConversationKey]]:
    found: dict[str, set[ConversationKey]] = defaultdict(set)
    for row in rows:
        found[row.benchmark].add(ConversationKey.parse(row.unit))
    return {name: frozenset(keys) for name, keys in found.items()}
