"""Rows of interrupted runs, one file each, wherever they lie below the cache's folder."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from engine.benchmark import Stage
from engine.importing import fields
from engine.importing.conversations import Conversations
from engine.importing.fields import UnfitError
from engine.importing.scores import Scores
from engine.importing.set_ups import SetUps
from engine.importing.setting import Place, Setting
from engine.store.bulk import BulkRow

_EXPANDED: Final = "_expanded"
"""Behind a metric's id: the variants of its scenarios."""


@dataclass(frozen=True, slots=True)
class _Named:
    """What a file's name says: `<id>__s<n>__<target>.json`, in its target's folder."""

    id: str
    target: str | None
    sample: int

    @classmethod
    def of(cls, path: Path) -> _Named:
        first, *others = path.stem.split("__")
        samples = [one for one in others if one[:1] == "s" and one[1:].isdecimal()]
        folder = path.parent.parent if path.parent.name == "eval" else path.parent
        target = others[-1] if others and others[-1] not in samples else folder.name
        return cls(first, target, int(samples[0][1:]) if samples else 0)


@dataclass(slots=True)
class Cache:
    """Of one benchmark's import. What the finished files have goes before it."""

    setting: Setting
    set_ups: SetUps
    conversations: Conversations
    scores: Scores

    def rows(self, folder: Path) -> Iterator[BulkRow]:
        """Scenarios and scores are read first: conversations need the ones, and the others wait
        for their conversations."""
        found: list[tuple[Path, dict[str, Any]]] = []
        for path in sorted(folder.rglob("*.json")):
            value = self._read(path)
            if not isinstance(value, dict):
                continue
            if isinstance(value.get("scores"), list):
                self._keep_scores(path, value["scores"])
            elif "transcript" in value:
                found.append((path, value))
            elif isinstance(value.get("variants") or value.get("scenarios"), list):
                yield from self._generated(path, value)
            else:
                note = "cached files that hold no conversation, not read"
                self.setting.report.notes[note] += 1
        for path, value in found:
            yield from self._conversation(path, value)

    def _generated(self, path: Path, value: dict[str, Any]) -> Iterator[BulkRow]:
        """What was written before a generation was cut off. Where there is a `scenarios.json`, it
        came to its end, and that file says what stands."""
        notes = self.setting.report.notes
        if (self.setting.source.folder / "scenarios.json").exists():
            notes["cached files of a generation that was finished, not needed"] += 1
            return
        metric = str(value.get("id") or path.stem).removesuffix(_EXPANDED)
        usage = fields.usage(value)
        if usage is not None and not self.setting.known.called(Stage.GEN_SCENARIOS, metric):
            yield self.set_ups.work.attempt(
                Stage.GEN_SCENARIOS, metric, None, fields.UNKNOWN, usage
            )
        variants = value.get("variants")
        if not isinstance(variants, list):
            note = "cached base scenarios, not taken: what is played are their variants"
            notes[note] += len(value["scenarios"])
            return
        file = self.setting.report.file(path)
        for index, row in enumerate(variants):
            given = row
            if isinstance(row, dict):
                given = {**row, "metric_id": row.get("metric_id") or metric}
            yield from self.set_ups.cached(given, Place(file, index, None))

    def _read(self, path: Path) -> object:
        file = self.setting.report.file(path)
        value = self.setting.value(path, file)
        if value is not None:
            self.setting.report.files.remove(file)
        return value

    def _keep_scores(self, path: Path, rows: list[Any]) -> None:
        named = _Named.of(path)
        file = self.setting.report.file(path)
        for index, row in enumerate(rows):
            given = (
                {"id": named.id, "sample": named.sample, **row} if isinstance(row, dict) else row
            )
            if isinstance(given, dict) and self._is_known(given, named):
                file.rows += 1
                file.known += 1
            else:
                self.scores.keep(Place(file, index, None), given, named.target)

    def _is_known(self, row: dict[str, Any], named: _Named) -> bool:
        """Whether the finished files have this conversation: then they have its scores, too."""
        try:
            key, theirs = self.conversations.key(row, named.target, named.sample)
        except UnfitError:
            return False
        return self.conversations.has(key) or self.scores.wait_for(theirs)

    def _conversation(self, path: Path, value: dict[str, Any]) -> Iterator[BulkRow]:
        named = _Named.of(path)
        row = {"id": named.id, **value}
        place = Place(self.setting.report.file(path), 0, 1)
        try:
            key, _ = self.conversations.key(row, named.target, named.sample)
        except UnfitError as error:
            place.file.rows += 1
            place.drop(error)
            return
        if self.conversations.has(key):
            place.file.rows += 1
            place.file.known += 1
            return
        yield from self.conversations.rows(place, row, named.target, named.sample)
