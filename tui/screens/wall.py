"""A wall of live conversations: as many panes as fit."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, Final

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Container, Vertical
from textual.message import Message
from textual.widget import Widget

from engine.display import one_line
from engine.errors import StoreError
from engine.facts import Fact, Speech
from engine.watch import Watch
from tui.bindings import FROZEN
from tui.format import SPEAKER_NAMES
from tui.screens.base import FREEZE, Shell, WatchingScreen
from tui.state.explanations import (
    end_words,
    nobody_speaks,
)
from tui.state.follower import FollowedTalk, open_conversations
from tui.state.headline import elsewhere_words
from tui.state.related import Subject, TakeRef
from tui.state.run_status import (
    RunPhase,
    RunStatus,
    Snapshot,
    current_benchmark,
)
from tui.state.transcript import Dialogue, Thoughts
from tui.text.ink import Ink, Line, Piece
from tui.widgets.base import SIDE_BY_SIDE, Hinting
from tui.widgets.lines import OneLine
from tui.widgets.transcript import TranscriptView

MOST: Final = 9
THREE_ACROSS: Final = 170
"""In this many cells or more, three panes stand side by side."""
HIGH: Final = 18
"""The least height of a pane in rows."""


def panes_for(width: int, height: int) -> tuple[int, int]:
    """The number of panes side by side, and of rows of panes."""
    across = 3 if width >= THREE_ACROSS else 2 if width >= SIDE_BY_SIDE else 1
    return across, min(max((height - 2) // HIGH, 1 if across > 1 else 2), 3)


class PaneTranscript(TranscriptView, Hinting):
    """The text of a pane; Enter opens its conversation."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("enter", "open", "open")]

    def hint(self, action: str) -> str | None:
        """The hint of a key of this pane; see `Hinting`."""
        nothing = isinstance(self.parent, Pane) and self.parent.shown is None
        return "" if action == "open" and nothing else None

    class Opened(Message):
        """A user wants to read the pane's conversation."""

    def action_open(self) -> None:
        self.post_message(self.Opened())


class Pane(Vertical):
    """A pane that shows a conversation until a moment after its end."""

    def __init__(self, watch: Watch) -> None:
        super().__init__(classes="pane")
        self._watch = watch
        self.followed = FollowedTalk(watch)
        self._title = OneLine(fill=True)
        self._talk = PaneTranscript(follow=True)
        self._drawn: tuple[TakeRef | None, int] = (None, 0)
        """The conversation and its version as last drawn."""
        self.paused = False
        """Whether the run is paused, which the title says of a conversation that has not ended."""

    def compose(self) -> ComposeResult:
        yield self._title
        yield self._talk

    @property
    def shown(self) -> TakeRef | None:
        """The shown conversation; None if there is none."""
        return self.followed.follower.shown

    @property
    def talk(self) -> PaneTranscript:
        return self._talk

    def draw(self, speaking: Sequence[Speech], seconds: float, *, first: bool) -> None:
        """Draw the pane. `speaking` are live conversations that no other pane shows; `first` is
        whether it says so if there is none for it."""
        shown = self.followed.choose(speaking, seconds)
        if shown is None:
            words = "   nothing is being said" if first else ""
            self._title.show([Piece(words, Ink.FAINT)])
            return
        dialogue = self.followed.show(shown, Thoughts.HIDDEN)
        before, self._drawn = self._drawn, (shown, dialogue.version)
        if before[0] != shown:
            self._talk.show_another(self.followed.blocks(Thoughts.HIDDEN), follow=True)
        elif before != self._drawn:
            self._talk.show(self.followed.blocks(Thoughts.HIDDEN))
        self._draw_title(dialogue)

    def explain(self, status: RunStatus) -> None:
        """Say why no pane has a conversation to show."""
        self._title.show([Piece(" ")])
        self._talk.show(nobody_speaks(status))

    def _draw_title(self, dialogue: Dialogue) -> None:
        has_focus = self._talk.has_focus
        mark = Piece(" ▸ ", Ink.ACCENT) if has_focus else Piece("   ")
        name = Piece(one_line(str(dialogue.shown.key)), Ink.ACCENT if has_focus else Ink.STRONG)
        of = f" of {dialogue.turns}" if dialogue.turns else ""
        turn = [Piece(f"  turn {dialogue.turn}{of}", Ink.MUTED)] if dialogue.turn else []
        live = dialogue.live
        end: Line = ()
        if self.followed.follower.ended:
            awaited = self.followed.awaits_verdict
            end = end_words(dialogue, self._watch.jury, awaited=awaited)
        if self.paused and not end:
            end = [Piece("paused ", Ink.WARN)]
        elif live is not None and not end:
            turn.append(Piece(f"  {SPEAKER_NAMES[live.speaker]}", Ink.MUTED))
        place = elsewhere_words(dialogue.shown.benchmark, current_benchmark(self._watch))
        self._title.show([mark, name, *place, *turn], end)


class WallScreen(WatchingScreen, inherit_bindings=False):
    """Shows the live conversations in panes."""

    BINDINGS: ClassVar[list[BindingType]] = [
        FREEZE,
    ]

    def __init__(self, shell: Shell) -> None:
        super().__init__(shell)
        self._panes = [Pane(shell.watch) for _ in range(MOST)]
        self._wall = Container(*self._panes, id="wall")
        self._is_empty = False
        """Whether no pane has a conversation to show, so that the first one says why."""

    @property
    def subject(self) -> Subject | None:
        shown = next((pane.shown for pane in self._panes if pane.talk.has_focus), None)
        return None if shown is None else Subject(shown.benchmark, shown.key)

    def parts(self) -> Sequence[Widget]:
        return [self._wall]

    def on_mount(self) -> None:
        self._arrange()
        self._panes[0].talk.focus()

    def on_resize(self) -> None:
        self._arrange()

    def hint(self, action: str) -> str | None:
        if action != "freeze":
            return None
        if self.missed is not None:
            return FROZEN
        return None if any(pane.shown for pane in self._panes) else ""

    def receive(self, facts: Sequence[Fact]) -> None:
        if self.missed is not None:
            self.missed.receive(facts)
        for pane in self._panes:
            pane.followed.receive(facts)

    def draw(self, now: Snapshot) -> None:
        board, speaking, status = now.board, now.speaking, now.status
        waiting = f", {board.waiting_messages} waiting" if board and board.waiting_messages else ""
        words = [Piece(f"{board.spoken if board else 0} speaking{waiting}", Ink.MUTED)]
        if not speaking:
            words = [Piece(f"{status.glyph} {status.words}", status.ink)]
        if self.missed is not None:
            words = [Piece(self.missed.words, Ink.WARN)]
        self.show_heading("Wall", words)
        if self.missed is None and self.is_running:
            paused = status.phase is RunPhase.PAUSED and not speaking
            for pane in self._panes:
                pane.paused = paused
            self._draw_panes(self._held() if paused else speaking, now.seconds)
            self._explain(status)

    def _held(self) -> Sequence[Speech]:
        """The open conversations of a paused run; read only while a pane has room for one."""
        if all(pane.shown for pane in self._panes if pane.display) and not self._is_empty:
            return ()
        try:
            return open_conversations(self.watched, current_benchmark(self.watched), MOST)
        except StoreError:
            return ()  # what is shown in their place says that the run is paused

    def on_pane_transcript_opened(self) -> None:
        subject = self.subject
        if subject is not None:
            self.shell.navigator.open_conversation(*subject)

    def _arrange(self) -> None:
        across, down = (1, 1) if self._is_empty else panes_for(*self.app.size)
        self._wall.styles.grid_size_columns = across
        self._wall.styles.grid_size_rows = down
        for place, pane in enumerate(self._panes):
            pane.display = place < across * down

    def _explain(self, status: RunStatus) -> None:
        """Give the whole wall to the reason why it shows nothing, as long as it does."""
        is_empty = not any(pane.shown for pane in self._panes)
        if is_empty != self._is_empty:
            self._is_empty = is_empty
            self._arrange()
        if is_empty:
            self._panes[0].explain(status)

    def _draw_panes(self, speaking: Sequence[Speech], seconds: float) -> None:
        """Draw all panes; no conversation is in two of them."""
        seen, any_empty = [pane for pane in self._panes if pane.display], False
        taken = {(pane.shown.benchmark, pane.shown.key) for pane in seen if pane.shown}
        free = [speech for speech in speaking if (speech.benchmark, speech.key) not in taken]
        for pane in seen:
            own = pane.shown and (pane.shown.benchmark, pane.shown.key)
            mine = [speech for speech in speaking if (speech.benchmark, speech.key) == own]
            pane.draw([*mine, *free], seconds, first=not any_empty)
            any_empty |= pane.shown is None
            now = pane.shown and (pane.shown.benchmark, pane.shown.key)
            if now != own:
                # this pane has taken it, so the panes after it must not
                free = [speech for speech in free if (speech.benchmark, speech.key) != now]
