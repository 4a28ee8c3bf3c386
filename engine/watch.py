"""A watcher's view of a workspace: folded facts from the store, and the link to the engine."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import NamedTuple

from engine.benchmark import Metric, Stage, State
from engine.facts import Fact, NoteKind, TakeStarted, VerdictGiven
from engine.jury import Counts, Jury
from engine.link import EngineLink
from engine.progress import Progress, StateCorrection, StateCounts
from engine.scripted import Parts, scripts_in_words
from engine.store.open_reader import open_reader
from engine.store.reader import Reader


@dataclass(frozen=True, slots=True)
class TargetInfo:
    id: str
    label: str
    scripted: bool


@dataclass(frozen=True, slots=True)
class EvaluatorInfo:
    """A model that can be chosen as a judge."""

    name: str
    """Its name in the configuration."""
    label: str
    scripted: bool
    part: str = ""
    """What it has done in the conversations that it would judge, as a clause; empty if nothing."""


@dataclass(frozen=True, slots=True)
class BenchmarkInfo:
    name: str
    title: str
    turns: int
    targets: Sequence[TargetInfo]
    scripted: bool
    """Whether any model behind the stored results is a script; with none stored, whether any
    configured model is."""
    jury: Jury | None = None
    """Decides whose verdicts count."""
    scripts: str | None = None
    """Which parts scripts play, in words; None where all parts or none are scripted."""
    evaluators: Sequence[EvaluatorInfo] = ()
    """Named models that can be chosen as judges, those that took no part in the conversations
    first."""
    configured: Parts = field(default_factory=dict)
    """Which parts are scripted in the configuration."""
    played: Parts = field(default_factory=dict)
    """Which parts were scripted in the stored results; empty where there are none."""
    definition: Path | None = None
    """The file that defines the benchmark."""
    description: str = ""
    """What the benchmark asks, from that file."""
    metrics: Mapping[str, Metric] = field(default_factory=dict)
    """By id; empty before metrics are written."""
    counts: Callable[[Reader], Counts] | None = field(default=None, compare=False)
    """Reads what counts by the files as they are; None before the configuration is read. Raises
    `CrosswindError`."""

    @property
    def at_work(self) -> BenchmarkInfo:
        """This benchmark while a run adds results of the current configuration."""
        parts = dict(self.configured)
        for part, script in self.played.items():
            parts[part] = script or parts.get(part, False)
        return self.with_parts(parts)

    def with_parts(self, parts: Parts) -> BenchmarkInfo:
        scripts = None if all(parts.values()) else scripts_in_words(parts)
        return replace(self, scripted=any(parts.values()), scripts=scripts)


def named_only(names: Sequence[str]) -> list[BenchmarkInfo]:
    """The benchmarks by name only, before the configuration is read."""
    return [BenchmarkInfo(name, title="", turns=0, targets=(), scripted=False) for name in names]


def targets_of(infos: Sequence[BenchmarkInfo]) -> set[str]:
    """The ids of the configured targets; empty before the configuration is read."""
    return {target.id for info in infos for target in info.targets}


class WrittenCounts(NamedTuple):
    """What the stages that write count, of which a row of work is more than one thing, or less."""

    metrics: int
    """Those that there are; 0 while they are being written."""
    metrics_to_do: int
    """Metrics whose base scenarios are still to be written, all in one row."""
    variants: StateCounts


@dataclass(slots=True)
class Watch:
    """Belongs to one thread. Call `poll`, then read `progress`."""

    reader: Reader
    benchmarks: Sequence[BenchmarkInfo]
    link: EngineLink | None = None
    """None where no engine is running."""
    described: bool = True
    """False while the configuration is being read and `benchmarks` holds names only."""
    progress: Progress = field(init=False)
    _version: int = field(init=False, default=-1)
    _at_work: set[str] = field(init=False, default_factory=set)
    """Benchmarks with a take or verdict since the watch began or was described."""
    corrections: dict[str, Sequence[StateCorrection]] = field(init=False, default_factory=dict)
    """By benchmark: rows counted in another state than the stored one."""
    _written: dict[str, tuple[object, WrittenCounts]] = field(init=False, default_factory=dict)
    """By benchmark: what `written` found, and for which rows of work."""

    def __post_init__(self) -> None:
        self.progress = self.reader.snapshot()

    @classmethod
    def open(
        cls, store: Path, benchmarks: Sequence[BenchmarkInfo], link: EngineLink | None = None
    ) -> Watch:
        """Open the store. Raises `StoreError`."""
        return cls(open_reader(store), benchmarks, link)

    @property
    def jury(self) -> Jury | None:
        """Decides whose verdicts count, in all benchmarks; None before the configuration is
        read."""
        return next((benchmark.jury for benchmark in self.benchmarks), None)

    def counts(self, benchmark: str, reader: Reader | None = None) -> Counts | None:
        """What counts in a benchmark; None before the configuration is read. Raises
        `CrosswindError`."""
        counts = next((info.counts for info in self.benchmarks if info.name == benchmark), None)
        return None if counts is None else counts(reader or self.reader)

    @property
    def judges(self) -> Sequence[str]:
        """The judges whose verdicts count; none before the configuration is read."""
        return () if self.jury is None else self.jury.judges

    def describe(self, benchmarks: Sequence[BenchmarkInfo], link: EngineLink | None) -> None:
        """Set what the configuration says, once it is read, and the link to the engine."""
        self.benchmarks, self.link, self.described = benchmarks, link, True
        self._at_work.clear()
        self._version = -1  # the store may just have been created

    def tally(self, info: BenchmarkInfo, stage: Stage) -> StateCounts:
        """The rows of a stage, without those of targets that are configured no more."""
        if not info.targets or stage not in {Stage.SIMULATE, Stage.EVALUATE}:
            return self.progress.stage_tally(info.name, stage)
        targets = [self.progress.target(info.name, target.id) for target in info.targets]
        counts = [
            target.simulate if stage is Stage.SIMULATE else target.evaluate for target in targets
        ]
        return sum(counts, StateCounts())

    def written(self, benchmark: str) -> WrittenCounts:
        """How many metrics and variants there are. Reads the store where a row of work of theirs
        has changed. Raises `StoreError`."""
        done = self.progress.stage_tally(benchmark, Stage.GEN_METRICS)
        rows = self.progress.stage_tally(benchmark, Stage.GEN_SCENARIOS)
        infos = [info for info in self.benchmarks if info.name == benchmark]
        metrics: Sequence[str] = [each for info in infos for each in info.metrics]
        version = replace(done), replace(rows), metrics
        known = self._written.get(benchmark)
        if known is None or known[0] != version:
            # those that a run wrote after the definition was read are in the store only
            if rows.total and not metrics:
                metrics = [metric.id for metric, _, _ in self.reader.metrics(benchmark)]
            known = version, self._count_written(benchmark, metrics)
            self._written[benchmark] = known
        return known[1]

    def _count_written(self, benchmark: str, metrics: Sequence[str]) -> WrittenCounts:
        rows = self.progress.stage_tally(benchmark, Stage.GEN_SCENARIOS)
        variants, to_do = replace(rows), 0
        if rows.total:
            for state in self.reader.states_of(benchmark, Stage.GEN_SCENARIOS, metrics):
                variants.move(state, State.DROPPED)
                to_do += state not in {State.DONE, State.DROPPED}
        written = self.progress.stage_tally(benchmark, Stage.GEN_METRICS)
        is_written = bool(written.total) and written.done == written.total
        return WrittenCounts(len(metrics) if is_written else 0, to_do, variants)

    def correct(self, benchmark: str, rows: Sequence[StateCorrection], seq: int) -> None:
        """Count rows as they are, until a fact beyond `seq` tells of a new one."""
        if seq == self.progress.seq:
            self.progress.correct(self.corrections.pop(benchmark, ()), back=True)
            self.progress.correct(rows)
            self.corrections[benchmark] = rows

    def _take_back_corrections(self) -> None:
        for rows in self.corrections.values():
            self.progress.correct(rows, back=True)
        self.corrections.clear()

    def poll(self) -> Sequence[Fact]:
        """Apply and return the facts since the last call; cheap where there are none."""
        # SQLite's own counter of commits by other connections, which is cheap to read
        version = self.reader.data_version()
        if version == self._version:
            return ()
        new_facts: list[Fact] = []
        # in batches, so that a watcher that starts late holds no read transaction for long
        while facts := self.reader.facts(self.progress.seq):
            self._take_back_corrections()
            for fact in facts:
                self.progress.apply(fact)
            new_facts += facts
        # the version from before reading: the next poll sees what was committed meanwhile
        self._version = version
        self._hear_of_scripts(new_facts)
        return new_facts

    def _hear_of_scripts(self, facts: Sequence[Fact]) -> None:
        """Mark benchmarks at work: a run plays and judges with the configured models."""
        if self.progress.run_state in {None, NoteKind.RUN_ENDED}:
            return
        news = {fact.benchmark for fact in facts if isinstance(fact, TakeStarted | VerdictGiven)}
        if not news <= self._at_work:
            self._at_work |= news
            self.benchmarks = [
                benchmark.at_work if benchmark.configured and benchmark.name in news else benchmark
                for benchmark in self.benchmarks
            ]

    def close(self) -> None:
        if self.link is not None:
            self.link.close()
        self.reader.close()
