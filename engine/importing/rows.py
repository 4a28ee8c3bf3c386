"""Yields all rows of one benchmark's import, each after the rows that it refers to."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from engine.benchmark import UNKNOWN, Stage
from engine.errors import InputError, Problem
from engine.facts import NoteKind
from engine.importing import fields
from engine.importing.context import ImportContext, RowLocation
from engine.importing.conversations import Conversations, PendingScores
from engine.importing.fields import UnfitError
from engine.importing.histories import RowHistories
from engine.importing.published import PublishedSite
from engine.importing.scenarios import ScenarioImport
from engine.importing.unchanged_files import FilesImport
from engine.importing.work import SUM, WorkImport
from engine.store.bulk import BulkRow, WholeConversation
from engine.store.mirror_rows import HISTORY
from engine.store.tables import AttemptRow, MessageRow, NoteRow, ScenarioRow, Verdict

_EXPANDED: Final = "_expanded"
"""Suffix of a metric's id in the name of the file with its variants."""


@dataclass(frozen=True, slots=True)
class _FileName:
    """The parts of a file name `<id>__s<n>__<target>.json` in its target's folder."""

    id: str
    target: str | None
    sample: int

    @classmethod
    def of(cls, path: Path) -> _FileName:
        first, *others = path.stem.split("__")
        samples = [other for other in others if other[:1] == "s" and other[1:].isdecimal()]
        folder = path.parent.parent if path.parent.name == "eval" else path.parent
        target = others[-1] if others and others[-1] not in samples else folder.name
        return cls(first, target, int(samples[0][1:]) if samples else 0)


@dataclass(slots=True)
class CacheImport:
    """Imports the cached rows of one benchmark. Rows of finished files take precedence."""

    context: ImportContext
    scenario_import: ScenarioImport
    conversations: Conversations
    scores: PendingScores

    def rows(self, folder: Path) -> Iterator[BulkRow]:
        """Yield what is new. Scenarios and scores are read first: conversations need the scenarios,
        and scores wait for their conversations."""
        documents: list[tuple[Path, dict[str, Any]]] = []
        for path in sorted(folder.rglob("*.json")):
            value = self._read(path)
            if not isinstance(value, dict):
                continue
            if isinstance(value.get("scores"), list):
                self._keep_scores(path, value["scores"])
            elif "transcript" in value:
                documents.append((path, value))
            elif isinstance(value.get("variants") or value.get("scenarios"), list):
                yield from self._generated(path, value)
            else:
                note = "cached files that hold no conversation, not read"
                self.context.report.notes[note] += 1
        for path, value in documents:
            yield from self._conversation(path, value)

    def _generated(self, path: Path, value: dict[str, Any]) -> Iterator[BulkRow]:
        """Import what was generated before an interruption. If there is a `scenarios.json`, the
        generation was finished, and that file counts."""
        notes = self.context.report.notes
        if (self.context.source.folder / "scenarios.json").exists():
            notes["cached files of a generation that was finished, not needed"] += 1
            return
        metric = str(value.get("id") or path.stem).removesuffix(_EXPANDED)
        usage = fields.usage(value)
        if usage is not None and not self.context.known.has_call(Stage.GEN_SCENARIOS, metric):
            yield self.scenario_import.work.attempt(
                Stage.GEN_SCENARIOS, metric, None, UNKNOWN, usage
            )
        variants = value.get("variants")
        if not isinstance(variants, list):
            note = "cached base scenarios, not taken: what is played are their variants"
            notes[note] += len(value["scenarios"])
            return
        file = self.context.report.file(path)
        for index, row in enumerate(variants):
            with_metric = row
            if isinstance(row, dict):
                with_metric = {**row, "metric_id": row.get("metric_id") or metric}
            yield from self.scenario_import.cached(with_metric, RowLocation(file, index, None))

    def _read(self, path: Path) -> object:
        file = self.context.report.file(path)
        value = self.context.value(path, file)
        if value is not None:
            self.context.report.files.remove(file)
        return value

    def _keep_scores(self, path: Path, rows: list[Any]) -> None:
        named = _FileName.of(path)
        file = self.context.report.file(path)
        for index, row in enumerate(rows):
            with_metric = (
                {"id": named.id, "sample": named.sample, **row} if isinstance(row, dict) else row
            )
            if isinstance(with_metric, dict) and self._is_known(with_metric, named):
                file.rows += 1
                file.known += 1
            else:
                self.scores.keep(RowLocation(file, index, None), with_metric, named.target)

    def _is_known(self, row: dict[str, Any], named: _FileName) -> bool:
        """Whether the finished files have this conversation, and so its scores."""
        try:
            key, theirs = self.conversations.key(row, named.target, named.sample)
        except UnfitError:
            return False
        return self.conversations.has(key) or self.scores.wait_for(theirs)

    def _conversation(self, path: Path, value: dict[str, Any]) -> Iterator[BulkRow]:
        named = _FileName.of(path)
        row = {"id": named.id, **value}
        location = RowLocation(self.context.report.file(path), 0, 1)
        try:
            key, _ = self.conversations.key(row, named.target, named.sample)
        except UnfitError as error:
            location.file.rows += 1
            location.drop(error)
            return
        if self.conversations.has(key):
            location.file.rows += 1
            location.file.known += 1
            return
        yield from self.conversations.rows(location, row, named.target, named.sample)


class BenchmarkRows:
    """Reads the files of a benchmark and yields rows, once; findings go to the context's report."""

    def __init__(self, context: ImportContext) -> None:
        self._context = context
        self._work = WorkImport(context)
        self._history = RowHistories(context, None)
        self._scenario_import = ScenarioImport(context, self._work, self._history)
        self._scores = PendingScores(context)
        self._conversations = Conversations(
            context, self._work, self._scenario_import, self._scores
        )

    @property
    def found(self) -> FilesImport:
        """What the files hold besides rows."""
        conversations = self._conversations
        metrics_named = self._scenario_import.metrics_named
        samples = conversations.samples
        return FilesImport(conversations.count, conversations.targets, metrics_named, samples)

    def rows(self) -> Iterator[BulkRow]:
        """Yield all rows. Raises `InputError` if a folder cannot be read."""
        report = self._context.report
        try:
            for row in self._all_rows():
                self._count(row)
                yield row
        except OSError as error:
            where = Path(error.filename or self._context.source.folder)
            raise InputError(Problem(f"cannot be read: {error.strerror}", where)) from error
        report.mapped |= self._context.names.mapped
        report.targets = set(self._conversations.targets)
        report.samples = self.found.samples
        # after the rows, as it says how many there are
        if report.is_new:
            yield self._note()
        if not report.failed:
            context = self._context
            yield self.found.note(context.name, context.files, context.made_from)

    def _all_rows(self) -> Iterator[BulkRow]:
        source = self._context.source
        if source.published:
            yield from PublishedSite(self._context, self._conversations, self._scores).rows(
                source.folder
            )
            return
        # in the order of references: scenarios before conversations that were played from them, and
        # sums of usage last, when it is known which calls were listed
        self._history.read(source.folder / HISTORY)
        reader = self._context.known.reader
        explained = {row.digest for row in reader.model_settings()}
        yield from (row for row in self._history.settings() if row.digest not in explained)
        yield from self._metrics_and_reviews()
        yield from self._work.remaining(self._history)
        yield from self._scenario_import.file(source.folder / "scenarios.json")
        yield from self._scenario_import.bases()
        yield from self._scenario_import.removed()
        runs = source.folder / "runs"
        for folder in sorted(runs.iterdir()) if runs.is_dir() else ():
            if folder.is_dir():
                yield from self._run_rows(folder)
        if source.cache is not None:
            cache = CacheImport(
                self._context, self._scenario_import, self._conversations, self._scores
            )
            yield from cache.rows(source.cache)
        yield from self._conversations.judged_alone()
        yield from self._scenario_import.forgotten()
        yield from self._work.of_stages(source.folder, self._history)
        yield from self._work.costs(source.folder / "cost.json", None)

    def _metrics_and_reviews(self) -> Iterator[BulkRow]:
        """Yield those that the store has not."""
        known, report = self._context.known, self._context.report
        metrics = known.new_metrics(list(self._history.metrics()))
        reviews = known.new_reviews(list(self._history.reviews()))
        if self._context.repairs:
            report.added["metrics"] += len(metrics)
            report.added["reviews"] += len(reviews)
        yield from metrics
        yield from reviews

    def _run_rows(self, folder: Path) -> Iterator[BulkRow]:
        """Import a target's folder. Scores are read first, and wait for their conversations."""
        self._scores.read(folder / "scores.json", folder.name)
        target = self._context.names.ours(folder.name)
        histories = RowHistories(self._context, target)
        histories.read(folder / HISTORY)
        file, rows = self._context.rows(folder / "conversations.json")
        for row in rows:
            location = RowLocation(file, row.index, row.line)
            yield from self._conversations.rows(location, row.value, folder.name, 0, histories)
        yield from self._conversations.unfinished(histories)
        yield from self._work.remaining(histories)
        if target is not None:
            yield from self._work.costs(folder / "cost.json", target)

    def _count(self, row: BulkRow) -> None:
        added = self._context.report.added
        match row:
            case WholeConversation():
                added["conversations"] += row.fresh
                added["takes"] += len(row.takes)
                for take in row.takes:
                    added["messages"] += len(take.messages)
                    added["verdicts"] += len(take.verdicts)
                added["calls"] += sum(call.detail != SUM for call in row.attempts)
            case ScenarioRow():
                added["scenarios"] += 1
            case Verdict():
                added["verdicts"] += 1
            case MessageRow():
                added["messages"] += 1
            case AttemptRow():
                added["sums of usage" if row.detail == SUM else "calls"] += 1
            case _:
                pass

    def _note(self) -> NoteRow:
        added = self._context.report.added_text
        text = f"imported from {self._context.source.place}: {added}"
        return NoteRow(kind=NoteKind.WARNING, benchmark=self._context.name, text=text)
