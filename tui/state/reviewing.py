"""The queue of what waits for a person: items to review, conversations to label, disagreements to
decide, a price to accept; and the details of each entry."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from difflib import SequenceMatcher
from enum import Enum, auto
from typing import TYPE_CHECKING, Final, NamedTuple

from engine.benchmark import Metric, Scenario, Track, When, base_id
from engine.display import display_text, one_line
from engine.people import ReviewState
from engine.store.tables import ReviewAction, ScenarioRow
from tui.state.transcript import HIDDEN_GOAL, WHO, scenario_parts
from tui.text.blocks import Block, Passage, Rule
from tui.text.ink import Ink, Styled

if TYPE_CHECKING:
    from engine.cli.person_labels import WaitingLabels
    from engine.pipeline.review.reviews import ReviewEntry, ReviewPage


MOST_WORDS: Final = 3_000
"""The most words of both texts together; if there are more, only the new text is shown."""
LONGEST: Final = 65_536
"""The most characters of a text that are compared; of longer ones, only the new is shown."""

_WORDS: Final = re.compile(r"\s+|\w+|[^\w\s]")


def word_diff(before: str, after: str) -> tuple[str, tuple[Styled, ...]]:
    """Both texts as one, with `[-removed-]` and `{+added+}` marked even without colours."""
    if before == after or max(len(before), len(after)) > LONGEST:
        return after, ()
    old, new = _WORDS.findall(before), _WORDS.findall(after)
    if len(old) + len(new) > MOST_WORDS:
        return after, ()
    text = ""
    # tokens that are very frequent in a long text are left to their neighbours to match; otherwise
    # a text that repeats one character takes half a minute
    marks: list[Styled] = []
    for kind, first, last, start, end in SequenceMatcher(None, old, new).get_opcodes():
        if kind == "equal":
            text += "".join(new[start:end])
            continue
        for words, form, ink in (
            ("".join(old[first:last]), "[-{}-]", Ink.BAD),
            ("".join(new[start:end]), "{{+{}+}}", Ink.GOOD),
        ):
            if words:
                marked = form.format(words)
                marks.append(Styled(len(text), len(text) + len(marked), ink))
                text += marked
    return text, tuple(marks)


STATE_INKS = {
    ReviewState.WAITS: Ink.WARN,
    ReviewState.APPROVED: Ink.GOOD,
    ReviewState.REJECTED: Ink.BAD,
    ReviewState.BY_HAND: Ink.MUTED,
}


class RowKind(Enum):
    """What a row of the queue is."""

    PRICE = auto()
    """A price that a run waits for a person to accept."""
    BENCHMARK = auto()
    """The heading of a benchmark."""
    DECIDE = auto()
    LABEL = auto()
    ITEM = auto()
    """A metric or scenario to review."""


class QueueKey(NamedTuple):
    """A row of the queue."""

    benchmark: str
    id: str = ""
    """Of a metric or scenario."""
    kind: RowKind = RowKind.ITEM


PRICE_ROW: Final = QueueKey("", kind=RowKind.PRICE)


@dataclass(slots=True)
class PersonQueue:
    """What waits in all benchmarks, and which of it is shown."""

    pages: Sequence[ReviewPage] = ()
    labels: Mapping[str, WaitingLabels] = field(default_factory=dict)
    """What waits to be labelled and decided, by benchmark."""
    price: str | None = None
    """The question about a price that the run waits on."""
    shows_all: bool = False
    """Whether entries that do not wait for review are shown too."""
    under_way: set[QueueKey] = field(default_factory=set)
    """Rows with an action in progress."""

    def rows(self) -> Iterator[QueueKey]:
        """The rows: a price, then each benchmark followed by what waits in it."""
        if self.price is not None:
            yield PRICE_ROW
        for page in self.pages:
            name, labels = page.benchmark, self.labels.get(page.benchmark)
            shown = [QueueKey(name, each.id) for each in page.entries if self._is_shown(page, each)]
            if labels is not None and labels.to_label:
                shown.insert(0, QueueKey(name, kind=RowKind.LABEL))
            if labels is not None and labels.disputed:
                shown.insert(0, QueueKey(name, kind=RowKind.DECIDE))
            if shown:
                yield QueueKey(name, kind=RowKind.BENCHMARK)
            yield from shown

    def at(self, key: object) -> tuple[ReviewPage, ReviewEntry] | None:
        """The entry of a row; None where it is no item to review."""
        if not isinstance(key, QueueKey) or key.kind is not RowKind.ITEM:
            return None
        page = next((page for page in self.pages if page.benchmark == key.benchmark), None)
        entry = None if page is None else page.entry(key.id)
        return None if page is None or entry is None else (page, entry)

    def counts(self) -> Iterator[tuple[str, Ink]]:
        """What waits, in words, and of items that are reviewed already how many."""
        states = Counter(entry.state for page in self.pages for entry in page.entries)
        labels = self.labels.values()
        to_label = sum(waiting.to_label for waiting in labels)
        to_decide = sum(waiting.disputed for waiting in labels)
        counts = [
            (int(self.price is not None), "price to accept", Ink.WARN),
            (states[ReviewState.WAITS], "to review", Ink.WARN),
            (to_label, "to label", Ink.WARN),
            (to_decide, "to decide", Ink.WARN),
        ]
        done = [state for state in ReviewState if state is not ReviewState.WAITS]
        counts += [(states[state], str(state), STATE_INKS[state]) for state in done]
        return ((f"{count:,} {words}  ", ink) for count, words, ink in counts if count)

    def standing(self, benchmark: str) -> dict[str, tuple[ReviewState, str]]:
        """The status of each entry of a benchmark and a digest of its text, by id."""
        pages = (page for page in self.pages if page.benchmark == benchmark)
        return {entry.id: (entry.state, entry.digest) for page in pages for entry in page.entries}

    def _is_shown(self, page: ReviewPage, entry: ReviewEntry) -> bool:
        if QueueKey(page.benchmark, entry.id) in self.under_way:
            return self.shows_all
        return self.shows_all or entry.state is ReviewState.WAITS


def standing_words(entry: ReviewEntry) -> str:
    """`rejected by ann: too dramatic`."""
    act = entry.act
    if act is not None and replaced_text(entry):
        return f"written again: {one_line(act.reason)}"
    if act is None or entry.state in {ReviewState.WAITS, ReviewState.BY_HAND}:
        return str(entry.state)
    verb = "edited" if act.action is ReviewAction.EDIT else str(entry.state)
    why = f": {one_line(act.reason)}" if act.reason else ""
    return f"{verb} by {one_line(act.person)}{why}"


def replaced_text(entry: ReviewEntry) -> dict[str, str]:
    """The parts of the text before a model rewrote it; empty once it is approved."""
    act = entry.act
    if act is None or act.action is not ReviewAction.GENERATE:
        return {}
    if entry.state is not ReviewState.WAITS:
        return {}
    was = next((item.was for item in act.items if item.id == entry.id), None) or {}
    before = was.get("metric") or was.get("scenario") or {}
    parts = {label: str(before[name]) for label, name in _PARTS.items() if before.get(name)}
    for mark in before.get("landmarks", ()):
        parts[f"turn {mark['turn']}"] = str(mark["instruction"])
    return parts


_PARTS = {
    "name": "name",
    "defined": "definition",
    "persona": "persona",
    "goal": "user_goal",
    HIDDEN_GOAL: "latent_adversarial_goal",
    "system": "target_system_prompt",
}
"""The names of parts in files, by their names here."""


def detail_blocks(page: ReviewPage, entry: ReviewEntry) -> list[Block]:
    """What is needed to review an entry: its text, what rules find, similar ones, its metric."""
    blocks: list[Block] = [
        Rule("what", one_line(f"{entry.word} {entry.id}"), standing_words(entry), ink=Ink.STRONG)
    ]
    above = page.entry(entry.metric_id)
    if above is not None and not isinstance(above.content, ScenarioRow) and above is not entry:
        blocks.append(_definition_passage(above.content.metric))
    if isinstance(entry.content, ScenarioRow):
        scenario = entry.content.scenario
        base = None if entry.is_base else _scenario_of(page.entry(base_id(entry.id)))
        before = replaced_text(entry) or ({} if base is None else dict(scenario_parts(base)))
        blocks += _scenario(scenario, before)
    else:
        blocks += _metric(entry.content.metric, replaced_text(entry))
    blocks += _findings(page, entry)
    blocks += _neighbours(page, entry)
    return blocks


def _definition_passage(metric: Metric) -> Passage:
    """The metric of a scenario; beside it if there is room."""
    text = display_text(f"{metric.name}. {metric.definition}")
    return Passage(
        "metric", one_line(metric.id), text, Ink.ACCENT, Ink.MUTED, close=True, aside=True
    )


def _scenario_of(entry: ReviewEntry | None) -> Scenario | None:
    content = None if entry is None else entry.content
    return content.scenario if isinstance(content, ScenarioRow) else None


def _metric(metric: Metric, before: Mapping[str, str]) -> Iterator[Block]:
    wanted = "should be there" if metric.track is Track.POSITIVE else "should not be there"
    yield _change_passage("name", metric.name, before)
    yield _passage_of("type", "type", f"{metric.track}: {wanted}")
    if metric.when is not When.ANYWHERE:
        yield _passage_of("when", "counts", metric.when.in_words)
    yield _change_passage("defined", metric.definition, before)
    for number, example in enumerate(metric.examples):
        yield _passage_of(("example", number), "example", example)


def _scenario(scenario: Scenario, before: Mapping[str, str]) -> Iterator[Block]:
    for label, text in scenario_parts(scenario):
        if label == WHO:
            yield _passage_of(label, label, text)
        else:
            yield _change_passage(label, text, before)


def _change_passage(label: str, text: str, before: Mapping[str, str]) -> Passage:
    """A part of the text, as a diff if it replaced another."""
    if not before:
        return _passage_of(label, label, text)
    if before.get(label, "") == text:
        return _passage_of(label, label, text, ink=Ink.MUTED)
    shown, marks = word_diff(display_text(before.get(label, "")), display_text(text))
    return Passage(("said", label), label, shown, Ink.ACCENT, marks=marks, close=True)


def _findings(page: ReviewPage, entry: ReviewEntry) -> Iterator[Block]:
    findings = page.findings.get(entry.id, ())
    if findings:
        yield Rule("lint", "what rules find", ink=Ink.WARN)
    for number, finding in enumerate(findings):
        text = f"{finding.rule}: {finding.says}; {finding.rule.remedy}"
        yield _passage_of(("lint", number), "", text, ink=Ink.WARN)


def _neighbours(page: ReviewPage, entry: ReviewEntry) -> Iterator[Block]:
    neighbours = page.neighbours(entry)
    if not neighbours:
        return
    yield Rule("alike", "most alike")
    for neighbour in neighbours:
        other = page.entry(neighbour.id)
        words = f"{neighbour.id}: {neighbour.alike:.0%} of their words"
        if other is not None:
            words += f"  {other.in_short}"
        yield _passage_of(("alike", neighbour.id), "", words, ink=Ink.MUTED)


def _passage_of(key: object, label: str, text: str, *, ink: Ink = Ink.TEXT) -> Passage:
    return Passage(("said", key), label, display_text(text), Ink.ACCENT, ink, close=True)
