"""Classifies the reasons of failed rows, and says what a person can do about each kind."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from functools import lru_cache
from typing import Final

from engine.branches import Branch
from engine.progress import StateCorrection
from engine.store.reader import Reader
from engine.store.tables import StateRow


class KnownFailure(Enum):
    """A kind of failure: its name, the advice, and whether an unchanged retry can help."""

    REFUSED_KEY = (
        "the provider refuses the key or the account",
        "Mend apikey of this model in config.yaml or its variable in .env, or ask the provider "
        "what the account may use; then try again.",
        False,
    )
    NO_SUCH_MODEL = (
        "there is no such model at this address",
        "Mend model or base_url of this model in config.yaml, then try again.",
        False,
    )
    NO_CREDIT = (
        "the account has no credit",
        "Add credit or raise the limit at the provider, or take another account; then try again.",
        False,
    )
    WAY_BLOCKED = (
        "the server cannot be reached as things are configured",
        "Mend what the reason names: base_url in config.yaml, the proxy in HTTPS_PROXY, HTTP_PROXY "
        "and NO_PROXY, or the certificates that this system trusts; then try again.",
        False,
    )
    QUOTA_SPENT = (
        "a quota of the account is used up",
        "Try again at the time that the reason names, or when the quota has begun anew; or ask the "
        "provider for a larger one.",
        False,
    )
    TOO_BUSY = (
        "the provider has too much to do",
        "Try again later, or lower how many are played at once; nothing else is wrong.",
        True,
    )
    OUT_OF_REACH = (
        "the provider could not be reached",
        "Look at the network, at base_url, and at the proxy if the reason names one; "
        "`crosswind doctor` knocks at each door. Then try again.",
        True,
    )
    SILENT = (
        "the model fell silent",
        "Try again. If it comes back, the model may be too slow for the limits of time that are "
        "set for it.",
        True,
    )
    EMPTY_ANSWER = (
        "the answer was empty",
        "Try again. If it comes back, take another model, or see why a function of yours returns "
        "no text.",
        True,
    )
    WRONG_SHAPE = (
        "the answer had not the shape that was asked for",
        "Try again. If it comes back, this model is too weak for this role: take another one.",
        True,
    )
    WITHHELD = (
        "the model or its provider's filter refused to play its part",
        "Trying again seldom helps: read the scenario, soften it, or give this role to another "
        "model.",
        False,
    )
    CUT = (
        "the answer was cut at a limit of output",
        "Raise `max_tokens` of this model where it is set, or give this role to another model.",
        False,
    )
    TOO_LONG = (
        "it is longer than the model's context",
        "Trying again does not help: give this role to a model with more room.",
        False,
    )
    NO_REPLIES = (
        "what answers at this address gives no replies of a model",
        "Look at base_url in config.yaml: a web page may be there, another program, a gateway that "
        "is down, or a server that does not stream its replies. Then try again.",
        True,
    )
    BAD_REQUEST = (
        "the provider does not accept the request",
        "Read what it says: a parameter of this model in config.yaml is most likely not for it.",
        False,
    )
    LOCAL_SERVER = (
        "the server of a local model could not be started",
        "Read what it printed: its file may be damaged, or of a kind that the installed xllamacpp "
        "does not know. Name another file as model in config.yaml, or get it anew; then try again.",
        False,
    )
    PROVIDER_FAULT = (
        "the provider failed",
        "Try again; if it goes on for long, look at the provider's own status page.",
        True,
    )
    OTHER_MODEL = (
        "another model answered than the one that was asked",
        "Find out why the gateway falls back, then try again. Where that model is meant, name it "
        "as served_as; with served_model: any its replies are taken and marked.",
        True,
    )
    OWN_FAULT = (
        "a fault in Crosswind itself",
        "Try again; crosswind.log in the workspace says where it was, for whoever mends it.",
        True,
    )
    OTHER = ("other reasons", "Read the reason, mend what it names, and try again.", True)

    @property
    def name_in_words(self) -> str:
        return self.value[0]

    @property
    def advice(self) -> str:
        return self.value[1]

    @property
    def can_pass(self) -> bool:
        """Whether a retry may succeed although nothing was changed."""
        return self.value[2]


# in order of precedence, as a reason may fit several: one about an oversized reply says "too
# large", as those about contexts do
_SIGNS: Final = (
    (KnownFailure.OTHER_MODEL, r"another model answered"),
    (KnownFailure.OWN_FAULT, r"\bbug in Crosswind"),
    (KnownFailure.LOCAL_SERVER, r"its server could not be started"),
    (KnownFailure.WAY_BLOCKED, r"\bthe proxy (does not let|asks for)"),
    (
        KnownFailure.OUT_OF_REACH,
        r"could not be reached|no such host|network is down|no connection|connection refused"
        r"|proxy found no way",
    ),
    (
        KnownFailure.WAY_BLOCKED,
        r"redirects elsewhere|do not agree on TLS|expects TLS|\bcertificate",
    ),
    (
        KnownFailure.NO_CREDIT,
        r"no credit|credit balance|insufficient (credit|balance|quota)|\b402\b",
    ),
    (
        KnownFailure.REFUSED_KEY,
        r"key was refused|may not use this model|\b40[13]:"
        r"|\bthe variable \w+ is (not set|set, but)",
    ),
    (
        KnownFailure.NO_SUCH_MODEL,
        r"no such model|no longer offered|address .{1,30} is wrong|\b404:",
    ),
    (KnownFailure.QUOTA_SPENT, r"quota is used up"),
    (KnownFailure.TOO_BUSY, r"rate limit|overloaded|\b429\b|\b529\b"),
    (KnownFailure.SILENT, r"fell silent|stalled|no (first )?token"),
    (
        KnownFailure.NO_REPLIES,
        r"reply is too large|is not valid HTTP|something that is no reply",
    ),
    (KnownFailure.CUT, r"answer was cut|output limit"),
    (
        KnownFailure.TOO_LONG,
        r"context|longer than|too large|\b413\b",
    ),
    (KnownFailure.WITHHELD, r"refused to (answer|play)|filter\b|withheld"),
    (KnownFailure.EMPTY_ANSWER, r"answered with nothing"),
    (
        KnownFailure.WRONG_SHAPE,
        r"and its answer|shape|answered with no\b|not (valid )?json",
    ),
    (KnownFailure.BAD_REQUEST, r"was not accepted|max_tokens is more|\b400:"),
    (
        KnownFailure.PROVIDER_FAULT,
        r"server|connection broke|broke off|\b5\d\d\b",
    ),
)
_COMPILED: Final = tuple((kind, re.compile(sign, re.IGNORECASE)) for kind, sign in _SIGNS)
READ_AT_MOST: Final = 600
"""The most characters of a reason that are examined: longer text from servers is not specific."""


_SAID: Final = re.compile(r"\([^()]*\)?")
"""Parenthesised quotes of other programs; unclosed where the reason was cut."""


_NAME: Final = re.compile(
    r"\A(?!\d{3}:)(?:(?:target \S{1,200}|user model|evaluator|generator|checker)"
    r"(?: \([^()]{1,200}\))?|\S{1,200}): "
)
"""Whose model failed, at the beginning of a reason; only its label, which may be `long-context` or
`budget`, where an older version wrote it."""


def failed_model(reason: str) -> str:
    """`target alpha (gpt-4o)`: whose model failed, as a reason says; empty if it does not."""
    match = _NAME.match(reason)
    return "" if match is None else match[0].removesuffix(": ")


@lru_cache(1024)
def failure_kind(reason: str) -> KnownFailure:
    """The first kind whose pattern matches, in our own words or else in those of the server."""
    head = _NAME.sub("", reason[:READ_AT_MOST], count=1)
    # without what other programs said first: their words may name anything
    for text in (_SAID.sub("", head), head):
        for kind, sign in _COMPILED:
            if sign.search(text):
                return kind
    return KnownFailure.OTHER


@dataclass(frozen=True, slots=True)
class FailureGroup:
    """All rows that failed for reasons of one kind, in the order in which they failed."""

    kind: KnownFailure
    units: Sequence[StateRow]

    @property
    def models(self) -> Mapping[str, Sequence[StateRow]]:
        """The rows by whose model failed; by an empty name where the reason does not say."""
        units_of: defaultdict[str, list[StateRow]] = defaultdict(list)
        for unit in self.units:
            units_of[failed_model(unit.reason or "")].append(unit)
        return units_of


def grouped(failed: Iterable[StateRow]) -> list[FailureGroup]:
    """Group failures in the order of `KnownFailure`: what a person must fix comes first."""
    groups: dict[KnownFailure, list[StateRow]] = {kind: [] for kind in KnownFailure}
    for unit in failed:
        groups[failure_kind(unit.reason or "")].append(unit)
    return [FailureGroup(kind, units) for kind, units in groups.items() if units]


def may_pass(groups: Iterable[FailureGroup]) -> int:
    """How many of these rows may succeed in another try although nothing was changed."""
    return sum(len(group.units) for group in groups if group.kind.can_pass)


def standing_failures(
    reader: Reader,
    benchmarks: Collection[str],
    targets: Collection[str],
    corrections: Mapping[str, Sequence[StateCorrection]],
) -> list[FailureGroup]:
    """Current failures of these benchmarks and their branches, without those of targets that are
    configured no more; no `targets` at all means that they are not known yet. `corrections`, by
    benchmark, are of rows that are not in their stored state. The one source for all reports of
    failures. Raises `StoreError`."""
    over = {(row.benchmark, row.stage, row.unit) for rows in corrections.values() for row in rows}

    def asked(unit: StateRow) -> bool:
        branch = Branch.parse(unit.benchmark)
        name = unit.benchmark if branch is None else branch.benchmark
        return (
            name in benchmarks
            and (not targets or unit.target is None or unit.target in targets)
            and (unit.benchmark, unit.stage, unit.unit) not in over
        )

    return grouped(unit for unit in reader.failed_units() if asked(unit))
