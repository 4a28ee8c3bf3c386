"""How a watcher reaches a running engine: live text, the engine's status, and commands.

Facts do not come this way; they are rows of the store. The link carries what is not worth a row.
The lower part turns requests into orders, for the engine at work, for the headless commands that
start one, and for the app that shows what they cost.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from types import MappingProxyType
from typing import Final, Protocol

from engine.benchmark import ConversationKey, Stage
from engine.display import plural
from engine.errors import CrosswindError
from engine.facts import LiveText, Speech, Writing
from engine.people import LabelRequest, ReviewRequest
from engine.pipeline.order import Order, PriceRange


class EngineState(StrEnum):
    STARTING = "starting"
    RUNNING = "running"
    PAUSED = "paused"
    DRAINING = "draining"
    IDLE = "idle"
    """Everything is done; the engine waits a few seconds for requests before it ends."""
    STOPPED = "stopped"
    LOST = "lost"
    """The engine ended without a word: it was killed, or its machine went down."""

    @property
    def is_over(self) -> bool:
        return self in {EngineState.STOPPED, EngineState.LOST}


@dataclass(frozen=True, slots=True)
class Identity:
    """Identifies an engine's process."""

    pid: int
    host: str
    since: datetime


@dataclass(frozen=True, slots=True)
class Wait:
    """Calls that are delayed, and why."""

    model: str
    """The label of the model."""
    why: str
    """A few words: `429`, `connection refused`, `its own limit of 8 calls`."""
    seconds: float | None
    """Seconds until the next attempt; None where not known."""
    calls: int = 1
    targets: tuple[str, ...] = ()
    """The targets whose model it is: another model may have the same label."""

    @property
    def words(self) -> str:
        """`429: rate limit, again in 12 s (3 calls)`."""
        again = "" if self.seconds is None else f", again in {self.seconds:.0f} s"
        return f"{self.why}{again}" + ("" if self.calls == 1 else f" ({self.calls} calls)")


@dataclass(frozen=True, slots=True)
class ModelLimit:
    """How many calls to a model may be in flight, while more are waiting."""

    model: str
    """The model's label."""
    at_once: int
    """The limit that its server was found to allow, shared by all models of the account."""
    waiting: int
    """Calls held back by the limit."""
    targets: tuple[str, ...] = ()
    """As for `Wait`."""


@dataclass(frozen=True, slots=True)
class AgentStatus:
    """The status of one worker process that makes calls for the engine."""

    name: str
    host: str
    in_flight: int
    """Calls it is making now."""
    capacity: int
    """The most calls it is given at once."""
    calls_per_s: float
    """Completed calls per second, over the last seconds."""
    heard_s: float
    """Seconds since its last report."""

    @property
    def words(self) -> str:
        """`37 of 100 calls in flight, 3.4/s, heard 0.2 s ago`."""
        return (
            f"{self.in_flight} of {self.capacity} calls in flight, {self.calls_per_s:.1f}/s, "
            f"heard {self.heard_s:.1f} s ago"
        )


def workers_words(agents: Sequence[AgentStatus]) -> str:
    """A summary of all workers: `2 workers · 37 calls in flight · 12.0/s`."""
    parts = (
        plural(len(agents), "worker"),
        f"{plural(sum(agent.in_flight for agent in agents), 'call')} in flight",
        f"{sum(agent.calls_per_s for agent in agents):.1f}/s",
    )
    return " · ".join(parts)


class PauseKind(StrEnum):
    """What holds work up."""

    ASKED = "asked"
    """A question is to be answered."""
    TROUBLE = "trouble"
    """Something outside, such as a full disk."""
    PERSON = "person"
    PARKED = "parked"
    """A target is not called."""
    WAITS = "waits"
    """Calls of a model wait: for the next try, a rate limit, or room in a budget."""


@dataclass(frozen=True, slots=True)
class Board:
    """The engine's current status."""

    state: EngineState
    speaking: tuple[Speech, ...]
    """Messages that were begun, the longest-running first; those that wait to be sent, too."""
    problem: str | None = None
    """Why the engine stopped, unless it finished or was told to; why it is paused, unless a person
    paused it."""
    waits: tuple[Wait, ...] = ()
    parked: Mapping[str, str] = field(default_factory=dict)
    """Targets that are not called until a person unparks them, with the reason."""
    concurrency: Mapping[Stage, int] = field(default_factory=dict)
    """The most rows of each stage that are worked on at once."""
    notices: tuple[str, ...] = ()
    """Notices for watchers that are not facts, such as that the configuration was edited."""
    engine: Identity | None = None
    said: Mapping[str, int] = field(default_factory=dict)
    """Characters of the messages being spoken, by target: where this stands still, no text
    arrives."""
    spent_usd: float | None = None
    """What the run has spent so far, as far as prices are known; None where not known."""
    budget_usd: float | None = None
    """The run's budget; None without one."""
    limits: tuple[ModelLimit, ...] = ()
    """Models that have waiting calls because of what their servers allow."""
    between: Mapping[str, int] = field(default_factory=dict)
    """Open conversations that wait for a slot for their next message, by target."""
    quote: PriceRange | None = None
    """The quoted price range of the run, from before it began."""
    agreed_usd: float | None = None
    """The amount from which a person is asked before the run goes on; None where nobody is."""
    rest_usd: float | None = None
    """The expected remaining cost; None without a quote."""
    question: str | None = None
    """A question that pauses the run: `resume` answers yes, `stop` no."""
    agents: tuple[AgentStatus, ...] = ()
    """The workers that make the calls; empty where the engine makes them itself."""
    benchmarks: tuple[str, ...] = ()
    """The benchmarks of the order at work, and of those that follow it, in sequence."""
    waiting_messages: int = 0
    """How many messages of `speaking` wait to be sent: for the next try, a rate limit, room in a
    budget, or an answer to the question. A stop does not finish them."""
    stages: tuple[Stage, ...] = ()
    """The stages that the order at work includes; empty where that is not known."""
    writing: tuple[Writing, ...] = ()
    """What else models write right now: what began last comes last."""

    @property
    def pauses(self) -> dict[tuple[PauseKind, str], str]:
        """What holds the work up, in words, by kind and by what is held up."""
        if self.state not in {EngineState.RUNNING, EngineState.PAUSED, EngineState.DRAINING}:
            return {}
        pauses: dict[tuple[PauseKind, str], str] = {}
        if self.question is not None:
            pauses[PauseKind.ASKED, ""] = self.question
        if self.problem is not None:
            pauses[PauseKind.TROUBLE, ""] = self.problem
        if self.state is EngineState.PAUSED and not pauses:
            pauses[PauseKind.PERSON, ""] = "paused by a person; `crosswind resume` goes on"
        for wait in self.waits:
            pauses[PauseKind.WAITS, wait.model] = f"{wait.model} waits: {wait.words}"
        for target, why in self.parked.items():
            again = f"`crosswind run --target {target}` calls it again"
            pauses[PauseKind.PARKED, target] = f"{target} is parked: {why}; {again}"
        return pauses

    @property
    def spoken(self) -> int:
        """How many messages are being spoken, which a stop finishes."""
        # the two are not counted at the same moment
        return max(0, len(self.speaking) - self.waiting_messages)

    @property
    def spoken_words(self) -> str:
        """`2 messages being spoken`, and how many wait to be sent, if any."""
        waiting = self.waiting_messages
        wait = f", {waiting} {'waits' if waiting == 1 else 'wait'} to be sent" if waiting else ""
        return f"{plural(self.spoken, 'message')} being spoken{wait}"


class Command(StrEnum):
    """What a watcher may ask of the engine. Each command is idempotent, or refused with a
    reason."""

    PAUSE = "pause"
    RESUME = "resume"
    STOP = "stop"
    """Finish the messages being spoken, then end."""
    STOP_NOW = "stop_now"
    RUN = "run"
    """Do `order` after the work at hand; a rewrite is done beside it."""
    RETRY = "retry"
    """Retry what failed: `rows` if given, else all rows of `target` if given, else everything."""
    EVALUATE = "evaluate"
    """Judge the current takes of `rows` again, by `evaluator` if given."""
    SIMULATE = "simulate"
    """Play `rows` again, each as a new take."""
    CONCURRENCY = "concurrency"
    """Work on at most `number` rows of `stage` at once."""
    UNPARK = "unpark"
    """Resume calls to `target`."""
    REVIEW = "review"
    """Apply a person's `review` of metrics or scenarios."""
    LABEL = "label"
    """Store people's verdicts, in `labels`."""


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
    """A command and its arguments; those that the command does not use stay empty."""

    command: Command
    rows: tuple[WorkRow, ...] = ()
    target: str | None = None
    stage: Stage | None = None
    number: int | None = None
    evaluator: str | None = None
    order: Order | None = None
    quote: PriceRange | None = None
    """The price that the person was shown, for commands without an `order`."""
    labels: LabelRequest | None = None
    review: ReviewRequest | None = None


@dataclass(frozen=True, slots=True)
class Response:
    """The engine's answer to a request."""

    accepted: bool
    text: str


class EngineLink(Protocol):
    """A connection to an engine. `board` and `text` return at once, with what is known."""

    def board(self) -> Board: ...

    def text(self, benchmark: str, key: ConversationKey, cursor: int = 0) -> LiveText | None:
        """The message being spoken in a conversation; None where there is none now.

        A cursor belongs to one message: when the returned speech is another one than before, ask
        again from 0.
        """
        ...

    def ask(self, request: Request) -> Response:
        """Block until the engine has answered, a few seconds at most: not for an event loop."""
        ...

    def close(self) -> None:
        """Close the connection; the engine goes on."""
        ...


Failed = Mapping[WorkRow, str | None]
"""Failed rows of work, each with its target."""
NONE_FAILED: Final[Failed] = MappingProxyType({})

_AGAIN: Final = {
    Command.EVALUATE: frozenset({Stage.EVALUATE, Stage.AGGREGATE}),
    Command.SIMULATE: frozenset({Stage.SIMULATE, Stage.EVALUATE, Stage.AGGREGATE}),
}
"""Commands that repeat conversations, with their stages and those that follow from them."""


def order_for(request: Request, failed: Failed = NONE_FAILED) -> Order | None:
    """Turn a request into an order; None where the command needs no order.

    `failed` are all failed rows, for `RETRY`. Raises `CrosswindError` where conversations are
    needed and none is named, or a row is something else.
    """
    if request.command is Command.RUN:
        return request.order
    if request.command is Command.RETRY:
        return retry_order(request, failed)
    return again_order(request) if request.command in _AGAIN else None


def retry_order(request: Request, failed: Failed) -> Order:
    """Build the order to retry failed rows; it has no benchmarks where none matches."""
    units_of: defaultdict[str, set[str]] = defaultdict(set)
    for row in asked_of_failed(request, failed):
        units_of[row.benchmark].add(row.unit)
    only = {name: frozenset(units) for name, units in units_of.items()}
    return Order(benchmarks=tuple(only), only=only, quote=request.quote)


def asked_of_failed(request: Request, failed: Failed) -> Failed:
    """The failed rows that a request means: its rows if it names some, else its target's, else
    all."""
    if request.rows:
        return {row: failed[row] for row in request.rows if row in failed}
    return {row: of for row, of in failed.items() if request.target in {None, of}}


def again_order(request: Request) -> Order:
    """Build the order to judge or play the named conversations again. Raises `CrosswindError`."""
    again = _conversations(request.rows)
    return Order(
        benchmarks=tuple(again),
        stages=_AGAIN[request.command],
        again=again,
        evaluator=request.evaluator,
        quote=request.quote,
    )


def key_of(row: WorkRow) -> ConversationKey:
    """The key of a row that is a conversation. Raises `CrosswindError` for any other row."""
    try:
        return ConversationKey.parse(row.unit)
    except ValueError:
        raise CrosswindError(f"{row.unit} is no conversation") from None


def _conversations(rows: Iterable[WorkRow]) -> dict[str, frozenset[ConversationKey]]:
    by_benchmark: defaultdict[str, set[ConversationKey]] = defaultdict(set)
    for row in rows:
        by_benchmark[row.benchmark].add(key_of(row))
    if not by_benchmark:  # an order without rows would mean everything
        raise CrosswindError("no conversation is named")
    return {name: frozenset(keys) for name, keys in by_benchmark.items()}


SHORT_S: Final = 5.0
"""Seconds that calls may wait before that is a pause."""
FIRST_S: Final = 60.0
"""Seconds until a pause is said again, which are doubled each time."""
LONGEST_S: Final = 3600.0
_TRIED_S: Final = 15.0
"""Seconds without a wait after which it is over: none is seen during the next try itself."""


@dataclass(slots=True)
class _Pause:
    words: str
    since: float
    seen: float
    due: float
    interval: float = 0.0
    """Seconds between the last two times that it was said; 0 if it was not yet said."""


class PauseNews:
    """Hears the board of an engine again and again, with the seconds of a steady clock."""

    def __init__(self, *, questions: bool = True) -> None:
        """`questions` are pauses, too, unless they are asked in another way."""
        self._questions = questions
        self._pauses: dict[tuple[PauseKind, str], _Pause] = {}

    def hear(self, board: Board, now: float) -> Iterator[str]:
        """Yield a line for each pause that has begun, goes on or is over."""
        for key, words in board.pauses.items():
            if key[0] is PauseKind.ASKED and not self._questions:
                continue
            begins = now + SHORT_S if key[0] is PauseKind.WAITS else now
            pause = self._pauses.setdefault(key, _Pause(words, now, now, begins))
            pause.words, pause.seen = words, now
            if now >= pause.due:
                still = f"still, after {_elapsed(now - pause.since)}: " if pause.interval else ""
                pause.interval = min(2 * pause.interval or FIRST_S, LONGEST_S)
                pause.due = now + pause.interval
                yield f"held up: {still}{words}"
        for key, pause in list(self._pauses.items()):
            if now - pause.seen > (_TRIED_S if key[0] is PauseKind.WAITS else 0):
                del self._pauses[key]
                if pause.interval:
                    yield f"over, after {_elapsed(pause.seen - pause.since)}: {pause.words}"


def _elapsed(seconds: float) -> str:
    if seconds < 120:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 7200 else f"{seconds / 3600:.0f} h"
