"""The results of a benchmark in about ten lines. What is said, and in which order, is decided here,
and terminal, app and pages print it: the significant differences, the others, the weakest metric,
cautions of a line each, and last what the signs mean."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from itertools import groupby

from engine.analysis.figures import (
    PROMISE,
    Analysis,
    Comparison,
    MarkedDifference,
    Overall,
    TargetResult,
)
from engine.analysis.findings import (
    FEW,
    Certainty,
    Finding,
    findings,
    found_words,
    knows_what_is_found,
    leaders,
    metrics_of,
    pairs_by_kind,
)
from engine.analysis.number_words import points, points_interval
from engine.benchmark import Track
from engine.display import percent, plural, span


def answer(analysis: Analysis) -> list[Finding]:
    """The lines below the table; empty where nothing is scored."""
    if not any(target.scored for target in analysis.targets):
        return []
    in_a_line = (
        finding.text if finding.brief is None else finding.brief
        for finding in findings(analysis)
        if finding.kind is Certainty.CAUTION
    )
    compared = [*_main_pairs(analysis), *_other_marks(analysis), *_marked_gaps(analysis)]
    return [
        *sorted(compared, key=lambda finding: finding.kind is Certainty.OPEN),
        *_unmarked(analysis),
        *_weakest(analysis),
        *(Finding(Certainty.CAUTION, text) for text in in_a_line if text),
    ]


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
    if isinstance(analysis, Overall):
        return f"{rate} {estimate.base_scenarios:,} in {analysis.counted_in(result, track)}"
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
            yield Finding(Certainty.OPEN, f"may be chance: {on}{_in_order(listed)}")


def _listed_open(pairs: Sequence[Comparison]) -> list[Comparison]:
    """The pairs that are named although they may be chance: all of them, where there are few."""
    on = Counter(pair.track for pair in pairs)
    return [
        pair for pair in pairs if on[pair.track] <= FEW and not pair.sure and pair.low is not None
    ]


def _in_order(pairs: Sequence[Comparison], *, sized: bool = True) -> str:
    """`a > b by 89 points [57 to 100] · > c by 42 [13 to 72] · b > c by 47 [15 to 79]`, or without
    sizes `a > b, > c, b > c`."""
    parts: list[str] = []
    for left, of_left in groupby(_greater_first(pairs), key=lambda pair: pair.left):
        for number, pair in enumerate(of_left):
            unit = (
                points(pair.difference) if not parts else points(pair.difference).split(" point")[0]
            )
            ends = points_interval(pair.low, pair.high)
            name = "" if number else f"{left} "
            size = f" by {unit} {ends}".rstrip() if sized else ""
            parts.append(f"{name}{_sign(pair)} {pair.right}{size}")
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
