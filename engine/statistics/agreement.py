"""Agreement of repeated answers on the same thing: samples, judges, or passes of a judge."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass
from functools import reduce
from itertools import count, repeat
from math import sqrt
from operator import add, sub
from typing import Final, NamedTuple

from engine.statistics.clusters import degrees_of_freedom, jackknife_error
from engine.statistics.distributions import Interval, critical, wilson

# the error of equal values is only rounding, and to divide by its square would give a number of
# things without end
_ROUNDING: Final = 1e-9


@dataclass(frozen=True, slots=True)
class _IntervalLimit:
    """Limits of a coefficient's interval besides the jackknife, chosen by
    `python -m tests.benchmarks coverage`."""

    most: float
    """The most effective things, as a multiple of what independent things are worth."""
    freedom: int
    """Degrees of freedom of Student's t, as a multiple of those of the clusters: binary answers
    vary less than normally distributed ones."""
    by_pairs: bool
    """Whether a thing with three answers, which are three pairs, may be worth more than one with
    two (`_Sums.worth_of_pairs`)."""


_AC1: Final = _IntervalLimit(most=1, freedom=2, by_pairs=True)
_ALPHA: Final = _IntervalLimit(most=2, freedom=1, by_pairs=True)
"""The disagreement expected by chance is small at high rates, and is itself estimated."""
_KAPPA: Final = _IntervalLimit(most=2, freedom=2, by_pairs=False)
"""It is below alpha for few answers, so its interval needs more width to cover the truth."""
_MOST_PAIRS: Final = 3
"""The most pairs of one thing that count: with few clusters, more are seldom worth as much."""


@dataclass(frozen=True, slots=True)
class Coefficient:
    """A figure of agreement with its interval, clustered by base scenario."""

    value: float
    interval: Interval | None
    """None for fewer than two clusters."""


@dataclass(frozen=True, slots=True)
class Agreement:
    """How far answers on the same thing agree; things answered once are left out."""

    things: int
    """How many things were answered at least twice."""
    percent: Coefficient
    """The share of pairs of answers on one thing that agree; each thing has the same weight."""
    unanimous: Coefficient
    """The share of things on which all answers agree."""
    ac1: Coefficient | None
    alpha: Coefficient | None
    """None where only one answer was ever given: agreement beyond chance is not defined."""
    kappa: Coefficient | None
    """Fleiss' kappa; None as for alpha, and where things were answered unequally often."""


@dataclass(frozen=True, slots=True)
class Flips:
    """How the answers of two raters on the same things fall."""

    both: int
    left_only: int
    """Passed by the left one, failed by the right one."""
    right_only: int
    neither: int


def flip_matrix(left: Sequence[bool | None], right: Sequence[bool | None]) -> Flips:
    """Count two raters' answers, given in the same order; things with one answer are left out."""
    pairs = [(a, b) for a, b in zip(left, right, strict=True) if a is not None and b is not None]
    both = sum(a and b for a, b in pairs)
    left_only = sum(a and not b for a, b in pairs)
    right_only = sum(b and not a for a, b in pairs)
    return Flips(both, left_only, right_only, len(pairs) - both - left_only - right_only)


def agreement(
    ratings: Iterable[Sequence[bool | None]],
    clusters: Iterable[Hashable] | None = None,
    weights: Iterable[float] | None = None,
) -> Agreement | None:
    """The agreement of the answers on each thing; None where nothing was answered twice. `clusters`
    has each thing's base scenario; without it, each thing is a cluster. `weights` should sum to
    the effective number of things; without them, each thing has weight 1.

    Percent and AC1: K. L. Gwet, British Journal of Mathematical and Statistical Psychology 61
    (2008) 29-48, eq. 5 and 6. Alpha, nominal: K. Krippendorff, Content Analysis (2013), chapter
    12. Kappa: J. L. Fleiss, Psychological Bulletin 76 (1971) 378-382. Intervals: `_share` and
    `_chance_corrected`.
    """
    places: Iterable[Hashable] = count() if clusters is None else clusters
    alike: defaultdict[tuple[Hashable, int, int], float] = defaultdict(float)
    worth = repeat(1) if weights is None else weights
    for answers, place, weight in zip(ratings, places, worth, strict=False):
        known_answers = [answer for answer in answers if answer is not None]
        if len(known_answers) > 1:
            # things answered alike are added up first: thousands make a few dozen kinds
            alike[place, sum(known_answers), len(known_answers)] += weight
    sums: dict[Hashable, _Sums] = {}
    for (place, passed, rated), number in alike.items():
        sums[place] = sums.get(place, _NOTHING).plus(_Sums.of(passed, rated, number))
    if not sums:
        return None
    parts = list(sums.values())
    whole = reduce(_Sums.plus, parts)
    # by subtraction: adding up all clusters but one, for each of them, would be quadratic
    left_out = [whole.minus(part) for part in parts]
    freedom = degrees_of_freedom(part.things for part in parts)

    def corrected(
        formula: _Formula, expected: _Formula, limit: _IntervalLimit
    ) -> Coefficient | None:
        return _chance_corrected(formula, expected, whole, left_out, freedom, limit)

    return Agreement(
        things=round(whole.things),
        percent=_share(_Sums.percent, whole, left_out, freedom),
        unanimous=_share(_Sums.all_alike, whole, left_out, freedom),
        ac1=corrected(_Sums.ac1, _Sums.ac1_expected, _AC1),
        alpha=corrected(_Sums.alpha, _Sums.alpha_expected, _ALPHA),
        kappa=corrected(_Sums.kappa, _Sums.kappa_expected, _KAPPA)
        if len({rated for _, _, rated in alike}) == 1
        else None,
    )


class _Sums(NamedTuple):
    """The sums over things that every figure is computed from."""

    things: float = 0
    answers: float = 0
    passed: float = 0
    alike: float = 0.0
    """Sum of each thing's share of agreeing pairs of answers."""
    unanimous: float = 0
    share: float = 0.0
    """Sum of each thing's share of passing answers."""
    apart: float = 0.0
    """Sum of each thing's differing pairs of answers, weighted 1 / (answers - 1)."""
    pairs: float = 0.0
    """Pairs of answers on the same thing."""

    @classmethod
    def of(cls, passed: int, answers: int, count: float) -> _Sums:
        """The sums of `count` things with `answers` answers each, of which `passed` pass."""
        failed = answers - passed
        pairs = answers * (answers - 1) / 2
        return cls(
            count,
            count * answers,
            count * passed,
            count * (1 - passed * failed / pairs),
            count * int(not passed or not failed),
            count * passed / answers,
            count * passed * failed / (answers - 1),
            count * pairs,
        )

    def plus(self, other: _Sums) -> _Sums:
        return _Sums(*map(add, self, other))

    def minus(self, other: _Sums) -> _Sums:
        return _Sums(*map(sub, self, other))

    def worth_of_pairs(self, value: float) -> float:
        """How many independent pairs one thing's pairs are worth, if the coefficient is `value`:
        all of them where nothing agrees beyond chance, one where everything does. Kish's n / deff
        over the pairs of a thing, with the root of the coefficient as their correlation."""
        pairs = min(_MOST_PAIRS, self.pairs / self.things)
        return pairs / (1 + (pairs - 1) * sqrt(max(0.0, value)))

    def percent(self) -> float:
        return self.alike / self.things

    def all_alike(self) -> float:
        return self.unanimous / self.things

    def ac1_expected(self) -> float:
        share = self.share / self.things
        return 2 * share * (1 - share)

    def ac1(self) -> float | None:
        return _beyond_chance(self.percent(), self.ac1_expected())

    def alpha_expected(self) -> float:
        failed = self.answers - self.passed
        return 1 - 2 * self.passed * failed / (self.answers * (self.answers - 1))

    def alpha(self) -> float | None:
        failed = self.answers - self.passed
        if not failed or not self.passed:
            return None
        return 1 - (self.answers - 1) * self.apart / (self.passed * failed)

    def kappa_expected(self) -> float:
        share = self.passed / self.answers
        return share**2 + (1 - share) ** 2

    def kappa(self) -> float | None:
        if self.passed in {0, self.answers}:
            return None
        return _beyond_chance(self.percent(), self.kappa_expected())


_NOTHING: Final = _Sums()
_Formula = Callable[[_Sums], float | None]


def _beyond_chance(percent: float, expected: float) -> float | None:
    """Agreement beyond chance, as a share of what is possible beyond chance."""
    return None if expected >= 1 else (percent - expected) / (1 - expected)


def _share(
    formula: Callable[[_Sums], float], whole: _Sums, left_out: Sequence[_Sums], freedom: float
) -> Coefficient:
    """Wilson's interval over the effective number of things that has the error of the jackknife
    over clusters (`jackknife_error`). Where that error is 0, each cluster counts as one
    observation."""
    value = formula(whole)
    if len(left_out) < 2:
        return Coefficient(value, None)
    error = jackknife_error([formula(sums) for sums in left_out])
    effective = value * (1 - value) / error**2 if error > _ROUNDING else 0.0
    return Coefficient(value, wilson(value, effective or len(left_out), critical(freedom)))


def _chance_corrected(
    formula: _Formula,
    expected: _Formula,
    whole: _Sums,
    left_out: Sequence[_Sums],
    freedom: float,
    limit: _IntervalLimit,
) -> Coefficient | None:
    """A chance-corrected coefficient c. Wilson's interval of (1 + c) / 2, from 0 to 1, over the
    effective number of things that has the error of the jackknife over clusters, but at most
    `limit` times the number if all things were independent and chance agreement known.

    That number, for agreement A and disagreement D expected by chance, is n D (1 + c) / A, from c =
    1 - (1 - A) / D. It matters at high rates, where D is small: a few clusters may have the same
    answers, and so no error, or leaving one out may leave an undefined coefficient.
    """
    value, by_chance = formula(whole), expected(whole)
    if value is None or by_chance is None:
        return None
    if len(left_out) < 2:  # nothing is left to compute from without the only cluster
        return Coefficient(value, None)
    share = (1 + value) / 2
    most = limit.most * (whole.worth_of_pairs(value) if limit.by_pairs else 1)
    effective = most * whole.things * (1 - by_chance) * 2 * share / max(0.5, whole.percent())
    values = [coefficient for sums in left_out if (coefficient := formula(sums)) is not None]
    # halved, as the interval is that of (1 + c) / 2
    error = jackknife_error(values) / 2 if len(values) == len(left_out) else 0.0
    if error > _ROUNDING:
        effective = min(effective, share * (1 - share) / error**2)
    shares = wilson(share, effective, critical(limit.freedom * freedom))
    # back from 0..1 to -1..1
    return Coefficient(value, Interval(2 * shares.low - 1, 2 * shares.high - 1))
