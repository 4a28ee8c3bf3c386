"""Reads the published site's files, one conversation each, as rows of `conversations.json`."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import msgspec
from msgspec import Struct

from engine.benchmark import Track
from engine.errors import InputError, Problem
from engine.files import open_regular
from engine.importing.context import ImportContext, RowLocation
from engine.importing.conversations import Conversations, PendingScores
from engine.importing.fields import UnfitError, our_metric_id, our_scenario_id
from engine.importing.report import FileReport
from engine.importing.scenarios import published_scenario
from engine.importing.source import json_files
from engine.store.bulk import BulkRow
from engine.store.json_file import kind_of

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


class _TaxonomyMetric(Struct):
    id: str
    harmful: bool


class _Subarea(Struct):
    metrics: list[_TaxonomyMetric] = []


class _Area(Struct):
    subareas: list[_Subarea] = []


class _Taxonomy(Struct):
    areas: list[_Area]


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
            taxonomy = msgspec.json.decode(file.read(_LARGEST), type=_Taxonomy)
    except (OSError, msgspec.DecodeError, RecursionError) as error:
        raise InputError(Problem(f"cannot be read as a taxonomy: {error}", path)) from error
    told: dict[str, set[Track]] = defaultdict(set)
    for metric in (
        metric for area in taxonomy.areas for part in area.subareas for metric in part.metrics
    ):
        ours = our_metric_id(metric.id.removeprefix(f"{benchmark}_"))
        if ours is not None:
            told[ours].add(Track.NEGATIVE if metric.harmful else Track.POSITIVE)
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
