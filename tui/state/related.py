"""Conversations related to others: the neighbours in a table, and those to compare with; and what
a part of an id names."""

from __future__ import annotations

from array import array
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

from engine.benchmark import ConversationKey, Speaker, StopReason
from engine.display import one_line
from engine.facts import Speech
from engine.store.reader import Reader
from engine.watch import BenchmarkInfo
from tui.format import UNKNOWN, verdict
from tui.text.ink import VERDICT_INKS, Ink, Piece, shorten_middle

if TYPE_CHECKING:
    from engine.store.browsing import Browser, RelatedTake


def comparison_partners(
    kin: Sequence[RelatedTake], key: ConversationKey, take: int
) -> list[RelatedTake]:
    """Other takes of the conversation, then those of other targets, samples and variants. Of
    equally near ones, a different outcome comes first. Of other conversations, the take that
    counts, or else the newest."""
    (passed,) = {
        related.passed for related in kin if (related.key, related.number) == (key, take)
    } or {None}
    own = [related for related in kin if related.key == key and related.number != take]
    others = [take for take in _newest_takes(kin) if take.key != key]
    near = sorted(
        others,
        key=lambda related: (_distance(related.key, key), _outcome_order(related, passed=passed)),
    )
    return [*reversed(own), *near]


def relation(related: RelatedTake, key: ConversationKey) -> str:
    """How the other conversation differs, in a word or two."""
    if related.key == key:
        return f"take {related.number + 1}"
    differs = [
        word
        for word, same in (
            ("target", related.key.target_id == key.target_id),
            ("sample", related.key.sample == key.sample),
            ("variant", related.key.scenario_id == key.scenario_id),
        )
        if not same
    ]
    return "another " + " and ".join(differs)


def outcome_piece(take: RelatedTake | None) -> Piece:
    """A glyph and a word for the outcome, or for the progress so far."""
    if take is None:
        return Piece(f"{UNKNOWN} not played", Ink.FAINT)
    if take.judged:
        return Piece(verdict(take.passed), VERDICT_INKS[take.passed])
    if take.finished:
        return Piece("○ not judged", Ink.MUTED)
    if take.stop_reason is None:
        return Piece("▸ not finished", Ink.ACCENT)
    if take.stop_reason is StopReason.CANCELLED:
        return Piece("! cancelled", Ink.WARN)
    return Piece("! failed", Ink.WARN)


def counting_takes(kin: Sequence[RelatedTake]) -> dict[ConversationKey, RelatedTake]:
    """The take of each conversation that counts; if none does, the newest."""
    return {take.key: take for take in _newest_takes(kin)}


def _newest_takes(kin: Sequence[RelatedTake]) -> list[RelatedTake]:
    newest: dict[ConversationKey, RelatedTake] = {}
    for take in kin:
        before = newest.get(take.key)
        # oldest first: each replaces the one before, until one counts
        if before is None or take.counts or not before.counts:
            newest[take.key] = take
    return list(newest.values())


def _distance(one: ConversationKey, other: ConversationKey) -> tuple[bool, bool, bool]:
    """The distance of two conversations: another target is nearest, another variant farthest."""
    return (
        one.scenario_id != other.scenario_id,
        one.sample != other.sample,
        one.target_id == other.target_id,
    )


def _outcome_order(related: RelatedTake, *, passed: bool | None) -> tuple[int, str]:
    """A sort key: outcomes that differ from this one come first."""
    if related.passed is not None and passed is not None:
        contrast = 0 if related.passed != passed else 1
    else:
        contrast = 2 if related.finished else 3
    return contrast, str(related.key)


class Subject(NamedTuple):
    """The conversation that a screen is about, or that its cursor is on."""

    benchmark: str
    key: ConversationKey


class TakeRef(NamedTuple):
    """One take of a conversation, as facts and links name it."""

    benchmark: str
    key: ConversationKey
    take: int

    @classmethod
    def of(cls, speech: Speech) -> TakeRef:
        """The take that contains this message."""
        return cls(speech.benchmark, speech.key, speech.take)


class RowCursor:
    """A cursor over a snapshot of rows; the table may change meanwhile."""

    def __init__(
        self, browser: Browser, rows: array[int], place: int, read: Collection[int] = ()
    ) -> None:
        """`read` has the rows that were read before."""
        self._browser = browser
        self._rows = rows
        self._read = set(read)
        self.place = place
        """The index of the shown row."""

    def __len__(self) -> int:
        return len(self._rows)

    @property
    def row(self) -> int:
        return self._rows[self.place]

    def note_read(self) -> None:
        """Mark the shown row as read."""
        self._read.add(self.row)

    @property
    def read(self) -> int:
        """The number of rows that were read."""
        return len(self._read)

    def step(self, by: int) -> Subject | None:
        """Move to the next row that still exists; None if there is none. Raises `StoreError`."""
        place = self.place + by
        while 0 <= place < len(self._rows):
            keys = self._browser.keys([self._rows[place]])
            if keys:
                self.place = place
                return Subject(*keys[0])
            place += by
        return None


class MessageRef(NamedTuple):
    """A message of a conversation."""

    take: int
    turn: int
    speaker: Speaker
    needle: str = ""
    """The text that was searched for and found in it."""


AT_MOST: Final = 40
"""The most ids offered; with more, the user types another letter."""


class FoundId(NamedTuple):
    """An id found, of something that has its own screen."""

    benchmark: str
    id: str
    kind: str
    """`metric`, `scenario` or `conversation`."""


MetricNames = Mapping[tuple[str, str], str]
"""The names of metrics, by benchmark and id."""


def metric_names(benchmarks: Iterable[BenchmarkInfo]) -> MetricNames:
    return {
        (info.name, metric_id): metric.name
        for info in benchmarks
        for metric_id, metric in info.metrics.items()
    }


def what_is(found_id: FoundId, metrics: MetricNames, room: int) -> str:
    """`metric of study: Says what it cannot know`, with a benchmark's name of `room` cells."""
    name = metrics.get((found_id.benchmark, found_id.id)) if found_id.kind == "metric" else None
    of = f"{found_id.kind} of {shorten_middle(one_line(found_id.benchmark), room)}"
    return f"{of}: {one_line(name)}" if name else of


def find(reader: Reader, typed: str, metrics: MetricNames, limit: int = AT_MOST) -> list[FoundId]:
    """Find ids that begin with the text, then those that contain it, then metrics whose name
    contains it, ignoring case. Raises `StoreError`."""
    part = typed.strip()
    if not part:
        return []
    rows = reader.find_ids(part, limit)
    if len(rows) < limit:
        rows += reader.find_ids_within(part, limit - len(rows))
    ids = sorted((FoundId(*row) for row in rows), key=lambda found_id: found_id.id != part)
    named = [
        FoundId(*place, "metric")
        for place, name in metrics.items()
        if part.casefold() in name.casefold()
    ]
    return [*ids, *(found_id for found_id in named if found_id not in ids)][:limit]
