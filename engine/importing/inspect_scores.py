"""Reads Inspect's scores as metrics and verdicts: which values mean that a behaviour is present."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from engine.benchmark import Track
from engine.importing.fields import fitting_name
from engine.importing.inspect_shapes import InspectResults, InspectSample, InspectScore
from engine.importing.inspect_speech import AUDITOR

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
_PALETTES: Final = {"good-high": Track.POSITIVE, "good-low": Track.NEGATIVE}
_SHARE: Final = (0.0, 1.0)
_TEN: Final = (1.0, 10.0)
"""The scale of an auditor's judge."""
_TOLD: Final = ("id", "name", "type", "definition", "when")
"""The text fields of a metric in our own export."""
MOST: Final = 200
"""The most metrics of a benchmark; more would be data, not judgements."""


@dataclass(frozen=True, slots=True)
class ScorerValue:
    """A value that a scorer gave, with its explanation."""

    scorer: str
    part: str | None
    """The key of the value, if the score has several; otherwise None."""
    value: object
    explanation: str

    @property
    def name(self) -> str:
        return self.scorer if self.part is None else self.part


def given_values(sample: InspectSample) -> Iterator[ScorerValue]:
    """Yield each value of a sample's scores."""
    for scorer, score in (sample.scores or {}).items():
        parts = score.value if isinstance(score.value, dict) else {None: score.value}
        for part, value in parts.items():
            yield ScorerValue(scorer, part, value, _explanation(score))


def _explanation(score: InspectScore) -> str:
    answer = score.answer if isinstance(score.answer, str) else None
    parts = [] if answer is None else [f"Answer: {answer}"]
    return "\n\n".join([*parts, *([score.explanation] if score.explanation else [])])


@dataclass(frozen=True, slots=True)
class PresenceRule:
    """How a value is read as a verdict."""

    track: Track
    present_from: float | None
    """The threshold of numbers; None if values are words, or numbers of an unknown scale."""
    scale: tuple[float, float] | None
    """The least and the greatest possible number; None if unknown."""
    seen: tuple[float, float] | None
    """The least and the greatest number that occurred; None if there was no number."""
    assumed: bool
    """Whether the log does not say if more of the behaviour is good or bad."""

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
        if self.present_from is None:
            low, high = self.seen
            return (
                f"numbers from {low:g} to {high:g}, on a scale that the log does not tell, so none "
                "is a verdict; `--present-from N` makes them verdicts"
            )
        most = "" if self.scale is None else f" of {self.scale[1]:g}"
        return f"from {self.present_from:g}{most} on it counts as present"


def _read_value(value: object) -> bool | float | None:
    """Read a score's value as Inspect's `value_to_float` does; None for what that cannot read, and
    for what is neither present nor absent."""
    if isinstance(value, bool):
        return value
    if isinstance(value, str):
        # the letters are read as they are, the words in any case
        word = value if len(value) == 1 else value.lower()
        if word in _WORDS:
            return _WORDS[word]
    return _as_number(value)


def _as_number(value: object) -> float | None:
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return None
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
    part: str | None
    taken: bool = False
    """Whether any sample that is taken has a score of it."""
    about: dict[str, Any] | None = None
    """The definition in our own export; None for other logs."""
    palette: str | None = None
    scale: tuple[float, float] | None = None
    label: str | None = None
    described: str | None = None
    audited: bool = False
    low: float = math.inf
    high: float = -math.inf

    @property
    def name(self) -> str:
        return self.scorer if self.part is None else self.part

    def observe(self, value: object) -> None:
        number = _read_value(value)
        if number is not None and not isinstance(number, bool):
            self.low, self.high = min(self.low, number), max(self.high, number)

    def rule(self, present_from: float | None) -> PresenceRule:
        """Return how to read the values; `present_from` is a person's threshold for numbers."""
        by_palette = _PALETTES.get(self.palette or "")
        if self.low > self.high:  # words, and no number
            return PresenceRule(by_palette or Track.POSITIVE, None, None, None, assumed=False)
        scale = self.scale or (_TEN if self.audited else None)
        if scale is None and self.low >= 0 and self.high <= 1:
            scale = _SHARE
        middle = None if scale is None else _middle_of_scale(scale)
        # an auditor looks for a behaviour that nobody wants, and scores how much of it there was
        guess = Track.NEGATIVE if self.audited else Track.POSITIVE
        threshold = middle if present_from is None else present_from
        assumed = by_palette is None and scale != _SHARE and threshold is not None
        return PresenceRule(by_palette or guess, threshold, scale, (self.low, self.high), assumed)


def _middle_of_scale(scale: tuple[float, float]) -> float:
    """The middle of a scale; on one of integers the next integer from there."""
    low, high = scale
    return (low + high) / 2 if high - low <= 1 else float(math.ceil((low + high) / 2))


@dataclass(slots=True)
class LoggedMetrics:
    """The metrics of one benchmark."""

    by_key: dict[tuple[str, str | None], LoggedMetric] = field(default_factory=dict)
    """All metrics that occurred, including unwanted ones, by scorer and key."""
    _ids: set[str] = field(default_factory=set)

    def of(self, scorer_value: ScorerValue, about: InspectResults) -> LoggedMetric | None:
        """Return the metric of a value, adding a new one; None if there are too many."""
        key = (scorer_value.scorer, scorer_value.part)
        if key not in self.by_key and len(self.by_key) < MOST:
            self.by_key[key] = self._new_metric(scorer_value, about)
        return self.by_key.get(key)

    @property
    def taken(self) -> dict[str, LoggedMetric]:
        """The metrics that are imported, by id."""
        return {metric.id: metric for metric in self.by_key.values() if metric.taken}

    def own_id(self, metric: Mapping[str, Any]) -> str:
        """Add a metric that our own export defines, and return its id."""
        about: dict[str, Any] = {
            name: value for name in _TOLD if isinstance(value := metric.get(name), str) and value
        }
        if examples := [
            value for value in _as_list(metric.get("examples")) if isinstance(value, str)
        ]:
            about["examples"] = examples
        name = str(metric.get("id"))
        logged = LoggedMetric(name, name, None, taken=True, about=about)
        self.by_key.setdefault((name, None), logged)
        self._ids.add(name.casefold())
        return name

    def _new_metric(self, scorer_value: ScorerValue, about: InspectResults) -> LoggedMetric:
        wished = [scorer_value.name, f"{scorer_value.scorer}-{scorer_value.name}"]
        wished += [f"score-{number}" for number in range(1, len(self._ids) + 2)]
        fitting = (fitting_name(name[:38]) for name in wished)
        name = next(name for name in fitting if name and name.casefold() not in self._ids)
        self._ids.add(name.casefold())
        logged = LoggedMetric(name, scorer_value.scorer, scorer_value.part)
        logged.audited = AUDITOR in (about.model_roles or {})
        _read_display_settings(logged, about)
        return logged


def _member(value: Any, name: str) -> object:
    return value.get(name) if isinstance(value, dict) else None


def _as_list(value: object) -> list[Any]:
    return value if isinstance(value, list) else []


def behaviour_of(about: InspectResults) -> tuple[str | None, str | None]:
    """Return name and description of the behaviour that a log of Bloom measures: all its logs have
    the same task name."""
    behaviour = (about.metadata or {}).get("behavior")
    name, described = (_member(behaviour, key) for key in ("name", "description"))
    if AUDITOR not in (about.model_roles or {}) or not isinstance(name, str) or not name:
        return None, None
    return name, described if isinstance(described, str) else None


def _read_display_settings(metric: LoggedMetric, about: InspectResults) -> None:
    """Read what the log's settings say of a score: viewer colours, labels and dimensions."""
    behaviour, described = behaviour_of(about)
    if metric.name == behaviour:
        metric.described = described
    view = (about.viewer or {}).get("task_samples_view")
    # a log may set one view or several
    for entry in view if isinstance(view, list) else [view]:
        if not isinstance(entry, dict):
            continue
        label = _member(entry.get("score_labels"), metric.name)
        metric.label = label if isinstance(label, str) and label.strip() else metric.label
        match _member(entry.get("score_color_scales"), metric.name):
            case str(palette):
                metric.palette = palette
            case {"palette": str(palette), **ends}:
                metric.palette = palette
                low, high = _as_number(ends.get("min")), _as_number(ends.get("max"))
                if low is not None and high is not None and low < high:
                    metric.scale = (low, high)
            case _:
                pass
    for scorer in about.scorers or ():
        dimensions = (scorer.options or {}).get("dimensions")
        for entry in _as_list(dimensions):
            if isinstance(entry, dict) and entry.get("name") == metric.name:
                description = entry.get("description")
                metric.described = description if isinstance(description, str) else None
