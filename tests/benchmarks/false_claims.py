"""How often anything false is marked as sure, and how often all ranks hold at once."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations, product
from math import sqrt
from pathlib import Path
from random import Random
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from engine.analysis.contrasts import compared, contrasts
from engine.analysis.tallies import ScenarioTally, TargetTally
from engine.benchmark import Track
from engine.statistics import demographics, paired
from engine.statistics.clusters import merged_strata
from engine.statistics.demographics import DemographicFit, VariantScore
from engine.statistics.distributions import student_quantile
from engine.statistics.paired import ERROR_RATE, FamilyPart, levels
from tests.benchmarks.frame import Row, missed, page
from tests.late import special

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
        expected = np.where(some, expected * (1 + alike) / 2, expected)
        weight = paired._EXPECTED_FREEDOM
        moderated = (freedom * spread**2 + weight * expected) / (freedom + weight)
        error = np.sqrt(np.maximum(moderated, paired._FEWEST_PAIRS / (pairs / alike) ** 2))
        far = freedom + paired.FAR_OUT
        return estimate[:, None], error[:, None], far[:, None]

    def _strata(self, sizes: Array) -> list[Array]:
        """The places of base scenarios that say something, by metric."""
        known = np.flatnonzero(sizes > demographics._NOTHING)
        by_metric = [known[self._metric[known] == metric] for metric in np.unique(self._metric)]
        return [np.array(one) for one in merged_strata([list(one) for one in by_metric])]


def _drawn(
    strata: Sequence[Array], sizes: Array, totals: Array, mean: Array, pairs: float
) -> tuple[Array, Array]:
    """`paired.drawn_error`: the error and its degrees of freedom."""
    variances, freedoms = [], np.array([len(one) - 1 for one in strata])
    for one in strata:
        count, borrowed = len(one), paired._BORROWED
        own = totals[:, one].sum(1) / sizes[one].sum()
        drawn = (count * own + borrowed * mean) / (count + borrowed)
        left = ((totals[:, one] - drawn[:, None] * sizes[one]) ** 2).sum(1)
        variances.append(left * count / (count - 1))
    found = np.array(variances).T
    total = found.sum(1)
    freedom = np.full(len(total), float(freedoms.sum()))
    some = total > 0
    shares = ((found[some] / total[some][:, None]) ** 2 / (freedoms + 2)).sum(1)
    freedom[some] = np.clip(np.floor(1 / shares - 2 + 1e-9), 1, freedom[some])
    return np.sqrt(total) / pairs, freedom


PAGE: Final = Path("docs/false-claims.md")
COMMAND: Final = "python -m tests.benchmarks claims"
_AT_ONCE: Final = 50
_APART: Final = 0.3
"""Between the best and the last target, where they differ."""
_CEILING: Final = 0.995


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

    def rate(self, metric: int, target: int, targets: int) -> float:
        if self.ceiling:
            return 0.5 if metric % 7 == 0 else _CEILING
        rate = 0.65 + 0.15 * (2 * metric / max(1, self.metrics - 1) - 1)
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
    Uncrossed("none differ, gaps fitted, 20 metrics x 4 scenarios", 20, 4),
    Uncrossed("none differ, gaps fitted, 2 metrics x 8 scenarios", 2, 8),
    Uncrossed("none differ, gaps fitted, 2 metrics x 8 scenarios much alike", 2, 8, likeness=0.8),
    Uncrossed(
        "none differ, gaps fitted, 14 metrics x 2 scenarios at a ceiling", 14, 2, ceiling=True
    ),
    Uncrossed("half differ, gaps fitted, 6 metrics x 8 scenarios", 6, 8, apart=True),
)


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
    return draw(np.array(rates), shape, size.samples, kind.likeness, chance)


def draw(
    rates: Array,
    shape: tuple[int, int, int, int, int],
    samples: int,
    likeness: float,
    chance: np.random.Generator,
) -> Array:
    """As `play`, of these true rates by target and metric."""
    cut = special.ndtri(rates)[None, :, :, None, None]
    of_scenario, of_variant = sqrt(likeness * 0.75 / 2), sqrt(likeness * 0.25)
    hard = chance.normal(0, of_scenario, (shape[0], 1, *shape[2:4], 1))
    hard = hard + chance.normal(0, of_scenario, (*shape[:4], 1))
    hard = hard + chance.normal(0, of_variant, shape)
    odds = special.ndtr((cut - hard) / sqrt(1 - likeness))
    found: Array = chance.binomial(samples, odds).astype(float)
    return found


@dataclass(frozen=True, slots=True)
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
        on_pairs = rates[:, left] - rates[:, right]
        found = [summed(on_pairs[:, :, of_track]) for of_track in (slice(None), *_TRACKS.values())]
        count = len(left)
        parts = [FamilyPart.PAIRS] * count + [FamilyPart.PAIRS_ON_TRACKS] * (2 * count)
        pooled, of_each = fitted_gaps(rates) if isinstance(kind, Uncrossed) else _gaps(rates)
        found += [*pooled, *of_each]
        parts += [FamilyPart.GAPS] * len(pooled) + [FamilyPart.GAPS_OF_TARGETS] * len(of_each)
        behind = np.array([kind.behind(target, size.targets) for target in range(size.targets)])
        lead = np.zeros(len(parts))
        lead[: 3 * count] = np.tile(behind[right] - behind[left], 3)
        estimate, error, freedom = (np.concatenate(one, axis=1) for one in zip(*found, strict=True))
        tracks = {
            track: slice((1 + number) * count, (2 + number) * count)
            for number, track in enumerate(_TRACKS)
        }
        return cls(size.targets, estimate, error, freedom, parts, lead, tracks)

    def sure(self) -> Array:
        allowed = levels(Counter(self.parts))
        marked = np.zeros(self.estimate.shape, bool)
        for part, level in allowed.items():
            of_part = np.array([one is part for one in self.parts])
            freedom = self.freedom[:, of_part]
            quantile = np.empty(freedom.shape)
            for one in np.unique(freedom):
                quantile[freedom == one] = student_quantile(1 - level / 2, float(one))
            half = quantile * self.error[:, of_part]
            marked[:, of_part] = np.abs(self.estimate[:, of_part]) > half
        return marked

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


def summed(apart: Array) -> Summed:
    """`mean_difference` of world, comparison, metric, scenario, pair."""
    metrics, scenarios, size = apart.shape[2:]
    rows = metrics * scenarios * size
    total, squares = apart.sum(4), (apart**2).sum((2, 3, 4))
    mean = total.sum((2, 3)) / rows
    own = total.sum(3) / (scenarios * size)
    borrowed = paired._BORROWED
    drawn = (scenarios * own + borrowed * mean[..., None]) / (scenarios + borrowed)
    left = ((total - drawn[..., None] * size) ** 2).sum(3) * scenarios / (scenarios - 1)
    variance = left.sum(2)
    freedom = np.full(mean.shape, float(metrics * (scenarios - 1)))
    some = variance > 0
    shares = ((left[some] / variance[some][:, None]) ** 2 / (scenarios + 1)).sum(1)
    freedom[some] = np.clip(np.floor(1 / shares - 2 + 1e-9), 1, freedom[some])

    explained = (total**2).sum(3) / size
    between = np.maximum(0, explained - scenarios * size * own**2).sum(2)
    within = np.maximum(0, (apart**2).sum((3, 4)) - explained).sum(2)
    between = between / (metrics * (scenarios - 1))
    within = within / max(1, metrics * scenarios * (size - 1))
    spread = between + (size - 1) * within
    known = (spread >= 1e-12) & (size > 1)
    safe = np.where(known, spread, 1)
    likeness = np.where(known, np.maximum(0, (between - within) / safe), 1.0)
    effective = rows / (1 + (size - 1) * likeness)

    about = squares - (1 - paired._ABOUT_ZERO) * rows * mean**2
    pseudo = paired._PSEUDO_PAIRS
    expected = (about + pseudo) / (rows + pseudo) / rows
    expected = expected * (1 + (size - 1) * paired._EXPECTED_LIKENESS * likeness)
    weight = paired._EXPECTED_FREEDOM
    moderated = (freedom * variance / rows**2 + weight * expected) / (freedom + weight)
    error = np.sqrt(np.maximum(moderated, paired._FEWEST_PAIRS / effective**2))
    return mean, error, freedom + paired.FAR_OUT


def _check(found: Worlds, number: int, kind: Kind, size: Size, passed: Array) -> None:
    tallies = {str(target): TargetTally() for target in range(size.targets)}
    for place, count in np.ndenumerate(passed):
        target, metric, scenario, variant = place
        row = _row(kind, metric, scenario, variant, size, int(count))
        tallies[str(target)].scenarios[row.scenario_id] = row
    marks = contrasts(compared(tallies))
    theirs = [one.sure for one in (*marks.comparisons, *marks.gaps)]
    assert theirs == list(found.sure()[number]), f"not what the program marks: {kind}, {size}"


def _row(
    kind: Kind, metric: int, scenario: int, variant: int, size: Size, passed: int
) -> ScenarioTally:
    base = f"m{metric:02d}_s{scenario:02d}"
    people = {"age": "ab"[variant % 2], "place": "xyz"[variant // 2]} if size.variants > 1 else {}
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


def table(worlds: int, *, every: int = 1) -> tuple[list[str], list[str]]:
    """The lines of a Markdown page, and what missed a bar."""
    lines = [
        "# False claims",
        "",
        f"Output of `{COMMAND} --worlds {worlds}`. For {worlds:,} simulated worlds of each kind "
        "and size: how many have any false ✓ (at most 5%), and how many have every range of "
        "ranks correct on both tracks, ties included (at least 95%). By chance alone, a share is "
        f"off by {slack(worlds):.1%} in 1 of 200 cells. 2 variants are 2 ages, 6 are those in "
        "3 places each. Where gaps are fitted, a scenario has one person of each age, at a random "
        "place.",
    ]
    faults: list[str] = []
    for kind in KINDS:
        lines += ["", f"## {kind.name[0].upper()}{kind.name[1:]}", ""]
        lines.append("| targets | variants | samples | family | any false ✓ | ranks hold | ✓ |")
        lines.append("| --: " * 7 + "|")
        for size in (UNCROSSED if isinstance(kind, Uncrossed) else SIZES)[::every]:
            found = count(kind, size, worlds=worlds)
            line = (
                f"| {size.targets} | {size.variants} | {size.samples} | {found.family} | "
                f"{found.any_false:.1%} | {found.ranks_held:.1%} | {found.told / worlds:.2f} |"
            )
            lines.append(line)
            sys.stderr.write(f"{kind.name}: {line}\n")
            faults += (f"{kind.name}, {size}: {fault}" for fault in found.faults(slack(worlds)))
    return lines, faults


def claims(*, worlds: int = 1000, every: int = 1, write: bool = False) -> Iterator[Row]:
    """How often anything false is marked as sure, and how often all ranks hold at once.

    Worlds are drawn as for the intervals, and what the pages would mark is held against what is
    true. Where nothing differs, every ✓ is false; where targets differ, so is one that names the
    wrong side or parts two that are equal, and each target's range of ranks has to hold all places
    that its true rate, ties included, could claim. `--write` keeps the table in
    docs/false-claims.md.

    Many worlds are worked out at once, on arrays; the first of each kind and size are marked by the
    program itself as well, and it is an error where the two do not mark the same.
    """
    lines, faults = table(worlds, every=every)
    yield from page(PAGE, [*lines, "", missed(faults)], faults, write=write)
