"""The matrix: which fault strikes which kind of call and when, and what must come of it."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final

from engine.benchmark import Role
from tests.protocol_server.faults import Detail, Fault, When, always, first, middle
from tests.protocol_server.request import Request
from tests.protocol_server.server import ProtocolServer


class Kind(StrEnum):
    """The kinds of call that a run makes."""

    METRICS = "metrics"
    SCENARIOS = "scenarios"
    USER = "user"
    TARGET = "target"
    VERDICT = "verdict"

    @property
    def role(self) -> Role:
        return _ROLES[self]

    @property
    def shaped(self) -> bool:
        """Whether an answer of a given shape is asked for."""
        return self is not Kind.TARGET


_ROLES: Final = {
    Kind.METRICS: Role.GENERATOR,
    Kind.SCENARIOS: Role.GENERATOR,
    Kind.USER: Role.USER,
    Kind.TARGET: Role.TARGET,
    Kind.VERDICT: Role.EVALUATOR,
}


class Moment(StrEnum):
    """When a fault strikes."""

    FIRST = "first"
    MIDDLE = "middle"
    """With something said before: in the second turn, or where a row's call is asked again."""
    ALWAYS = "always"


class Sort(StrEnum):
    """What a fault must lead to."""

    PASSING = "passing"
    """Tried again; the row fails only where it never ends."""
    REFUSED_REQUEST = "refused_request"
    """The row fails at once. Where a shape was asked for, it is asked for in another form first."""
    OVERSIZED = "oversized"
    ANSWER = "answer"
    """The model's own end of its reply: kept as it is, never asked for again, except that an answer
    of a given shape which a limit cut is asked for once more."""
    MISSHAPEN = "misshapen"
    """Asked again with what was wrong."""
    HARMLESS = "harmless"


SORTS: Final = {
    Fault.REQUEST_TIMEOUT: Sort.PASSING,
    Fault.CONFLICT: Sort.PASSING,
    Fault.SERVER_ERROR: Sort.PASSING,
    Fault.UNAVAILABLE: Sort.PASSING,
    Fault.OVERLOADED: Sort.PASSING,
    Fault.RATE_LIMITED: Sort.PASSING,
    Fault.RATE_LIMITED_SECONDS: Sort.PASSING,
    Fault.RATE_LIMITED_DATE: Sort.PASSING,
    Fault.RATE_LIMITED_LONG: Sort.PASSING,
    Fault.ERROR_EVENT: Sort.PASSING,
    Fault.RESET: Sort.PASSING,
    Fault.RESET_MIDWAY: Sort.PASSING,
    Fault.CUT_MIDWAY: Sort.PASSING,
    Fault.NO_FINISH: Sort.PASSING,
    Fault.HALF_EVENT: Sort.PASSING,
    Fault.BAD_JSON: Sort.PASSING,
    Fault.BAD_UTF8: Sort.PASSING,
    Fault.HTML: Sort.PASSING,
    Fault.EMPTY_BODY: Sort.PASSING,
    Fault.EMPTY_TEXT: Sort.PASSING,
    Fault.STALL: Sort.PASSING,
    Fault.STALL_MIDWAY: Sort.PASSING,
    Fault.STALL_WITH_PINGS: Sort.PASSING,
    Fault.DRIP: Sort.PASSING,
    Fault.BAD_REQUEST: Sort.REFUSED_REQUEST,
    Fault.UNPROCESSABLE: Sort.REFUSED_REQUEST,
    Fault.ECHOES_KEY: Sort.REFUSED_REQUEST,
    Fault.HUGE_REPLY: Sort.OVERSIZED,
    Fault.HUGE_EVENT: Sort.OVERSIZED,
    Fault.REFUSAL: Sort.ANSWER,
    Fault.CONTENT_FILTER: Sort.ANSWER,
    Fault.LENGTH: Sort.ANSWER,
    Fault.CONTEXT_FULL: Sort.ANSWER,
    Fault.WRONG_SCHEMA: Sort.MISSHAPEN,
    Fault.PROSE: Sort.MISSHAPEN,
    Fault.FENCED_JSON: Sort.HARMLESS,
    Fault.JSON_BODY: Sort.HARMLESS,
}
"""Every fault of one call. Those that concern a whole model have tests of their own."""

SILENT: Final = (Fault.STALL, Fault.STALL_MIDWAY, Fault.STALL_WITH_PINGS, Fault.DRIP)
"""Noticed by watching real time go by, so these are run apart, under a watch that is soon over."""
REFUSED: Final = tuple(fault for fault in SORTS if SORTS[fault] is Sort.REFUSED_REQUEST)
"""Where a shape is asked for these teach to ask in another form, which other rows then do too."""
SPOKEN: Final = tuple(fault for fault in SORTS if fault not in {*SILENT, *REFUSED})
PARKING: Final = (
    Fault.UNAUTHORIZED,
    Fault.PAYMENT_REQUIRED,
    Fault.FORBIDDEN,
    Fault.NOT_FOUND,
    Fault.REDIRECT,
)
"""After one of these no call to the model can succeed."""


def faults_of(kind: Kind, faults: tuple[Fault, ...]) -> tuple[Fault, ...]:
    """Those that can strike this kind of call."""
    shapes = {Sort.MISSHAPEN, Sort.HARMLESS}
    return tuple(fault for fault in faults if kind.shaped or SORTS[fault] not in shapes)


def survives(kind: Kind, fault: Fault, moment: Moment) -> bool:
    """Whether the row that is struck comes to its end all the same."""
    sort = SORTS[fault]
    if sort is Sort.HARMLESS or (sort is Sort.ANSWER and kind is Kind.TARGET):
        return True
    if sort is Sort.MISSHAPEN and kind is Kind.USER:
        # one that never gives the shape is asked in plain text in the next take
        return True
    if moment is Moment.ALWAYS or sort is Sort.OVERSIZED:
        return False
    if sort is Sort.ANSWER:
        return fault is Fault.LENGTH
    return kind.shaped or sort is not Sort.REFUSED_REQUEST


def mark(fault: Fault) -> str:
    """Stands in every text from which requests of a fault's row are known."""
    return f"[case {fault.value}]"


def is_marked(request: Request, fault: Fault, role: Role) -> bool:
    sign = mark(fault)
    return request.role is role and any(sign in message.text for message in request.messages)


@dataclass
class Orders:
    """Faults on order, and how often each has struck: one that never does would prove nothing."""

    server: ProtocolServer
    struck: Counter[tuple[Fault, str | None]] = field(default_factory=Counter)

    def order(self, kind: Kind, fault: Fault, moment: Moment, *, model: str | None = None) -> None:
        """For every call of the kind in the row of the fault; of all models or of one."""

        def concerns(request: Request) -> bool:
            named = model is None or request.model == model
            return named and is_marked(request, fault, kind.role)

        if moment is Moment.MIDDLE and kind not in {Kind.USER, Kind.TARGET}:
            # such a row is one call, which has a middle only where it is asked again
            self.server.plan(Fault.WRONG_SCHEMA, concerns, first)
        detail = Detail(after=2, every_ms=20)
        self.server.plan(fault, concerns, self._counted(fault, model, moment), detail)

    def _counted(self, fault: Fault, model: str | None, moment: Moment) -> When:
        when = {Moment.FIRST: first, Moment.MIDDLE: middle, Moment.ALWAYS: always}[moment]

        def hits(count: int) -> bool:
            hit = when.hits(count)
            self.struck[fault, model] += hit
            return hit

        return When(hits, when.in_midst)
