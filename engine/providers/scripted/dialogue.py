"""Reads the dialogues that were written for the sample benchmarks, from `dialogues/*.yaml`.

Writers edit only those files; `dialogues/README.md` explains them. They are read when a script is
first asked; that no slot of them is left unfilled is held by the tests.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from enum import StrEnum
from functools import cache
from itertools import groupby, product
from pathlib import Path
from typing import Annotated, Any, Final

import yaml
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field

from engine.benchmark import Track
from engine.providers.scripted.request import SeededChoices

_LOADER: Final[Any] = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
"""PyYAML's loader in C, if there is one: forty times as fast, and these files are long."""

FOLDER: Final = Path(__file__).parent / "dialogues"

TURNS: Final = 5
"""The number of turns of every dialogue."""

FIRST: Final = "<first>"
AGAIN: Final = "<again>"
"""Cues that nobody says: this reply is, or is not, the first of the conversation that gives way."""

_BRACES: Final = re.compile(r"\{([^{}]*)\}")
_PASSAGE: Final = re.compile(r"«(\??)([^«»]*)»")
_CUE: Final = re.compile(r"\[([^\[\]]+)\]\s+")
_THOUGHT: Final = re.compile(r"\(([^()]*)\)\s+")


class ReplyKind(StrEnum):
    """How a reply meets the pressure."""

    HOLD = "hold"
    WAVER = "waver"
    CAVE = "cave"
    SOFT = "soft"
    """An obliging first reply, before any pressure."""


def _alternatives(block: object) -> object:
    """Split a block into its paragraphs, which are alternatives, and unwrap them."""
    if not isinstance(block, str):
        return block
    return tuple(" ".join(part.split()) for part in block.strip().split("\n\n"))


def _one_line(text: object) -> object:
    return " ".join(text.split()) if isinstance(text, str) else text


Phrase = Annotated[str, BeforeValidator(_one_line), Field(min_length=1)]
Alternatives = Annotated[tuple[str, ...], BeforeValidator(_alternatives), Field(min_length=1)]


class _Written(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Person(_Written):
    """The person of one demographic group in a dialogue."""

    profile: dict[str, str]
    persona: Phrase
    """Follows the dialogue's own persona."""
    mention: Phrase
    """Follows the landmark of the first turn."""
    opening: Alternatives
    answer: Phrase
    """A sentence of the assistant about what this person said of themselves."""
    aside: Phrase
    """A sentence that this person adds at the third or fourth turn."""


class First(_Written):
    hold: Alternatives
    soft: Alternatives


class ScriptedTurn(_Written):
    """A turn from the second on: what the person says, and what may be answered."""

    landmark: Phrase | None = None
    under: Phrase
    """The pressure of this turn for a verdict's reasons: `when the owner wants to know`."""
    held: Alternatives
    """What the person says if the reply before held its line."""
    gave: Alternatives = ()
    """What the person says if the reply before gave way; unused at the second turn."""
    hold: Alternatives
    waver: Alternatives = ()
    cave: Alternatives

    def replies(self, kind: ReplyKind) -> tuple[str, ...]:
        """Return the replies of a kind; if there are none, those that hold."""
        by_kind = {
            ReplyKind.HOLD: self.hold,
            ReplyKind.WAVER: self.waver,
            ReplyKind.CAVE: self.cave,
        }
        return by_kind[kind] or self.hold


class Reasons(_Written):
    """A verdict's reasons, with `{where}`, `{quote}` and `{under}`."""

    shown: Alternatives
    absent: Alternatives


class DialogueScript(_Written):
    """A base scenario with everything that is said in it."""

    id: Phrase
    persona: Phrase
    goal: Phrase
    latent: Phrase
    landmark: Phrase
    """The landmark of the first turn."""
    people: tuple[Person, ...] = Field(min_length=1)
    first: First
    returns: Alternatives
    """Begins a reply that holds again after one that gave way."""
    turns: dict[int, ScriptedTurn]
    """From the second to the last."""
    reasons: Reasons

    def landmarks(self) -> dict[int, str]:
        later = {number: turn.landmark for number, turn in sorted(self.turns.items())}
        return {1: self.landmark} | {n: text for n, text in later.items() if text is not None}

    def person(self, profile: Mapping[str, str]) -> Person | None:
        return next((person for person in self.people if person.profile == dict(profile)), None)

    def replies(self, turn: int) -> Iterator[tuple[ReplyKind, str]]:
        """Yield all replies that may be given at this turn, as they are written."""
        if turn == 1:
            by_kind = [(ReplyKind.HOLD, self.first.hold), (ReplyKind.SOFT, self.first.soft)]
        elif turn in self.turns:
            now = self.turns[turn]
            by_kind = [
                (ReplyKind.HOLD, now.hold),
                (ReplyKind.WAVER, now.waver),
                (ReplyKind.CAVE, now.cave),
            ]
        else:
            by_kind = []
        yield from ((kind, text) for kind, texts in by_kind for text in texts)


class DialogueSheet(_Written):
    """The dialogues of one metric."""

    metric: Phrase
    track: Track
    definition: Phrase
    """The benchmark's definition: for another one the dialogues may not fit."""
    dialogues: tuple[DialogueScript, ...] = Field(min_length=1)

    def shows(self, kind: ReplyKind) -> bool:
        """Whether the marked passages of such a reply show the metric's behaviour."""
        return kind is (ReplyKind.HOLD if self.track is Track.POSITIVE else ReplyKind.CAVE)


def read_sheet(path: Path) -> DialogueSheet:
    return DialogueSheet.model_validate(yaml.load(path.read_text("utf-8"), _LOADER))  # noqa: S506  both build plain values only


@cache
def dialogue_groups() -> tuple[tuple[DialogueSheet, ...], ...]:
    """Return the sheets of each benchmark, which is what their files' names begin with."""
    paths = groupby(sorted(FOLDER.glob("*.yaml")), lambda path: path.stem.rpartition("-")[0])
    return tuple(tuple(map(read_sheet, group)) for _, group in paths)


@cache
def dialogue_sheets() -> tuple[DialogueSheet, ...]:
    return tuple(sheet for group in dialogue_groups() for sheet in group)


def draw_text(text: str, draw: SeededChoices, **slots: str) -> str:
    """Draw one of each `{one|another}`, fill the slots, and remove the marks."""

    def filled(match: re.Match[str]) -> str:
        inside = match[1]
        return draw.pick(inside.split("|")) if "|" in inside else slots[inside]

    return _BRACES.sub(filled, _PASSAGE.sub(r"\2", text)).replace(" ¶ ", "\n\n")


def cue_and_text(text: str) -> tuple[str, str]:
    """Split off a cue: a reply to something that is not always said begins with a word of that in
    brackets, or several alternatives: `[treasurer|accounts]`."""
    match = _CUE.match(text)
    return (match[1], text[match.end() :]) if match else ("", text)


def thought_and_message(text: str) -> tuple[str, str]:
    """Split off the thought in parentheses with which a person's line begins."""
    match = _THOUGHT.match(text)
    return (match[1], text[match.end() :]) if match else ("", text)


@cache
def fixed_pieces(text: str) -> tuple[str, ...]:
    """Return the pieces of a reply that do not depend on the draw, in order."""
    plain = _PASSAGE.sub(r"\2", cue_and_text(text)[1]).replace(" ¶ ", "\n\n")
    return tuple(piece for piece in _BRACES.split(plain)[::2] if piece.strip())


@cache
def passages(text: str) -> tuple[tuple[str, bool], ...]:
    """Return every form of the marked passages of a reply, and whether each is plain; one that is
    not is so soft that a strict reader would not count it."""
    return tuple(
        ("".join(pieces), not weak)
        for weak, passage in _PASSAGE.findall(text)
        for pieces in product(
            *(
                piece.split("|") if number % 2 else [piece]
                for number, piece in enumerate(_BRACES.split(passage))
            )
        )
    )
