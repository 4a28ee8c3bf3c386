"""What a validation run shows and what it does not, in sentences."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from math import factorial
from typing import Final

from engine.analysis.figures import ENOUGH_SCENARIOS
from engine.analysis.validation_figures import Swap, TrackReport, Turn
from engine.benchmark import Role

FEW_TARGETS: Final = 5
"""Below so many, a perfect ranking may well be chance."""


_ROLES: Mapping[Role, str] = {
    Role.EVALUATOR: "judges",
    Role.USER: "plays the user",
    Role.GENERATOR: "writes the metrics and scenarios",
}
_SHOWS: Mapping[Role, str] = {
    Role.EVALUATOR: "The same transcripts were judged twice. This shows how far the ranking "
    "depends on who judges, and not who is right: two judges can share an error.",
    Role.USER: "The same scenarios were played twice. Two playings differ by chance as well, so a "
    "part of every shift would be there without another user model.",
    Role.GENERATOR: "The two sets of metrics ask different questions in different situations. "
    "Only the order of the targets can be compared; a shift of all of them says that the "
    "questions are harder or easier.",
}


def says_of(
    swap: Swap, before: str, after: str, tracks: Sequence[TrackReport], scripted: Sequence[str]
) -> Iterator[str]:
    if not tracks:
        yield (
            "No track has two targets that were scored on both sides, so nothing can be said of "
            "their order."
        )
    for track in tracks:
        yield f"{track.track.value.capitalize()} metrics: {_order_words(swap, track, after)}"
    for track in tracks:
        if track.left_out:
            names = ", ".join(track.left_out)
            yield f"Not compared on {track.track.value} metrics, for want of verdicts: {names}."
    few = min((track.base_scenarios for track in tracks), default=ENOUGH_SCENARIOS)
    if few < ENOUGH_SCENARIOS:
        yield (
            f"Some of this rests on {few} base scenarios: too few for a ranking, which takes "
            f"{ENOUGH_SCENARIOS}."
        )
    for count in sorted({len(track.shifts) for track in tracks}):
        yield _count_words(count)
    yield _SHOWS[swap.role]
    if scripted:
        yield f"Scripted models took part and are no language models: {', '.join(scripted)}."


NO_INTERVAL: Final = (
    "How far other scenarios like these would keep it cannot be told from these: the coefficients "
    "have no interval."
)


def _order_words(swap: Swap, track: TrackReport, after: str) -> str:
    when = f"when {after} {_ROLES[swap.role]}"
    turned = sum(pair.turn is Turn.TURNS for pair in track.changed)
    level = len(track.changed) - turned
    if track.tau_b is None:
        return f"all targets have one rate on a side, so there is no order to keep {when}."
    if not track.changed:
        return f"the order of the targets stays as it was {when}.{_doubt(track)}"
    of = f"{turned} of {track.pairs} pairs of targets change order"
    ties = f", {level} more are level on one side" if level else ""
    return f"{of}{ties} {when}.{_doubt(track)}"


def _doubt(track: TrackReport) -> str:
    found = None if track.tau_b is None else track.tau_b.scenarios
    if found is None:
        return f" {NO_INTERVAL}"
    if not found.holds(0):
        return ""
    return (
        " With other scenarios like these it could as well be otherwise: the interval of "
        "Kendall's tau-b holds 0."
    )


def _count_words(targets: int) -> str:
    if targets == 2:
        return (
            "A ranking of two can only stay or turn: a coefficient of 1 or -1 says no more than "
            "that, and by chance alone it stays every second time."
        )
    if targets < FEW_TARGETS:
        return (
            f"{targets} targets have {factorial(targets)} possible orders, so that the same one "
            f"comes out by chance once in {factorial(targets)} times: this says something of these "
            "targets, and little of others."
        )
    return (
        f"{targets} targets were compared. What holds for their order need not hold for targets "
        "that differ from these."
    )
