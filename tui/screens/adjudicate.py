"""A person decides about conversations that other people have labelled differently."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, ClassVar

from textual.binding import BindingType
from textual.containers import Horizontal
from textual.widget import Widget

from engine.display import one_line, plural
from engine.errors import CrosswindError, InputError
from engine.pipeline.labelling.labels import LONGEST_NOTE, Dispute
from engine.pipeline.labelling.requests import LabelAnswer
from tui.bindings import key
from tui.screens.base import Shell, WatchingScreen
from tui.screens.dialogs import ChoiceOption, ChoiceScreen, LineQuestion, LineScreen
from tui.screens.label import ANSWERS
from tui.services.ticker import begin
from tui.state.labelling import dispute_blocks, label_blocks
from tui.text.blocks import Passage
from tui.text.ink import Ink, Piece
from tui.widgets.transcript import TranscriptView

if TYPE_CHECKING:
    from engine.cli.person_labels import PersonDisputes


class AdjudicateScreen(WatchingScreen, inherit_bindings=False):
    """Shows what the labellers saw and what they answered, and no judge's verdict. No fact
    changes it: the disagreements were read when it was opened."""

    blind = True
    BINDINGS: ClassVar[list[BindingType]] = [
        key("enter", "answer", "answer", "say whether the behaviour is there; asks why"),
        key("u", "undo_decision", "undo", "take back what you decided last"),
        key(
            "right_square_bracket",
            "dispute(1)",
            "next",
            "the next conversation that people disagree on",
        ),
        key("left_square_bracket", "dispute(-1)", "previous", "the previous one"),
    ]

    def __init__(self, shell: Shell, source: PersonDisputes) -> None:
        super().__init__(shell)
        self._source = source
        self._open = list(source.disputes)
        self._at = 0
        self._decided: list[Dispute] = []
        """The decisions made on this screen, in order."""
        self._storing = asyncio.Lock()
        self._story = TranscriptView(follow=False, id="story")
        self._people = TranscriptView(follow=False, id="people")

    def parts(self) -> Sequence[Widget]:
        return [Horizontal(self._people, self._story, id="sides")]

    def on_mount(self) -> None:
        self._story.focus()
        self._show()

    def hint(self, action: str) -> str | None:
        match action:
            case "answer":
                return None if self._open else ""
            case "undo_decision":
                return None if self._decided else ""
            case "dispute":
                return None if len(self._open) > 1 else ""
            case _:
                return None

    def action_dispute(self, step: int) -> None:
        if self._open:
            self._at = (self._at + step) % len(self._open)
            self._show()

    def action_answer(self) -> None:
        def answered(option: ChoiceOption | None) -> None:
            if option is not None:
                self._ask_why(present=ANSWERS[option] is LabelAnswer.PRESENT)

        if self._open:
            options = [each for each in ANSWERS if ANSWERS[each] is not LabelAnswer.CANNOT_TELL]
            self.app.push_screen(ChoiceScreen("Is the behaviour there?", options), answered)

    def action_undo_decision(self) -> None:
        if self._decided:
            begin(self.app, partial(self._take_back, self._decided[-1]), "labels")
        else:
            self.shell.tell("Nothing was decided here.")

    async def _take_back(self, dispute: Dispute) -> None:
        async with self._storing:
            if dispute not in self._decided:
                return
            try:
                await asyncio.to_thread(self._source.take_back, dispute)
            except CrosswindError as error:
                self.shell.tell(f"Not undone: {error}", bad=True)
                return
            self._decided.remove(dispute)
            self._open.insert(self._at, dispute)
        if self.is_running:
            self._show()

    def _ask_why(self, *, present: bool) -> None:
        if not self._open:
            return
        dispute = self._open[self._at]
        verdict = "present" if present else "absent"
        question = LineQuestion(
            f"Why is it {verdict}?", "why", "Enter saves it", LONGEST_NOTE, required=True
        )

        def reasoned(reason: str | None) -> None:
            if reason is not None:
                decide = partial(self._decide, dispute, reason, present=present)
                begin(self.app, decide, "labels")

        self.app.push_screen(LineScreen(question), reasoned)

    async def _decide(self, dispute: Dispute, reason: str, *, present: bool) -> None:
        try:
            async with self._storing:
                decide = partial(self._source.decide, dispute, present=present, reason=reason)
                await asyncio.to_thread(decide)
                self._decided.append(dispute)
        except InputError as error:  # somebody else has decided, or it was played again
            self.shell.tell(str(error), bad=True)
        except CrosswindError as error:
            self.shell.tell(f"Not stored: {error}", bad=True)
            return
        if dispute in self._open:
            self._open.remove(dispute)
            self._at = min(self._at, max(len(self._open) - 1, 0))
        if self.is_running:
            self._show()

    def _show(self) -> None:
        left = [Piece(" Adjudicate  ", Ink.STRONG)]
        if self._open:
            dispute = self._open[self._at]
            left.append(Piece(f"{self._at + 1} of {plural(len(self._open), 'disagreement')}"))
            self._people.show_another(list(label_blocks(dispute)), follow=False)
            self._story.show_another(list(dispute_blocks(dispute)), follow=False)
        else:
            done = "There is nothing to decide: people agree wherever several have labelled."
            self._people.show_another([], follow=False)
            self._story.show_another([Passage("done", "", done)], follow=False)
        person = one_line(self._source.person)
        self._header.show(left, [Piece(f"by {person}", Ink.MUTED), Piece(" ")])
        self.refresh_bindings()
