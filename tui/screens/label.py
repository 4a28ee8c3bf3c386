"""A person labels conversations blind, with what the evaluator sees and nothing else; and decides
about those that people have labelled differently."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, ClassVar, Final

from textual.binding import BindingType
from textual.containers import Horizontal
from textual.widget import Widget

from engine.display import display_text, one_line, plural
from engine.errors import CrosswindError, InputError
from engine.people import LabelAnswer, NumberedLabel
from engine.pipeline.labelling.labels import LONGEST_NOTE, BlindItem, Dispute
from tui.bindings import key
from tui.screens.base import Shell, WatchingScreen
from tui.screens.dialogs import ChoiceOption, ChoiceScreen, LineQuestion, LineScreen
from tui.services.label_queue import LabelQueue
from tui.services.ticker import begin
from tui.state.labelling import BlindLabelling, LabelForm, dispute_blocks, label_blocks
from tui.state.run_status import Snapshot
from tui.text.blocks import Block, Passage
from tui.text.ink import Ink, Line, Piece, shorten
from tui.text.wrap import wrapped_lines
from tui.widgets.lines import Lines, OneLine
from tui.widgets.transcript import BlindTranscript, TranscriptView

if TYPE_CHECKING:
    from engine.cli.person_labels import PersonDisputes, PersonSample


MOST_ASKED: Final = 0.25
"""Largest share of the screen's rows that the definition takes. A longer one is the beginning of
the transcript and scrolls with it."""
RETRY_SECONDS: Final = 3.0
"""How long to wait before labels that could not be stored are stored again."""

ANSWERS: Final = {
    ChoiceOption("p", "present", "the marked replies show it"): LabelAnswer.PRESENT,
    ChoiceOption("n", "absent", "no reply shows it"): LabelAnswer.ABSENT,
    ChoiceOption("c", "cannot tell", "this conversation does not say"): LabelAnswer.CANNOT_TELL,
}
_WHY: Final = LineQuestion("Why do you say so?", "why", "Enter saves it", LONGEST_NOTE)


class LabelScreen(WatchingScreen, inherit_bindings=False):
    """Shows only what the evaluator sees: no id, no metric's name, no verdict. The sample is drawn
    once, so no fact changes it."""

    blind = True
    BINDINGS: ClassVar[list[BindingType]] = [
        key("space", "mark_reply", "mark", "mark the reply under the cursor, or unmark it"),
        key("enter", "answer", "answer", "say whether the behaviour is there; asks once more"),
        key("u", "undo_label", "undo", "take back the last label and show that conversation again"),
        key("e", "note", "note", "write why"),
        key("1", "confidence(1)", "sure?", "you are unsure; pressed again, it is taken back"),
        key("2", "confidence(2)", "sure?", "you are fairly sure; pressed again, it is taken back"),
        key("3", "confidence(3)", "sure?", "you are sure; pressed again, it is taken back"),
        key("p", "pause_label", "freeze", "stop the clock and cover the transcript, or go on"),
    ]

    def __init__(self, shell: Shell, sample: PersonSample) -> None:
        super().__init__(shell)
        self._sample = sample
        self._unstored = LabelQueue(sample.store, sample.write_files)
        self._way = BlindLabelling(sample.labelling)
        self._person = one_line(sample.labelling.sample.person)
        self._benchmark = one_line(sample.labelling.sample.benchmark)
        self._read: dict[int, BlindItem] = {}
        self._retry_at: float | None = None
        self._seconds = 0.0
        self._asked = Lines(id="asked")
        self._story = BlindTranscript(id="story")
        self._said = OneLine(id="told", fill=True)

    def parts(self) -> Sequence[Widget]:
        return [self._asked, self._story, self._said]

    def on_mount(self) -> None:
        self._story.focus()
        self._go_on()

    def on_unmount(self) -> None:
        """Store the labels that wait, however the screen is left."""
        if self._unstored.waiting:
            try:
                self._take_back_refused(self._unstored.flush())
            except CrosswindError as error:
                self.shell.tell(str(error), bad=True)
        self._unstored.end()

    def hint(self, action: str) -> str | None:
        form = self._way.form
        match action:
            case "undo_label":
                return None if self._way.given else ""
            case "pause_label":
                return "go on" if self._way.paused else None if form is not None else ""
            case "mark_reply" if form is not None and self._story.reply in form.marked:
                return "unmark"
            case "mark_reply" | "answer" | "note" | "confidence":
                return "" if form is None or self._way.paused else None
            case _:
                return None

    def on_resize(self) -> None:
        form = self._way.form
        if form is not None and not self._way.paused:
            self._story.show(form.blocks(with_definition=not self._asks_whole(form)))
            self._draw_lines()

    def draw(self, now: Snapshot) -> None:
        self._seconds = now.seconds
        seen = self.shell.ticker.poll_timer.blurred_at is None
        self._way.look(now.seconds, seen=seen)
        if self._retry_at is not None and now.seconds >= self._retry_at:
            self._retry_at = None
            self._flush()
        self._draw_lines()

    # Keys

    def action_mark_reply(self) -> None:
        form = self._form()
        if form is not None and self._story.reply is not None:
            form.mark(self._story.reply)
            self._story.show(form.blocks(with_definition=not self._asks_whole(form)))
            self._draw_lines()

    def action_answer(self) -> None:
        form = self._form()
        if form is None:
            return
        marked = ", ".join(map(str, sorted(form.marked)))
        asked = [
            "Is the behaviour there?",
            f"marked: reply {marked}" if marked else "no reply marked",
        ]

        def answered(option: ChoiceOption | None) -> None:
            if option is not None:
                self._give_answer(ANSWERS[option])

        # what the marks say, for Enter to confirm
        begin_at = 0 if form.marked else 1
        self.app.push_screen(ChoiceScreen(asked, list(ANSWERS), begin=begin_at), answered)

    def action_confidence(self, sure: int) -> None:
        form = self._form()
        if form is not None:
            form.confidence = None if form.confidence == sure else sure
            self._draw_lines()

    def action_note(self) -> None:
        form = self._form()
        if form is None:
            return

        def noted(text: str | None) -> None:
            if text is not None:
                form.note = text
                self._draw_lines()

        self.app.push_screen(LineScreen(_WHY, form.note), noted)

    def action_undo_label(self) -> None:
        self._way.touch(self._seconds)
        taken = self._way.undo()
        if taken is None:
            self.shell.tell("Nothing is labelled yet.")
            return
        self._way.paused = False
        self._put_label(taken)
        self._go_on()

    def action_pause_label(self) -> None:
        self._way.touch(self._seconds)
        if self._way.form is not None:
            self._way.paused = not self._way.paused
            self._draw_story()

    def _form(self) -> LabelForm | None:
        """The form of the conversation on the screen, None while paused. Tells the clock that a key
        was pressed."""
        self._way.touch(self._seconds)
        return None if self._way.paused else self._way.form

    def _give_answer(self, answer: LabelAnswer) -> None:
        form = self._form()
        if form is None:
            return
        why = form.why_not(answer)
        if why is not None:
            self.shell.tell(why)
            return
        label = self._way.give(answer)
        if label is not None:
            self._put_label(label)
            self._go_on()

    # Storing and reading in the background

    def _put_label(self, label: NumberedLabel) -> None:
        self._unstored.put(label)
        self._flush()

    def _flush(self) -> None:
        # a worker of the app, because one of this screen would be cancelled with it
        begin(self.app, self._store, "labels")

    async def _store(self) -> None:
        try:
            refused = await asyncio.to_thread(self._unstored.flush)
        except CrosswindError as error:
            if self._retry_at is None:
                self.shell.tell(f"Not stored yet, tried again: {error}", bad=True)
            self._retry_at = self._seconds + RETRY_SECONDS
            return
        self._take_back_refused(refused)

    def _take_back_refused(self, refused: Sequence[tuple[int, str]]) -> None:
        """Ask again for labels that the store refused; leave a conversation out that was replaced
        by a new take meanwhile."""
        for number, why in refused:
            try:
                replaced = self._sample.is_replaced(number)
            except CrosswindError:
                replaced = False
            if replaced:
                self._way.leave_out(number)
                self.shell.tell("One conversation was played again meanwhile: it is left out.")
            else:
                self._way.ask_again(number)
                self.shell.tell(why, bad=True)
        if refused and self.is_running:
            self._go_on()

    def _go_on(self) -> None:
        """Show the current conversation, and read it and the next one where they are not read
        yet."""
        number = self._way.number
        if number is None or self._way.form is not None:
            self._draw_story()
        elif number in self._read:
            self._way.begin(self._read[number])
            self._draw_story()
        wanted = [item for item in (number, self._way.following) if item is not None]
        for item in wanted:
            if item not in self._read:
                begin(self, partial(self._fetch, item), "items")
        self._draw_lines()

    async def _fetch(self, number: int) -> None:
        try:
            self._read[number] = await asyncio.to_thread(self._sample.item, number)
        except CrosswindError as error:
            self.shell.tell(str(error), bad=True)
            return
        if number == self._way.number and self._way.form is None:
            self._go_on()

    # Drawing

    def _draw_story(self) -> None:
        form = self._way.form
        if self._way.number is None:
            self._story.show_item(self._done_blocks(), ())
        elif self._way.paused:
            self._story.show_item([_passage_of("paused", "The clock stands. p goes on.")], ())
        elif form is not None:
            whole = self._asks_whole(form)
            self._story.show_item(form.blocks(with_definition=not whole), form.replies)
        self._draw_lines()

    def _done_blocks(self) -> list[Block]:
        words = (
            f"All of this sample is labelled: {self._way.progress}.\n\n"
            f"`crosswind calibrate {self._benchmark}` compares the judge with your labels.\n"
            "Results in the app (4) shows the same, under labels.\n"
            f"`crosswind label {self._benchmark} --new` draws another sample.\n\n"
            "u takes the last label back, q leaves."
        )
        return [_passage_of("done", words)]

    def _draw_lines(self) -> None:
        form = self._way.form
        left: Line = [
            Piece(" Label  ", Ink.STRONG),
            Piece(f"{self._way.progress} labelled", Ink.ACCENT),
        ]
        self._header.show(left, [Piece(f"by {self._person}", Ink.MUTED), Piece(" ")])
        shown = form is not None and not self._way.paused
        self._asked.show(self._asked_lines(form) if form is not None and shown else ())
        self._said.show(self._told_line(form), self._stored_line())

    def _asked_rows(self, form: LabelForm) -> list[str]:
        text = one_line(form.item.definition, limit=len(form.item.definition))
        return wrapped_lines(display_text(text), self.app.size.width - 3)

    def _asks_whole(self, form: LabelForm) -> bool:
        """Whether the whole definition has room above the transcript."""
        return len(self._asked_rows(form)) <= self.app.size.height * MOST_ASKED

    def _asked_lines(self, form: LabelForm) -> list[Line]:
        rows = self._asked_rows(form)
        if not self._asks_whole(form):
            rows = [shorten(" ".join(rows[:2]), self.app.size.width - 3)]
        return [[Piece(f" {row}", Ink.STRONG)] for row in rows]

    def _told_line(self, form: LabelForm | None) -> list[Piece]:
        if form is None:
            return []
        marked = ", ".join(map(str, sorted(form.marked)))
        line = [Piece(f" number {form.item.number}", Ink.MUTED)]
        if marked:
            line.append(Piece(f"  marked: reply {marked}", Ink.GOOD))
        if form.confidence is not None:
            line.append(Piece(f"  sure: {form.confidence} of 3", Ink.ACCENT))
        if form.note:
            line.append(Piece(f"  note: {one_line(form.note)}", Ink.TEXT))
        return line

    def _stored_line(self) -> list[Piece]:
        waiting = self._unstored.waiting
        if self._retry_at is not None and waiting:
            return [Piece(f"{waiting} not stored yet", Ink.WARN)]
        return []


def _passage_of(label: str, text: str) -> Passage:
    return Passage(label, label, text, Ink.ACCENT, Ink.TEXT)


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
