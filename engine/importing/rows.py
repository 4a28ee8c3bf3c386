"""Yields all rows of one benchmark's import, each after the rows that it refers to: from files
of ours, from cached rows of interrupted runs, and from a published site."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import msgspec

from engine.benchmark import UNKNOWN, Stage, Track
from engine.errors import InputError, Problem
from engine.facts import NoteKind
from engine.files import open_regular
from engine.importing import fields
from engine.importing.context import ImportContext, RowLocation
from engine.importing.conversations import Conversations, PendingScores
from engine.importing.fields import UnfitError, our_metric_id, our_scenario_id
from engine.importing.histories import RowHistories
from engine.importing.known_rows import FilesImport
from engine.importing.report import FileReport
from engine.importing.scenarios import ScenarioImport, published_scenario
from engine.importing.source import json_files
from engine.importing.work import SUM, WorkImport
from engine.store.inserts import BulkRow, WholeConversation
from engine.store.json_file import kind_of
from engine.store.mirror_rows import HISTORY
from engine.store.tables import AttemptRow, MessageRow, NoteRow, ScenarioRow, Verdict

_TAXONOMY: Final = "taxonomy.json"
_LARGEST: Final = 16 << 20
_ANSWERS: Final = {"yes": True, "no": False}


def _score(row: Mapping[str, Any], verdict: object) -> dict[str, Any]:
    """Return a row of `scores.json` for the first sample, as the file does not say which one its
    verdict is about. Raises `UnfitError`."""
    if not isinstance(verdict, dict):
        raise UnfitError("verdict", f"expected an object, {{...}}, found {kind_of(verdict)}")
    result = verdict.get("result")
    return {
        "id": row["id"],
        "metric_id": row.get("metric_id"),
        "target_model": row["target_model"],
        "sample": 0,
        "present": _ANSWERS.get(result.strip().lower()) if isinstance(result, str) else None,
        "justification": verdict.get("justification"),
    }


def _rated_metrics(value: object) -> Iterator[tuple[str, bool]]:
    """Yield the metrics in areas and subareas of a taxonomy, and whether each is harmful."""
    if isinstance(value, list):
        for member in value:
            yield from _rated_metrics(member)
    elif isinstance(value, dict):
        name, harmful = value.get("id"), value.get("harmful")
        if isinstance(name, str) and isinstance(harmful, bool):
            yield name, harmful
        for member in value.values():
            yield from _rated_metrics(member)


def tracks_in_taxonomy(root: Path, benchmark: str) -> dict[str, Track]:
    """Return the types of a published benchmark's metrics, by our ids, that `taxonomy.json` in the
    published folder or beside it tells. What it tells in two ways is left out. Raises
    `InputError`."""
    beside = (root / _TAXONOMY, root.absolute().parent / _TAXONOMY)
    path = next((path for path in beside if path.is_file()), None)
    if path is None:
        return {}
    try:
        with open_regular(path) as file:
            taxonomy = msgspec.json.decode(file.read(_LARGEST))
    except (OSError, msgspec.DecodeError, RecursionError) as error:
        raise InputError(Problem(f"cannot be read as a taxonomy: {error}", path)) from error
    told: dict[str, set[Track]] = defaultdict(set)
    for name, harmful in _rated_metrics(taxonomy):
        ours = our_metric_id(name.removeprefix(f"{benchmark}_"))
        if ours is not None:
            told[ours].add(Track.NEGATIVE if harmful else Track.POSITIVE)
    return {name: tracks.pop() for name, tracks in told.items() if len(tracks) == 1}


@dataclass(slots=True)
class PublishedSite:
    """Imports one benchmark from a published site."""

    context: ImportContext
    conversations: Conversations
    scores: PendingScores

    def rows(self, folder: Path) -> Iterator[BulkRow]:
        """Yield the new rows of all models, each of which has a folder."""
        for model in sorted(folder.iterdir()):
            if model.is_dir() and not model.name.startswith("."):
                yield from self._model(model)

    def _model(self, folder: Path) -> Iterator[BulkRow]:
        """Import a folder with a single report: tens of thousands of files would be too many."""
        report = self.context.report.file(folder)
        for path in json_files(folder):
            file = FileReport(path, problems=report.problems)
            yield from self._file(path, file, folder.name)
            report.add(file)

    def _file(self, path: Path, file: FileReport, model: str) -> Iterator[BulkRow]:
        value = self.context.value(path, file)
        if value is None:
            file.rows += 1
            file.dropped += 1
            return
        try:
            yield from self._conversations(value, path, file, model)
        except UnfitError as error:
            file.rows += 1
            RowLocation(file, 0, 1).drop(error)

    def _conversations(
        self, value: object, path: Path, file: FileReport, model: str
    ) -> Iterator[BulkRow]:
        """Import what a file holds: a scenario, the transcript of each sample, and a verdict.
        Raises `UnfitError` before the first row."""
        if not isinstance(value, dict):
            raise UnfitError("", f"expected an object, {{...}}, found {kind_of(value)}")
        scenario, samples = value.get("scenario"), value.get("samples")
        if not isinstance(scenario, dict):
            raise UnfitError("scenario", f"expected an object, {{...}}, found {kind_of(scenario)}")
        published_id = value.get("scenario_id") or scenario.get("id") or path.stem
        if not isinstance(published_id, str):
            raise UnfitError("scenario_id", f"expected an id, found {kind_of(published_id)}")
        if not isinstance(samples, list):
            what = f"expected a list of transcripts, found {kind_of(samples)}"
            raise UnfitError("samples", what)
        row = {**published_scenario(scenario, published_id), "target_model": model}
        verdict, report = value.get("verdict"), self.context.report
        score = None if verdict is None else _score(row, verdict)
        if (ours := our_scenario_id(published_id)) not in {None, published_id}:
            report.mapped[published_id] = str(ours)
        if score is not None and score["present"] is None:
            report.notes["verdicts that are neither yes nor no, kept as unscored"] += 1
        if score is not None and samples:
            # counted separately, as the file's one row is its conversation
            scored = FileReport(path, problems=file.problems)
            self.scores.keep(RowLocation(scored, 0, None), score, model)
            if len(samples) > 1:
                report.notes["verdicts of several samples, kept with the first"] += 1
        for number, transcript in enumerate(samples):
            played = {**row, "sample": number, "transcript": transcript}
            location = RowLocation(file, number, 1)
            yield from self.conversations.rows(location, played, model, number)


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
