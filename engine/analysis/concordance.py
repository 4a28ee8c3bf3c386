"""How far repeated answers agree: between samples, between judges, between passes of one judge."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence

from engine.analysis.figures import Concord, Figure, Outcome
from engine.analysis.tallies import TargetTally
from engine.jury import headline
from engine.statistics.agreement import Agreement, Coefficient, agreement


def agreements(tallies: Mapping[str, TargetTally], outcomes: Sequence[Outcome]) -> list[Concord]:
    """Over all targets: between samples, between judges, between passes."""
    samples = agreement_of_samples(tallies) if len(tallies) > 1 else None
    found = [samples, *_of_judges(outcomes)]
    return [one for one in found if one is not None]


def agreement_of_samples(tallies: Mapping[str, TargetTally], of: str = "") -> Concord | None:
    """Between the samples of one scenario; None where each was played once."""
    scenarios = [one for found in tallies.values() for one in found.scenarios.values()]
    if all(one.of < 2 for one in scenarios):
        return None
    found = agreement([one.answers for one in scenarios], [one.base for one in scenarios])
    return _concord("samples", of, found)


def _of_judges(outcomes: Sequence[Outcome]) -> Iterator[Concord | None]:
    """Between judges, each with the majority of its passes; then between the passes of each."""
    passes = sorted({(vote.judge, vote.number) for one in outcomes for vote in one.votes})
    numbers: defaultdict[str, list[int]] = defaultdict(list)
    for judge, number in passes:
        numbers[judge].append(number)
    if len(numbers) > 1:
        rows = [_by_judge(one, numbers) for one in outcomes]
        yield _concord(
            "judges", ", ".join(numbers), agreement(rows, [one.base for one in outcomes])
        )
    for judge, of_judge in numbers.items():
        if len(of_judge) > 1:
            rows = [_by_pass(one, judge, of_judge) for one in outcomes]
            yield _concord("passes", judge, agreement(rows, [one.base for one in outcomes]))


def _by_judge(one: Outcome, judges: Iterable[str]) -> list[bool | None]:
    return [headline(vote.passed for vote in one.votes if vote.judge == judge) for judge in judges]


def _by_pass(one: Outcome, judge: str, numbers: Iterable[int]) -> list[bool | None]:
    given = {vote.number: vote.passed for vote in one.votes if vote.judge == judge}
    return [given.get(number) for number in numbers]


def _concord(between: str, of: str, found: Agreement | None) -> Concord | None:
    if found is None:
        return None
    return Concord(
        between=between,
        of=of,
        things=found.things,
        percent=_figure(found.percent),
        unanimous=_figure(found.unanimous),
        ac1=None if found.ac1 is None else _figure(found.ac1),
        alpha=None if found.alpha is None else _figure(found.alpha),
        kappa=None if found.kappa is None else _figure(found.kappa),
    )


def _figure(found: Coefficient) -> Figure:
    if found.interval is None:
        return Figure(found.value)
    return Figure(found.value, found.interval.low, found.interval.high)
