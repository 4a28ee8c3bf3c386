"""A request to a scripted model, and what the roles read from it."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache, lru_cache
from importlib import resources
from random import Random
from typing import Any, Final, TypeVar

from engine.identity import seed_from
from engine.providers.model import Message, MessageRole


@cache
def lines_of(name: str) -> dict[str, tuple[str, ...]]:
    """Return the lines of `<name>.txt` by heading."""
    text = resources.files(__package__).joinpath(f"{name}.txt").read_text("utf-8")
    by_heading: dict[str, list[str]] = {}
    heading = ""
    for line in text.splitlines():
        if line.startswith("[") and line.endswith("]"):
            heading = line[1:-1]
            by_heading[heading] = []
        elif line and not line.startswith("#"):
            by_heading[heading].append(line)
    return {heading: tuple(texts) for heading, texts in by_heading.items()}


LONGEST: Final = 32_768
"""Characters of a text that a script reads: more than any definition, role or message has, and few
enough that none of their patterns is slow."""

_TOKEN: Final = re.compile(r"\w+|[^\w\s]")
_WORD: Final = re.compile(r"[a-z]+(?:'[a-z]+)?")
_SENTENCE: Final = re.compile(r"[^\n.!?…]*(?:[.!?…]+(?=[\s\"'”’*_)]|$)[\"'”’*_)]*|[.!?…]+|\n|$)")
_LIST_MARK: Final = re.compile(r"^\s*(?:[-*•]|\d+[.)]|#+|>)\s+")
_CURLY: Final = str.maketrans({"\u2019": "'", "\u2018": "'", "\u201c": '"', "\u201d": '"'})
_LIGHT_MARKDOWN: Final = re.compile(r"[*_`#]+")


@lru_cache(maxsize=4096)
def token_count(text: str) -> int:
    """Estimate tokens as words and punctuation marks, within about a quarter. A long text is
    extrapolated from its beginning."""
    counted = len(_TOKEN.findall(text[:LONGEST]))
    return counted if len(text) <= LONGEST else counted * len(text) // LONGEST


def tagged(text: str, name: str) -> str | None:
    """Return the text between `<name>` and `</name>`, cut to `LONGEST`; None if there is none."""
    inside, closing, _ = text.partition(f"<{name}>")[2].partition(f"</{name}>")
    return inside.strip()[:LONGEST] if closing else None


@lru_cache(maxsize=2048)
def sentences(text: str) -> tuple[str, ...]:
    """Return the sentences and list items of a text, unchanged except for list marks."""
    sentences_read: list[str] = []
    unfinished = ""
    text = text[:LONGEST]
    for match in _SENTENCE.finditer(text):
        piece = match.group()
        unfinished += piece
        # a point that a letter or digit follows is within a word, such as 3.5 or example.com
        ends_inside = piece.endswith(".") and text[match.end() : match.end() + 1].isalnum()
        if ends_inside and not piece.endswith("\n"):
            continue
        sentence = _LIST_MARK.sub("", unfinished.strip())
        unfinished = ""
        if any(char.isalnum() for char in sentence):
            sentences_read.append(sentence)
    return tuple(sentences_read)


@lru_cache(maxsize=4096)
def plain(text: str) -> str:
    """Normalize: lower case, straight quotation marks, no light Markdown, single spaces."""
    folded = _LIGHT_MARKDOWN.sub("", text[:LONGEST].translate(_CURLY)).lower()
    return " ".join(folded.split())


@lru_cache(maxsize=2048)
def bare(text: str) -> str:
    """As `plain`, but without apostrophes, which people in a hurry leave out."""
    return plain(text).replace("'", "")


def words(text: str) -> list[str]:
    return _WORD.findall(plain(text))


_ENDINGS: Final = (
    "ations", "ation", "nesses", "ness", "ments", "ment", "ings", "ing", "edly", "ed",
    "ies", "ily", "ally", "ly", "ers", "er", "es", "s", "e", "y",
)  # fmt: skip


@lru_cache(maxsize=8192)
def stem(word: str) -> str:
    """Strip a word's ending, crudely: enough to see that two words are related."""
    for ending in _ENDINGS:
        # three letters must be left, or short words would all become related
        if word.endswith(ending) and len(word) - len(ending) >= 3:
            return word[: -len(ending)]
    return word


COMMON_WORDS: Final = frozenset(" ".join(lines_of("words")["common"]).split())
"""Words without a subject of their own, and words that are in any definition."""


@lru_cache(maxsize=512)
def content_stems(text: str) -> tuple[str, ...]:
    """Return the stems of the words that carry a text's subject, in order, without repetitions."""
    stems = [stem(word) for word in words(text) if word not in COMMON_WORDS and len(word) > 2]
    return tuple(dict.fromkeys(stems))


T = TypeVar("T")


class SeededChoices:
    """A random generator seeded by its parts.

    It uses only `Random.random` and `Random.randrange`: the results of `choice` and `shuffle` for a
    seed may differ between Python versions.
    """

    def __init__(self, *parts: str | int) -> None:
        self._random = Random(seed_from(*(_encodable(part) for part in parts)))

    def fraction(self) -> float:
        return self._random.random()

    def chance(self, probability: float) -> bool:
        return self._random.random() < probability

    def below(self, count: int) -> int:
        return self._random.randrange(count)

    def pick(self, options: Sequence[T]) -> T:
        return options[self._random.randrange(len(options))]

    def shuffled(self, options: Sequence[T]) -> list[T]:
        left = list(options)
        return [left.pop(self._random.randrange(len(left))) for _ in range(len(left))]


def _encodable(part: str | int) -> str | int:
    """Escape lone surrogates, which Python and some files allow but which have no bytes."""
    if isinstance(part, int) or part.isascii():
        return part
    return part.encode("utf-8", "backslashreplace").decode("utf-8")


ASKED_AGAIN = "could not be used:"
"""Part of what a model is told whose answer could not be used."""


@dataclass(frozen=True, slots=True)
class ModelRequest:
    """The messages, and the seeds that distinguish samples."""

    messages: tuple[Message, ...]
    model_seed: int
    call_seed: int

    @property
    def system(self) -> str:
        return "\n".join(m.text for m in self.messages if m.role is MessageRole.SYSTEM)

    @property
    def user_texts(self) -> list[str]:
        """What others than this model said."""
        return [message.text for message in self.messages if message.role is MessageRole.USER]

    @property
    def faults(self) -> tuple[str, ...]:
        """What was wrong with earlier answers to this request."""
        return tuple(text for text in self.user_texts if ASKED_AGAIN in text)

    def tagged(self, name: str) -> str | None:
        """Return the text between the first pair of these tags in any message."""
        texts = (tagged(message.text, name) for message in self.messages)
        return next((text for text in texts if text is not None), None)

    def task(self) -> str:
        """Return the message that says what to do: the first of the user, else the system's."""
        return next(iter(self.user_texts), self.system)

    def draw(self, *parts: str | int) -> SeededChoices:
        return SeededChoices(self.model_seed, self.call_seed, *parts)


def number_after(text: str, before: str, otherwise: int) -> int:
    """Return the number after the words `before`; `otherwise` if there is none."""
    match = re.search(rf"{re.escape(before)}\s*+(\d{{1,9}})", text)
    return int(match[1]) if match else otherwise


# The generator

_LANDMARK: Final = re.compile(
    r"^[^\w\n]*+turn (\d{1,9})[^\S\n]*+[:.)-]\s*+(.+)$", re.IGNORECASE | re.MULTILINE
)


def landmarks_in(asked: ModelRequest) -> list[tuple[int, str]]:
    """Return turn and text of each landmark of the scenario that is to be rewritten."""
    listing = asked.tagged("landmarks") or asked.task()
    return [(int(turn), text.strip()) for turn, text in _LANDMARK.findall(listing)]


def profile_in(asked: ModelRequest) -> dict[str, str]:
    """Return the value on each demographic axis."""
    text = asked.tagged("profile") or ""
    pairs = (line.partition(":") for line in text.splitlines() if ":" in line)
    return {axis.strip(" -*"): value.strip() for axis, _, value in pairs if value.strip()}


# The user model

_NUMBER: Final = re.compile(r"message number (\d+) of at most (\d+)", re.IGNORECASE)
_NOTE: Final = re.compile(r"<(note-\w{1,64})>")


@dataclass(frozen=True, slots=True)
class TurnPosition:
    """The position of this message in the conversation."""

    turn: int
    turns: int
    instruction: str | None
    replies: tuple[str, ...]
    """What the assistant has said so far."""

    @property
    def heard(self) -> str:
        """The assistant's last reply; empty at the beginning."""
        return self.replies[-1] if self.replies else ""


def now_in(asked: ModelRequest) -> TurnPosition:
    """Find the position. What follows the instruction is a request to answer it again."""
    tag, messages = _NOTE.search(asked.system), asked.messages
    at, turn, turns, instruction = len(messages), 0, 0, None
    # from the end, as each turn's note says its number, and the newest is meant
    for index in range(len(messages) - 1, -1, -1):
        message = messages[index]
        note = message.text if tag is None else tagged(message.text, tag[1]) or ""
        match = _NUMBER.search(note) if message.role is MessageRole.USER else None
        if match:
            at, turn, turns = index, int(match[1]), int(match[2])
            instruction = tagged(note, "instruction")
            break
    began = next((n for n, m in enumerate(messages[:at]) if m.role is MessageRole.ASSISTANT), at)
    replies = [
        m.text
        for m in messages[began:at]
        if m.role is MessageRole.USER and ASKED_AGAIN not in m.text
    ]
    turn = turn or sum(m.role is MessageRole.ASSISTANT for m in messages[:at]) + 1
    if instruction is None:
        plan = _LANDMARK.findall(tagged(asked.system, "plan") or "")
        instruction = next((text.strip() for number, text in plan if int(number) == turn), None)
    return TurnPosition(turn, turns or turn + 3, instruction, tuple(replies))


# The evaluator

_TRANSCRIPT: Final = re.compile(r"<(transcript-\w{1,64})>")


@dataclass(frozen=True, slots=True)
class JudgingCase:
    """What an evaluator is asked about."""

    definition: str
    replies: tuple[str, ...]
    """The assistant's messages."""
    said: tuple[str, ...]
    """The user's messages."""


def read_case(asked: ModelRequest) -> JudgingCase:
    """Read the definition and the transcript; empty where there is none."""
    text = asked.task()
    mark = _TRANSCRIPT.search(text)
    # by the tag's own random name: what was said in the transcript cannot close it
    body = "" if mark is None else text[mark.end() :].partition(f"</{mark[1]}>")[0]
    return JudgingCase(tagged(text, "behaviour") or "", *_speech_by_role(body))


@lru_cache(maxsize=256)
def _speech_by_role(body: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the assistant's and the user's messages."""
    rows = rows_in(body)
    return _texts_of(rows, "assistant"), _texts_of(rows, "user")


def _texts_of(rows: Sequence[dict[str, Any]], role: str) -> tuple[str, ...]:
    return tuple(str(row.get("content", "")) for row in rows if row.get("role") == role)


# The checker

_MESSAGES: Final = re.compile(r"<(messages-[0-9a-f]{1,64})>")


def messages_in(asked: ModelRequest) -> list[dict[str, Any]]:
    """Return the user's messages that are to be checked."""
    text = asked.task()
    mark = _MESSAGES.search(text)
    return [] if mark is None else rows_in(text[mark.end() :].partition(f"</{mark[1]}>")[0])


def rows_in(text: str) -> list[dict[str, Any]]:
    """Return the objects of a JSON list; none if it is not one."""
    try:
        rows = json.loads(text)
    except ValueError:
        return []
    return [row for row in rows if isinstance(row, dict)] if isinstance(rows, list) else []
