"""Where the numbers of one target come from: which program, configuration, prompts and models."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

ServedNames = Mapping[str, Sequence[str]]
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
    targets: ServedNames
    user_models: ServedNames
    judges: ServedNames
    first_at: str | None
    """When the first of these conversations began; ISO 8601, UTC. None where nothing counts, or
    nobody knows."""
    last_at: str | None
    """When the last of these verdicts was given."""


def served_words(served: ServedNames) -> str:
    """`gpt-5 (gpt-5-2026-08-07); mine`: what was asked for, and who answered where that is known
    and another name."""
    return "; ".join(
        f"{label} ({', '.join(others)})" if (others := [n for n in names if n != label]) else label
        for label, names in served.items()
    )
