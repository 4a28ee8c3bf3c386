"""Builds the report of a benchmark from the current store."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path

from engine.analysis.figures import Analysis
from engine.analysis.onset import OnsetCurve, OnsetObservation, onset_curves, since
from engine.analysis.overall import overall
from engine.analysis.validation_figures import ValidationReport
from engine.benchmark import Track, When
from engine.branches import Branch
from engine.config.benchmark_file import load_definition
from engine.config.schema import Config, config_of
from engine.config.workspace import Workspace
from engine.errors import CrosswindError
from engine.jury import Counts
from engine.pipeline.counting import StoredConversations, WantedConversation, counts_in, wanted_now
from engine.pipeline.judge import pressed_from
from engine.pipeline.labelling.calibrations import CalibrationReport, LabelledJudges
from engine.pipeline.results import counted_of, decided_otherwise
from engine.pipeline.validation import report_of, validations
from engine.stages.evaluate import behaviour_holds
from engine.store.open_reader import open_reader
from engine.store.reader import Reader
from engine.store.tables import TakeCount, Verdict


@dataclass(frozen=True, slots=True)
class ValidatedBenchmark:
    """A validation run of a benchmark, and its result."""

    branch: Branch
    played: str
    """The benchmark that holds its rows."""
    report: ValidationReport | None
    fault: str | None
    """Why there is no report; None where there is one."""


@dataclass(frozen=True, slots=True)
class Report:
    analysis: Analysis
    validations: tuple[ValidatedBenchmark, ...] = ()
    courses: tuple[OnsetCurve, ...] = ()
    """Onset curves by target and track."""
    calibration: CalibrationReport | None = None
    """None without labels."""
    decided: Mapping[int, TakeCount] = field(default_factory=dict)
    """The takes that the files decide otherwise than their newest verdict says."""


def build_report(workspace: Workspace, config: Config, store: Path, benchmark: str) -> Report:
    """Build the report of one benchmark, with a reader of its own. May take seconds.

    Raises `CrosswindError`.
    """
    definition = load_definition(workspace.definition_path(benchmark))
    own = config_of(config, benchmark)
    with closing(open_reader(store)) as reader:
        wanted = list(wanted_now(definition, own, reader))
        stored = StoredConversations.of(reader, benchmark)
        counted = counted_of(definition, own, reader, wanted, stored)
        sightings = _onset_observations(wanted, stored, counted.counts, reader)
        labelled = LabelledJudges.of(definition, own, reader)
        return Report(
            counted.analysis,
            tuple(_validated(workspace, config, benchmark, reader)),
            tuple(onset_curves(sightings, own.generation.turns)),
            None if labelled is None else labelled.report(),
            _decided(workspace, config, reader, benchmark),
        )


def build_overall_report(workspace: Workspace, config: Config, store: Path) -> Report:
    """As `build_report`, for all benchmarks together. Raises `CrosswindError`."""
    definitions = [
        load_definition(workspace.definition_path(name)) for name in workspace.benchmark_names()
    ]
    with closing(open_reader(store)) as reader:
        return Report(
            overall(
                [counted_of(definition, config, reader).analysis for definition in definitions]
            ),
            decided=_decided(workspace, config, reader),
        )


def _decided(
    workspace: Workspace, config: Config, reader: Reader, benchmark: str | None = None
) -> dict[int, TakeCount]:
    """Of a benchmark and its validation runs, or of all."""
    decided: dict[int, TakeCount] = {}
    for name in reader.benchmarks():
        branch = Branch.parse(name)
        original = name if branch is None else branch.benchmark
        if benchmark in {None, original}:
            counts = counts_in(workspace, config, name, reader)
            decided |= decided_otherwise(counts, StoredConversations.of(reader, name))
    return decided


def _onset_observations(
    wanted: Sequence[WantedConversation],
    stored: StoredConversations,
    counts: Counts,
    reader: Reader,
) -> Iterator[OnsetObservation]:
    """Yield when the behaviour was seen, according to the votes that agree with what counts."""
    for conversation in wanted:
        take, verdicts = stored.counting.get(conversation.key, (None, ()))
        counted = None if take is None else counts.verdicts_on(take, verdicts)
        if take is None or counted is None or counted.passed is None:
            continue
        passed = counted.passed
        votes = [vote for vote in counted.votes if vote.passed is passed]
        is_present = passed is (conversation.metric.track is Track.POSITIVE)
        present = _by_marks(take.seq, votes, reader) or _by_quotes(votes, is_present=is_present)
        yield OnsetObservation(conversation.key.target_id, conversation.metric.track, present)


def _by_marks(take: int, votes: Sequence[Verdict], reader: Reader) -> Sequence[bool]:
    """Whether the behaviour holds after each turn; empty where no judge marked replies. As each
    vote was given: the scenario and the metric may have been edited since."""
    marked = [(vote.must_hold, vote.marks) for vote in votes if vote.marks]
    pressed = 0
    if any(when is When.UNDER_PRESSURE for when, _ in marked):
        pressed = pressed_from(reader.messages(take), reader.turns_without_pressure(take))
    turns = range(1, max((len(marks) for _, marks in marked), default=0) + 1)
    return [
        any(behaviour_holds(when, marks[:turn], pressed) for when, marks in marked)
        for turn in turns
    ]


def _by_quotes(votes: Sequence[Verdict], *, is_present: bool) -> Sequence[bool] | None:
    """Present from the turn of the earliest quote on; None where no quote has a turn."""
    if not is_present:
        return (False,)
    turns = [quote.turn for vote in votes for quote in vote.quotes if quote.turn is not None]
    return since(min(turns)) if turns else None


def _validated(
    workspace: Workspace, config: Config, benchmark: str, reader: Reader
) -> Iterator[ValidatedBenchmark]:
    if Branch.parse(benchmark) is not None:
        return
    for validation in validations(workspace, config, benchmark):
        try:
            yield ValidatedBenchmark(
                validation.branch, validation.played_benchmark, report_of(validation, reader), None
            )
        except CrosswindError as error:
            yield ValidatedBenchmark(
                validation.branch, validation.played_benchmark, None, str(error)
            )
