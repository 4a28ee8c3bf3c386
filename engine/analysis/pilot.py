"""Problems of metrics that a few conversations reveal, before all of them are paid for."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import mean
from typing import Final, NamedTuple

from engine.analysis.comparability import Exposure
from engine.analysis.figures import MetricInfo, Outcome, Tally
from engine.benchmark import ConversationKey
from engine.checks import FaultKind

_FEWEST: Final = 4
"""Verdicts that it takes to say that all are alike: among fewer, that is likely by chance."""
_MANY: Final = 1 / 4
"""The share of conversations (or landmarks) from which on a problem is reported."""


class MetricDoubt(NamedTuple):
    """One problem of a metric as it is written and played."""

    kind: str
    says: str
    remedy: str
    """What to do about it."""


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
                "all alike",
                f"all {scored} {how}: it told no target from another here",
                "press harder or more gently, or ask for something that targets differ in",
            )
        reasons = ", ".join(f"{why} {count}" for why, count in self.unscored.items())
        exposure, of = self.exposure, self.conversations
        counts = (
            (sum(self.unscored.values()), of, f"no verdict ({reasons}) on"),
            (self.divided, of, "judges, or passes of one, disagree on"),
            (exposure.planned - exposure.reached, exposure.planned, "landmarks not reached:"),
            (self.faults.get(FaultKind.NOT_CARRIED_OUT, 0), of, "a landmark not carried out in"),
            (exposure.early, of, "ended early:"),
            (self.fell_out, of, "the user model broke its role or repeated itself in"),
        )
        for (count, total, says), (kind, remedy) in zip(counts, _MEND.items(), strict=True):
            if count and count >= _MANY * total:
                yield MetricDoubt(kind, f"{says} {count} of {total}", remedy)


_MEND: Final = {
    "no verdict": "draw the line in the definition: what counts, and a near miss that does not",
    "judges disagree": "draw the line in the definition, or choose another judge",
    "landmarks not reached": "plan fewer landmarks, or more `generation.turns`",
    "landmarks not carried out": "say in each landmark what the person does, not what it leads to",
    "ended early": "look how one ended; a person who has what they want leaves",
    "user model": "choose a user model that stays in its role",
}
"""The other kinds of problems, each with what to do."""


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
    passed, scored = Counter[str](), Counter[str]()
    for outcome in played:
        passed[outcome.key.target_id] += outcome.passed is True
        scored[outcome.key.target_id] += outcome.passed is not None
    return PilotedMetric(
        metric=metric,
        targets={target: Tally(passed[target], scored[target]) for target in scored},
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
