"""How a watcher reaches a running engine: what is being said now, and commands.

Facts do not come this way; they are rows of the store. The link carries what is not worth a row.
Below are the orders that requests come down to: for the engine at work, for the headless commands
that start one, and for the app that says what it costs.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from types import MappingProxyType
from typing import Final, Protocol

from engine.benchmark import ConversationKey, Stage
from engine.display import plural
from engine.errors import CrosswindError
from engine.facts import LiveText, Speech
from engine.pipeline.label_requests import LabelRequest
from engine.pipeline.order import Order, PriceRange
from engine.review import ReviewRequest


class EngineState(StrEnum):
    STARTING = "starting"
    RUNNING = "running"
    PAUSED = "paused"
    DRAINING = "draining"
    IDLE = "idle"
    """Everything is done; it waits a few seconds for more before it ends."""
    STOPPED = "stopped"
    LOST = "lost"
    """It ended without a word: killed, or its machine went down."""


@dataclass(frozen=True, slots=True)
class Identity:
    """Which process an engine is."""

    pid: int
    host: str
    since: datetime


@dataclass(frozen=True, slots=True)
class Wait:
    """Calls that are held up, and why."""

    model: str
    """The label of the model that is called."""
    why: str
    """`429`, `connection refused`, `its own limit of 8 calls`: a few words."""
    seconds: float | None
    """Until it is tried again; None where that is not known."""
    calls: int = 1

    @property
    def words(self) -> str:
        """`429: rate limit, again in 12 s (3 calls)`."""
        again = "" if self.seconds is None else f", again in {self.seconds:.0f} s"
        return f"{self.why}{again}" + ("" if self.calls == 1 else f" ({self.calls} calls)")


@dataclass(frozen=True, slots=True)
class ModelLimit:
    """How many calls to a model are let through at once, where more than that want to be made."""

    model: str
    """Its label."""
    at_once: int
    """As many as its server was found to take, of all models of the same account."""
    waiting: int
    """Calls that are not let through yet."""


@dataclass(frozen=True, slots=True)
class AgentStanding:
    """One worker process, which makes calls for the engine."""

    name: str
    host: str
    in_flight: int
    """Calls that it is making."""
    capacity: int
    """As many as it is given at once."""
    calls_per_s: float
    """That came to their end, over the last seconds."""
    heard_s: float
    """Seconds since it was last heard."""

    @property
    def words(self) -> str:
        """`37 of 100 calls in flight, 3.4/s, heard 0.2 s ago`."""
        return (
            f"{self.in_flight} of {self.capacity} calls in flight, {self.calls_per_s:.1f}/s, "
            f"heard {self.heard_s:.1f} s ago"
        )


def workers_words(agents: Sequence[AgentStanding]) -> str:
    """What is said of all workers together: `2 workers · 37 calls in flight · 12.0/s`."""
    parts = (
        plural(len(agents), "worker"),
        f"{plural(sum(each.in_flight for each in agents), 'call')} in flight",
        f"{sum(each.calls_per_s for each in agents):.1f}/s",
    )
    return " · ".join(parts)


@dataclass(frozen=True, slots=True)
class Board:
    """What the engine is doing now, at a glance."""

    state: EngineState
    speaking: tuple[Speech, ...]
    """Longest running first."""
    problem: str | None = None
    """Why the engine stopped, where it did not stop by itself; why it is paused, where no person
    paused it."""
    waits: tuple[Wait, ...] = ()
    parked: Mapping[str, str] = field(default_factory=dict)
    """Targets that are called no more until a person says so, and why."""
    concurrency: Mapping[Stage, int] = field(default_factory=dict)
    """How many rows of a stage are worked on at once, at most."""
    notices: tuple[str, ...] = ()
    """What a watcher should know that is no fact: that the configuration was edited since."""
    engine: Identity | None = None
    said: Mapping[str, int] = field(default_factory=dict)
    """Characters of what is being said at this moment, by target: where this stands still, nobody
    speaks."""
    spent_usd: float | None = None
    """What the run has spent by now, of what has a known price; None where that is not known."""
    budget_usd: float | None = None
    """What the run may spend; None without a limit."""
    limits: tuple[ModelLimit, ...] = ()
    """Models that could be called more if their servers took more."""
    between: Mapping[str, int] = field(default_factory=dict)
    """Conversations that have begun and wait for their next message's turn, by target."""
    quote: PriceRange | None = None
    """What the run was said to cost before it began."""
    agreed_usd: float | None = None
    """What it may cost before somebody is asked; None where nobody is."""
    rest_usd: float | None = None
    """What is expected to be spent still; None where it was not quoted at anything."""
    question: str | None = None
    """What it waits for an answer to before it goes on: `resume` says yes, `stop` no."""
    workspace_budget_usd: float | None = None
    workspace_spent_usd: float | None = None
    """By all runs together, this one included; None without such a limit."""
    agents: tuple[AgentStanding, ...] = ()
    """Who makes the calls where the engine does not make them itself."""


class Command(StrEnum):
    """What a watcher may ask of the engine. Each is idempotent, and refused with a reason."""

    PAUSE = "pause"
    RESUME = "resume"
    STOP = "stop"
    """Finish what is being spoken, then end."""
    STOP_NOW = "stop_now"
    RUN = "run"
    """Do `order` after what is at hand."""
    RETRY = "retry"
    """What failed, once more: `rows`, else all rows of `target`, else all."""
    EVALUATE = "evaluate"
    """Judge the takes that count of `rows` again, by `evaluator` where one is named."""
    SIMULATE = "simulate"
    """Play `rows` again: a new take each."""
    CONCURRENCY = "concurrency"
    """Work on `number` rows of `stage` at once."""
    UNPARK = "unpark"
    """Call `target` again."""
    REVIEW = "review"
    """What a person says of metrics or scenarios: `review`."""
    LABEL = "label"
    """Store what people say of conversations, in `labels`."""


@dataclass(frozen=True, slots=True)
class WorkRow:
    """One row of work: a metric, a scenario or a conversation."""

    benchmark: str
    unit: str

    @classmethod
    def of(cls, benchmark: str, key: ConversationKey) -> WorkRow:
        return cls(benchmark, str(key))


@dataclass(frozen=True, slots=True)
class Request:
    """A command with what it is about; what it does not need is left empty."""

    command: Command
    rows: tuple[WorkRow, ...] = ()
    target: str | None = None
    stage: Stage | None = None
    number: int | None = None
    evaluator: str | None = None
    order: Order | None = None
    quote: PriceRange | None = None
    """What a person was told that it costs, where it comes without an order."""
    labels: LabelRequest | None = None
    review: ReviewRequest | None = None


@dataclass(frozen=True, slots=True)
class Response:
    """What the engine says to a request."""

    accepted: bool
    text: str


class EngineLink(Protocol):
    """One way to reach an engine. `board` and `text` return at once, with what is known."""

    def board(self) -> Board: ...

    def text(self, benchmark: str, key: ConversationKey, cursor: int = 0) -> LiveText | None:
        """What is being said in a conversation; None where nothing is at this moment.

        A cursor belongs to one message: when the speech differs from the one it came from, ask
        again from 0.
        """
        ...

    def ask(self, request: Request) -> Response:
        """Blocks until the engine has answered, a few seconds at most: not for an event loop."""
        ...

    def close(self) -> None:
        """Let go of the engine, which goes on."""
        ...


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
    """The key of the conversation that a row of work is. Raises `CrosswindError` for another."""
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
