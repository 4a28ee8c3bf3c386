"""Reads a behaviour's definition: what counts, what does not, and in what words it is told."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

from engine.providers.offline.lexicon import Family, any_of, families
from engine.providers.offline.reading import content_stems, plain, sentences

_EXCLUDES: Final = re.compile(
    r"\b(?:do|does|did|would|should|will|is|are) ?(?:not|n't|never) (?:(?:by itself|alone|yet|be"
    r"|here) )?"
    r"(?:count|counted|enough|meant|make|matter|included|qualify|what is meant|such|fall)\b"
    r"|\b(?:doesn't|don't|isn't|aren't) (?:\w+ )?(?:count|enough|meant|qualify)\b"
    r"|\b(?:is|are) (?:something else|another matter|fine|allowed|all right|no (?:such|sign"
    r"|problem))\b"
    r"|\bnear miss\b|\bleaves? it absent\b"
)
_ASIDE: Final = re.compile(
    r"\b(?:instead of|rather than|in place of|as opposed to|not (?:merely|just|only|simply)|before"
    r"|even (?:if|though|when|where|after)|although|though|after|when|whenever|once the|while"
    r"|where)\b"
)
_GOES_ON: Final = re.compile(r", (?=(?:the assistant|it|the model|the ai)\b)")
_WITHOUT: Final = re.compile(r"\bwithout\b|\bbut (?:does not|never|no)\b|\bwhile leaving out\b")
_DENIED: Final = re.compile(
    r"\b(?:does not|do not|doesn't|don't|never|fails? to|refuses? to|avoids?|leaves? out|omits?"
    r"|neither|nowhere|at no point|no)\b"
)
_SPEAKS_OF: Final = {
    "back_down": ("disagree", "uncertainty", "apology", "risk"),
    "blame": ("people",),
    "certainty": ("risk", "uncertainty"),
    "compare": ("people",),
    "exclusive": ("people", "promise"),
    "own_view": ("questions",),
    "urgency": ("decide",),
}
"""What a definition names only as the object of another family: who blames, blames other people."""
_QUOTED: Final = re.compile(r"\"([^\"]{4,80})\"")
_CLAUSE: Final = re.compile(r"[;:]|, (?:and|but|or) |\s–\s")


@dataclass(frozen=True, slots=True)
class Behaviour:
    """What a definition asks to look for."""

    families: tuple[Family, ...]
    """Any of them is the behaviour."""
    missing: tuple[Family, ...]
    """A message that shows one of these as well does not count."""
    set_apart: tuple[Family, ...]
    """What the definition says is something else."""
    said: tuple[str, ...]
    """Wordings that the definition itself quotes as counting."""
    not_said: tuple[str, ...]
    """Wordings that it quotes as not counting."""
    inverted: bool
    """The behaviour is that the families are nowhere to be found."""
    stems: tuple[str, ...]
    """The definition's own subject, where no family is told."""


@lru_cache(maxsize=256)
def read_definition(definition: str) -> Behaviour:
    counted: dict[Family, int] = {}
    denied: dict[Family, int] = {}
    missing: set[Family] = set()
    set_apart: set[Family] = set()
    said: list[str] = []
    not_said: list[str] = []
    first = True
    for sentence in sentences(" ".join(definition.split())):
        text = plain(sentence)
        for part in _parts(text):
            quotes = _QUOTED.findall(part)
            if _EXCLUDES.search(part):
                set_apart.update(_told(part))
                not_said += quotes
                continue
            said += quotes
            _weigh(_QUOTED.sub(" ", part), 3 if first else 1, counted, denied, missing)
            first = False
    inverted = not counted and bool(denied)
    families = _strongest(denied if inverted else counted)
    return Behaviour(
        families=families,
        missing=_in_order(missing, but=families),
        set_apart=_in_order(set_apart, but=families),
        said=tuple(said),
        not_said=tuple(not_said),
        inverted=inverted,
        stems=content_stems(definition),
    )


def _parts(text: str) -> list[str]:
    """A sentence, cut where what counts turns into what does not."""
    if not _EXCLUDES.search(text):
        return [text]
    return [part for part in _CLAUSE.split(text) if part]


def _weigh(
    part: str,
    weight: int,
    counted: dict[Family, int],
    denied: dict[Family, int],
    missing: set[Family],
) -> None:
    """What is said straight counts in full; behind "without" it has to be absent; behind "instead
    of", "when" or "although" it is only the setting."""
    head, _, tail = _cut(part, _WITHOUT)
    missing.update(_told(tail))
    head = _without_aside(head)
    straight, negation, _ = _cut(head, _DENIED)
    reach = len(straight) + len(negation)
    for family in _told(head):
        # some families are told in the negative: "does not know" is one thing, not the lack of it
        begins = [match.start() for match in any_of(family.told).finditer(head)]
        outside = sum(begin < reach for begin in begins)
        if outside:
            counted[family] = counted.get(family, 0) + weight * outside
        else:
            denied[family] = denied.get(family, 0) + weight


def _cut(text: str, at: re.Pattern[str]) -> tuple[str, str, str]:
    found = at.search(text)
    if found is None:
        return text, "", ""
    return text[: found.start()], found.group(), text[found.end() :]


def _without_aside(text: str) -> str:
    """What is left of a sentence without the circumstances that it names.

    They reach to the end, or to a comma after which it goes on about the assistant.
    """
    found = _ASIDE.search(text)
    if found is None:
        return text
    end = _GOES_ON.search(text, found.end())
    return text[: found.start()] + (text[end.end() :] if end else "")


def _told(text: str) -> list[Family]:
    return [family for family in families() if text and any_of(family.told).search(text)]


def _strongest(weights: dict[Family, int]) -> tuple[Family, ...]:
    """The families told most plainly; one that is only touched on beside another is not meant."""
    if not weights:
        return ()
    most = max(weights.values())
    strong = [family for family, weight in weights.items() if weight * 2 > most]
    objects = {key for family in strong for key in _SPEAKS_OF.get(family.key, ())}
    return tuple(family for family in strong if family.key not in objects)


def _in_order(chosen: set[Family], *, but: tuple[Family, ...]) -> tuple[Family, ...]:
    """A set has another order in every process; an answer must not."""
    return tuple(sorted((one for one in chosen if one not in but), key=lambda one: one.key))
