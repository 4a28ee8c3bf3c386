"""Rows of `scores.json`, which wait for the conversation that they are about."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from sys import intern
from typing import Final

from engine.importing import fields
from engine.importing.fields import OURS, JsonObject, UnfitError
from engine.importing.report import FileReport
from engine.importing.setting import Place, Setting
from engine.importing.takes import FileTake
from engine.importing.verdicts import read_verdicts
from engine.store.rows import NewVerdict

ScoreKey = tuple[str, str, int]
"""The scenario's id, their name of the target, and the sample."""


_SAID: Final = (
    *("metric_id", "present", "passed", "score", "justification"),
    *("judge", "evaluator_model", "evaluator", OURS),
)
"""What of a row is a verdict: it waits with no more, as there may be very many."""


@dataclass(frozen=True, slots=True)
class Score:
    """What one row says, and where it stands."""

    row: JsonObject
    file: FileReport
    index: int
    line: int | None

    @property
    def place(self) -> Place:
        return Place(self.file, self.index, self.line)


@dataclass(slots=True)
class Scores:
    """Of one benchmark's import."""

    setting: Setting
    _waiting: dict[ScoreKey, tuple[Score, ...]] = field(default_factory=dict)

    def read(self, path: Path, folder: str) -> None:
        file, rows = self.setting.rows(path)
        for row in rows:
            self.keep(Place(file, row.index, row.line), row.value, folder)

    def keep(self, place: Place, value: object, folder: str | None) -> None:
        place.file.rows += 1
        try:
            row = fields.as_object(value)
            key = (
                intern(fields.row_scenario_id(row)),
                intern(fields.target_name(row, folder)),
                fields.sample(row),
            )
        except UnfitError as error:
            place.drop(error)
            return
        said = {name: row[name] for name in _SAID if name in row}
        score = Score(said, place.file, place.index, place.line)
        self._waiting[key] = (*self._waiting.get(key, ()), score)

    def wait_for(self, key: ScoreKey) -> bool:
        return key in self._waiting

    def of(self, key: ScoreKey) -> Sequence[Score]:
        """Each is given once."""
        return self._waiting.pop(key, ())

    def left(self) -> Iterator[tuple[ScoreKey, Sequence[Score]]]:
        """Those whose conversation did not come."""
        yield from self._waiting.items()

    def judged(self, take: FileTake, scores: Sequence[Score], metric_id: str) -> FileTake:
        """The take with what these rows say of it."""
        if scores and not take.finished:
            what = "the conversation was not played to its end, so no verdict on it is kept"
            for score in scores:
                score.place.drop(UnfitError("", what))
            return take
        return take.judged(self.verdicts(scores, metric_id))

    def verdicts(self, scores: Sequence[Score], metric_id: str) -> list[NewVerdict]:
        """What does not count comes first, so that the newest verdict is one that does."""
        off: list[NewVerdict] = []
        on: list[NewVerdict] = []
        for score in scores:
            try:
                found = read_verdicts(score.row, metric_id, self.setting.court)
            except UnfitError as error:
                score.place.drop(error)
                continue
            score.place.file.taken += 1
            (off if found.off_target else on).extend(found.verdicts)
        if off:
            note = "verdicts about another metric, kept and not counted"
            self.setting.report.notes[note] += len(off)
        return [*off, *on]
