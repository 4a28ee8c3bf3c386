"""The statistics of an analysis as sections of tables, grids and forests. What is shown, and in
which order, is decided here; terminal, app and pages draw cells by their types, whatever they are
about."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from engine.analysis.calibration import Confusion
from engine.analysis.comparability import Exposure
from engine.analysis.figures import (
    Analysis,
    Comparison,
    Estimate,
    Gap,
    MarkedDifference,
    MetricInfo,
    Overall,
    RepeatAgreement,
    part_of,
)
from engine.analysis.findings import pairs_by_kind
from engine.analysis.number_words import (
    NO_COEFFICIENT,
    agreement_subject,
    coefficient,
    points_interval,
    signed_points,
)
from engine.benchmark import Track
from engine.display import joined_names, percent, plural, span
from engine.statistics.agreement import Coefficient
from engine.statistics.distributions import Interval


class VerdictScope(NamedTuple):
    """The verdicts behind a figure. Without arguments, all verdicts of the benchmark."""

    targets: tuple[str, ...] = ()
    metric: str | None = None
    track: Track | None = None
    axis: str | None = None
    people: tuple[str, ...] = ()
    """Values on `axis`; of two, the figure is about the first."""
    split: bool = False
    """Only verdicts on which judges disagree."""
    benchmark: str | None = None
    """Another benchmark than the one shown."""
    judge: str | None = None
    failed: bool = False
    """Only failed verdicts."""
    samples: bool = False
    """Only conversations whose samples disagree, where those can be picked out."""
    stale: bool = False
    """Only stale conversations, where those can be picked out."""

    def narrowed_to(self, other: VerdictScope) -> VerdictScope:
        """The verdicts that are in both scopes."""
        return self._replace(**{name: part for name, part in other._asdict().items() if part})


class Name(NamedTuple):
    """What a row or a column is about; a foreign text."""

    text: str
    id: str = ""
    note: str = ""
    """What is said of it in small print."""
    tag: str = ""


class ShareCell(NamedTuple):
    """A share with its interval, 0 to 1."""

    value: float
    low: float | None = None
    high: float | None = None
    sure: bool = True
    """Whether it rests on enough scenarios to be relied on."""


class Amount(NamedTuple):
    """So many of so many."""

    part: int
    of: int
    share: bool = False
    """Whether it is read as a share."""

    @property
    def value(self) -> float | None:
        return self.part / self.of if self.of else None

    @property
    def words(self) -> str:
        return f"{self.part:,} of {self.of:,}"


class Change(NamedTuple):
    """A share before and after something was changed."""

    before: float
    after: float


class Shift(NamedTuple):
    """How far a share moves, with the interval of that; `sure` where it excludes 0."""

    value: float
    low: float | None
    high: float | None
    p: float | None
    sure: bool


Cell = str | Name | ShareCell | Coefficient | Amount | Change | Shift | Estimate | None
"""A text of ours, foreign text, or a figure by its type; None where there is nothing."""


class TableColumn(NamedTuple):
    title: str
    brief: str
    """For a narrow place."""


class Row(NamedTuple):
    name: Name
    cells: Sequence[Cell]
    behind: VerdictScope | Confusion | None = None


@dataclass(frozen=True, slots=True)
class Table:
    """Rows with a cell for each column after the first, which names them."""

    columns: Sequence[TableColumn]
    rows: Sequence[Row]
    note: str = ""
    title: str | Name = ""
    whole: bool = False
    """Whether shares have their intervals beside them also where there is little room."""


@dataclass(frozen=True, slots=True)
class Grid:
    """Estimates by rows and columns, all alike: where there is little room, one below the other."""

    head: Sequence[TableColumn]
    """Over the names of the rows and over what follows each name."""
    across: TableColumn
    """What the columns are."""
    columns: Sequence[tuple[Name, VerdictScope]]
    rows: Sequence[Row]
    """The cells of each are its further names, then one estimate, or None, for each column."""
    title: str = ""
    heat: bool = False
    """Whether rows and columns are compared by eye, as a heat map."""
    folded: bool = False
    """Whether it is read on request only, where something can be folded away."""

    def estimates(self, row: Row) -> Sequence[Estimate | None]:
        cells = row.cells[len(self.head) - 1 :]
        return [cell if isinstance(cell, Estimate) else None for cell in cells]


class ForestGroup(NamedTuple):
    title: str | Name
    differences: Sequence[MarkedDifference]
    """The side that passes more often first."""

    @property
    def sure(self) -> int:
        return sum(difference.sure for difference in self.differences)


@dataclass(frozen=True, slots=True)
class Forest:
    """Differences with their intervals and tests, one below the other, all on one scale."""

    groups: Sequence[ForestGroup]


@dataclass(frozen=True, slots=True)
class Sentence:
    text: str


SectionBlock = Table | Grid | Forest | Sentence


@dataclass(frozen=True, slots=True)
class Section:
    key: str
    """A word that no other section of the results has."""
    title: str
    blocks: Sequence[SectionBlock]
    why: str = ""
    """What the figures mean, in sentences; empty where the title says it."""


def sections(analysis: Analysis) -> list[Section]:
    """Those that have anything to show, in the order in which they are read. A new statistic is a
    function in this list."""
    found = (
        _metrics(analysis),
        _exposure(analysis),
        _stale(analysis),
        _pairs(analysis),
        _people(analysis),
        _agreement(analysis),
        _made(analysis),
    )
    return [section for section in found if section.blocks]


def cell_text(cell: Cell, *, whole: bool = False) -> str:
    """What a cell says where there is only text; with `whole`, a share with its interval."""
    match cell:
        case None:
            return "—"
        case str():
            return cell
        case Name():
            return f"{cell.id} {cell.text}" if cell.id else cell.text
        case ShareCell():
            ends = span(cell.low, cell.high) if whole else ""
            return f"{percent(cell.value)} {ends}".rstrip()
        case Coefficient():
            return coefficient(cell.value)
        case Change():
            return f"{percent(cell.before)} → {percent(cell.after)}"
        case Shift():
            ends = points_interval(cell.low, cell.high)
            return f"{signed_points(cell.value)} {ends}{' !' if cell.sure else ''}".rstrip()
        case Amount():
            return cell.words
        case Estimate():
            return estimate_text(cell)


def share_cell(value: float, interval: Interval | None) -> ShareCell:
    return ShareCell(value) if interval is None else ShareCell(value, interval.low, interval.high)


def estimate_text(estimate: Estimate) -> str:
    if estimate.rate is None:
        return "—"
    return (
        f"{percent(estimate.rate):>4} {span(estimate.low, estimate.high)} "
        f"{estimate.passed}/{estimate.scored} in {estimate.base_scenarios}"
    )


def scope_of(difference: MarkedDifference) -> VerdictScope:
    """The verdicts on both sides of a comparison or a gap."""
    match difference:
        case Comparison():
            return VerdictScope((difference.left, difference.right), track=difference.track)
        case Gap():
            targets = () if difference.target is None else (difference.target,)
            people = (difference.left, difference.right)
            return VerdictScope(targets, axis=difference.axis, people=people)
        case _:
            return VerdictScope()


def whose(difference: MarkedDifference) -> str:
    """Whose demographic gap it is; empty for a comparison of targets."""
    if not isinstance(difference, Gap):
        return ""
    return "all targets" if difference.target is None else difference.target


def _metrics(analysis: Analysis) -> Section:
    rows = []
    for metric in analysis.metrics:
        cells = [target.metrics.get(metric.id) for target in analysis.targets]
        if any(cell is not None for cell in cells):
            signal = _NO_SIGNAL.get(analysis.no_signal.get(metric.id), "")
            name = _metric_name(analysis, metric)._replace(tag=signal)
            rows.append(Row(name, cells, _scope_of_metric(analysis, metric)))
    grid = Grid(
        [TableColumn(analysis.part.capitalize(), analysis.part)],
        TableColumn("Target", "target"),
        _targets(analysis),
        rows,
        heat=True,
    )
    why = (
        f"How often each target passes each {analysis.part}. A negative metric passes if the "
        "behaviour is absent. Where a cell rests on few scenarios, read rows and columns, not "
        "single cells."
    )
    return Section(
        "metrics", f"{analysis.part.capitalize()} by target", [grid] if rows else [], why
    )


_NO_SIGNAL: Final[Mapping[bool | None, str]] = {
    True: "no signal: always passed",
    False: "no signal: never passed",
}


def _metric_name(analysis: Analysis, metric: MetricInfo) -> Name:
    track = f" · {metric.track}" if analysis.part == "metric" else ""
    return Name(metric.name, metric.id, f"{metric.id}{track}")


def _scope_of_metric(analysis: Analysis, metric: MetricInfo) -> VerdictScope:
    if not isinstance(analysis, Overall):
        return VerdictScope(metric=metric.id)
    own = next(one for one in analysis.benchmarks if part_of(one, metric.track) == metric.id)
    return VerdictScope(track=metric.track, benchmark=own)


def _targets(analysis: Analysis) -> list[tuple[Name, VerdictScope]]:
    return [(Name(target.target), VerdictScope((target.target,))) for target in analysis.targets]


def _exposure(analysis: Analysis) -> Section:
    exposures = {
        target.target: target.exposure
        for target in analysis.targets
        if target.exposure.conversations
    }
    why = (
        "How much of its plan each conversation covered. A target whose conversations end early is "
        "pressed less, which can cause a difference between targets. An imported conversation "
        "counts as ended early only if it ended before its last landmark. A withheld reply is one "
        "that the provider's filter or the model itself refused to give."
    )
    blocks: list[SectionBlock] = []
    if exposures and all(exposure.is_full for exposure in exposures.values()):
        planned = sum(exposure.planned for exposure in exposures.values())
        landmarks = f"all {planned:,} landmarks were reached" if planned else "no landmarks"
        blocks.append(Sentence(f"No conversation ended early, {landmarks}."))
    elif exposures:
        rows = [
            Row(Name(name), _exposed(one), VerdictScope((name,))) for name, one in exposures.items()
        ]
        blocks.append(Table(_EXPOSURE, rows))
    return Section("exposure", "Exposure", blocks, why)


_EXPOSURE: Final = (
    TableColumn("Target", "target"),
    TableColumn("Ended early", "ended early"),
    TableColumn("Landmarks reached", "landmarks reached"),
    TableColumn("Reached the last landmark", "reached the last"),
    TableColumn("Replies withheld", "withheld"),
)


def _exposed(exposure: Exposure) -> list[Amount]:
    return [
        Amount(exposure.early, exposure.conversations, share=True),
        Amount(exposure.reached, exposure.planned, share=True),
        Amount(exposure.reached_last, exposure.with_landmarks),
        Amount(exposure.withheld, exposure.turns),
    ]


def _stale(analysis: Analysis) -> Section:
    part = analysis.part
    head = [
        TableColumn(part.capitalize(), part),
        TableColumn("Takes", "takes"),
        TableColumn("Verdicts", "verdicts"),
        TableColumn("What changed", "what changed"),
    ]
    rows = [
        Row(
            Name(name),
            [
                Amount(one.stale_takes, one.conversations),
                Amount(one.stale_verdicts, one.verdicts),
                ", ".join(one.reasons),
            ],
            VerdictScope(metric=name, stale=True),
        )
        for name, one in analysis.staleness.items()
        if one.stale
    ]
    why = (
        "These conversations and verdicts count here, although the definition, a model, a prompt "
        "or a setting has changed since. `crosswind results --fresh` leaves them out, `crosswind "
        "run --stale` redoes them."
    )
    return Section("stale", "Stale", [Table(head, rows)] if rows else [], why)


def _pairs(analysis: Analysis) -> Section:
    groups = [
        ForestGroup(
            where,
            sorted(
                (pair.greater_first for pair in pairs),
                key=lambda pair: (not pair.sure, -pair.difference),
            ),
        )
        for where, pairs in pairs_by_kind(analysis)
    ]
    blocks = [Forest(groups)] if groups else []
    return Section("comparisons", "Pairs of targets", blocks, _DIFFERENCES_MEAN)


_DIFFERENCES_MEAN: Final = (
    "How much more often the first target passes, on the scenarios that both were scored on; of "
    "several benchmarks, the mean of their differences. The line is the interval among all "
    "comparisons: if it excludes 0, the difference is significant, its dot filled."
)


def _people(analysis: Analysis) -> Section:
    blocks: list[SectionBlock] = []
    if analysis.gaps:
        groups = [
            ForestGroup(
                Name(axis), [gap.greater_first for gap in analysis.gaps if gap.axis == axis]
            )
            for axis in dict.fromkeys(gap.axis for gap in analysis.gaps)
        ]
        blocks.append(Forest(groups))
    for axis in analysis.axes:
        blocks += _by_group(analysis, axis)
    why = (
        "Does a target treat different people alike in the same base scenario? Positive and "
        "negative metrics are counted together. A gap compares variants within base scenarios, "
        "with everything else known about the person equal. Its interval holds among all "
        "comparisons of this benchmark. It may rest on fewer scenarios than the rates, which use "
        "all scored conversations."
    )
    return Section("people", "Demographic groups", blocks, why)


def _by_group(analysis: Analysis, axis: str) -> Iterator[Grid]:
    """The rates of the groups on an axis: of each target, then of each metric and target."""
    values = values_on(analysis, axis)
    columns = [(Name(value), VerdictScope(axis=axis, people=(value,))) for value in values]
    target_head, across = TableColumn("Target", "target"), TableColumn(axis, axis)
    rows = [
        Row(
            Name(target.target),
            [groups.get(value) for value in values],
            VerdictScope((target.target,)),
        )
        for target in analysis.targets
        if (groups := target.demographics.get(axis))
    ]
    yield Grid([target_head], across, columns, rows, f"rates by {axis}")
    rows = [
        Row(
            _metric_name(analysis, metric),
            [Name(target.target), *(groups.get(value) for value in values)],
            VerdictScope((target.target,), metric=metric.id),
        )
        for metric in analysis.metrics
        for target in analysis.targets
        if (groups := target.metrics_by_people.get(metric.id, {}).get(axis))
    ]
    if rows:
        head = [TableColumn("Metric", "metric"), target_head]
        yield Grid(head, across, columns, rows, f"rates by {axis} and metric", folded=True)


def values_on(analysis: Analysis, axis: str) -> list[str]:
    """All values on a demographic axis, sorted."""
    return sorted(
        {value for target in analysis.targets for value in target.demographics.get(axis, {})}
    )


def _agreement(analysis: Analysis) -> Section:
    own = [target.agreement for target in analysis.targets if target.agreement is not None]
    agreements = [*own, *analysis.agreement]
    rows = [Row(Name(agreement_subject(one)), _agreed(one), _divided(one)) for one in agreements]
    why = (
        "How consistent repeated answers about the same thing are: 1 is always the same, 0 no more "
        "often than by chance. α and κ drop towards 0 if nearly all answers are the same, even "
        "with hardly any disagreement; AC1 does not."
    )
    note = "" if all(one.alpha and one.kappa for one in agreements) else NO_COEFFICIENT
    return Section("agreement", "Agreement", [Table(_AGREEMENT, rows, note)] if rows else [], why)


_AGREEMENT: Final = (
    TableColumn("Between", "between"),
    TableColumn("Agree", "agree"),
    TableColumn("Unanimous", "unanimous"),
    TableColumn("Gwet AC1", "AC1"),
    TableColumn("Krippendorff α", "α"),
    TableColumn("Fleiss κ", "κ"),
    TableColumn("Divided", "divided"),
)


def _agreed(agreement: RepeatAgreement) -> list[Cell]:
    return [
        share_cell(agreement.percent.value, agreement.percent.interval),
        share_cell(agreement.unanimous.value, agreement.unanimous.interval),
        agreement.ac1,
        agreement.alpha,
        agreement.kappa,
        Amount(agreement.disagreeing, agreement.things),
    ]


def _divided(agreement: RepeatAgreement) -> VerdictScope:
    """The conversations on which answers differ."""
    if agreement.between == "samples":
        return VerdictScope((agreement.of,) if agreement.of else (), samples=True)
    return VerdictScope(split=True)


def _made(analysis: Analysis) -> Section:
    texts = [analysis.headline_rule, *_makers(analysis), analysis.cost]
    return Section("made", "How it was made", [Sentence(text) for text in texts if text])


def _makers(analysis: Analysis) -> Iterator[str]:
    for judge in analysis.judges:
        passes = f" in {plural(judge.passes, 'pass', 'passes')}" if judge.passes > 1 else ""
        lost = f"; {judge.unusable:,} more could not be used" if judge.unusable else ""
        second = "" if judge.counting or not judge.verdicts else ", as a second opinion"
        yield f"{judge.name} gave {plural(judge.verdicts, 'verdict')}{passes}{second}{lost}."
    models = [
        f"{target.target} is {target.model}"
        for target in analysis.targets
        if target.model != target.target
    ]
    if models:
        yield f"Behind the targets: {joined_names(models)}."
    if isinstance(analysis, Overall):
        return
    if analysis.correlation is None:
        yield (
            "How alike conversations of one base scenario are cannot be told: each counts as one."
        )
        return
    yield (
        "Conversations of one base scenario resemble each other: their intra-class correlation, "
        f"pooled over the run, is {analysis.correlation:.2f} (0 not at all, 1 as if they were one)."
    )
