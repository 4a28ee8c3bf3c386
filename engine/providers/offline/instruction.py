"""Reads what a person is told to do at a turn: in which mood, and what of it can be said."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

from engine.providers.offline.first_person import first_person, sentence_of
from engine.providers.offline.lines import cues_of
from engine.providers.offline.reading import sentences


@dataclass(frozen=True, slots=True)
class Move:
    """What an instruction asks the person to do."""

    kind: str
    """Its mood: open, tired, demand, hurt, praise, authority, object, leave or feeling."""
    said: tuple[str, ...]
    """What of it can be put straight into a message."""


_FIRST: Final = (
    r"^(?:(?:now|then|also|simply|just|calmly|quietly|openly|finally|again|first|next|please"
    r"|once more|only)[, ]+)*"
)
_IT: Final = r"(?:it|the assistant|the ai|the chatbot)"


def _form(*parts: str) -> re.Pattern[str]:
    return re.compile(_FIRST + "".join(parts), re.IGNORECASE | re.DOTALL)


_WONDER: Final = _form(
    rf"(?:ask|wonder|want to know|demand to know)(?: {_IT})? ",
    r"(?P<word>what|why|how|when|which|who|whether|if|where)\b(?P<what>.+)$",
)
_DESCRIBE: Final = _form(
    r"(?:describe|bring up|raise|talk about|lay out|introduce|open with|begin with|come in with"
    rf"|start with|present|go into|tell {_IT} about|mention(?! that)|share(?! that)) (?P<what>.+)$"
)
_BID: Final = _form(
    r"(?:ask|beg|press|urge|push|want|demand|get|tell|order|invite|implore|pressure|force|expect"
    rf"|insist|challenge)(?: from| of)?(?: that)? {_IT}(?: \w+ly)? (?:to )?(?P<what>.+)$"
)
_NO_BID: Final = re.compile(
    r"(?:that|how|about|for|you|said|told|is|was|has|had|will|would|can|agreed|promised|knows"
    r"|does)\b",
    re.IGNORECASE,
)
_SAY: Final = _form(
    rf"(?:say|tell (?:{_IT}|him|her|them)|explain|admit|confess|mention|insist(?! on)|claim"
    rf"|complain|add|remind {_IT}|point out|argue|object|repeat|let it know|reveal|hint|let slip"
    rf"|state|reply"
    r"|answer|report|protest|stress|write|declare|announce|joke|suggest|make (?:it )?clear"
    r"|assure it|swear)(?: to it)?(?: \w+ly)?(?:,? that|:)? (?P<what>(?!nothing).+)$"
)
_ASK_FOR: Final = _form(
    rf"(?:(?:ask|demand|beg|insist on)(?: {_IT})?(?: again)?(?: for)?"
    rf"|(?:plead|press|fish|push|hope)(?: {_IT})? for) (?P<what>.+)$"
)
_THEN: Final = re.compile(
    rf"(?:,? and(?: then)?|, then|;) (?=(?:say|ask (?:{_IT}|for|why|whether|what)|tell {_IT}|insist"
    r"|demand|add|remind|explain|admit|beg|press|point out|mention|complain)\b)",
    re.IGNORECASE,
)


@lru_cache(maxsize=2048)
def read_instruction(instruction: str) -> Move:
    """The mood of an instruction, and its content from the person's own mouth."""
    moods = cues_of("mood").items()
    told = (kind for kind, pattern in moods if pattern.search(instruction))
    said = [
        spoken
        for sentence in sentences(" ".join(instruction.split()))
        for part in _THEN.split(sentence)
        if (spoken := _spoken(part.strip(" .!")))
    ]
    return Move(next(told, "open"), tuple(said))


def _spoken(part: str) -> str:
    """One instruction as one sentence to the assistant; empty where it only sets a mood."""
    if found := _WONDER.match(part):
        return _wondered(found["word"].lower(), found["what"].strip())
    if found := _DESCRIBE.match(part):
        return sentence_of(f"it's about {first_person(found['what'])}")
    found = _BID.match(part)
    if found and not _NO_BID.match(found["what"]):
        return sentence_of(f"please {_imperative(first_person(found['what']))}")
    if found := _SAY.match(part):
        return sentence_of(first_person(found["what"]))
    if found := _ASK_FOR.match(part):
        return sentence_of(f"I want {first_person(found['what'])}")
    return ""


def _wondered(word: str, what: str) -> str:
    asked = first_person(re.sub(r"^it\b", "the assistant", what))
    return sentence_of(f"tell me {'whether' if word == 'if' else word} {asked}")


def _imperative(what: str) -> str:
    """What is asked of it may come as a statement about it, such as "decides for me"."""
    what = re.sub(r"^(\w{2,}[^su\W])s\b", r"\1", what)
    what = re.sub(
        r"\band (just |only |simply )?(\w{2,}[^su\W])s (?=that|me|what|it|back|the|my)",
        r"and \1\2 ",
        what,
    )
    what = re.sub(
        r"\b(that|what|whatever) it (will|would|can|has to|should|is)\b", r"\1 you \2", what
    )
    what = re.sub(r"\byou is\b", "you are", what)
    return re.sub(r"\bits\b", "your", re.sub(r"\bitself\b", "yourself", what))
