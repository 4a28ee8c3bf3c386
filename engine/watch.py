"""A watcher's whole view of a workspace: facts of the store, folded, and the link to an engine."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from engine.benchmark import Metric
from engine.facts import Fact, NoteKind, TakeStarted, VerdictGiven
from engine.jury import Jury
from engine.link import EngineLink
from engine.progress import Progress
from engine.scripted import Parts, scripts_in_words
from engine.store.reader import Reader
from engine.store.reading import open_reader


@dataclass(frozen=True, slots=True)
class TargetInfo:
    id: str
    label: str
    scripted: bool


@dataclass(frozen=True, slots=True)
class EvaluatorInfo:
    """A model that is offered as a judge."""

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
    """Whether any model that had a part in what is stored of it is a script and not a language
    model; where nothing is, any that will have."""
    jury: Jury | None = None
    """Whose verdicts count."""
    scripts: str | None = None
    """Which parts scripts play, in words; None where that is all of them, or none."""
    evaluators: Sequence[EvaluatorInfo] = ()
    """Who else is offered as a judge: models that have a name, but for those under test."""
    configured: Parts = field(default_factory=dict)
    """Which parts scripts play by the configuration."""
    played: Parts = field(default_factory=dict)
    """Which parts they had in what is stored; nothing where nothing is."""
    definition: Path | None = None
    """The file that says what it measures."""
    description: str = ""
    """What it asks, in the words of that file."""
    metrics: Mapping[str, Metric] = field(default_factory=dict)
    """By id; none before they are written."""

    @property
    def at_work(self) -> BenchmarkInfo:
        """This benchmark while a run of the configuration adds to what is stored."""
        parts = dict(self.configured)
        for part, script in self.played.items():
            parts[part] = script or parts.get(part, False)
        return self.with_parts(parts)

    def with_parts(self, parts: Parts) -> BenchmarkInfo:
        scripts = None if all(parts.values()) else scripts_in_words(parts)
        return replace(self, scripted=any(parts.values()), scripts=scripts)


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
    _at_work: set[str] = field(init=False, default_factory=set)
    """Benchmarks of which something was played or judged since the watch began."""

    def __post_init__(self) -> None:
        self.progress = self.reader.snapshot()

    @classmethod
    def open(
        cls, store: Path, benchmarks: Sequence[BenchmarkInfo], link: EngineLink | None = None
    ) -> Watch:
        """With what the configuration says of the benchmarks. Raises `StoreError`."""
        return cls(open_reader(store), benchmarks, link)

    @property
    def jury(self) -> Jury | None:
        """Whose verdicts count, which is the same in all benchmarks; None before the configuration
        is read."""
        return next((each.jury for each in self.benchmarks), None)

    def describe(self, benchmarks: Sequence[BenchmarkInfo], link: EngineLink | None) -> None:
        """Now that the configuration is read; `link` is to the engine at work, or to the next."""
        self.benchmarks, self.link, self.described = benchmarks, link, True
        self._at_work.clear()
        self._version = -1  # the store may have been made only now

    def poll(self) -> Sequence[Fact]:
        """What became true since the last call, folded into `progress`; cheap where nothing did."""
        # SQLite's own counter of what other connections have committed, which is cheap to ask
        version = self.reader.data_version()
        if version == self._version:
            return ()
        found: list[Fact] = []
        # in portions, as the store gives them, so that a watcher that comes late holds no reader
        # for long
        while facts := self.reader.facts(self.progress.seq):
            for fact in facts:
                self.progress.apply(fact)
            found += facts
        # the one from before reading: what came while it was read is seen by the next poll
        self._version = version
        self._hear_of_scripts(found)
        return found

    def _hear_of_scripts(self, facts: Sequence[Fact]) -> None:
        """A run that plays or judges does so with the models of the configuration."""
        if self.progress.run_state in {None, NoteKind.RUN_ENDED}:
            return
        news = {fact.benchmark for fact in facts if isinstance(fact, TakeStarted | VerdictGiven)}
        if not news <= self._at_work:
            self._at_work |= news
            self.benchmarks = [
                each.at_work if each.configured and each.name in news else each
                for each in self.benchmarks
            ]

    def close(self) -> None:
        if self.link is not None:
            self.link.close()
        self.reader.close()
