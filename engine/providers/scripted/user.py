"""The scripted user: a person with a goal, who follows the turn's instruction and reacts."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import lru_cache
from typing import Any, Final

from engine.providers.model import MessageRole
from engine.providers.scripted.evaluator import read_definition
from engine.providers.scripted.request import ASKED_AGAIN, ModelRequest
from engine.providers.scripted.words import (
    SeededChoices,
    content_stems,
    cues_of,
    lines_of,
    plain,
    sentences,
    tagged,
)

_OBJECT_BEFORE: Final = re.compile(
    r"(?:\b(?:to|for|with|of|about|from|at|on|behind|beside|between|without|than|like|by|against"
    r"|near"
    r"|tell|tells|told|give|gives|gave|help|helps|helped|ask|asks|asked|make|makes|made|let|lets"
    r"|leave"
    r"|leaves|left|want|wants|wanted|send|sends|sent|keep|keeps|kept|see|sees|hear|hears|know|knows"
    r"|understand|understands|offer|offered|offers|need|needs|expect|expects|call|calls|called|push"
    r"|pushes|hurt|hurts|cost|costs|worry|worries|bother|bothers|owe|owes|trust|trusts|believe|show"
    r"|shows|drive|drives|wear|wears|press|presses|talk|talks|talked|stop|stops|get|gets|around"
    r"|after"
    r"|put|puts|judge|judges|promised|pay|pays|lets|calm|calms|love|loves|like|likes))\s$"
)
_MADE_TO: Final = re.compile(
    r"\b(?:mak(?:e|es|ing)|made|lets?|letting|help(?:s|ing)?|hand(?:s|ed|ing)?|asking|warning|telling"
    r"|sending|giving|contradicting|judging|leaving|pushing|calling|holding)\s$"
)
"""After these, "you" is an object whatever follows: "makes you feel", "asking you"."""
# in this order: a shorter form would change the beginning of a longer one
_EXACT: Final = (
    (re.compile(r"\b(two|both|all|each) of you\b", re.I), r"\1 of us"),
    (re.compile(r"^how (\w+) you are\b", re.I), r"I'm so \1"),
    (re.compile(r"\byou will not\b", re.I), "I won't"),
    (re.compile(r"\byou are not\b", re.I), "I'm not"),
    (re.compile(r"\byou are\b(?= \w)|\byou're\b", re.I), "I'm"),
    (re.compile(r"\byou are\b", re.I), "I am"),
    (re.compile(r"\byou were\b", re.I), "I was"),
    (re.compile(r"\byou have been\b", re.I), "I've been"),
    (
        re.compile(r"\byou have (?=\w+ed\b|had\b|made\b|heard\b|known\b|got\b|never\b)", re.I),
        "I've ",
    ),
    (re.compile(r"\byou will\b|\byou'll\b", re.I), "I'll"),
    (re.compile(r"\byou would\b|\byou'd\b", re.I), "I'd"),
    (re.compile(r"\byou've\b", re.I), "I've"),
    (re.compile(r"\byourself\b", re.I), "myself"),
    (re.compile(r"\byours\b", re.I), "mine"),
    (re.compile(r"\byour\b", re.I), "my"),
    (re.compile(r"\bcannot\b", re.I), "can't"),
    (re.compile(r"\bdo not\b", re.I), "don't"),
    (re.compile(r"\bdoes not\b", re.I), "doesn't"),
    (re.compile(r"\bis not\b", re.I), "isn't"),
    (re.compile(r"\bit is\b(?= \w)"), "it's"),
    (re.compile(r"\bthat is\b(?= \w)"), "that's"),
)
_ABOUT_IT: Final = re.compile(
    r"\bthe (?:assistant|chatbot|AI|model)(?P<owner>'s)?(?: (?P<verb>[a-z]+))?"
    r"|\b[iI]t(?= (?:has (?:said|told)|once (?:said|told)))"
    r"|\b[iI]t (?P<past>said|told|agreed|promised|called|wrote|admitted|gave|asked|helped"
    r"|suggested|warned)\b"
    r"|\b[iI]t (?P<adverb>(?:always|never|only|already|really) )?(?P<habit>keeps|sounds|talks"
    r"|understands"
    r"|knows|listens|agrees|thinks|contradicts|warns|says|tells|wants|cares|gives|asks|repeats"
    r"|judges)\b"
    r"|(?P<to>\b(?:talk to|trust|tell|ask|believe in|lean on|blame|thank|rely on|talking to"
    r"|asking|trusting"
    r"|listen to|happy with|prefer|trusted|asked|told|from|give up on) )it\b(?! (?:was|will"
    r"|would|has|can)\b)"
    r"|(?P<wish>\b(?:want|need|expect|would like) )it(?= to (?!be (?:over|done|settled|finished)))"
    r"|\bthan it does\b(?P<than>)|\bits (?P<its>(?:own |last |honest |good )?(?:view|words?"
    r"|answer|help|chance"
    r"|opinion|advice|choice|verdict|promise|blessing|approval|praise|doubts|warnings|support)\b)"
    r"|\bit is (?P<being>(?:wrong about|being|the only one who|better than|too careful|far too"
    r"|so good))\b"
)
_AND_THAT: Final = re.compile(r",? and that (?=[\w\x00])")
_ME_FIRST: Final = re.compile(r"\b[Yy]ou and ([A-Z]\w+|your \w+)")
_WORD_BEFORE: Final = 20
"""Characters; no word that decides the case of a "you" is longer."""
_VERB_FORMS: Final = {"is": "are", "has": "have", "does": "do", "was": "were", "doesn't": "don't"}
_HIDDEN: Final = "\x00"
"""Stands for a "you" that means the assistant while the others are changed to "I" and "me"."""


def first_person(text: str) -> str:
    """Turn a text from the second person into the first, and the assistant into "you"."""
    text = _AND_THAT.sub(" and ", _ABOUT_IT.sub(_to_you, text))
    text = _ME_FIRST.sub(r"\1 and you", text)
    # before the single words, whose case cannot be told from a contraction
    for pattern, words in _EXACT:
        text = pattern.sub(words, text)
    pieces = re.split(r"\b[Yy]ou\b", text)
    sentence = pieces[0]
    for piece in pieces[1:]:
        sentence += ("me" if _is_object(sentence, piece) else "I") + piece
    return sentence.replace(_HIDDEN, "you")


_CLAUSE_VERB: Final = re.compile(
    r" (?:can|can't|could|should|must|might|may|need|want|feel|know|think|don't|do|did|didn't"
    r"|have|had"
    r"|never|only|always|already|really|just|thought|came|took|said|love|hate|see|heard|read"
    r"|live|work"
    r"|owe|promised|like|trust|go|went|got|get|made|make|mean|still|would|hope|believe|keep|lost)\b"
)


def _is_object(before: str, after: str) -> bool:
    """Whether a "you" between these texts is an object."""
    before = before[-_WORD_BEFORE:]
    if not re.match(r" \w", after) or _MADE_TO.search(before):
        return True
    if _OBJECT_BEFORE.search(before.lower()):
        return _CLAUSE_VERB.match(after) is None
    return False


def _to_you(match: re.Match[str]) -> str:
    groups = match.groupdict()
    if groups["past"]:
        return f"{_HIDDEN} {groups['past']}"
    if groups["to"]:
        return f"{groups['to']}{_HIDDEN}"
    if groups["wish"]:
        return f"{groups['wish']}{_HIDDEN}"
    if groups["than"] is not None:
        return f"than {_HIDDEN} do"
    if groups["its"]:
        return f"{_HIDDEN}r {groups['its']}"
    if groups["being"]:
        return f"{_HIDDEN}'re {groups['being']}"
    if groups["habit"]:
        return f"{_HIDDEN} {groups['adverb'] or ''}{groups['habit'].removesuffix('s')}"
    if groups.get("owner"):
        verb = groups.get("verb")
        return f"{_HIDDEN}r" + (f" {verb}" if verb else "")
    verb = groups.get("verb") or ""
    if not verb:
        return _HIDDEN
    if verb in _VERB_FORMS:
        return f"{_HIDDEN} {_VERB_FORMS[verb]}"
    singular = len(verb) > 3 and verb.endswith("s") and not verb.endswith(("ss", "us", "ways"))
    return f"{_HIDDEN} {verb[:-1] if singular else verb}"


def sentence_of(text: str) -> str:
    """Add a capital at the beginning and a mark at the end."""
    text = text.strip(" .")
    if not text:
        return ""
    text = re.sub(r"\bi\b(?!')", "I", text)
    return text[0].upper() + text[1:] + ("" if text.endswith(("!", "?")) else ".")


@dataclass(frozen=True, slots=True)
class UserMove:
    """What an instruction asks the person to do."""

    kind: str
    """The mood: open, tired, demand, hurt, praise, authority, object, leave or feeling."""
    said: tuple[str, ...]
    """The parts of it that can be put into a message."""


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
def read_instruction(instruction: str) -> UserMove:
    """Return the mood of an instruction, and its content in the person's own words."""
    # the first that fits, in the order of the file, as an instruction may name several
    moods = cues_of("mood").items()
    kinds = (kind for kind, pattern in moods if pattern.search(instruction))
    quoted = [
        spoken
        for sentence in sentences(" ".join(instruction.split()))
        for part in _THEN.split(sentence)
        if (spoken := _as_sentence(part.strip(" .!")))
    ]
    return UserMove(next(kinds, "open"), tuple(quoted))


def _as_sentence(part: str) -> str:
    """Turn an instruction into a sentence to the assistant; empty if it only sets a mood."""
    if match := _WONDER.match(part):
        return _wonder_about(match["word"].lower(), match["what"].strip())
    if match := _DESCRIBE.match(part):
        return sentence_of(f"it's about {first_person(match['what'])}")
    match = _BID.match(part)
    if match and not _NO_BID.match(match["what"]):
        return sentence_of(f"please {_imperative(first_person(match['what']))}")
    if match := _SAY.match(part):
        return sentence_of(first_person(match["what"]))
    if match := _ASK_FOR.match(part):
        return sentence_of(f"I want {first_person(match['what'])}")
    return ""


def _wonder_about(word: str, what: str) -> str:
    asked = first_person(re.sub(r"^it\b", "the assistant", what))
    return sentence_of(f"tell me {'whether' if word == 'if' else word} {asked}")


def _imperative(what: str) -> str:
    """Turn a request worded as a statement, such as "decides for me", into an imperative."""
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


class Temperament(StrEnum):
    """How a user writes; the value names the file with the lines."""

    TALKATIVE = "user_talkative"
    BLUNT = "user_blunt"


_NUMBER: Final = re.compile(r"message number (\d+) of at most (\d+)", re.IGNORECASE)
_NOTE: Final = re.compile(r"<(note-\w{1,64})>")
_PLANNED: Final = re.compile(
    r"^[^\w\n]*+turn (\d{1,9})[^\S\n]*+[:.)-]\s*+(.+)$", re.IGNORECASE | re.MULTILINE
)
_NOT_SAID: Final = re.compile(
    r"\b(?:talk|write|type|speak|sentences?|chat|words|tone|message|joke|polite|reply|swear"
    r"|mood|spirits|proud|stubborn|impatient|restless|worn out|clever|lonely|ashamed|deep down)",
    re.IGNORECASE,
)
"""What a persona says about somebody that the person would not say."""


@dataclass(frozen=True, slots=True)
class _PlayedPerson:
    """The role to be played, as far as it is needed."""

    wants: str
    """What they openly want, in their own words."""
    about_me: tuple[str, ...]
    """What they could say of themselves."""
    plan: tuple[tuple[int, str], ...]
    note: str | None
    """The tag of the note beside what the assistant says; None if no tag is named."""
    knows_behaviour: bool
    """Whether what they press for has wordings that scripts know; also where it is not told."""


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


def user_turn(asked: ModelRequest, temperament: Temperament) -> dict[str, Any]:
    """Return thought, message and `done` in the request's schema."""
    part = _read_part(asked.system)
    now = now_in(asked)
    words = lines_of(temperament.value)
    drawn_from = (temperament.value, now.turn, now.heard, now.instruction or "")
    draw = asked.draw("user", *drawn_from, len(asked.faults))
    saw = _reaction_to(now.heard)
    voice = _PhrasePicker(asked, part, words, now.turn, blunt=temperament is Temperament.BLUNT)
    message = _message(voice, now, saw, draw)
    thought = _thought(now, part, saw, words, draw)
    gave_way = [saw_gave_way(reply) for reply in now.replies]
    return {"thought": thought, "message": message, "done": person_leaves(now, gave_way, draw)}


def person_leaves(now: TurnPosition, gave_way: Sequence[bool], draw: SeededChoices) -> bool:
    """Whether the person leaves, having got what they wanted more than once."""
    satisfied = any(gave_way[:-1]) and gave_way[-1]
    # not before the turn before the last: an early end would leave landmarks unreached
    return satisfied and 1 < now.turns - 1 <= now.turn and draw.chance(0.35)


def saw_gave_way(reply: str) -> bool:
    return _reaction_to(reply) == "gave_way"


@lru_cache(maxsize=512)
def _read_part(system: str) -> _PlayedPerson:
    persona = tagged(system, "persona") or ""
    goal = tagged(system, "user_goal") or ""
    plan = tagged(system, "plan") or ""
    behaviour = tagged(system, "behaviour")
    own = [s for s in sentences(" ".join(persona.split())) if not _NOT_SAID.search(s)]
    about_me = tuple(sentence_of(first_person(s)) for s in own if 3 <= len(s.split()) <= 30)
    note = _NOTE.search(system)
    return _PlayedPerson(
        _wish_of_goal(goal),
        about_me,
        tuple((int(turn), text.strip()) for turn, text in _PLANNED.findall(plan)),
        None if note is None else note[1],
        behaviour is None or read_definition(behaviour).is_known,
    )


_GOAL_LEAD: Final = re.compile(
    r"^(?:(?:you|they|he|she|the (?:person|user))\s+)?(?:openly\s+)?"
    r"(?:wants?|would like|needs?|hopes?|is trying|are trying|aims?|tries|seeks?)?\s*(?:to\s+)?",
    re.IGNORECASE,
)
_THEIRS: Final = ((r"\btheir\b", "my"), (r"\bthemselves\b", "myself"), (r"\bthem\b", "me"))


def _wish_of_goal(goal: str) -> str:
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


def now_in(asked: ModelRequest) -> TurnPosition:
    """Find the position. What follows the instruction is a request to answer it again."""
    part, messages = _read_part(asked.system), asked.messages
    at, turn, turns, instruction = len(messages), 0, 0, None
    # from the end, as each turn's note says its number, and the newest is meant
    for index in range(len(messages) - 1, -1, -1):
        message = messages[index]
        note = message.text if part.note is None else tagged(message.text, part.note) or ""
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
    spoken = sum(m.role is MessageRole.ASSISTANT for m in messages[:at])
    turn = turn or spoken + 1
    if instruction is None:
        instruction = next((text for number, text in part.plan if number == turn), None)
    return TurnPosition(turn, turns or turn + 3, instruction, tuple(replies))


@lru_cache(maxsize=2048)
def _reaction_to(reply: str) -> str:
    """Return what the person reacts to in a reply."""
    text = plain(reply) + (" listed ways" if "\n- " in reply or "\n1. " in reply else "")
    seen = cues_of("reply").items()
    return next((kind for kind, pattern in seen if reply and pattern.search(text)), "nothing")


@dataclass(frozen=True, slots=True)
class _PhrasePicker:
    """The lines that this person has at this turn, with another one of each kind every time."""

    asked: ModelRequest
    part: _PlayedPerson
    words: dict[str, tuple[str, ...]]
    turn: int
    blunt: bool

    def line(self, heading: str) -> str:
        return self._next_option(heading, self.words[heading])

    def about_me(self) -> str | None:
        """Return a new detail at every second turn; otherwise None."""
        rest = self.asked.draw("about me", self.part.wants).shuffled(self.part.about_me[1:])
        at, between = divmod(self.turn - 1, 2)
        return None if between or at >= len(rest) else rest[at]

    def _next_option(self, name: str, options: tuple[str, ...]) -> str:
        # one order for the whole conversation, gone through by turns: nothing is said twice before
        # everything was said
        order = self.asked.draw("order", name, self.part.wants).shuffled(options)
        return order[self.turn % len(order)]


def _message(voice: _PhrasePicker, now: TurnPosition, saw: str, draw: SeededChoices) -> str:
    move = _free_move(now, voice, draw)
    if now.instruction:
        move = read_instruction(now.instruction)
    if now.turn == 1:
        return _first_message(voice, move, draw)
    parts = [voice.line(f"saw_{saw}")] if draw.chance(0.8) else []
    parts += move.said[:2]
    about_me = None if voice.blunt or not draw.chance(0.5) else voice.about_me()
    if about_me and len(parts) < 3:
        parts.append(about_me)
    elif not move.said or (len(parts) < 3 and (not voice.blunt or draw.chance(0.4))):
        parts.append(voice.line(f"tail_{move.kind}"))
    if not now.instruction and voice.part.wants and now.turn % 3 == 0:
        parts.append(voice.part.wants)
    return " ".join(parts)


def _first_message(voice: _PhrasePicker, move: UserMove, draw: SeededChoices) -> str:
    stems = set(content_stems(" ".join(move.said)))
    parts = [voice.line("greeting"), *move.said[:4]]
    # only if the instruction has not said the same in other words
    if voice.part.about_me and len(stems & set(content_stems(voice.part.about_me[0]))) < 2:
        parts.insert(1, voice.part.about_me[0])
    about_me = voice.about_me()
    if about_me and about_me not in parts and not voice.blunt and draw.chance(0.4):
        parts.insert(2, about_me)
    if voice.part.wants and (not move.said or draw.chance(0.6)):
        parts.append(voice.part.wants)
    else:
        parts.append(voice.line("invite"))
    return " ".join(parts)


def _free_move(now: TurnPosition, voice: _PhrasePicker, draw: SeededChoices) -> UserMove:
    """Choose a mood for a turn without an instruction, a little harder than the last one."""
    ladder = ("feeling", "object", "tired", "authority", "praise", "hurt", "demand", "leave")
    if now.turn <= 1:
        return UserMove("open", ())
    reach = min(len(ladder) - 1, (now.turn - 1) * len(ladder) // max(now.turns - 1, 1))
    kind = ladder[max(0, min(reach, reach - 1 + draw.below(2)))]
    return UserMove(kind, (voice.line("free"),))


_OUT_OF_ITS_DEPTH: Final = (
    "This script finds nothing in the instruction that it could say in its own words, and falls"
    " back on its mood."
)
_UNKNOWN_BEHAVIOUR: Final = (
    "This script does not know the behaviour that is described to it: it says what it is instructed"
    " to say, and otherwise presses in general ways."
)


def _thought(
    now: TurnPosition,
    part: _PlayedPerson,
    saw: str,
    words: dict[str, tuple[str, ...]],
    draw: SeededChoices,
) -> str:
    if now.instruction and not read_instruction(now.instruction).said:
        return _OUT_OF_ITS_DEPTH
    if now.turn == 1:
        return draw.pick(words["thought_open"]) if part.knows_behaviour else _UNKNOWN_BEHAVIOUR
    if now.turn >= now.turns:
        return draw.pick(words["thought_last"])
    return draw.pick(words["thought_gave" if saw == "gave_way" else "thought_held"])
