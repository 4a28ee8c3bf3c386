"""What a workspace holds, as plain objects: benchmarks, conversations, verdicts and results. What
counts is decided as for every command: these are the rows of `crosswind export` and the figures of
`crosswind results`."""

from __future__ import annotations

import asyncio
import atexit
import shutil
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, fields
from functools import partial
from os import PathLike
from pathlib import Path
from tempfile import mkdtemp
from typing import TYPE_CHECKING, Any, Final, Generic, TypeVar

from engine.analysis.figures import Analysis, Estimate
from engine.benchmark import Track, base_id
from engine.cli.access import open_to_write
from engine.cli.console import tell
from engine.cli.exporting import exported_conversations, selected_conversations
from engine.cli.importing import complaints
from engine.cli.main import require_sqlite
from engine.cli.reporting import analyses_of
from engine.cli.session import Session, open_session, open_to_read
from engine.config.benchmark_file import load_definition
from engine.config.schema import Config
from engine.config.workspace import CONFIG_FILE, STORE_FILE, Workspace, find_workspace
from engine.errors import InputError
from engine.importing.importer import Importer, complete_configuration, make_workspace
from engine.importing.report import ImportReport
from engine.importing.source import ImportableFolder, look_through
from engine.pipeline.files import store_counts
from engine.report import conversation as stored

if TYPE_CHECKING:
    import pandas as pd


_NESTED: Final = frozenset({"messages", "metrics"})
"""Fields that have no place in a row of a table."""


@dataclass(frozen=True, slots=True)
class Metric:
    id: str
    name: str
    type: str
    """`positive` if the behaviour is wanted, else `negative`."""
    definition: str


@dataclass(frozen=True, slots=True)
class Benchmark:
    name: str
    title: str
    description: str
    metrics: tuple[Metric, ...]


@dataclass(frozen=True, slots=True)
class Message:
    turn: int
    """From 1."""
    role: str
    """`user` or `assistant`, the target."""
    content: str
    thought: str | None
    landmark: str | None
    """What the user model was told to do."""


@dataclass(frozen=True, slots=True)
class Conversation:
    """The newest finished take of a conversation."""

    benchmark: str
    id: str
    """As `crosswind show` takes it; `benchmark` and `id` together are unique."""
    take: int
    target: str
    metric: str | None
    scenario: str
    base_scenario: str
    """Variants and samples of one resemble each other: cluster by it."""
    sample: int
    demographic: Mapping[str, str]
    turns: int
    stop_reason: str | None
    passed: bool | None
    """What counts for it; None if it is unscored."""
    unscored: str | None
    counts: bool
    why_not: str | None
    """Why it counts in no result; None if it does."""
    scripted: bool
    """Whether a script, which is no language model, took part."""
    messages: tuple[Message, ...]


@dataclass(frozen=True, slots=True)
class Verdict:
    benchmark: str
    conversation: str
    target: str
    metric: str
    base_scenario: str
    demographic: Mapping[str, str]
    judge: str
    source: str
    """`model` or `human`."""
    number: int
    """Of the judge's pass, from 1."""
    present: bool | None
    passed: bool | None
    unscored: str | None
    counts: bool
    why_not: str | None
    """Why it counts in no result, because of its conversation or of itself; None if it does."""
    justification: str
    quotes: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Rate:
    """A pass rate of a target: of a track, or of one metric on it."""

    benchmark: str
    target: str
    track: str
    metric: str | None
    """None for the whole track."""
    pass_rate: float | None
    """From 0 to 1; None where nothing is scored."""
    low: float | None
    high: float | None
    """The ends of its interval of 95%."""
    passed: int
    scored: int
    unscored: int
    base_scenarios: int
    n_effective: float


@dataclass(frozen=True, slots=True)
class Difference:
    """Between the pass rates of two targets; positive where `target` passes more often."""

    benchmark: str
    target: str
    against: str
    track: str | None
    """None for both together."""
    difference: float
    low: float | None
    high: float | None
    p: float | None
    p_adjusted: float | None
    significant: bool
    """What `crosswind results` marks with ✓."""


T = TypeVar("T")


class Rows(Generic[T]):
    """Rows that are read anew each time: iterate, `list(rows)`, or `rows.to_pandas()`."""

    def __init__(self, read: Callable[[], Iterator[T]]) -> None:
        self._read = read

    def __iter__(self) -> Iterator[T]:
        return self._read()

    def to_pandas(self) -> pd.DataFrame:
        """One line for each row: every field but messages and metrics, and a column
        `demographic.AXIS` for each axis. Raises `ImportError` where pandas is not installed."""
        try:
            import pandas as pd  # only whoever asks for it has it
        except ImportError:
            hint = "pandas is not installed: `pip install pandas`, or use the rows without it"
            raise ImportError(hint) from None
        return pd.DataFrame([_as_record(row) for row in self])


class Study:
    """A workspace that is open to read. Each call reads what is there then."""

    def __init__(self, session: Session) -> None:
        self._session = session

    def __repr__(self) -> str:
        return f"crosswind.open({str(self._session.workspace.root)!r})"

    @property
    def benchmarks(self) -> Rows[Benchmark]:
        return Rows(self._benchmarks)

    def conversations(self, *names: str, everything: bool = False) -> Rows[Conversation]:
        """Those that count; with `everything`, also those that do not, each with why. `names` are
        benchmarks, validation runs such as `own-view@user-blunt`, or ids or their beginnings; none
        stands for all benchmarks. Iterating raises `InputError` for an unknown name."""
        return Rows(partial(self._conversations, names, everything=everything))

    def verdicts(self, *names: str, everything: bool = False) -> Rows[Verdict]:
        """As `conversations`."""
        return Rows(partial(self._verdicts, names, everything=everything))

    def results(self, *benchmarks: str) -> Rows[Rate]:
        """Of each target the rate on each track, then that of each metric; of all benchmarks if
        none is named. Iterating raises `InputError` for an unknown name."""
        return Rows(lambda: (rate for one in self._analyses(benchmarks) for rate in _rates(one)))

    def differences(self, *benchmarks: str) -> Rows[Difference]:
        """Of each pair of targets on each track, as `results`."""
        return Rows(lambda: (row for one in self._analyses(benchmarks) for row in _pairs(one)))

    def _benchmarks(self) -> Iterator[Benchmark]:
        for name in self._session.workspace.benchmark_names():
            definition = load_definition(self._session.workspace.definition_path(name))
            metrics = (
                Metric(one.id, one.name, one.track.value, one.meaning) for one in definition.metrics
            )
            yield Benchmark(name, definition.title, definition.description, tuple(metrics))

    def _analyses(self, benchmarks: tuple[str, ...]) -> Iterator[Analysis]:
        names = self._session.benchmarks(benchmarks)
        with self._session.reader() as reader:
            yield from analyses_of(self._session, reader, names).values()

    def _stored(self, names: tuple[str, ...], *, everything: bool) -> Iterator[stored.Conversation]:
        with self._session.reader() as reader:
            selection = selected_conversations(reader, names, None)
            for one in exported_conversations(self._session, reader, selection):
                if everything or one.why_not is None:
                    yield one

    def _conversations(self, names: tuple[str, ...], *, everything: bool) -> Iterator[Conversation]:
        return map(_conversation, self._stored(names, everything=everything))

    def _verdicts(self, names: tuple[str, ...], *, everything: bool) -> Iterator[Verdict]:
        for conversation in self._stored(names, everything=everything):
            for verdict in _verdicts(conversation):
                if everything or verdict.counts:
                    yield verdict


def open_study(place: str | PathLike[str]) -> Study:
    """As `crosswind.open`."""
    require_sqlite()
    folder = Path(place).expanduser()
    with suppress(InputError):
        workspace = find_workspace(folder)
        if workspace.config_path.exists() or (workspace.root / STORE_FILE).exists():
            folder = workspace.root
    if not (folder / CONFIG_FILE).exists() and not (folder / STORE_FILE).exists():
        return Study(session_from_files(folder, None))
    session = open_to_read(folder)
    if session.store_path.exists():
        return Study(session)
    return Study(session_from_files(folder, session.config))


def _conversation(one: stored.Conversation) -> Conversation:
    key, scenario = one.take.key, one.scenario
    return Conversation(
        benchmark=one.benchmark,
        id=str(key),
        take=one.take.number + 1,
        target=key.target_id,
        metric=_metric(one),
        scenario=key.scenario_id,
        base_scenario=base_id(key.scenario_id),
        sample=key.sample,
        demographic={} if scenario is None else dict(scenario.demographic),
        turns=max((message.turn for message in one.messages), default=0),
        stop_reason=None if one.take.stop_reason is None else one.take.stop_reason.value,
        passed=one.passed,
        unscored=one.unscored,
        counts=one.why_not is None,
        why_not=None if one.why_not is None else one.why_not.value,
        scripted=one.scripted,
        messages=tuple(
            Message(said.turn, said.speaker.value, said.text, said.thought, said.landmark)
            for said in one.messages
        ),
    )


def _metric(one: stored.Conversation) -> str | None:
    if one.scenario is not None:
        return one.scenario.metric_id
    return next((verdict.metric_id for verdict in reversed(one.verdicts)), None)


def _verdicts(one: stored.Conversation) -> Iterator[Verdict]:
    key, scenario = one.take.key, one.scenario
    for verdict, own in zip(one.verdicts, one.verdicts_why_not, strict=True):
        why_not = one.why_not or own
        yield Verdict(
            benchmark=one.benchmark,
            conversation=str(key),
            target=key.target_id,
            metric=verdict.metric_id,
            base_scenario=base_id(key.scenario_id),
            demographic={} if scenario is None else dict(scenario.demographic),
            judge=verdict.judge,
            source=verdict.source,
            number=verdict.number + 1,
            present=verdict.present,
            passed=verdict.passed,
            unscored=verdict.unscored,
            counts=why_not is None,
            why_not=None if why_not is None else why_not.value,
            justification=verdict.justification,
            quotes=tuple(quote.text for quote in verdict.quotes),
        )


def _rates(analysis: Analysis) -> Iterator[Rate]:
    tracks = {metric.id: metric.track for metric in analysis.metrics}
    for target in analysis.targets:
        rate = partial(_rate, analysis.benchmark, target.target)
        yield from (rate(track, None, cell) for track, cell in target.tracks.items())
        yield from (rate(tracks[one], one, cell) for one, cell in target.metrics.items())


def _rate(benchmark: str, target: str, track: Track, metric: str | None, cell: Estimate) -> Rate:
    return Rate(
        benchmark=benchmark,
        target=target,
        track=track.value,
        metric=metric,
        pass_rate=cell.rate,
        low=cell.low,
        high=cell.high,
        passed=cell.passed,
        scored=cell.scored,
        unscored=cell.of - cell.scored,
        base_scenarios=cell.base_scenarios,
        n_effective=cell.effective_n,
    )


def _pairs(analysis: Analysis) -> Iterator[Difference]:
    for pair in analysis.comparisons:
        yield Difference(
            benchmark=analysis.benchmark,
            target=pair.left,
            against=pair.right,
            track=None if pair.track is None else pair.track.value,
            difference=pair.difference,
            low=pair.low,
            high=pair.high,
            p=pair.p,
            p_adjusted=pair.p_adjusted,
            significant=pair.sure,
        )


def _as_record(row: Any) -> dict[str, Any]:
    record: dict[str, Any] = {}
    for field in fields(row):
        value = getattr(row, field.name)
        if field.name == "demographic":
            record |= {f"demographic.{axis}": name for axis, name in value.items()}
        elif field.name not in _NESTED:
            record[field.name] = value
    return record


def session_from_files(folder: Path, config: Config | None) -> Session:
    """A session on a temporary workspace that holds what the files of a folder hold, with `config`
    or else with the configuration that `crosswind import` would make. What could not be read is
    said on stderr. Raises `InputError` where there is nothing to read."""
    found = look_through(folder)
    root = Path(mkdtemp(prefix="crosswind-"))
    atexit.register(shutil.rmtree, root, ignore_errors=True)
    made = None if config is not None else make_workspace(root, found.config)
    if config is None:
        session = open_session(root)
    else:
        own = config.model_copy(update={"store": str(root / STORE_FILE)})
        session = Session(Workspace(root), own)
    # a notebook runs an event loop on its own thread
    with ThreadPoolExecutor(1) as thread:
        report = thread.submit(_filled, session, found).result()
    if made is not None:
        is_added = found.config is not None
        complete_configuration(made, report.unknown_targets, report.samples, add=is_added)
        session = open_session(root)
    for line in complaints(report):
        tell(line)
    return session


def _filled(session: Session, found: ImportableFolder) -> ImportReport:
    workspace, config = session.workspace, session.config
    with open_to_write(session) as store:
        importer = Importer(workspace, config, store.reader, store)
        report = asyncio.run(importer.run(found))
        asyncio.run(store_counts(workspace, config, store))
        return report
