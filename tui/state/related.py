"""Conversations beside this one: in the table that it was opened from, and those to compare it
with."""

from __future__ import annotations

from array import array
from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING, NamedTuple

from engine.benchmark import ConversationKey, Speaker, StopReason
from engine.facts import Speech
from tui.format import UNKNOWN, verdict
from tui.text.ink import VERDICT_INKS, Ink, Piece

if TYPE_CHECKING:
    from engine.store.browsing import Browser, RelatedTake


def partners(kin: Sequence[RelatedTake], key: ConversationKey, take: int) -> list[RelatedTake]:
    """Other playings of the same conversation, then other targets, samples and variants; of those
    that are equally near, one that came out otherwise tells the most. Of other conversations those
    that count, or where none does the newest."""
    (passed,) = {each.passed for each in kin if (each.key, each.number) == (key, take)} or {None}
    own = [each for each in kin if each.key == key and each.number != take]
    others = [each for each in _one_each(kin) if each.key != key]
    near = sorted(
        others, key=lambda each: (_distance(each.key, key), _likeness(each, passed=passed))
    )
    return [*reversed(own), *near]


def relation(one: RelatedTake, key: ConversationKey) -> str:
    """How it differs, in a word or two."""
    if one.key == key:
        return f"take {one.number + 1}"
    differs = [
        word
        for word, same in (
            ("target", one.key.target_id == key.target_id),
            ("sample", one.key.sample == key.sample),
            ("variant", one.key.scenario_id == key.scenario_id),
        )
        if not same
    ]
    return "another " + " and ".join(differs)


def standing(one: RelatedTake | None) -> Piece:
    """A glyph and a word: how it came out, or how far it is."""
    if one is None:
        return Piece(f"{UNKNOWN} not played", Ink.FAINT)
    if one.judged:
        return Piece(verdict(one.passed), VERDICT_INKS[one.passed])
    if one.finished:
        return Piece("○ not judged", Ink.MUTED)
    if one.stop_reason is None:
        return Piece("▸ not finished", Ink.ACCENT)
    if one.stop_reason is StopReason.CANCELLED:
        return Piece("! cancelled", Ink.WARN)
    return Piece("! failed", Ink.WARN)


def counting(kin: Sequence[RelatedTake]) -> dict[ConversationKey, RelatedTake]:
    """The take of each conversation that counts, or where none does the newest."""
    return {each.key: each for each in _one_each(kin)}


def _one_each(kin: Sequence[RelatedTake]) -> list[RelatedTake]:
    found: dict[ConversationKey, RelatedTake] = {}
    for each in kin:
        before = found.get(each.key)
        if before is None or each.counts or not before.counts:
            found[each.key] = each
    return list(found.values())


def _distance(one: ConversationKey, other: ConversationKey) -> tuple[bool, bool, bool]:
    """Another target is nearest, another variant farthest."""
    return (
        one.scenario_id != other.scenario_id,
        one.sample != other.sample,
        one.target_id == other.target_id,
    )


def _likeness(one: RelatedTake, *, passed: bool | None) -> tuple[int, str]:
    """How little there is to see beside one that passed or failed."""
    if one.passed is not None and passed is not None:
        contrast = 0 if one.passed != passed else 1
    else:
        contrast = 2 if one.finished else 3
    return contrast, str(one.key)


class Subject(NamedTuple):
    """The conversation that a screen is about, or that its cursor is on."""

    benchmark: str
    key: ConversationKey


class TakeRef(NamedTuple):
    """One playing of one conversation, as facts and links name it."""

    benchmark: str
    key: ConversationKey
    take: int

    @classmethod
    def of(cls, speech: Speech) -> TakeRef:
        """The one in which this is being said."""
        return cls(speech.benchmark, speech.key, speech.take)


class RowCursor:
    """Stays as it was when it was made; the table may go on changing."""

    def __init__(
        self, browser: Browser, rows: array[int], place: int, read: Collection[int] = ()
    ) -> None:
        """`read` are those of the rows that were read before."""
        self._browser = browser
        self._rows = rows
        self._read = set(read)
        self.place = place
        """Where the one that is shown stands among them, from 0."""

    def __len__(self) -> int:
        return len(self._rows)

    @property
    def row(self) -> int:
        return self._rows[self.place]

    def note_read(self) -> None:
        """The one that is shown is read."""
        self._read.add(self.row)

    @property
    def read(self) -> int:
        """How many of them were read."""
        return len(self._read)

    def step(self, by: int) -> Subject | None:
        """Go on to the next that is still there; None where there is none. Raises `StoreError`."""
        place = self.place + by
        while 0 <= place < len(self._rows):
            found = self._browser.keys([self._rows[place]])
            if found:
                self.place = place
                return Subject(*found[0])
            place += by
        return None


class MessageRef(NamedTuple):
    """A message of a conversation."""

    take: int
    turn: int
    speaker: Speaker
    needle: str = ""
    """What was searched for and occurs in it."""
