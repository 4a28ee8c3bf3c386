"""Rows of `scores.json`, which wait for the conversation that they are about."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from engine.importing import fields
from engine.importing.fields import JsonObject, UnfitError
from engine.importing.setting import Place, Setting
from engine.importing.takes import FileTake
from engine.importing.verdicts import read_verdicts
from engine.store.rows import NewVerdict

ScoreKey = tuple[str, str, int]
"""The scenario's id, their name of the target, and the sample."""


@dataclass(frozen=True, slots=True)
class Score:
    """One row, and where it stands."""

    row: JsonObject
    place: Place


@dataclass(slots=True)
class Scores:
    """Of one benchmark's import."""

    setting: Setting
    _waiting: defaultdict[ScoreKey, list[Score]] = field(default_factory=lambda: defaultdict(list))

    def read(self, path: Path, folder: str) -> None:
        file, rows = self.setting.rows(path)
        for row in rows:
            self.keep(Place(file, row.index, row.line), row.value, folder)

    def keep(self, place: Place, value: object, folder: str | None) -> None:
        place.file.rows += 1
        try:
            row = fields.as_object(value)
            key = (fields.scenario_id(row), fields.target_name(row, folder), fields.sample(row))
        except UnfitError as error:
            place.drop(error)
            return
        self._waiting[key].append(Score(row, place))

    def wait_for(self, key: ScoreKey) -> bool:
        return key in self._waiting

    def of(self, key: ScoreKey) -> list[Score]:
        """Each is given once."""
        return self._waiting.pop(key, [])

    def left(self) -> Iterator[tuple[ScoreKey, list[Score]]]:
        """Those whose conversation did not come."""
        yield from self._waiting.items()

    def judged(self, take: FileTake, scores: list[Score], metric_id: str) -> FileTake:
        """The take with what these rows say of it."""
        if scores and not take.finished:
            what = "the conversation was not played to its end, so no verdict on it is kept"
            for score in scores:
                score.place.drop(UnfitError("", what))
            return take
        return take.judged(self.verdicts(scores, metric_id))

    def verdicts(self, scores: list[Score], metric_id: str) -> list[NewVerdict]:
        """What does not count comes first, so that the newest verdict is one that does."""
        off: list[NewVerdict] = []
        on: list[NewVerdict] = []
        for score in scores:
            try:
                found = read_verdicts(score.row, metric_id, self.setting.tracks)
            except UnfitError as error:
                score.place.drop(error)
                continue
            score.place.file.taken += 1
            (off if found.off_target else on).extend(found.verdicts)
        if off:
            note = "verdicts about another metric, kept and not counted"
            self.setting.report.notes[note] += len(off)
        return [*off, *on]
