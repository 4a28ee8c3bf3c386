"""What the app hands to each of its screens, what the screens that show a run have in common, and
the shell commands that do the same outside the app."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, Final, NamedTuple, Protocol

from textual.screen import Screen
from textual.widget import Widget

from engine.facts import Fact
from engine.link import Board
from engine.watch import Watch
from tui.bindings import key
from tui.format import READING, ROOM_FOR_NOTICE, scripted_words
from tui.navigation import Navigator
from tui.services.engine_control import EngineControl
from tui.services.preferences import Preferences
from tui.services.ticker import Ticker, Watching
from tui.state.related import Subject
from tui.state.run_status import Instant
from tui.text.ink import Ink, Line, Piece, length
from tui.widgets.base import BREAKPOINTS_ACROSS, BREAKPOINTS_DOWN, LineView

if TYPE_CHECKING:
    from tui.state.related import Subject


class ShellCommand(NamedTuple):
    """A command of `crosswind`, without that word."""

    key: str
    """One letter, to choose it by."""
    words: tuple[str, ...]

    def line(self, workspace: Path) -> str:
        """Whole, and to be run where one is."""
        words = ["crosswind", *self.words]
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
    """Where all of them are of one benchmark, as the command takes no others."""
    benchmarks = {subject.benchmark for subject in subjects}
    if len(benchmarks) != 1:
        return ()
    words = ("evaluate", *(str(subject.key) for subject in subjects))
    by = () if evaluator is None else ("--evaluator", evaluator)
    command = (*words, "--benchmark", *benchmarks, *by)
    return (ShellCommand("r", command),)


class ShowNotice(Protocol):
    """Shows a notice, whoever its text is from."""

    def __call__(self, text: str, *, bad: bool = False) -> None: ...


@dataclass(frozen=True, slots=True)
class Shell:
    """The app, as its screens see it. Nothing here waits for anything, unless it says so."""

    watch: Watch
    ticker: Ticker
    engine: EngineControl
    preferences: Preferences
    navigator: Navigator
    tell: ShowNotice
    draw: Callable[[Watching], None]
    """Has a screen that comes up draw what is known, without waiting for the next look."""
    use_theme: Callable[[str], None]


def heading(screen: WatchingScreen, name: str, told: Line) -> tuple[Line, Line]:
    """Both ends of a screen's first line: its name with some words about it, and whether scripts
    play a part. Where room is short, the program's name is dropped first, then words of the
    notice."""
    width = screen.app.size.width
    place: Line = [Piece(name + "  ", Ink.STRONG), *told]
    named: Line = [Piece(" "), Piece("Crosswind  ", Ink.ACCENT), *place]
    if width < ROOM_FOR_NOTICE:
        choices: list[tuple[Line, Line]] = [([Piece(" "), *place], _notice(screen, roomy=False))]
    else:
        choices = [
            (named, _notice(screen, roomy=True)),
            ([Piece(" "), *place], _notice(screen, roomy=True)),
            ([Piece(" "), *place], _notice(screen, roomy=False)),
        ]
    fits = (one for one in choices if length(one[0]) + length(one[1]) < width)
    return next(fits, choices[-1])


def _notice(screen: WatchingScreen, *, roomy: bool) -> Line:
    if not screen.watched.described:
        return [Piece(READING, Ink.MUTED), Piece(" ")]
    infos = screen.watched.benchmarks
    scripted = [info for info in infos if info.scripted]
    if not scripted:
        return ()
    words = scripted_words(scripted[0].scripts, roomy=roomy)
    if len({(info.scripted, info.scripts) for info in infos}) > 1:
        words = "some benchmarks scripted"
    return [Piece(words, Ink.WARN), Piece(" ")]


DEFINITION: Final = key(
    "d", "definition", "definition", "show what the metric asks, its direction, and where it counts"
)
"""For screens that know what a conversation is judged by."""
_ZOOMED: Final = "-zoomed"
"""What a pane that is shown alone is, and what it stands in."""


def _class_for_size(size: int, breakpoints: Sequence[tuple[int, str]]) -> str:
    return next(name for least, name in reversed(breakpoints) if least <= size)


class WatchingScreen(Screen[None], inherit_bindings=False):
    """Is rebuilt from what is watched, and owns nothing that could be lost."""

    HORIZONTAL_BREAKPOINTS = BREAKPOINTS_ACROSS
    VERTICAL_BREAKPOINTS = BREAKPOINTS_DOWN
    ZOOM_KEEPS: ClassVar[str] = "#header, #title, #metric, #told, #headings, KeyLine"
    """What stays beside a pane that is shown alone."""
    blind: ClassVar[bool] = False
    """Whether its reader must not learn which part of the workspace it shows."""

    def __init__(self, shell: Shell) -> None:
        super().__init__()
        self.shell = shell
        self.watched = shell.watch
        self.zoomed: Widget | None = None
        """The pane that is shown alone."""
        self._away: list[Widget] = []
        """What gave way to it."""

    def on_mount(self) -> None:
        self.shell.ticker.listeners.add(self)
        # before it is laid out for the first time: Textual does it afterwards, and lays it out anew
        both = zip(self.app.size, (BREAKPOINTS_ACROSS, BREAKPOINTS_DOWN), strict=True)
        self.add_class(*(_class_for_size(size, breakpoints) for size, breakpoints in both))
        self.shell.draw(self)  # so that the first frame is no empty one

    def on_unmount(self) -> None:
        self.shell.ticker.listeners.discard(self)

    @property
    def subject(self) -> Subject | None:
        """What is copied, exported and read in the pager from here; None where there is none."""
        return None

    def hint(self, action: str) -> str | None:
        """What a key of the screen would do now; see `Hinting`."""
        del action
        return None

    @property
    def scenario(self) -> tuple[str, str] | None:
        """The benchmark and the id of the scenario whose conversation is read, or has the cursor;
        None where there is none."""
        subject = self.subject
        return None if subject is None else (subject.benchmark, subject.key.scenario_id)

    def action_definition(self) -> None:
        """What is asked of the conversation that is read, over the screen."""
        if self.scenario is not None:
            self.shell.navigator.open_definition(*self.scenario)

    @property
    def commands(self) -> Sequence[ShellCommand]:
        """What does outside the app what is done here."""
        subject = self.subject
        return [] if subject is None else [show_command(subject), *judging_again([subject])]

    def zoom(self) -> None:
        """The pane with the focus alone, or all of them again."""
        if self.zoomed is not None:
            self._unzoom()
        elif self.focused is not None:
            self._zoom_to(self.focused)

    def _zoom_to(self, pane: Widget) -> None:
        """Textual's own way to do it takes what is shown beside the pane below it."""
        self.zoomed = pane
        kept = {pane, *self.query(self.ZOOM_KEEPS)}
        for node in pane.ancestors_with_self:
            if node is self or not isinstance(node, Widget):
                break
            node.add_class(_ZOOMED)
            beside = () if node.parent is None else node.parent.children
            inside = node.parent is not self
            for other in set(beside) - kept - {node}:
                is_title = inside and isinstance(other, LineView) and not other.can_focus
                if other.display and not is_title:
                    # at once, and not by a class: what is shown again may have the focus next
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
        """At once: the next key is for it already. Where another is shown alone, beside it."""
        if self.zoomed is not None and pane is not self.zoomed:
            self._unzoom()
        self.set_focus(pane)

    def on_descendant_focus(self) -> None:
        """Whoever goes to another pane wants to see it."""
        if self.zoomed is not None and self.focused is not self.zoomed:
            self._unzoom()

    def receive(self, facts: Sequence[Fact]) -> None:
        """Note what these facts change; draws nothing."""
        raise NotImplementedError

    def draw(self, board: Board | None, moment: Instant) -> None:
        """Draw what has changed. It may be called before the screen is up, and while it goes."""
        raise NotImplementedError
