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
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from tests.late import stats

TRACKS: Final = ("positive", "negative")
_SHARES: Final = {"pairs": 0.4, "pairs on a track": 0.3, "gaps": 0.15, "gaps of targets": 0.15}
_FREEDOM: Final = 6
_FAR: Final = 2
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


# From the files


def counted(benchmark: Path, targets: Sequence[str], samples: int) -> Counted:
    """`benchmark` is its folder, `targets` those of the configuration."""
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
    _compare(result)
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


def _compare(found: Counted) -> None:
    ordered = list(found.targets)
    answers = {target: _scenario_rates(found.of(target=target)) for target in ordered}
    strata: dict[tuple[str | None, str, str], dict[str, Clusters]] = {}
    talks: Counter[tuple[Any, ...]] = Counter()
    for first, second in combinations(ordered, 2):
        for track in (None, *TRACKS):
            cells: defaultdict[str, Clusters] = defaultdict(dict)
            for key, (row, rate, count) in answers[first].items():
                if key in answers[second] and track in {None, row.track}:
                    _, other, others = answers[second][key]
                    cells[row.metric].setdefault(row.base, []).append(rate - other)
                    talks[track, first, second] += count + others
            if cells:
                strata[track, first, second] = cells
    if any(not any(key[0] == track for key in strata) for track in TRACKS):
        strata = {key: cells for key, cells in strata.items() if key[0] is not None}
    pairs = {
        key: replace(_mean_difference(cells), rows=talks[key]) for key, cells in strata.items()
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
    every: dict[tuple[Any, ...], Difference] = {**pairs, **gaps}
    told = {part: [key for key in keys if _tells(every[key])] for part, keys in parts.items()}
    found.family = Counter({part: len(keys) for part, keys in told.items() if keys})
    total = sum(_SHARES[part] for part in found.family)
    for part, keys in told.items():
        for one in keys:
            every[one] = _within(every[one], 0.05 * _SHARES[part] / total / len(keys))
    found.pairs = {pair: every[pair] for pair in pairs}
    found.gaps = {gap: every[gap] for gap in gaps}


def _tells(one: Difference) -> bool:
    """Whether there is an interval; of what is fitted only the estimate is counted anew."""
    return one.error is not None or one.freedom < 0


def _within(one: Difference, level: float) -> Difference:
    if one.error is None:
        return one
    half = float(stats.t.ppf(1 - level / 2, one.freedom + _FAR)) * one.error
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


def _put_together(cells: Mapping[str, Clusters]) -> list[list[list[float]]]:
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


def _mean_difference(cells: Mapping[str, Clusters]) -> Difference:
    strata = _put_together(cells)
    clusters = [values for stratum in strata for values in stratum]
    values = [value for cluster in clusters for value in cluster]
    count, mean = len(values), sum(values) / len(values)
    freedoms = [len(stratum) - 1 for stratum in strata]
    if not sum(freedoms):
        return Difference(mean, None, 0, count, len(clusters))
    variances = []
    for stratum in strata:
        size = len(stratum)
        own = sum(map(sum, stratum)) / sum(map(len, stratum))
        drawn = (size * own + 2 * mean) / (size + 2)
        spread = sum((sum(values) - drawn * len(values)) ** 2 for values in stratum)
        variances.append(size / (size - 1) * spread)
    total, freedom = sum(variances), sum(freedoms)
    if total > 0:
        parts = sum((v / total) ** 2 / (f + 2) for v, f in zip(variances, freedoms, strict=True))
        freedom = max(1, min(freedom, floor(1 / parts - 2 + 1e-9)))
    seen = _likeness(strata)
    likeness = 1.0 if seen is None else seen
    sizes = [len(cluster) for cluster in clusters]
    about = sum(value**2 for value in values) - 0.4 * count * mean**2
    expected = (about + 0.33) / (count + 0.33) / count * _deff(sizes, likeness / 2)
    moderated = (freedom * total / count**2 + _FREEDOM * expected) / (freedom + _FREEDOM)
    floor_of_error = 0.5 / (count / _deff(sizes, likeness)) ** 2
    error = sqrt(max(moderated, floor_of_error))
    return Difference(mean, error, freedom, count, len(clusters))


def _effective(cells: Mapping[str, Clusters], likeness: float | None) -> float:
    strata = _put_together(cells)
    clusters = [values for stratum in strata for values in stratum]
    count = sum(map(len, clusters))
    if not count:
        return 0.0
    rate = sum(map(sum, clusters)) / count
    alike = 1.0 if likeness is None else likeness
    worth = _expected_worth(strata, rate, alike)
    freedom = sum(len(stratum) - 1 for stratum in strata)
    if not freedom or not 0 < rate < 1:
        return worth
    variance = 0.0
    for stratum in strata:
        own = sum(map(sum, stratum)) / sum(map(len, stratum))
        spread = sum((sum(values) - own * len(values)) ** 2 for values in stratum)
        variance += len(stratum) / (len(stratum) - 1) * spread
    variance /= count**2
    weight = 4 * len(strata)
    moderated = (freedom * variance + weight * rate * (1 - rate) / worth) / (freedom + weight)
    astray = 0.25 * ((rate - 0.5) / len(clusters)) ** 2
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
