"""The scripted generator's variants: the same situation, lived by a person of a given profile."""

from __future__ import annotations

import re
from typing import Any, Final

from engine.providers.offline.draw import Draw
from engine.providers.offline.reading import plain, sentences
from engine.providers.offline.request import Request
from engine.providers.offline.stock import Voice, voices

_LANDMARK: Final = re.compile(
    r"^[^\w\n]*+turn (\d{1,9})[^\S\n]*+[:.)-]\s*+(.+)$", re.IGNORECASE | re.MULTILINE
)
_MUST_STAY: Final = re.compile(r"turns \[([\d, ]+)\]")

_REWORDED: Final = (
    (r"^Say that\b", ("Tell it that", "Let it know that", "Explain that")),
    (r"^Say how\b", ("Tell it how", "Explain how")),
    (r"^Point out that\b", ("Remind it that", "Mention that")),
    (r"^Admit that\b", ("Confess that", "Let slip that")),
    (r"^Insist that\b", ("Demand that", "Insist that")),
    (r"^Demand\b(?! that)", ("Insist on", "Ask for")),
    (r"^Ask it to\b", ("Beg it to", "Press it to")),
)  # fmt: skip
_LOWER_START: Final = re.compile(
    r"^(?:in|at|from|with|over|under|between|still|not|new|used|fluent|very|an?|the|on|without|"
    r"experienced|older|younger|good|out|living|working|born|raised|retired|at home)\b"
)


def written_variant(asked: Request) -> dict[str, Any]:
    """Persona and landmarks for a profile, the turns kept, as the request's schema wants them."""
    task = asked.task()
    persona = asked.tagged("persona") or "You are somebody with a question."
    landmarks = asked.tagged("landmarks") or task
    profile = _profile(asked.tagged("profile") or "")
    draw = asked.draw("variant", persona, *profile.values(), len(asked.faults))
    marks = [(int(turn), text.strip()) for turn, text in _LANDMARK.findall(landmarks)]
    demanded = next(
        (m for fault in reversed(asked.faults) if (m := _MUST_STAY.search(fault))), None
    )
    if demanded:
        turns = [int(turn) for turn in demanded.group(1).split(",")]
        texts = [text for _, text in marks] or [task.splitlines()[-1]]
        marks = [(turn, texts[min(at, len(texts) - 1)]) for at, turn in enumerate(turns)]
    voice = draw.pick([_voice(value) for value in profile.values()] or [voices()[-1]])
    marks = marks or [(1, "Say what brings you here.")]
    return {
        "persona": _persona(persona, profile, voice, draw),
        "landmarks": [
            {"turn": turn, "instruction": _reworded(text, voice, draw, number)}
            for number, (turn, text) in enumerate(marks)
        ],
    }


def _profile(text: str) -> dict[str, str]:
    pairs = (line.partition(":") for line in text.splitlines() if ":" in line)
    return {axis.strip(" -*"): value.strip() for axis, _, value in pairs if value.strip()}


def _voice(value: str) -> Voice:
    return next(voice for voice in voices() if voice.told.search(plain(value)))


def _persona(persona: str, profile: dict[str, str], voice: Voice, draw: Draw) -> str:
    told = " ".join(_said_of(axis, value) for axis, value in profile.items())
    situation, *rest = sentences(" ".join(persona.split()))
    return " ".join([situation, told, draw.pick(voice.of_self), *rest])


def _said_of(axis: str, value: str) -> str:
    """The profile in plain words; a value that is no part of a sentence is given as it stands."""
    low = value[0].lower() + value[1:]
    if value[0].isdigit():
        return f"Your {axis.lower()} is {value}."
    if _LOWER_START.search(low):
        return f"You are {low}."
    if plain(axis) in {"age", "age group", "gender", "occupation", "profession", "role"}:
        return f"You are {'an' if low[0] in 'aeiou' else 'a'} {low}."
    return f"Your {axis.lower()}: {low}."


def _reworded(text: str, voice: Voice, draw: Draw, number: int) -> str:
    """The same move in other words; every other one touches what is particular to the profile."""
    said = text
    for told, options in _REWORDED:
        if re.search(told, said):
            said = re.sub(told, draw.pick(options), said)
            break
    said = said.rstrip()
    if number == 2:
        brings = draw.pick(voice.brings)
        said += f" Mention {brings}."
    return said if said != text else f"{said} Say it the way you would."
