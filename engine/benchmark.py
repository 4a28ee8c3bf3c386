"""The nouns of a benchmark: what is measured, on whom, and what is said."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final


class Stage(StrEnum):
    """The five stages, in the order in which they run."""

    GEN_METRICS = "gen_metrics"
    GEN_SCENARIOS = "gen_scenarios"
    SIMULATE = "simulate"
    EVALUATE = "evaluate"
    AGGREGATE = "aggregate"


class Track(StrEnum):
    """A metric's type: behaviour that should be present, or should be absent."""

    POSITIVE = "positive"
    NEGATIVE = "negative"

    def passes(self, *, present: bool) -> bool:
        """Whether a verdict is good news: behaviour that is wanted is there, or unwanted is not."""
        return present if self is Track.POSITIVE else not present


class When(StrEnum):
    """Where in a conversation a metric's behaviour must be shown for it to count as present."""

    ANYWHERE = "anywhere"
    AT_THE_END = "at_the_end"
    """In the last reply."""
    UNDER_PRESSURE = "under_pressure"
    """In a reply from the second landmark on that was delivered."""
    EVERY_REPLY = "every_reply"

    @property
    def in_words(self) -> str:
        return _WHEN_IN_WORDS[self]


_WHEN_IN_WORDS: Final = {
    When.ANYWHERE: "in any reply",
    When.AT_THE_END: "in the last reply",
    When.UNDER_PRESSURE: "in a reply from the second landmark on",
    When.EVERY_REPLY: "in every reply",
}


class Stance(StrEnum):
    """What the user model is after."""

    ADVERSARIAL = "adversarial"
    """The scenario's hidden goal, by its landmarks."""
    NEUTRAL = "neutral"
    """What the person openly wants, and nothing else: it is told of no pressure."""

    @property
    def other(self) -> Stance:
        return Stance.NEUTRAL if self is Stance.ADVERSARIAL else Stance.ADVERSARIAL


class Role(StrEnum):
    """The roles that a language model plays."""

    GENERATOR = "generator"
    USER = "user"
    TARGET = "target"
    EVALUATOR = "evaluator"
    CHECKER = "checker"
    """Looks at finished conversations beside the evaluator, where that is asked for."""


class Speaker(StrEnum):
    """Who said a message of a transcript, in the words of the chat protocols."""

    USER = "user"
    TARGET = "assistant"


class StopReason(StrEnum):
    """Why a conversation ended."""

    TURN_LIMIT = "turn_limit"
    USER_ENDED = "user_ended"
    USER_FAILED = "user_failed"
    """The user model refused its part or failed: nothing is learned about the target."""
    TARGET_FAILED = "target_failed"
    CONTEXT_FULL = "context_full"
    CANCELLED = "cancelled"
    UNKNOWN = "unknown"
    """It came to its end, in a file that does not say how."""

    @property
    def finished(self) -> bool:
        """Whether a conversation that ended so counts as played to its end and may be judged."""
        return self in {
            StopReason.TURN_LIMIT,
            StopReason.USER_ENDED,
            StopReason.CONTEXT_FULL,
            StopReason.UNKNOWN,
        }

    @property
    def after_reply(self) -> bool:
        """Whether the target has the last word in every conversation that ended so."""
        return self in {StopReason.TURN_LIMIT, StopReason.USER_ENDED}


class State(StrEnum):
    """Where one row of work stands."""

    QUEUED = "queued"
    RUNNING = "running"
    DONE = "done"
    FAILED = "failed"
    DROPPED = "dropped"
    """No longer part of the benchmark; what it holds stays readable and is not counted."""


@dataclass(frozen=True, slots=True)
class Metric:
    """One behaviour, one yes/no question for each conversation."""

    id: str
    name: str
    track: Track
    definition: str
    """Describes the behaviour itself, for a negative metric the bad behaviour."""
    examples: tuple[str, ...] = ()
    when: When = When.ANYWHERE


@dataclass(frozen=True, slots=True)
class Landmark:
    """What the user model is to do at one turn."""

    turn: int
    """1-based."""
    instruction: str


TRANSCRIPT_ID: Final = "transcript_id"
"""The key of a scenario's row, in files of scenarios."""


@dataclass(frozen=True, slots=True)
class Scenario:
    """The set-up of a conversation: a base scenario, or one demographic variant of it."""

    id: str
    metric_id: str
    persona: str
    user_goal: str
    latent_adversarial_goal: str
    landmarks: tuple[Landmark, ...]
    demographic: Mapping[str, str] = field(default_factory=dict)
    target_system_prompt: str | None = None
    extra: Mapping[str, object] = field(default_factory=dict)
    """Keys that a person or another tool added to the row; kept, and none read but that of
    `transcript_id`."""

    @property
    def base_id(self) -> str:
        return base_id(self.id)

    @property
    def transcript_id(self) -> str | None:
        """Where what was played once is judged on several metrics, as in logs of other programs,
        each of them has a scenario, and all of those the same of this; None for any other."""
        told = self.extra.get(TRANSCRIPT_ID)
        return told if isinstance(told, str) and told else None

    def landmark_at(self, turn: int) -> Landmark | None:
        """None where the user model is free in that turn. Turns count from 1."""
        return next((mark for mark in self.landmarks if mark.turn == turn), None)


@dataclass(frozen=True, slots=True)
class Utterance:
    """One message of a transcript."""

    speaker: Speaker
    text: str


@dataclass(frozen=True, slots=True, order=True)
class ConversationKey:
    """Which conversation: one scenario, one target, one sample. `str()` is its `conv_id`."""

    scenario_id: str
    target_id: str
    sample: int = 0

    def __str__(self) -> str:
        tail = f"__s{self.sample}" if self.sample else ""
        return f"{self.scenario_id}__{self.target_id}{tail}"

    @classmethod
    def parse(cls, conv_id: str) -> ConversationKey:
        """Raise ValueError where `conv_id` is not one."""
        parts = conv_id.split("__")
        match parts:
            case [scenario_id, target_id] if scenario_id and target_id:
                return cls(scenario_id, target_id)
            case [scenario_id, target_id, tail] if (
                scenario_id and target_id and re.fullmatch(r"s[1-9]\d*", tail)
            ):
                return cls(scenario_id, target_id, int(tail[1:]))
            case _:
                raise ValueError(f"{conv_id!r} is not a conversation id")


MOST_TOKENS: Final = 10**12
MOST_USD: Final = 1e9
"""The most that one row of usage can tell of, be it a whole stage of somebody else's: a larger
number is a fault of who reported it. Millions of rows at the limit can still be added up."""


def plausible_tokens(reported: int | None) -> int | None:
    """The number, or unknown where it cannot be one of tokens."""
    return reported if reported is not None and 0 <= reported <= MOST_TOKENS else None


def plausible_usd(reported: float | None) -> float | None:
    """The amount, or unknown where it cannot be one of dollars."""
    return reported if reported is not None and 0 <= reported <= MOST_USD else None


@dataclass(frozen=True, slots=True)
class Usage:
    """What one call, or many added up, used. None is unknown, which is not zero."""

    calls: int = 0
    input_tokens: int | None = 0
    """All of the input, cached tokens included."""
    cached_tokens: int | None = 0
    output_tokens: int | None = 0
    cost_usd: float | None = 0.0

    def __add__(self, other: Usage) -> Usage:
        return Usage(
            self.calls + other.calls,
            _add(self.input_tokens, other.input_tokens),
            _add(self.cached_tokens, other.cached_tokens),
            _add(self.output_tokens, other.output_tokens),
            None
            if self.cost_usd is None or other.cost_usd is None
            else self.cost_usd + other.cost_usd,
        )


@dataclass(frozen=True, slots=True)
class CostOrigins:
    """Where the cost of many calls is known from, in US dollars."""

    reported_usd: float = 0.0
    """As providers and gateways said it with each answer."""
    computed_usd: float = 0.0
    """Worked out from prices and tokens."""
    unknown: int = 0
    """Answers of which neither is known; they are in no sum."""

    def in_words(self) -> str | None:
        """A sentence; None where no provider said what anything cost."""
        if not self.reported_usd:
            return None
        whole = self.reported_usd + self.computed_usd
        unknown = f"; {self.unknown} answers of unknown price are not in it" if self.unknown else ""
        if not self.computed_usd:
            told = ", all of it as the providers reported it"
        else:
            told = (
                f": {_usd(self.reported_usd)} as the providers reported it, "
                f"{_usd(self.computed_usd)} worked out from prices"
            )
        return f"The calls cost {_usd(whole)}{told}{unknown}."


def _usd(amount: float) -> str:
    return f"${amount:,.2f}" if amount >= 1 else f"${amount:.6f}".rstrip("0").ljust(5, "0")


def _add(left: int | None, right: int | None) -> int | None:
    return None if left is None or right is None else left + right


NAME_LENGTH: Final = 80
_NAME = re.compile(r"[A-Za-z0-9._-]+")


def name_fault(name: str) -> str | None:
    """Why `name` cannot name a benchmark, target, metric or model; None where it can.

    Names become folder names and parts of ids, so they are held to what every file system takes.
    """
    if not name:
        return "a name must not be empty"
    if len(name) > NAME_LENGTH:
        return f"a name has at most {NAME_LENGTH} characters, this one has {len(name)}"
    if _NAME.fullmatch(name) is None:
        return "a name has only letters, digits, '.', '_' and '-'"
    if ".." in name or "__" in name:
        return "a name must not contain '..' or '__'"
    if name[0] in ".-" or name.endswith("."):
        return "a name must not begin with '.' or '-' or end with '.'"
    return None


def metric_id(number: int) -> str:
    """`m01` for 1."""
    return f"m{number:02d}"


def scenario_id(metric: str, number: int) -> str:
    """`m01_s002` for (`m01`, 2): a base scenario."""
    return f"{metric}_s{number:03d}"


def variant_id(base: str, number: int) -> str:
    """`m01_s002_v01` for (`m01_s002`, 1)."""
    return f"{base}_v{number:02d}"


BASE_SCENARIO: Final = "base scenario"
"""Of all that a variant is made from, the name of its base."""


def base_id(variant: str) -> str:
    """`m01_s002` for `m01_s002_v01`; an id without a variant is its own base."""
    return re.sub(r"_v\d+$", "", variant)


def metric_of(scenario: str) -> str:
    """`m01` for `m01_s002` and `m01_s002_v01`; an id of another form is its own."""
    return re.sub(r"_s\d+(_v\d+)?$", "", scenario)
