"""What people disagree on, as the screen shows it on which somebody decides."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Protocol

from engine.benchmark import Speaker
from engine.display import drawn, one_line
from engine.pipeline.labels import Dispute
from engine.store.tables import Verdict
from tui.text.blocks import Block, Passage, Rule
from tui.text.ink import Ink


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
        note = drawn(label.justification) or "(no note)"
        yield Passage(("said", number), said, note, ink, close=bool(turns))
        if turns:
            yield Passage(("shows", number), "marked", f"reply {turns}", Ink.MUTED, Ink.GOOD)


def dispute_blocks(dispute: Dispute) -> Iterator[Block]:
    """The definition, and the transcript with who marked what."""
    yield Passage("definition", "asked", drawn(dispute.item.definition), Ink.ACCENT, Ink.STRONG)
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
            drawn(row.text),
            ink,
            gutter=ink,
            light_markdown=of_target,
        )
