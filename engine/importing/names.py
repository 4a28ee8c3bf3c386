"""Ids of others, as they are called here."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from engine.benchmark import NAME_LENGTH, metric_id, name_fault, scenario_id, variant_id

_PUBLISHED_SCENARIO = re.compile(r"scenario_(\d{1,20})_m(\d{1,20})(?:_v(\d{1,20}))?")
LONGEST = 10_000
"""Characters of what may be somebody's name for something."""
_PUBLISHED_METRIC = re.compile(r"metric_(\d{1,20})")


def our_scenario_id(published: str) -> str | None:
    """`m01_s001_v01` for `scenario_001_m01_v01`; None for an id of another form."""
    found = _PUBLISHED_SCENARIO.fullmatch(published)
    if found is None:
        return None
    base = scenario_id(metric_id(int(found[2])), int(found[1]))
    return base if found[3] is None else variant_id(base, int(found[3]))


def our_metric_id(published: str) -> str | None:
    """`m01` for `metric_001`; None for an id of another form."""
    found = _PUBLISHED_METRIC.fullmatch(published)
    return None if found is None else metric_id(int(found[1]))


def fitting_name(name: str) -> str | None:
    """A name that can be a target's or a benchmark's, near to the one given; None for what looks
    like a path to somewhere else, is too long for a name, or leaves nothing."""
    if name_fault(name) is None:
        return name
    if len(name) > LONGEST or name.startswith(("/", "\\", "~")):
        return None
    if ".." in name.replace("\\", "/").split("/"):
        return None
    fitting = re.sub(r"[^A-Za-z0-9._-]+", "-", name)
    fitting = re.sub(r"\.{2,}", ".", re.sub(r"_{2,}", "_", fitting))
    fitting = fitting.strip("-._")[:NAME_LENGTH].rstrip("-._")
    return fitting if name_fault(fitting) is None else None


@dataclass(slots=True)
class Names:
    """Which name of theirs is which of ours: one to one, without regard to case."""

    mapped: dict[str, str] = field(default_factory=dict)
    """Those that are called something else now."""
    _theirs: dict[str, str] = field(default_factory=dict)
    _known: dict[str, str | None] = field(default_factory=dict)
    """What was answered before: few names stand in many rows."""

    def ours(self, theirs: str) -> str | None:
        """None where it cannot be called anything here."""
        if theirs not in self._known:
            self._known[theirs] = self._fitting(theirs)
        return self._known[theirs]

    def _fitting(self, theirs: str) -> str | None:
        fitting = fitting_name(theirs)
        if fitting is None or self._theirs.setdefault(fitting.casefold(), theirs) != theirs:
            return None
        if fitting != theirs:
            self.mapped[theirs] = fitting
        return fitting
