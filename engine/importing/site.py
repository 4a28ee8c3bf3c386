"""The published site's files of one benchmark, model by model."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from engine.importing.conversations import Conversations
from engine.importing.fields import UnfitError
from engine.importing.published import read_published, was_mapped
from engine.importing.report import FileReport
from engine.importing.scores import Scores
from engine.importing.setting import Place, Setting
from engine.store.bulk import BulkRow


@dataclass(slots=True)
class Site:
    """Of one benchmark's import."""

    setting: Setting
    conversations: Conversations
    scores: Scores

    def rows(self, folder: Path) -> Iterator[BulkRow]:
        for model in sorted(folder.iterdir()):
            if model.is_dir() and not model.name.startswith("."):
                yield from self._model(model)

    def _model(self, folder: Path) -> Iterator[BulkRow]:
        """Thirty thousand files would be as many reports: each folder has one."""
        report = self.setting.report.file(folder)
        for path in sorted(folder.glob("*.json")):
            file = FileReport(path, problems=report.problems)
            yield from self._file(path, file, folder.name)
            report.add(file)

    def _file(self, path: Path, file: FileReport, model: str) -> Iterator[BulkRow]:
        value = self.setting.value(path, file)
        if value is None:
            file.rows += 1
            file.dropped += 1
            return
        try:
            found = read_published(value, path=path, target=model)
        except UnfitError as error:
            file.rows += 1
            Place(file, 0, 1).drop(error)
            return
        report = self.setting.report
        if (ours := was_mapped(found.published_id)) is not None:
            report.mapped[found.published_id] = ours
        if found.neither is not None:
            report.notes["verdicts that are neither yes nor no, kept as unscored"] += 1
        if found.score is not None and found.conversations:
            scored = FileReport(path, problems=file.problems)
            self.scores.keep(Place(scored, 0, None), found.score, model)
            if len(found.conversations) > 1:
                report.notes["verdicts of several samples, kept with the first"] += 1
        for number, row in enumerate(found.conversations):
            yield from self.conversations.rows(Place(file, number, 1), row, model, number)
