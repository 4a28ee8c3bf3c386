"""Where a person is in a sample that they label blind: what they say, take back, and how long they
read. Nothing there knows which conversations these are. And what is shown of one that people
disagree on, to whoever decides."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final, Protocol

from engine.benchmark import Speaker
from engine.display import display_text, one_line
from engine.pipeline.label_requests import GivenLabel, LabelAnswer, NumberedLabel
from engine.pipeline.labels import BlindItem, Dispute, LabellingProgress
from engine.store.tables import Verdict
from tui.text.blocks import Block, Passage, Rule
from tui.text.ink import Ink

LONGEST_LOOK: Final = 2.0
"""Seconds between two looks beyond which the screen was not seen meanwhile."""
IDLE_SECONDS: Final = 120.0
"""Without a key, after which it is taken that nobody reads."""


class SampleSource(Protocol):
    """A person's sample as the screen needs it. What it does takes a while and raises
    `CrosswindError`."""

    @property
    def labelling(self) -> LabellingProgress:
        """As it was when it was opened."""
        ...

    def item(self, number: int) -> BlindItem: ...

    def is_replaced(self, number: int) -> bool:
        """Whether it was played again since."""
        ...

    def store(self, labels: Sequence[NumberedLabel]) -> None: ...

    def write_files(self) -> None:
        """What was stored, once, when no more comes."""
        ...


@dataclass(slots=True)
class LabelForm:
    """What a person says of one conversation, so far."""

    item: BlindItem
    marked: set[int] = field(default_factory=set)
    """Turns of the replies that show the behaviour."""
    note: str = ""
    confidence: int | None = None
    seconds: float = 0.0
    """That it was read."""

    @property
    def replies(self) -> list[int]:
        """The turns in which the assistant replied."""
        return [row.turn for row in self.item.messages if row.speaker is Speaker.TARGET]

    def mark(self, turn: int) -> None:
        """Or take the mark away."""
        self.marked ^= {turn}

    def why_not(self, answer: LabelAnswer) -> str | None:
        """Why it cannot be said; None where it can."""
        if answer is LabelAnswer.PRESENT and not self.marked:
            return "Mark the replies that show it: Space. Then p."
        if answer is LabelAnswer.ABSENT and self.marked:
            return "Replies are marked as showing it: take the marks away (Space), or press p."
        return None

    def label(self, answer: LabelAnswer) -> NumberedLabel:
        replies = tuple(sorted(self.marked)) if answer is LabelAnswer.PRESENT else ()
        said = GivenLabel(answer, replies, self.note, self.confidence, round(self.seconds, 1))
        return NumberedLabel(self.item.number, said)

    def blocks(self, *, with_definition: bool) -> list[Block]:
        """The transcript; before it the definition, where that does not stand elsewhere."""
        found: list[Block] = []
        if with_definition:
            asked = display_text(self.item.definition)
            found.append(Passage("definition", "asked", asked, Ink.ACCENT, Ink.STRONG))
        for row in self.item.messages:
            of_target = row.speaker is Speaker.TARGET
            shows = of_target and row.turn in self.marked
            label = f"{'✓ ' if shows else ''}reply {row.turn}" if of_target else "user"
            ink = Ink.TARGET if of_target else Ink.USER
            ink = Ink.GOOD if shows else ink
            found.append(
                Passage(
                    (row.speaker, row.turn),
                    label,
                    display_text(row.text),
                    ink,
                    Ink.TEXT,
                    gutter=ink,
                    light_markdown=of_target,
                )
            )
        return found


class BlindLabelling:
    """One person's way through one sample."""

    def __init__(self, begun: LabellingProgress) -> None:
        self.size = len(begun.sample.items)
        self.open = begun.open
        """Numbers that wait for an answer; the first is the one at hand."""
        self.given = list(begun.given)
        """Numbers that have one, in the order in which they got it."""
        self.form: LabelForm | None = None
        """Of the number at hand, once it is read."""
        self.paused = False
        self._before: dict[int, LabelForm] = {}
        self._looked: float | None = None
        self._touched = 0.0

    @property
    def number(self) -> int | None:
        """The one at hand; None where all are labelled."""
        return self.open[0] if self.open else None

    @property
    def following(self) -> int | None:
        """The one that comes after it."""
        return self.open[1] if len(self.open) > 1 else None

    @property
    def progress(self) -> str:
        """`17 of 60`: how many have an answer."""
        return f"{len(self.given)} of {self.size}"

    def begin(self, item: BlindItem) -> None:
        """The number at hand can be read."""
        self.form = self._before.pop(item.number, None) or LabelForm(item)

    def give(self, answer: LabelAnswer) -> NumberedLabel | None:
        """What is to be stored; None where it cannot be said."""
        form = self.form
        if form is None or self.paused or form.why_not(answer) is not None:
            return None
        number = self.open.pop(0)
        self.given.append(number)
        self._before[number], self.form = form, None
        return form.label(answer)

    def undo(self) -> NumberedLabel | None:
        """Take the last answer back: what is to be stored; None where there is none."""
        if not self.given:
            return None
        if self.form is not None:
            self._before[self.form.item.number] = self.form
        number = self.given.pop()
        self.open.insert(0, number)
        self.form = None
        return NumberedLabel(number, None)

    def ask_again(self, number: int) -> None:
        """What was said of it could not be stored; it is kept for when its turn comes."""
        if number in self.given:
            self.given.remove(number)
            self.open.append(number)

    def leave_out(self, number: int) -> None:
        """It was played again meanwhile: nobody is asked about it any more."""
        self.open = [one for one in self.open if one != number]
        self.given = [one for one in self.given if one != number]
        self._before.pop(number, None)
        if self.form is not None and self.form.item.number == number:
            self.form = None

    def touch(self, seconds: float) -> None:
        """A key was pressed: somebody is there."""
        self._touched = seconds

    def look(self, seconds: float, *, seen: bool) -> None:
        """The time by a clock that only goes forward. It counts while the transcript is `seen`, it
        is not paused, and somebody pressed a key not long ago."""
        before, self._looked = self._looked, seconds
        if before is None or self.form is None:
            self._touched = max(self._touched, seconds) if before is None else self._touched
            return
        idle = seconds - self._touched > IDLE_SECONDS
        if seen and not self.paused and not idle and seconds - before <= LONGEST_LOOK:
            self.form.seconds += seconds - before


class DisputeSource(Protocol):
    """What people disagree on; `decide` and `take_back` take a while and raise `CrosswindError`."""

    @property
    def person(self) -> str:
        """Who decides."""
        ...

    @property
    def found(self) -> Sequence[Dispute]:
        """As it was when it was opened."""
        ...

    def decide(self, dispute: Dispute, *, present: bool, reason: str) -> None: ...

    def take_back(self, dispute: Dispute) -> None: ...


def answer_of(label: Verdict) -> tuple[str, Ink]:
    """What a person says, in words."""
    if label.present is None:
        return "cannot tell", Ink.MUTED
    return ("present", Ink.WARN) if label.present else ("absent", Ink.ACCENT)


def marked_by(dispute: Dispute) -> dict[int, list[str]]:
    """Who marked each reply, by its turn."""
    found: dict[int, list[str]] = {}
    for label in dispute.labels:
        for quote in label.quotes:
            if quote.turn is not None:
                found.setdefault(quote.turn, []).append(one_line(label.judge))
    return found


def label_blocks(dispute: Dispute) -> Iterator[Block]:
    """What each person says: the answer, the replies that show it, the note."""
    for number, label in enumerate(dispute.labels):
        said, ink = answer_of(label)
        sure = "" if label.confidence is None else f"sure: {label.confidence} of 3"
        yield Rule(("person", number), one_line(label.judge), sure, Ink.STRONG)
        turns = ", ".join(str(quote.turn) for quote in label.quotes)
        note = display_text(label.justification) or "(no note)"
        yield Passage(("said", number), said, note, ink, close=bool(turns))
        if turns:
            yield Passage(("shows", number), "marked", f"reply {turns}", Ink.MUTED, Ink.GOOD)


def dispute_blocks(dispute: Dispute) -> Iterator[Block]:
    """The definition, and the transcript with who marked what."""
    yield Passage(
        "definition", "asked", display_text(dispute.item.definition), Ink.ACCENT, Ink.STRONG
    )
    marked = marked_by(dispute)
    for row in dispute.item.messages:
        of_target = row.speaker is Speaker.TARGET
        by = marked.get(row.turn, []) if of_target else []
        ink = Ink.USER if not of_target else Ink.GOOD if by else Ink.TARGET
        if by:
            who = f"marked by {', '.join(by)}"
            yield Rule(("marks", row.turn), "", who, lined=False)
        label = f"{'✓ ' if by else ''}reply {row.turn}" if of_target else "user"
        yield Passage(
            (row.speaker, row.turn),
            label,
            display_text(row.text),
            ink,
            gutter=ink,
            light_markdown=of_target,
        )
