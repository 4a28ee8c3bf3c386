"""Reads Inspect's scores as metrics and verdicts: which values mean that a behaviour is present."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from engine.importing.fields import fitting_name
from engine.importing.inspect_shapes import InspectSample, InspectScore

_WORDS: Final = {
    "C": True,
    "I": False,
    "yes": True,
    "true": True,
    "no": False,
    "false": False,
}
"""What Inspect's `value_to_float` reads as 1 and 0, apart from numbers. Partly correct, `P`, and no
answer, `N`, are no verdict."""
_TOLD: Final = ("id", "name", "type", "definition", "when")
"""The text fields of a metric in our own export."""
MOST: Final = 200
"""The most metrics of a benchmark; more would be data, not judgements."""


@dataclass(frozen=True, slots=True)
class GivenScore:
    """A value that a scorer gave, with its explanation."""

    scorer: str
    part: str | None
    """The key of the value, if the score has several; otherwise None."""
    value: object
    explanation: str

    @property
    def name(self) -> str:
        return self.scorer if self.part is None else self.part


def given_scores(sample: InspectSample) -> Iterator[GivenScore]:
    """Yield each value of a sample's scores."""
    for scorer, score in (sample.scores or {}).items():
        parts = score.value if isinstance(score.value, dict) else {None: score.value}
        for part, value in parts.items():
            yield GivenScore(scorer, part, value, _explanation(score))


def _explanation(score: InspectScore) -> str:
    answer = score.answer if isinstance(score.answer, str) else None
    parts = [] if answer is None else [f"Answer: {answer}"]
    return "\n\n".join([*parts, *([score.explanation] if score.explanation else [])])


@dataclass(frozen=True, slots=True)
class PresenceRule:
    """How a value is read as a verdict."""

    present_from: float | None
    """The threshold of numbers; None if they are on a scale that nobody told."""
    seen: tuple[float, float] | None
    """The least and the greatest number that occurred; None if there was no number."""

    def present(self, value: object) -> bool | None:
        """Whether the behaviour is present; None if the value does not say."""
        read = _read_value(value)
        if read is None or isinstance(read, bool):
            return read
        return None if self.present_from is None else read >= self.present_from

    @property
    def in_words(self) -> str:
        if self.seen is None:
            return "C, yes and true count as present, I, no and false as absent"
        if self.present_from is not None:
            return f"from {self.present_from:g} on it counts as present"
        low, high = self.seen
        return (
            f"numbers from {low:g} to {high:g}, on a scale that the log does not tell, so none "
            "is a verdict; `--present-from N` makes them verdicts"
        )


def _read_value(value: object) -> bool | float | None:
    """Read a score's value as Inspect's `value_to_float` does; None for what that cannot read, and
    for what is neither present nor absent."""
    if isinstance(value, str):
        # the letters are read as they are, the words in any case
        word = value if len(value) == 1 else value.lower()
        if word in _WORDS:
            return _WORDS[word]
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return value if isinstance(value, bool) else None
    try:
        number = float(value)
    except (OverflowError, ValueError):
        return None
    return number if math.isfinite(number) else None


@dataclass(slots=True)
class LoggedMetric:
    """A metric found in logs, and what its values in all samples were like."""

    id: str
    scorer: str
    name: str
    about: dict[str, Any] | None = None
    """The definition in our own export; None for other logs."""
    low: float = math.inf
    high: float = -math.inf

    def observe(self, value: object) -> None:
        number = _read_value(value)
        if number is not None and not isinstance(number, bool):
            self.low, self.high = min(self.low, number), max(self.high, number)

    def rule(self, present_from: float | None) -> PresenceRule:
        """Return how to read the values. `present_from` is a person's threshold for numbers; None
        reads them only if all are between 0 and 1."""
        if self.low > self.high:  # words, and no number
            return PresenceRule(None, None)
        if present_from is None and self.low >= 0 and self.high <= 1:
            present_from = 0.5
        return PresenceRule(present_from, (self.low, self.high))


@dataclass(slots=True)
class LoggedMetrics:
    """The metrics of one benchmark."""

    by_key: dict[tuple[str, str | None], LoggedMetric] = field(default_factory=dict)
    """By scorer and key."""
    _ids: set[str] = field(default_factory=set)

    def of(self, score: GivenScore) -> LoggedMetric | None:
        """Return the metric of a score, adding a new one; None for a list, or if there are too
        many."""
        key = (score.scorer, score.part)
        if isinstance(score.value, dict | list):
            return None
        if key not in self.by_key and len(self.by_key) < MOST:
            name = self._free_id(score)
            self.by_key[key] = LoggedMetric(name, score.scorer, score.name)
        return self.by_key.get(key)

    def own_id(self, metric: Mapping[str, Any]) -> str:
        """Add a metric that our own export defines, and return its id."""
        about: dict[str, Any] = {
            name: value for name in _TOLD if isinstance(value := metric.get(name), str) and value
        }
        listed = metric.get("examples")
        if isinstance(listed, list) and (examples := [one for one in listed if type(one) is str]):
            about["examples"] = examples
        name = str(metric.get("id"))
        self.by_key.setdefault((name, None), LoggedMetric(name, name, name, about))
        self._ids.add(name.casefold())
        return name

    def _free_id(self, score: GivenScore) -> str:
        wished = [score.name, f"{score.scorer}-{score.name}"]
        wished += [f"score-{number}" for number in range(1, len(self._ids) + 2)]
        fitting = (fitting_name(name[:38]) for name in wished)
        name = next(name for name in fitting if name and name.casefold() not in self._ids)
        self._ids.add(name.casefold())
        return name
