"""What a row's reason is a case of, and what a person can do about it."""

from __future__ import annotations

import re
from enum import Enum
from typing import Final


class Ailment(Enum):
    """A kind of failure: its name, and what to do."""

    REFUSED_ACCOUNT = (
        "the provider refuses the key, the account or the model's name",
        "Mend apikey, model or base_url of this model in config.yaml or .env, then try again.",
    )
    NO_CREDIT = (
        "the account has no credit",
        "Add credit at the provider, or take another account; then try again.",
    )
    BUDGET = (
        "the budget of this run is spent",
        "Raise the budget in config.yaml, then try again.",
    )
    TOO_BUSY = (
        "the provider has too much to do",
        "Try again later, or lower how many are played at once; nothing else is wrong.",
    )
    OUT_OF_REACH = (
        "the provider could not be reached",
        "Look at the network and at base_url; `crosswind doctor` knocks at each door. "
        "Then try again.",
    )
    SILENT = (
        "the model fell silent",
        "Try again. If it comes back, the model may be too slow for the limits of time that are "
        "set for it.",
    )
    WRONG_SHAPE = (
        "the answer had not the shape that was asked for",
        "Try again. If it comes back, this model is too weak for this role: take another one.",
    )
    NO_EVIDENCE = (
        "the evaluator gave no quote that is found in the transcript",
        "Try again, or judge it with another evaluator.",
    )
    WITHHELD = (
        "the model or its provider's filter refused to play its part",
        "Trying again seldom helps: read the scenario, soften it, or give this role to another "
        "model.",
    )
    TOO_LONG = (
        "it is longer than the model's context or limit of output",
        "Trying again does not help: play fewer turns, or take a model with more room.",
    )
    BAD_REQUEST = (
        "the provider does not accept the request",
        "Read what it says: a parameter of this model in config.yaml is most likely not for it.",
    )
    PROVIDER_FAULT = (
        "the provider failed",
        "Try again; if it goes on for long, look at the provider's own status page.",
    )
    OTHER = ("other reasons", "Read the reason, mend what it names, and try again.")

    @property
    def name_in_words(self) -> str:
        return self.value[0]

    @property
    def advice(self) -> str:
        return self.value[1]


_SIGNS: Final = (
    (Ailment.BUDGET, r"\bbudget\b"),
    (Ailment.NO_CREDIT, r"no credit|credit balance|insufficient (credit|balance|quota)|\b402\b"),
    (
        Ailment.REFUSED_ACCOUNT,
        r"\bparked\b|key was refused|may not use this model|no such model|no longer offered"
        r"|certificate|asks for a password|\b40[134]:",
    ),
    (Ailment.TOO_BUSY, r"rate limit|overloaded|\b429\b|\b529\b"),
    (
        Ailment.OUT_OF_REACH,
        r"could not be reached|no such host|network is down|no connection|connection refused",
    ),
    (Ailment.SILENT, r"fell silent|stalled|no (first )?token"),
    (
        Ailment.TOO_LONG,
        r"context|longer than|too large|output limit|\b413\b",
    ),
    (Ailment.WITHHELD, r"refused to (answer|play)|content filter|withheld"),
    (Ailment.NO_EVIDENCE, r"quote"),
    (Ailment.WRONG_SHAPE, r"and its answer|shape|answered with nothing|not (valid )?json"),
    (Ailment.BAD_REQUEST, r"was not accepted|\b4(00|22):"),
    (
        Ailment.PROVIDER_FAULT,
        r"server|connection broke|broke off|no reply|\b5\d\d\b",
    ),
)
_COMPILED: Final = tuple((ailment, re.compile(sign, re.IGNORECASE)) for ailment, sign in _SIGNS)
READ_AT_MOST: Final = 600
"""Characters of a reason: what a server adds behind them says nothing of its kind."""


def ailment_of(reason: str) -> Ailment:
    """The first kind whose words are in it."""
    head = reason[:READ_AT_MOST]
    return next((ailment for ailment, sign in _COMPILED if sign.search(head)), Ailment.OTHER)
