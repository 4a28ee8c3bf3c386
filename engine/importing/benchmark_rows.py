"""One benchmark's files as rows for the store: what is new in them, in the order it is written."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

from engine.errors import InputError, Problem
from engine.facts import NoteKind
from engine.importing.cache import Cache
from engine.importing.conversations import Conversations
from engine.importing.costs import SUM
from engine.importing.histories import Histories
from engine.importing.report import UnknownTarget
from engine.importing.scores import Scores
from engine.importing.set_ups import SetUps
from engine.importing.setting import Place, Setting
from engine.importing.site import Site
from engine.importing.unchanged import note_of
from engine.importing.work import Work
from engine.store.bulk import BulkRow, WholeConversation
from engine.store.imports import ImportNote
from engine.store.mirror import HISTORY
from engine.store.rows import AttemptRow, MessageRow, NewVerdict, NoteRow, ScenarioRow


class BenchmarkRows:
    """Reads files and gives rows, once; what it meets on the way is in the setting's report."""

    def __init__(self, setting: Setting) -> None:
        self._setting = setting
        self._work = Work(setting)
        self._history = Histories(setting, None)
        self._set_ups = SetUps(setting, self._work, self._history)
        self._scores = Scores(setting)
        self._conversations = Conversations(setting, self._work, self._set_ups, self._scores)

    @property
    def targets(self) -> Mapping[str, UnknownTarget]:
        """Every target that was met, by our name."""
        return self._conversations.targets

    @property
    def metrics_named(self) -> Mapping[str, str]:
        """The names that published files give to metrics, by id."""
        return self._set_ups.metrics_named

    def rows(self) -> Iterator[BulkRow]:
        """Raises `InputError` where a folder cannot be read."""
        report = self._setting.report
        try:
            for row in self._all():
                self._count(row)
                yield row
        except OSError as error:
            where = Path(error.filename or self._setting.source.folder)
            raise InputError(Problem(f"cannot be read: {error.strerror}", where)) from error
        report.mapped |= self._setting.names.mapped
        report.targets = set(self.targets)
        if report.is_new:
            yield self._note()
        if not self._conversations.has_waiting:
            yield self._remembered()

    def _remembered(self) -> ImportNote:
        return note_of(
            self._setting.name,
            self._setting.files,
            self._setting.made_from,
            self._setting.report,
            self._conversations.count,
            self.targets,
            self.metrics_named,
        )

    def _all(self) -> Iterator[BulkRow]:
        source = self._setting.source
        if source.published:
            yield from Site(self._setting, self._conversations, self._scores).rows(source.folder)
            return
        self._history.read(source.folder / HISTORY)
        if not self._setting.known.has_metrics():
            yield from self._history.metrics()
        yield from self._work.left(self._history)
        yield from self._set_ups.file(source.folder / "scenarios.json")
        yield from self._set_ups.removed()
        runs = source.folder / "runs"
        for folder in sorted(runs.iterdir()) if runs.is_dir() else ():
            if folder.is_dir():
                yield from self._run(folder)
        if source.cache is not None:
            cache = Cache(self._setting, self._set_ups, self._conversations, self._scores)
            yield from cache.rows(source.cache)
        yield from self._conversations.judged_alone()
        yield from self._set_ups.forgotten()
        yield from self._work.of_stages(source.folder, self._history)
        yield from self._work.costs(source.folder / "cost.json", None)

    def _run(self, folder: Path) -> Iterator[BulkRow]:
        """Scores are read first: they wait for their conversations."""
        self._scores.read(folder / "scores.json", folder.name)
        target = self._setting.names.ours(folder.name)
        histories = Histories(self._setting, target)
        histories.read(folder / HISTORY)
        file, rows = self._setting.rows(folder / "conversations.json")
        for row in rows:
            place = Place(file, row.index, row.line)
            yield from self._conversations.rows(place, row.value, folder.name, 0, histories)
        yield from self._conversations.apart(histories)
        yield from self._work.left(histories)
        if target is not None:
            yield from self._work.costs(folder / "cost.json", target)

    def _count(self, row: BulkRow) -> None:
        added = self._setting.report.added
        match row:
            case WholeConversation():
                added["conversations"] += row.fresh
                added["takes"] += len(row.takes)
                added["messages"] += sum(len(take.messages) for take in row.takes)
                added["verdicts"] += sum(len(take.verdicts) for take in row.takes)
                added["calls"] += sum(call.detail != SUM for call in row.attempts)
            case ScenarioRow():
                added["scenarios"] += 1
            case NewVerdict():
                added["verdicts"] += 1
            case MessageRow():
                added["messages"] += 1
            case AttemptRow():
                added["sums of usage" if row.detail == SUM else "calls"] += 1
            case _:
                pass

    def _note(self) -> NoteRow:
        added = self._setting.report.added_text
        text = f"imported from {self._setting.source.folder}: {added}"
        return NoteRow(kind=NoteKind.WARNING, benchmark=self._setting.name, text=text)
