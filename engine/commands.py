"""From what somebody asks of an engine to the order that it comes down to: for the engine at work,
for the headless commands that start one, and for the app that says what it costs."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Final

from engine.benchmark import ConversationKey, Stage
from engine.errors import CrosswindError
from engine.link import Command, Request, WorkRow
from engine.pipeline.order import Order

Failed = Mapping[WorkRow, str | None]
"""Rows of work that failed, each with its target."""
NONE_FAILED: Final[Failed] = MappingProxyType({})

_AGAIN: Final = {
    Command.EVALUATE: frozenset({Stage.EVALUATE, Stage.AGGREGATE}),
    Command.SIMULATE: frozenset({Stage.SIMULATE, Stage.EVALUATE, Stage.AGGREGATE}),
}
"""Conversations once more, and what follows from them."""


def order_for(request: Request, failed: Failed = NONE_FAILED) -> Order | None:
    """The order that a request comes down to; None where it is about a run that there is not.

    `failed` is all that has failed, for a request to try it again. Raises `CrosswindError` where
    conversations are asked for and none, or something else, is named.
    """
    if request.command is Command.RUN:
        return request.order
    if request.command is Command.RETRY:
        return retry_order(request, failed)
    return again_order(request) if request.command in _AGAIN else None


def retry_order(request: Request, failed: Failed) -> Order:
    """What it asks for of what has failed; without benchmarks where that is nothing."""
    found: defaultdict[str, set[str]] = defaultdict(set)
    for row in asked_of_failed(request, failed):
        found[row.benchmark].add(row.unit)
    only = {name: frozenset(units) for name, units in found.items()}
    return Order(benchmarks=tuple(only), only=only, quote=request.quote)


def asked_of_failed(request: Request, failed: Failed) -> Failed:
    """Its rows, where it names some, else those of its target, else all."""
    if request.rows:
        return {row: failed[row] for row in request.rows if row in failed}
    return {row: of for row, of in failed.items() if request.target in {None, of}}


def again_order(request: Request) -> Order:
    """The conversations that it names, judged or played once more. Raises `CrosswindError`."""
    again = _conversations(request.rows)
    return Order(
        benchmarks=tuple(again),
        stages=_AGAIN[request.command],
        again=again,
        evaluator=request.evaluator,
        quote=request.quote,
    )


def key_of(row: WorkRow) -> ConversationKey:
    """Of a row that is a conversation. Raises `CrosswindError` for another."""
    try:
        return ConversationKey.parse(row.unit)
    except ValueError:
        raise CrosswindError(f"{row.unit} is no conversation") from None


def _conversations(rows: Iterable[WorkRow]) -> dict[str, frozenset[ConversationKey]]:
    found: defaultdict[str, set[ConversationKey]] = defaultdict(set)
    for row in rows:
        found[row.benchmark].add(key_of(row))
    if not found:  # an order for none would be one for everything
        raise CrosswindError("no conversation is named")
    return {name: frozenset(keys) for name, keys in found.items()}
