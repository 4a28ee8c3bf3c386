"""The state of blind labelling: a labeller's position in a sample, answers, undo and reading time,
without knowing which conversations these are. And the blocks of a disputed conversation, for
whoever decides it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final

from engine.benchmark import Speaker
from engine.display import display_text, one_line
from engine.people import GivenLabel, LabelAnswer, NumberedLabel
from engine.pipeline.labelling.labels import (
    BlindItem,
    Dispute,
    LabellingProgress,
    answer_given,
)
from engine.store.tables import MessageRow, Verdict
from tui.text.blocks import Block, Passage, Rule
from tui.text.ink import Ink

LONGEST_LOOK: Final = 2.0
"""If two looks are more seconds apart than this, the screen was not visible in between."""
IDLE_SECONDS: Final = 120.0
"""Seconds without a key press after which reading is taken to have stopped."""


@dataclass(slots=True)
class LabelForm:
    """A labeller's answer to one conversation, in progress."""

    item: BlindItem
    marked: set[int] = field(default_factory=set)
    """The turns of replies marked as showing the behaviour."""
    note: str = ""
    confidence: int | None = None
    seconds: float = 0.0
    """The reading time in seconds."""

    @property
    def replies(self) -> list[int]:
        """The turns in which the assistant replied."""
        return [row.turn for row in self.item.messages if row.speaker is Speaker.TARGET]

    def mark(self, turn: int) -> None:
        """Mark a reply, or remove its mark."""
        self.marked ^= {turn}

    def why_not(self, answer: LabelAnswer) -> str | None:
        """Why the answer cannot be given; None if it can."""
        if answer is LabelAnswer.PRESENT and not self.marked:
            return "Mark the replies that show it: Space."
        if answer is LabelAnswer.ABSENT and self.marked:
            return (
                "Replies are marked as showing it: take the marks away (Space), or answer present."
            )
        return None

    def label(self, answer: LabelAnswer) -> NumberedLabel:
        replies = tuple(sorted(self.marked)) if answer is LabelAnswer.PRESENT else ()
        given_label = GivenLabel(
            answer, replies, self.note, self.confidence, round(self.seconds, 1)
        )
        return NumberedLabel(self.item.number, given_label)

    def blocks(self, *, with_definition: bool) -> list[Block]:
        """The transcript, preceded by the definition unless that is shown elsewhere."""
        shown: list[Block] = []
        if with_definition:
            asked = display_text(self.item.definition)
            shown.append(Passage("definition", "asked", asked, Ink.ACCENT, Ink.STRONG))
        said = (_said(row, shows=row.turn in self.marked) for row in self.item.messages)
        return [*shown, *said]


class BlindLabelling:
    """The progress of one person through a sample."""

    def __init__(self, begun: LabellingProgress) -> None:
        self.size = len(begun.sample.items)
        self.open = begun.open
        """Numbers without an answer; the first is the current one."""
        self.given = list(begun.given)
        """Numbers with an answer, in the order of answering."""
        self.form: LabelForm | None = None
        """The form of the current number, once it is read."""
        self.paused = False
        self._before: dict[int, LabelForm] = {}
        self._looked: float | None = None
        self._touched = 0.0

    @property
    def number(self) -> int | None:
        """The current number; None if all are labelled."""
        return self.open[0] if self.open else None

    @property
    def following(self) -> int | None:
        """The number after the current one."""
        return self.open[1] if len(self.open) > 1 else None

    @property
    def progress(self) -> str:
        """The number of answers, as `17 of 60`."""
        return f"{len(self.given)} of {self.size}"

    def begin(self, item: BlindItem) -> None:
        """Start on the current number, which can now be read."""
        self.form = self._before.pop(item.number, None) or LabelForm(item)

    def give(self, answer: LabelAnswer) -> NumberedLabel | None:
        """Give the answer. Returns what to store; None if it cannot be given."""
        form = self.form
        if form is None or self.paused or form.why_not(answer) is not None:
            return None
        number = self.open.pop(0)
        self.given.append(number)
        # kept, so that undoing the answer brings back marks, note and time
        self._before[number], self.form = form, None
        return form.label(answer)

    def undo(self) -> NumberedLabel | None:
        """Take the last answer back. Returns what to store; None if there is none."""
        if not self.given:
            return None
        if self.form is not None:
            self._before[self.form.item.number] = self.form
        number = self.given.pop()
        self.open.insert(0, number)
        self.form = None
        return NumberedLabel(number, None)

    def ask_again(self, number: int) -> None:
        """Put a number whose answer could not be stored at the end of those to ask."""
        if number in self.given:
            self.given.remove(number)
            self.open.append(number)

    def leave_out(self, number: int) -> None:
        """Drop a conversation that has been played again; it is not asked about any more."""
        self.open = [item for item in self.open if item != number]
        self.given = [item for item in self.given if item != number]
        self._before.pop(number, None)
        if self.form is not None and self.form.item.number == number:
            self.form = None

    def touch(self, seconds: float) -> None:
        """Note a key press."""
        self._touched = seconds

    def look(self, seconds: float, *, seen: bool) -> None:
        """Count reading time, by a monotonic clock: while the transcript is `seen`, labelling is
        not paused, and a key was pressed recently."""
        before, self._looked = self._looked, seconds
        if before is None or self.form is None:
            self._touched = max(self._touched, seconds) if before is None else self._touched
            return
        idle = seconds - self._touched > IDLE_SECONDS
        if seen and not self.paused and not idle and seconds - before <= LONGEST_LOOK:
            self.form.seconds += seconds - before


def _said(row: MessageRow, *, shows: bool) -> Passage:
    """A message; a reply says whether it is marked as showing the behaviour."""
    key, text = (row.speaker, row.turn), display_text(row.text)
    if row.speaker is Speaker.USER:
        return Passage(key, "user", text, Ink.USER, gutter=Ink.USER)
    ink, sign = (Ink.GOOD, "✓ ") if shows else (Ink.TARGET, "")
    return Passage(key, f"{sign}reply {row.turn}", text, ink, gutter=ink, light_markdown=True)


def answer_of(label: Verdict) -> tuple[str, Ink]:
    """A person's answer in words."""
    inks = {None: Ink.MUTED, True: Ink.WARN, False: Ink.ACCENT}
    return answer_given(label), inks[label.present]


def marked_by(dispute: Dispute) -> dict[int, list[str]]:
    """The people who marked each reply, by turn."""
    judges: dict[int, list[str]] = {}
    for label in dispute.labels:
        for quote in label.quotes:
            if quote.turn is not None:
                judges.setdefault(quote.turn, []).append(one_line(label.judge))
    return judges


def label_blocks(dispute: Dispute) -> Iterator[Block]:
    """Each person's answer, the replies they marked, and their note."""
    for number, label in enumerate(dispute.labels):
        words, ink = answer_of(label)
        sure = "" if label.confidence is None else f"sure: {label.confidence} of 3"
        yield Rule(("person", number), one_line(label.judge), sure, Ink.STRONG)
        turns = ", ".join(str(quote.turn) for quote in label.quotes)
        note = display_text(label.justification) or "(no note)"
        yield Passage(("said", number), words, note, ink, close=bool(turns))
        if turns:
            yield Passage(("shows", number), "marked", f"reply {turns}", Ink.MUTED, Ink.GOOD)


def dispute_blocks(dispute: Dispute) -> Iterator[Block]:
    """The definition, and the transcript with the people who marked each reply."""
    yield Passage(
        "definition", "asked", display_text(dispute.item.definition), Ink.ACCENT, Ink.STRONG
    )
    marked = marked_by(dispute)
    for row in dispute.item.messages:
        by = marked.get(row.turn, []) if row.speaker is Speaker.TARGET else []
        if by:
            who = f"marked by {', '.join(by)}"
            yield Rule(("marks", row.turn), "", who, lined=False)
        yield _said(row, shows=bool(by))
