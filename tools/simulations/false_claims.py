"""How often anything false is marked as sure, and how often all ranks hold at once."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations, product
from math import sqrt
from pathlib import Path
from random import Random
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from engine.analysis.contrasts import contrasts
from engine.analysis.tallies import ScenarioTally, TargetTally
from engine.benchmark import Track
from engine.statistics import clusters, demographics, paired
from engine.statistics.clusters import degrees_of_freedom, merged_strata
from engine.statistics.demographics import DemographicFit, VariantScore
from engine.statistics.paired import ERROR_RATE, FamilyPart, levels
from tests.benchmarks.frame import Row, missed, page
from tests.late import special, stats

Array = NDArray[Any]
Summed = tuple[Array, Array, Array]
"""Estimate, error and degrees of freedom, each world by comparison."""
_GAPS: Final = (("age", "a", "b"), ("place", "x", "y"))


def person(metric: int, scenario: int, variant: int) -> dict[str, str]:
    """Of one of the two variants of a base scenario."""
    place = Random(f"{metric} {scenario} {variant}").choice("xy")
    return {"age": "ab"[variant], "place": place}


def fitted_gaps(rates: Array) -> tuple[list[Summed], list[Summed]]:
    """Of all targets together, and of each: ages, then places. `rates` are world, target, metric,
    scenario, variant."""
    _, targets, metrics, scenarios, _ = rates.shape
    pooled, alone = (_Layout(count, metrics, scenarios) for count in (targets, 1))
    each = [alone.gaps(rates[:, target : target + 1]) for target in range(targets)]
    return pooled.gaps(rates), [gap for gaps in each for gap in gaps]


class _Layout:
    """What `DemographicFit` makes of who was asked what, whatever came of it."""

    def __init__(self, targets: int, metrics: int, scenarios: int) -> None:
        self._fit = DemographicFit(
            [
                VariantScore(
                    f"m{metric:02d}",
                    f"s{scenario:02d}",
                    (target, metric, scenario),
                    person(metric, scenario, variant),
                    0.0,
                )
                for target in range(targets)
                for metric in range(metrics)
                for scenario in range(scenarios)
                for variant in (0, 1)
            ]
        )
        self._columns = np.array([row.columns for row in self._fit._rows])
        bases = np.arange(metrics * scenarios)
        self._base = np.tile(np.repeat(bases, 2), targets)
        self._metric = np.repeat(np.arange(metrics), scenarios)

    def gaps(self, rates: Array) -> list[Summed]:
        centred = (rates - rates.mean(axis=4, keepdims=True)).reshape(len(rates), -1)
        inverse = np.array(self._fit._inverse)
        effects = centred @ self._columns @ inverse
        residuals = centred - effects @ self._columns.T
        return [self._gap(gap, effects, residuals) for gap in _GAPS]

    def _gap(self, gap: tuple[str, str, str], effects: Array, residuals: Array) -> Summed:
        """`DemographicFit.difference`."""
        axis, left, right = gap
        assert self._fit.contrast(*gap) is not None
        wanted = np.array(
            [
                float(column == (axis, left)) - float(column == (axis, right))
                for column in self._fit._columns
            ]
        )
        weights = np.array(self._fit._inverse) @ wanted
        x = self._columns @ weights / (wanted @ weights)
        estimate = effects @ wanted
        count = len(self._metric)
        sizes = np.bincount(self._base, 2 * x * x, count)
        scores = np.zeros((len(residuals), count))
        np.add.at(scores.T, self._base, (2 * x * residuals).T)
        totals = scores + estimate[:, None] * sizes
        strata = self._strata(sizes)
        pairs = float(sizes[np.concatenate(strata)].sum())
        spread, freedom = _drawn(strata, sizes, totals, estimate, pairs)
        variance = 2 * (residuals**2).sum(1) / self._fit._freedom
        expected = (variance + estimate**2) * pairs - (1 - paired._ABOUT_ZERO) * pairs * estimate**2
        pseudo = paired._PSEUDO_PAIRS
        expected = (expected + pseudo) / (pairs + pseudo) / pairs
        some = variance > demographics._NOTHING
        seen = np.maximum(1, spread**2 * pairs / np.where(some, variance, 1))
        alike = np.where(some, seen, max(1.0, pairs / sum(map(len, strata))))
        expected = np.where(some, expected * alike, expected)
        weight = paired.expected_freedom(sizes[np.concatenate(strata)])
        moderated = (freedom * spread**2 + weight * expected) / (freedom + weight)
        error = np.sqrt(np.maximum(moderated, paired.FEWEST_PAIRS / (pairs / alike) ** 2))
        freedom = whole(freedom + weight)
        return estimate[:, None], error[:, None], freedom[:, None]

    def _strata(self, sizes: Array) -> list[Array]:
        """The places of base scenarios that say something, by metric."""
        known = np.flatnonzero(sizes > demographics._NOTHING)
        by_metric = [known[self._metric[known] == metric] for metric in np.unique(self._metric)]
        return [np.array(one) for one in merged_strata([list(one) for one in by_metric])]


def _drawn(
    strata: Sequence[Array], sizes: Array, totals: Array, mean: Array, pairs: float
) -> tuple[Array, Array]:
    """`paired.drawn_error`: the error and its degrees of freedom."""
    variances = []
    freedoms = np.array([degrees_of_freedom(sizes[one]) for one in strata])
    for one in strata:
        count, borrowed = len(one), paired._BORROWED
        share = sizes[one] / sizes[one].sum()
        own = totals[:, one].sum(1) / sizes[one].sum()
        drawn = (count * own + borrowed * mean) / (count + borrowed)
        left = (totals[:, one] - drawn[:, None] * sizes[one]) * (1 - 1 / count) / (1 - share)
        variances.append((left**2).sum(1) * count / (count - 1))
    found = np.array(variances).T
    return np.sqrt(found.sum(1)) / pairs, _satterthwaite(found, freedoms)


def _satterthwaite(variances: Array, freedoms: Array) -> Array:
    """Of the sum over the last axis."""
    total, most = variances.sum(-1), freedoms.sum(-1) * np.ones(variances.shape[:-1])
    parts = (variances / np.where(total > 0, total, 1)[..., None]) ** 2 / (freedoms + 2)
    seen = 1 / np.maximum(parts.sum(-1), 1e-300) - 2
    least = paired._LEAST_FREEDOM
    return np.asarray(np.where(total > 0, np.minimum(most, np.maximum(least, seen)), most))


def whole(freedom: Array) -> Array:
    return np.asarray(np.maximum(1, np.floor(freedom + clusters._ROUNDING)))


PAGE: Final = Path("docs/simulations/false-claims.md")
COMMAND: Final = "python -m tests.benchmarks claims"
_AT_ONCE: Final = 50
_APART: Final = 0.3
"""Between the best and the last target, where they differ."""
_CEILING: Final = 0.995
_REACH: Final = 0.15
"""How far the rates of metrics lie to either side of their mean, at most."""


@dataclass(frozen=True, slots=True)
class Size:
    """How much is played."""

    targets: int
    variants: int
    """1, or of two ages in one or three places."""
    samples: int


SIZES: Final = [Size(*one) for one in product((2, 4, 8, 14), (1, 2, 6), (1, 3))]
UNCROSSED: Final = [size for size in SIZES if size.variants == 2]
"""Of `Uncrossed`."""
_FEW: Final = [(2, 1), (2, 3), (8, 1), (14, 1)]
"""Targets and samples, where base scenarios are of unlike size or a target is unlike the others."""


@dataclass(frozen=True, slots=True)
class Kind:
    """Metrics, and what is true of them for each target."""

    name: str
    metrics: int
    """Every other one is positive."""
    scenarios: int
    apart: bool = False
    """Whether targets differ: half of them, evenly; the others are all as good as the best."""
    ceiling: bool = False
    """Whether all but a seventh of the metrics are passed nearly always."""

    likeness: float = 0.4
    """The part of the latent variance that rows of one base scenario share."""
    sizes: tuple[int, ...] = ()
    """Rows of each base scenario, where they are of unlike size, all of one group of people."""
    concentrated: float = 0.0
    """The likeness of the first target, where it is not that of the others."""
    missing: float = 0.0
    """The share of rows without a verdict."""
    broken: float = 0.0
    """The share of base scenarios that a target fails as a whole: tails are heavy."""
    middle: float = 0.65
    """The mean pass rate of metrics."""

    def sizes_played(self) -> Sequence[Size]:
        if self.sizes:
            return [Size(targets, max(self.sizes), samples) for targets, samples in _FEW]
        return UNCROSSED if isinstance(self, Uncrossed) else SIZES

    def rate(self, metric: int, target: int, targets: int) -> float:
        if self.ceiling:
            return 0.5 if metric % 7 == 0 else _CEILING
        rate = self.middle + _REACH * (2 * metric / max(1, self.metrics - 1) - (self.metrics > 1))
        return rate - self.behind(target, targets)

    def behind(self, target: int, targets: int) -> float:
        worst = targets - 1
        return _APART * max(0, 2 * target - worst) / worst if self.apart else 0.0


@dataclass(frozen=True, slots=True)
class Uncrossed(Kind):
    """Two variants of each scenario, one of each age, whose place is drawn: gaps are fitted."""


KINDS: Final = (
    Kind("none differ, 20 metrics x 4 scenarios", 20, 4),
    Kind("none differ, 4 metrics x 2 scenarios", 4, 2),
    Kind("none differ, 2 metrics x 8 scenarios", 2, 8),
    Kind("none differ, 2 metrics x 8 scenarios whose rows are much alike", 2, 8, likeness=0.8),
    Kind("none differ, 14 metrics x 2 scenarios, most at their ceiling", 14, 2, ceiling=True),
    Kind("half differ, 6 metrics x 8 scenarios", 6, 8, apart=True),
    *(
        Kind(
            f"none differ, {metrics} metrics x {len(sizes)} scenarios of {words} rows",
            metrics,
            len(sizes),
            sizes=sizes,
        )
        for metrics, sizes, words in (
            (1, (8, *[1] * 7), "8 and 1"),
            (1, (12, *[2] * 7), "12 and 2"),
            (1, (24, *[2] * 7), "24 and 2"),
            (1, (24, *[2] * 19), "24 and 2"),
            (1, (40, *[1] * 7), "40 and 1"),
            (1, (40, 20, 10, 5, 2, 1, 1, 1), "1 to 40"),
            (4, (24, 2, 2, 2), "24 and 2"),
            (4, (40, 20, 10, 5, 2, 1, 1, 1), "1 to 40"),
        )
    ),
    *(
        Kind(
            f"none differ, a third of verdicts missing, {metrics} metrics x 8 scenarios",
            metrics,
            8,
            sizes=(4,) * 8,
            missing=1 / 3,
        )
        for metrics in (1, 4)
    ),
    *(
        Kind(
            f"none differ, {metrics} metrics x {len(sizes)} scenarios of {words} rows, some failed "
            "as a whole",
            metrics,
            len(sizes),
            sizes=sizes,
            broken=0.15,
        )
        for metrics, sizes, words in (
            (1, (4,) * 8, "4"),
            (1, (4,) * 20, "4"),
            (4, (2,) * 8, "2"),
            (1, (16, *[4] * 7), "16 and 4"),
        )
    ),
    *(
        Kind(
            f"none differ, {metrics} metrics x {len(sizes)} scenarios x {sizes[0]} rows, rate "
            f"{middle:g}, the first target fails whole scenarios",
            metrics,
            len(sizes),
            sizes=sizes,
            likeness=0.05,
            concentrated=0.9,
            middle=middle,
        )
        for metrics, sizes, middle in (
            (1, (4,) * 8, 0.65),
            (1, (16,) * 8, 0.65),
            (1, (16,) * 8, 0.8),
            (1, (16,) * 8, 0.95),
            (1, (4,) * 20, 0.8),
            (4, (4,) * 8, 0.8),
        )
    ),
    Uncrossed("none differ, gaps fitted, 20 metrics x 4 scenarios", 20, 4),
    Uncrossed("none differ, gaps fitted, 2 metrics x 8 scenarios", 2, 8),
    Uncrossed("none differ, gaps fitted, 2 metrics x 8 scenarios much alike", 2, 8, likeness=0.8),
    Uncrossed(
        "none differ, gaps fitted, 14 metrics x 2 scenarios at a ceiling", 14, 2, ceiling=True
    ),
    Uncrossed("half differ, gaps fitted, 6 metrics x 8 scenarios", 6, 8, apart=True),
)


@dataclass(slots=True)
class Counted:
    """What came of many worlds of one kind and size."""

    worlds: int = 0
    family: int = 0
    false: int = 0
    """Worlds with any false mark."""
    ranked: int = 0
    """Worlds in which every range of ranks held, on both tracks."""
    told: int = 0
    """Marks, in all worlds."""
    held: int = 0
    """Worlds in which all intervals at once held what is true."""

    @property
    def any_false(self) -> float:
        return self.false / self.worlds

    @property
    def ranks_held(self) -> float:
        return self.ranked / self.worlds

    def faults(self, slack: float) -> Iterator[str]:
        """Where a bar is missed by more than `slack`, which allows for few worlds."""
        if self.any_false > ERROR_RATE + slack:
            yield f"{self.any_false:.1%} carry a false mark"
        if self.ranks_held < 1 - ERROR_RATE - slack:
            yield f"ranks hold in {self.ranks_held:.1%}"


def slack(worlds: int) -> float:
    """What a share of 5% among so many worlds may be off by chance, in 1 of 200 cases."""
    return 2.6 * sqrt(ERROR_RATE * (1 - ERROR_RATE) / worlds)


def count(kind: Kind, size: Size, *, worlds: int, checked: int = 3, seed: int = 1) -> Counted:
    """`checked` of the worlds are marked by the program as well; `AssertionError` where it marks
    others."""
    chance = np.random.default_rng([seed, *f"{kind} {size}".encode()])
    counted = Counted()
    while counted.worlds < worlds:
        passed = play(kind, size, min(_AT_ONCE, worlds - counted.worlds), chance)
        found = Worlds.of(passed / size.samples, kind, size)
        for number in range(max(0, min(len(passed), checked - counted.worlds))):
            _check(found, number, kind, size, passed[number])
        sure, lead = found.sure(), found.lead
        false = (sure & (np.sign(found.estimate) * lead <= 0)).any(axis=1)
        counted.worlds += len(passed)
        counted.family = sure.shape[1]
        counted.told += int(sure.sum())
        counted.false += int(false.sum())
        counted.ranked += int(found.ranks_hold(sure, kind).sum())
        counted.held += int(found.intervals_hold().sum())
    return counted


def play(kind: Kind, size: Size, worlds: int, chance: np.random.Generator) -> Array:
    """How many samples passed: world, target, metric, scenario, variant. Scenarios are hard for
    everybody, and for each target by itself; variants of one differ less; all groups of people are
    treated alike."""
    rates = [
        [kind.rate(metric, target, size.targets) for metric in range(kind.metrics)]
        for target in range(size.targets)
    ]
    shape = (worlds, size.targets, kind.metrics, kind.scenarios, size.variants)
    likeness = np.full(size.targets, kind.likeness)
    if kind.concentrated:
        likeness[0] = kind.concentrated
    broken = chance.random((*shape[:4], 1)) < kind.broken
    # what is broken lowers the mean to what it was meant to be
    found = draw(
        np.array(rates) / (1 - kind.broken), shape, size.samples, likeness[:, None], chance
    )
    found = np.where(broken, 0, found)
    if kind.sizes:
        asked = np.arange(size.variants) < np.array(kind.sizes)[:, None]
        found = np.where(asked & (chance.random(shape) >= kind.missing), found, np.nan)
    return found


def draw(
    rates: Array,
    shape: tuple[int, int, int, int, int],
    samples: int,
    likeness: float | Array,
    chance: np.random.Generator,
    *,
    of_metrics: float = 0.0,
) -> Array:
    """As `play`, of these true rates by target and metric, and by variant where they differ in it,
    and of a likeness of all, or by target and metric. Targets share what is hard as far as all of
    them have it. `of_metrics` is the part of the latent variance that rows of a metric share."""
    cut = special.ndtri(rates).reshape(1, *rates.shape[:2], 1, -1)
    alike = np.broadcast_to(likeness, shape[1:3])[None, :, :, None, None]
    shared = alike.min(1, keepdims=True) * 0.75 / 2
    hard = chance.normal(0, 1, (shape[0], 1, *shape[2:4], 1)) * np.sqrt(shared)
    hard = hard + chance.normal(0, 1, (*shape[:4], 1)) * np.sqrt(alike * 0.75 - shared)
    hard = hard + chance.normal(0, 1, shape) * np.sqrt(alike * 0.25)
    if of_metrics:
        hard = hard + chance.normal(0, sqrt(of_metrics), (shape[0], 1, shape[2], 1, 1))
    odds = special.ndtr((cut - hard) / np.sqrt(1 - alike - of_metrics))
    found: Array = chance.binomial(samples, odds).astype(float)
    return found


@dataclass(frozen=True)
class Worlds:
    """Every comparison of many worlds: the arrays are world by comparison, pairs of targets first,
    in the order of `contrasts`."""

    targets: int
    estimate: Array
    error: Array
    freedom: Array
    parts: Sequence[FamilyPart]
    """Of each comparison."""
    lead: Array
    """By how much the first target truly is better; 0 between people."""
    tracks: Mapping[Track, slice]
    """Where the pairs on each track stand."""

    @classmethod
    def of(cls, rates: Array, kind: Kind, size: Size) -> Worlds:
        left, right = np.array(list(combinations(range(size.targets), 2))).T
        on_pairs, both = rates[:, left] - rates[:, right], rates[:, left] + rates[:, right]
        tracks = list(_TRACKS) if kind.metrics > 1 else []
        places = [slice(None), *(_TRACKS[track] for track in tracks)]
        found = [summed(on_pairs[:, :, at], both[:, :, at], size.targets) for at in places]
        count = len(left)
        parts = [FamilyPart.PAIRS] * count + [FamilyPart.PAIRS_ON_TRACKS] * (len(tracks) * count)
        pooled: list[Summed] = []
        of_each: list[Summed] = []
        if isinstance(kind, Uncrossed):
            pooled, of_each = fitted_gaps(rates)
        elif not kind.sizes:
            pooled, of_each = _gaps(rates)
        found += [*pooled, *of_each]
        parts += [FamilyPart.GAPS] * len(pooled) + [FamilyPart.GAPS_OF_TARGETS] * len(of_each)
        behind = np.array([kind.behind(target, size.targets) for target in range(size.targets)])
        lead = np.zeros(len(parts))
        lead[: len(places) * count] = np.tile(behind[right] - behind[left], len(places))
        estimate, error, freedom = (np.concatenate(one, axis=1) for one in zip(*found, strict=True))
        ranked = {
            track: slice((1 + number) * count, (2 + number) * count)
            for number, track in enumerate(tracks)
        } or {Track.POSITIVE: slice(count)}
        return cls(size.targets, estimate, error, freedom, parts, lead, ranked)

    @cached_property
    def levels(self) -> Array:
        """The level at which each comparison is tested (`paired.simultaneous`)."""
        allowed = levels(Counter(self.parts))
        weights = np.array([allowed[part] for part in self.parts]) / ERROR_RATE
        p = 2 * stats.t.sf(np.abs(self.estimate) / self.error, self.freedom)
        order = np.argsort(p / weights, axis=1, kind="stable")
        weighed = weights[order]
        left = np.cumsum(weighed[:, ::-1], axis=1)[:, ::-1]
        marked = np.cumprod(np.take_along_axis(p, order, 1) / weighed * left <= ERROR_RATE, axis=1)
        # all that are not marked are tested as the first of them was
        least = np.take_along_axis(left, np.minimum(marked.sum(1), len(weights) - 1)[:, None], 1)
        found: Array = np.empty_like(p)
        np.put_along_axis(
            found, order, ERROR_RATE * weighed / np.where(marked > 0, left, least), axis=1
        )
        return found

    def sure(self) -> Array:
        p = 2 * stats.t.sf(np.abs(self.estimate) / self.error, self.freedom)
        return np.asarray(p <= self.levels)

    def intervals_hold(self) -> Array:
        """Of each world, whether all intervals at once hold what is true."""
        half = stats.t.isf(self.levels / 2, self.freedom) * self.error
        return np.asarray((np.abs(self.estimate - self.lead) <= half + 1e-9).all(axis=1))

    def ranks_hold(self, sure: Array, kind: Kind) -> Array:
        """Of each world, whether on both tracks each range holds every place that is true."""
        left, right = np.array(list(combinations(range(self.targets), 2))).T
        behind = np.array([kind.behind(target, self.targets) for target in range(self.targets)])
        better = np.array([(behind < own).sum() for own in behind])
        worse = np.array([(behind > own).sum() for own in behind])
        hold = np.ones(len(sure), bool)
        for of_track in self.tracks.values():
            marks = sure[:, of_track] * np.sign(self.estimate[:, of_track])
            above, below = np.zeros((2, len(sure), self.targets))
            for target in range(self.targets):
                one, other = left == target, right == target
                below[:, target] = (marks[:, one] > 0).sum(1) + (marks[:, other] < 0).sum(1)
                above[:, target] = (marks[:, one] < 0).sum(1) + (marks[:, other] > 0).sum(1)
            hold &= (above <= better).all(axis=1) & (below <= worse).all(axis=1)
        return hold


_TRACKS: Final = {Track.POSITIVE: slice(0, None, 2), Track.NEGATIVE: slice(1, None, 2)}
"""Which metrics are of each."""


def _gaps(rates: Array) -> tuple[list[Summed], list[Summed]]:
    """Of all targets together, and of each: ages, then places."""
    worlds, targets, metrics, scenarios, variants = rates.shape
    if variants == 1:
        return [], []
    people = rates.reshape(worlds, targets, metrics, scenarios, variants // 2, 2)
    apart = [people[..., 0] - people[..., 1]]
    places = combinations(range(variants // 2), 2)
    apart += [people[..., one, :] - people[..., other, :] for one, other in places]
    pooled = [np.moveaxis(one, 1, 3).reshape(worlds, 1, metrics, scenarios, -1) for one in apart]
    each = [one[:, target : target + 1] for target in range(targets) for one in apart]
    return [summed(one) for one in pooled], [summed(one) for one in each]


def summed(apart: Array, both: Array | None = None, targets: int = 2) -> Summed:
    """`mean_difference` of world, comparison, metric, scenario, pair, NaN where there is none; with
    `both`, the sums of both sides, `pair_differences` of so many targets."""
    sizes = (~np.isnan(apart)).sum(4).astype(float)
    total, squares = np.nansum(apart, 4), np.nansum(apart**2, 4)
    filled = (sizes > 0).sum(3)
    of_metric, rows = sizes.sum(3), sizes.sum((2, 3))
    mean, own = total.sum((2, 3)) / rows, total.sum(3) / of_metric
    borrowed = paired._BORROWED
    drawn = (filled * own + borrowed * mean[..., None]) / (filled + borrowed)
    left = (total - drawn[..., None] * sizes) / (1 - sizes / of_metric[..., None])
    left = (left**2).sum(3) * (1 - 1 / filled) ** 2 * filled / (filled - 1)
    worth = of_metric**2 / (sizes**2).sum(3)
    clusters = worth.sum(2)
    freedom = _satterthwaite(left, worth - 1)
    variance = left.sum(2) / rows**2

    explained = np.where(sizes > 0, total**2 / np.maximum(sizes, 1), 0).sum(3)
    between = np.maximum(0, explained - of_metric * own**2).sum(2)
    within = np.maximum(0, squares.sum(3) - explained).sum(2)
    between_freedom, within_freedom = (filled - 1).sum(2), rows - filled.sum(2)
    between, within = between / between_freedom, within / np.maximum(1, within_freedom)
    size = (of_metric - (sizes**2).sum(3) / of_metric).sum(2) / between_freedom
    spread = between + (size - 1) * within
    known = (spread >= 1e-12) & (within_freedom > 0)
    likeness = np.where(known, np.maximum(0, (between - within) / np.where(known, spread, 1)), 1.0)
    others = (sizes**2).sum((2, 3)) / rows - 1
    effective = rows / (1 + others * likeness)

    about = squares.sum((2, 3)) - (1 - paired._ABOUT_ZERO) * rows * mean**2
    pseudo = paired._PSEUDO_PAIRS
    weight = paired._EXPECTED_FREEDOM / (1 + others * paired._EXPECTED_DEPENDENCE)
    expected = (about + pseudo) / (rows + pseudo) / rows
    expected = expected * (1 + others * likeness)
    weighed, shared, hidden = freedom * variance + weight * expected, 0.0, 0.0
    if both is not None:
        at_once = np.nansum(both, (3, 4)) / 2
        rate = at_once.sum(2) / rows
        of_each = (worth * at_once / of_metric + rate[..., None]) / (worth + 1)
        binomial = (2 * of_metric * of_each * (1 - of_each)).sum(2) / rows**2
        overdispersion = variance.sum(1) / np.maximum(binomial.sum(1), 1e-300)
        shared = np.minimum(paired._SHARED_FREEDOM, (targets - 2) * freedom)
        weighed = weighed + shared * overdispersion[:, None] * binomial
        hidden = 2 * ((rate - 0.5) / clusters) ** 2
    moderated = weighed / (freedom + weight + shared)
    error = np.sqrt(np.maximum(moderated, paired.FEWEST_PAIRS / effective**2) + hidden)
    return mean, error, whole(freedom + weight + shared)


def _check(found: Worlds, number: int, kind: Kind, size: Size, passed: Array) -> None:
    tallies = {str(target): TargetTally() for target in range(size.targets)}
    for place, count in np.ndenumerate(passed):
        target, metric, scenario, variant = place
        if np.isnan(count):
            continue
        row = _row(kind, metric, scenario, variant, size, int(count))
        tallies[str(target)].scenarios[row.scenario_id] = row
    comparisons, gaps, _ = contrasts(tallies)
    theirs = [one.sure for one in (*comparisons, *gaps)]
    assert theirs == list(found.sure()[number]), f"not what the program marks: {kind}, {size}"


def _row(
    kind: Kind, metric: int, scenario: int, variant: int, size: Size, passed: int
) -> ScenarioTally:
    base = f"m{metric:02d}_s{scenario:02d}"
    people = {}
    if size.variants > 1 and not kind.sizes:
        people = {"age": "ab"[variant % 2], "place": "xyz"[variant // 2]}
    if isinstance(kind, Uncrossed):
        people = person(metric, scenario, variant)
    return ScenarioTally(
        scenario_id=f"{base}_v{variant}",
        base=base,
        metric_id=f"m{metric:02d}",
        track=Track.NEGATIVE if metric % 2 else Track.POSITIVE,
        demographic=people,
        place=(f"m{metric:02d}", base),
        scored=size.samples,
        passed=passed,
    )


_CLOSE: Final = 5000
"""Worlds of a cell above a bar, or within two standard errors of it: what is above it afterwards is
either within chance or missed."""


def _counted(kind: Kind, size: Size, worlds: int) -> Counted:
    found = count(kind, size, worlds=worlds)
    near = 2 * sqrt(ERROR_RATE * (1 - ERROR_RATE) / worlds)
    worst = max(found.any_false, 1 - found.ranks_held)
    if worst <= ERROR_RATE - near or worlds >= _CLOSE:
        return found
    return count(kind, size, worlds=_CLOSE)


def table(worlds: int, *, every: int = 1) -> tuple[list[str], list[str]]:
    """The lines of a Markdown page, and what missed a bar."""
    lines = [
        "# False claims",
        "",
        f"Output of `{COMMAND} --worlds {worlds}`. For {worlds:,} simulated worlds of each kind "
        f"and size, and {_CLOSE:,} where a share is above its bar or within two standard errors "
        "of it: how many have any false ✓ (at most 5%), how many have every range of ranks correct "
        "on both tracks, ties included (at least 95%), and in how many all intervals hold at once "
        "(no bar: an interval is at the level at which its ✓ was decided). By chance alone, a "
        f"share is off by {slack(worlds):.1%} in 1 of 200 cells of {worlds:,} worlds. 2 variants "
        "are 2 ages, 6 are those in 3 places each. Where gaps are fitted, a scenario has one "
        "person of each age, at a random place. The number of scenarios is of each metric. ✓ is "
        "the mean number of marks.",
    ]
    faults: list[str] = []
    for kind in KINDS:
        lines += ["", f"## {kind.name[0].upper()}{kind.name[1:]}", ""]
        lines.append(
            "| targets | variants | samples | worlds | family | any false ✓ | ranks hold "
            "| intervals hold | ✓ |"
        )
        lines.append("| --: " * 9 + "|")
        for size in kind.sizes_played()[::every]:
            found = _counted(kind, size, worlds)
            line = (
                f"| {size.targets} | {'unlike' if kind.sizes else size.variants} | {size.samples} "
                f"| {found.worlds:,} | {found.family} | {found.any_false:.1%} "
                f"| {found.ranks_held:.1%} | {found.held / found.worlds:.1%} "
                f"| {found.told / found.worlds:.2f} |"
            )
            lines.append(line)
            sys.stderr.write(f"{kind.name}: {line}\n")
            faults += (
                f"{kind.name}, {size.targets} targets, {size.samples} samples: {fault}"
                for fault in found.faults(slack(found.worlds))
            )
    return lines, faults


def claims(*, worlds: int = 1000, every: int = 1, write: bool = False) -> Iterator[Row]:
    """How often anything false is marked as sure, and how often all ranks hold at once.

    Worlds are drawn as for the intervals, and what the pages would mark is held against what is
    true. Where nothing differs, every ✓ is false; where targets differ, so is one that names the
    wrong side or parts two that are equal, and each target's range of ranks has to hold all places
    that its true rate, ties included, could claim. `--write` keeps the table in
    docs/simulations/false-claims.md.

    Many worlds are worked out at once, on arrays; the first of each kind and size are marked by the
    program itself as well, and it is an error where the two do not mark the same.
    """
    lines, faults = table(worlds, every=every)
    yield from page(PAGE, [*lines, "", *missed(faults, _WHY)], faults, write=write)


_WHY: Final = (
    "Where one target fails whole base scenarios and another fails here and there, few base "
    "scenarios say little of how often the first fails: the data are the limit, and the promise of "
    "a ✓ names this condition."
)
