"""The results of a benchmark: rates, what is significant, the verdicts behind it; and all about one
target."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, ClassVar, Final

from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Container
from textual.widget import Widget

from engine.analysis.calibration import Confusion
from engine.analysis.calibration_words import against_words, calibration_sections
from engine.analysis.figures import Analysis, Overall
from engine.analysis.findings import marks_mean
from engine.analysis.overall import ALL
from engine.analysis.sections import VerdictScope
from engine.analysis.target_sections import target_sections
from engine.analysis.validation_words import swap_words, validation_sections
from engine.benchmark import ConversationKey, Speaker, Stage
from engine.display import one_line
from engine.errors import CrosswindError, StoreError
from engine.facts import Fact, StateChanged, TakeEnded, VerdictGiven
from engine.store.browsing import Browser, parse
from tui.bindings import key
from tui.results.leaderboard import behind_spot, cell_words, heat, says_rows, standing_rows
from tui.results.sections import (
    line_of,
    onset_rows,
    paragraph,
    section_rows,
    sections_rows,
    title,
    titled,
)
from tui.screens.base import Shell, ShellCommand, WatchingScreen
from tui.state.related import MessageRef
from tui.state.run_status import Snapshot, current_benchmark
from tui.text import plot
from tui.text.ink import Ink, Line, Piece
from tui.widgets.base import BREAKPOINTS_ACROSS, BREAKPOINTS_DOWN, CursorView
from tui.widgets.grids import HeatMap
from tui.widgets.key_line import KeyLine
from tui.widgets.lines import OneLine, Sheet, SheetRow, Titles

if TYPE_CHECKING:
    from engine.pipeline.report import Report


WIDE: Final = BREAKPOINTS_ACROSS[-1][0]
NOT_SHORT: Final = BREAKPOINTS_DOWN[-1][0]
"""Below this height, the targets take one line each, so that the section has room."""
AGAIN_AFTER: Final = 5.0
"""The least number of seconds between two computations while verdicts arrive."""
SHARE: Final = 4.0
"""The least wait, as a multiple of the last computation's duration."""
SAYS, METRICS, DIFFERENCES, JUDGES = SECTIONS = (
    "findings",
    "metrics",
    "groups and pairs",
    "judges",
)


class ResultsScreen(WatchingScreen, inherit_bindings=False):
    """The results, computed off the event loop and only while visible."""

    BINDINGS: ClassVar[list[BindingType]] = [
        key("right_curly_bracket", "section(1)", "section", "the next section"),
        key("left_curly_bracket", "section(-1)", "before", "the previous section", show=False),
        key("greater_than_sign", "benchmark(1)", "benchmark", "the next benchmark"),
        key("less_than_sign", "benchmark(-1)", "before", "the previous benchmark", show=False),
        key("O", "overall", "together", "all benchmarks together, or back to one"),
        key("I", "details", "in full", "each finding in full, or only the answer"),
        key("W", "failures", "failures", "read the failures under the cursor"),
        key("f5,ctrl+r", "merge", "new rows", "add up again, with what was judged since"),
    ]

    def __init__(self, shell: Shell) -> None:
        super().__init__(shell)
        self._standing = Sheet(id="standing", fit=True)
        self._says = Sheet(id="says")
        self._strip = Titles(id="sections")
        self._sheet = Sheet(id="section")
        self._heat = HeatMap(id="heat")
        self._cell_line = OneLine(id="told")
        self._name: str | None = None
        """The name of the shown benchmark; `ALL` for all together."""
        self._before: str | None = None
        """The benchmark shown before all were."""
        self._section = SAYS
        self._in_full = False
        """Whether each finding is said in full, below the answer."""
        self._reports: dict[str, Report] = {}
        self._made: dict[str, float] = {}
        """By benchmark: when its shown results were requested."""
        self._changed: set[str] = set()
        """Benchmarks with new verdicts since."""
        self._asked_at = float("-inf")
        self._took = 0.0
        self._reading: str | None = None
        self._faults: dict[str, str] = {}
        self._seconds: float | None = None
        self._at_work = False
        self._could_be_put_together = False
        """Whether the shown keys offer to combine benchmarks."""

    def compose(self) -> ComposeResult:
        yield self._header
        with Container(id="results"):
            with Container(id="overview"):
                yield self._standing
                yield self._says
            with Container(id="sectioned"):
                yield self._strip
                yield self._sheet
                yield self._heat
                yield self._cell_line
        yield KeyLine()

    @property
    def commands(self) -> Sequence[ShellCommand]:
        which = "--overall" if self._name == ALL else self._name or ""
        return [] if self._name is None else [ShellCommand("c", ("results", which, "--details"))]

    def on_mount(self) -> None:
        choices = self.shell.preferences.choices
        if choices.section in SECTIONS:
            self._section = choices.section
        self._standing.focus()
        self._show()

    def _first_benchmark(self, remembered: str | None) -> str | None:
        """The benchmark shown last, unless it has no verdict and another one is running."""
        progress = self.watched.progress
        at_work = progress.benchmark if self.shell.engine.at_work else None
        if remembered not in self._names:
            return remembered if remembered == ALL else current_benchmark(self.watched)
        judged = progress.stage_tally(remembered, Stage.EVALUATE).done
        return remembered if judged or at_work not in self._names else at_work

    def on_resize(self) -> None:
        self._show()

    def hint(self, action: str) -> str | None:
        match action:
            case "benchmark":
                return None if len(self._names) > 1 else ""
            case "merge":
                news = self._name in self._changed or self._name in self._faults
                return None if news else ""
            case "section":
                return "" if self._report is None else None
            case "details":
                if self._report is None or (self._section != SAYS and not self._says.display):
                    return ""
                return "in short" if self._in_full else None
            case "failures":
                return "" if self._verdict_scope is None else None
            case _:
                return None

    def receive(self, facts: Sequence[Fact]) -> None:
        for fact in facts:
            if isinstance(fact, VerdictGiven | TakeEnded) or (
                isinstance(fact, StateChanged) and fact.stage in _WRITTEN
            ):
                self._changed |= {fact.benchmark, ALL}

    def draw(self, now: Snapshot) -> None:
        self._seconds = now.seconds
        self._at_work = self.shell.engine.at_work
        if not self.is_running:
            return
        if self._name is None and self._names:
            # not before: only now is it known which benchmark is in progress
            self._name = self._first_benchmark(self.shell.preferences.choices.benchmark)
            self._show()
        if self._name not in self._names and (self._name != ALL or not self._several):
            self._name = next(iter(self._names), None)
            self._show()
        if self._could_be_put_together != self._several:
            self._could_be_put_together = self._several
            self.refresh_bindings()
        self._add_up(now.seconds)
        self._draw_header()

    # What keys do

    def action_section(self, step: int) -> None:
        sections = self._sections
        place = sections.index(self._section) if self._section in sections else 0
        self._choose(sections[(place + step) % len(sections)])

    def action_benchmark(self, step: int) -> None:
        names = [ALL, *self._names]
        if self._name not in names or not self._several:
            return
        self._name = names[(names.index(self._name) + step) % len(names)]
        self._choose_benchmark()

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Disable combining benchmarks if there is only one."""
        return action != "overall" or self._several

    def action_overall(self) -> None:
        if self._name == ALL:
            self._name = self._before or self._names[0]
        else:
            self._name, self._before = ALL, self._name
        self._choose_benchmark()

    def _choose_benchmark(self) -> None:
        self.shell.preferences.choose(replace(self.shell.preferences.choices, benchmark=self._name))
        self._show(from_top=True)

    def action_details(self) -> None:
        self._in_full = not self._in_full
        self._says.show(self._says_rows)
        if self._section == SAYS:
            self._sheet.show(self._section_rows)

    def action_merge(self) -> None:
        if self._name is not None:
            self._changed.add(self._name)
            self._faults.pop(self._name, None)
            self._asked_at = float("-inf")  # at the next tick, without the usual pause

    def action_failures(self) -> None:
        behind = self._verdict_scope
        if behind is None:
            return
        line = self._line_of(behind._replace(failed=True))
        try:
            # at once, so that the next key goes to the opened screen
            browser = Browser(self.watched.reader)
            browser.decided = {} if self._report is None else self._report.decided
            any_failed = browser.finds_any(parse(line))
        except StoreError as error:
            self.shell.tell(str(error), bad=True)
            return
        if any_failed:
            self.shell.navigator.open_verdicts(line)
        else:
            self.shell.tell("Nothing of this has failed: Enter shows all of it.")

    def on_titles_clicked(self, message: Titles.Clicked) -> None:
        self._choose(message.name)

    def on_cursor_view_moved(self, message: CursorView.Moved) -> None:
        if message.view is self._heat:
            self._draw_cell_line()
        elif message.view is self._standing and self._section == DIFFERENCES:
            self._show_section(from_top=True)

    def on_cursor_view_opened(self, message: CursorView.Opened) -> None:
        key = message.view.cursor if isinstance(message.view, Sheet) else self._verdict_scope
        if isinstance(key, Confusion):
            self._open_confusion(key)
        elif isinstance(key, VerdictScope):
            self._open(key)
        elif isinstance(key, str) and self._report is not None:
            self.shell.navigator.open_target(self._report, key, self._open)

    def _open_confusion(self, behind: Confusion) -> None:
        """Open the conversation at the reply marked by whoever calls the behaviour present."""
        if self._report is None:
            return
        benchmark, key = self._report.analysis.benchmark, ConversationKey.parse(behind.conv_id)
        try:
            take = self.watched.reader.counting_take(benchmark, key)
        except StoreError as error:
            self.shell.tell(str(error), bad=True)
            return
        at = None
        if take is not None and behind.turn is not None:
            at = MessageRef(take.number, behind.turn, Speaker.TARGET)
        self.shell.navigator.open_conversation(benchmark, key, at=at)

    # What is added up

    @property
    def _names(self) -> list[str]:
        return [info.name for info in self.watched.benchmarks]

    @property
    def _several(self) -> bool:
        return len(self._names) > 1

    @property
    def _report(self) -> Report | None:
        return self._reports.get(self._name or "")

    @property
    def _verdict_scope(self) -> VerdictScope | None:
        """The verdicts behind the cursor of the focused pane."""
        report, pane = self._report, self.focused
        if report is None:
            return None
        if isinstance(pane, HeatMap):
            return behind_spot(report.analysis, pane.cursor)
        return _scope(pane.cursor) if isinstance(pane, Sheet) else None

    def _add_up(self, seconds: float) -> None:
        name = self._name
        if name is None or self._reading is not None:
            return
        known = name in self._reports or name in self._faults
        pause = max(AGAIN_AFTER, self._took * SHARE)
        if known and (name not in self._changed or seconds - self._asked_at < pause):
            return
        self._reading, self._asked_at = name, seconds
        self._changed.discard(name)
        self.run_worker(self._read(name, seconds), group="read")

    async def _read(self, name: str, asked: float) -> None:
        loop = asyncio.get_running_loop()
        began = loop.time()
        try:
            self._reports[name] = await asyncio.to_thread(self.shell.engine.backend.report, name)
            self._made[name] = asked
            self._faults.pop(name, None)
        except CrosswindError as error:
            self._faults[name] = str(error)
        finally:
            self._reading = None
            self._took = loop.time() - began
        if name == self._name:
            self._show()

    def _open(self, behind: VerdictScope) -> None:
        self.shell.navigator.open_verdicts(self._line_of(behind))

    def _line_of(self, behind: VerdictScope) -> str:
        """The filter line for these verdicts; empty before results are computed."""
        report = self._report
        if report is None:
            return ""
        branches = [validation.played for validation in report.validations]
        return line_of(behind, report.analysis, [*self._names, *branches])

    # What is drawn

    @property
    def _sections(self) -> list[str]:
        """The sections; the findings stand beside the others if there is room."""
        says_beside = self.app.size.width >= WIDE
        known = SECTIONS if self._name != ALL else _OF_ALL
        return [name for name in known if name != SAYS or not says_beside]

    def _choose(self, section: str) -> None:
        had_focus = self.focused in {self._sheet, self._heat}
        self._section = section
        self.shell.preferences.choose(replace(self.shell.preferences.choices, section=section))
        self._show_section(from_top=True)
        if had_focus:
            (self._heat if section == METRICS else self._sheet).focus()

    def _show(self, *, from_top: bool = False) -> None:
        self._standing.show(self._standing_rows, from_top=from_top)
        self._says.show(self._says_rows, from_top=from_top)
        self._show_section(from_top=from_top)
        self._draw_header()

    def _show_section(self, *, from_top: bool = False) -> None:
        sections = self._sections
        if self._section not in sections:
            self._section = sections[0]
        self._strip.show(self._titles)
        is_heat = self._section == METRICS and self._report is not None
        self._heat.display = self._cell_line.display = is_heat
        self._sheet.display = not is_heat
        if is_heat and self._report is not None:
            self._heat.show(*heat(self._report.analysis))
        self._draw_cell_line()
        self._sheet.show(self._section_rows, from_top=from_top)

    @property
    def _titles(self) -> Sequence[tuple[str, Piece]]:
        """The names of the sections, of which those before the chosen one give way first."""
        names = self._sections
        while names[0] != self._section and sum(len(name) + 2 for name in names) > self.size.width:
            names = names[1:]
        titles = [("", Piece("─", Ink.RULE))]
        for name in names:
            if name == self._section:
                edges = Piece("[", Ink.ACCENT), Piece(name, Ink.STRONG), Piece("]", Ink.ACCENT)
                titles += [(name, piece) for piece in edges]
            else:
                titles.append((name, Piece(f" {name} ", Ink.MUTED)))
        return [*titles, ("", Piece("─" * self.size.width, Ink.RULE))]

    def _draw_cell_line(self) -> None:
        if self._report is not None:
            self._cell_line.show(*cell_words(self._report.analysis, self._heat.cursor))

    def _standing_rows(self, width: int) -> list[SheetRow]:
        report = self._report
        if report is None:
            return self._no_report()
        folded = self.app.size.height < NOT_SHORT
        return standing_rows(report.analysis, width, folded=folded)

    def _says_rows(self, width: int) -> list[SheetRow]:
        if self._report is None:
            return []
        return says_rows(self._report.analysis, width, in_full=self._in_full)

    def _section_rows(self, width: int) -> list[SheetRow]:
        report = self._report
        if report is None:
            return []
        analysis = report.analysis
        cursor = self._standing.cursor
        target = cursor if isinstance(cursor, str) else None
        match self._section:
            case "groups and pairs":
                return _differences_rows(analysis, target, width)
            case "judges":
                return judge_rows(report, width)
            case _:
                return self._says_rows(width)

    def _no_report(self) -> list[SheetRow]:
        if self._name is None:
            return [SheetRow([Piece(f" {text}", Ink.MUTED)]) for text in _NONE]
        fault = self._faults.get(self._name)
        if fault is None:
            return [SheetRow([Piece(" Adding up what is stored …", Ink.MUTED)])]
        lines = [Piece(" " + one_line(line), Ink.BAD) for line in fault.splitlines()]
        return [SheetRow([line]) for line in lines] + [
            SheetRow([Piece(" F5 tries again.", Ink.MUTED)])
        ]

    def _draw_header(self) -> None:
        self.show_heading("Results", self._header_words())

    def _header_words(self) -> Line:
        names = self._names
        if self._name == ALL:
            line = [Piece(f"all {len(names)} benchmarks together", Ink.ACCENT)]
        elif self._name not in names:
            return []
        else:
            line = [Piece(one_line(self._name), Ink.ACCENT)]
            if len(names) > 1:
                line.append(Piece(f" {names.index(self._name) + 1} of {len(names)}", Ink.MUTED))
        report = self._report
        if report is not None:
            line.append(self._scored(report.analysis))
        return [*line, self._age()]

    def _scored(self, analysis: Analysis) -> Piece:
        scored = sum(target.scored for target in analysis.targets)
        of = sum(target.of for target in analysis.targets)
        if not of:
            return Piece("  nothing to score yet", Ink.MUTED)
        if scored == of:
            return Piece(f"  {scored:,} scored", Ink.MUTED)
        so_far = "so far " if self._at_work else ""
        return Piece(f"  {so_far}{scored:,} of {of:,} scored", Ink.WARN)

    def _age(self) -> Piece:
        if self._name in self._faults and self._report is not None:
            return Piece("  cannot be added up anew: F5 tries again", Ink.BAD)
        built_at = self._made.get(self._name or "")
        if built_at is None or self._seconds is None:
            return Piece("  adding up …" if self._name not in self._faults else "", Ink.ACCENT)
        if self._name not in self._changed and self._reading is None:
            stale = self._stale_conversations()
            # "up to date" is said of the sums, and would be read as said of what they sum up
            return (
                Piece(f"  {stale:,} stale", Ink.WARN) if stale else Piece("  up to date", Ink.FAINT)
            )
        seconds = max(int(self._seconds - built_at), 0)
        if self._reading == self._name:
            return Piece(f"  {seconds} s old, adding up …", Ink.ACCENT)
        return Piece(f"  {seconds} s old", Ink.MUTED)

    def _stale_conversations(self) -> int:
        """The conversations that count and that a run would ask for differently today."""
        if self._report is None:
            return 0
        return sum(part.stale for part in self._report.analysis.staleness.values())


def _scope(key: Hashable | None) -> VerdictScope | None:
    """The verdicts that a row leads to: those of a target, or those it names."""
    if isinstance(key, str):
        return VerdictScope((key,))
    return key if isinstance(key, VerdictScope) else None


def _differences_rows(analysis: Analysis, target: str | None, width: int) -> list[SheetRow]:
    """Pairs of targets, then demographic groups; what is said of the chosen target first."""
    keys = ("comparisons",) if isinstance(analysis, Overall) else ("comparisons", "people")
    return [
        *sections_rows(analysis, keys, width, target),
        *paragraph(marks_mean(analysis), width, ink=Ink.FAINT),
    ]


def judge_rows(report: Report, width: int) -> list[SheetRow]:
    """How far answers agree, what labels say of the judges, and the validation runs."""
    rows = sections_rows(report.analysis, ("agreement",), width)
    if report.calibration is not None:
        for calibration in report.calibration.calibrations:
            against = against_words(calibration)
            rows += titled(calibration.judge, against, calibration_sections(calibration), width)
        for note in report.calibration.notes:
            rows += paragraph(note, width, Piece("·", Ink.MUTED), Ink.MUTED)
        rows.append(SheetRow([]))
    for one in report.validations:
        if one.report is None:
            rows.append(title(one_line(one.branch.label), width))
            rows += paragraph(one.fault or "", width, Piece("✗", Ink.BAD), Ink.BAD)
        else:
            found = validation_sections(one.report, one.played)
            rows += titled(swap_words(one.report), "", found, width)
    return rows if report.validations else [*rows, *_not_validated(report, width)]


def _not_validated(report: Report, width: int) -> Iterator[SheetRow]:
    texts = (
        "No validation run yet: does the order of the targets hold with another judge, another "
        "user model, or metrics that another model writes?",
        f"crosswind validate {report.analysis.benchmark} --replay evaluator",
        f"crosswind validate {report.analysis.benchmark} --swap evaluator --with NAME",
    )
    for text, ink in zip(texts, (Ink.MUTED, Ink.ACCENT, Ink.ACCENT), strict=True):
        yield from paragraph(text, width, ink=ink)


_OF_ALL: Final = (SAYS, METRICS, DIFFERENCES)
"""The sections for all benchmarks together."""
_WRITTEN: Final = frozenset({Stage.GEN_METRICS, Stage.GEN_SCENARIOS})
"""Stages whose rows determine what there is to score."""
_NONE: Final = (
    "There is no benchmark in this workspace yet.",
    "1 leads to the benchmarks, where o makes one.",
)


class TargetScreen(WatchingScreen, inherit_bindings=False):
    """Its rates, missing verdicts, samples and groups, then the pass rate by the end of each turn.
    Enter opens the verdicts behind a row."""

    def __init__(
        self, shell: Shell, report: Report, target: str, show: Callable[[VerdictScope], None]
    ) -> None:
        super().__init__(shell)
        self._report = report
        self._target = target
        self._show = show
        self._sheet = Sheet(id="section")

    def parts(self) -> Sequence[Widget]:
        return [self._sheet]

    def on_mount(self) -> None:
        name = self._report.analysis.benchmark
        words = [
            Piece(one_line(name) + "  ", Ink.ACCENT),
            Piece(one_line(self._target), Ink.STRONG),
        ]
        self.show_heading("Results", words)
        self._sheet.show(self._rows)
        self._sheet.focus()
        self.run_worker(self._load_plots(), group="load")

    async def _load_plots(self) -> None:
        await asyncio.to_thread(plot.load)
        self._sheet.show(self._rows)

    def _rows(self, width: int) -> list[SheetRow]:
        report = self._report
        result = report.analysis.target(self._target)
        if result is None:
            return []
        own = title(one_line(self._target), width, one_line(result.model))
        rows = [own._replace(key=VerdictScope((self._target,)))]
        for section in target_sections(report.analysis, result):
            rows += section_rows(section, width)
        if report.courses:
            rows += onset_rows(report.courses, self._target, width)
        return rows

    def on_cursor_view_opened(self) -> None:
        behind = self._sheet.cursor
        if isinstance(behind, VerdictScope):
            self._show(behind)
