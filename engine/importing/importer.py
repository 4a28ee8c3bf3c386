"""Imports a folder of files into a workspace, one benchmark at a time, each completely or not at
all; makes the workspace that an import fills."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from difflib import get_close_matches
from pathlib import Path
from typing import Any, Final

import yaml

from engine.benchmark import Scenario, Track
from engine.branches import Branch
from engine.config.benchmark_file import Definition, load_definition
from engine.config.checks import PINPOINT, with_sent_names
from engine.config.schema import Config
from engine.config.schemas import CONFIG_MODELINE
from engine.config.secrets import Secret
from engine.config.templates import init_workspace
from engine.config.workspace import Workspace
from engine.config.yaml_text import read_yaml
from engine.errors import InputError, Problem
from engine.files import digest_on_disk, replace_file
from engine.importing.context import ImportContext, place_definition, place_draft, place_scenarios
from engine.importing.fields import Names, fitting_name, objects_in, text
from engine.importing.known_rows import KnownRows, made_from, unchanged
from engine.importing.report import BenchmarkReport, ImportReport, UnknownTarget
from engine.importing.rows import BenchmarkRows, tracks_in_taxonomy
from engine.importing.source import (
    ImportableFolder,
    Source,
    SourceFiles,
    refuse_unfit,
    size_of,
)
from engine.importing.takes import VerdictRules
from engine.store.database import Store
from engine.store.imports import CONFIG
from engine.store.inserts import BulkRow
from engine.store.reader import Reader
from engine.store.scenarios_json import read_scenarios


def _ignore(*_: object) -> None:
    """Follow no progress."""


@dataclass(slots=True)
class Importer:
    """Imports into one workspace."""

    workspace: Workspace
    config: Config
    reader: Reader
    store: Store | None
    """None for a dry run, which reads everything and writes nothing."""
    on_begin: Callable[[str, int], object] = _ignore
    """Called with the name of a benchmark that begins, and about how many bytes its files have."""
    on_read: Callable[[int], object] = _ignore
    """Called with the number of bytes that were read."""
    anew: bool = False
    """Read unchanged files, too, as the store's rows may be wrong."""

    async def run(self, folder: ImportableFolder, names: Sequence[str] = ()) -> ImportReport:
        """Import all benchmarks, or those of these names. Raises `InputError` for an unknown name,
        and `StoreError`; problems of the files are in the report."""
        report = ImportReport(folder.kind, dry=self.store is None)
        targets: dict[str, UnknownTarget] = {}
        configured = _configured_targets(folder, report)
        models = {target.id: target.model for target in configured}
        for source in _chosen_sources(folder.sources, names):
            benchmark = BenchmarkReport(source.name, str(source.place))
            report.benchmarks.append(benchmark)
            try:
                targets |= await self._import(source, folder, models, benchmark, report)
            except InputError as error:
                benchmark.refused += error.problems
                benchmark.added.clear()
        if self.store is not None:
            # what reads the store goes by it where config.yaml has a slip and nothing has run yet
            text = json.dumps(self.config.public(), ensure_ascii=False)
            await self.store.set_mirrored({CONFIG: text})
        by_name = {fitting_name(target.id): target for target in configured}
        targets |= {
            name: replace(target, id=name)
            for name in targets
            if (target := by_name.get(name)) is not None
        }
        known = {target.id for target in self.config.targets}
        report.unknown_targets = [
            target for name, target in sorted(targets.items()) if name not in known
        ]
        return report

    async def _import(
        self,
        source: Source,
        folder: ImportableFolder,
        models: Mapping[str, str],
        benchmark: BenchmarkReport,
        report: ImportReport,
    ) -> Mapping[str, UnknownTarget]:
        """Import a benchmark and return its targets. Raises `InputError` if nothing of it can be
        imported."""
        name = source.name if Branch.parse(source.name) else fitting_name(source.name)
        if name is None:
            what = f"`{source.name[:100]}` cannot be the name of a benchmark"
            hint = "rename the folder: letters, digits, '.', '_' and '-'"
            raise InputError(Problem(what, source.folder, hint=hint))
        if source.definition_path.exists() or source.definition_path.is_symlink():
            refuse_unfit(source.definition_path, folder.root)
        definition = self._definition(source, name)
        if name != source.name:
            benchmark.mapped[source.name] = name
        benchmark.name = name
        metrics = None if definition is None else definition.metrics
        edited = self._edited_scenarios_digest(source, name)
        of = made_from(source, metrics, models, self.config.jury, edited)
        size = size_of(source)
        self.on_begin(name, size)
        found = None
        if not self.anew:
            found = unchanged(self.reader, name, SourceFiles(source, folder.root), of)
        if found is None:
            context = self._context(source, folder, models, benchmark, definition, of)
            rows = BenchmarkRows(context)
            await self._write(rows.rows())
            found = rows.found
        else:
            self.on_read(size)
            benchmark.unchanged, benchmark.samples = found.conversations, found.samples
            benchmark.targets = set(found.targets)
        report.placed += await self._write_definition(
            source, folder.root, name, definition, found.metrics_named
        )
        return found.targets

    async def _write(self, rows: Iterator[BulkRow]) -> None:
        if self.store is not None:
            await self.store.write_all(rows)
            return
        for _ in rows:
            pass

    def _edited_scenarios_digest(self, source: Source, name: str) -> str | None:
        """Return the digest of the workspace's `scenarios.json` if a person wrote or edited it."""
        path = self.workspace.definition_path(name).with_name("scenarios.json")
        if not path.is_file() or _same_file(path, source.folder / "scenarios.json"):
            return None
        relative = path.relative_to(self.workspace.root).as_posix()
        known = self.reader.mirrored(relative)
        digest = digest_on_disk(path)
        return None if known is not None and known.digest == digest else digest

    def _context(
        self,
        source: Source,
        folder: ImportableFolder,
        models: Mapping[str, str],
        report: BenchmarkReport,
        definition: Definition | None,
        made_from: str,
    ) -> ImportContext:
        name = report.name
        return ImportContext(
            name=name,
            source=source,
            definition=definition,
            scenarios=self._scenarios(source, name, definition),
            removed=self.reader.removed_scenarios(name),
            versions=self._versions(source, name),
            repairs=self.anew,
            known=KnownRows(self.reader, name),
            names=Names(stored=self._changed_names()),
            models=models,
            rules=VerdictRules(_tracks(definition), self.config.jury),
            report=report,
            user_audit=self.config.user_audit,
            turns=self.config.generation.turns,
            made_from=made_from,
            files=SourceFiles(source, folder.root, self.on_read),
        )

    def _changed_names(self) -> dict[str, str]:
        """Return the targets whose names were made from their models', with these."""
        known = self.reader.target_models()
        return {name: model for name, model in known if fitting_name(model) == name != model}

    def _versions(self, source: Source, name: str) -> dict[str, list[Scenario]]:
        """Return every stored version of each scenario, if this makes a store again from a file of
        ours that nobody edited."""
        versions: defaultdict[str, list[Scenario]] = defaultdict(list)
        file = self.workspace.definition_path(name).with_name("scenarios.json")
        is_ours = _same_file(file, source.folder / "scenarios.json")
        if self.anew and is_ours:
            known = self.reader.mirrored(file.relative_to(self.workspace.root).as_posix())
            if known is not None and known.digest == digest_on_disk(file):
                for row in self.reader.scenario_history(name).values():
                    versions[row.scenario.id].append(row.scenario)
        return versions

    def _definition(self, source: Source, name: str) -> Definition | None:
        """Return the workspace's definition, else theirs; None if neither exists. Raises
        `InputError` if their metrics differ."""
        ours, theirs = self.workspace.definition_path(name), source.definition_path
        their_definition = load_definition(theirs) if theirs.is_file() else None
        if not ours.is_file() or _same_file(ours, theirs):
            return their_definition
        standing = load_definition(ours)
        other = [] if their_definition is None else list(_other_metrics(standing, their_definition))
        hint = "import into another workspace, or rename one of the two folders"
        if source.origin is not None:
            # a definition that was made from a log may be edited, and the edited one counts
            ids = {metric.id for metric in standing.metrics}
            metrics = () if their_definition is None else their_definition.metrics
            other = [f"it has no {metric.id}" for metric in metrics if metric.id not in ids]
            hint = "import all logs of the task at once, into another workspace; or some --metric"
        if other:
            what = f"the workspace's benchmark has other metrics: {', '.join(other)}"
            raise InputError(Problem(what, theirs, hint=hint))
        return standing

    def _scenarios(
        self, source: Source, name: str, definition: Definition | None
    ) -> dict[str, Scenario]:
        """Return the stored scenarios, and those of a file that no run has read yet."""
        scenarios = {row.scenario.id: row.scenario for row in self.reader.scenarios(name)}
        path = self.workspace.definition_path(name).with_name("scenarios.json")
        if path.is_file() and not _same_file(path, source.folder / "scenarios.json"):
            metrics = [] if definition is None else [metric.id for metric in definition.metrics]
            turns = self.config.generation.turns
            written, _ = read_scenarios(path, turns=turns, metrics=metrics)
            scenarios |= {
                scenario.id: scenario for scenario in written if scenario.id not in scenarios
            }
        return scenarios

    async def _write_definition(
        self,
        source: Source,
        root: Path,
        name: str,
        definition: Definition | None,
        metrics_named: Mapping[str, str],
    ) -> list[str]:
        """Write the files that make it a benchmark of this workspace. A person's files stay."""
        if self.store is None:
            return []
        placed: list[Path] = []
        path = self.workspace.definition_path(name)
        if definition is None:
            tracks = tracks_in_taxonomy(root, source.name) if source.published else {}
            placed += place_draft(path, source.name, metrics_named, tracks)
        elif not path.exists():
            placed += place_definition(source.definition_path, path)
        if definition is not None:
            metrics = definition.metrics
            placed += await place_scenarios(self.workspace, self.store, name, metrics)
        return [path.relative_to(self.workspace.root).as_posix() for path in placed]


def _tracks(definition: Definition | None) -> dict[str, Track]:
    metrics = () if definition is None else definition.metrics
    return {metric.id: metric.track for metric in metrics}


def _chosen_sources(sources: Sequence[Source], names: Collection[str]) -> list[Source]:
    if not names:
        return list(sources)
    known = [source.name for source in sources]
    problems = []
    for name in names:
        if name not in known:
            near = get_close_matches(name, known, 1)
            hint = f"did you mean {near[0]!r}?" if near else f"there is: {', '.join(known)}"
            problems.append(Problem(f"there is no benchmark {name[:100]!r} to import", hint=hint))
    if problems:
        raise InputError(problems)
    return [source for source in sources if source.name in names]


def _configured_targets(folder: ImportableFolder, report: ImportReport) -> list[UnknownTarget]:
    """Return the targets of the imported folder's configuration, with keys only by their names."""
    if folder.config is None:
        return []
    try:
        document = with_sent_names(read_yaml(folder.config))
    except InputError as error:
        report.problems += error.problems
        return []
    targets = [target for target in objects_in(document.data.get("targets")) if text(target, "id")]
    return [
        UnknownTarget(
            str(target["id"]),
            text(target, "model") or str(target["id"]),
            text(target, "source"),
            text(target, "base_url"),
            key if Secret(key := text(target, "apikey") or "").is_reference else None,
        )
        for target in targets
    ]


def _other_metrics(ours: Definition, theirs: Definition) -> Iterator[str]:
    standing = {metric.id: metric for metric in ours.metrics}
    for metric in theirs.metrics:
        mine = standing.get(metric.id)
        if mine is None:
            yield f"it has no {metric.id}"
        elif mine.track is not metric.track:
            yield f"{metric.id} is {metric.track} there and {mine.track} here"
        elif mine.definition.split() != metric.definition.split():
            yield f"{metric.id} has another definition"
        elif mine.when is not metric.when:
            yield f"{metric.id} is to hold {metric.when} there and {mine.when} here"


def _same_file(path: Path, other: Path) -> bool:
    try:
        return path.samefile(other)
    except OSError:
        return False


# The workspace that an import fills


_ROLES: Final = ("user_model", "evaluator_model", "generator_model")
_KEPT: Final = ("generation", "demographics", "landmarks", "perfunctory")
_HEAD: Final = """\
# Made by `crosswind import`. Keys are looked up in the environment and in .env by these names.
# `crosswind init DIR` makes a config.yaml that explains every key.
"""


def make_workspace(folder: Path, imported: Path | None) -> Workspace:
    """Make a workspace with the models of the imported `config.yaml`, or else with those of a new
    workspace. Raises `InputError`."""
    theirs = {} if imported is None else with_sent_names(read_yaml(imported)).data
    workspace = Workspace(folder)
    init_workspace(folder)
    starter = read_yaml(workspace.config_path).data
    kept = {key: _without_keys(theirs.get(key) or starter.get(key)) for key in _ROLES}
    kept |= {key: theirs[key] for key in _KEPT if key in theirs}
    if PINPOINT in theirs:
        kept.setdefault("landmarks", theirs[PINPOINT])
    targets = theirs.get("targets")
    listed = targets if isinstance(targets, list) and targets else starter["targets"]
    _write(workspace, {**kept, "targets": [_without_keys(target) for target in listed]})
    return workspace


def complete_configuration(
    workspace: Workspace, found: Sequence[UnknownTarget], num_samples: int, *, add: bool
) -> None:
    """Write the targets that were found into the configuration of a workspace made for them, after
    those that stand there if `add`, or else in their place, and the number of samples."""
    config = dict(read_yaml(workspace.config_path).data)
    targets = [target for line in found for target in yaml.safe_load(line.as_yaml())]
    if targets:
        config["targets"] = [*(config["targets"] if add else []), *targets]
    made = dict(config.get("generation") or {})
    config["generation"] = {**made, "num_samples": max(num_samples, made.get("num_samples", 1))}
    _write(workspace, config)


def _without_keys(model: Any) -> Any:
    """Leave out headers, and a key that is not the name of a variable."""
    if not isinstance(model, dict):
        return model
    kept = {key: value for key, value in model.items() if "headers" not in str(key)}
    if not Secret(str(kept.get("apikey"))).is_reference:
        kept.pop("apikey", None)
    return kept


def _write(workspace: Workspace, config: Mapping[str, Any]) -> None:
    text = yaml.safe_dump(dict(config), allow_unicode=True, sort_keys=False, width=100)
    replace_file(workspace.config_path, (CONFIG_MODELINE + _HEAD + text).encode())
