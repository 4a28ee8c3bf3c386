"""The base class of the screens that show a run, what the app hands to each of them, and the shell
commands that do outside the app what a screen does."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, Final, NamedTuple, Protocol

from textual.app import ComposeResult
from textual.screen import Screen
from textual.widget import Widget

from engine.cli.console import program
from engine.display import display_text
from engine.facts import Fact
from engine.watch import Watch
from tui.bindings import key
from tui.format import READING, ROOM_FOR_NOTICE, scripted_words
from tui.navigation import Navigator
from tui.services.engine_control import EngineControl
from tui.services.preferences import Preferences
from tui.services.ticker import Ticker, Watching
from tui.state.related import Subject
from tui.state.run_status import Snapshot
from tui.text.blocks import Passage
from tui.text.ink import Ink, Line, Piece, length
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

if TYPE_CHECKING:
    from tui.state.related import Subject


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


def heading(screen: WatchingScreen, name: str | Line, words: Line) -> tuple[Line, Line]:
    """The left and the right end of a screen's first line: its name with the given `words`, and a
    notice where scripted models play a part. Where room is short, the program's name is dropped
    first, then words of the notice."""
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
    fits = (choice for choice in choices if length(choice[0]) + length(choice[1]) < width)
    return next(fits, choices[-1])


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
