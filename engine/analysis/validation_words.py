"""Sentences on what a validation run shows and what it does not."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from math import factorial
from typing import Final

from engine.analysis.figures import ENOUGH_SCENARIOS
from engine.analysis.number_words import (
    NO_ALPHA,
    coefficient_interval,
    points,
    points_interval,
    with_ends,
)
from engine.analysis.sections import (
    Cell,
    Change,
    Name,
    Row,
    Section,
    SectionBlock,
    Sentence,
    Shift,
    Table,
    TableColumn,
    VerdictScope,
)
from engine.analysis.validation_figures import (
    ALL_TARGETS,
    OrderChange,
    RateShift,
    ReorderedPair,
    ReplayFloor,
    TrackReport,
    ValidationReport,
)
from engine.benchmark import Role, Track
from engine.branches import Branch
from engine.display import plural
from engine.statistics.agreement import Agreement, Flips
from engine.statistics.distributions import Interval
from engine.statistics.ranks import Correlation

FEW_TARGETS: Final = 5
"""With fewer targets, a perfect ranking may well be chance."""


_ROLES: Mapping[Role, str] = {
    Role.EVALUATOR: "judges",
    Role.USER: "plays the user",
    Role.GENERATOR: "writes the metrics and scenarios",
}
_NAMES: Mapping[Role, str] = {
    Role.EVALUATOR: "evaluator",
    Role.USER: "user model",
    Role.GENERATOR: "generator",
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
_REPLAYED: Final = (
    "No model was swapped: the differences here are chance, to compare another model in the same "
    "role with."
)
_OF_STANCE: Final = (
    "The same scenarios were played twice: once by a person with a hidden goal and landmarks, once "
    "from persona and open goal alone (neutral). A shift says what pressure does; where neutral "
    "conversations fail as well, the topic does it. Two playings differ by chance, too, and the "
    "neutral ones say nothing about behaviour under pressure."
)
NOT_STATED: Final = (
    "That it holds is not shown: no bound (`validation.equivalence_points` of config.yaml) was "
    "stated before this run began."
)


LEGEND: Final = (
    "Rates in per cent and shifts in points, each rounded by itself; [all shifts at once in 95% of "
    "such runs]; ! significant."
)


def swap_words(report: ValidationReport) -> str:
    """`strict-judge as evaluator in place of judge`."""
    instead = "once more" if report.swap.is_replay else f"in place of {report.before}"
    return f"{report.after} as {report.swap.role.value} {instead}"


def validation_sections(report: ValidationReport, played: str | None = None) -> list[Section]:
    """`played` is the benchmark that holds the verdicts behind the rates."""
    found = [_track_section(report, track, played) for track in report.tracks]
    if report.agreement is not None and report.flips is not None:
        found.append(_both_sides(report, report.agreement, report.flips))
    says = [Sentence(text) for text in report.says]
    if report.unscored_before or report.unscored_after:
        unscored = f"{report.unscored_before:,} before, {report.unscored_after:,} after"
        says.insert(0, Sentence(f"Unscored: {unscored}."))
    return [*found, Section("says", "What this shows", says)]


def _track_section(report: ValidationReport, track: TrackReport, played: str | None) -> Section:
    judge = report.after if report.swap.role is Role.EVALUATOR else None
    rows = []
    for shift in (track.together, *track.shifts):
        targets = () if shift.target == ALL_TARGETS else (shift.target,)
        behind = VerdictScope(targets, track=track.track, benchmark=played, judge=judge)
        rows.append(Row(Name(shift.target), _shifted(shift), behind))
    sentences = [order_words(track)]
    if over := _over_targets(track):
        sentences.append(f"For other targets like these: {over}")
    sentences += map(change_words, track.changed)
    sentences += floor_words(report, track.track)
    blocks: list[SectionBlock] = [Table(_SHIFTS, rows, LEGEND), *map(Sentence, sentences)]
    return Section(track.track.value, f"{track.track.value.capitalize()} metrics", blocks)


_SHIFTS: Final = (
    TableColumn("Target", "target"),
    TableColumn("Before and after", "before, after"),
    TableColumn("Shift in points [95%]", "shift"),
    TableColumn("Conversations", "rows"),
    TableColumn("Scenarios", "scenarios"),
)


def _shifted(shift: RateShift) -> list[Cell]:
    known = shift.interval
    low, high = (None, None) if known is None else (known.low, known.high)
    return [
        Change(shift.before, shift.after),
        Shift(shift.shift, low, high, shift.p, shift.sure),
        f"{shift.rows:,}",
        f"{shift.base_scenarios:,}",
    ]


def _over_targets(track: TrackReport) -> str:
    """The coefficients' intervals over targets; empty for too few targets to generalise."""
    return " · ".join(
        f"{name} {coefficient_interval(correlation.targets)}"
        for name, correlation in (("tau-b", track.tau_b), ("rho", track.rho))
        if correlation is not None and correlation.targets is not None
    )


def _both_sides(report: ValidationReport, agreement: Agreement, flips: Flips) -> Section:
    rows = [
        Row(Name("passed before"), [f"{flips.both:,}", f"{flips.left_only:,}"]),
        Row(Name("failed before"), [f"{flips.right_only:,}", f"{flips.neither:,}"]),
    ]
    sentences = (agreement_words(agreement), *floor_words(report))
    title = f"Both sides on the same {plural(report.conversations, 'conversation')}"
    return Section("sides", title, [Table(_FLIPS, rows), *map(Sentence, sentences)])


_FLIPS: Final = (
    TableColumn("Before", "before"),
    TableColumn("Passes after", "passes after"),
    TableColumn("Fails after", "fails after"),
)


def says_of(report: ValidationReport, replay_costs: str, scripted: Sequence[str]) -> Iterator[str]:
    tracks = report.tracks
    if not tracks:
        yield (
            "No track has two targets that were scored on both sides, so nothing can be said of "
            "their order."
        )
    for track in tracks:
        yield f"{track.track.value.capitalize()} metrics: {_order_words(report, track)}"
        yield _shift_words(report, track)
    if report.family:
        yield _family_words(report)
    if tracks and report.floor is None and not report.swap.is_replay:
        yield _no_floor(report.swap, replay_costs)
    yield from _rests_on(tracks)
    if report.swap.stance is not None:
        yield _OF_STANCE
    else:
        yield _REPLAYED if report.swap.is_replay else _SHOWS[report.swap.role]
    if scripted:
        yield f"Scripted models took part and are no language models: {', '.join(scripted)}."


def _family_words(report: ValidationReport) -> str:
    shifts = [shift for track in report.tracks for shift in (track.together, *track.shifts)]
    which = (
        "those with ! are significant"
        if any(shift.sure for shift in shifts)
        else "none is significant"
    )
    return (
        f"Of the {plural(report.family, 'shift')} of this run, {which}; all intervals hold at once "
        "in 95% of such runs (Bonferroni, half of the 5% for all targets together)."
    )


def _rests_on(tracks: Sequence[TrackReport]) -> Iterator[str]:
    for track in tracks:
        if track.left_out:
            names = ", ".join(track.left_out)
            yield f"Not compared on {track.track.value} metrics, as verdicts are missing: {names}."
    few = min((track.base_scenarios for track in tracks), default=ENOUGH_SCENARIOS)
    if few < ENOUGH_SCENARIOS:
        yield (
            f"Some of this rests on {plural(few, 'base scenario')}: too few for a ranking, which "
            f"takes {ENOUGH_SCENARIOS}."
        )
    for count in sorted({len(track.shifts) for track in tracks}):
        yield _count_words(count)


def floor_name(swap: Branch) -> str:
    """The name of a replay beside a swap."""
    return f"the same {_NAMES[swap.role]} once more"


def floor_words(report: ValidationReport, of: Track | None = None) -> Iterator[str]:
    """A replay's agreement, or with `of` its order of the targets on that track, to be shown beside
    the swap's; nothing where there is no replay, or it has no such figure."""
    if report.floor is None:
        return
    name = floor_name(report.swap)
    if of is None:
        if report.floor.agreement is not None:
            yield f"{name}: {agreement_words(report.floor.agreement)}"
        return
    yield from (
        f"{name}: {order_words(track)}" for track in report.floor.tracks if track.track is of
    )


def agreement_words(agreement: Agreement) -> str:
    """`agree 0.69 [0.61 to 0.76] · AC1 0.41 [0.25 to 0.55] · α …`"""
    parts = [f"agree {with_ends(agreement.percent.value, agreement.percent.interval)}"]
    parts += [
        NO_ALPHA if figure is None else f"{name} {with_ends(figure.value, figure.interval)}"
        for name, figure in (("AC1", agreement.ac1), ("α", agreement.alpha))
    ]
    return " · ".join(parts)


def order_words(track: TrackReport) -> str:
    return f"Kendall's tau-b {_correlation(track.tau_b)} · Spearman's rho {_correlation(track.rho)}"


def _correlation(correlation: Correlation | None) -> str:
    return "—" if correlation is None else with_ends(correlation.value, correlation.scenarios)


def _no_floor(swap: Branch, costs: str) -> str:
    return (
        "How much of this is chance is not known without a replay, "
        f"{floor_name(swap)}. `crosswind validate {swap.benchmark} --replay {swap.role.value}` "
        f"makes one{f' ({costs})' if costs else ''}."
    )


NO_INTERVAL: Final = (
    "How far it would hold with other scenarios like these cannot be told: the coefficients have "
    "no interval."
)


def _replay_words(swap: Branch) -> str:
    return " once more" if swap.is_replay else ""


def _when_words(report: ValidationReport) -> str:
    does = "judge" if _are_several(report) else _ROLES[report.swap.role]
    return f"when {report.after} {does}{_replay_words(report.swap)}"


def _are_several(report: ValidationReport) -> bool:
    """Whether `after` names several models, as in a replay by several judges."""
    return " and " in report.after


def _order_words(report: ValidationReport, track: TrackReport) -> str:
    when = _when_words(report)
    turned = sum(pair.turn is OrderChange.TURNS for pair in track.changed)
    level = len(track.changed) - turned
    if track.tau_b is None:
        return f"all targets have one rate on a side, so there is no order to keep {when}."
    change = "no two targets change order"
    if track.changed:
        ties = f", {level:,} more are level on one side" if level else ""
        change = f"{turned:,} of {track.pairs:,} pairs of targets change order{ties}"
    return f"{change} {when}.{_doubt(track)} {_bound_words(track)}"


def _bound_words(track: TrackReport) -> str:
    """Whether the order is shown to hold, which takes a bound that was stated before."""
    if track.equivalence is None:
        return NOT_STATED
    outside, bound = track.equivalence.outside, f"{track.equivalence.bound * 100:g} points"
    if track.order_holds:
        return (
            f"The order holds within {bound}, the bound stated before: no difference between two "
            "targets changes by more, as the 95% interval of each shows."
        )
    if outside is None:
        return (
            f"No difference between two targets changes by more than {bound}, the bound stated "
            "before, but some change order, so that it holds is not shown."
        )
    between = f"the difference between {outside.left} and {outside.right}"
    if outside.interval is None:
        return f"That it holds is not shown: how far {between} changes cannot be told."
    return (
        f"That it holds is not shown: {between} may change by "
        f"{_interval_words(outside.interval)} points, and the bound stated before is {bound}."
    )


_TURNS: Final = {
    OrderChange.TURNS: "{} was ahead of {} and is behind",
    OrderChange.LEVELS: "{} was ahead of {} and is level",
    OrderChange.PARTS: "{} and {} were level and are not",
}


def change_words(pair: ReorderedPair) -> str:
    """How the order of two targets changed."""
    return _TURNS[pair.turn].format(pair.left, pair.right)


def _shift_words(report: ValidationReport, track: TrackReport) -> str:
    passes, together = f"{track.track.value} passes", track.together
    floor = _floor_of_shift(report.floor, track)
    if together.interval is None:
        return f"How far {passes} move {_when_words(report)} cannot be told: {_TOO_FEW}.{floor}"
    if not together.sure:
        return (
            f"Whether {passes} rise or fall {_when_words(report)} is not known: by "
            f"{_shift_size(together.shift, together.interval)}.{floor}"
        )
    rises = together.shift > 0
    interval = together.interval if rises else _negated(together.interval)
    size = _shift_size(abs(together.shift), interval)
    verb = ("raise" if rises else "lower") + ("" if _are_several(report) else "s")
    return (
        f"{report.after}{_replay_words(report.swap)} as {_NAMES[report.swap.role]} {verb} {passes} "
        f"by {size}.{floor}"
    )


_TOO_FEW: Final = "that takes two base scenarios"


def _floor_of_shift(floor: ReplayFloor | None, track: TrackReport) -> str:
    replay = next(
        (twin for twin in (floor.tracks if floor else ()) if twin.track is track.track), None
    )
    if replay is None or replay.together.interval is None:
        return ""
    size = _shift_size(replay.together.shift, replay.together.interval)
    return f" A replay alone moves them by {size}."


def _shift_size(shift: float, interval: Interval) -> str:
    """`−6 points [−27 to 15]`."""
    sign = "−" if round(shift * 100) < 0 else ""
    return f"{sign}{points(shift)} {points_interval(interval.low, interval.high)}"


def _negated(interval: Interval) -> Interval:
    return Interval(-interval.high, -interval.low)


def _interval_words(interval: Interval) -> str:
    return points_interval(interval.low, interval.high).strip("[]")


def _doubt(track: TrackReport) -> str:
    tau = None if track.tau_b is None else track.tau_b.scenarios
    if tau is None:
        return f" {NO_INTERVAL}"
    if not tau.holds(0):
        return ""
    return (
        " With other scenarios like these it could be different: the interval of Kendall's tau-b "
        "contains 0."
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
