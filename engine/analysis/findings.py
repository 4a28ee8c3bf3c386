"""What an analysis says, in sentences: the significant differences, the others, the weakest metric,
the ranks, and cautions, each with how far it can be relied on. Terminal, app and pages print them;
about ten of them, the cautions in a line each, are the answer below the table."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import groupby
from typing import Final

from engine.analysis.comparability import GroupCheck, unchecked_axes
from engine.analysis.figures import (
    ENOUGH_SCENARIOS,
    PROMISE,
    Analysis,
    Comparison,
    MarkedDifference,
    Overall,
    RepeatAgreement,
    TargetResult,
)
from engine.analysis.number_words import (
    agreement_subject,
    coefficient,
    p_value_words,
    points,
    points_interval,
)
from engine.analysis.provenance import Staleness
from engine.benchmark import Track
from engine.checks import CheckKind, FaultKind, UserAuditMode
from engine.display import joined_names, percent, plural, span
from engine.statistics.paired import ERROR_RATE
from engine.statistics.ranks import RankRange
from engine.statistics.rates import ENOUGH_BENCHMARKS

FEW: Final = 6
"""The most pairs that are listed one by one; more of them are only counted."""
_RANKS: Final = 16
"""The most targets whose rank a sentence lists, the best first."""


class Certainty(StrEnum):
    """How far a sentence can be relied on."""

    SIGNIFICANT = "significant"
    """Has ✓, under the family's promise (`PROMISE`)."""
    OPEN = "open"
    """Seen, but chance may explain it."""
    CAUTION = "caution"
    """Something to know before the numbers are used."""


MARKS: Final = {Certainty.SIGNIFICANT: "✓", Certainty.OPEN: "·", Certainty.CAUTION: "!"}


@dataclass(frozen=True, slots=True)
class Finding:
    kind: Certainty
    text: str
    brief: str | None = None
    """In one line, for the answer: None where `text` is one, empty where only details have it."""

    def __str__(self) -> str:
        return f"{MARKS[self.kind]} {self.text}"


def findings(analysis: Analysis) -> list[Finding]:
    """All findings, in full."""
    compared = [*_main_pairs(analysis), *_other_marks(analysis), *_marked_gaps(analysis)]
    return [
        *sorted(compared, key=lambda finding: finding.kind is Certainty.OPEN),
        *_unmarked(analysis),
        *_weakest(analysis),
        *_ranks(analysis),
        *_cautions(analysis),
    ]


def answer(analysis: Analysis) -> list[Finding]:
    """The lines below the table; empty where nothing is scored."""
    if not any(target.scored for target in analysis.targets):
        return []
    in_a_line = (
        (one.kind, one.text if one.brief is None else one.brief) for one in findings(analysis)
    )
    return [Finding(kind, text) for kind, text in in_a_line if text]


def other_findings(analysis: Analysis) -> list[Finding]:
    """The findings that the answer does not say in the same words."""
    said = {line.text for line in answer(analysis)}
    return [finding for finding in findings(analysis) if finding.text not in said]


def size_words(analysis: Analysis) -> str:
    """`192 of 192 scored, 4 scenarios a track`: what the table rests on. The scenarios are left out
    where they differ from row to row."""
    scored = sum(target.scored for target in analysis.targets)
    of = sum(target.of for target in analysis.targets)
    words = f"{scored:,} of {of:,} scored"
    scenarios = same_scenarios(analysis)
    return words if scenarios is None else f"{words}, {plural(scenarios, 'scenario')} a track"


def same_scenarios(analysis: Analysis) -> int | None:
    """The base scenarios behind each rate; None where they differ."""
    counts = {
        estimate.base_scenarios
        for target in analysis.targets
        for estimate in (target.tracks[track] for track in analysis.tracks)
        if estimate.scored
    }
    return counts.pop() if len(counts) == 1 and not isinstance(analysis, Overall) else None


def rate_cell(analysis: Analysis, result: TargetResult, track: Track) -> str:
    """`+ 97% [58–100] 31/32`: the cell of a target on a track."""
    estimate = result.tracks[track]
    if estimate.rate is None:
        return f"{track.sign}    —"
    rate = f"{track.sign} {percent(estimate.rate):>4} {span(estimate.low, estimate.high):<8}"
    if estimate.benchmarks is not None:
        return f"{rate} {estimate.base_scenarios:,} in {estimate.benchmarks}"
    rests_on = "" if same_scenarios(analysis) else f" in {estimate.base_scenarios:,}"
    return f"{rate} {estimate.passed:,}/{estimate.scored:,}{rests_on}"


def legend(analyses: Sequence[Analysis], *columns: str) -> str:
    """What the signs of these results mean; `columns` are what else stands beside the rates."""
    parts = [
        "rate [95% interval] scenarios in benchmarks, the mean of the benchmarks' rates"
        if any(isinstance(analysis, Overall) for analysis in analyses)
        else "rate [95% interval] passed/scored"
    ]
    parts += columns
    if any(one.sure for analysis in analyses for one in (*_all_pairs(analysis), *analysis.gaps)):
        parts.append(PROMISE.replace("✓ significant", "✓"))
    return " · ".join(parts)


def _all_pairs(analysis: Analysis) -> list[Comparison]:
    return [pair for _, pairs in pairs_by_kind(analysis) for pair in pairs]


def marks_mean(analysis: Analysis) -> str:
    """What ✓ stands for, or that nothing has it, and among how many comparisons; shown wherever the
    marks are."""
    pairs = (pair for _, pairs in pairs_by_kind(analysis) for pair in pairs)
    is_any = any(difference.sure for difference in (*pairs, *analysis.gaps))
    return f"{PROMISE if is_any else 'Nothing is significant'}, among {analysis.family}."


def found_words(smallest: float | None) -> str:
    """How large differences between targets are found; the same before a run and after it."""
    if smallest is None:
        return "none is found 4 times out of 5: add scenarios"
    return f"{points(smallest)} or more are found 4 times out of 5"


def found_sentence(smallest: float | None) -> str:
    if smallest is None:
        return "no difference is found 4 times out of 5, however large: add scenarios"
    return f"differences between targets of {found_words(smallest)}"


def knows_what_is_found(analysis: Analysis) -> bool:
    """Whether it is known which differences between targets are found."""
    return analysis.family.pairs > 0 and not isinstance(analysis, Overall)


def metrics_of(track: Track | None) -> str:
    """`all metrics`, `positive metrics`: what targets are compared on."""
    return "all metrics" if track is None else f"{track} metrics"


def leaders(pairs: Sequence[Comparison]) -> str:
    """The targets that are not significantly behind any other; empty if there are many."""
    behind: set[str] = set()
    compared: list[str] = []
    for pair in pairs:
        compared += [pair.left, pair.right]
        if pair.sure:
            behind.add(pair.greater_first.right)
    first = [name for name in dict.fromkeys(compared) if name not in behind]
    return f"; no ✓ puts a target ahead of {joined_names(first)}" if 0 < len(first) <= FEW else ""


def pairs_by_kind(analysis: Analysis) -> list[tuple[str, Sequence[Comparison]]]:
    """All comparisons of targets, grouped under the metrics that they are on."""
    kinds = [(metrics_of(track), analysis.compared(track)) for track in analysis.compared_on]
    return [*kinds, *(_on_like(analysis) if isinstance(analysis, Overall) else ())]


def _on_like(analysis: Overall) -> Iterator[tuple[str, Sequence[Comparison]]]:
    for track in analysis.compared_on:
        pairs = [pair for pair in analysis.on_like if pair.track is track]
        if pairs:
            yield f"{metrics_of(track)}, benchmarks like these", pairs


def scope_sentence(analysis: Overall) -> str:
    """The population that the intervals are about, in a sentence."""
    count = len(analysis.benchmarks)
    of = "this benchmark" if count == 1 else f"these {count} benchmarks"
    sentence = f"intervals and marks are for other scenarios like those of {of}, with equal weights"
    if analysis.on_like:
        return f"{sentence}; those for benchmarks like these rest on how far the benchmarks differ"
    return (
        f"{sentence}; intervals for other benchmarks take at least {ENOUGH_BENCHMARKS} benchmarks "
        "in which targets are compared"
    )


def rests_on(difference: MarkedDifference) -> str:
    """`409 scenarios, 818 conversations`."""
    scenarios = plural(difference.base_scenarios, "scenario")
    return f"{scenarios}, {plural(difference.rows, 'conversation')}"


# Differences


def _main(analysis: Analysis) -> Sequence[Comparison]:
    """The pairs on all metrics; where there are none, those on each track."""
    on = analysis.compared_on
    return analysis.comparisons if None not in on else analysis.compared(None)


def _main_pairs(analysis: Analysis) -> Iterator[Finding]:
    """The pairs by name, or their number and the leaders where there are many."""
    main = _main(analysis)
    for track in dict.fromkeys(pair.track for pair in main):
        on = f"{track.sign} " if track and len(analysis.tracks) > 1 else ""
        pairs = [pair for pair in main if pair.track is track]
        sure = [pair for pair in pairs if pair.sure]
        if len(sure) > FEW:
            count = f"{on}{len(sure):,} of {plural(len(pairs), 'pair')} of targets differ"
            yield Finding(Certainty.SIGNIFICANT, count + leaders(pairs))
        elif sure:
            yield Finding(Certainty.SIGNIFICANT, on + _in_order(sure))
        if listed := _listed_open(pairs):
            named = _in_order(listed, family=analysis.family.size)
            yield Finding(Certainty.OPEN, f"may be chance: {on}{named}")


def _listed_open(pairs: Sequence[Comparison]) -> list[Comparison]:
    """The pairs that are named although they may be chance: all of them, where there are few."""
    on = Counter(pair.track for pair in pairs)
    return [
        pair for pair in pairs if on[pair.track] <= FEW and not pair.sure and pair.low is not None
    ]


def _in_order(pairs: Sequence[Comparison], *, sized: bool = True, family: int = 0) -> str:
    """`a > b by 89 points [57 to 100] · > c by 42 [13 to 72] · b > c by 47 [15 to 79]`, or without
    sizes `a > b, > c, b > c`. Pairs that only a `family` of so many keeps from being significant
    say so: `(p = .02 alone, not among 17)`."""
    parts: list[str] = []
    for left, of_left in groupby(_greater_first(pairs), key=lambda pair: pair.left):
        for number, pair in enumerate(of_left):
            unit = (
                points(pair.difference) if not parts else points(pair.difference).split(" point")[0]
            )
            ends = points_interval(pair.low, pair.high)
            name = "" if number else f"{left} "
            size = f" by {unit} {ends}".rstrip() if sized else ""
            is_alone = family and pair.p is not None and pair.p <= ERROR_RATE
            alone = f" ({p_value_words(pair.p)} alone, not among {family:,})" if is_alone else ""
            parts.append(f"{name}{_sign(pair)} {pair.right}{size}{alone}")
    return (" · " if sized else ", ").join(parts)


def _greater_first(pairs: Sequence[MarkedDifference]) -> list[MarkedDifference]:
    """Those of one left side together, the widest difference first."""
    turned = [pair.greater_first for pair in pairs]
    widest: defaultdict[str, float] = defaultdict(float)
    for pair in turned:
        widest[pair.left] = max(widest[pair.left], pair.difference)
    return sorted(turned, key=lambda pair: (-widest[pair.left], pair.left, -pair.difference))


def _sign(pair: MarkedDifference) -> str:
    return ">" if pair.difference else "="


def _other_marks(analysis: Analysis) -> Iterator[Finding]:
    """The significant pairs on one track alone, and for benchmarks like these, by name; how far
    apart they are only where the pairs above do not say it of the same targets."""
    main = set(map(id, _main(analysis)))
    told = {(one.left, one.right) for one in _greater_first(_main(analysis)) if one.sure}
    by_kind: defaultdict[str, list[str]] = defaultdict(list)
    for where, pairs in pairs_by_kind(analysis):
        sure = [pair for pair in pairs if pair.sure and id(pair) not in main]
        if sure:
            track = sure[0].track
            on = f"{track.sign} " if track else ""
            alone = where == metrics_of(track)
            kind = "on one track alone" if alone else "benchmarks like these"
            many = f"{len(sure):,} of {plural(len(pairs), 'pair')}"
            pairs_said = {(one.left, one.right) for one in _greater_first(sure)}
            sized = not (alone and pairs_said <= told)
            by_kind[kind].append(on + (_in_order(sure, sized=sized) if len(sure) <= FEW else many))
    for kind, parts in by_kind.items():
        yield Finding(Certainty.SIGNIFICANT, f"{kind}: {' · '.join(parts)}")


def _marked_gaps(analysis: Analysis) -> Iterator[Finding]:
    sure = [gap.greater_first for gap in analysis.gaps if gap.sure]
    for gap in sure[:FEW]:
        ends = points_interval(gap.low, gap.high)
        words = f"{gap.axis}: {gap.left} > {gap.right} by {points(gap.difference)} {ends}"
        yield Finding(Certainty.SIGNIFICANT, f"{words}, {gap.target or 'all targets'}")
    if more := len(sure[FEW:]):
        yield Finding(Certainty.SIGNIFICANT, plural(more, "more demographic gap"))


def _unmarked(analysis: Analysis) -> Iterator[Finding]:
    """How much else was compared, in a line, and which differences can be found."""
    every: list[MarkedDifference] = [*_all_pairs(analysis), *analysis.gaps]
    listed = set(map(id, _listed_open(_main(analysis))))
    others = [one for one in every if not one.sure and id(one) not in listed]
    tested = sum(one.low is not None for one in others)
    if tested:
        nothing = len(others) == len(every)
        words = f"none of {tested:,} comparisons is" if nothing else f"{tested:,} others not"
        found = ""
        if knows_what_is_found(analysis):
            found = f"; {found_words(analysis.family.smallest_found)}"
        yield Finding(Certainty.OPEN, f"{words} significant{found}")
    if untested := len(others) - tested:
        words = f"not tested: {plural(untested, 'comparison')} over a single scenario"
        yield Finding(Certainty.OPEN, words)


def _weakest(analysis: Analysis) -> Iterator[Finding]:
    weakest = analysis.weakest
    if weakest is not None:
        metric = weakest.metric
        yield Finding(
            Certainty.OPEN,
            f"weakest: {metric.track.sign} {metric.name}, {percent(weakest.rate)}: "
            f"`crosswind show {weakest.failure}`",
        )


def _ranks(analysis: Analysis) -> Iterator[Finding]:
    """The ranks that rule out any place, the best first."""
    for track in analysis.tracks:
        ranked = [
            (target.ranks[track], target.target)
            for target in analysis.targets
            if track in target.ranks
        ]
        telling = sorted((rank for rank in ranked if rank[0].tells), key=_by_place)
        if telling:
            places = ", ".join(f"{name} {place}" for place, name in telling[:_RANKS])
            places += f", and {len(telling) - _RANKS} more" if telling[_RANKS:] else ""
            left = len(ranked) - len(telling)
            rest = f"; {plural(left, 'other')} without a rank" if left else ""
            text = f"{track}: ranks among {len(ranked)} targets: {places}{rest}"
            yield Finding(Certainty.SIGNIFICANT, text, "")


def _by_place(ranked: tuple[RankRange, str]) -> tuple[int, int, str]:
    place, name = ranked
    return place.best, place.worst, name


# Cautions


def _cautions(analysis: Analysis) -> Iterator[Finding]:
    for other in analysis.others:  # first: then every figure is about another model
        yield Finding(Certainty.CAUTION, str(other))
    yield from _stale(analysis)
    if isinstance(analysis, Overall):
        yield from _of_all(analysis)
    yield from _axes(analysis)
    yield from _too_few(analysis)
    yield from _exposure(analysis)
    yield from _quotes(analysis)
    yield from _agreement(analysis)
    yield from _no_signal(analysis)
    yield from _unscored(analysis)
    yield from _user_audit(analysis)
    for note in analysis.notes:
        yield Finding(Certainty.CAUTION, note)


def _stale(analysis: Analysis) -> Iterator[Finding]:
    """Comes before any figure: how many conversations rest on another definition, model or prompt
    than today's."""
    by_metric = analysis.staleness
    total = sum(by_metric.values(), Staleness())
    if not total.stale:
        return
    parts = [
        f"{stale:,} of {plural(of, noun)} (changed since: {_reasons(why)})"
        for stale, of, noun, why in (
            (total.stale_takes, total.conversations, "take", total.takes_why),
            (total.stale_verdicts, total.verdicts, "verdict", total.verdicts_why),
        )
        if stale
    ]
    where = [
        f"{name} {staleness.stale:,} of {staleness.conversations:,}"
        for name, staleness in by_metric.items()
    ]
    where = [
        words for words, staleness in zip(where, by_metric.values(), strict=True) if staleness.stale
    ]
    affected = ", ".join(where)
    if len(where) > FEW:
        affected = f"{len(where)} of {plural(len(by_metric), analysis.part)}"
    yield Finding(
        Certainty.CAUTION,
        f"{total.stale:,} of {plural(total.conversations, 'counting conversation')} are stale: "
        f"{' and '.join(parts)}; {affected}; `results --fresh` counts without them, `run --stale` "
        "redoes them",
        f"{total.stale:,} of {plural(total.conversations, 'conversation')} are stale: "
        "`run --stale` redoes them",
    )


def _of_all(analysis: Overall) -> Iterator[Finding]:
    if analysis.benchmarks:
        yield Finding(Certainty.CAUTION, scope_sentence(analysis), "")
    if analysis.skipped:
        yield Finding(
            Certainty.CAUTION, f"left out, as nothing is scored: {joined_names(analysis.skipped)}"
        )
    for track in analysis.tracks:
        yield from _unlike_benchmarks(analysis, track)


def _unlike_benchmarks(analysis: Overall, track: Track) -> Iterator[Finding]:
    """Cautions where targets were not scored in the same benchmarks, or not compared on all."""
    lacking = {
        target.target: analysis.missing_benchmarks(target, track)
        for target in analysis.targets
        if target.tracks[track].scored and analysis.missing_benchmarks(target, track)
    }
    if lacking:
        lists = [f"{name} not in {joined_names(lacks)}" for name, lacks in lacking.items()]
        more = f" and {len(lists) - FEW} more" if lists[FEW:] else ""
        yield Finding(
            Certainty.CAUTION,
            f"{metrics_of(track)}: targets were not scored in the same benchmarks "
            f"({'; '.join(lists[:FEW])}{more}): their rates answer different questions, each pair "
            "is compared on the benchmarks that both have, and there are no ranks",
            f"{metrics_of(track)}: targets were not scored in the same benchmarks",
        )
    every = set(analysis.benchmarks_on(track))
    lacks = {
        target.target: set(analysis.missing_benchmarks(target, track))
        for target in analysis.targets
    }
    fewer = [
        pair
        for pair in analysis.compared(track)
        if (pair.benchmarks or 0) < len(every - lacks[pair.left] - lacks[pair.right])
    ]
    if fewer:
        yield Finding(
            Certainty.CAUTION,
            f"{metrics_of(track)}: {plural(len(fewer), 'pair')} of targets compared without a "
            "benchmark in which they share fewer than two scenarios",
        )


def _axes(analysis: Analysis) -> Iterator[Finding]:
    """Which axes were not tested, and whether a gap could show on those that were."""
    tested = {gap.axis for gap in analysis.gaps if gap.low is not None}
    marked = {gap.axis for gap in analysis.gaps if gap.sure}
    yield from _could_be_known(analysis, sorted(tested - marked))
    if untested := [axis for axis in analysis.axes if axis not in tested]:
        text = "not tested: fewer than two scored scenarios have several of its groups"
        yield Finding(Certainty.CAUTION, f"{joined_names(untested)}: {text}")


def _could_be_known(analysis: Analysis, open_axes: Sequence[str]) -> Iterator[Finding]:
    """Whether targets could have known the group: without that no gap can show."""
    checks = analysis.group_checks
    if missing := unchecked_axes(checks, open_axes):
        advice = "`checks: {groups: true}` has a model guess it from the user's messages"
        yield Finding(
            Certainty.CAUTION,
            f"{joined_names(missing)}: nobody has checked whether a target could have known the "
            f"group; if none could, no gap can show "
            f"({_unanswered(analysis, CheckKind.GROUPS) or advice})",
            "nobody checked whether targets knew the groups",
        )
    for check in checks.values():
        if check.checked:
            known = "could" if check.could_be_known else "could hardly"
            brief = (
                f"{check.axis}: targets {known} know the group, guessed in {percent(check.rate)}"
            )
            yield Finding(Certainty.CAUTION, _group_check_words(check), brief)


def _group_check_words(check: GroupCheck) -> str:
    rest = check.of - check.checked
    guessed = (
        f"{check.axis}: from the user's messages alone the group was guessed right in "
        f"{check.right:,} of {plural(check.checked, 'conversation')} ({percent(check.rate)} "
        f"{span(check.low, check.high)}; {percent(check.chance)} by always naming the commonest)"
        + (f", {rest:,} more were not checked" if rest else "")
    )
    if check.could_be_known:
        return f"{guessed}: a target could have known it"
    return f"{guessed}: not significantly better than chance, so the absence of a gap says little"


def _too_few(analysis: Analysis) -> Iterator[Finding]:
    few: dict[str, list[str]] = {}
    for track in analysis.tracks:
        estimates = [
            target.tracks[track] for target in analysis.targets if target.tracks[track].scored
        ]
        if estimates and any(estimate.too_few for estimate in estimates):
            counts = {estimate.base_scenarios for estimate in estimates}
            least = plural(min(counts), "base scenario")
            few.setdefault(f"as few as {least}" if counts - {min(counts)} else least, []).append(
                track
            )
    # then the line of `found_words` says it
    said = knows_what_is_found(analysis) and analysis.family.smallest_found is None
    rule = f"fewer than {ENOUGH_SCENARIOS} seldom make a difference significant"
    for over, tracks in few.items():
        yield Finding(
            Certainty.CAUTION,
            f"{joined_names(tracks)} rates rest on {over}: {rule}",
            "" if said else f"{over} a track: {rule}",
        )


_UNLIKE: Final = 0.05
"""From this difference between two targets' shares on, they are said to be exposed unequally."""


def _differing_shares(what: str, shares: Mapping[str, float | None]) -> Iterator[str]:
    """The lowest and the highest share, where they differ by at least `_UNLIKE`."""
    known = {name: share for name, share in shares.items() if share is not None}
    if known and max(known.values()) - min(known.values()) >= _UNLIKE:
        least, most = min(known, key=known.__getitem__), max(known, key=known.__getitem__)
        yield f"{what} from {percent(known[least])} ({least}) to {percent(known[most])} ({most})"


def _quotes(analysis: Analysis) -> Iterator[Finding]:
    for unlike in _differing_shares("verdicts of which no quote is found", analysis.without_quote):
        yield Finding(
            Certainty.CAUTION,
            f"{unlike}; they count, as leaving them out would favour whoever is easy to quote",
            unlike,
        )


def _exposure(analysis: Analysis) -> Iterator[Finding]:
    exposures = {
        target.target: target.exposure
        for target in analysis.targets
        if target.exposure.conversations
    }
    early = {name: exposure.early_share for name, exposure in exposures.items()}
    reached = {name: exposure.reached_share for name, exposure in exposures.items()}
    unlike = [
        *_differing_shares("conversations that ended early", early),
        *_differing_shares("landmarks reached", reached),
    ]
    if unlike:
        yield Finding(
            Certainty.CAUTION,
            f"targets were not exposed equally: {', '.join(unlike)}; this may cause differences "
            "between targets",
            f"not exposed equally: {', '.join(unlike)}",
        )
    unreached = {
        name: exposure.with_landmarks
        for name, exposure in exposures.items()
        if exposure.with_landmarks and not exposure.reached_last
    }
    if unreached:
        of = sum(unreached.values())
        whose = "any target" if len(unreached) == len(exposures) else joined_names(list(unreached))
        yield Finding(
            Certainty.CAUTION,
            f"reached the last landmark: 0 of {plural(of, 'conversation')} of {whose}; what it was "
            "meant to test was not tested",
            f"reached the last landmark: 0 of {plural(of, 'conversation')} of {whose}",
        )
    withheld = {name: exposure.withheld for name, exposure in exposures.items()}
    if any(withheld.values()):
        each = ", ".join(
            f"{name} {number:,} of {plural(exposures[name].turns, 'reply', 'replies')}"
            for name, number in withheld.items()
        )
        yield Finding(
            Certainty.CAUTION,
            f"withheld by the provider's filter, or refused: {each}; these count as the target's "
            "replies, although the model itself may never have seen the messages",
            f"withheld by a filter, or refused: {each}",
        )


def _agreement(analysis: Analysis) -> Iterator[Finding]:
    for concord in analysis.agreement:
        if concord.between != "samples" and concord.disagreeing:
            beyond = "" if concord.ac1 is None else f" (AC1 {coefficient(concord.ac1.value)})"
            text = (
                f"{agreement_subject(concord)} agree in {percent(concord.percent.value)} of "
                f"{plural(concord.things, 'conversation')}{beyond}"
            )
            yield Finding(Certainty.CAUTION, text + _no_floor(analysis, concord), text)


def _no_floor(analysis: Analysis, concord: RepeatAgreement) -> str:
    """A hint to measure how far one judge agrees with itself; empty where its passes show that."""
    if concord.between != "judges" or any(
        agreement.between == "passes" for agreement in analysis.agreement
    ):
        return ""
    asks = f"`crosswind validate {analysis.benchmark} --replay evaluator`"
    return f"; {asks} shows how far one agrees with itself (--dry-run: the price)"


def _no_signal(analysis: Analysis) -> Iterator[Finding]:
    for passed in (True, False):
        silent = [metric for metric, all_pass in analysis.no_signal.items() if all_pass is passed]
        if silent:
            how = "passes" if passed else "fails"
            do = "does" if len(silent) == 1 else "do"
            text = f"{do} not separate the targets: every scored conversation {how}"
            yield Finding(Certainty.CAUTION, f"{joined_names(silent)} {text}")


def _unscored(analysis: Analysis) -> Iterator[Finding]:
    lacking = [target for target in analysis.targets if target.unscored]
    if len(lacking) > FEW:
        reasons = sum((Counter(result.unscored) for result in lacking), Counter[str]())
        of = sum(target.of for target in analysis.targets)
        yield Finding(
            Certainty.CAUTION,
            f"{reasons.total():,} of {plural(of, 'conversation')} unscored, of {len(lacking)} "
            f"targets ({_reasons(reasons)})",
        )
        return
    for metric in lacking:
        yield Finding(Certainty.CAUTION, _missing(metric))


def _missing(result: TargetResult) -> str:
    unscored = sum(result.unscored.values())
    reasons = _reasons(result.unscored)
    return f"{result.target}: {unscored} of {result.of} unscored ({reasons}){_bounds(result)}"


def _reasons(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{why} {count:,}" for why, count in counts.items())


def _bounds(result: TargetResult) -> str:
    bounds = [
        f"{track} {percent(estimate.if_missing_failed)} to {percent(estimate.if_missing_passed)}"
        for track, estimate in result.tracks.items()
        if estimate.scored and estimate.missing
    ]
    return f"; if they had all failed or all passed: {', '.join(bounds)}" if bounds else ""


def _user_audit(analysis: Analysis) -> Iterator[Finding]:
    audits = analysis.user_audits
    of = sum(audit.of for audit in audits.values())
    invalid = sum(audit.invalid for audit in audits.values())
    if invalid:
        kinds = sum((Counter(audit.faults) for audit in audits.values()), Counter[FaultKind]())
        by_kind = ", ".join(f"{kind} {count:,}" for kind, count in kinds.most_common())
        counted = (
            "counted as unscored"
            if analysis.user_audit is UserAuditMode.INVALIDATE
            else "counted all the same"
        )
        yield Finding(
            Certainty.CAUTION,
            f"the user model did not do its part in {invalid:,} of "
            f"{plural(of, 'conversation')} ({by_kind}): {counted}; `crosswind simulate --invalid` "
            "plays them again",
            f"the user model did not do its part in {invalid:,} of {of:,} conversations: {counted}",
        )
    unseen = sum(audit.of - audit.looked_at for audit in audits.values())
    if unseen:
        yield Finding(
            Certainty.CAUTION,
            "whether the user model did its part is not known for "
            f"{plural(unseen, 'conversation')}, imported or played without the audit",
            f"user model not audited in {plural(unseen, 'conversation')}",
        )
    known = [audit for audit in audits.values() if audit.landmarks_checked is not None]
    unasked = sum(audit.of - (audit.landmarks_checked or 0) for audit in known)
    if unasked:
        advice = (
            "with `checks: {landmarks: true}` the next `crosswind run` checks those in which any "
            "was reached"
        )
        yield Finding(
            Certainty.CAUTION,
            "whether the user model carried out its landmarks is not known for "
            f"{plural(unasked, 'conversation')}; "
            f"{_unanswered(analysis, CheckKind.LANDMARKS) or advice}",
            "landmarks carried out: not known for " + plural(unasked, "conversation"),
        )


def _unanswered(analysis: Analysis, kind: CheckKind) -> str:
    """How often a check was asked for in vain; empty where it never was."""
    count = analysis.unanswered.get(kind, 0)
    return f"the checker gave no usable answer in {plural(count, 'conversation')}" if count else ""
