"""The store as it will be read when what a person edited has been taken in."""

from __future__ import annotations

from collections.abc import Mapping

from engine.store.reader import Reader
from engine.store.records import StoredScenario


class ForeseenReader(Reader):
    """Answers as `reader` does, but for the scenarios of one benchmark."""

    def __init__(
        self,
        reader: Reader,
        benchmark: str,
        edited: Mapping[str, StoredScenario],
        removed: frozenset[str],
    ) -> None:
        super().__init__(reader._store)  # noqa: SLF001  (of the same class)
        self._benchmark = benchmark
        self._edited = edited
        self._removed = removed

    def scenarios(self, benchmark: str) -> list[StoredScenario]:
        found = super().scenarios(benchmark)
        if benchmark != self._benchmark:
            return found
        rows = {row.scenario.id: row for row in found} | dict(self._edited)
        return [rows[name] for name in sorted(rows) if name not in self._removed]

    def removed_scenarios(self, benchmark: str) -> frozenset[str]:
        found = super().removed_scenarios(benchmark)
        if benchmark != self._benchmark:
            return found
        return (found | self._removed) - self._edited.keys()
