"""A watcher's whole view of a workspace: facts of the store, folded, and the link to an engine."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from engine.facts import Fact
from engine.jury import Jury
from engine.link import EngineLink
from engine.progress import Progress
from engine.store.reader import Reader
from engine.store.reading import open_reader


@dataclass(frozen=True, slots=True)
class TargetInfo:
    id: str
    label: str
    scripted: bool


@dataclass(frozen=True, slots=True)
class EvaluatorInfo:
    """A model that can be asked to judge."""

    name: str
    """In the configuration."""
    label: str
    scripted: bool


@dataclass(frozen=True, slots=True)
class BenchmarkInfo:
    name: str
    title: str
    turns: int
    targets: Sequence[TargetInfo]
    scripted: bool
    """Whether any model that plays a part in it is a script and not a language model."""
    jury: Jury | None = None
    """Whose verdicts count."""
    scripts: str | None = None
    """Which parts scripts play, in words; None where that is all of them, or none."""
    evaluators: Sequence[EvaluatorInfo] = ()
    """Who else can be asked: models that have a name, and targets."""


def named_only(names: Sequence[str]) -> list[BenchmarkInfo]:
    """What is known before the configuration is read."""
    return [BenchmarkInfo(name, title="", turns=0, targets=(), scripted=False) for name in names]


@dataclass(slots=True)
class Watch:
    """Belongs to one thread. `poll` it, then look at `progress`."""

    reader: Reader
    benchmarks: Sequence[BenchmarkInfo]
    link: EngineLink | None = None
    """None where no engine runs."""
    described: bool = True
    """Whether `benchmarks` says all of them; else no more than their names, for as long as the
    configuration is being read."""
    progress: Progress = field(init=False)
    _version: int = field(init=False, default=-1)

    def __post_init__(self) -> None:
        self.progress = self.reader.snapshot()

    @classmethod
    def open(
        cls, store: Path, benchmarks: Sequence[BenchmarkInfo], link: EngineLink | None = None
    ) -> Watch:
        """Raises `StoreError`."""
        return cls(open_reader(store), benchmarks, link)

    @property
    def jury(self) -> Jury | None:
        """Whose verdicts count, which is the same in all benchmarks; None before the configuration
        is read."""
        return next((each.jury for each in self.benchmarks), None)

    def describe(self, benchmarks: Sequence[BenchmarkInfo], link: EngineLink | None) -> None:
        """Now that the configuration is read; `link` is to the engine at work, or to the next."""
        self.benchmarks, self.link, self.described = benchmarks, link, True
        self._version = -1  # the store may have been made only now

    def poll(self) -> Sequence[Fact]:
        """What became true since the last call, folded into `progress`; cheap where nothing did."""
        version = self.reader.data_version()
        if version == self._version:
            return ()
        found: list[Fact] = []
        while facts := self.reader.facts(self.progress.seq):
            for fact in facts:
                self.progress.apply(fact)
            found += facts
        self._version = version
        return found

    def close(self) -> None:
        if self.link is not None:
            self.link.close()
        self.reader.close()
