"""The nouns of a benchmark: what is measured, on which models, and who says what."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from functools import lru_cache
from typing import Final

UNKNOWN: Final = "unknown"
"""What an imported file does not say, such as the model that played or judged."""


class Stage(StrEnum):
    """The five stages, in the order in which they run."""

    GEN_METRICS = "gen_metrics"
    GEN_SCENARIOS = "gen_scenarios"
    SIMULATE = "simulate"
    EVALUATE = "evaluate"
    AGGREGATE = "aggregate"


class Track(StrEnum):
    """A metric's type: whether its behaviour is wanted or unwanted."""

    POSITIVE = "positive"
    NEGATIVE = "negative"

    def passes(self, *, present: bool) -> bool:
        """Whether a verdict is a pass: a wanted behaviour is present, an unwanted one is absent."""
        return present if self is Track.POSITIVE else not present

    @property
    def sign(self) -> str:
        return "+" if self is Track.POSITIVE else "−"


class When(StrEnum):
    """Which replies must show a metric's behaviour for it to count as present."""

    ANYWHERE = "anywhere"
    AT_THE_END = "at_the_end"
    """In the last reply."""
    UNDER_PRESSURE = "under_pressure"
    """In any reply from the turn of the second reached landmark on."""
    EVERY_REPLY = "every_reply"

    @property
    def in_words(self) -> str:
        return _WHEN_IN_WORDS[self]

    @property
    def condition(self) -> str:
        """`counts only if shown in the last reply`; empty where any reply will do."""
        return "" if self is When.ANYWHERE else f"counts only if shown {self.in_words}"


_WHEN_IN_WORDS: Final = {
    When.ANYWHERE: "in any reply",
    When.AT_THE_END: "in the last reply",
    When.UNDER_PRESSURE: "in a reply from the second reached landmark on",
    When.EVERY_REPLY: "in every reply",
}


class Stance(StrEnum):
    """What the user model pursues in a conversation."""

    ADVERSARIAL = "adversarial"
    """The scenario's hidden goal, pressed for through its landmarks."""
    NEUTRAL = "neutral"
    """Only the person's open goal; the user model is told of no hidden goal and no landmark."""

    @property
    def other(self) -> Stance:
        return Stance.NEUTRAL if self is Stance.ADVERSARIAL else Stance.ADVERSARIAL


class AnswerForm(StrEnum):
    """How the user model is asked for a message."""

    JSON = "json"
    """For its thought, its message and whether it leaves, in JSON."""
    PLAIN = "plain"
    """With a short prompt for the message alone, for small models; it plays all turns."""


class Role(StrEnum):
    """The roles that a language model plays."""

    GENERATOR = "generator"
    USER = "user"
    TARGET = "target"
    EVALUATOR = "evaluator"
    CHECKER = "checker"
    """Runs the optional checks on finished conversations, beside the evaluator."""


class Speaker(StrEnum):
    """Who said a message of a transcript; the values are the role names of the chat protocols."""

    USER = "user"
    TARGET = "assistant"


class StopReason(StrEnum):
    """Why a conversation ended."""

    TURN_LIMIT = "turn_limit"
    USER_ENDED = "user_ended"
    USER_FAILED = "user_failed"
    """The user model refused its part or failed, so nothing is learned about the target."""
    TARGET_FAILED = "target_failed"
    CONTEXT_FULL = "context_full"
    CANCELLED = "cancelled"
    UNKNOWN = "unknown"
    """The conversation is complete, but the imported file does not say why it ended."""

    @property
    def finished(self) -> bool:
        """Whether a conversation with this reason counts as complete and may be judged."""
        return self in {
            StopReason.TURN_LIMIT,
            StopReason.USER_ENDED,
            StopReason.CONTEXT_FULL,
            StopReason.UNKNOWN,
        }

    @property
    def after_reply(self) -> bool:
        """Whether the last message of a conversation with this reason is always the target's."""
        return self in {StopReason.TURN_LIMIT, StopReason.USER_ENDED}


ENDINGS: Final = {
    StopReason.TURN_LIMIT: "all turns played",
    StopReason.USER_ENDED: "the user model ended it",
    StopReason.USER_FAILED: "the user model failed",
    StopReason.TARGET_FAILED: "the target failed",
    StopReason.CONTEXT_FULL: "the target's context is full",
    StopReason.CANCELLED: "cancelled",
    StopReason.UNKNOWN: "the imported file does not say how",
}
"""Why a conversation ended, in words."""


class State(StrEnum):
    """The state of one row of work."""

    QUEUED = "queued"
    RUNNING = "running"
    DONE = "done"
    FAILED = "failed"
    DROPPED = "dropped"
    """No longer part of the benchmark; its results stay readable and are not counted."""


@dataclass(frozen=True, slots=True)
class Metric:
    """One behaviour, asked about as one yes/no question for each conversation."""

    id: str
    name: str
    track: Track
    definition: str
    """Describes the behaviour itself; for a negative metric, the unwanted one."""
    examples: tuple[str, ...] = ()
    when: When = When.ANYWHERE

    @property
    def meaning(self) -> str:
        """The definition, and which replies count if not any will do."""
        condition = self.when.condition
        return f"{self.definition.rstrip()} It {condition}." if condition else self.definition


@dataclass(frozen=True, slots=True)
class Landmark:
    """What the user model is told to do at one turn."""

    turn: int
    """1-based."""
    instruction: str


TRANSCRIPT_ID: Final = "transcript_id"
"""A key that files of scenarios may add to a row; see `Scenario.transcript_id`."""


@dataclass(frozen=True, slots=True)
class Scenario:
    """The setup of a conversation: a base scenario, or one demographic variant of it."""

    id: str
    metric_id: str
    persona: str
    user_goal: str
    latent_adversarial_goal: str
    landmarks: tuple[Landmark, ...]
    demographic: Mapping[str, str] = field(default_factory=dict)
    target_system_prompt: str | None = None
    extra: Mapping[str, object] = field(default_factory=dict)
    """Keys that a person or another tool added to the row. They are kept; only `transcript_id` is
    read."""

    @property
    def base_id(self) -> str:
        return base_id(self.id)

    @property
    def transcript_id(self) -> str | None:
        """An id shared by the scenarios of one imported transcript that is judged on several
        metrics (each metric needs a scenario of its own); None for all other scenarios."""
        value = self.extra.get(TRANSCRIPT_ID)
        return value if isinstance(value, str) and value else None

    def landmark_at(self, turn: int) -> Landmark | None:
        """The landmark of a turn, counted from 1; None where the user model may speak freely."""
        return next((mark for mark in self.landmarks if mark.turn == turn), None)


@dataclass(frozen=True, slots=True)
class Utterance:
    """One message of a transcript."""

    speaker: Speaker
    text: str


@dataclass(frozen=True, slots=True, order=True)
class ConversationKey:
    """Identifies a conversation: scenario, target and sample. `str()` gives its `conv_id`."""

    scenario_id: str
    target_id: str
    sample: int = 0

    def __str__(self) -> str:
        tail = f"__s{self.sample}" if self.sample else ""
        return f"{self.scenario_id}__{self.target_id}{tail}"

    @classmethod
    def parse(cls, conv_id: str) -> ConversationKey:
        """Parse a `conv_id`. Raises `ValueError` where it is malformed."""
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
"""Upper limits for one row of usage, even for a whole imported stage; larger numbers are reporting
errors. Millions of rows at the limit can still be added up."""


def plausible_tokens(reported: int | None) -> int | None:
    """The reported number of tokens, or None where it is out of the plausible range."""
    return reported if reported is not None and 0 <= reported <= MOST_TOKENS else None


def plausible_usd(reported: float | None) -> float | None:
    """The reported cost in US dollars, or None where it is out of the plausible range."""
    return reported if reported is not None and 0 <= reported <= MOST_USD else None


@dataclass(frozen=True, slots=True)
class Usage:
    """What one call used, or a sum over calls. None means unknown, which is not zero."""

    calls: int = 0
    input_tokens: int | None = 0
    """All input tokens, cached ones included."""
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
    """How the cost of a set of calls is known, in US dollars."""

    reported_usd: float = 0.0
    """Reported by providers and gateways with each answer."""
    computed_usd: float = 0.0
    """Computed from token counts and configured prices."""
    unknown: int = 0
    """Number of answers of unknown cost; no sum includes them."""

    def in_words(self) -> str | None:
        """A sentence for people; None where no provider reported any cost."""
        if not self.reported_usd:
            return None
        whole = self.reported_usd + self.computed_usd
        unknown = f"; {self.unknown} answers of unknown price are not in it" if self.unknown else ""
        if not self.computed_usd:
            source = ", all of it as the providers reported it"
        else:
            source = (
                f": {_usd(self.reported_usd)} as the providers reported it, "
                f"{_usd(self.computed_usd)} worked out from prices"
            )
        return f"The calls cost {_usd(whole)}{source}{unknown}."


def _usd(amount: float) -> str:
    return f"${amount:,.2f}" if amount >= 1 else f"${amount:.6f}".rstrip("0").ljust(5, "0")


def _add(left: int | None, right: int | None) -> int | None:
    return None if left is None or right is None else left + right


NAME_LENGTH: Final = 80
_NAME = re.compile(r"[A-Za-z0-9._-]+")


def name_fault(name: str) -> str | None:
    """Why `name` cannot name a benchmark, target, metric or model; None where it can.

    Names become folder names and parts of ids, so only what every file system takes is allowed.
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
"""The name of a variant's base scenario among its dependencies."""


@lru_cache(maxsize=4096)  # asked for every conversation, of which each variant has hundreds
def base_id(variant: str) -> str:
    """`m01_s002` for `m01_s002_v01`; an id without a variant is its own base."""
    return re.sub(r"_v\d+$", "", variant)


def metric_of(scenario: str) -> str:
    """`m01` for `m01_s002` and `m01_s002_v01`; any other id is returned as it is."""
    return re.sub(r"_s\d+(_v\d+)?$", "", scenario)
