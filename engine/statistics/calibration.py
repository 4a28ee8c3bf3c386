"""The accuracy of a judge, from people's labels on a sample of its conversations.

The labelled conversations were drawn with known probabilities, so each stands for `weight` of them;
rows of one base scenario are not independent and are one cluster. Everything is about `present`:
whether the behaviour is there, whatever the metric's track.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from math import ceil, comb, sqrt
from operator import sub
from typing import Final, NamedTuple, Self

from engine.statistics.clusters import (
    Cluster,
    Stratum,
    degrees_of_freedom,
    effective_number,
    jackknife_error,
    stratified_error,
)
from engine.statistics.distributions import Z95, Interval, clopper_pearson, critical, wilson

_EXPECTED_FREEDOM: Final = 4
"""The weight, in clusters, of the variance of independent labels against the clusters' own: few
clusters may vary little by chance (as in `rates`)."""
_IMAGINED: Final = 1
"""Imagined errors of the judge added to the observed ones: no error among a few labels does not
make a judge perfect."""


_FEW: Final = 5
"""With fewer labels of the rarer kind, Wilson's interval alone has too little coverage."""
_FEW_CLUSTERS: Final = 12
"""The same for clusters."""


@dataclass(frozen=True, slots=True)
class LabelledConversation:
    """A conversation that a person and the judge both answered."""

    cluster: str
    """The metric and the base scenario."""
    weight: float
    """Conversations that it stands for: 1 / its inclusion probability."""
    judge: bool
    person: bool


@dataclass(frozen=True, slots=True)
class Share:
    """A share of weighted labels, 0 to 1."""

    value: float
    interval: Interval
    labels: int
    """Labels that it is a share of, unweighted."""


@dataclass(frozen=True, slots=True)
class Accuracy:
    """The accuracy of a judge against people. A share is None where no label is about it."""

    sensitivity: Share | None
    """The share of what people found present that the judge found present, too."""
    specificity: Share | None
    """The share of what people found absent that the judge found absent, too."""
    positive_value: Share | None
    """The share of what the judge found present that people found present, too."""
    negative_value: Share | None
    """The share of what the judge found absent that people found absent, too."""
    right: Share | None
    """The share on which both agree."""


def accuracy(labels: Sequence[LabelledConversation]) -> Accuracy:
    """Weighted shares with clustered intervals (`_share`)."""
    called_present = [label for label in labels if label.judge]
    passed_over = [label for label in labels if not label.judge]
    return Accuracy(
        _share([(label, label.judge) for label in labels if label.person], passed_over),
        _share([(label, not label.judge) for label in labels if not label.person], called_present),
        _share(
            [(conversation, conversation.person) for conversation in called_present], called_present
        ),
        _share(
            [(conversation, not conversation.person) for conversation in passed_over], passed_over
        ),
        _share([(label, label.judge == label.person) for label in labels], labels),
    )


def _share(
    labelled: Sequence[tuple[LabelledConversation, bool]],
    could_be_wrong: Sequence[LabelledConversation],
) -> Share | None:
    """Wilson's interval over the effective number of labels that has the linearised error of a
    ratio of weighted sums, clusters with C / (C - 1) (Särndal, Swensson and Wretman, Model Assisted
    Survey Sampling (1992), result 5.6.1), moderated by that of independent labels. Degrees of
    freedom are those of the effective number of equal clusters: A. V. Carter, K. T. Schnepel and
    D. G. Steigerwald, Review of Economics and Statistics 99 (2017) 698-709, without correlation.

    Errors can only come from the labels `could_be_wrong`. As few errors may be seen where each
    label stands for many conversations, one more is imagined among them. For one to four errors
    (or as few correct labels), and for few clusters, Wilson's interval may be too short: there it
    reaches at least as far as the exact one, for as many labels as these degrees of freedom leave
    (E. L. Korn and B. I. Graubard, Survey Methodology 24 (1998) 193-201).
    """
    if not labelled:
        return None
    whole = sum(label.weight for label, _ in labelled)
    value = sum(label.weight for label, true in labelled if true) / whole
    residuals = defaultdict[str, float](float)
    heaviness = defaultdict[str, float](float)
    for label, true in labelled:
        # the cluster's part in the linearised error of the share, times the sum of all weights
        residuals[label.cluster] += label.weight * (true - value)
        heaviness[label.cluster] += label.weight
    independent = effective_number(label.weight for label, _ in labelled)
    clusters = len(residuals)
    alike = effective_number(heaviness.values())
    freedom = max(1.0, degrees_of_freedom(heaviness.values()))
    effective = independent
    # at 0 and 1 no cluster differs from another, which says nothing about how far they may
    if 0 < value < 1 and clusters > 1:
        spread = (
            clusters
            / (clusters - 1)
            * sum(residual**2 for residual in residuals.values())
            / whole**2
        )
        expected = value * (1 - value) / independent
        moderated = (freedom * spread + _EXPECTED_FREEDOM * expected) / (
            freedom + _EXPECTED_FREEDOM
        )
        # moderation only adds variance that few clusters may hide; a larger one of theirs stands
        effective = value * (1 - value) / max(spread, moderated)
    if could_be_wrong:
        # the variance of that many independent errors, each standing for as many conversations as
        # these labels do on average
        heavy = sum(conversation.weight for conversation in could_be_wrong) / len(could_be_wrong)
        errors = sum(not true for _, true in labelled) + _IMAGINED
        drawn = whole * value / (whole + _IMAGINED * heavy)
        floor = errors * (drawn * heavy / (whole + _IMAGINED * heavy)) ** 2
        if floor:
            effective = min(effective, drawn * (1 - drawn) / floor)
    trues = sum(true for _, true in labelled)
    rarer = min(trues, len(labelled) - trues)
    return Share(value, _interval(value, effective, freedom, rarer, alike), len(labelled))


def _interval(
    value: float, effective: float, freedom: float, rarer: int, clusters: float
) -> Interval:
    """`rarer` is the number of labels of the rarer kind, `clusters` the effective number."""
    interval = wilson(value, effective, critical(freedom))
    if not rarer or (rarer >= _FEW and clusters >= _FEW_CLUSTERS):
        return interval
    # the exact interval has no quantile to widen, so it is given fewer labels instead
    less = 1.0 if rarer < _FEW else Z95 / critical(freedom)
    exact = clopper_pearson(value, effective * less**2)
    return Interval(min(interval.low, exact.low), max(interval.high, exact.high))


@dataclass(frozen=True, slots=True)
class JudgedCluster:
    """A judge's answers on the conversations of one base scenario, labelled or not."""

    size: int
    present: int
    """Conversations in which the judge found the behaviour."""


Population = Mapping[str, Mapping[str, JudgedCluster]]
"""By metric, its clusters by `LabelledConversation.cluster`."""


@dataclass(frozen=True, slots=True)
class CorrectedRate:
    """The share of conversations in which people would find the behaviour present, estimated."""

    value: float
    interval: Interval
    error: float
    """Standard error."""
    of_labels: float
    """The part of the squared error that more labels would reduce."""
    interval_half: float
    """Half the interval's width, before it is cut at 0 and 1."""
    labels: int


def prediction_powered(
    population: Population, labels: Sequence[LabelledConversation]
) -> CorrectedRate | None:
    """The judge's rate over all conversations, corrected by its errors on the labels.

    A. N. Angelopoulos and others, Science 382 (2023) 669-674, with inclusion weights: the
    difference estimator of Särndal, Swensson and Wretman (1992), eq. 6.3.4. Its error is that of
    clusters about their metrics' means (`stratified_error`), which includes the variation of both
    scenarios and labels; it is at least that of the judge's rate and of independent labels
    together, as few labels may include too few of the judge's errors. Student's t, cut at 0 and 1.
    None without conversations or labels, or with a single cluster.
    """
    count = sum(cell.size for metric in population.values() for cell in metric.values())
    if not count or not labels:
        return None
    wrong: dict[str, float] = {}
    for labelled in labels:
        wrong[labelled.cluster] = wrong.get(labelled.cluster, 0.0) + labelled.weight * (
            labelled.person - labelled.judge
        )
    judged = stratified_error(_strata(population, {}))
    both = stratified_error(_strata(population, wrong))
    if judged is None or both is None:
        return None
    rate = sum(cell.present for metric in population.values() for cell in metric.values()) / count
    value = rate + sum(wrong.values()) / count
    # as in `_share`: the judge's errors among independent labels, with imagined ones added on both
    # sides, so that no error among a few does not make its variance 0
    weighed = sum(label.weight for label in labels)
    effective = effective_number(label.weight for label in labels)
    errors = sum(label.weight for label in labels if label.person != label.judge) / weighed
    imagined = (errors * effective + _IMAGINED) / (effective + 2 * _IMAGINED)
    of_labels = max(both.error**2 - judged.error**2, imagined / effective)
    error = sqrt(judged.error**2 + of_labels)
    half = critical(both.freedom) * error
    middle = min(1.0, max(0.0, value))
    interval = Interval(max(0.0, min(middle, value - half)), min(1.0, max(middle, value + half)))
    return CorrectedRate(middle, interval, error, of_labels, half, len(labels))


def labels_for_width(corrected: CorrectedRate, width: float) -> int | None:
    """About how many labels in all would make the interval this narrow, if they were like the
    present ones; None where the variation between scenarios alone makes it wider."""
    half = corrected.interval_half
    allowed = (width / 2 / half * corrected.error) ** 2 if half else 0.0
    of_scenarios = corrected.error**2 - corrected.of_labels
    if allowed <= of_scenarios:
        return None
    return ceil(corrected.labels * corrected.of_labels / (allowed - of_scenarios))


def _strata(population: Population, wrong: Mapping[str, float]) -> list[Stratum]:
    return [
        [
            Cluster(cell.size, total := cell.present + wrong.get(name, 0.0), total)
            for name, cell in metric.items()
        ]
        for metric in population.values()
    ]


class MissingReason(StrEnum):
    """Why a figure of a calibration is missing."""

    FEW_LABELS = "few_labels"
    """Fewer labels than figures are reported for."""
    FEW_BASE_SCENARIOS = "few_base_scenarios"
    ONE_ANSWER = "one_answer"
    """All labels of one kind, present or absent, are on at most one base scenario."""
    CHANCE = "judge_may_be_no_better_than_chance"
    SCENARIOS_VARY = "base_scenarios_vary_too_much"
    """No number of labels suffices: the variation between base scenarios is too large."""


@dataclass(frozen=True, slots=True)
class RoganGladen:
    """The rate corrected by the judge's sensitivity and specificity."""

    value: float | None
    """None where it cannot be corrected; `interval` is None, too."""
    interval: Interval | None
    reason: MissingReason | None = None
    """Why it cannot be corrected."""

    @classmethod
    def missing(cls, reason: MissingReason) -> Self:
        return cls(None, None, reason)


def rogan_gladen(population: Population, labels: Sequence[LabelledConversation]) -> RoganGladen:
    """(rate + specificity - 1) / (sensitivity + specificity - 1).

    W. J. Rogan and B. Gladen, American Journal of Epidemiology 107 (1978) 71-76. The error is that
    of the jackknife over clusters of labels, plus that of the judge's rate over the clusters,
    divided by the denominator. It cannot be corrected where the interval of the denominator reaches
    0, a single cluster has all labels of one kind, or there are fewer than three clusters.
    """
    judged = stratified_error(_strata(population, {}))
    count = sum(cell.size for metric in population.values() for cell in metric.values())
    clusters: dict[str, list[LabelledConversation]] = {}
    for label in labels:
        clusters.setdefault(label.cluster, []).append(label)
    whole = _sums(labels)
    if judged is None or len(clusters) < 3:
        return RoganGladen.missing(MissingReason.FEW_BASE_SCENARIOS)
    rate = sum(cell.present for metric in population.values() for cell in metric.values()) / count
    # by subtraction: adding up all clusters but one, for each of them, would be quadratic
    parts = [whole.minus(_sums(part)) for part in clusters.values()]
    if not all(part.present > _NONE and part.absent > _NONE for part in parts):
        return RoganGladen.missing(MissingReason.ONE_ANSWER)
    youden = whole.youden
    t = critical(
        degrees_of_freedom(sum(label.weight for label in part) for part in clusters.values())
    )
    half = t * jackknife_error([part.youden for part in parts])
    # dividing by something that may be 0 has no interval of any width
    if youden <= half or any(part.youden <= 0 for part in parts):
        return RoganGladen.missing(MissingReason.CHANCE)
    value = whole.corrected(rate)
    spread = jackknife_error([part.corrected(rate) for part in parts]) ** 2
    error = sqrt(spread + (judged.error / youden) ** 2)
    middle = min(1.0, max(0.0, value))
    interval = Interval(
        max(0.0, min(middle, value - t * error)), min(1.0, max(middle, value + t * error))
    )
    return RoganGladen(middle, interval)


_NONE: Final = 1e-9
"""What subtracting weights may leave of nothing, by rounding."""


class _Sums(NamedTuple):
    """Sums of the weights of labels."""

    present: float = 0.0
    """People found it present."""
    absent: float = 0.0
    found: float = 0.0
    """Both found it present."""
    passed_over: float = 0.0
    """Both found it absent."""

    @property
    def youden(self) -> float:
        return self.found / self.present + self.passed_over / self.absent - 1

    def corrected(self, rate: float) -> float:
        return (rate + self.passed_over / self.absent - 1) / self.youden

    def minus(self, other: _Sums) -> _Sums:
        return _Sums(*map(sub, self, other))


def _sums(labels: Iterable[LabelledConversation]) -> _Sums:
    present = absent = both_present = passed_over = 0.0
    for label in labels:
        if label.person:
            present += label.weight
            both_present += label.weight * label.judge
        else:
            absent += label.weight
            passed_over += label.weight * (not label.judge)
    return _Sums(present, absent, both_present, passed_over)


@dataclass(frozen=True, slots=True)
class PairedTest:
    """Two judges on the same labels."""

    only_left: int
    """Labels on which only the left judge is right."""
    only_right: int
    p: float
    """Two-sided, for judges that are equally often right."""


def mcnemar(left: Sequence[bool], right: Sequence[bool]) -> PairedTest:
    """Whether two judges are equally often right; each argument says on which labels one is right.

    The exact two-sided test on the labels on which only one is right: Q. McNemar, Psychometrika 12
    (1947) 153-157; binomial as in A. Agresti, Categorical Data Analysis (2002), section 10.1.
    Labels are unweighted.
    """
    only_left = sum(one and not other for one, other in zip(left, right, strict=True))
    only_right = sum(other and not one for one, other in zip(left, right, strict=True))
    apart = only_left + only_right
    tail = sum(comb(apart, number) for number in range(min(only_left, only_right) + 1))
    return PairedTest(only_left, only_right, min(1.0, 2 * tail / 2**apart))
