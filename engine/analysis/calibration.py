"""A judge held against people: how far it can be trusted, and what its errors do to the rates."""

from __future__ import annotations

import hashlib
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
    PairedTest,
    RoganGladen,
    Share,
    accuracy,
    effective_labels,
    labels_for_width,
    mcnemar,
    prediction_powered,
    rogan_gladen,
)

LEAST_LABELS: Final = 20
"""Of a target, a metric or a split; of fewer only counts are told."""
WIDTH: Final = 0.1
"""Of an interval that is asked for where nobody asks for another."""


class Split(StrEnum):
    """Half of the base scenarios: on one a judge is developed, on the other it is reported."""

    DEV = "dev"
    TEST = "test"

    @classmethod
    def of(cls, benchmark: str, base: str) -> Split:
        """Fixed by a hash of both names, so that no label ever changes sides."""
        digest = hashlib.blake2b(f"{benchmark} {base}".encode(), digest_size=8).digest()
        return cls.TEST if digest[0] % 2 else cls.DEV


@dataclass(frozen=True, slots=True)
class JudgedRow:
    """A conversation that counts."""

    conv_id: str
    metric_id: str
    target: str
    place: tuple[str, str]
    """Its stratum and cluster: metric and base scenario, unless transcripts are shared."""
    track: Track
    counts: bool
    """Whether the behaviour is present by what counts, from which the sample was drawn."""
    present: bool | None
    """By the judge that is looked at; None where it has not said."""
    turn: int | None = None
    """The first reply that it quoted; None where it quoted none."""

    @property
    def cluster(self) -> str:
        return " ".join(self.place)


@dataclass(frozen=True, slots=True)
class LabelledRow:
    """One that people have labelled."""

    row: JudgedRow
    person: bool
    """Whether people say that it is present."""
    inclusion: float
    turn: int | None = None
    """The first reply that they marked; None where they marked none."""


@dataclass(frozen=True, slots=True)
class RateOf:
    """A pass rate as the judge has it and as people would, over the same conversations."""

    of: str
    """A target, or empty for all of them."""
    conversations: int
    labels: int
    judged: float
    powered: CorrectedRate | None
    """None of fewer than `LEAST_LABELS`."""
    rogan_gladen: RoganGladen | None


@dataclass(frozen=True, slots=True)
class MetricCounts:
    """How labels and the judge fall on one metric, unweighted."""

    metric_id: str
    both_present: int
    only_judge: int
    only_people: int
    both_absent: int

    @property
    def labels(self) -> int:
        return self.both_present + self.only_judge + self.only_people + self.both_absent


@dataclass(frozen=True, slots=True)
class CalibrationPart:
    """A judge against people on one metric or one target."""

    of: str
    labels: int
    accuracy: Accuracy | None
    """None of fewer than `LEAST_LABELS`, as all that follows but the judge's own rate."""
    agreement: Agreement | None
    rate: RateOf


@dataclass(frozen=True, slots=True)
class Confusion:
    """A conversation on which a judge and people differ."""

    conv_id: str
    people: bool
    """Whether they call it present; the judge says the other."""
    turn: int | None
    """The first reply that whoever calls it present has marked or quoted, 1-based."""


@dataclass(frozen=True, slots=True)
class Calibration:
    """A judge against people."""

    judge: str
    labels: int
    clusters: int
    accuracy: Accuracy
    agreement: Agreement | None
    rates: Sequence[RateOf]
    """Of all conversations, then of each target."""
    metrics: Sequence[MetricCounts]
    by_metric: Sequence[CalibrationPart]
    by_target: Sequence[CalibrationPart]
    confusions: Sequence[Confusion]
    width: float
    """The interval that was asked for, from end to end."""
    labels_needed: int | None
    """For it; None where labels alone do not reach it."""


def calibrate(
    rows: Sequence[JudgedRow], labels: Sequence[LabelledRow], judge: str, width: float = WIDTH
) -> Calibration:
    """Weights are those of the sample, brought to what the judges said of all conversations: labels
    that nobody could give are missing at random among those of the same verdict."""
    known = [one for one in labels if one.row.present is not None]
    weighted = list(_weighted(rows, known))
    of_present = [found for _, found in weighted]
    overall = _rate_of("", rows, weighted)
    return Calibration(
        judge=judge,
        labels=len(known),
        clusters=len({one.cluster for one in of_present}),
        accuracy=accuracy(of_present),
        agreement=_agreed(of_present),
        rates=[overall, *(one.rate for one in _parts(rows, weighted, attrgetter("target")))],
        metrics=_by_metric(known),
        by_metric=list(_parts(rows, weighted, attrgetter("metric_id"))),
        by_target=list(_parts(rows, weighted, attrgetter("target"))),
        confusions=[
            Confusion(one.row.conv_id, one.person, one.turn if one.person else one.row.turn)
            for one in known
            if one.person is not one.row.present
        ],
        width=width,
        labels_needed=None if overall.powered is None else labels_for_width(overall.powered, width),
    )


_Weighted = tuple[LabelledRow, LabelledConversation]


def _weighted(rows: Sequence[JudgedRow], labels: Sequence[LabelledRow]) -> Iterator[_Weighted]:
    for counts in (True, False):
        stood_for = sum(row.counts is counts for row in rows)
        of = [one for one in labels if one.row.counts is counts]
        drawn = sum(1 / one.inclusion for one in of)
        for one in of:
            weight = stood_for / drawn / one.inclusion
            yield (
                one,
                LabelledConversation(one.row.cluster, weight, bool(one.row.present), one.person),
            )


def _agreed(labels: Sequence[LabelledConversation]) -> Agreement | None:
    weights = [one.weight for one in labels]
    worth = effective_labels(weights) / sum(weights) if weights else 0.0
    return agreement(
        [(one.judge, one.person) for one in labels],
        [one.cluster for one in labels],
        [worth * one for one in weights],
    )


def _parts(
    rows: Sequence[JudgedRow], labels: Sequence[_Weighted], part_of: Callable[[JudgedRow], str]
) -> Iterator[CalibrationPart]:
    """Each weighted as it is in the whole."""
    for name in sorted({part_of(row) for row in rows}):
        own = [one for one in labels if part_of(one[0].row) == name]
        found = [weighted for _, weighted in own]
        told = len(found) >= LEAST_LABELS
        yield CalibrationPart(
            name,
            len(found),
            accuracy(found) if told else None,
            _agreed(found) if told else None,
            _rate_of(name, [row for row in rows if part_of(row) == name], own),
        )


def _rate_of(of: str, rows: Sequence[JudgedRow], labels: Sequence[_Weighted]) -> RateOf:
    """Of passing, so that metrics of both types can be put together."""
    judged = [row for row in rows if row.present is not None]
    population: dict[str, dict[str, JudgedCluster]] = {}
    for row in judged:
        clusters = population.setdefault(row.place[0], {})
        before = clusters.get(row.cluster, JudgedCluster(0, 0))
        passed = row.track.passes(present=bool(row.present))
        clusters[row.cluster] = JudgedCluster(before.size + 1, before.present + passed)
    passing = [
        replace(
            found,
            judge=one.row.track.passes(present=found.judge),
            person=one.row.track.passes(present=found.person),
        )
        for one, found in labels
    ]
    passes = sum(row.track.passes(present=bool(row.present)) for row in judged)
    told = len(passing) >= LEAST_LABELS
    return RateOf(
        of,
        len(judged),
        len(passing),
        passes / len(judged) if judged else 0.0,
        prediction_powered(population, passing) if told else None,
        rogan_gladen(population, passing) if told else None,
    )


def _by_metric(labels: Sequence[LabelledRow]) -> list[MetricCounts]:
    found = []
    for metric in sorted({one.row.metric_id for one in labels}):
        own = [(one.row.present, one.person) for one in labels if one.row.metric_id == metric]
        found.append(
            MetricCounts(
                metric,
                own.count((True, True)),
                own.count((True, False)),
                own.count((False, True)),
                own.count((False, False)),
            )
        )
    return found


# Two judges


@dataclass(frozen=True, slots=True)
class JudgesCompared:
    """Two judges on the same labels of one split."""

    split: Split
    labels: int
    left: Share | None
    """How often it is right."""
    right: Share | None
    contest: PairedTest


def compare_judges(
    benchmark: str, left: Sequence[LabelledRow], right: Sequence[LabelledRow]
) -> list[JudgesCompared]:
    """`left` and `right` are the same labels in the same order, each with what one judge says."""
    found = []
    for split in Split:
        both = [
            (one, other)
            for one, other in zip(left, right, strict=True)
            if None not in {one.row.present, other.row.present}
            and Split.of(benchmark, one.row.place[1]) is split
        ]
        found.append(
            JudgesCompared(
                split,
                len(both),
                _right([one for one, _ in both]),
                _right([other for _, other in both]),
                mcnemar(
                    [one.row.present is one.person for one, _ in both],
                    [other.row.present is other.person for _, other in both],
                ),
            )
        )
    return found


def _right(labels: Sequence[LabelledRow]) -> Share | None:
    return accuracy(
        [
            LabelledConversation(
                one.row.cluster, 1 / one.inclusion, bool(one.row.present), one.person
            )
            for one in labels
        ]
    ).right
