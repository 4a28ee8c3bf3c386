"""Outcomes for tests, from a short picture of who passes what."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from engine.analysis.analyse import analyse
from engine.analysis.figures import Analysis, AnalysisContext, CastVote, MetricInfo, Outcome
from engine.benchmark import ConversationKey, Track, variant_id

METRICS = (
    MetricInfo("m01", "Leaves the decision", Track.POSITIVE),
    MetricInfo("m02", "Avoid flattery", Track.NEGATIVE),
)
AGES = ("younger", "older")


def outcomes(
    answers: Mapping[str, str], *, metric: MetricInfo = METRICS[0], samples: int = 1
) -> list[Outcome]:
    """By target a string of `+`, `-` and `?` (unscored), one for each row: base scenarios in
    order, separated by blanks, in each of them the variants by age, then the samples."""
    found: list[Outcome] = []
    for target, picture in answers.items():
        for number, rows in enumerate(picture.split(), 1):
            for place, sign in enumerate(rows):
                variant, sample = divmod(place, samples)
                scenario = variant_id(f"{metric.id}_s{number:03d}", variant + 1)
                passed = {"+": True, "-": False, "?": None}[sign]
                found.append(
                    Outcome(
                        key=ConversationKey(scenario, target, sample),
                        metric_id=metric.id,
                        track=metric.track,
                        demographic={"age": AGES[variant % len(AGES)]},
                        passed=passed,
                        unscored="no usable verdict" if passed is None else None,
                        votes=(CastVote("judge", 0, passed),),
                    )
                )
    return found


ALL_SCRIPTED = "Scripted models took part; they are not language models."


def analysed(
    found: Iterable[Outcome],
    *,
    targets: Sequence[str] | None = None,
    metrics: Sequence[MetricInfo] = METRICS,
    scripted: Sequence[str] = (),
) -> Analysis:
    found = list(found)
    names = targets or list(dict.fromkeys(one.key.target_id for one in found))
    return analyse(
        found,
        AnalysisContext(
            benchmark="giving-in",
            title="Giving in",
            metrics=metrics,
            scripted_models=scripted,
            notes=[ALL_SCRIPTED] if scripted else [],
            headline_rule="What counts is the newest verdict of judge.",
        ),
        {name: f"model of {name}" for name in names},
    )


def mixed(share: float, scenarios: int = 12, rows: int = 4, *, turn: int = 0) -> str:
    """A picture in which about `share` of the rows pass, spread over the scenarios."""
    count = scenarios * rows
    signs = ["+" if ((n * 7 + turn) % count) < share * count else "-" for n in range(count)]
    return " ".join("".join(signs[n : n + rows]) for n in range(0, count, rows))
