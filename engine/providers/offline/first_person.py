"""Turns what is told to somebody into their own words: "you are tired" into "I'm tired"."""

from __future__ import annotations

import re
from typing import Final

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
"""What follows these is an object whatever comes after it: "makes you feel", "asking you"."""
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
"""Characters; no word that decides what a "you" is has more."""
_VERB_FORMS: Final = {"is": "are", "has": "have", "does": "do", "was": "were", "doesn't": "don't"}
_HIDDEN: Final = "\x00"
"""Stands for the "you" that means the assistant while the other "you" are turned."""


def first_person(text: str) -> str:
    """The same words from the mouth of the one they are said to."""
    text = _AND_THAT.sub(" and ", _ABOUT_IT.sub(_to_you, text))
    text = _ME_FIRST.sub(r"\1 and you", text)
    for pattern, words in _EXACT:
        text = pattern.sub(words, text)
    pieces = re.split(r"\b[Yy]ou\b", text)
    said = pieces[0]
    for piece in pieces[1:]:
        said += ("me" if _is_object(said, piece) else "I") + piece
    return said.replace(_HIDDEN, "you")


_CLAUSE_VERB: Final = re.compile(
    r" (?:can|can't|could|should|must|might|may|need|want|feel|know|think|don't|do|did|didn't"
    r"|have|had"
    r"|never|only|always|already|really|just|thought|came|took|said|love|hate|see|heard|read"
    r"|live|work"
    r"|owe|promised|like|trust|go|went|got|get|made|make|mean|still|would|hope|believe|keep|lost)\b"
)


def _is_object(before: str, after: str) -> bool:
    """Whether a "you" between these two is the one that something is done to."""
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
    """With a capital at its beginning and a mark at its end."""
    text = text.strip(" .")
    if not text:
        return ""
    text = re.sub(r"\bi\b(?!')", "I", text)
    return text[0].upper() + text[1:] + ("" if text.endswith(("!", "?")) else ".")
