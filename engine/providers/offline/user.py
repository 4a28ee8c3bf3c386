"""The scripted user: a person who wants something, follows the turn's instruction and reacts."""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import StrEnum
from functools import lru_cache
from typing import Any, Final

from engine.providers.model import Message, Speaks
from engine.providers.offline.draw import Draw
from engine.providers.offline.first_person import first_person, sentence_of
from engine.providers.offline.instruction import Move, read_instruction
from engine.providers.offline.lines import cues_of, lines_of
from engine.providers.offline.reading import content_stems, plain, sentences, tagged
from engine.providers.offline.request import ASKED_AGAIN, Request


class Temperament(StrEnum):
    """How a user writes; the value names the file with the words."""

    TALKATIVE = "user_talkative"
    BLUNT = "user_blunt"


_NUMBER: Final = re.compile(r"message number (\d+) of at most (\d+)", re.IGNORECASE)
_PLANNED: Final = re.compile(
    r"^[^\w\n]*+turn (\d{1,9})[^\S\n]*+[:.)-]\s*+(.+)$", re.IGNORECASE | re.MULTILINE
)
_NOT_SAID: Final = re.compile(
    r"\b(?:talk|write|type|speak|sentences?|chat|words|tone|message|joke|polite|reply|swear"
    r"|mood|spirits|proud|stubborn|impatient|restless|worn out|clever|lonely|ashamed|deep down)",
    re.IGNORECASE,
)
"""What a persona tells about somebody and the person would not say."""


@dataclass(frozen=True, slots=True)
class _Part:
    """The person to be played, as far as it is needed."""

    wants: str
    """What they openly want, as they would say it."""
    about_me: tuple[str, ...]
    """What they could say of themselves."""
    plan: tuple[tuple[int, str], ...]


@dataclass(frozen=True, slots=True)
class _Now:
    """Where in the conversation this message comes."""

    turn: int
    turns: int
    instruction: str | None
    heard: str
    """What the assistant said last; empty at the beginning."""
    gave_way_before: bool


def user_turn(asked: Request, temperament: Temperament) -> dict[str, Any]:
    """Thought, message and `done`, as the request's schema wants them."""
    part = _read_part(asked.system)
    now = _now(asked.messages, part)
    words = lines_of(temperament.value)
    drawn_from = (temperament.value, now.turn, now.heard, now.instruction or "")
    draw = asked.draw("user", *drawn_from, len(asked.faults))
    saw = _saw(now.heard)
    voice = _Voice(asked, part, words, now.turn, blunt=temperament is Temperament.BLUNT)
    message = _message(voice, now, saw, draw)
    thought = _thought(now, saw, words, draw)
    done = saw == "gave_way" and now.gave_way_before and 1 < now.turns - 1 <= now.turn
    return {"thought": thought, "message": message, "done": done and draw.chance(0.35)}


@lru_cache(maxsize=512)
def _read_part(system: str) -> _Part:
    persona = tagged(system, "persona") or ""
    goal = tagged(system, "user_goal") or ""
    plan = tagged(system, "plan") or ""
    own = [s for s in sentences(" ".join(persona.split())) if not _NOT_SAID.search(s)]
    about_me = tuple(sentence_of(first_person(s)) for s in own if 3 <= len(s.split()) <= 30)
    return _Part(
        _wish(goal),
        about_me,
        tuple((int(turn), text.strip()) for turn, text in _PLANNED.findall(plan)),
    )


_GOAL_LEAD: Final = re.compile(
    r"^(?:(?:you|they|he|she|the (?:person|user))\s+)?(?:openly\s+)?"
    r"(?:wants?|would like|needs?|hopes?|is trying|are trying|aims?|tries|seeks?)?\s*(?:to\s+)?",
    re.IGNORECASE,
)
_THEIRS: Final = ((r"\btheir\b", "my"), (r"\bthemselves\b", "myself"), (r"\bthem\b", "me"))


def _wish(goal: str) -> str:
    goal = next(iter(sentences(" ".join(goal.split()))), "").rstrip(" .")
    rest = _GOAL_LEAD.sub("", goal)
    if not rest:
        return ""
    for theirs, mine in _THEIRS:
        rest = re.sub(theirs, mine, rest)
    rest = re.sub(r"\bthey\b", "I", rest)
    rest = rest[0].lower() + rest[1:]
    return sentence_of(f"I'd like {'to ' if _is_verb(rest) else ''}{first_person(rest)}")


def _is_verb(text: str) -> bool:
    first = text.split(maxsplit=1)[0]
    return first not in {"a", "an", "the", "some", "my", "advice", "help", "support", "one", "your"}


def _now(messages: tuple[Message, ...], part: _Part) -> _Now:
    """Where we are. What came after the instruction is a request to answer it again."""
    at, turn, turns, instruction = len(messages), 0, 0, None
    for index in range(len(messages) - 1, -1, -1):
        said = messages[index]
        found = _NUMBER.search(said.text) if said.role is Speaks.USER else None
        if found:
            at, turn, turns = index, int(found[1]), int(found[2])
            instruction = tagged(said.text, "instruction")
            break
    began = next((n for n, m in enumerate(messages[:at]) if m.role is Speaks.ASSISTANT), at)
    replies = [
        m.text for m in messages[began:at] if m.role is Speaks.USER and ASKED_AGAIN not in m.text
    ]
    spoken = sum(m.role is Speaks.ASSISTANT for m in messages[:at])
    turn = turn or spoken + 1
    if instruction is None:
        instruction = next((text for number, text in part.plan if number == turn), None)
    before = any(_saw(reply) == "gave_way" for reply in replies[:-1])
    heard = replies[-1] if replies else ""
    return _Now(turn, turns or turn + 3, instruction, heard, before)


@lru_cache(maxsize=2048)
def _saw(reply: str) -> str:
    """What in the reply this person reacts to."""
    text = plain(reply) + (" listed ways" if "\n- " in reply or "\n1. " in reply else "")
    seen = cues_of("reply").items()
    return next((kind for kind, told in seen if reply and told.search(text)), "nothing")


@dataclass(frozen=True, slots=True)
class _Voice:
    """The words that this person has at this turn, another one of each kind every time."""

    asked: Request
    part: _Part
    words: dict[str, tuple[str, ...]]
    turn: int
    blunt: bool

    def line(self, heading: str) -> str:
        return self._turned(heading, self.words[heading])

    def about_me(self) -> str | None:
        """Another detail at every second turn, each once."""
        rest = self.asked.draw("about me", self.part.wants).shuffled(self.part.about_me[1:])
        at, between = divmod(self.turn - 1, 2)
        return None if between or at >= len(rest) else rest[at]

    def _turned(self, name: str, options: tuple[str, ...]) -> str:
        order = self.asked.draw("order", name, self.part.wants).shuffled(options)
        return order[self.turn % len(order)]


def _message(voice: _Voice, now: _Now, saw: str, draw: Draw) -> str:
    move = _free_move(now, voice, draw)
    if now.instruction:
        move = read_instruction(now.instruction)
    if now.turn == 1:
        return _first_message(voice, move, draw)
    said = [voice.line(f"saw_{saw}")] if draw.chance(0.8) else []
    said += move.said[:2]
    about_me = None if voice.blunt or not draw.chance(0.5) else voice.about_me()
    if about_me and len(said) < 3:
        said.append(about_me)
    elif not move.said or (len(said) < 3 and (not voice.blunt or draw.chance(0.4))):
        said.append(voice.line(f"tail_{move.kind}"))
    if not now.instruction and voice.part.wants and now.turn % 3 == 0:
        said.append(voice.part.wants)
    return " ".join(said)


def _first_message(voice: _Voice, move: Move, draw: Draw) -> str:
    told = set(content_stems(" ".join(move.said)))
    said = [voice.line("greeting"), *move.said[:2]]
    if voice.part.about_me and len(told & set(content_stems(voice.part.about_me[0]))) < 2:
        said.insert(1, voice.part.about_me[0])
    about_me = voice.about_me()
    if about_me and not voice.blunt and draw.chance(0.4):
        said.insert(2, about_me)
    if voice.part.wants and (not move.said or draw.chance(0.6)):
        said.append(voice.part.wants)
    else:
        said.append(voice.line("invite"))
    return " ".join(said)


def _free_move(now: _Now, voice: _Voice, draw: Draw) -> Move:
    """Where nothing is asked of this turn: a little harder than the last."""
    ladder = ("feeling", "object", "tired", "authority", "praise", "hurt", "demand", "leave")
    if now.turn <= 1:
        return Move("open", ())
    reach = min(len(ladder) - 1, (now.turn - 1) * len(ladder) // max(now.turns - 1, 1))
    kind = ladder[max(0, min(reach, reach - 1 + draw.below(2)))]
    return Move(kind, (voice.line("free"),))


def _thought(now: _Now, saw: str, words: dict[str, tuple[str, ...]], draw: Draw) -> str:
    if now.turn == 1:
        return draw.pick(words["thought_open"])
    if now.turn >= now.turns:
        return draw.pick(words["thought_last"])
    return draw.pick(words["thought_gave" if saw == "gave_way" else "thought_held"])
