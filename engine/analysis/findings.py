"""The findings of an analysis in sentences, each with how far it can be relied on."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from engine.analysis.comparability import GroupCheck, unchecked_axes
from engine.analysis.figures import (
    ENOUGH_SCENARIOS,
    PROMISE,
    Analysis,
    Comparison,
    ComparisonFamily,
    Gap,
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
    """Has ✓, under the family's promise (`ComparisonFamily.promise`)."""
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
    """A caution in one line, for the answer (`engine.analysis.answer`): None where `text` is one,
    empty where only details have it."""

    def __str__(self) -> str:
        return f"{MARKS[self.kind]} {self.text}"


def findings(analysis: Analysis) -> list[Finding]:
    """All findings, the most important first."""
    return [
        *_served_by_others(analysis),
        *_stale(analysis),
        *_comparisons(analysis),
        *_ranks(analysis),
        *(_of_all(analysis) if isinstance(analysis, Overall) else ()),
        *_gaps(analysis),
        *_too_few(analysis),
        *_exposure(analysis),
        *_quotes(analysis),
        *_agreement(analysis),
        *_no_signal(analysis),
        *_unscored(analysis),
        *_user_audit(analysis),
        *(Finding(Certainty.CAUTION, note) for note in analysis.notes),
    ]


def _served_by_others(analysis: Analysis) -> Iterator[Finding]:
    """Comes first: where another model answered, every figure is about that one."""
    for other in analysis.others:
        yield Finding(Certainty.CAUTION, str(other))


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


# Words for numbers


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


def marks_mean(analysis: Analysis) -> str:
    """What ✓ stands for, or that nothing has it, and among how many comparisons; shown wherever the
    marks are."""
    pairs = (pair for _, pairs in pairs_by_kind(analysis) for pair in pairs)
    is_any = any(difference.sure for difference in (*pairs, *analysis.gaps))
    return f"{PROMISE if is_any else 'Nothing is significant'}, among {analysis.family}."


# What is found


_ONE: Final = "a single scenario cannot tell what chance does"


def metrics_of(track: Track | None) -> str:
    """`all metrics`, `positive metrics`: what targets are compared on."""
    return "all metrics" if track is None else f"{track} metrics"


def _comparisons(analysis: Analysis) -> Iterator[Finding]:
    for track in analysis.compared_on:
        alone = track is not None and None in analysis.compared_on
        yield from _pair_findings(
            analysis.compared(track), metrics_of(track), analysis.family, listed=not alone
        )


def _pair_findings(
    pairs: Sequence[Comparison], where: str, family: ComparisonFamily, *, listed: bool
) -> Iterator[Finding]:
    """The significant pairs first; more than `FEW` are only counted. With `listed`, the others are
    named as well where there are few."""
    sure = [pair for pair in pairs if pair.sure]
    if len(sure) > FEW:
        yield Finding(Certainty.SIGNIFICANT, _count(pairs, sure, where) + leaders(pairs))
    else:
        for pair in sure:
            yield Finding(Certainty.SIGNIFICANT, _difference(pair, where, family))
    open_pairs = [pair for pair in pairs if not pair.sure]
    if listed and len(pairs) <= FEW:
        for pair in open_pairs:
            yield Finding(Certainty.OPEN, _difference(pair, where, family))
        return
    only = where if listed else f"{where} alone"
    others = [pair for pair in open_pairs if pair.low is not None]
    if others:
        yield Finding(Certainty.OPEN, _may_be_chance(only, others, len(pairs)))
    if untested := len(open_pairs) - len(others):
        what = f"{untested} of {plural(len(pairs), 'difference')} between targets"
        yield Finding(Certainty.OPEN, f"{only}: {what} not tested: {_ONE}")


def _count(pairs: Sequence[Comparison], sure: Sequence[Comparison], where: str) -> str:
    return f"{where}: {len(sure):,} of {len(pairs):,} differences between targets are significant"


def _may_be_chance(where: str, others: Sequence[Comparison], of: int) -> str:
    """One sentence for pairs that are not significant."""
    counts = [pair.base_scenarios for pair in others]
    few = "as few as " if len(set(counts)) > 1 else ""
    return (
        f"{where}: {len(others):,} of {plural(of, 'difference')} between targets may be chance "
        f"({few}{plural(min(counts), 'scenario')})"
    )


def _difference(pair: Comparison, where: str, family: ComparisonFamily) -> str:
    pair = pair.greater_first
    over = f"({_evidence_size(pair)})"
    if pair.difference == 0:
        interval = f" {points_interval(pair.low, pair.high)}".rstrip()
        return f"{where}: {pair.left} and {pair.right} differ by 0 points{interval} {over}"
    text = (
        f"{where}: {pair.left} passes more often than {pair.right}, by {points(pair.difference)} "
        f"{points_interval(pair.low, pair.high)}"
    ).rstrip()
    if pair.sure:
        return text
    if pair.low is None:
        return f"{text}: not tested: {_ONE}"
    if pair.p is not None and pair.p <= ERROR_RATE:
        alone = f"{p_value_words(pair.p)} alone, not among {family.size:,}"
        return f"{text}: may be chance: {alone} {over}"
    return f"{text}: may be chance {over}"


def _evidence_size(pair: Comparison) -> str:
    """`12 scenarios`, `12 scenarios in 3 benchmarks`."""
    scenarios = plural(pair.base_scenarios, "scenario")
    return (
        scenarios
        if pair.benchmarks is None
        else f"{scenarios} in {plural(pair.benchmarks, 'benchmark')}"
    )


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


def _of_all(analysis: Overall) -> Iterator[Finding]:
    for where, pairs in _on_like(analysis):
        yield from _pair_findings(pairs, where, analysis.family, listed=True)
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
    fewer = [pair for pair in analysis.compared(track) if _compared_on_fewer(analysis, pair, track)]
    if fewer:
        yield Finding(
            Certainty.CAUTION,
            f"{metrics_of(track)}: {plural(len(fewer), 'pair')} of targets compared without a "
            "benchmark in which they share fewer than two scenarios",
        )


def _compared_on_fewer(analysis: Overall, pair: Comparison, track: Track) -> bool:
    """Whether the pair is compared on fewer benchmarks than both were scored in."""
    both = (analysis.target(name) for name in (pair.left, pair.right))
    lacks = {
        part
        for target in both
        if target is not None
        for part in analysis.missing_benchmarks(target, track)
    }
    return (pair.benchmarks or 0) < len(set(analysis.benchmarks_on(track)) - lacks)


def _ranks(analysis: Analysis) -> Iterator[Finding]:
    """The ranks that rule out any place, the best first."""
    for track in analysis.tracks:
        ranked = [
            (target.target, target.ranks[track])
            for target in analysis.targets
            if track in target.ranks
        ]
        ruled_out = [(name, place) for name, place in ranked if place.tells]
        if ruled_out:
            ruled_out.sort(key=_by_place)
            places = ", ".join(f"{name} {place}" for name, place in ruled_out[:_RANKS])
            more = (
                f", and {len(ruled_out) - _RANKS} more in the table" if ruled_out[_RANKS:] else ""
            )
            left = len(ranked) - len(ruled_out)
            rest = f"; {plural(left, 'other')} without a rank" if left else ""
            text = f"{track}: ranks among {len(ranked)} targets: {places}{more}{rest}"
            yield Finding(Certainty.SIGNIFICANT, text)


def _by_place(ranked: tuple[str, RankRange]) -> tuple[int, int, str]:
    name, place = ranked
    return place.best, place.worst, name


def _gaps(analysis: Analysis) -> Iterator[Finding]:
    sure = [gap for gap in analysis.gaps if gap.sure]
    shown = sure if len(sure) <= FEW else [gap for gap in sure if gap.target is None]
    for gap in shown:
        yield Finding(Certainty.SIGNIFICANT, _gap(gap))
    if len(shown) < len(sure):
        count = len(sure) - len(shown)
        are = "is" if count == 1 else "are"
        text = f"{plural(count, 'demographic gap')} of single targets {are} significant"
        yield Finding(Certainty.SIGNIFICANT, text)
    tested = [gap for gap in analysis.gaps if gap.low is not None]
    axes = sorted({gap.axis for gap in tested})
    if tested and not sure:
        if len(tested) == 1:
            text = f"the only demographic gap, by {axes[0]}, is not significant"
            text += ": chance may explain it"
        else:
            text = f"none of {len(tested):,} demographic gaps by {joined_names(axes)} is "
            text += "significant: chance may explain every one"
        yield Finding(Certainty.OPEN, text)
    open_axes = [axis for axis in axes if all(gap.axis != axis for gap in sure)]
    yield from _could_be_known(analysis, open_axes)
    untested = [axis for axis in analysis.axes if axis not in axes]
    alone = {axis: group for axis in untested if (group := _only_group(analysis, axis)) is not None}
    for axis, group in alone.items():
        text = f"not tested: all that was scored is of one group, “{group}”"
        yield Finding(Certainty.CAUTION, f"{axis}: {text}")
    if left := [axis for axis in untested if axis not in alone]:
        text = "not tested: fewer than two scored scenarios have several of its groups"
        yield Finding(Certainty.CAUTION, f"{joined_names(left)}: {text}")


def _only_group(analysis: Analysis, axis: str) -> str | None:
    """The only group on an axis that was scored; None where there are several."""
    groups = {
        group
        for target in analysis.targets
        for group, estimate in target.demographics.get(axis, {}).items()
        if estimate.scored
    }
    return groups.pop() if len(groups) == 1 else None


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


def _gap(gap: Gap) -> str:
    gap = gap.greater_first
    who = gap.target or "all targets together"
    return (
        f"{gap.axis}: {who} pass{'es' if gap.target else ''} more often with “{gap.left}” than "
        f"with “{gap.right}”, by {points(gap.difference)} {points_interval(gap.low, gap.high)} "
        f"({rests_on(gap)})"
    )


def rests_on(difference: MarkedDifference) -> str:
    """`409 scenarios, 818 conversations`."""
    scenarios = plural(difference.base_scenarios, "scenario")
    return f"{scenarios}, {plural(difference.rows, 'conversation')}"


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
    split = {
        result.target: concord
        for result in analysis.targets
        if (concord := result.agreement) is not None and concord.disagreeing
    }
    noun = "variant" if analysis.axes else "scenario"
    if len(split) > FEW:
        yield Finding(Certainty.CAUTION, _samples_of_many(split, analysis.agreement, noun), "")
    else:
        for target, concord in split.items():
            yield Finding(
                Certainty.CAUTION,
                f"{target}: samples disagree in {_share(concord, noun)}{_coefficients(concord)}",
                "",
            )
    for concord in analysis.agreement:
        if concord.between != "samples" and concord.disagreeing:
            text = (
                f"{agreement_subject(concord)} agree in {percent(concord.percent.value)} of "
                f"{plural(concord.things, 'conversation')}{_coefficients(concord)}"
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


def _share(concord: RepeatAgreement, noun: str) -> str:
    return f"{concord.disagreeing:,} of {plural(concord.things, noun)}"


def _samples_of_many(
    split: Mapping[str, RepeatAgreement], together: Sequence[RepeatAgreement], noun: str
) -> str:
    def share(target: str) -> float:
        return split[target].disagreeing / split[target].things

    least, most = min(split, key=share), max(split, key=share)
    pooled = next((agreement for agreement in together if agreement.between == "samples"), None)
    text = f"samples of {len(split)} targets disagree"
    if pooled is not None:
        text += f" in {_share(pooled, noun)}, counted with each target{_coefficients(pooled)}"
    ends = (
        f"{of} {name}, {_share(split[name], noun)}"
        for of, name in (("least", least), ("most", most))
    )
    return "; ".join([text, *ends])


def _coefficients(concord: RepeatAgreement) -> str:
    return "" if concord.ac1 is None else f" (AC1 {coefficient(concord.ac1.value)})"


def _no_signal(analysis: Analysis) -> Iterator[Finding]:
    for passed in (True, False):
        silent = [metric.metric_id for metric in analysis.no_signal if metric.passed is passed]
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
        most = max(lacking, key=lambda metric: (metric.of - metric.scored) / metric.of)
        yield Finding(
            Certainty.CAUTION,
            f"{reasons.total():,} of {plural(of, 'conversation')} unscored, of {len(lacking)} "
            f"targets ({_reasons(reasons)}); most: {_missing(most)}",
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
