"""Where the numbers of one target come from: program, configuration, prompts and models; and how
much of what counts is stale, and why."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Self

from engine.store.model_settings import settings_words

NamesByModel = Mapping[str, Sequence[str]]
"""By the label of each model that was asked, the model names that servers reported; empty where
none was reported, as by scripts."""


@dataclass(frozen=True, slots=True)
class Provenance:
    """The origin of one target's counting conversations and of the verdicts that count."""

    version: str
    """The version of the program that counted."""
    configuration: str
    """A digest of the configuration that it counted under, without keys."""
    prompts: Mapping[str, Sequence[str]]
    """By stage, the digests of the prompt sets that were used: a conversation's differ between
    positive and negative metrics."""
    targets: NamesByModel
    user_models: NamesByModel
    judges: NamesByModel
    checkers: NamesByModel
    """The models that made checks; empty where there were none."""
    first_at: str | None
    """When the first of these conversations began; ISO 8601, UTC. None where nothing counts, or it
    is not known."""
    last_at: str | None
    """When the last of these verdicts was given."""
    stances: Sequence[str] = ()
    """The stances of the user models: `adversarial`, `neutral`, or both."""
    settings: Mapping[str, Sequence[Mapping[str, Any]]] = field(default_factory=dict)
    """By `target`, `user_model`, or `judge` and `checker` with a label: all settings that these
    calls were made with, as far as they are recorded."""

    @property
    def settings_words(self) -> str:
        """`target: temperature 0.2, … · user model: …`; empty where none are known."""
        return " · ".join(
            f"{who.replace('_', ' ')}: {' / or '.join(map(settings_words, some))}"
            for who, some in self.settings.items()
        )


@dataclass(frozen=True, slots=True)
class UnrecordedPrompts:
    """How many counting rows do not record the prompts that they were made with, as imported ones
    do not: what models were told for them is not known."""

    takes: int = 0
    of_takes: int = 0
    """All counting takes."""
    verdicts: int = 0
    of_verdicts: int = 0
    """All counting verdicts of models."""


def served_words(served: NamesByModel) -> str:
    """`gpt-5 (gpt-5-2026-08-07); mine`: each model that was asked, with the reported names that
    differ from it."""
    return "; ".join(
        f"{label} ({', '.join(others)})" if (others := [n for n in names if n != label]) else label
        for label, names in served.items()
    )


def merged_provenance(parts: Sequence[Provenance]) -> Provenance:
    """One provenance from those of the same target in several benchmarks (at least one), counted by
    one program under one configuration."""
    first = [part.first_at for part in parts if part.first_at]
    last = [part.last_at for part in parts if part.last_at]
    return Provenance(
        version=parts[0].version,
        configuration=parts[0].configuration,
        prompts=_merged_names(part.prompts for part in parts),
        targets=_merged_names(part.targets for part in parts),
        user_models=_merged_names(part.user_models for part in parts),
        judges=_merged_names(part.judges for part in parts),
        checkers=_merged_names(part.checkers for part in parts),
        first_at=min(first, default=None),
        last_at=max(last, default=None),
        stances=sorted({stance for provenance in parts for stance in provenance.stances}),
        settings=_merged_settings(part.settings for part in parts),
    )


def _merged_settings(
    parts: Iterable[Mapping[str, Sequence[Mapping[str, Any]]]],
) -> dict[str, list[Mapping[str, Any]]]:
    merged: dict[str, list[Mapping[str, Any]]] = {}
    for part in parts:
        for who, some in part.items():
            known = merged.setdefault(who, [])
            known += [settings for settings in some if settings not in known]
    return merged


def _merged_names(parts: Iterable[Mapping[str, Sequence[str]]]) -> dict[str, Sequence[str]]:
    merged: dict[str, set[str]] = {}
    for part in parts:
        for name, names in part.items():
            merged.setdefault(name, set()).update(names)
    return {name: sorted(names) for name, names in merged.items()}


@dataclass(frozen=True, slots=True)
class Stale:
    """Why one conversation's results are stale. Results from files that do not record their inputs
    are not known to be stale."""

    take: tuple[str, ...] = ()
    """The inputs that changed since it was played, such as `metric definition`."""
    verdicts: tuple[tuple[str, ...], ...] = ()
    """For each stale verdict that counts, the inputs that changed since it was given."""

    def __bool__(self) -> bool:
        return bool(self.take or self.verdicts)


UP_TO_DATE = Stale()


@dataclass(frozen=True, slots=True)
class Staleness:
    """How much is stale among the counting conversations of a part of the benchmark."""

    conversations: int = 0
    """Counting conversations."""
    verdicts: int = 0
    """Counting verdicts."""
    stale: int = 0
    """Conversations whose take, or a verdict on it, is stale."""
    stale_takes: int = 0
    stale_verdicts: int = 0
    takes_why: Mapping[str, int] = field(default_factory=dict)
    """Stale takes by the input that changed; several may have changed for one take."""
    verdicts_why: Mapping[str, int] = field(default_factory=dict)

    @classmethod
    def over(cls, conversations: Iterable[tuple[Stale, int]]) -> Self:
        """From conversations, each with the number of its counting verdicts."""
        takes: Counter[str] = Counter()
        verdicts: Counter[str] = Counter()
        count = judged = some = stale_takes = stale_verdicts = 0
        for stale, counting in conversations:
            count += 1
            judged += counting
            if stale:
                some += 1
                stale_takes += bool(stale.take)
                stale_verdicts += len(stale.verdicts)
                takes.update(stale.take)
                for changed in stale.verdicts:
                    verdicts.update(changed)
        whys = _sorted_counts(takes), _sorted_counts(verdicts)
        return cls(count, judged, some, stale_takes, stale_verdicts, *whys)

    @property
    def reasons(self) -> list[str]:
        """The inputs that changed, for takes or verdicts."""
        return sorted({*self.takes_why, *self.verdicts_why})

    def __add__(self, other: Staleness) -> Staleness:
        return Staleness(
            self.conversations + other.conversations,
            self.verdicts + other.verdicts,
            self.stale + other.stale,
            self.stale_takes + other.stale_takes,
            self.stale_verdicts + other.stale_verdicts,
            _sums(self.takes_why, other.takes_why),
            _sums(self.verdicts_why, other.verdicts_why),
        )


def staleness_sums(parts: Iterable[Mapping[str, Staleness]]) -> Mapping[str, Staleness]:
    """The sums of all parts, by name."""
    sums: dict[str, Staleness] = {}
    for part in parts:
        for name, staleness in part.items():
            sums[name] = sums.get(name, Staleness()) + staleness
    return sums


def _sums(one: Mapping[str, int], other: Mapping[str, int]) -> dict[str, int]:
    return _sorted_counts(Counter(one) + Counter(other))


def _sorted_counts(counts: Counter[str]) -> dict[str, int]:
    return dict(sorted(counts.items()))
