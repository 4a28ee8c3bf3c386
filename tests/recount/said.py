"""Holds what the program says of a benchmark against a recount: the data of `results --json`, and
every number in every sentence. A sentence that is not understood is a contradiction too."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from tests.recount.count import TRACKS, Counted, Difference, Row

_CLOSE: Final = 2e-6
_NAME: Final = r"([\w.@-]+)"
_POINTS: Final = r"(less than a point|\d+ points?)"
_ENDS: Final = r"\[(−?[\d.]+(?:e-\d+)?) to (−?[\d.]+(?:e-\d+)?)\]"


def contradictions(found: Counted, rows: Sequence[Mapping[str, Any]]) -> list[str]:
    """Of `results --json`, one benchmark's rows."""
    held = _Held(found)
    held.same("targets", {row["target_model"] for row in rows}, set(found.targets))
    for row in rows:
        held.row(row)
    return held.faults


@dataclass
class _Held:
    found: Counted
    faults: list[str] = field(default_factory=list)

    def same(self, what: str, said: Any, true: Any) -> None:
        if isinstance(said, float) and isinstance(true, int | float):
            if abs(said - true) <= _CLOSE:
                return
        elif said == true:
            return
        self.faults.append(f"{self.found.name}, {what}: {said!r} is said, {true!r} is so")

    def row(self, row: Mapping[str, Any]) -> None:
        target = row["target_model"]
        own = self.found.of(target=target)
        for track in TRACKS:
            of_track = [one for one in own if one.track == track]
            self._rate(f"{target} {track}", row[f"{track}_pass_rate"], of_track)
            self.same(f"{target} n {track}", row[f"n_{track}"], self.found.rate(of_track)[1])
            self._interval(f"{target} {track}", row["intervals"][f"{track}_pass_rate"], of_track)
        self.same(f"{target} n", row["n_total"], self.found.rate(own)[1])
        self._cells(target, "metric", row["by_metric"], own, lambda one: one.metric)
        self._cells(target, "scenario", row["by_scenario"], own, lambda one: one.scenario)
        self._cells(target, "base", row["by_base_scenario"], own, lambda one: one.base)
        self._cells(target, "sample", row["by_sample"], own, lambda one: str(one.sample))
        for metric, cell in row["intervals"]["by_metric"].items():
            of = [one for one in own if one.metric == metric]
            self._interval(f"{target} {metric}", cell, of)
        for axis, cells in row["by_demographic"].items():
            self._people(target, axis, cells, own)
        self._scored(target, row["scored"], own)
        self._exposure(target, row["exposure"])
        self._agreement(target, row["agreement"]["samples"])
        self.same(f"{target} stale", row["stale"]["stale"], 0)
        for pair in row["comparisons"]["targets"]:
            self._pair(target, pair)
        for gap in row["comparisons"]["demographics"]:
            self._gap(gap, target)
        for gap in row["comparisons"]["demographics_of_all_targets"]:
            self._gap(gap, None)
        own_gaps = sum(key[3] == target for key in self.found.gaps)
        said = len(row["comparisons"]["demographics"])
        self.same(f"{target} gaps", said, own_gaps)
        own_pairs = sum(target in key[1:] for key in self.found.pairs)
        self.same(f"{target} pairs", len(row["comparisons"]["targets"]), own_pairs)
        family = row["comparisons"]["family"]
        self.same("family", family["comparisons"], self.found.family.total())
        ranks = {
            track: list(places[target][:2])
            for track in TRACKS
            if target in (places := self.found.places(track))
        }
        self.same(f"{target} ranks", row["intervals"]["ranks"], ranks)

    def _rate(self, what: str, said: float | None, rows: Sequence[Row]) -> None:
        passed, scored, _, _ = self.found.rate(rows)
        self.same(f"{what} rate", said, passed / scored if scored else None)

    def _interval(self, what: str, said: Mapping[str, Any] | None, rows: Sequence[Row]) -> None:
        passed, scored, _, bases = self.found.rate(rows)
        if said is None:
            self.same(f"{what} scored", 0, scored)
            return
        self.same(f"{what} n", said["n"], scored)
        self.same(f"{what} base scenarios", said["base_scenarios"], bases)
        effective = self.found.effective(rows)
        if abs(said["n_effective"] - effective) > 1e-3 * max(1, effective):
            self.same(f"{what} effective rows", said["n_effective"], effective)
        if not said["low"] <= passed / scored <= said["high"]:
            self.faults.append(f"{what}: the interval does not hold its own rate")

    def _cells(
        self,
        target: str,
        kind: str,
        cells: Mapping[str, Any],
        rows: Sequence[Row],
        key: Callable[[Row], str],
    ) -> None:
        true: dict[str, list[Row]] = {}
        for row in rows:
            true.setdefault(key(row), []).append(row)
        scored = {name: each for name, each in true.items() if self.found.rate(each)[1]}
        self.same(f"{target} by {kind}", set(cells), set(scored))
        for name, cell in cells.items():
            passed, count, _, _ = self.found.rate(true.get(name, []))
            said = cell["n_passed"], cell["n_total"]
            self.same(f"{target} {kind} {name}", said, (passed, count))
            self._rate(f"{target} {kind} {name}", cell["pass_rate"], true.get(name, []))

    def _people(
        self, target: str, axis: str, cells: Mapping[str, Any], rows: Sequence[Row]
    ) -> None:
        for value, cell in cells.items():
            of = [row for row in rows if row.people.get(axis) == value]
            self._rate(f"{target} {axis} {value}", cell["pass_rate"], of)
            self.same(f"{target} {axis} {value} n", cell["n_total"], self.found.rate(of)[1])

    def _scored(self, target: str, said: Mapping[str, Any], rows: Sequence[Row]) -> None:
        _, scored, of, _ = self.found.rate(rows)
        self.same(f"{target} scored", (said["scored"], said["of"]), (scored, of))
        self.same(f"{target} unscored", sum(said["unscored"].values()), of - scored)
        for track in TRACKS:
            passed, count, asked, _ = self.found.rate([o for o in rows if o.track == track])
            if asked:
                low, high = said["bounds"][f"{track}_pass_rate"]
                self.same(f"{target} {track} if all failed", low, passed / asked)
                self.same(f"{target} {track} if passed", high, (passed + asked - count) / asked)

    def _exposure(self, target: str, said: Mapping[str, int]) -> None:
        names = (
            *("conversations", "early", "planned", "reached", "with_landmarks", "reached_last"),
            *("turns", "withheld"),
        )
        true = dict(zip(names, self.found.exposure(target), strict=True))
        self.same(f"{target} exposure", dict(said), true)

    def _agreement(self, target: str, said: Mapping[str, Any] | None) -> None:
        true = self.found.agreement(target)
        if said is None or true is None:
            self.same(f"{target} agreement", said is None, true is None)
            return
        self.same(f"{target} things", said["things"], true.things)
        self.same(f"{target} percent", said["percent"]["value"], true.percent)
        unanimous = said["unanimous"]["value"]
        self.same(f"{target} unanimous", unanimous, 1 - true.divided / true.things)
        if said["gwet_ac1"] is not None:
            self.same(f"{target} AC1", said["gwet_ac1"]["value"], true.ac1)
        alpha = said["krippendorff_alpha"]
        self.same(f"{target} alpha", None if alpha is None else alpha["value"], true.alpha)

    def _pair(self, target: str, said: Mapping[str, Any]) -> None:
        track = None if said["track"] == "all" else said["track"]
        what = f"{target} against {said['with']} on {said['track']}"
        true = of_pair(self.found, track, target, said["with"])
        if true is None:
            self.faults.append(f"{what} is said and cannot be counted")
            return
        self._difference(what, said, true)
        self.same(f"{what} rows", said["n"], true.rows)

    def _gap(self, said: Mapping[str, Any], target: str | None) -> None:
        key = said["axis"], said["value"], said["against"], target
        true = self.found.gaps.get(key)
        if true is None:
            self.faults.append(f"gap {key} is said and cannot be counted")
            return
        self._difference(f"gap {key}", said, true)
        self.same(f"gap {key} rows", said["rows"], true.rows)

    def _difference(self, what: str, said: Mapping[str, Any], true: Difference) -> None:
        self.same(what, said["difference"], true.estimate)
        self.same(f"{what} base scenarios", said["base_scenarios"], true.bases)
        known = said["low"] is not None
        if known:
            self.same(f"{what}, 0 outside", not said["low"] <= 0 <= said["high"], said["marked"])
            self.same(f"{what}, p", said["p_adjusted"] <= 0.05, said["marked"])
        if true.freedom < 0:  # fitted: the recount has no error of its own
            return
        self.same(f"{what} marked", said["marked"], true.marked)
        self.same(f"{what} low", said["low"], true.low)
        self.same(f"{what} high", said["high"], true.high)


def of_pair(found: Counted, track: str | None, first: str, second: str) -> Difference | None:
    """As seen from the first."""
    if one := found.pairs.get((track, first, second)):
        return one
    one = found.pairs.get((track, second, first))
    return None if one is None else turned(one)


def turned(one: Difference) -> Difference:
    low = None if one.high is None else -one.high
    high = None if one.low is None else -one.low
    return Difference(-one.estimate, one.error, one.freedom, one.rows, one.bases, low, high)


# Sentences


def sentences(text: str) -> list[str]:
    """What stands behind a mark in what `results` printed, lines put together again."""
    found: list[str] = []
    for line in text.splitlines():
        if line[:4] in {"  ✓ ", "  · ", "  ! "}:
            found.append(line[2:])
        elif found and not line.startswith("    "):
            break
        elif found:
            found[-1] += f" {line.strip()}"
    return found


def untrue(found: Counted, said: Sequence[str], marked: Mapping[Any, bool]) -> list[str]:
    """The sentences that a recount contradicts, or that it cannot read. `marked` says of what is
    fitted whether `results --json` marks it: the recount has only its estimate."""
    reader = _Reader(found, marked)
    return [one for one in said if not reader.holds(one)]


@dataclass
class _Reader:
    found: Counted
    marked: Mapping[Any, bool]

    def holds(self, sentence: str) -> bool:
        mark, text = sentence[0], sentence[2:]
        for pattern, check in self._rules():
            match = re.fullmatch(pattern, text)
            if match is not None:
                return check(mark, *match.groups())
        return False

    def _rules(self) -> Iterator[tuple[str, Callable[..., bool]]]:
        yield r"(?:may be chance: )?((?:[+−] )?\S+ [>=] .*)", self._differences
        yield r"on one track alone: (.*)", self._differences
        count = rf"{_COUNT} of {_COUNT} pairs of targets differ(.*)"
        yield count, self._counted
        yield r"(positive|negative): ranks among (\d+) targets: (.*)", self._ranks
        yield rf"(\w+): (.+) > (.+) by {_POINTS} {_ENDS}, (all targets|{_NAME})", self._gap
        yield r"(\d+) more demographic gaps?", self._more_gaps
        none = rf"(?:none of {_COUNT} comparisons is|{_COUNT} others not) significant(?:; .*)?"
        yield none, self._unmarked
        yield r"weakest: ([+−]) (.+), (\d+%): `crosswind show (\S+)`", self._weakest
        unknown = r"(.*): nobody has checked whether a target could have known the group; .*"
        yield unknown, self._unchecked
        yield r"(.*) rates rest on (?:as few as )?(\d+) base scenarios?: fewer than 8 .*", self._few
        share = rf"(\d+)% \({_NAME}\) to (\d+)% \({_NAME}\)"
        yield (
            rf"targets were not exposed equally: (?:conversations that ended early from {share})?"
            rf"(?:, )?(?:landmarks reached from {share})?; .*",
            self._exposed,
        )
        yield rf"reached the last landmark: 0 of {_COUNT} conversations? of .*", self._unreached
        silent = (
            r"(.*) do(?:es)? not separate the targets: every scored conversation (passes|fails)"
        )
        yield silent, self._silent
        yield (
            rf"{_NAME}: {_COUNT} of {_COUNT} unscored \((.*?)\)(?:; if they had all failed or all "
            r"passed: (.*))?",
            self._unscored,
        )
        unscored = rf"{_COUNT} of {_COUNT} conversations unscored, of (\d+) targets \((.*?)\)"
        yield unscored, self._unscored_of_many
        yield (
            rf"whether the user model did its part is not known for {_COUNT} conversations, .*",
            lambda _, count: _int(count) == self._played(),
        )
        yield (
            rf"{_COUNT} conversations count by the verdicts of unknown, which is not a judge of .*",
            lambda _, count: _int(count) == self.found.rate(self.found.rows)[1],
        )

    def _played(self) -> int:
        return sum(row.exposed is not None for row in self.found.rows)

    def _differences(self, mark: str, text: str) -> bool:
        """`a > b by 89 points [57 to 100] · > c by 42 [13 to 72]`, `+ a > b, > c · − 8 of 9 pairs`:
        on both tracks together, unless a sign says on which."""
        left, track = "", None
        for part in re.split(r" · |, ", text):
            if part[:2] in _SIGNS:
                track, part = _SIGNS[part[:2]], part[2:]
            if many := re.fullmatch(rf"{_COUNT} of {_COUNT} pairs", part):
                pairs = self._on(track)
                sure = sum(one.marked for _, one in pairs)
                if (mark, sure, len(pairs)) != ("✓", _int(many[1]), _int(many[2])) or sure <= 6:
                    return False
                continue
            said = re.fullmatch(_PAIR, part)
            if said is None:
                return False
            left = said[1] or left
            one = of_pair(self.found, track, left, said[3])
            if one is None or one.marked is not (mark == "✓"):
                return False
            if (one.estimate > 0, one.estimate >= 0) != (said[2] == ">", True):
                return False
            size = said[4] and (said[4], said[5], said[6])
            if size and size != (_points(one.estimate).split(" point")[0], *_ends(one)):
                return False
        return True

    def _on(self, track: str | None) -> list[tuple[tuple[str | None, str, str], Difference]]:
        return [(key, one) for key, one in self.found.pairs.items() if key[0] == track]

    def _counted(self, mark: str, count: str, of: str, rest: str) -> bool:
        pairs = self._on(None)
        sure = [(key, one) for key, one in pairs if one.marked]
        if (mark, _int(of), _int(count)) != ("✓", len(pairs), len(sure)) or len(sure) <= 6:
            return False
        behind = {key[2] if one.estimate > 0 else key[1] for key, one in sure}
        first = {name for key, _ in pairs for name in key[1:]} - behind
        if "no ✓ puts a target ahead of " in rest:
            names = set(re.split(r", | and ", rest.partition("no ✓ puts a target ahead of ")[2]))
            return names == first
        return len(first) > 6

    def _unmarked(self, mark: str, none: str | None, others: str | None) -> bool:
        """All that were compared but those that are marked, or named as what may be chance."""
        main = [one for _, one in self._on(None)]
        named = sum(not one.marked for one in main) if len(main) <= 6 else 0
        sure = sum(one.marked for one in self.found.pairs.values())
        sure += sum(map(self._is_marked, self.found.gaps))
        rest = self.found.family.total() - sure - named
        return (mark, _int(none or others or "0")) == ("·", rest) and bool(none) is (
            rest == named == 0
        )

    def _weakest(self, mark: str, sign: str, name: str, rate: str, shown: str) -> bool:
        rates = {}
        for metric in self.found.metrics:
            passed, scored, _, _ = self.found.rate(self.found.of(metric=metric))
            rates[metric] = passed / scored
        scenario, target, *sample = shown.split("__")
        number = int(sample[0][1:]) if sample else 0
        found = self.found.of(scenario=scenario, target=target, sample=number, passed=False)
        if not found:
            return False
        [row] = found
        own = rates[row.metric]
        return (mark, name, rate, own) == (
            "·",
            f"Behaviour {row.metric}",
            _percent(own),
            min(rates.values()),
        ) and _SIGNS[f"{sign} "] == row.track

    def _ranks(self, mark: str, track: str, of: str, said: str) -> bool:
        places = self.found.places(track)
        told = {
            name: place for name, place in places.items() if place[0] > 1 or place[1] < place[2]
        }
        listed, _, rest = said.partition("; ")
        listed, _, more = listed.partition(", and ")
        found = dict(each.rsplit(" ", 1) for each in listed.split(", "))
        true = {
            name: str(best) if best == worst else f"{best}–{worst}"
            for name, (best, worst, _) in told.items()
        }
        hidden = int(more.split()[0]) if more else 0
        left = int(rest.split()[0]) if rest else 0
        return (
            mark == "✓"
            and len(places) == int(of)
            and all(true.get(name) == place for name, place in found.items())
            and len(true) == len(found) + hidden
            and left == len(places) - len(true)
        )

    def _gap(
        self, mark: str, axis: str, more: str, less: str, by: str, low: str, high: str, *who: str
    ) -> bool:
        left, right = sorted((more, less))
        key = axis, left, right, None if who[0] == "all targets" else who[0]
        one = self.found.gaps.get(key)
        if one is None:
            return False
        if left != more:
            one = turned(one)
        return (
            mark == "✓"
            and self._is_marked(key)
            and one.estimate > 0
            and _points(one.estimate) == by
            and (one.low is None or _ends(one) == (low, high))
        )

    def _more_gaps(self, mark: str, count: str) -> bool:
        return (mark, int(count)) == ("✓", sum(map(self._is_marked, self.found.gaps)) - 6)

    def _is_marked(self, key: tuple[str, str, str, str | None]) -> bool:
        return self.marked[key] if self.found.gaps[key].freedom < 0 else self.found.gaps[key].marked

    def _unchecked(self, mark: str, axes: str) -> bool:
        """Of axes without a mark; nobody guesses the groups of what was imported."""
        sure = {key[0] for key in self.found.gaps if self._is_marked(key)}
        known = {key[0] for key in self.found.gaps}
        return mark == "!" and set(re.split(r", | and ", axes)) == known - sure

    def _few(self, mark: str, tracks: str, count: str) -> bool:
        least = [
            min(
                bases
                for target in self.found.targets
                if (bases := self.found.rate(self.found.of(target=target, track=track))[3])
            )
            for track in tracks.split(" and ")
        ]
        return mark == "!" and set(least) == {int(count)} and int(count) < 8

    def _exposed(self, mark: str, *said: str | None) -> bool:
        shares = {
            target: (early / count, reached / planned if planned else None)
            for target in self.found.targets
            for count, early, planned, reached, *_ in [self.found.exposure(target)]
            if count
        }
        for place, (low, least, high, most) in enumerate((said[:4], said[4:])):
            known = {name: each[place] for name, each in shares.items() if each[place] is not None}
            values = [each for each in known.values() if each is not None]
            apart = bool(values) and max(values) - min(values) >= 0.05
            if (low is not None) is not apart:
                return False
            if low is None or least is None or most is None or high is None:
                continue
            if known[least] != min(values) or known[most] != max(values):
                return False
            if (_percent(min(values)), _percent(max(values))) != (f"{low}%", f"{high}%"):
                return False
        return mark == "!"

    def _unreached(self, mark: str, count: str) -> bool:
        found = [self.found.exposure(target) for target in self.found.targets]
        of = sum(each[4] for each in found if each[4] and not each[5])
        return mark == "!" and of == _int(count)

    def _silent(self, mark: str, metrics: str, how: str) -> bool:
        for metric in re.split(r", | and ", metrics):
            passed, scored, _, _ = self.found.rate(self.found.of(metric=metric))
            if passed != (scored if how == "passes" else 0) or not scored:
                return False
        return mark == "!"

    def _unscored(
        self, mark: str, target: str, count: str, of: str, why: str, bounds: str | None
    ) -> bool:
        rows = self.found.of(target=target)
        _, scored, asked, _ = self.found.rate(rows)
        if (mark, _int(count), _int(of)) != ("!", asked - scored, asked):
            return False
        if sum(_int(each.rsplit(" ", 1)[1]) for each in why.split(", ")) != asked - scored:
            return False
        for each in (bounds or "").split(", ") if bounds else ():
            track, low, _, high = each.split()
            passed, known, wanted, _ = self.found.rate([o for o in rows if o.track == track])
            ends = _percent(passed / wanted), _percent((passed + wanted - known) / wanted)
            if ends != (low, high):
                return False
        return True

    def _unscored_of_many(self, mark: str, count: str, of: str, targets: str, why: str) -> bool:
        lacking = []
        for target in self.found.targets:
            _, scored, wanted, _ = self.found.rate(self.found.of(target=target))
            lacking.append((wanted - scored, wanted))
        total = sum(lacks for lacks, _ in lacking)
        true = total, sum(of for _, of in lacking), sum(lacks > 0 for lacks, _ in lacking)
        reasons = sum(_int(each.rsplit(" ", 1)[1]) for each in why.split(", "))
        return (mark, _int(count), _int(of), int(targets)) == ("!", *true) and reasons == total


_COUNT: Final = r"([\d,]+)"
_SIGNS: Final = {"+ ": "positive", "− ": "negative"}
_PAIR: Final = rf"(?:{_NAME} )?([>=]) {_NAME}(?: by (less than a|\d+)(?: points?)? {_ENDS})?"


def _int(text: str) -> int:
    return int(text.replace(",", ""))


def _points(rate: float) -> str:
    size = abs(rate) * 100
    if round(size) == 0:
        return "less than a point"
    return "1 point" if round(size) == 1 else f"{round(size)} points"


def _end(rate: float | None) -> str:
    """In points; what would be 0 by rounding has a first digit."""
    if rate is None:
        return ""
    size = abs(rate) * 100
    said = f"{size:.0f}" if size >= 0.5 or size == 0 else f"{max(size, 0.001):.1g}"
    return f"−{said}" if rate < 0 else said


def _ends(one: Difference) -> tuple[str, str]:
    return _end(one.low), _end(one.high)


def _percent(rate: float) -> str:
    if 0 < rate < 1:
        return f"{min(99, max(1, round(rate * 100)))}%"
    return f"{rate:.0%}"
