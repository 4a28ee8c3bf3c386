"""Where the numbers of one target come from: which program, configuration, prompts and models."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

NamesByModel = Mapping[str, Sequence[str]]
"""The label of each model that was asked, with the names under which servers say that they
answered; none where no server named one, as scripts do not."""


@dataclass(frozen=True, slots=True)
class Provenance:
    """Of the conversations of one target that count, and of the verdicts on them that do."""

    version: str
    """Of the program that counted."""
    configuration: str
    """A digest of the whole configuration that it counted under, keys left out."""
    prompts: Mapping[str, Sequence[str]]
    """By stage, a digest of each set of prompts that was used: those of a conversation are others
    for a positive metric than for a negative one."""
    targets: NamesByModel
    user_models: NamesByModel
    judges: NamesByModel
    checkers: NamesByModel
    """Who looked at the conversations beside the judges; none where nobody did."""
    first_at: str | None
    """When the first of these conversations began; ISO 8601, UTC. None where nothing counts, or
    nobody knows."""
    last_at: str | None
    """When the last of these verdicts was given."""


def served_words(served: NamesByModel) -> str:
    """`gpt-5 (gpt-5-2026-08-07); mine`: what was asked for, and who answered where that is known
    and another name."""
    return "; ".join(
        f"{label} ({', '.join(others)})" if (others := [n for n in names if n != label]) else label
        for label, names in served.items()
    )


def merged(parts: Sequence[Provenance]) -> Provenance:
    """Of the same target in several benchmarks, at least one, counted by one program under one
    configuration."""
    first = [one.first_at for one in parts if one.first_at]
    last = [one.last_at for one in parts if one.last_at]
    return Provenance(
        version=parts[0].version,
        configuration=parts[0].configuration,
        prompts=_united(one.prompts for one in parts),
        targets=_united(one.targets for one in parts),
        user_models=_united(one.user_models for one in parts),
        judges=_united(one.judges for one in parts),
        checkers=_united(one.checkers for one in parts),
        first_at=min(first, default=None),
        last_at=max(last, default=None),
    )


def _united(parts: Iterable[Mapping[str, Sequence[str]]]) -> dict[str, Sequence[str]]:
    found: dict[str, set[str]] = {}
    for part in parts:
        for name, each in part.items():
            found.setdefault(name, set()).update(each)
    return {name: sorted(each) for name, each in found.items()}
