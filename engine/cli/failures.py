"""What failed, as the command line tells it: a line for each kind of failure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any, Final

from engine.benchmark import State
from engine.cli.console import tell
from engine.display import one_line, plural
from engine.facts import Fact, StateChanged
from engine.pipeline.remedies import FailureGroup, KnownFailure, ailment_of

NAMED: Final = 3
"""Ids that stand in a line."""
NAMED_FOR_SCRIPTS: Final = 100
REASON: Final = 200
"""Characters of a reason that stand in a line."""


def failed_rows(number: int) -> str:
    return f"{plural(number, 'row')} failed"


def count_of(groups: Sequence[FailureGroup]) -> int:
    return sum(len(group.units) for group in groups)


def failure_lines(groups: Sequence[FailureGroup]) -> Iterator[str]:
    """`3 rows failed: the provider refuses the key … (a, b and 1 more): 401: …. Mend …`."""
    for group in groups:
        units = group.units
        names = ", ".join(one_line(unit.unit) for unit in units[:NAMED])
        more = f" and {len(units) - NAMED} more" if len(units) > NAMED else ""
        yield (
            f"{failed_rows(len(units))}: {group.kind.name_in_words} ({names}{more}): "
            f"{_reason(units[-1].reason or '')} {group.kind.advice}"
        )


def what_next(groups: Sequence[FailureGroup], command: str) -> str:
    """What trying again is good for, as it is or after something was changed."""
    total = count_of(groups)
    passing = sum(len(group.units) for group in groups if group.kind.can_pass)
    if passing == total:
        return f"`{command}` tries {'it' if total == 1 else 'them'} again"
    if not passing:
        they = "it" if total == 1 else "they"
        return f"change what is named there, then `{command}`: else {they} will fail again"
    return (
        f"`{command}` tries all {total} again: {passing} may pass as things are, the others once "
        "what is named there is changed"
    )


def tell_failures(groups: Sequence[FailureGroup], command: str) -> None:
    """To whoever has run something: what failed, and what `command` would do about it."""
    for line in failure_lines(groups):
        tell(line)
    if groups:
        tell(what_next(groups, command))


def failures_json(groups: Sequence[FailureGroup]) -> list[dict[str, Any]]:
    """For a script: each kind, how many, the first ids, and what to do."""
    return [
        {
            "kind": group.kind.name.lower(),
            "count": len(group.units),
            "what": group.kind.name_in_words,
            "reason": group.units[-1].reason or "",
            "rows": [
                {"benchmark": unit.benchmark, "stage": unit.stage, "id": unit.unit}
                for unit in group.units[:NAMED_FOR_SCRIPTS]
            ],
            "remedy": group.kind.advice,
            "may_pass_unchanged": group.kind.can_pass,
        }
        for group in groups
    ]


class FailureNews:
    """Says of each kind when it is met for the first time, and whenever it has become ten times as
    many: a run in which all fails is not to fill the terminal."""

    def __init__(self) -> None:
        self._counts: Counter[KnownFailure] = Counter()

    def hear(self, fact: Fact) -> str | None:
        if not isinstance(fact, StateChanged) or fact.state is not State.FAILED:
            return None
        kind = ailment_of(fact.reason or "")
        self._counts[kind] += 1
        number = self._counts[kind]
        if number not in _TOLD_AT:
            return None
        if number > 1:
            return f"{failed_rows(number)} by now: {kind.name_in_words}"
        unit, reason = one_line(fact.unit), _reason(fact.reason or "")
        return f"{unit} failed: {kind.name_in_words}: {reason} {kind.advice}"


_TOLD_AT: Final = frozenset(10**power for power in range(9))


def _reason(reason: str) -> str:
    text = one_line(reason, REASON) or "no reason was kept"
    return text if text.endswith((".", "…")) else f"{text}."
