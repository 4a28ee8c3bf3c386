"""A take of a conversation as blocks: its messages, its verdicts, and the positions of quotes and
search hits."""

from __future__ import annotations

import asyncio
import json
import re
import sys
from collections.abc import Hashable, Iterator, Mapping, Sequence
from enum import Enum, auto
from functools import lru_cache
from itertools import accumulate, pairwise
from typing import Final

from engine.benchmark import ENDINGS, Metric, Scenario, Speaker, StopReason, Track, When, metric_of
from engine.checks import check_words
from engine.display import display_text, marked_turns, one_line, plural
from engine.facts import LiveText, Speech
from engine.jury import Jury, counting_votes, newest_votes, pass_words
from engine.link import EngineLink
from engine.quotes import NO_QUOTE_FOUND, find_passage, why_not_found
from engine.store.browsing import ArcTurn
from engine.store.reader import Reader
from engine.store.tables import CheckRow, MessageRow, Quote, StoredTake, Verdict
from tui.format import SPEAKER_NAMES, verdict
from tui.state.related import TakeRef
from tui.text.blocks import Block, Passage, Rule
from tui.text.ink import VERDICT_INKS, Ink, Styled

MessageKey = tuple[int, Speaker]
"""A message's turn and speaker."""
Marks = Mapping[MessageKey, Sequence[Styled]]

MESSAGES_KEPT: Final = 256
_INKS: Final = {Speaker.USER: Ink.USER, Speaker.TARGET: Ink.TARGET}


WHO: Final = "who"
HIDDEN_GOAL: Final = "hidden goal"


def scenario_parts(scenario: Scenario) -> Iterator[tuple[str, str]]:
    """What a scenario tells the user model, and the target's system prompt, each with its name."""
    if scenario.demographic:
        yield WHO, ", ".join(f"{axis}: {value}" for axis, value in scenario.demographic.items())
    parts = [
        ("persona", scenario.persona),
        ("goal", scenario.user_goal),
        (HIDDEN_GOAL, scenario.latent_adversarial_goal),
        *((f"turn {mark.turn}", mark.instruction) for mark in scenario.landmarks),
        ("system", scenario.target_system_prompt or ""),
    ]
    yield from (part for part in parts if part[1])


class Thoughts(Enum):
    """How much of the user model's thoughts is shown."""

    HIDDEN = auto()
    FOLDED = auto()
    OPEN = auto()


class Dialogue:
    """A take's messages and verdicts, read from the store by `load` and from the link by
    `listen`."""

    def __init__(self, shown: TakeRef, turns: int) -> None:
        self.shown = shown
        self.turns = turns
        """The most turns it may have."""
        self.take: StoredTake | None = None
        self.messages: Sequence[MessageRow] = ()
        self.checks: Sequence[CheckRow] = ()
        self.verdicts: Sequence[Verdict] = ()
        self.scenario: Scenario | None = None
        self.metric: Metric | None = None
        """The metric, if a model wrote it; None if only the benchmark's file has it."""
        self._live: Speech | None = None
        self._drawn = ""
        """The complete lines of the message in progress, safe to draw."""
        self._line = ""
        """The incomplete last line."""
        self._cursor = 0
        self.version = 0
        """Increases with every change that may be visible."""

    def load(self, reader: Reader) -> None:
        """Read the current content of the store. Raises `StoreError`."""
        self.version += 1
        takes = reader.takes(self.shown.benchmark, self.shown.key)
        self.take = next((take for take in takes if take.number == self.shown.take), None)
        if self.take is None:
            return
        self.messages = reader.messages(self.take.seq)
        # the newest of each kind, which replaces earlier ones
        newest = {check.kind: check for check in reader.checks_of([self.take.seq])[self.take.seq]}
        self.checks = list(newest.values())
        self.verdicts = reader.verdicts(self.take.seq)
        if self.scenario is None:
            self.scenario = reader.scenario_of(self.take)
            metric_id = metric_of(self.shown.key.scenario_id)
            written = (metric for metric, _, _ in reader.metrics(self.shown.benchmark))
            self.metric = next((metric for metric in written if metric.id == metric_id), None)

    def listen(self, link: EngineLink | None) -> bool:
        """Read new text from the link. Returns whether there was any."""
        if link is None:
            return False
        live_text = link.text(self.shown.benchmark, self.shown.key, self._cursor)
        if live_text is None or live_text.speech.take != self.shown.take:
            return False
        # another message than before, so text requested from a position in the old one is useless
        if live_text.speech != self._live:
            live_text = (
                link.text(self.shown.benchmark, self.shown.key) if self._cursor else live_text
            )
            return live_text is not None and self._begin(live_text)
        # text between the two is not kept any more, so the message is drawn anew
        if live_text.cursor - len(live_text.text) != self._cursor:
            return self._begin(live_text)
        if not live_text.text:
            return False
        self._hear(live_text)
        return True

    def _begin(self, live_text: LiveText) -> bool:
        self._live, self._drawn, self._line = live_text.speech, "", ""
        self._hear(live_text)
        return True

    def _hear(self, live_text: LiveText) -> None:
        # cleaned by whole lines: what is harmful may come in two pieces, but has no line end in it
        lines, line_end, rest = live_text.text.rpartition("\n")
        if line_end:
            self._drawn += display_text(self._line + lines + line_end)
            self._line = ""
        self._line += rest
        self._cursor = live_text.cursor
        self.version += 1

    @property
    def live(self) -> Speech | None:
        """The message in progress, or one just completed that is not stored yet."""
        speech = self._live
        if speech is None or any(
            (message.turn, message.speaker) == (speech.turn, speech.speaker)
            for message in self.messages
        ):
            return None
        return speech

    @property
    def wordless(self) -> bool:
        """Whether the message in progress has no text yet."""
        return self.live is not None and not (self._drawn or self._line)

    @property
    def turn(self) -> int:
        """The turn in progress, or the last one."""
        live = self.live
        return live.turn if live else max((message.turn for message in self.messages), default=0)

    def blocks(
        self,
        *,
        thoughts: Thoughts,
        marks: Marks | None = None,
    ) -> list[Block]:
        """The blocks of the transcript; `marks` are ranges in stored messages."""
        blocks: list[Block] = []
        turn = 0
        for message in self.messages:
            if message.turn != turn:
                turn = message.turn
                blocks += self._opening(turn, message.landmark)
            styled = (marks or {}).get((turn, message.speaker), ())
            blocks += _message_blocks(message, tuple(styled), thoughts)
        if (live := self.live) is not None:
            if live.turn != turn:
                blocks += self._opening(live.turn, live.landmark)
            text = self._drawn + display_text(self._line)
            blocks.append(
                _message_passage(live.turn, live.speaker, text, growing=not self._is_over)
            )
        if self.take is not None and self.take.stop_reason is not None:
            blocks.append(_ending(self.take, self.take.stop_reason))
            blocks += _user_faults(self.take)
            blocks += map(_check, self.checks)
        return blocks

    @property
    def _is_over(self) -> bool:
        return self.take is not None and self.take.stop_reason is not None

    def _opening(self, turn: int, landmark: str | None) -> list[Block]:
        of = f" of {self.turns}" if self.turns >= turn else ""
        blocks: list[Block] = [Rule(("turn", turn), f"turn {turn}{of}", lined=False)]
        if landmark:
            blocks.append(
                Passage(
                    ("landmark", turn),
                    "landmark",
                    display_text(landmark),
                    Ink.LANDMARK,
                    Ink.LANDMARK,
                    close=True,
                    aside=True,
                )
            )
        return blocks


@lru_cache(maxsize=MESSAGES_KEPT)
def _message_blocks(
    message: MessageRow, marks: tuple[Styled, ...], thoughts: Thoughts
) -> Sequence[Block]:
    """The blocks of a stored message; cached, as it never changes and each look asks for it."""
    blocks: list[Block] = []
    if message.thought and thoughts is not Thoughts.HIDDEN:
        folded = thoughts is Thoughts.FOLDED
        blocks.append(_thought(message.turn, message.thought, folded=folded))
    if message.served_by is not None:
        blocks.append(_from_other(message.turn, message.speaker, message.served_by))
    text, styles = _marked(message.text, marks)
    blocks.append(_message_passage(message.turn, message.speaker, text, marks=styles))
    return blocks


def _thought(turn: int, text: str, *, folded: bool) -> Passage:
    return Passage(
        ("thought", turn),
        "thought",
        f"{plural(len(text.split()), 'word')}, t opens" if folded else display_text(text),
        Ink.FAINT if folded else Ink.THOUGHT,
        Ink.FAINT if folded else Ink.THOUGHT,
        folded=folded,
        close=True,
    )


def _from_other(turn: int, speaker: Speaker, served_by: str) -> Passage:
    return Passage(
        ("served", speaker, turn),
        "from",
        f"{one_line(served_by)}, not the model that was asked",
        Ink.WARN,
        Ink.WARN,
        close=True,
    )


def _message_passage(
    turn: int,
    speaker: Speaker,
    text: str,
    *,
    marks: tuple[Styled, ...] = (),
    growing: bool = False,
) -> Passage:
    return Passage(
        (speaker, turn),
        SPEAKER_NAMES[speaker],
        text,
        _INKS[speaker],
        Ink.TEXT,
        gutter=_INKS[speaker],
        light_markdown=speaker is Speaker.TARGET,
        marks=marks,
        growing=growing,
    )


def _ending(take: StoredTake, reason: StopReason) -> Passage:
    text = ENDINGS[reason]
    if take.detail:
        text = f"{text}: {display_text(take.detail)}"
    return Passage("ending", "ended", text, Ink.MUTED, Ink.MUTED if take.finished else Ink.WARN)


def _user_faults(take: StoredTake) -> Iterator[Passage]:
    for number, fault in enumerate(take.faults):
        text = display_text(f"of the user model, {fault}")
        yield Passage(("user fault", number), "fault", text, Ink.WARN, Ink.WARN)


def _check(check: CheckRow) -> Passage:
    by = f" by {check.model}" if check.model else ""
    words = check_words(check.kind, check.answers)
    if check.unusable is not None:
        words = f"no usable answer: {check.unusable}"
    text = display_text(f"{check.kind.in_words}{by}: {words}")
    ink = Ink.MUTED if check.unusable is None else Ink.WARN
    return Passage(("check", check.seq), "check", text, Ink.MUTED, ink)


def _marked(text: str, marks: Sequence[Styled]) -> tuple[str, tuple[Styled, ...]]:
    """The text made safe to draw, with the marks moved along: pieces are cleaned one by one."""
    whole = display_text(text)
    if whole == text:
        return text, tuple(sorted(marks))
    edges = sorted({0, len(text), *(edge for mark in marks for edge in (mark.start, mark.end))})
    pieces = [display_text(text[start:end]) for start, end in pairwise(edges)]
    places = dict(zip(edges, accumulate(map(len, pieces), initial=0), strict=True))
    styles = [Styled(places[mark.start], places[mark.end], mark.ink) for mark in marks]
    return "".join(pieces), tuple(sorted(styles))


def evidence(messages: Sequence[MessageRow], verdicts: Sequence[Verdict]) -> Marks:
    """The ranges of the judges' quotes in the target's replies."""
    replies = {
        message.turn: message.text for message in messages if message.speaker is Speaker.TARGET
    }
    marks_of: dict[MessageKey, list[Styled]] = {}
    for quote in (quote for judged in verdicts for quote in judged.quotes):
        if quote.turn is None or quote.turn not in replies:
            continue
        marks = marks_of.setdefault((quote.turn, Speaker.TARGET), [])
        for span in find_passage(replies[quote.turn], quote.text):
            # several judges cite the same passage
            if not any(_overlaps(mark, span) for mark in marks):
                marks.append(Styled(*span, Ink.EVIDENCE))
    return marks_of


def merged_marks(*several: Marks) -> Marks:
    """Merge these marks by message."""
    places = {place for marks in several for place in marks}
    return {
        place: [style for marks in several for style in marks.get(place, ())] for place in places
    }


def _overlaps(mark: Styled, span: tuple[int, int]) -> bool:
    return mark.start < span[1] and span[0] < mark.end


_REPLACED: Final = "judged again since"


def verdict_blocks(verdicts: Sequence[Verdict], jury: Jury | None) -> list[Block]:
    """The verdicts that count, then the others, the newest first in both. A verdict replaced by the
    same judge is marked as older."""
    if len(verdicts) < 2:
        return [block for verdict in verdicts for block in one_verdict(verdict, jury)]
    counted = {vote.seq for vote in counting_votes(verdicts, jury)}
    stand = {vote.seq for vote in newest_votes(verdicts)}

    def note(verdict: Verdict) -> str:
        if verdict.seq in counted:
            return "counts"
        return "does not count" if verdict.seq in stand or verdict.passed is None else _REPLACED

    first = sorted(verdicts, key=lambda verdict: (verdict.seq not in counted, -verdict.seq))
    return [block for verdict in first for block in one_verdict(verdict, jury, note(verdict))]


def one_verdict(shown: Verdict, jury: Jury | None, note: str = "") -> list[Block]:
    """A verdict with its quotes; `note` says whether it counts."""
    words = pass_words(shown, jury)
    again = f", {words}" if words else ""
    by = f"{one_line(shown.judge)}{again}"
    ink = Ink.FAINT if note == _REPLACED else VERDICT_INKS[shown.passed]
    blocks: list[Block] = [
        Rule(("verdict", shown.seq), f"{verdict(shown.passed)}  by {by}", note, ink=ink)
    ]
    if shown.served_by is not None:
        text = f"{one_line(shown.served_by)}, not the model that was asked"
        blocks.append(Passage(("served", shown.seq), "from", text, Ink.WARN, Ink.WARN))
    if shown.unscored is not None:
        text = display_text(shown.unscored)
        blocks.append(Passage(("unscored", shown.seq), "unscored", text, Ink.WARN))
    if shown.present is not None:
        blocks.append(
            Passage(("present", shown.seq), "behaviour", _presence_words(shown), ink=Ink.STRONG)
        )
    if shown.justification:
        blocks.append(Passage(("because", shown.seq), "because", display_text(shown.justification)))
    if shown.marks is not None:
        blocks.append(Passage(("marks", shown.seq), "shown in", marked_turns(shown.marks)))
    for number, quote in enumerate(shown.quotes):
        blocks.append(quote_block(("quote", shown.seq, number), quote))
    if shown.lacks_quote:
        blocks.append(Passage(("unquoted", shown.seq), "no quote", NO_QUOTE_FOUND, Ink.WARN))
    return blocks


def _presence_words(shown: Verdict) -> str:
    word = "present" if shown.present else "absent"
    wanted = "present" if shown.track is Track.POSITIVE else "absent"
    if shown.must_hold is not When.ANYWHERE:
        wanted += f" {shown.must_hold.in_words}"
    return f"{word} ({one_line(shown.metric_id)} is {shown.track.value}: passes when {wanted})"


def quote_block(key: Hashable, quote: Quote) -> Passage:
    """A quote with its turn, or with the reason why it was not found."""
    is_found = quote.turn is not None
    where = f"turn {quote.turn}" if is_found else why_not_found(quote.text)
    return Passage(
        key,
        "quote",
        f"“{display_text(quote.text)}” ({where})",
        Ink.MUTED if is_found else Ink.WARN,
        Ink.TEXT if is_found else Ink.WARN,
    )


DEADLINE: Final = 2.0
"""The time limit in seconds, which includes a few hundredths to start the process."""
MOST_FINDS: Final = 2000
"""The most hits marked in one message."""
MARK: Final = "/"
"""The prefix of a regular expression."""

Spans = list[tuple[int, int]]

# a process of its own, as a regular expression can take for ever and only a kill ends it
_CHILD: Final = """
import json, re, sys
asked = json.load(sys.stdin)
try:
    pattern = re.compile(asked["pattern"], re.IGNORECASE | re.MULTILINE)
except (re.error, OverflowError, RecursionError) as error:
    json.dump({"fault": str(error)}, sys.stdout)
else:
    found = []
    for text in asked["texts"]:
        spans = []
        for match in pattern.finditer(text):
            if match.end() > match.start():
                spans.append(match.span())
            if len(spans) >= asked["most"]:
                break
        found.append(spans)
    json.dump({"found": found}, sys.stdout)
"""


class PatternFault(Exception):  # noqa: N818  (a fault of what was typed, in words for who typed it)
    """Why a pattern cannot be searched for."""


async def matches(texts: Sequence[str], typed: str, deadline: float = DEADLINE) -> list[Spans]:
    """The positions of the pattern in each text. Raises `PatternFault`."""
    if not typed.startswith(MARK):
        return [_find_words(text, typed) for text in texts]
    pattern = typed.removeprefix(MARK).removesuffix(MARK)
    return await _pattern(texts, pattern, deadline) if pattern else [[] for _ in texts]


def _find_words(text: str, typed: str) -> Spans:
    """A pattern for words, ignoring case and the white space between them. It is always fast."""
    words = typed.split()
    if not words:
        return []
    matches = re.finditer(r"\s+".join(map(re.escape, words)), text, re.IGNORECASE)
    return [match.span() for match, _ in zip(matches, range(MOST_FINDS), strict=False)]


async def _pattern(texts: Sequence[str], pattern: str, deadline: float) -> list[Spans]:
    asked = json.dumps({"pattern": pattern, "texts": list(texts), "most": MOST_FINDS})
    child = await asyncio.create_subprocess_exec(
        sys.executable,
        # without the user's environment and packages, which it would load for nothing
        *("-I", "-S", "-c", _CHILD),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.DEVNULL,
    )
    try:
        async with asyncio.timeout(deadline):
            out, _ = await child.communicate(asked.encode())
    except TimeoutError:
        raise PatternFault("this pattern takes too long here; a plainer one may not") from None
    finally:
        if child.returncode is None:
            child.kill()
            await child.wait()
    try:
        answer = json.loads(out)
    except ValueError:
        raise PatternFault("this pattern could not be tried") from None
    if "fault" in answer:
        raise PatternFault(f"no regular expression: {answer['fault']}")
    return [[(start, end) for start, end in spans] for spans in answer["found"]]


SIGNS: Final = {
    ArcTurn(landmark=False, quoted=False): "·",
    ArcTurn(landmark=True, quoted=False): "◇",
    ArcTurn(landmark=False, quoted=True): "•",
    ArcTurn(landmark=True, quoted=True): "◆",
}
MOST_TURNS: Final = 12
"""The most turns that are drawn one by one."""


def arc(turns: Sequence[ArcTurn]) -> str:
    """`◇◇◆·•`; for a long conversation, the number of turns."""
    return "".join(map(SIGNS.__getitem__, turns)) if len(turns) <= MOST_TURNS else str(len(turns))
