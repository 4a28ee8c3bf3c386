"""What an import did, for people and as JSON: rows taken, ids mapped, rows dropped and why."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from engine.display import plural
from engine.errors import Problem

OFFLINE_LABEL: Final = "offline:"
"""Prefix of a scripted model's label."""
SHOWN: Final = 20
"""The most problems of a file that are listed; the others are only counted."""


_SINGULAR: Final = {
    "calls": "call",
    "conversations": "conversation",
    "messages": "message",
    "metrics": "metric",
    "reviews": "review",
    "scenarios": "scenario",
    "sums of usage": "sum of usage",
    "takes": "take",
    "verdicts": "verdict",
}


@dataclass(slots=True)
class FileReport:
    """What happened to the rows of one file."""

    path: Path
    rows: int = 0
    taken: int = 0
    """Rows that brought something new."""
    known: int = 0
    """Rows that the store had already."""
    dropped: int = 0
    """Rows that could not be imported."""
    problems: list[Problem] = field(default_factory=list)

    def drop(
        self, what: str, *, line: int | None, key: str | None, hint: str | None = None
    ) -> None:
        self.dropped += 1
        self.tell(Problem(what, self.path, line, key=key, hint=hint))

    def tell(self, problem: Problem) -> None:
        if len(self.problems) < SHOWN:
            self.problems.append(problem)

    def tell_all(self, problems: Iterable[Problem]) -> None:
        for problem in problems:
            self.tell(problem)

    def add(self, other: FileReport) -> None:
        """Add the counts of another file, whose problems are listed here already."""
        self.rows += other.rows
        self.taken += other.taken
        self.known += other.known
        self.dropped += other.dropped

    def as_json(self) -> dict[str, Any]:
        return {
            "file": str(self.path),
            "rows": self.rows,
            "taken": self.taken,
            "known": self.known,
            "dropped": self.dropped,
            "problems": [str(problem) for problem in self.problems],
        }


@dataclass(slots=True)
class BenchmarkReport:
    """What happened to one benchmark."""

    name: str
    source: str
    """Where it was found."""
    files: list[FileReport] = field(default_factory=list)
    added: Counter[str] = field(default_factory=Counter)
    """New rows in the store, by kind."""
    mapped: dict[str, str] = field(default_factory=dict)
    """Ids that had to be changed, with their new ones."""
    notes: Counter[str] = field(default_factory=Counter)
    """What a person should know, with how often it occurred."""
    read_as: list[str] = field(default_factory=list)
    """For each metric, how a log's scores were read as verdicts."""
    refused: list[Problem] = field(default_factory=list)
    """Why nothing of it was imported; empty if anything was."""
    targets: set[str] = field(default_factory=set)
    samples: int = 0
    """The most samples of a scenario that a target has."""
    unchanged: int | None = None
    """The number of conversations if nothing was imported, because the files are unchanged since
    their last import and the store still has all its rows; otherwise None."""

    def file(self, path: Path) -> FileReport:
        """Add a report for a file of this benchmark."""
        report = FileReport(path)
        self.files.append(report)
        return report

    @property
    def dropped(self) -> int:
        """Rows of all files that could not be imported."""
        return sum(file.dropped for file in self.files)

    @property
    def failed(self) -> bool:
        return bool(self.refused) or any(file.dropped or file.problems for file in self.files)

    @property
    def is_new(self) -> bool:
        """Whether the store has more rows than before."""
        return bool(+self.added)

    @property
    def added_text(self) -> str:
        """What was added, as `2 conversations, 1 verdict`."""
        return ", ".join(
            plural(count, _SINGULAR[kind], kind) for kind, count in sorted((+self.added).items())
        )

    def as_json(self) -> dict[str, Any]:
        return {
            "benchmark": self.name,
            "source": self.source,
            "added": dict(sorted((+self.added).items())),
            "mapped": dict(sorted(self.mapped.items())),
            "notes": dict(sorted(self.notes.items())),
            "read_as": self.read_as,
            "refused": [str(problem) for problem in self.refused],
            "targets": sorted(self.targets),
            "samples": self.samples,
            "unchanged": self.unchanged,
            "files": [file.as_json() for file in self.files],
        }


@dataclass(frozen=True, slots=True)
class UnknownTarget:
    """A target of the imported files that the configuration does not have."""

    id: str
    model: str
    source: str | None
    base_url: str | None
    apikey: str | None = None
    """A reference to a variable, never a key."""

    def as_yaml(self) -> str:
        """Return a line for `targets:` of config.yaml."""
        scripted = self.model.startswith(OFFLINE_LABEL)
        source = "offline" if scripted else self.source or "openai"
        model = self.model.removeprefix(OFFLINE_LABEL)
        parts = [
            f"id: {_yaml_quoted(self.id)}",
            f"model: {_yaml_quoted(model)}",
            f"source: {source}",
        ]
        if self.base_url is not None:
            parts.append(f"base_url: {_yaml_quoted(self.base_url)}")
        if self.apikey is not None:
            parts.append(f"apikey: {_yaml_quoted(self.apikey)}")
        check = "   # a guess: who serves it?" if self.source is None and not scripted else ""
        return f"  - {{{', '.join(parts)}}}{check}"


def _yaml_quoted(text: str) -> str:
    """Quote for a YAML flow mapping."""
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


@dataclass(slots=True)
class ImportReport:
    """What happened to the folder."""

    kind: str
    """What the folder was recognised as, in words."""
    dry: bool
    benchmarks: list[BenchmarkReport] = field(default_factory=list)
    placed: list[str] = field(default_factory=list)
    """Files that were written into the workspace, by relative path."""
    unknown_targets: list[UnknownTarget] = field(default_factory=list)
    problems: list[Problem] = field(default_factory=list)
    """Problems of the folder as a whole."""

    @property
    def samples(self) -> int:
        """The most samples of a scenario, in all benchmarks."""
        return max((benchmark.samples for benchmark in self.benchmarks), default=0)

    @property
    def failed(self) -> bool:
        return bool(self.problems) or any(benchmark.failed for benchmark in self.benchmarks)

    def as_json(self) -> dict[str, Any]:
        return {
            "kind": self.kind,
            "dry_run": self.dry,
            "benchmarks": [benchmark.as_json() for benchmark in self.benchmarks],
            "placed": self.placed,
            "targets_to_add": [
                unknown_target.as_yaml().strip() for unknown_target in self.unknown_targets
            ],
            "problems": [str(problem) for problem in self.problems],
        }
