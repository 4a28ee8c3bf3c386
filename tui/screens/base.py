"""The base class of the screens that show a run, what the app hands to each of them, and the shell
commands that do outside the app what a screen does."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Hashable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, Final, NamedTuple, Protocol

from textual.app import ComposeResult
from textual.screen import Screen
from textual.widget import Widget

from engine.cli.console import program
from engine.display import display_text
from engine.errors import CrosswindError, StoreError
from engine.facts import Fact
from engine.watch import Watch
from tui.bindings import key
from tui.format import READING, ROOM_FOR_NOTICE, scripted_words
from tui.navigation import Navigator
from tui.services.engine_control import EngineControl
from tui.services.preferences import Preferences
from tui.services.ticker import Ticker, Watching
from tui.state.related import Subject
from tui.state.run_status import Snapshot, UnseenCounts
from tui.text.blocks import Block, Passage
from tui.text.ink import MEANINGFUL, Ink, Line, Piece, length, shorten
from tui.widgets.base import (
    BREAKPOINTS_ACROSS,
    BREAKPOINTS_DOWN,
    NOT_TINY,
    SIDE_BY_SIDE,
    Hinting,
    LineView,
)
from tui.widgets.key_line import KeyLine
from tui.widgets.lines import OneLine
from tui.widgets.transcript import TranscriptView


class ShellCommand(NamedTuple):
    """A `crosswind` command that a screen offers to copy."""

    key: str
    """The letter that chooses it in the list of commands."""
    words: tuple[str, ...]
    """Its arguments, without `crosswind` itself."""

    def line(self, workspace: Path) -> str:
        """The whole command, quoted for a shell and to be run in the current folder."""
        words = [program(), *self.words]
        if workspace.resolve() != Path.cwd():
            words += ["--workspace", str(workspace)]
        return shlex.join(words)


def show_command(subject: Subject) -> ShellCommand:
    """The command that prints this conversation."""
    words = ("show", str(subject.key), "--benchmark", subject.benchmark)
    return ShellCommand("c", words)


def judging_again(
    subjects: Sequence[Subject], evaluator: str | None = None
) -> Sequence[ShellCommand]:
    """The command that judges these conversations again; none where they belong to several
    benchmarks, because `crosswind evaluate` takes the ids of one."""
    benchmarks = {subject.benchmark for subject in subjects}
    if len(benchmarks) != 1:
        return ()
    words = ("evaluate", *(str(subject.key) for subject in subjects))
    by = () if evaluator is None else ("--evaluator", evaluator)
    command = (*words, "--benchmark", *benchmarks, *by)
    return (ShellCommand("r", command),)


class ShowNotice(Protocol):
    """Shows a notice. The text may come from a model or a file: it is never read as markup."""

    def __call__(self, text: str, *, bad: bool = False) -> None: ...


@dataclass(frozen=True, slots=True)
class Shell:
    """What a screen may use of the app. Nothing here blocks, unless its docstring says so."""

    watch: Watch
    ticker: Ticker
    engine: EngineControl
    preferences: Preferences
    navigator: Navigator
    tell: ShowNotice
    draw: Callable[[Watching], None]
    """Has a screen that is being opened draw what is known, without waiting for the next tick."""
    use_theme: Callable[[str], None]

    @contextmanager
    def telling(self) -> Iterator[None]:
        """Ends what is done within at its first error, and tells that."""
        try:
            yield
        except CrosswindError as error:
            self.tell(str(error), bad=True)


def heading(screen: WatchingScreen, name: str | Line, words: Line) -> tuple[Line, Line]:
    """The left and the right end of a screen's first line: its name with the given `words`, and a
    notice where scripted models play a part. Where room is short, the program's name is dropped
    first, then words of the notice, then the end of the first word."""
    width = screen.app.size.width
    title = [Piece(name, Ink.STRONG)] if isinstance(name, str) else name
    place: Line = [*title, Piece("  "), *words]
    named: Line = [Piece(" "), Piece("Crosswind  ", Ink.ACCENT), *place]
    if width < ROOM_FOR_NOTICE:
        choices: list[tuple[Line, Line]] = [([Piece(" "), *place], _notice(screen, roomy=False))]
    else:
        choices = [
            (named, _notice(screen, roomy=True)),
            ([Piece(" "), *place], _notice(screen, roomy=True)),
            ([Piece(" "), *place], _notice(screen, roomy=False)),
        ]
    for left, right in choices:
        if length(left) + length(right) < width:
            return left, right
    # what follows the first word, such as how complete the figures are, is cut after it
    room = width - length(left) - length(right) - 1 + length(words[:1])
    short = [piece._replace(text=shorten(piece.text, max(room, MEANINGFUL))) for piece in words[:1]]
    return [Piece(" "), *title, Piece("  "), *short, *words[1:]], right


def _notice(screen: WatchingScreen, *, roomy: bool) -> Line:
    if not screen.watched.described:
        return [Piece(READING, Ink.MUTED), Piece(" ")]
    infos = screen.watched.benchmarks
    scripted = [info for info in infos if info.scripted]
    if not scripted:
        return ()
    words = scripted_words(scripted[0].scripts, roomy=roomy)
    if len(scripted) < len(infos):
        words = "some benchmarks scripted"
    elif len({info.scripts for info in infos}) > 1:
        words = "some parts scripted"
    return [Piece(words, Ink.WARN), Piece(" ")]


DEFINITION: Final = key(
    "d", "definition", "definition", "show what the metric asks, its direction, where it counts"
)
"""The key of all screens that can show the metric of a conversation."""
FREEZE: Final = key("p", "freeze", "freeze", "freeze the display; the run goes on")
VARIANTS: Final = key(
    "v", "scenario", "variants", "open its scenario: all targets, samples and variants"
)
_ZOOMED: Final = "-zoomed"
"""Class of the pane that is shown alone and of the widgets that contain it."""


def _class_for_size(size: int, breakpoints: Sequence[tuple[int, str]]) -> str:
    return next(name for least, name in reversed(breakpoints) if least <= size)


def fault_passage(fault: object, label: str = "store") -> Passage:
    """What says, in the place of a text, why that cannot be read."""
    return Passage("fault", label, display_text(str(fault)), Ink.BAD, Ink.BAD)


class WatchingScreen(Screen[None], Hinting, inherit_bindings=False):
    """A screen that draws what the store and the engine's link say, between a header and a footer.
    It keeps no data of its own, so that closing it loses nothing."""

    HORIZONTAL_BREAKPOINTS = BREAKPOINTS_ACROSS
    VERTICAL_BREAKPOINTS = BREAKPOINTS_DOWN
    ZOOM_KEEPS: ClassVar[str] = "#header, #title, #metric, #told, #headings, KeyLine"
    """Selector of what stays visible beside a pane that is shown alone."""
    blind: ClassVar[bool] = False
    """Whether its reader labels blind and must not learn which conversation is shown."""

    def __init__(self, shell: Shell) -> None:
        super().__init__()
        self.shell = shell
        self.watched = shell.watch
        self._header = OneLine(id="header")
        self.missed: UnseenCounts | None = None
        """Counts what has arrived since the display was frozen; None while it is not."""
        self.zoomed: Widget | None = None
        """The pane that is shown alone; None while all are shown."""
        self._away: list[Widget] = []
        """The widgets that were hidden for it."""

    def compose(self) -> ComposeResult:
        yield self._header
        yield from self.parts()
        yield KeyLine()

    def parts(self) -> Sequence[Widget]:
        """What stands between the header and the footer."""
        return ()

    @property
    def is_wide(self) -> bool:
        """Whether there is room for two sheets side by side, told from the terminal's size: the
        screen itself has none before its first layout."""
        width, height = self.app.size
        return width >= SIDE_BY_SIDE and height >= NOT_TINY

    def on_mount(self) -> None:
        self.shell.ticker.listeners.add(self)
        # Textual sets these classes after the first layout, which would have to be done twice;
        # it applies the styles when the screen is shown
        both = zip(self.app.size, (BREAKPOINTS_ACROSS, BREAKPOINTS_DOWN), strict=True)
        classes = (_class_for_size(size, breakpoints) for size, breakpoints in both)
        self.add_class(*classes, update=False)
        self.shell.draw(self)  # otherwise the first frame would be empty

    def on_unmount(self) -> None:
        self.shell.ticker.listeners.discard(self)

    @property
    def subject(self) -> Subject | None:
        """The conversation that copy, export and pager act on; None where there is none."""
        return None

    @property
    def scenario(self) -> tuple[str, str] | None:
        """Benchmark and scenario id of the conversation that is open or has the cursor; None where
        there is none."""
        subject = self.subject
        return None if subject is None else (subject.benchmark, subject.key.scenario_id)

    @property
    def chosen(self) -> Sequence[Subject]:
        """The conversations that are judged or played again; by default, the one it is about."""
        return [] if self.subject is None else [self.subject]

    def show_heading(self, name: str | Line, words: Line) -> None:
        """Draw the first line."""
        self._header.show(*heading(self, name, words))

    def action_judge_again(self) -> None:
        self.shell.navigator.judge_again(self.chosen)

    def action_play_again(self) -> None:
        self.shell.navigator.play_again(self.chosen)

    def action_scenario(self) -> None:
        """Open the scenario of the conversation, with the cursor on that."""
        if self.subject is not None:
            benchmark, conversation = self.subject
            scenario = conversation.scenario_id
            self.shell.navigator.open_scenario(benchmark, scenario, cursor=conversation)

    def action_freeze(self) -> None:
        """Let what is drawn stand still, or move on."""
        self.missed = UnseenCounts() if self.missed is None else None

    def action_definition(self) -> None:
        """Open the card with the metric of the current scenario."""
        if self.scenario is not None:
            self.shell.navigator.open_definition(*self.scenario)

    @property
    def commands(self) -> Sequence[ShellCommand]:
        """The shell commands that do outside the app what this screen does."""
        subject = self.subject
        return [] if subject is None else [show_command(subject), *judging_again([subject])]

    def zoom(self) -> None:
        """Show the focused pane alone, or all panes again."""
        if self.zoomed is not None:
            self._unzoom()
        elif self.focused is not None:
            self._zoom_to(self.focused)

    def _zoom_to(self, pane: Widget) -> None:
        """Hide everything but `pane`, its containers and `ZOOM_KEEPS`. Textual's own `maximize`
        would put those below the pane."""
        self.zoomed = pane
        shown = {pane, *self.query(self.ZOOM_KEEPS)}
        for node in pane.ancestors_with_self:
            if node is self or not isinstance(node, Widget):
                break
            node.add_class(_ZOOMED)
            beside = () if node.parent is None else node.parent.children
            inside = node.parent is not self
            for other in set(beside) - shown - {node}:
                is_title = inside and isinstance(other, LineView) and not other.can_focus
                if other.display and not is_title:
                    # inline and not by a class, which takes effect later: a widget that is shown
                    # again may be given the focus at once
                    other.styles.display = "none"
                    self._away.append(other)

    def _unzoom(self) -> None:
        for other in self._away:
            other.styles.inline.clear_rule("display")
        for node in self.query(f".{_ZOOMED}"):
            node.remove_class(_ZOOMED)
        self.zoomed = None
        self._away = []

    def focus_pane(self, pane: Widget) -> None:
        """Give a pane the focus at once, because the next key may be meant for it; where another
        pane is shown alone, show all of them."""
        if self.zoomed is not None and pane is not self.zoomed:
            self._unzoom()
        self.set_focus(pane)

    def on_descendant_focus(self) -> None:
        """Show all panes again where the focus has gone to one that is hidden."""
        if self.zoomed is not None and self.focused is not self.zoomed:
            self._unzoom()

    def receive(self, facts: Sequence[Fact]) -> None:
        """Note what these facts change; draws nothing. By default, they change nothing."""

    def draw(self, now: Snapshot) -> None:
        """Draw what has changed; by default nothing. It may be called before the screen is up, and
        while it goes."""


class ReadingScreen(WatchingScreen, inherit_bindings=False):
    """A screen about conversations of one scenario, which reads the store anew when a fact changes
    what it shows. Below its first line stand a title and what is measured."""

    def __init__(self, shell: Shell) -> None:
        super().__init__(shell)
        self._title = OneLine(id="title")
        self._asked = OneLine(id="metric")
        self.stale = True
        """Whether the store has more than is shown."""
        self.fault: str | None = None
        """Why the store could not be read."""
        self._was_wide: bool | None = None

    def concerns(self, fact: Fact) -> bool:
        """Whether a fact changes what is shown."""
        raise NotImplementedError

    def read(self) -> None:
        """Read the store. Raises `StoreError`."""
        raise NotImplementedError

    def show_text(self) -> None:
        """Show what was read, or `fault`."""
        raise NotImplementedError

    def draw_lines(self) -> None:
        """Draw the lines above the text."""
        raise NotImplementedError

    def receive(self, facts: Sequence[Fact]) -> None:
        self.stale |= any(map(self.concerns, facts))

    def has_news(self, now: Snapshot) -> bool:
        """Whether what is shown has changed, but for what the store has."""
        del now
        return False

    def draw(self, now: Snapshot) -> None:
        if not self.is_running:
            return
        if self.missed is None:
            changed = self.stale or self._was_wide != self.is_wide
            self._was_wide = self.is_wide
            if self.stale:
                self._load()
            if self.has_news(now) or changed:
                self.show_text()
        self.draw_lines()

    def draw_anew(self) -> None:
        """Read and draw now."""
        self.stale = True
        self.draw(self.shell.ticker.now)

    def _load(self) -> None:
        self.stale = False
        try:
            self.read()
            self.fault = None
        except StoreError as error:
            self.fault = str(error)


class ListScreen(WatchingScreen, inherit_bindings=False):
    """A screen with a list, and below it a text about what the cursor is on."""

    def __init__(self, shell: Shell) -> None:
        super().__init__(shell)
        self._detail = TranscriptView(follow=False, id="detail")
        self._detailed: Hashable = None
        """What the text is about."""

    def detail(self) -> tuple[Hashable, Sequence[Block]]:
        """What the cursor is on, and the text about it. Raises `StoreError`."""
        raise NotImplementedError

    def on_cursor_view_moved(self) -> None:
        self.draw_detail()

    def draw_detail(self) -> None:
        """Show the text; what is read of it stays in place while it is about the same."""
        before = self._detailed
        try:
            self._detailed, blocks = self.detail()
        except StoreError as error:
            self._detailed, blocks = None, [fault_passage(error)]
        if before is not None and before == self._detailed:
            self._detail.show(blocks)
        else:
            self._detail.show_another(blocks, follow=False)
