"""What a benchmark's mirrored files say, counted anew: plain Python over JSON, and formulas as
their sources have them. Nothing of the program's own analysis is used, so that both cannot share a
fault."""

from __future__ import annotations

import json
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import combinations
from math import floor, sqrt
from pathlib import Path
from typing import Any, Final, TypeVar

import numpy as np
from numpy.typing import NDArray

from tests.late import stats

TRACKS: Final = ("positive", "negative")
_SHARES: Final = {"pairs": 0.4, "pairs on a track": 0.3, "gaps": 0.15, "gaps of targets": 0.15}
Array = NDArray[Any]


@dataclass(frozen=True)
class Row:
    """One conversation that the benchmark asks for."""

    target: str
    metric: str
    track: str
    base: str
    scenario: str
    sample: int
    people: Mapping[str, str]
    passed: bool | None
    exposed: tuple[bool, int, int, int, int] | None
    """Whether it ended early, landmarks, those that were reached; None where nothing ended."""


@dataclass(frozen=True)
class Difference:
    """In rates."""

    estimate: float
    error: float | None
    freedom: int
    rows: int
    bases: int
    low: float | None = None
    high: float | None = None
    p: float | None = None

    @property
    def marked(self) -> bool:
        return self.low is not None and self.high is not None and not self.low <= 0 <= self.high


@dataclass
class Agreed:
    things: int
    divided: int
    percent: float
    ac1: float
    alpha: float | None


@dataclass
class Counted:
    """A benchmark, counted."""

    name: str
    targets: Sequence[str]
    metrics: Mapping[str, str]
    """Track, by metric."""
    rows: Sequence[Row]
    pairs: dict[tuple[str | None, str, str], Difference] = field(default_factory=dict)
    """By track (None for both), the target that passes more often or the first, the other."""
    gaps: dict[tuple[str, str, str, str | None], Difference] = field(default_factory=dict)
    """By axis, two values, target (None for all); none where people are not crossed."""
    crossed: bool = True
    family: Counter[str] = field(default_factory=Counter)

    def of(self, **wanted: Any) -> list[Row]:
        """Rows whose fields are these."""
        return [
            row
            for row in self.rows
            if all(getattr(row, name) == value for name, value in wanted.items())
        ]

    def rate(self, rows: Iterable[Row]) -> tuple[int, int, int, int]:
        """Passed, scored, asked for, base scenarios scored."""
        rows = list(rows)
        scored = [row for row in rows if row.passed is not None]
        passed = sum(bool(one.passed) for one in scored)
        return passed, len(scored), len(rows), len({(o.metric, o.base) for o in scored})

    def exposure(self, target: str) -> tuple[int, ...]:
        """Conversations, early, planned, reached, with landmarks, reached the last, turns, replies
        withheld."""
        found = [one.exposed for one in self.of(target=target) if one.exposed is not None]
        return (
            len(found),
            sum(early for early, *_ in found),
            sum(planned for _, planned, *_ in found),
            sum(reached for _, _, reached, *_ in found),
            sum(planned > 0 for _, planned, *_ in found),
            sum(0 < planned == reached for _, planned, reached, *_ in found),
            sum(turns for *_, turns, _ in found),
            sum(withheld for *_, withheld in found),
        )

    def agreement(self, target: str | None) -> Agreed | None:
        """Between samples; None where nothing was answered twice."""
        things: defaultdict[tuple[str, str], list[bool]] = defaultdict(list)
        for row in self.rows:
            if target in {None, row.target} and row.passed is not None:
                things[row.target, row.scenario].append(row.passed)
        twice = [answers for answers in things.values() if len(answers) > 1]
        if not twice:
            return None
        alike = [_alike(answers) for answers in twice]
        percent = sum(alike) / len(alike)
        share = sum(sum(answers) / len(answers) for answers in twice) / len(twice)
        chance = 2 * share * (1 - share)
        return Agreed(
            things=len(twice),
            divided=sum(len(set(answers)) > 1 for answers in twice),
            percent=percent,
            ac1=(percent - chance) / (1 - chance),
            alpha=_alpha(twice),
        )

    def places(self, track: str) -> dict[str, tuple[int, int, int]]:
        """Best and worst rank and of how many, from the marked pairs."""
        scored = [t for t in self.targets if self.rate(self.of(target=t, track=track))[1]]
        if len(scored) < 2:
            return {}
        sure = {key: one for key, one in self.pairs.items() if key[0] == track and one.marked}
        above: Counter[str] = Counter()
        below: Counter[str] = Counter()
        for (_, first, second), one in sure.items():
            higher, lower = (first, second) if one.estimate > 0 else (second, first)
            above[lower] += 1
            below[higher] += 1
        return {t: (1 + above[t], len(scored) - below[t], len(scored)) for t in scored}

    def effective(self, rows: Iterable[Row]) -> float:
        """Independent rows that these are worth."""
        cells: defaultdict[str, Clusters] = defaultdict(dict)
        for row in rows:
            if row.passed is not None:
                cells[row.metric].setdefault(row.base, []).append(float(row.passed))
        return _effective(cells, self.likeness)

    @property
    def likeness(self) -> float | None:
        """Of rows of one base scenario, pooled over metrics and targets."""
        cells: defaultdict[tuple[str, str], Clusters] = defaultdict(dict)
        for row in self.rows:
            if row.passed is not None:
                cells[row.target, row.metric].setdefault(row.base, []).append(float(row.passed))
        return _likeness([list(cell.values()) for cell in cells.values()])


Clusters = dict[str, list[float]]
"""Values by base scenario."""
Sides = dict[str, list[tuple[float, float]]]
"""Values of two targets by base scenario."""
_Value = TypeVar("_Value")


# From the files


def counted(
    benchmark: Path, targets: Sequence[str], samples: int, told: Mapping[Any, float | None]
) -> Counted:
    """`benchmark` is its folder, `targets` those of the configuration. `told` has the p value of
    each gap as it is said: of what is fitted, only the estimate is counted anew."""
    definition = (benchmark / "benchmark.yaml").read_text("utf-8")
    found = re.findall(r"- id: (\S+)\n(?:    .*\n)*?    type: (\w+)", definition)
    metrics = dict(found)
    scenarios = _json(benchmark / "scenarios.json")
    rows = [
        row
        for target in targets
        for row in _of_target(benchmark / "runs" / target, target, scenarios, metrics, samples)
    ]
    result = Counted(benchmark.name, targets, metrics, rows)
    _compare(result, told)
    return result


def _json(path: Path) -> Any:
    return json.loads(path.read_text("utf-8")) if path.exists() else []


def _of_target(
    folder: Path,
    target: str,
    scenarios: Sequence[dict[str, Any]],
    metrics: Mapping[str, str],
    samples: int,
) -> Iterable[Row]:
    talks = {(one["id"], one["sample"]): one for one in _json(folder / "conversations.json")}
    scores = {(one["id"], one["sample"]): one for one in _json(folder / "scores.json")}
    for scenario in scenarios:
        for sample in range(samples):
            key = scenario["id"], sample
            score = scores.get(key, {})
            metric = scenario["metric_id"]
            yield Row(
                target=target,
                metric=metric,
                track=metrics[metric],
                base=scenario["id"].rpartition("_v")[0],
                scenario=scenario["id"],
                sample=sample,
                people=scenario["demographic"],
                passed=score.get("passed"),
                exposed=_exposed(talks[key], scenario) if key in talks else None,
            )


def _exposed(talk: dict[str, Any], scenario: dict[str, Any]) -> tuple[bool, int, int, int, int]:
    turns = sum(one["role"] == "user" for one in talk["transcript"])
    marks = [one["turn"] for one in scenario["landmarks"]]
    reached = sum(turn <= turns for turn in marks)
    why = talk["_crosswind"]["stop_reason"]
    early = why in {"user_ended", "context_full"} or (why == "unknown" and reached < len(marks))
    withheld = sum(
        one["finish"].get("assistant") in {"content_filter", "refusal"}
        for one in talk["_crosswind"]["turns"]
    )
    return early, len(marks), reached, turns, withheld


# Agreement


def _alike(answers: Sequence[bool]) -> float:
    pairs = list(combinations(answers, 2))
    return sum(a is b for a, b in pairs) / len(pairs)


def _alpha(things: Sequence[Sequence[bool]]) -> float | None:
    """Krippendorff's, nominal, from the coincidence matrix."""
    coincide: Counter[tuple[bool, bool]] = Counter()
    for answers in things:
        for place, one in enumerate(answers):
            for other in (*answers[:place], *answers[place + 1 :]):
                coincide[one, other] += 1 / (len(answers) - 1)  # type: ignore[assignment]
    passed = coincide[True, True] + coincide[True, False]
    failed = coincide[False, False] + coincide[False, True]
    if not passed or not failed:
        return None
    count = passed + failed
    return 1 - (count - 1) * 2 * coincide[True, False] / (2 * passed * failed)


# Pairs and gaps


def _compare(found: Counted, told: Mapping[Any, float | None]) -> None:
    ordered = list(found.targets)
    answers = {target: _scenario_rates(found.of(target=target)) for target in ordered}
    strata: dict[tuple[str | None, str, str], dict[str, Sides]] = {}
    talks: Counter[tuple[Any, ...]] = Counter()
    for first, second in combinations(ordered, 2):
        for track in (None, *TRACKS):
            cells: defaultdict[str, Sides] = defaultdict(dict)
            for key, (row, rate, count) in answers[first].items():
                if key in answers[second] and track in {None, row.track}:
                    _, other, others = answers[second][key]
                    cells[row.metric].setdefault(row.base, []).append((rate, other))
                    talks[track, first, second] += count + others
            if cells:
                strata[track, first, second] = cells
    if any(not any(key[0] == track for key in strata) for track in TRACKS):
        strata = {key: cells for key, cells in strata.items() if key[0] is not None}
    pairs = {
        key: replace(one, rows=talks[key])
        for track in (None, *TRACKS)
        for key, one in _pair_differences(
            {key: cells for key, cells in strata.items() if key[0] == track}
        ).items()
    }
    widest = next(iter(key[0] for key in strata), None)
    found.crossed = _is_crossed(found.rows)
    gaps = _gaps(found) if found.crossed else _fitted(found)
    parts: dict[str, list[tuple[Any, ...]]] = {
        "pairs": [key for key in pairs if key[0] is widest],
        "pairs on a track": [key for key in pairs if key[0] is not widest],
        "gaps": [key for key in gaps if key[3] is None],
        "gaps of targets": [key for key in gaps if key[3] is not None],
    }
    fitted = {key: replace(gap, p=told[key]) for key, gap in gaps.items() if gap.freedom < 0}
    every: dict[tuple[Any, ...], Difference] = {**pairs, **gaps, **fitted}
    known = {
        part: [key for key in keys if every[key].p is not None] for part, keys in parts.items()
    }
    found.family = Counter({part: len(keys) for part, keys in known.items() if keys})
    total = sum(_SHARES[part] for part in found.family)
    weights = {
        key: _SHARES[part] / total / len(keys) for part, keys in known.items() for key in keys
    }
    _step_down(every, weights)
    found.pairs = {pair: every[pair] for pair in pairs}
    found.gaps = {gap: every[gap] for gap in gaps}


def _step_down(every: dict[tuple[Any, ...], Difference], weights: Mapping[Any, float]) -> None:
    """Holm's procedure: each is tested at its weight's share of what is left of 5%."""
    left, going = 1.0, True
    waiting = sorted(weights, key=lambda key: (every[key].p or 0.0) / weights[key])
    for place, key in enumerate(waiting):
        if going:
            left = sum(weights[other] for other in waiting[place:])
        level = 0.05 * weights[key] / left
        going = going and (every[key].p or 0.0) <= level
        every[key] = _within(every[key], level)


def _within(one: Difference, level: float) -> Difference:
    if one.error is None:
        return one
    half = float(stats.t.ppf(1 - level / 2, one.freedom)) * one.error
    low, high = max(-1.0, one.estimate - half), min(1.0, one.estimate + half)
    return replace(one, low=low, high=high)


def _scenario_rates(rows: Iterable[Row]) -> dict[str, tuple[Row, float, int]]:
    """By scenario one of its rows, the rate over its samples, and how many are scored."""
    found: defaultdict[str, list[Row]] = defaultdict(list)
    for row in rows:
        if row.passed is not None:
            found[row.scenario].append(row)
    return {
        key: (each[0], sum(bool(one.passed) for one in each) / len(each), len(each))
        for key, each in found.items()
    }


def _is_crossed(rows: Iterable[Row]) -> bool:
    people: defaultdict[tuple[str, str, str], set[tuple[tuple[str, str], ...]]] = defaultdict(set)
    for row in rows:
        people[row.target, row.metric, row.base].add(tuple(sorted(row.people.items())))
    for groups in people.values():
        size = 1
        values: defaultdict[str, set[str]] = defaultdict(set)
        for group in groups:
            for axis, value in group:
                values[axis].add(value)
        for each in values.values():
            size *= len(each)
        if len(groups) != size:
            return False
    return True


def _gaps(found: Counted) -> dict[tuple[str, str, str, str | None], Difference]:
    """Within base scenarios, of two variants that differ on one axis alone."""
    cells: dict[tuple[str, str, str, str | None], defaultdict[str, Clusters]] = {}
    talks: Counter[tuple[Any, ...]] = Counter()
    whose: list[str | None] = [None] if len(found.targets) > 1 else []
    for who in (*whose, *found.targets):
        targets = found.targets if who is None else [who]
        for target in targets:
            rates = list(_scenario_rates(found.of(target=target)).values())
            for (one, rate, count), (other, another, others) in combinations(rates, 2):
                if (one.metric, one.base) != (other.metric, other.base):
                    continue
                axes = [axis for axis in one.people if one.people[axis] != other.people.get(axis)]
                if len(axes) != 1:
                    continue
                axis = axes[0]
                left, right = sorted((one.people[axis], other.people[axis]))
                sign = 1 if one.people[axis] == left else -1
                key = axis, left, right, who
                into = cells.setdefault(key, defaultdict(dict))[one.metric]
                into.setdefault(one.base, []).append(sign * (rate - another))
                talks[key] += count + others
    return {
        key: replace(_mean_difference(each), rows=talks[key])
        for key, each in sorted(cells.items(), key=lambda item: (item[0][3] is not None, item[0]))
    }


def _fitted(found: Counted) -> dict[tuple[str, str, str, str | None], Difference]:
    """By least squares with an effect of each base scenario with each target, and the other axes
    taken out of the one in question (R. Frisch and F. V. Waugh, Econometrica 1 (1933) 387-401)."""
    every: dict[tuple[str, str, str, str | None], Difference] = {}
    whose: list[str | None] = [None] if len(found.targets) > 1 else []
    for who in (*whose, *found.targets):
        rates = [
            one
            for target in (found.targets if who is None else [who])
            for one in _scenario_rates(found.of(target=target)).values()
        ]
        axes = sorted({axis for row, _, _ in rates for axis in row.people})
        effects = {(row.target, row.metric, row.base) for row, _, _ in rates}
        place = {effect: number for number, effect in enumerate(sorted(effects))}
        groups = np.array([place[row.target, row.metric, row.base] for row, _, _ in rates])
        values = _centred(np.array([rate for _, rate, _ in rates]), groups)
        for axis in axes:
            left, right = sorted({row.people[axis] for row, _, _ in rates})
            columns = {
                each: _centred(
                    np.array(
                        [
                            float(row.people[each] == min(_values(found, each)))
                            for row, _, _ in rates
                        ]
                    ),
                    groups,
                )
                for each in axes
            }
            own = columns.pop(axis)
            others = np.array(list(columns.values())).T.reshape(len(rates), -1)
            own = own - others @ np.linalg.lstsq(others, own, rcond=None)[0]
            if own @ own < 1e-6:
                continue
            told: Counter[tuple[str, str]] = Counter()
            talks: Counter[tuple[str, str]] = Counter()
            for (row, _, count), x in zip(rates, own, strict=True):
                told[row.metric, row.base] += 2 * x * x
                talks[row.metric, row.base] += count
            kept = [base for base, weight in told.items() if weight > 1e-9]
            every[axis, left, right, who] = Difference(
                float(own @ values / (own @ own)), None, -1, sum(talks[b] for b in kept), len(kept)
            )
    return every


def _values(found: Counted, axis: str) -> set[str]:
    return {row.people[axis] for row in found.rows}


def _centred(values: Array, groups: Array) -> Array:
    means = np.bincount(groups, weights=values) / np.bincount(groups)
    return values - means[groups]


# Formulas: engine/statistics names their sources


def _put_together(cells: Mapping[str, dict[str, list[_Value]]]) -> list[list[list[_Value]]]:
    """Metrics of one base scenario become one stratum, a lone one joins the smallest other."""
    several = [list(cell.values()) for cell in cells.values() if len(cell) > 1]
    single = [values for each in cells.values() if len(each) == 1 for values in each.values()]
    if len(single) > 1 or (single and not several):
        several.append(single)
    elif single:
        smallest = min(range(len(several)), key=lambda place: len(several[place]))
        several[smallest] = [*several[smallest], *single]
    return several


def _likeness(cells: Sequence[Sequence[Sequence[float]]]) -> float | None:
    """The ANOVA estimator of the intra-class correlation."""
    between = within = size_sum = 0.0
    between_freedom = within_freedom = 0
    for clusters in cells:
        values = [value for cluster in clusters for value in cluster]
        if not values:
            continue
        mean = sum(values) / len(values)
        means = [sum(cluster) / len(cluster) for cluster in clusters]
        sizes = [len(cluster) for cluster in clusters]
        between += sum(n * (m - mean) ** 2 for n, m in zip(sizes, means, strict=True))
        within += sum((v - m) ** 2 for c, m in zip(clusters, means, strict=True) for v in c)
        between_freedom += len(clusters) - 1
        within_freedom += len(values) - len(clusters)
        size_sum += len(values) - sum(n * n for n in sizes) / len(values)
    if not between_freedom or not within_freedom:
        return None
    one, other = between / between_freedom, within / within_freedom
    spread = one + (size_sum / between_freedom - 1) * other
    return None if spread < 1e-12 else max(0.0, (one - other) / spread)


def _deff(sizes: Sequence[int], likeness: float) -> float:
    return 1 + (sum(n * n for n in sizes) / sum(sizes) - 1) * likeness


@dataclass(frozen=True)
class _Spread:
    """What the error of a mean difference is put together from."""

    mean: float
    rows: int
    bases: int
    effective: float
    """Base scenarios."""
    own: float
    own_freedom: float
    expected: float
    expected_freedom: float
    least: float


def _spread(strata: Sequence[Sequence[Sequence[float]]]) -> _Spread | None:
    """None for a single base scenario."""
    sizes = [[len(cluster) for cluster in stratum] for stratum in strata]
    every = [size for each in sizes for size in each]
    if not any(len(each) > 1 for each in sizes):
        return None
    values = np.array([value for stratum in strata for each in stratum for value in each])
    count, mean = len(values), float(values.mean())
    worth = [sum(each) ** 2 / sum(size**2 for size in each) for each in sizes]
    variances = []
    for stratum in strata:
        totals = np.array([sum(cluster) for cluster in stratum])
        rows = np.array([len(cluster) for cluster in stratum])
        few = len(stratum)
        drawn = (few * totals.sum() / rows.sum() + 2 * mean) / (few + 2)
        # the jackknife's: leaving one out, of the rest
        left_out = (totals - drawn * rows) / (rows.sum() - rows) * rows.sum()
        variances.append((few - 1) / few * float((left_out**2).sum()))
    total, freedom = sum(variances), sum(worth) - len(worth)
    if total > 0:
        parts = sum((v / total) ** 2 / (g + 1) for v, g in zip(variances, worth, strict=True))
        freedom = min(freedom, max(0.5, 1 / parts - 2))
    seen = _likeness(strata)
    likeness = 1.0 if seen is None else seen
    about = float((values**2).sum()) - 0.4 * count * mean**2
    return _Spread(
        mean=mean,
        rows=count,
        bases=len(every),
        effective=sum(worth),
        own=total / count**2,
        own_freedom=freedom,
        expected=(about + 0.33) / (count + 0.33) / count * _deff(every, likeness),
        expected_freedom=6 / _deff(every, 0.1),
        least=0.5 / (count / _deff(every, likeness)) ** 2,
    )


def _difference(
    mean: float, spread: _Spread, more: float, weight: float, hidden: float
) -> Difference:
    """`more` is a variance that the pairs share, of so much weight."""
    freedom = spread.own_freedom + spread.expected_freedom + weight
    summed = spread.own_freedom * spread.own + spread.expected_freedom * spread.expected
    error = sqrt(max((summed + weight * more) / freedom, spread.least) + hidden)
    whole = max(1, floor(freedom + 1e-9))
    p = float(2 * stats.t.sf(abs(mean) / error, whole))
    return Difference(mean, error, whole, spread.rows, spread.bases, p=p)


def _lone(strata: Sequence[Sequence[Sequence[float]]]) -> Difference:
    values = [value for stratum in strata for cluster in stratum for value in cluster]
    bases = sum(map(len, strata))
    return Difference(sum(values) / len(values), None, 0, len(values), bases)


def _mean_difference(cells: Mapping[str, Clusters]) -> Difference:
    strata = _put_together(cells)
    spread = _spread(strata)
    return _lone(strata) if spread is None else _difference(spread.mean, spread, 0.0, 0.0, 0.0)


def _pair_differences(of: Mapping[Any, Mapping[str, Sides]]) -> dict[Any, Difference]:
    """Of all pairs of targets on the same metrics."""
    sides = {key: _put_together(cells) for key, cells in of.items()}
    apart = {
        key: [[[one - other for one, other in base] for base in stratum] for stratum in strata]
        for key, strata in sides.items()
    }
    known = {key: one for key, strata in apart.items() if (one := _spread(strata)) is not None}
    targets = {target for key in known for target in key[1:]}
    rates, binomials = {}, {}
    for key, spread in known.items():
        rates[key] = _mean_of_sides([base for stratum in sides[key] for base in stratum])
        binomials[key] = 0.0
        for stratum in sides[key]:
            sizes = [len(base) for base in stratum]
            worth = sum(sizes) ** 2 / sum(size**2 for size in sizes)
            drawn = (worth * _mean_of_sides(stratum) + rates[key]) / (worth + 1)
            binomials[key] += 2 * sum(sizes) * drawn * (1 - drawn) / spread.rows**2
    over = sum(one.own for one in known.values()) / (sum(binomials.values()) or 1)
    found = {}
    for key, strata in apart.items():
        spread_here = known.get(key)
        if spread_here is None:
            found[key] = _lone(strata)
            continue
        weight = min(40, (len(targets) - 2) * spread_here.own_freedom)
        hidden = 2 * ((rates[key] - 0.5) / spread_here.effective) ** 2
        more = over * binomials[key]
        found[key] = _difference(spread_here.mean, spread_here, more, weight, hidden)
    return found


def _mean_of_sides(bases: Sequence[Sequence[tuple[float, float]]]) -> float:
    values = [value for base in bases for both in base for value in both]
    return sum(values) / len(values)


def _effective(cells: Mapping[str, Clusters], likeness: float | None) -> float:
    strata = _put_together(cells)
    clusters = [values for stratum in strata for values in stratum]
    count = sum(map(len, clusters))
    if not count:
        return 0.0
    rate = sum(map(sum, clusters)) / count
    sizes = [[len(cluster) for cluster in stratum] for stratum in strata]
    effective = sum(sum(each) ** 2 / sum(size**2 for size in each) for each in sizes)
    freedom = effective - len(strata)
    known = 0.0 if likeness is None else freedom
    alike = (known * (likeness or 0.0) + 4 * 0.3) / (known + 4)
    worth = _expected_worth(strata, rate, alike)
    if not any(len(each) > 1 for each in sizes) or not 0 < rate < 1:
        return worth
    variance = 0.0
    for stratum in strata:
        own = sum(map(sum, stratum)) / sum(map(len, stratum))
        spread = sum((sum(values) - own * len(values)) ** 2 for values in stratum)
        variance += len(stratum) / (len(stratum) - 1) * spread
    variance /= count**2
    weight = 4 * len(strata)
    moderated = (freedom * variance + weight * rate * (1 - rate) / worth) / (freedom + weight)
    astray = 0.08 * ((rate - 0.5) / effective) ** 2
    worth = rate * (1 - rate) / (max(moderated, variance) + astray)
    return min(worth, _expected_worth(strata, rate, 0.0))


def _expected_worth(
    strata: Sequence[Sequence[Sequence[float]]], rate: float, alike: float
) -> float:
    """Effective rows of strata whose clusters are as alike as that."""
    clusters = [values for stratum in strata for values in stratum]
    count = sum(map(len, clusters))
    worth = count / _deff([len(cluster) for cluster in clusters], alike)
    if not 0 < rate < 1:
        return worth
    left = 0.0
    for stratum in strata:
        rows = sum(map(len, stratum))
        of = rows / _deff([len(one) for one in stratum], alike)
        drawn = (of * sum(map(sum, stratum)) / rows + rate) / (of + 1)
        left += rows / count * drawn * (1 - drawn)
    return worth / min(1.0, left / (rate * (1 - rate)))
