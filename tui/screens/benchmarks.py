"""The benchmarks of the workspace: the progress of each and the standing of its targets."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, Final

from rich.cells import cell_len
from textual import events
from textual.binding import BindingType
from textual.widget import Widget

from engine.benchmark import Stage, Track
from engine.display import one_line, plural
from engine.errors import CrosswindError
from engine.facts import Fact, StateChanged, VerdictGiven
from engine.progress import StateCounts
from engine.report.scale import RATES
from engine.watch import BenchmarkInfo, TargetInfo
from tui.bindings import key
from tui.format import (
    READING,
    STAGE_NAMES,
    TRACK_MEANINGS,
    TRACK_SIGNS,
    UNKNOWN,
    interval_rate,
    money,
)
from tui.screens.base import Shell, ShellCommand, WatchingScreen
from tui.screens.dialogs import ask_name
from tui.services.ticker import begin
from tui.state.benchmark_summary import (
    BenchmarkWork,
    MetricPasses,
    description_lines,
    failures_of,
    metric_lines,
    next_line,
    rate_whiskers,
    stale_line,
    to_review,
    waiting_for_a_judge,
    weakest_first,
    weakest_line,
    weakest_metric,
)
from tui.state.board import StageView, stage_views
from tui.state.feeds import BenchmarkFeed, ScoreFeed, Standings
from tui.state.run_status import (
    RunPhase,
    Snapshot,
    benchmarks_to_come,
)
from tui.text.ink import Ink, Line, Piece, fitted_line, pad, pad_apart, spread_line
from tui.text.plot import tick_line
from tui.widgets.lines import Entries, Entry, Lines

if TYPE_CHECKING:
    from engine.pipeline.scores import ScoreCounts

BAR: Final = 20
LOOK_EVERY: Final = 2.0
"""Seconds between two looks for benchmarks that were made by another program."""


class BenchmarksScreen(WatchingScreen, inherit_bindings=False):
    """The list of benchmarks with the details of the one under the cursor. Standings and what is
    stale are computed on threads."""

    BINDINGS: ClassVar[list[BindingType]] = [
        key("b", "begin", "run", "run what is missing of this benchmark"),
        key(
            "V",
            "pilot",
            "pilot",
            "see what a few conversations of each metric show",
        ),
        key("B", "begin_all", "run all", "run what is missing of every benchmark", show=False),
        key("W", "failures", "failures", "read the failures of its weakest metric"),
        key("o", "new", "new", "make a benchmark"),
        key("e", "edit", "edit", "describe in $EDITOR what this benchmark measures"),
    ]

    def __init__(self, shell: Shell) -> None:
        super().__init__(shell)
        self._list = Entries(id="benchmarks")
        self._detail = Lines(id="detail", high=True)
        self._now = shell.ticker.now
        self._infos: Sequence[BenchmarkInfo] | None = None
        """The benchmarks as last drawn."""
        self._scores = ScoreFeed(shell.watch)
        self._stale = BenchmarkFeed(shell.engine.backend.stale)
        """Why takes that count are stale, by the seq of the take."""
        self._ahead = BenchmarkFeed(shell.engine.backend.ahead)
        self._template = BenchmarkFeed(shell.engine.backend.is_template)
        """Whether nobody has described what it measures yet."""
        self._version: object = None
        """Differs from before when anything was written or approved since `_ahead` was computed."""
        self._height = 0
        """The height of the details as last drawn."""
        self._changed = True
        self._look_at = 0.0
        """When to look next for benchmarks that were made by another program."""
        self._made: str | None = None
        """A new benchmark, to which the cursor goes as soon as it is in the list."""

    def parts(self) -> Sequence[Widget]:
        return [self._list, self._detail]

    def on_mount(self) -> None:
        self._list.focus()

    def on_resize(self, event: events.Resize) -> None:
        del event
        self._changed = True

    @property
    def commands(self) -> Sequence[ShellCommand]:
        info = self._info
        return [] if info is None else [ShellCommand("c", ("run", info.name))]

    def hint(self, action: str) -> str | None:
        match action:
            case "begin":
                info = self._described
                return None if info is not None and self._is_unfinished(info) else ""
            case "pilot":
                return None if self._described is not None else ""
            case "begin_all":
                return None if any(map(self._is_unfinished, self.watched.benchmarks)) else ""
            case "failures":
                return "" if self._failures is None else None
            case "edit":
                return None if self._info is not None and self._info.definition else ""
            case _:
                return None

    @property
    def _described(self) -> BenchmarkInfo | None:
        """The benchmark under the cursor, unless it is a bare template."""
        info = self._info
        return None if info is None or self._template.of(info.name) else info

    def _is_unfinished(self, info: BenchmarkInfo) -> bool:
        """Whether rows are missing that no run is working on."""
        tallies = [self._tally(info, stage) for stage in Stage]
        at_work = self._now.current == info.name and self.shell.engine.at_work
        at_work |= self._is_to_come(info)
        begun = any(tally.done < tally.total or not tally.total for tally in tallies)
        return not at_work and (begun or self._is_ahead(info))

    def _is_to_come(self, info: BenchmarkInfo) -> bool:
        """Whether the engine comes to it after the benchmark in progress."""
        return info.name in benchmarks_to_come(self.watched, self._now.board)

    def _is_ahead(self, info: BenchmarkInfo) -> bool:
        """Whether there is work that no run has planned yet."""
        ahead = self._ahead.of(info.name)
        return ahead is not None and bool(ahead.metrics or ahead.conversations)

    def receive(self, facts: Sequence[Fact]) -> None:
        self._scores.receive(facts)
        self._stale.receive(facts)
        self._changed |= any(isinstance(fact, StateChanged | VerdictGiven) for fact in facts)

    def draw(self, now: Snapshot) -> None:
        # by identity, as this is asked with every frame
        if self.watched.benchmarks is not self._infos:
            self._stale.forget_asked()
            self._template.forget_asked()
            self._changed = True
        version = self.watched.benchmarks, self.shell.engine.at_work, self._written()
        if version != self._version:
            self._ahead.forget_asked()
        self._version = version
        self._changed |= now.board != self._now.board or self._detail.size.height != self._height
        self._now, self._infos = now, self.watched.benchmarks
        self._ask_for_scores(now.seconds)
        if self.watched.described and now.seconds >= self._look_at:
            self._look_at = now.seconds + LOOK_EVERY
            self.shell.engine.look_for_benchmarks()
        if self._changed and self.is_running:
            self._changed = False
            self._show_list()
            if self._made is not None and self._list.go_to(self._made):
                self._made = None
            self._draw_detail()
        words = [Piece(plural(len(self.watched.benchmarks), "benchmark"), Ink.MUTED)]
        self.show_heading("Benchmarks", words)

    def _written(self) -> object:
        try:
            return self.watched.reader.waiting_seqs()
        except CrosswindError:
            return None  # the feeds that read the store next say what is wrong with it

    def action_begin(self) -> None:
        if self._info is not None:
            self.shell.engine.run((self._info.name,))

    def action_pilot(self) -> None:
        if self._info is not None:
            self.shell.engine.pilot(self._info.name, self.shell.navigator.open_pilot)

    def action_begin_all(self) -> None:
        if names := tuple(info.name for info in self.watched.benchmarks):
            self.shell.engine.run(names)

    def action_new(self) -> None:
        def made(name: str | None) -> None:
            if name is not None:
                self.shell.engine.make_benchmark(name, partial(self._select, name))

        taken = [info.name for info in self.watched.benchmarks]
        self.app.push_screen(ask_name(taken), made)

    def _select(self, name: str) -> None:
        self._made, self._changed = name, True

    def action_edit(self) -> None:
        if self._info is not None:
            self.shell.engine.edit_benchmark(self._info)

    def action_failures(self) -> None:
        if self._failures is not None:
            self.shell.navigator.open_verdicts(self._failures)

    def on_cursor_view_opened(self) -> None:
        """Go to Live for the benchmark in progress, to its verdicts for another one."""
        name = self._list.cursor
        if name == self._now.current:
            self.shell.navigator.go("Live")
        else:
            self.shell.navigator.open_verdicts(f'benchmark:"={name}"')

    def on_cursor_view_moved(self) -> None:
        self._draw_detail()

    @property
    def _info(self) -> BenchmarkInfo | None:
        """The benchmark under the cursor; None if there is none."""
        name = self._list.cursor
        return next((info for info in self.watched.benchmarks if info.name == name), None)

    @property
    def _failures(self) -> str | None:
        """The filter line of the weakest metric's failures; None if nothing failed."""
        info = self._info
        weakest = None if info is None else self._weakest(info)
        if info is None or weakest is None or weakest.passed == weakest.scored:
            return None
        return failures_of(info.name, weakest.metric.id)

    def _weakest(self, info: BenchmarkInfo) -> MetricPasses | None:
        scores = self._scores.of(info.name)
        return None if scores is None else weakest_metric(scores, info)

    def _ask_for_scores(self, seconds: float) -> None:
        """Begin to compute what is due: standings, remaining work and, if anything counts, what is
        stale."""
        info = self._info if self.watched.described else None
        if info is None or not self.is_mounted:
            return
        scores = self._scores.of(info.name)
        feeds: list[BenchmarkFeed[Any]] = [self._scores, self._ahead, self._template]
        feeds += [self._stale] if scores is not None and scores.rates else []
        for feed in feeds:
            if feed.due(info.name, seconds):
                begin(self, partial(self._read, feed, info.name, seconds), "read")

    async def _read(self, feed: BenchmarkFeed[Any], name: str, seconds: float) -> None:
        await feed.read(name, seconds)
        if feed is self._ahead:
            self.shell.engine.correct(name, self._ahead.of(name))
        self._changed = True
        self._draw_detail()
        self.refresh_bindings()

    def _show_list(self) -> None:
        infos = self.watched.benchmarks
        states = [self._state(info) for info in infos]
        width = min(max((cell_len(state) for state, _ink in states), default=0), _STATE)
        self._list.show(
            [
                self._entry(info, state, ink, width)
                for info, (state, ink) in zip(infos, states, strict=True)
            ]
        )

    def _entry(self, info: BenchmarkInfo, state: str, ink: Ink, width: int) -> Entry:
        tallies = {stage: self._tally(info, stage) for stage in (Stage.SIMULATE, Stage.EVALUATE)}
        done = sum(tally.done for tally in tallies.values())
        total = sum(tally.total for tally in tallies.values()) + waiting_for_a_judge(tallies)
        filled = 0 if not total else done * BAR // 2 // total
        names = (one_line(benchmark.name) for benchmark in self.watched.benchmarks)
        roomy = self.size.width >= _ROOMY
        bar = [
            Piece(" " + "━" * filled, Ink.GOOD if done == total else Ink.ACCENT),
            Piece("─" * (BAR // 2 - filled), Ink.RULE),
        ]
        left = [
            Piece(" " + pad_apart(one_line(info.name), names, 24), Ink.STRONG),
            *(bar if roomy else ()),
            Piece("  " + pad(state, width), ink),
            Piece("  " + one_line(info.title) if roomy else "", Ink.MUTED),
        ]
        return Entry(info.name, left)

    def _state(self, info: BenchmarkInfo) -> tuple[str, Ink]:
        """The phase of the run that works on it, or else how complete it is."""
        where = self._now.status_of(info.name)
        current = self._now.current == info.name
        if current and not where.phase.over:
            return where.phase.words, where.phase.ink
        by_stage = {stage: self._tally(info, stage) for stage in Stage}
        tallies = by_stage.values()
        if self._is_to_come(info) and not all(tally.total for tally in tallies):
            return "to come", Ink.MUTED
        failed = sum(tally.failed for tally in tallies)
        if not any(tally.total for tally in tallies):
            return "nothing yet" if self.watched.described else "…", Ink.MUTED
        if failed:
            return f"{failed} failed", Ink.BAD
        ahead = self._ahead.of(info.name)
        if rows := to_review(ahead):
            return f"{rows} to review", Ink.WARN
        is_missing = self._is_ahead(info) or bool(waiting_for_a_judge(by_stage))
        if not is_missing and all(tally.settled == tally.total for tally in tallies):
            return "✓ done", Ink.GOOD
        return "unfinished", Ink.WARN

    def _tally(self, info: BenchmarkInfo, stage: Stage) -> StateCounts:
        return self.watched.progress.stage_tally(info.name, stage)

    def _draw_detail(self) -> None:
        width = max(self.size.width - 2, 1)
        # before it is laid out it has no height
        self._height = self._detail.size.height
        info = self._info
        if info is None:
            self._detail.show([fitted_line([Piece(text)], width) for text in _NONE])
        else:
            height = self._height or self.size.height
            self._detail.show(self._about(info, width, height))

    def _about(self, info: BenchmarkInfo, width: int, height: int) -> list[Line]:
        """Its detail, on a low screen without what stands around it; the rest is scrolled to."""
        roomy = height >= _HIGH
        gap: list[Line] = [[]] if roomy else []
        heading, *targets = self._target_lines(info, width)
        lines = [
            _rule(one_line(info.name), one_line(info.title), width),
            *description_lines(info, width, 6 if roomy else 2),
            *self._summary(info, width),
            *gap,
            heading,
            *([self._scale(info, width)] if roomy else []),
            *targets,
            *gap,
            *_file_lines(info),
            *self._stages(info),
            *gap,
            *self._metrics(info, width),
        ]
        return [fitted_line(line, width) for line in lines]

    def _metrics(self, info: BenchmarkInfo, width: int) -> list[Line]:
        """How each metric stands; nothing where the weakest is the only one."""
        scores = self._scores.of(info.name)
        metrics = [] if scores is None else weakest_first(scores, info)
        if len(metrics) < 2:
            return []
        return [
            _rule("metrics", "pass rate over all targets, the weakest first", width),
            *metric_lines(metrics, width),
        ]

    def _stages(self, info: BenchmarkInfo) -> list[Line]:
        """How far each stage is: nothing before the first row, one line once all is done."""
        tallies = {stage: self._tally(info, stage) for stage in Stage}
        if not any(tally.total for tally in tallies.values()):
            return []
        status = self._now.status_of(info.name)
        current = self._now.current == info.name
        views = stage_views(self.watched, info.name, status, self._now.board if current else None)
        if all(tally.total == tally.done for tally in tallies.values()):
            return [_done_stages(views)]
        at_work = self._now.current == info.name and self.shell.engine.at_work
        nothing = "to come" if at_work or self._is_to_come(info) else "nothing to do yet"
        nothing = nothing if self.watched.described else "…"
        return [_stage(view, status.phase, nothing) for view in views]

    def _summary(self, info: BenchmarkInfo, width: int) -> list[Line]:
        weakest, stale = self._weakest(info), self._stale.of(info.name) or {}
        current = self._now.current == info.name
        where = self._now.status_of(info.name)
        work = BenchmarkWork(
            {stage: self._tally(info, stage) for stage in Stage},
            at_work=current and not where.phase.over,
            to_come=self._is_to_come(info),
            stale=len(stale),
            failures=weakest is not None and weakest.passed < weakest.scored,
            ahead=self._ahead.of(info.name),
            is_template=self._template.of(info.name),
            written=self.watched.written(info.name),
        )
        lines = [
            None if weakest is None else weakest_line(weakest, width),
            stale_line(stale),
            next_line(info, work, width) if self.watched.described else None,
        ]
        return [line for line in lines if line]

    def _scale(self, info: BenchmarkInfo, width: int) -> Line:
        """What the signs of the tracks mean, and the scale of the bars where there is room."""
        name, bar = self._target_cells(info, width)
        line = [Piece(" " * (name + 3))]
        for track in Track:
            words = f"{TRACK_SIGNS[track]} {TRACK_MEANINGS[track]}"
            line.append(Piece(pad(words, _RATE_WIDTH), Ink.MUTED))
            line += [*tick_line(RATES, bar), Piece("  ")] if bar else []
        return line

    def _target_cells(self, info: BenchmarkInfo, width: int) -> tuple[int, int]:
        """The cells of a target's name and of each bar; none without room for one."""
        name = min(max([8, *(cell_len(one_line(target.id)) for target in info.targets)]), 30)
        room = (width - name - 3 - len(Track) * (_RATE_WIDTH + 2) - _SPENT) // len(Track)
        return name, min(room, _MOST_BAR) if room >= _LEAST_BAR else 0

    def _target_lines(self, info: BenchmarkInfo, width: int) -> list[Line]:
        scores = self._scores.of(info.name)
        lines: list[Line] = [
            _rule("targets", "pass rate [95%] passed/judged", width),
            *(self._target(info, target, scores, width) for target in info.targets),
        ]
        if not self.watched.described:
            lines.append([Piece(f" {READING}", Ink.MUTED)])
        feeds = (self._scores, self._stale, self._ahead)
        faults = {feed.fault(info.name) for feed in feeds}
        return [*lines, *([Piece(f" {one_line(fault)}", Ink.BAD)] for fault in faults if fault)]

    def _target(
        self,
        info: BenchmarkInfo,
        target: TargetInfo,
        scores: ScoreCounts | None,
        width: int,
    ) -> Line:
        rates = None if scores is None else scores.rates
        progress = self.watched.progress.target(info.name, target.id)
        spent = money(progress.usage.cost_usd, scripted=target.scripted)
        name, bar = self._target_cells(info, width)
        names = (one_line(target.id) for target in info.targets)
        line = [Piece(" " + pad_apart(one_line(target.id), names, name) + "  ", Ink.STRONG)]
        for track in Track:
            line.append(Piece(pad(_rate(track, rates, target.id), _RATE_WIDTH)))
            if bar:
                line += [*rate_whiskers(scores, target.id, track, bar), Piece("  ")]
        return [*line, Piece(spent, Ink.MUTED)]


_RATE_WIDTH: Final = 25
_SPENT: Final = 8
_LEAST_BAR: Final = 11
_MOST_BAR: Final = 61
_STATE: Final = 24
_HIGH: Final = 20
"""In so many rows or more, the detail has blank rows, a scale and a longer description."""
_ROOMY: Final = 60
"""The least width with bar and title; below, there is room for how far a benchmark is in words."""
_NONE: Final = (
    " There is no benchmark in this workspace yet.",
    "",
    " o  makes one: a folder with a file that says what it measures",
    " e  opens that file in $EDITOR",
    " b  runs it",
    " 4  shows the results",
    "",
    " `crosswind new --list` names six that are ready to run. In another terminal,",
    " `crosswind new advice --from health-advice` makes one; it appears here",
    "",
    " `crosswind demo` has three to look at: scripted models, no key, no cost.",
)


def _rule(title: str, note: str, width: int) -> Line:
    left = [Piece(f" {title} ", Ink.ACCENT)]
    return spread_line(left, [Piece(f" {note}", Ink.MUTED)], width, Piece("─", Ink.RULE))


def _file_lines(info: BenchmarkInfo) -> list[Line]:
    """The path of the benchmark's file."""
    if info.definition is None:
        return []
    path = one_line(str(info.definition))
    return [[Piece(" " + pad("file", 11), Ink.MUTED), Piece(path)]]


def _done_stages(views: Sequence[StageView]) -> Line:
    """`✓ metrics 4, variants 32, simulate 192`."""
    words = ", ".join(
        f"{view.noun or view.name}" + (f" {view.total:,}" if view.total > 1 else "")
        for view in views
    )
    return [Piece(" " + pad("stages", 11), Ink.MUTED), Piece("✓ ", Ink.GOOD), Piece(words)]


def _stage(view: StageView, phase: RunPhase, nothing: str) -> Line:
    """`nothing` is what an empty stage says."""
    done = 0 if not view.total else view.done * BAR // view.total
    line = [
        Piece(" " + pad(view.name, 11), Ink.MUTED),
        Piece("━" * done, Ink.GOOD if view.done == view.total else Ink.ACCENT),
        Piece("─" * (BAR - done), Ink.RULE),
    ]
    if not view.total:
        return [*line, Piece(f"  {nothing}", Ink.FAINT)]
    noun = f" {view.noun}" if view.noun else ""
    line.append(Piece(f"  {view.done:,} of {view.total:,}{noun}"))
    # what waits in simulate has begun: it is between two messages
    between = view.waiting if view.name == STAGE_NAMES[Stage.SIMULATE] else 0
    begun = view.running + between
    if phase.over or phase is RunPhase.PAUSED:
        word = "cut off" if phase.over else "held"
        line += [Piece(f"  {begun} {word}", Ink.WARN)] if begun else []
    else:
        line += [Piece(f"  {view.running} at work", Ink.ACCENT)] if view.running else []
        line += [Piece(f"  {view.waiting} wait", Ink.MUTED)] if view.waiting else []
    if view.failed:
        line.append(Piece(f"  {view.failed} failed", Ink.BAD))
    return line


def _rate(track: Track, rates: Standings | None, target: str) -> str:
    if rates is None:
        return f"{TRACK_SIGNS[track]} …"
    rate = rates.get((target, track))
    return f"{TRACK_SIGNS[track]} {UNKNOWN}" if rate is None else interval_rate(rate, track)
