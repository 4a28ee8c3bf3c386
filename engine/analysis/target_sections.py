"""Everything about one target as sections: rates, missing verdicts, samples, demographics."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from engine.analysis.figures import Analysis, Estimate, TargetResult
from engine.analysis.number_words import coefficients
from engine.analysis.sections import (
    Cell,
    Name,
    Row,
    Section,
    SectionBlock,
    Sentence,
    ShareCell,
    Table,
    TableColumn,
    VerdictScope,
)
from engine.benchmark import Track
from engine.display import percent, plural


def target_sections(analysis: Analysis, result: TargetResult) -> list[Section]:
    samples = _samples(result)
    groups = [_group(result, axis) for axis in sorted(result.demographics)]
    return [
        _rates(analysis, result),
        *([] if samples is None else [samples]),
        *([Section("groups", "Demographic groups", groups)] if groups else []),
    ]


def _rates(analysis: Analysis, result: TargetResult) -> Section:
    rows: list[Row] = []
    for track in analysis.tracks:
        scope = VerdictScope((result.target,), track=track)
        name = Name(f"{track.sign} these {analysis.part}s")
        rank = result.ranks.get(track)
        told = f"{rank} of {rank.of}" if rank is not None and rank.tells else "—"
        rows.append(Row(name, [*_rate(result.tracks[track]), told], scope))
        if others := result.new_metrics.get(track):
            over = plural(others.base_scenarios, analysis.part)
            like = Name(f"{track.sign} {analysis.part}s like these")
            rows.append(Row(like, [_share(others), over, ""]))
    blocks: list[SectionBlock] = [Table(_RATES, rows, whole=True)] if rows else []
    blocks += [Sentence(text) for text in _missing(result)]
    return Section("rates", "Pass rates", blocks)


_RATES: Final = (
    TableColumn("Passes", "passes"),
    TableColumn("Rate [95%]", "rate [95%]"),
    TableColumn("Rests on", "rests on"),
    TableColumn("Rank", "rank"),
)


def _share(estimate: Estimate) -> ShareCell | None:
    if estimate.rate is None:
        return None
    return ShareCell(estimate.rate, estimate.low, estimate.high, sure=not estimate.too_few)


def _rate(estimate: Estimate) -> list[Cell]:
    scenarios = plural(estimate.base_scenarios, "scenario")
    if estimate.benchmarks is not None:
        return [_share(estimate), scenarios]
    return [_share(estimate), f"{estimate.passed:,}/{estimate.scored:,} in {scenarios}"]


def _missing(result: TargetResult) -> Iterator[str]:
    if not result.of:
        yield "It has no scenario yet, and so no conversation to score."
    elif not result.unscored:
        yield f"Every conversation is scored, {result.scored:,} of {result.of:,}."
    else:
        reasons = ", ".join(f"{count:,} {reason}" for reason, count in result.unscored.items())
        yield f"{result.of - result.scored:,} of {result.of:,} unscored: {reasons}."
    for track, estimate in result.tracks.items():
        if estimate.scored and estimate.missing:
            yield _bounds(track, estimate)


def _bounds(track: Track, estimate: Estimate) -> str:
    low, high = percent(estimate.if_missing_failed), percent(estimate.if_missing_passed)
    return f"{track.sign} would be {low} if all of these had failed, {high} if all had passed."


def _samples(result: TargetResult) -> Section | None:
    agreement = result.agreement
    if len(result.samples) < 2 or agreement is None:
        return None
    rows = [
        Row(
            Name(f"sample {number}"),
            [
                None if tally.rate is None else ShareCell(tally.rate),
                f"{tally.passed:,} of {tally.scored:,}",
            ],
        )
        for number, tally in result.samples.items()
    ]
    agree = [f"agree in {percent(agreement.percent.value)} of pairs", *coefficients(agreement)]
    divided = f"{agreement.disagreeing:,} of {agreement.things:,} scenarios divide them"
    note = f"They {', '.join(agree)}; {divided}."
    title = f"{len(result.samples)} samples of each scenario"
    return Section("samples", title, [Table(_SAMPLES, rows, note)])


_SAMPLES: Final = (
    TableColumn("Sample", "sample"),
    TableColumn("Rate", "rate"),
    TableColumn("Rests on", "rests on"),
)


def _group(result: TargetResult, axis: str) -> Table:
    """Both tracks together."""
    rows = [
        Row(
            Name(value),
            _rate(estimate),
            VerdictScope((result.target,), axis=axis, people=(value,)),
        )
        for value, estimate in result.demographics[axis].items()
    ]
    return Table(_RATES[:3], rows, title=Name(axis), whole=True)
