"""Conversations in the form that the pages' script reads: an index, and transcripts in pieces.

A page opened from a disk cannot fetch data, but it can load scripts. So each piece is a script
with one call that passes its value; it is ASCII, so that no server or browser can mistake its
encoding.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import Any, Final

from engine.analysis.figures import Analysis, Outcome
from engine.analysis.validation_figures import ValidationReport
from engine.benchmark import ENDINGS, Speaker
from engine.config.benchmark_file import Definition
from engine.display import clean
from engine.jury import Counts, Jury, pass_words
from engine.quotes import NO_QUOTE_FOUND, find_passage, why_not_found
from engine.report.conversation import Conversation, as_object, conversations, takes
from engine.store.mirror_rows import verdict_values
from engine.store.reader import Reader
from engine.store.tables import Verdict

LARGEST: Final = 256 * 1024
"""Characters at which a numbered piece is closed; its last value may go beyond."""

Write = Callable[[str, str], None]
"""Writes a file, from its name and text."""


class ChunkWriter:
    """Writes values as pieces, and computes a digest of them all."""

    def __init__(self, write: Write) -> None:
        self._write = write
        self._digest = blake2b(digest_size=5)

    @property
    def digest(self) -> str:
        return self._digest.hexdigest()

    def add(self, name: str, value: Any) -> None:
        self.put(name, as_json(value))

    def put(self, name: str, text: str) -> None:
        """Write a piece whose value is JSON already."""
        script = f"crosswind({text});\n"
        self._digest.update(script.encode())
        self._write(f"{name}.js", script)

    def numbered(self, prefix: str) -> NumberedChunks:
        return NumberedChunks(self, prefix)


@dataclass(slots=True)
class NumberedChunks:
    """Writes a sequence of values into as many pieces as they need: `t1`, `t2`, …"""

    pieces: ChunkWriter
    prefix: str
    _number: int = 1
    _open: list[str] = field(default_factory=list)
    _size: int = 0

    def add(self, value: Any) -> tuple[int, int]:
        """Add a value; returns the number of its piece, from 1, and its place in it, from 0."""
        text = as_json(value)
        place = self._number, len(self._open)
        self._open.append(text)
        self._size += len(text)
        if self._size >= LARGEST:
            self._flush()
        return place

    def close(self) -> int:
        """Write the last piece, and return how many there are."""
        if self._open:
            self._flush()
        return self._number - 1

    def _flush(self) -> None:
        self.pieces.put(f"{self.prefix}{self._number}", f"[{','.join(self._open)}]")
        self._number += 1
        self._open, self._size = [], 0


def as_json(value: Any) -> str:
    """ASCII JSON, in which nothing can be taken for markup."""
    text = json.dumps(value, ensure_ascii=True, allow_nan=False, separators=(",", ":"))
    return text.replace("<", "\\u003c")


INDEX: Final = "index"
"""The piece with the list of conversations, and the piece that each is in."""
TRANSCRIPTS: Final = "t"
QUOTES: Final = "q"
"""The prefixes of the names of the other pieces."""

_STALE, _SPLIT, _REPLAYED, _INVALID = 1, 2, 4, 8
_OUTCOMES: Final = {True: 1, False: 0, None: 2}
_JUDGED: Final = "metric_id judge pass source present passed unscored justification served_by"


@dataclass(frozen=True, slots=True)
class CountedBenchmark:
    """The results of a benchmark, before its transcripts are read."""

    definition: Definition
    analysis: Analysis
    outcomes: Sequence[Outcome]
    counts: Counts
    validations: Sequence[ValidationReport] = ()


def write_transcripts(counted: CountedBenchmark, reader: Reader, pieces: ChunkWriter) -> int:
    """Write the published conversations, and return their number. Raises `StoreError`."""
    benchmark, jury = counted.definition.name, counted.counts.jury
    outcomes = {outcome.key: outcome for outcome in counted.outcomes}
    metrics = {metric.id: metric for metric in counted.definition.metrics}
    targets = [result.target for result in counted.analysis.targets]
    index = _ConversationIndex(targets, {metric: n for n, metric in enumerate(metrics)})
    quotes, transcripts = pieces.numbered(QUOTES), pieces.numbered(TRANSCRIPTS)
    ends = Counter(take.key for take in reader.takes(benchmark) if take.finished)
    for conversation in conversations(
        reader, benchmark, metrics=metrics, counts=counted.counts, keys=outcomes.keys()
    ):
        key = conversation.take.key
        outcome = outcomes[key]
        # finished takes that no longer count, the newest first
        earlier = [
            one
            for one in (takes(reader, benchmark, key, counted.counts) if ends[key] > 1 else ())
            if one.take.finished and one.take.seq != conversation.take.seq
        ]
        published = {
            **_published(conversation, jury),
            "passed": outcome.passed,
            "unscored": outcome.unscored,
            "stale": sorted({*outcome.stale.take, *(w for v in outcome.stale.verdicts for w in v)}),
            "earlier_takes": [_published(take, jury) for take in earlier],
        }
        place = transcripts.add(clean_values(published))
        number = index.add(conversation, outcome, place, is_replayed=bool(earlier))
        for verdict in _that_count(conversation):
            for quote in verdict.quotes:
                quotes.add([number, quote.turn or 0, clean(quote.text)])
    pieces.add(INDEX, index.value(transcripts.close(), quotes.close()))
    return len(index.rows)


@dataclass(slots=True)
class _ConversationIndex:
    """The list of conversations with everything that it shows and filters by; repeated names are
    replaced by numbers."""

    targets: Sequence[str]
    metrics: Mapping[str, int]
    scenarios: dict[str, tuple[int, int, Mapping[str, str]]] = field(default_factory=dict)
    """By scenario id: its number, its metric's number, and its demographic values."""
    rows: list[list[int]] = field(default_factory=list)

    def add(
        self,
        conversation: Conversation,
        outcome: Outcome,
        place: tuple[int, int],
        *,
        is_replayed: bool,
    ) -> int:
        """Add a row, and return its number."""
        key = conversation.take.key
        scenario = self.scenarios.setdefault(
            key.scenario_id,
            (len(self.scenarios), self.metrics[outcome.metric_id], outcome.demographic),
        )
        answers = {vote.passed for vote in outcome.votes if vote.passed is not None}
        flags = _STALE * bool(outcome.stale) + _SPLIT * (len(answers) > 1)
        flags += _REPLAYED * is_replayed + _INVALID * bool(conversation.take.user_faults)
        turns = max((message.turn for message in conversation.messages), default=0)
        # numbers alone: a page loads all rows before it can filter them
        of = (scenario[0], self.targets.index(key.target_id), key.sample)
        self.rows.append([*of, _OUTCOMES[outcome.passed], flags, turns, *place])
        return len(self.rows) - 1

    def value(self, transcripts: int, quotes: int) -> dict[str, Any]:
        """The index as JSON. A row is [scenario, target, sample, outcome, flags, turns, piece,
        place in it]."""
        return {
            "targets": [clean(name) for name in self.targets],
            "scenarios": [
                [clean(name), metric, _cleaned_names(people)]
                for name, (_, metric, people) in self.scenarios.items()
            ],
            "transcripts": transcripts,
            "quotes": quotes,
            "rows": self.rows,
        }


def clean_values(value: Any) -> Any:
    """A JSON value with all its texts cleaned (`engine.display.clean`); its keys are ours."""
    match value:
        case str():
            return clean(value)
        case dict():
            return {key: clean_values(member) for key, member in value.items()}
        case list() | tuple():
            return [clean_values(member) for member in value]
        case _:
            return value


def _cleaned_names(people: Mapping[str, str]) -> dict[str, str]:
    return {clean(axis): clean(value) for axis, value in people.items()}


def _published(conversation: Conversation, jury: Jury) -> dict[str, Any]:
    """The exported conversation, with the evidence marked in the messages."""
    value = as_object(conversation)
    value.pop("settings", None)  # the page of results has them, once
    if conversation.scenario is not None:
        value["demographic"] = _cleaned_names(conversation.scenario.demographic)
    counted = _that_count(conversation)
    telling = counted or conversation.verdicts  # the verdicts whose evidence is marked
    for row, message in zip(value["transcript"], conversation.messages, strict=True):
        if message.speaker is Speaker.TARGET:
            quotes = [q.text for v in telling for q in v.quotes if q.turn == message.turn]
            row["content"] = with_marked_passages(message.text, quotes)
    value["verdicts"] = [
        _verdict(verdict, pass_words(verdict, jury), counts=why is None)
        for verdict, why in zip(conversation.verdicts, conversation.verdicts_why_not, strict=True)
    ]
    value["never_reached"] = [mark.turn for mark in conversation.never_reached]
    reason = conversation.take.stop_reason
    value["ended"] = "not yet" if reason is None else ENDINGS[reason]
    value["user_faults"] = [str(fault) for fault in conversation.take.user_faults or ()]
    if conversation.scenario is not None and conversation.scenario.target_system_prompt is not None:
        value["target_system_prompt"] = conversation.scenario.target_system_prompt
    return value


def _that_count(conversation: Conversation) -> list[Verdict]:
    pairs = zip(conversation.verdicts, conversation.verdicts_why_not, strict=True)
    return [verdict for verdict, why in pairs if why is None]


def _verdict(verdict: Verdict, again: str, *, counts: bool) -> dict[str, Any]:
    quotes = [
        {
            "text": quote.text,
            "turn": quote.turn,
            **({} if quote.turn else {"why": why_not_found(quote.text)}),
        }
        for quote in verdict.quotes
    ]
    return {
        **verdict_values(verdict, _JUDGED),
        "at": f"{verdict.when:%Y-%m-%d %H:%M}",
        "counts": counts,
        "again": again,
        "shown": verdict.shown_where,
        "quotes": quotes,
        "note": NO_QUOTE_FOUND if verdict.lacks_quote else None,
    }


def with_marked_passages(text: str, passages: Iterable[str]) -> str | list[str]:
    """The text; if it contains passages, a list in which every second part is a passage."""
    spans = sorted({span for passage in passages for span in find_passage(text, passage)})
    if not spans:
        return text
    parts: list[str] = []
    at = 0
    for start, end in spans:
        if parts and start <= at:  # overlaps or touches the one before
            parts[-1] += text[at : max(at, end)]
        else:
            parts += (text[at:start], text[start:end])
        at = max(at, end)
    return [*parts, text[at:]]
