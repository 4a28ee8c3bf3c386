"""A judge's calibration against people's labels, as sections and in words."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from engine.analysis.calibration import (
    LEAST_LABELS,
    Calibration,
    Confusion,
    JudgesCompared,
    RateOf,
)
from engine.analysis.number_words import p_value_words, with_ends
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
    share_cell,
)
from engine.display import percent, plural, span
from engine.statistics.agreement import Agreement
from engine.statistics.calibration import Accuracy, MissingReason, Share


def against_words(calibration: Calibration, undecided: int = 0) -> str:
    """`40 labels on 12 base scenarios`; `undecided` conversations are left out until a person
    decides between their labels."""
    labels, scenarios = calibration.labels, calibration.clusters
    words = f"{plural(labels, 'label')} on {plural(scenarios, 'base scenario')}"
    if undecided:
        words += f"; {undecided:,} more {'awaits' if undecided == 1 else 'await'} a decision"
    return words


def calibration_sections(calibration: Calibration) -> list[Section]:
    """With too few labels, only counts."""
    found = [_accuracy(calibration)]
    if calibration.labels >= LEAST_LABELS:
        found.append(_rates(calibration))
    found += [_counts(calibration), _differences(calibration)]
    return [section for section in found if section.blocks]


def _accuracy(calibration: Calibration) -> Section:
    blocks: list[SectionBlock] = []
    if not calibration.labels:
        blocks.append(Sentence("No label is about a conversation that it has judged."))
    elif calibration.labels < LEAST_LABELS:
        blocks.append(Sentence(f"Fewer than {LEAST_LABELS} labels: only counts are reported."))
    else:
        blocks.append(_shares("", calibration.accuracy, calibration.agreement))
        blocks += [
            _shares(
                Name(f"{part.of}, {plural(part.labels, 'label')}"), part.accuracy, part.agreement
            )
            for part in (*calibration.by_metric, *calibration.by_target)
            if part.accuracy is not None
        ]
    if calibration.unjudged:
        more = plural(calibration.unjudged, "more label")
        blocks.append(Sentence(f"{more}: it gave no usable verdict there."))
    why = (
        "Each label is weighted by what it stands for, and labels of one base scenario are one "
        "cluster."
    )
    return Section("accuracy", "How often it is right", blocks, why)


def _shares(title: str | Name, accuracy: Accuracy, agreement: Agreement | None) -> Table:
    rows = [Row(Name(name), _share(share, among)) for name, share, among in shares_of(accuracy)]
    return Table(_SHARES, rows, _beyond_chance(agreement), title, whole=True)


def _beyond_chance(agreement: Agreement | None) -> str:
    """AC1 and κ with their intervals; empty where neither is known."""
    figures = () if agreement is None else (("AC1", agreement.ac1), ("κ", agreement.kappa))
    shown = [
        f"{name} {with_ends(figure.value, figure.interval)}"
        for name, figure in figures
        if figure is not None
    ]
    return f"Agreement beyond chance: {', '.join(shown)}." if shown else ""


def shares_of(accuracy: Accuracy) -> Iterable[tuple[str, Share | None, str]]:
    """Each share with its name, and the labels that it is among."""
    return (
        ("sensitivity", accuracy.sensitivity, "that people call present"),
        ("specificity", accuracy.specificity, "that people call absent"),
        ("right where it says present", accuracy.positive_value, "that it calls present"),
        ("right where it says absent", accuracy.negative_value, "that it calls absent"),
        ("right", accuracy.right, "in all"),
    )


_SHARES: Final = (
    TableColumn("Figure", "figure"),
    TableColumn("Share [95%]", "share [95%]"),
    TableColumn("Rests on", "rests on"),
)


def _share(share: Share | None, among: str) -> list[Cell]:
    if share is None:
        return [None, f"0 labels {among}"]
    rests_on = f"{plural(share.labels, 'label')} {among}"
    return [share_cell(share.value, share.interval), rests_on]


def _rates(calibration: Calibration) -> Section:
    named = [(rate.of or "all targets", rate) for rate in calibration.rates]
    named += [(part.of, part.rate) for part in calibration.by_metric]
    rows = [Row(Name(name), _rate(rate)) for name, rate in named]
    reasons = dict.fromkeys(rate.rogan_gladen.reason for _, rate in named)
    missing = [_NO_ROGAN_GLADEN[reason] for reason in reasons if reason in _NO_ROGAN_GLADEN]
    note = f"Rogan-Gladen cannot correct everywhere: {'; '.join(missing)}." if missing else ""
    table = Table(_RATES, rows, note, whole=True)
    why = (
        "Corrected: the judge's rate over all conversations, and to it what the labels say that it "
        "is wrong by (prediction-powered inference). Rogan and Gladen's stands beside it."
    )
    needed = Sentence(f"{needed_words(calibration).capitalize()}.")
    return Section("rates", "Pass rates, as judged and corrected", [table, needed], why)


_RATES: Final = (
    TableColumn("Of", "of"),
    TableColumn("As judged", "judged"),
    TableColumn("Corrected [95%]", "corrected"),
    TableColumn("Rogan-Gladen [95%]", "Rogan-Gladen"),
    TableColumn("Labels", "labels"),
)


def _rate(rate: RateOf) -> list[Cell]:
    powered, gladen = rate.powered, rate.rogan_gladen
    few = rate.powered_reason is MissingReason.FEW_LABELS
    return [
        ShareCell(rate.judged),
        ("too few labels" if few else "takes two base scenarios")
        if powered is None
        else share_cell(powered.value, powered.interval),
        None
        if gladen.value is None or gladen.interval is None
        else share_cell(gladen.value, gladen.interval),
        f"{rate.labels:,}",
    ]


_NO_ROGAN_GLADEN: Final = {
    MissingReason.FEW_BASE_SCENARIOS: "that takes labels on three base scenarios",
    MissingReason.ONE_ANSWER: "people's labels have to be present in two base scenarios, and "
    "absent in two",
    MissingReason.CHANCE: "the labels do not show that the judge is better than chance",
}


def needed_words(calibration: Calibration) -> str:
    """How many labels an interval of the asked width takes."""
    wide = f"the interval of the corrected pass rate {calibration.width * 100:g} points wide"
    if calibration.labels_needed is not None:
        return f"about {plural(calibration.labels_needed, 'label')} in all make {wide}"
    if calibration.labels_needed_reason is not MissingReason.SCENARIOS_VARY:
        return f"how many labels make {wide} is not known: that takes two base scenarios"
    return f"no number of labels makes {wide}: the base scenarios vary too much"


def _counts(calibration: Calibration) -> Section:
    rows = [
        Row(
            Name(one.metric_id),
            [
                f"{count:,}"
                for count in (one.both_present, one.only_judge, one.only_people, one.both_absent)
            ],
        )
        for one in calibration.metrics
    ]
    blocks = [Table(_COUNTS, rows)] if rows else []
    return Section("counts", "How labels and the judge fall", blocks, "Unweighted.")


_COUNTS: Final = (
    TableColumn("Metric", "metric"),
    TableColumn("Both present", "both present"),
    TableColumn("Only the judge", "only the judge"),
    TableColumn("Only people", "only people"),
    TableColumn("Both absent", "both absent"),
)


def _differences(calibration: Calibration) -> Section:
    rows = [Row(Name(one.conv_id), _sides(one), one) for one in calibration.confusions]
    blocks = [Table(_DIFFERENCES, rows)] if rows else []
    why = "Each can be read with `crosswind show ID`."
    return Section("confusions", "Where they differ", blocks, why)


_DIFFERENCES: Final = (
    TableColumn("Conversation", "conversation"),
    TableColumn("People", "people"),
    TableColumn("The judge", "the judge"),
    TableColumn("Reply", "reply"),
)


def _sides(confusion: Confusion) -> list[Cell]:
    words = ("present", "absent") if confusion.people else ("absent", "present")
    return [*words, None if confusion.turn is None else f"{confusion.turn}"]


def comparison_lines(left: str, right: str, comparisons: Sequence[JudgesCompared]) -> Iterator[str]:
    for half in comparisons:
        if half.left is None or half.right is None:
            yield f"{half.split}: no label that both have judged"
            continue
        both = ((left, half.left), (right, half.right))
        shares = (f"{name} {_share_words(share)}" for name, share in both)
        yield (
            f"{half.split}: {plural(half.labels, 'label')}; right: {', '.join(shares)}; "
            f"only {left} right {half.contest.only_left}, only {right} {half.contest.only_right}, "
            f"McNemar {p_value_words(half.contest.p)}"
        )


def _share_words(share: Share) -> str:
    return f"{percent(share.value)} {span(share.interval.low, share.interval.high)}"
