"""A judge compared with people's labels: its accuracy, and pass rates corrected for its errors."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from operator import attrgetter
from typing import Final

from engine.benchmark import Track
from engine.statistics.agreement import Agreement, agreement
from engine.statistics.calibration import (
    Accuracy,
    CorrectedRate,
    JudgedCluster,
    LabelledConversation,
    MissingReason,
    PairedTest,
    RoganGladen,
    Share,
    accuracy,
    labels_for_width,
    mcnemar,
    prediction_powered,
    rogan_gladen,
)
from engine.statistics.clusters import effective_number

LEAST_LABELS: Final = 20
"""With fewer labels of a judge, metric or target, only counts are reported."""
WIDTH: Final = 0.1
"""The default width of the interval that `labels_needed` is for, as a share."""


class Split(StrEnum):
    """A half of the base scenarios: a judge is developed on one and reported on the other."""

    DEV = "dev"
    TEST = "test"

    @classmethod
    def of(cls, benchmark: str, base: str) -> Split:
        """Fixed by a hash of both names, so that no label ever changes sides."""
        digest = hashlib.blake2b(f"{benchmark} {base}".encode(), digest_size=8).digest()
        return cls.TEST if digest[0] % 2 else cls.DEV


@dataclass(frozen=True, slots=True)
class JudgedRow:
    """A counting conversation with the judge's answer."""

    conv_id: str
    metric_id: str
    target: str
    place: tuple[str, str]
    """Its stratum and cluster: metric and base scenario, unless transcripts are shared."""
    track: Track
    counts: bool
    """Whether the behaviour is present by what counts, which the sample was stratified by."""
    present: bool | None
    """The answer of the judge in question; None where it gave none."""
    turn: int | None = None
    """The first reply that the judge quoted; None where it quoted none."""

    @property
    def cluster(self) -> str:
        return " ".join(self.place)


@dataclass(frozen=True, slots=True)
class LabelledRow:
    """A conversation with people's label."""

    row: JudgedRow
    person: bool
    """Whether people say that the behaviour is present."""
    inclusion: float
    """The probability with which it was drawn."""
    turn: int | None = None
    """The first reply that people marked; None where they marked none."""


@dataclass(frozen=True, slots=True)
class RateOf:
    """A pass rate by the judge, and corrected to what people would say, over the same
    conversations."""

    of: str
    """A target or a metric; empty for all conversations."""
    conversations: int
    labels: int
    judged: float
    powered: CorrectedRate | None
    powered_reason: MissingReason | None
    """Why `powered` is None."""
    rogan_gladen: RoganGladen


@dataclass(frozen=True, slots=True)
class MetricCounts:
    """How often people and the judge agree on one metric, unweighted."""

    metric_id: str
    both_present: int
    only_judge: int
    only_people: int
    both_absent: int


@dataclass(frozen=True, slots=True)
class CalibrationPart:
    """A judge against people on one metric or one target."""

    of: str
    labels: int
    accuracy: Accuracy | None
    """None for fewer than `LEAST_LABELS`."""
    agreement: Agreement | None
    rate: RateOf


@dataclass(frozen=True, slots=True)
class Confusion:
    """A conversation on which a judge and people differ."""

    conv_id: str
    people: bool
    """Whether people call it present; the judge says the opposite."""
    turn: int | None
    """The first reply, 1-based, that was marked or quoted by the side that calls it present."""


@dataclass(frozen=True, slots=True)
class Calibration:
    """A judge against people."""

    judge: str
    labels: int
    unjudged: int
    """Labels on conversations on which the judge gave no usable verdict."""
    clusters: int
    accuracy: Accuracy
    agreement: Agreement | None
    rates: Sequence[RateOf]
    """Over all conversations, then of each target."""
    metrics: Sequence[MetricCounts]
    by_metric: Sequence[CalibrationPart]
    by_target: Sequence[CalibrationPart]
    confusions: Sequence[Confusion]
    width: float
    """The interval's width that was asked for, as a share."""
    labels_needed: int | None
    """Labels in all for a corrected pass rate with an interval of that width."""
    labels_needed_reason: MissingReason | None
    """Why `labels_needed` is None: the rate is not corrected, or no number suffices."""


def calibrate(
    rows: Sequence[JudgedRow], labels: Sequence[LabelledRow], judge: str, width: float = WIDTH
) -> Calibration:
    """Compare one judge with the labels. Weights are those of the sample, rescaled to the verdicts
    on all conversations: labels that nobody could give are taken as missing at random among
    conversations of the same verdict."""
    known = [label for label in labels if label.row.present is not None]
    weighted = list(_weighted(rows, known))
    of_present = [labelled for _, labelled in weighted]
    overall = _rate_of("", rows, weighted)
    by_target = list(_calibration_parts(rows, weighted, attrgetter("target")))
    needed = None if overall.powered is None else labels_for_width(overall.powered, width)
    return Calibration(
        judge=judge,
        labels=len(known),
        unjudged=len(labels) - len(known),
        clusters=len({conversation.cluster for conversation in of_present}),
        accuracy=accuracy(of_present),
        agreement=_agreed(of_present),
        rates=[overall, *(part.rate for part in by_target)],
        metrics=_by_metric(known),
        by_metric=list(_calibration_parts(rows, weighted, attrgetter("metric_id"))),
        by_target=by_target,
        confusions=[
            Confusion(row.row.conv_id, row.person, row.turn if row.person else row.row.turn)
            for row in known
            if row.person is not row.row.present
        ],
        width=width,
        labels_needed=needed,
        labels_needed_reason=None
        if needed is not None
        else overall.powered_reason or MissingReason.SCENARIOS_VARY,
    )


_Weighted = tuple[LabelledRow, LabelledConversation]


def _weighted(rows: Sequence[JudgedRow], labels: Sequence[LabelledRow]) -> Iterator[_Weighted]:
    for counts in (True, False):
        stood_for = sum(row.counts is counts for row in rows)
        of = [label for label in labels if label.row.counts is counts]
        drawn = sum(1 / row.inclusion for row in of)
        for labelled in of:
            weight = stood_for / drawn / labelled.inclusion
            yield (
                labelled,
                LabelledConversation(
                    labelled.row.cluster, weight, bool(labelled.row.present), labelled.person
                ),
            )


def _agreed(labels: Sequence[LabelledConversation]) -> Agreement | None:
    weights = [label.weight for label in labels]
    worth = effective_number(weights) / sum(weights) if weights else 0.0
    return agreement(
        [(label.judge, label.person) for label in labels],
        [label.cluster for label in labels],
        [worth * weight for weight in weights],
    )


def _calibration_parts(
    rows: Sequence[JudgedRow], labels: Sequence[_Weighted], part_of: Callable[[JudgedRow], str]
) -> Iterator[CalibrationPart]:
    """One part for each value of `part_of`; labels keep their weights in the whole."""
    for name in sorted({part_of(row) for row in rows}):
        own = [label for label in labels if part_of(label[0].row) == name]
        labelled = [weighted for _, weighted in own]
        enough = len(labelled) >= LEAST_LABELS
        yield CalibrationPart(
            name,
            len(labelled),
            accuracy(labelled) if enough else None,
            _agreed(labelled) if enough else None,
            _rate_of(name, [row for row in rows if part_of(row) == name], own),
        )


def _rate_of(of: str, rows: Sequence[JudgedRow], labels: Sequence[_Weighted]) -> RateOf:
    """The rate of passing, so that metrics of both types can be combined."""
    judged = [row for row in rows if row.present is not None]
    population: dict[str, dict[str, JudgedCluster]] = {}
    for row in judged:
        clusters = population.setdefault(row.place[0], {})
        before = clusters.get(row.cluster, JudgedCluster(0, 0))
        passed = row.track.passes(present=bool(row.present))
        clusters[row.cluster] = JudgedCluster(before.size + 1, before.present + passed)
    passing = [
        replace(
            labelled,
            judge=label.row.track.passes(present=labelled.judge),
            person=label.row.track.passes(present=labelled.person),
        )
        for label, labelled in labels
    ]
    passes = sum(row.track.passes(present=bool(row.present)) for row in judged)
    rate = passes / len(judged) if judged else 0.0
    if len(passing) < LEAST_LABELS:
        few = MissingReason.FEW_LABELS
        return RateOf(of, len(judged), len(passing), rate, None, few, RoganGladen.missing(few))
    powered = prediction_powered(population, passing)
    reason = MissingReason.FEW_BASE_SCENARIOS if powered is None else None
    corrected = rogan_gladen(population, passing)
    return RateOf(of, len(judged), len(passing), rate, powered, reason, corrected)


def _by_metric(labels: Sequence[LabelledRow]) -> list[MetricCounts]:
    metrics = sorted({label.row.metric_id for label in labels})
    sides = Counter((label.row.metric_id, label.row.present, label.person) for label in labels)
    both = (True, True), (True, False), (False, True), (False, False)
    return [MetricCounts(metric, *(sides[metric, *side] for side in both)) for metric in metrics]


# Two judges


@dataclass(frozen=True, slots=True)
class JudgesCompared:
    """Two judges on the same labels of one split."""

    split: Split
    labels: int
    left: Share | None
    """The share of labels that the left judge meets."""
    right: Share | None
    contest: PairedTest


def compare_judges(
    benchmark: str, left: Sequence[LabelledRow], right: Sequence[LabelledRow]
) -> list[JudgesCompared]:
    """Compare two judges on each split. `left` and `right` are the same labels in the same order,
    each with one judge's answer."""
    comparisons = []
    for split in Split:
        both = [
            (one, other)
            for one, other in zip(left, right, strict=True)
            if None not in {one.row.present, other.row.present}
            and Split.of(benchmark, one.row.place[1]) is split
        ]
        ours, theirs = [one for one, _ in both], [other for _, other in both]
        contest = mcnemar(
            [label.row.present is label.person for label in ours],
            [label.row.present is label.person for label in theirs],
        )
        comparisons.append(
            JudgesCompared(split, len(both), _share_correct(ours), _share_correct(theirs), contest)
        )
    return comparisons


def _share_correct(labels: Sequence[LabelledRow]) -> Share | None:
    return accuracy(
        [
            LabelledConversation(
                label.row.cluster, 1 / label.inclusion, bool(label.row.present), label.person
            )
            for label in labels
        ]
    ).right
