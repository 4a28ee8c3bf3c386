"""What providers' words mean, as `vendors.txt` says: the only place that knows them. Pure."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from enum import Enum
from functools import cache, lru_cache
from importlib import resources
from typing import Final, NamedTuple

from engine.providers.failures import FailureKind
from engine.providers.http.transport import SPEAKS_TLS

_BAD: Final = frozenset({400, 422})
_BAD_OR_KEY: Final = frozenset({400, 401, 403, 422})
_ONLY_IN_STREAM: Final = frozenset[int]()


class Meaning(Enum):
    """What words mean, in a few of our own, of which kind an error with them is, and the statuses
    beside which they mean it (None: any); beside a success, as in a stream, they always do. In
    order of precedence, as one answer may hold the words of several."""

    # before all: providers say it with the status of a rate limit, and waiting would be in vain
    NO_CREDIT = "the account has no credit", FailureKind.FATAL_TARGET, None
    WRONG_KEY = "the key was refused", FailureKind.FATAL_TARGET, _BAD_OR_KEY
    NO_STREAM = "the model may not be streamed", FailureKind.FATAL_TARGET, _BAD_OR_KEY
    NO_MODEL = "there is no such model", FailureKind.FATAL_TARGET, _BAD
    NEEDS_TLS = SPEAKS_TLS, FailureKind.FATAL_TARGET, _BAD
    CONTEXT_FULL = (
        "the conversation no longer fits into the context",
        FailureKind.CONTEXT_FULL,
        frozenset({400, 413, 422}),
    )
    FILTERED = (
        "the provider's filter withheld the answer",
        FailureKind.FILTERED,
        frozenset({400, 403, 422, 451}),
    )
    QUOTA_SPENT = "the quota is used up", FailureKind.QUOTA_SPENT, frozenset({429})
    TOO_LARGE = (
        "more than the limit of a minute",
        FailureKind.FATAL_REQUEST,
        frozenset({413, 429}),
    )
    OVERLOADED = "the server is overloaded", FailureKind.OVERLOADED, None
    NO_SYSTEM = (
        "there is no system role",
        FailureKind.FATAL_REQUEST,
        frozenset({400, 422, 424, 500}),
    )
    NO_REASONING = "earlier reasoning may not be sent", FailureKind.FATAL_REQUEST, _BAD
    WANTS_REASONING = "earlier reasoning must be sent", FailureKind.FATAL_REQUEST, _BAD
    RATE_LIMITED = "rate limit", FailureKind.RATE_LIMITED, _ONLY_IN_STREAM
    BAD_REQUEST = "the request was not accepted", FailureKind.FATAL_REQUEST, _ONLY_IN_STREAM
    # how a reply ended, besides two of the above
    ENDED = "the reply is complete", None, _ONLY_IN_STREAM
    CUT = "the reply was cut at its limit", None, _ONLY_IN_STREAM
    REFUSED = "the model refused", None, _ONLY_IN_STREAM
    BROKE_OFF = "the server broke the reply off", None, _ONLY_IN_STREAM
    GOES_ON = "no end, more may come", None, _ONLY_IN_STREAM

    @property
    def words(self) -> str:
        words: str = self.value[0]
        return words

    @property
    def kind(self) -> FailureKind | None:
        """None for what is said of ends alone."""
        kind: FailureKind | None = self.value[1]
        return kind

    @property
    def statuses(self) -> frozenset[int] | None:
        statuses: frozenset[int] | None = self.value[2]
        return statuses

    def counts_beside(self, status: int | None) -> bool:
        statuses = self.statuses
        return statuses is None or status is None or status < 300 or status in statuses


_FINISH: Final = "finish:"
_CODE: Final = re.compile(r"[A-Za-z0-9_.-]+")


class VendorWords(NamedTuple):
    """A line of the table."""

    vendor: str
    meaning: Meaning
    words: str
    example: str = ""
    status: int | None = None
    """The only status beside which they mean this; None for those of the meaning."""

    @property
    def is_code(self) -> bool:
        return _CODE.fullmatch(self.words) is not None

    @property
    def is_end(self) -> bool:
        return self.words.startswith(_FINISH)

    def counts_beside(self, status: int | None) -> bool:
        if self.status is not None:
            return status == self.status
        return self.meaning.counts_beside(status)


def _line(text: str) -> VendorWords:
    vendor, meaning, words, *more = (cell.strip() for cell in text.split(" | "))
    example, status = [*more, "", ""][:2]
    known = Meaning[meaning.upper().replace(" ", "_")]
    return VendorWords(vendor, known, words, example, int(status) if status else None)


@cache  # read with the first reply or failure, and not by every command
def table() -> Sequence[VendorWords]:
    """Return all lines of `vendors.txt`."""
    text = resources.files(__package__).joinpath("vendors.txt").read_text("utf-8")
    lines = (line.strip() for line in text.splitlines())
    return tuple(_line(line) for line in lines if line and not line.startswith("#"))


_ORDER: Final = {meaning: place for place, meaning in enumerate(Meaning)}
_GAP: Final = ".{0,200}?"
"""What `…` stands for; bounded, so that no server's message can make a search slow."""


@cache
def _codes() -> Mapping[str, VendorWords]:
    return {line.words.lower(): line for line in table() if line.is_code}


@cache
def _ends() -> Mapping[str, Meaning]:
    ends = (line for line in table() if line.is_end)
    return {line.words.removeprefix(_FINISH).strip(): line.meaning for line in ends}


@cache
def phrases() -> Mapping[tuple[Meaning, int | None], re.Pattern[str]]:
    """Return an expression for all phrases of a meaning beside a status."""
    found: defaultdict[tuple[Meaning, int | None], list[str]] = defaultdict(list)
    for line in table():
        if not (line.is_code or line.is_end):
            parts = map(re.escape, line.words.strip("…").split("…"))
            found[line.meaning, line.status].append(_GAP.join(parts))
    flags = re.IGNORECASE | re.DOTALL
    return {kind: re.compile("|".join(each), flags) for kind, each in found.items()}


def meaning_of_error(codes: Iterable[str], message: str, status: int | None) -> Meaning | None:
    """Return what an error means, by its types and codes, in lower case, and its message; None if
    no words of it are known."""
    known = _codes()
    lines = [known[code] for code in codes if code in known]
    lines += [
        VendorWords("", meaning, "", status=only)
        for (meaning, only), pattern in phrases().items()
        if pattern.search(message)
    ]
    meanings = (line.meaning for line in lines if line.counts_beside(status))
    return min(meanings, key=_ORDER.__getitem__, default=None)


@lru_cache(64)
def meaning_of_end(reason: str) -> Meaning:
    """Return what a reason for which a reply ended means: any that is unknown, `ENDED`."""
    reason = reason.strip().lower()
    # some gateways write their provider's own reason behind theirs
    head, _, tail = reason.partition(":")
    known = (_ends().get(word.strip()) for word in (reason, head, tail))
    return next((meaning for meaning in known if meaning is not None), Meaning.ENDED)
