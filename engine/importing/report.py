"""What an import did: taken, mapped, dropped and why, told to a person and to a script."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from engine.display import plural
from engine.errors import Problem

OFFLINE_LABEL: Final = "offline:"
"""How the label of a scripted model begins."""
SHOWN: Final = 20
"""So many problems of a file are told one by one; the rest is a number."""


_SINGULAR: Final = {
    "calls": "call",
    "conversations": "conversation",
    "messages": "message",
    "scenarios": "scenario",
    "sums of usage": "sum of usage",
    "takes": "take",
    "verdicts": "verdict",
}


@dataclass(slots=True)
class FileReport:
    """What became of one file's rows."""

    path: Path
    rows: int = 0
    taken: int = 0
    """Rows that brought something new."""
    known: int = 0
    """Rows that the store had already."""
    dropped: int = 0
    """Rows that could not be taken."""
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
        """What became of another file counts here; its problems are told here already."""
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
    """What became of one benchmark."""

    name: str
    source: str
    """Where it was found."""
    files: list[FileReport] = field(default_factory=list)
    added: Counter[str] = field(default_factory=Counter)
    """Rows that are new in the store, by kind."""
    mapped: dict[str, str] = field(default_factory=dict)
    """Ids that could not stay as they were, and what they are called now."""
    notes: Counter[str] = field(default_factory=Counter)
    """What a person should know, and how often it was so."""
    read_as: list[str] = field(default_factory=list)
    """Of each metric: what of a log's scores was taken for a verdict."""
    refused: list[Problem] = field(default_factory=list)
    """Why nothing of it was taken; empty otherwise."""
    targets: set[str] = field(default_factory=set)
    unchanged: int | None = None
    """Conversations in files that are as they were when they were imported, of which the store has
    all that came of them, so that nothing was taken in; None where that was not so."""

    def file(self, path: Path) -> FileReport:
        """A new one for a file of this benchmark, to be counted in."""
        report = FileReport(path)
        self.files.append(report)
        return report

    @property
    def dropped(self) -> int:
        """Rows of all its files that could not be taken."""
        return sum(file.dropped for file in self.files)

    @property
    def failed(self) -> bool:
        return bool(self.refused) or any(file.dropped or file.problems for file in self.files)

    @property
    def is_new(self) -> bool:
        """Whether the store has anything more than before."""
        return bool(+self.added)

    @property
    def added_text(self) -> str:
        """`2 conversations, 1 verdict`."""
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

    def as_yaml(self) -> str:
        """A line for `targets:` of config.yaml."""
        scripted = self.model.startswith(OFFLINE_LABEL)
        source = "offline" if scripted else self.source or "openai"
        model = self.model.removeprefix(OFFLINE_LABEL)
        parts = [f"id: {_quoted(self.id)}", f"model: {_quoted(model)}", f"source: {source}"]
        if self.base_url is not None:
            parts.append(f"base_url: {_quoted(self.base_url)}")
        check = "   # a guess: who serves it?" if self.source is None and not scripted else ""
        return f"  - {{{', '.join(parts)}}}{check}"


def _quoted(text: str) -> str:
    """As YAML takes it inside braces."""
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


@dataclass(slots=True)
class ImportReport:
    """All of it."""

    kind: str
    """What the folder turned out to be, in words."""
    dry: bool
    benchmarks: list[BenchmarkReport] = field(default_factory=list)
    placed: list[str] = field(default_factory=list)
    """Files that were written into the workspace."""
    unknown_targets: list[UnknownTarget] = field(default_factory=list)
    problems: list[Problem] = field(default_factory=list)
    """Of the folder as a whole."""

    @property
    def failed(self) -> bool:
        return bool(self.problems) or any(one.failed for one in self.benchmarks)

    def as_json(self) -> dict[str, Any]:
        return {
            "kind": self.kind,
            "dry_run": self.dry,
            "benchmarks": [one.as_json() for one in self.benchmarks],
            "placed": self.placed,
            "targets_to_add": [one.as_yaml().strip() for one in self.unknown_targets],
            "problems": [str(problem) for problem in self.problems],
        }
