"""What is in the workspace, how far each benchmark is, and how its targets stand."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import ClassVar, Final

from rich.cells import cell_len
from textual import events
from textual.app import ComposeResult
from textual.binding import BindingType

from engine.benchmark import Stage, Track
from engine.display import one_line, plural
from engine.facts import Fact, StateChanged, VerdictGiven
from engine.link import Board
from engine.progress import StateCounts
from engine.watch import BenchmarkInfo, TargetInfo
from tui.bindings import key
from tui.format import READING, STAGE_NAMES, TRACK_SIGNS, UNKNOWN, money, percent
from tui.screens.base import Shell, WatchingScreen, heading
from tui.screens.dialogs import NameScreen
from tui.services.shell_commands import ShellCommand
from tui.services.ticker import begin
from tui.state.feeds import StandingFeed, Standings
from tui.state.run_status import Instant, current_benchmark, status_of
from tui.text.ink import Ink, Line, Piece, fitted, pad, spread
from tui.widgets.key_line import KeyLine
from tui.widgets.lines import Lines, OneLine
from tui.widgets.list import Entries, Entry

BAR: Final = 20


class BenchmarksScreen(WatchingScreen, inherit_bindings=False):
    """Draws from progress; how targets stand is worked out away from the loop."""

    BINDINGS: ClassVar[list[BindingType]] = [
        key("b", "begin", "run", "do what is missing of this benchmark"),
        key("B", "begin_all", "run all", "do what is missing of every benchmark", show=False),
        key("o", "new", "new", "make a benchmark"),
        key("e", "edit", "edit", "describe in $EDITOR what this benchmark measures"),
    ]

    def __init__(self, shell: Shell) -> None:
        super().__init__(shell)
        self._header = OneLine(id="header")
        self._list = Entries(id="benchmarks")
        self._detail = Lines(id="detail", high=True)
        self._board: Board | None = None
        self._infos: Sequence[BenchmarkInfo] | None = None
        """As they were drawn."""
        self._standings = StandingFeed(shell.watch.reader)
        self._changed = True
        self._made: str | None = None
        """A benchmark that the cursor goes to as soon as it is in the list."""

    def compose(self) -> ComposeResult:
        yield self._header
        yield self._list
        yield self._detail
        yield KeyLine()

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
                return None if self._info is not None and self._is_unfinished(self._info) else ""
            case "begin_all":
                return None if any(map(self._is_unfinished, self.watched.benchmarks)) else ""
            case "edit":
                return None if self._info is not None and self._info.definition else ""
            case _:
                return None

    def _is_unfinished(self, info: BenchmarkInfo) -> bool:
        """Whether anything of it is missing that is not worked on already."""
        tallies = [self._tally(info, stage) for stage in Stage]
        at_work = current_benchmark(self.watched) == info.name and self.shell.engine.at_work
        return not at_work and any(each.done < each.total or not each.total for each in tallies)

    def receive(self, facts: Sequence[Fact]) -> None:
        self._standings.receive(facts)
        self._changed |= any(isinstance(fact, StateChanged | VerdictGiven) for fact in facts)

    def draw(self, board: Board | None, moment: Instant) -> None:
        self._changed |= board != self._board or self.watched.benchmarks is not self._infos
        self._board, self._infos = board, self.watched.benchmarks
        self._ask_for_standings(moment.seconds)
        if self._changed and self.is_running:
            self._changed = False
            self._list.show([self._entry(info) for info in self.watched.benchmarks])
            if self._made is not None and self._list.go_to(self._made):
                self._made = None
            self._draw_detail()
        told = [Piece(plural(len(self.watched.benchmarks), "benchmark"), Ink.MUTED)]
        self._header.show(*heading(self, "Benchmarks", told))

    def action_begin(self) -> None:
        info = self._info
        if info is not None:
            self._run(info.name)

    def action_begin_all(self) -> None:
        self._run(*(info.name for info in self.watched.benchmarks))

    def action_new(self) -> None:
        taken = [info.name for info in self.watched.benchmarks]
        self.app.push_screen(NameScreen(taken), self._make)

    def _make(self, name: str | None) -> None:
        if name is not None:
            self.shell.engine.make_benchmark(name, partial(self._select, name))

    def _select(self, name: str) -> None:
        self._made, self._changed = name, True

    def action_edit(self) -> None:
        info = self._info
        if info is not None:
            self.shell.engine.edit_benchmark(info)

    def on_entries_opened(self, message: Entries.Opened) -> None:
        """The one that is worked on is watched live; of another one there are verdicts to read."""
        if message.key == current_benchmark(self.watched):
            self.shell.navigator.go("Live")
        else:
            self.shell.navigator.open_verdicts(f'benchmark:"={message.key}"')

    def on_cursor_view_moved(self) -> None:
        self._draw_detail()

    def _run(self, *names: str) -> None:
        if names:
            self.shell.engine.run(names)

    @property
    def _info(self) -> BenchmarkInfo | None:
        """What the cursor is on."""
        name = self._list.cursor
        return next((info for info in self.watched.benchmarks if info.name == name), None)

    def _ask_for_standings(self, seconds: float) -> None:
        info = self._info if self.watched.described else None
        if info is not None and self.is_mounted and self._standings.due(info.name, seconds):
            begin(self, partial(self._read, info.name, seconds), "read")

    async def _read(self, name: str, seconds: float) -> None:
        await self._standings.read(name, seconds)
        self._draw_detail()

    def _entry(self, info: BenchmarkInfo) -> Entry:
        state, ink = self._state(info)
        tallies = [self._tally(info, stage) for stage in (Stage.SIMULATE, Stage.EVALUATE)]
        done = sum(tally.done for tally in tallies)
        total = sum(tally.total for tally in tallies)
        filled = 0 if not total else done * BAR // 2 // total
        left = [
            Piece(" " + pad(one_line(info.name), 24, middle=True), Ink.STRONG),
            Piece(" " + "━" * filled, Ink.GOOD if done == total else Ink.ACCENT),
            Piece("─" * (BAR // 2 - filled), Ink.RULE),
            Piece("  " + pad(state, 24), ink),
            Piece(one_line(info.title), Ink.MUTED),
        ]
        return Entry(info.name, left)

    def _state(self, info: BenchmarkInfo) -> tuple[str, Ink]:
        """In words: whether it is worked on, and else how far it is."""
        where = status_of(self.watched.progress, self._board, info.name)
        current = current_benchmark(self.watched) == info.name
        if current and not where.phase.over:
            return where.phase.words, where.phase.ink
        tallies = [self._tally(info, stage) for stage in Stage]
        failed = sum(tally.failed for tally in tallies)
        if not any(tally.total for tally in tallies):
            return "nothing yet", Ink.MUTED
        if failed:
            return f"{failed} failed", Ink.BAD
        if all(tally.settled == tally.total for tally in tallies):
            return "✓ done", Ink.GOOD
        return "unfinished", Ink.WARN

    def _tally(self, info: BenchmarkInfo, stage: Stage) -> StateCounts:
        return self.watched.progress.stage_tally(info.name, stage)

    def _draw_detail(self) -> None:
        width = max(self.size.width - 2, 1)
        self._detail.show([fitted(line, width) for line in self._detail_lines(width)])

    def _detail_lines(self, width: int) -> list[Line]:
        info = self._info
        if info is None:
            return [[Piece(text, Ink.MUTED)] for text in _NONE]
        lines: list[Line] = [
            _rule(one_line(info.name), one_line(info.title), width),
            *_where(info),
            *(_stage(stage, self._tally(info, stage)) for stage in Stage),
            [],
            _rule("targets", "pass rate, 95 % interval, rows", width),
        ]
        found, fault = self._standings.of(info.name), self._standings.fault
        name = max([8, *(cell_len(one_line(target.id)) for target in info.targets)])
        lines += [self._target(info, each, found, min(name, 30)) for each in info.targets]
        if not self.watched.described:
            lines.append([Piece(f" {READING}", Ink.MUTED)])
        if fault is not None:
            lines.append([Piece(f" {one_line(fault)}", Ink.BAD)])
        return lines

    def _target(
        self, info: BenchmarkInfo, target: TargetInfo, found: Standings | None, name: int
    ) -> Line:
        progress = self.watched.progress.target(info.name, target.id)
        spent = money(progress.usage.cost_usd, scripted=target.scripted)
        rates = [_rate(track, found, target.id) for track in Track]
        return [
            Piece(" " + pad(one_line(target.id), name, middle=True) + "  ", Ink.STRONG),
            *(Piece(pad(text, 25)) for text in rates),
            Piece(spent, Ink.MUTED),
        ]


_NONE: Final = (
    " There is no benchmark in this workspace yet.",
    " o makes one: a folder with a file in which you describe what it measures.",
)


def _rule(title: str, note: str, width: int) -> Line:
    left = [Piece(f" {title} ", Ink.ACCENT)]
    return spread(left, [Piece(f" {note}", Ink.MUTED)], width, Piece("─", Ink.RULE))


def _where(info: BenchmarkInfo) -> list[Line]:
    """The file that says what it measures."""
    if info.definition is None:
        return []
    path = one_line(str(info.definition))
    return [[Piece(" " + pad("file", 11), Ink.MUTED), Piece(path)]]


def _stage(stage: Stage, tally: StateCounts) -> Line:
    done = 0 if not tally.total else tally.done * BAR // tally.total
    line = [
        Piece(" " + pad(STAGE_NAMES[stage], 11), Ink.MUTED),
        Piece("━" * done, Ink.GOOD if tally.done == tally.total else Ink.ACCENT),
        Piece("─" * (BAR - done), Ink.RULE),
    ]
    if not tally.total:
        return [*line, Piece("  nothing to do yet", Ink.FAINT)]
    line.append(Piece(f"  {tally.done} of {tally.total}"))
    if tally.running:
        line.append(Piece(f"  {tally.running} at work", Ink.ACCENT))
    if tally.failed:
        line.append(Piece(f"  {tally.failed} failed", Ink.BAD))
    return line


def _rate(track: Track, found: Standings | None, target: str) -> str:
    """`+ 81 % (70-89) of 32`."""
    sign = TRACK_SIGNS[track]
    if found is None:
        return f"{sign} …"
    rate = found.get((target, track))
    if rate is None:
        return f"{sign} {UNKNOWN}"
    low, high = percent(rate.interval.low), percent(rate.interval.high)
    return f"{sign} {percent(rate.rate)} % ({low}-{high}) of {rate.scored}"
