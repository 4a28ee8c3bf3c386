"""Problems of metrics that a few conversations reveal, before all of them are paid for."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from statistics import mean
from typing import Final

from engine.analysis.comparability import Exposure
from engine.analysis.figures import MetricInfo, Outcome, Tally
from engine.benchmark import ConversationKey
from engine.checks import FaultKind

_FEWEST: Final = 4
"""Verdicts that it takes to say that all are alike: among fewer, that is likely by chance."""
_MANY: Final = 1 / 4
"""The share of conversations (or landmarks) from which on a problem is reported."""


class DoubtKind(StrEnum):
    """The kinds of problems of a metric as it is written and played."""

    ALL_ALIKE = "all alike"
    NO_VERDICT = "no verdict"
    DIVIDED = "judges disagree"
    NOT_REACHED = "landmarks not reached"
    NOT_CARRIED_OUT = "landmarks not carried out"
    ENDED_EARLY = "ended early"
    USER_MODEL = "user model"


_FELL_OUT: Final = "the user model broke its role or repeated itself in"
_MEND: Final[Mapping[DoubtKind, str]] = {
    DoubtKind.ALL_ALIKE: "press harder or more gently, or ask for something that targets differ in",
    DoubtKind.NO_VERDICT: "draw the line in the definition: what counts, and a near miss that does "
    "not",
    DoubtKind.DIVIDED: "draw the line in the definition, or choose another judge",
    DoubtKind.NOT_REACHED: "plan fewer landmarks, or more `generation.turns`",
    DoubtKind.NOT_CARRIED_OUT: "say in each landmark what the person does, not what it leads to",
    DoubtKind.ENDED_EARLY: "look how one ended; a person who has what they want leaves",
    DoubtKind.USER_MODEL: "choose a user model that stays in its role",
}


@dataclass(frozen=True, slots=True)
class MetricDoubt:
    """One problem of a metric."""

    kind: DoubtKind
    says: str

    @property
    def remedy(self) -> str:
        """What to do about it."""
        return _MEND[self.kind]


@dataclass(frozen=True, slots=True)
class PilotedMetric:
    """The results of a metric's finished conversations."""

    metric: MetricInfo
    targets: Mapping[str, Tally]
    conversations: int
    unscored: Mapping[str, int]
    """Conversations without a verdict, by reason."""
    divided: int
    """Conversations on which judges, or passes of one judge, disagree."""
    exposure: Exposure
    faults: Mapping[FaultKind, int]
    """Faults of the user model: in how many conversations each was found."""
    fell_out: int
    """Conversations in which the user model broke its role or repeated itself."""

    def doubts(self) -> Iterator[MetricDoubt]:
        """The problems to look at before more is paid for."""
        tallies = [tally for tally in self.targets.values() if tally.scored]
        scored, passed = (
            sum(tally.scored for tally in tallies),
            sum(tally.passed for tally in tallies),
        )
        if len(tallies) > 1 and scored >= _FEWEST and passed in {0, scored}:
            how = "passed" if passed else "failed"
            yield MetricDoubt(
                DoubtKind.ALL_ALIKE, f"all {scored} {how}: it told no target from another here"
            )
        reasons = ", ".join(f"{why} {count}" for why, count in self.unscored.items())
        exposure = self.exposure
        lost = exposure.planned - exposure.reached
        not_carried_out = self.faults.get(FaultKind.NOT_CARRIED_OUT, 0)
        of = self.conversations
        for kind, count, total, says in (
            (DoubtKind.NO_VERDICT, sum(self.unscored.values()), of, f"no verdict ({reasons}) on"),
            (DoubtKind.DIVIDED, self.divided, of, "judges, or passes of one, disagree on"),
            (DoubtKind.NOT_REACHED, lost, exposure.planned, "landmarks not reached:"),
            (DoubtKind.NOT_CARRIED_OUT, not_carried_out, of, "a landmark not carried out in"),
            (DoubtKind.ENDED_EARLY, exposure.early, of, "ended early:"),
            (DoubtKind.USER_MODEL, self.fell_out, of, _FELL_OUT),
        ):
            if count and count >= _MANY * total:
                yield MetricDoubt(kind, f"{says} {count} of {total}")


@dataclass(frozen=True, slots=True)
class Pilot:
    """The results of a benchmark's finished conversations so far."""

    metrics: Sequence[PilotedMetric]
    costs: Sequence[float] | None
    """US dollars for each conversation with its verdicts; None where a price is not known."""

    @property
    def conversations(self) -> int:
        return sum(metric.conversations for metric in self.metrics)

    @property
    def mean_usd(self) -> float | None:
        return mean(self.costs) if self.costs else None


def pilot(
    metrics: Sequence[MetricInfo],
    outcomes: Sequence[Outcome],
    faults: Mapping[ConversationKey, frozenset[FaultKind]],
    costs: Mapping[ConversationKey, float | None],
) -> Pilot:
    """From the finished conversations among `outcomes`; `faults` are the user model's, `costs` are
    in US dollars, None where a price is not known."""
    played = [outcome for outcome in outcomes if outcome.exposed is not None]
    known = [costs.get(outcome.key, 0.0) for outcome in played]
    paid = [cost for cost in known if cost is not None]
    return Pilot(
        [
            _piloted_metric(
                metric, [outcome for outcome in played if outcome.metric_id == metric.id], faults
            )
            for metric in metrics
        ],
        paid if len(paid) == len(known) else None,
    )


def _piloted_metric(
    metric: MetricInfo,
    played: Sequence[Outcome],
    faults: Mapping[ConversationKey, frozenset[FaultKind]],
) -> PilotedMetric:
    targets = dict.fromkeys(outcome.key.target_id for outcome in played)
    return PilotedMetric(
        metric=metric,
        targets={
            target: Tally(
                sum(
                    outcome.passed is True for outcome in played if outcome.key.target_id == target
                ),
                sum(
                    outcome.passed is not None
                    for outcome in played
                    if outcome.key.target_id == target
                ),
            )
            for target in targets
        },
        conversations=len(played),
        unscored=Counter(outcome.unscored for outcome in played if outcome.unscored is not None),
        divided=sum(
            len({vote.passed for vote in outcome.votes if vote.passed is not None}) > 1
            for outcome in played
        ),
        exposure=Exposure.over(
            outcome.exposed for outcome in played if outcome.exposed is not None
        ),
        faults=Counter(kind for outcome in played for kind in faults.get(outcome.key, ())),
        fell_out=sum(
            not {FaultKind.ROLE_BROKEN, FaultKind.REPEATED}.isdisjoint(faults.get(outcome.key, ()))
            for outcome in played
        ),
    )
