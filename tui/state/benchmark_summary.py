"""The summary of a benchmark in the list: what it asks, its weakest metric, what is stale, and what
to do next."""

from __future__ import annotations

import shlex
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, NamedTuple

from rich.cells import cell_len

from engine.benchmark import Metric, Stage, Track
from engine.display import one_line, percent, plural
from engine.progress import StateCounts
from engine.report.scale import RATES
from engine.watch import BenchmarkInfo, WrittenCounts
from tui.format import TRACK_SIGNS
from tui.text.ink import MEANINGFUL, Ink, Line, Piece, fitted_line, length, pad, shorten
from tui.text.plot import Whiskers, whiskers
from tui.text.wrap import first_rows

if TYPE_CHECKING:
    from engine.pipeline.planner import RemainingWork
    from engine.pipeline.scores import ScoreCounts
    from engine.store.tables import VerdictRow

LABEL: Final = 11
READABLE: Final = 100
"""Text is set at most this many cells wide."""
_REASONS: Final = 3
"""The most reasons that are named; further ones are counted together."""


class MetricPasses(NamedTuple):
    """The scored conversations of one metric over all targets of a benchmark."""

    metric: Metric
    passed: int
    scored: int

    @property
    def rate(self) -> float:
        return self.passed / self.scored


def weakest_metric(scores: ScoreCounts, info: BenchmarkInfo) -> MetricPasses | None:
    """The metric that passes least often; None before anything is scored."""
    return next(iter(weakest_first(scores, info)), None)


def weakest_first(scores: ScoreCounts, info: BenchmarkInfo) -> list[MetricPasses]:
    """The scored metrics, of those with the same rate the one with most rows first. What the
    benchmark no longer has counts for nothing."""
    # metrics written by a run after the benchmark was read are in the store only
    metrics = info.metrics or scores.metrics
    targets = {target.id for target in info.targets}
    passed: Counter[str] = Counter()
    scored: Counter[str] = Counter()
    for (target, _track, metric_id), passes in scores.passes.items():
        if target in targets and metric_id in metrics:
            passed[metric_id] += passes.passed
            scored[metric_id] += passes.scored
    tallies = [
        MetricPasses(metrics[metric_id], passed[metric_id], scored[metric_id])
        for metric_id in scored
    ]
    return sorted(tallies, key=lambda tally: (tally.rate, -tally.scored, tally.metric.id))


def newest_failure(scores: ScoreCounts, info: BenchmarkInfo, metric: Metric) -> VerdictRow | None:
    """The newest failure of a metric with any target; None if nothing failed."""
    cells = [(target.id, metric.track, metric.id) for target in info.targets]
    rows = [scores.failures[cell] for cell in cells if cell in scores.failures]
    return max(rows, key=lambda row: row.seq, default=None)


def failures_of(benchmark: str, metric_id: str) -> str:
    """The filter line that selects a metric's failures."""
    return f'benchmark:"={benchmark}" metric:"={metric_id}" outcome:fail'


def description_lines(info: BenchmarkInfo, width: int, most: int) -> list[Line]:
    """The first `most` lines of the description."""
    words = one_line(info.description, most * READABLE * 2)
    if not words:
        return []
    room = max(min(width - 2, READABLE), 8)
    return [[Piece(" "), Piece(line)] for line in first_rows(words, room, most)]


def weakest_line(weakest_metric: MetricPasses, width: int) -> Line:
    """The metric's name and pass rate, or that nothing failed."""
    if weakest_metric.passed == weakest_metric.scored:
        words = f"none: nothing failed in {plural(weakest_metric.scored, 'conversation')}"
        return [*_label("weakest"), Piece(words, Ink.GOOD)]
    failed = weakest_metric.scored - weakest_metric.passed
    rate = Piece(f"   {percent(weakest_metric.rate)} of {weakest_metric.scored:,} judged")
    read = Piece(f"   W reads the {failed:,} that failed", Ink.ACCENT)
    sign = Piece(f"{TRACK_SIGNS[weakest_metric.metric.track]} ", Ink.MUTED)
    head = [*_label("weakest"), sign]
    name = one_line(weakest_metric.metric.name)
    # the key is in the footer too, so it gives way to the name
    details = [rate, read] if length([*head, rate, read]) + cell_len(name) <= width else [rate]
    room = max(width - length([*head, *details]), MEANINGFUL)
    return fitted_line([*head, Piece(shorten(name, room), Ink.STRONG), *details], width)


def metric_lines(metrics: Sequence[MetricPasses], width: int) -> list[Line]:
    """How often each metric passed over all targets, its name in what is left of the width."""
    rates = [f"{percent(one.rate)} of {one.scored:,}" for one in metrics]
    cells = max(map(cell_len, rates), default=0) + 6
    names = [one_line(one.metric.name) for one in metrics]
    name_width = max(min(max(map(cell_len, names), default=0), width - cells), MEANINGFUL)
    return [
        [
            Piece(f" {TRACK_SIGNS[one.metric.track]} ", Ink.MUTED),
            Piece(pad(shorten(name, name_width), name_width)),
            Piece(pad(rate, cells - 3, right=True), Ink.STRONG),
        ]
        for one, name, rate in zip(metrics, names, rates, strict=True)
    ]


def stale_line(stale: Mapping[int, str]) -> Line | None:
    """How many counted conversations are stale, and why; None if none is."""
    if not stale:
        return None
    whys = Counter(stale.values()).most_common()
    words = [f"{one_line(why)} ({count:,})" for why, count in whys[:_REASONS]]
    rest = sum(count for _why, count in whys[_REASONS:])
    if rest:
        words.append(f"something else ({rest:,})")
    count = Piece(f"~ {plural(len(stale), 'conversation')}: ", Ink.WARN)
    return [*_label("stale"), count, Piece("; ".join(words))]


@dataclass(frozen=True, slots=True)
class BenchmarkWork:
    """How far a benchmark is."""

    tallies: Mapping[Stage, StateCounts]
    at_work: bool = False
    """Whether a run is working on it."""
    to_come: bool = False
    """Whether the run at work comes to it later."""
    stale: int = 0
    """The number of stale conversations."""
    failures: bool = False
    """Whether `W` has something to read."""
    ahead: RemainingWork | None = None
    """The remaining work; None until it is known."""
    is_template: bool | None = False
    """Whether nobody has described what it measures yet; None until it is known."""
    written: WrittenCounts | None = None
    """What its rows of scenarios are."""


def next_line(info: BenchmarkInfo, work: BenchmarkWork, width: int) -> Line:
    """The next step, with its key and the command to run in the workspace's folder, if that fits:
    half a command is of no use. Empty where it is not known yet whether it can be run."""
    if work.is_template is None and not any(tally.total for tally in work.tallies.values()):
        return []
    words, command = _next_step(info, work)
    line = [*_label("next"), Piece(words)]
    if command:
        command_piece = Piece(f"   {shlex.join([*command, one_line(info.name)])}", Ink.MUTED)
        line += [command_piece] if length([*line, command_piece]) <= width else []
    return line


_RUN: Final = ("crosswind", "run")
_REVIEW: Final = ("crosswind", "review")


def _next_step(info: BenchmarkInfo, work: BenchmarkWork) -> tuple[str, Sequence[str]]:
    """In words, and the command that is given its name."""
    failed = sum(tally.failed for tally in work.tallies.values())
    if work.at_work:
        return "Enter watches it", ()
    if work.to_come:
        return "the run comes to it", ()
    if work.ahead is not None and work.ahead.all_rejected:
        return "every metric is rejected: 5 \\ lists them, Enter brings one back", _REVIEW
    if not any(tally.total for tally in work.tallies.values()):
        if work.is_template:
            return "e opens it in $EDITOR: say what it measures, then b runs it", ()
        return "b runs it; V plays a few conversations of each metric first", _RUN
    if failed:
        return f"3 X says why {failed:,} failed; b tries again", _RUN
    if left := ", ".join(_left_lines(work)) or ", ".join(work.ahead.lines if work.ahead else ()):
        review = f"; 5 has {rows} to review" if (rows := to_review(work.ahead)) else ""
        return f"b goes on: {left}{review}", _RUN
    if rows := to_review(work.ahead):
        return f"5 has {rows:,} to review, then b goes on", _REVIEW
    if work.stale:
        return "redo what is stale:", (*_RUN, "--stale")
    read = "W reads what failed, " if work.failures else "Enter reads the verdicts, "
    if work.ahead is not None and work.ahead.to_review:
        return f"{read}4 shows the results, 5 has {work.ahead.to_review:,} to review", ()
    return f"{read}4 shows the results", ()


def to_review(ahead: RemainingWork | None) -> int:
    """The number of rows whose review holds up further work."""
    return 0 if ahead is None or not ahead.required else ahead.to_review


_TO_DO: Final = {
    Stage.SIMULATE: "to play",
    Stage.EVALUATE: "to judge",
    Stage.AGGREGATE: "to add up",
}
_NOUNS: Final = {
    Stage.SIMULATE: "conversation",
}


def waiting_for_a_judge(tallies: Mapping[Stage, StateCounts]) -> int:
    """The number of conversations played where none was to be judged yet, as after a run until
    then."""
    none = StateCounts()
    judged = tallies.get(Stage.EVALUATE, none).total
    return 0 if judged else tallies.get(Stage.SIMULATE, none).done


def _left_lines(work: BenchmarkWork) -> Iterator[str]:
    tallies, written = work.tallies, work.written
    metrics = tallies.get(Stage.GEN_METRICS, StateCounts())
    if metrics.total > metrics.done:
        yield "metrics to write"
    if written is not None and written.metrics_to_do:
        yield f"scenarios of {plural(written.metrics_to_do, 'metric')} to write"
    if written is not None and (left := written.variants.total - written.variants.done):
        yield f"{plural(left, 'variant')} to write"
    for stage in _TO_DO:
        tally = tallies.get(stage, StateCounts())
        left = tally.total - tally.done
        if stage is Stage.EVALUATE:
            left += waiting_for_a_judge(tallies)
        if left:
            count = plural(left, _NOUNS[stage]) if stage in _NOUNS else f"{left:,}"
            yield f"{count} {_TO_DO[stage]}"


def rate_whiskers(scores: ScoreCounts | None, target: str, track: Track, width: int) -> Line:
    """Hollow where it rests on too few base scenarios, as in Results."""
    rate = None if scores is None else scores.rates.get((target, track))
    if scores is None or rate is None:
        return [Piece(" " * width)]
    sure = (target, track) not in scores.unsure
    return whiskers(Whiskers(rate.rate, rate.interval.low, rate.interval.high, sure), RATES, width)


def _label(word: str) -> list[Piece]:
    return [Piece(" " + pad(word, LABEL), Ink.MUTED)]
