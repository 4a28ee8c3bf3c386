"""Dialogues that were written for the sample benchmarks, read from `dialogues/*.yaml`.

A writer edits those files alone; `dialogues/README.md` says how. They are read when a script is
first asked something, and checked whole: whoever plays a sample hears no unfilled slot.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from enum import StrEnum
from functools import cache
from itertools import product
from pathlib import Path
from typing import Annotated, Any, Final

import yaml
from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, ValidationError

from engine.benchmark import Track
from engine.errors import InputError, Problem
from engine.providers.scripted.words import SeededChoices
from engine.quotes import is_one_word

_LOADER: Final[Any] = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
"""The one in C where PyYAML was built with it: forty times as fast, and these files are long."""

FOLDER: Final = Path(__file__).parent / "dialogues"

TURNS: Final = 5
"""Of every dialogue that is written here."""

FIRST: Final = "<first>"
AGAIN: Final = "<again>"
"""Cues that nobody gives: this reply is the first of the conversation to give way, or is not."""

_BRACES: Final = re.compile(r"\{([^{}]*)\}")
_PASSAGE: Final = re.compile(r"«(\??)([^«»]*)»")
_CUE: Final = re.compile(r"\[([^\[\]]+)\]\s+")
_THOUGHT: Final = re.compile(r"\(([^()]*)\)\s+")
_SLOTS: Final = {"answer", "under", "where", "quote"}


class ReplyKind(StrEnum):
    """What a reply does with the pressure that it answers."""

    HOLD = "hold"
    WAVER = "waver"
    CAVE = "cave"
    SOFT = "soft"
    """The obliging kind of first reply, before anybody presses."""


def _alternatives(block: object) -> object:
    """A block's paragraphs, each one alternative, unwrapped."""
    if not isinstance(block, str):
        return block
    told = tuple(" ".join(part.split()) for part in block.strip().split("\n\n"))
    for text in told:
        _check(text)
    return told


def _check(text: str) -> None:
    beginning = text if len(text) <= 40 else f"{text[:40]}…"
    if not text:
        raise ValueError("there is no text here")
    rest = _BRACES.sub("", text)
    if "{" in rest or "}" in rest:
        raise ValueError(f"a brace has no partner, or stands in another pair, in {beginning!r}")
    for inside in _BRACES.findall(text):
        if "|" not in inside and inside not in _SLOTS:
            known = ", ".join(sorted(_SLOTS))
            raise ValueError(
                f"{{{inside}}} is neither {{one|another}} nor one of {known}, in {beginning!r}"
            )
    if set("«»") & set(_PASSAGE.sub("", text)):
        raise ValueError(f"a « or » has no partner in {beginning!r}")
    short = next((one for one, _ in passages(text) if is_one_word(one)), None)
    if short is not None:
        raise ValueError(f"«{short}» is one word, and no evidence of anything, in {beginning!r}")


def _one_line(text: object) -> object:
    return " ".join(text.split()) if isinstance(text, str) else text


Phrase = Annotated[str, BeforeValidator(_one_line), Field(min_length=1)]
Alternatives = Annotated[tuple[str, ...], BeforeValidator(_alternatives), Field(min_length=1)]


class _Written(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Person(_Written):
    """One demographic group's person in a dialogue."""

    profile: dict[str, str]
    persona: Phrase
    """Follows the dialogue's own."""
    mention: Phrase
    """Follows the landmark of the first turn."""
    opening: Alternatives
    answer: Phrase
    """A sentence of the assistant's about what this person told of themselves."""
    aside: Phrase
    """A sentence that this person adds to what they say at the third or fourth turn."""


class First(_Written):
    hold: Alternatives
    soft: Alternatives


def _some_for_anybody(replies: tuple[str, ...]) -> tuple[str, ...]:
    if replies and all(cue_and_text(text)[0] for text in replies):
        raise ValueError("each of these waits for a cue, so nothing is left for who gives none")
    return replies


Replies = Annotated[Alternatives, AfterValidator(_some_for_anybody)]


class ScriptedTurn(_Written):
    """From the second one on: what the person says, and what they may be told."""

    landmark: Phrase | None = None
    under: Phrase
    """What presses here, to be read in a verdict's reasons: `when the owner wants to know`."""
    held: Replies
    """What the person says where the reply before held its line."""
    gave: Replies = ()
    """Where it gave way; at the second turn none has."""
    hold: Replies
    waver: Replies = ()
    cave: Replies

    def replies(self, kind: ReplyKind) -> tuple[str, ...]:
        """Those of a kind that is not written for this turn are the ones that hold."""
        told = {ReplyKind.HOLD: self.hold, ReplyKind.WAVER: self.waver, ReplyKind.CAVE: self.cave}
        return told[kind] or self.hold


class Reasons(_Written):
    """Of a verdict, with `{where}`, `{quote}` and `{under}`."""

    shown: Alternatives
    absent: Alternatives


def _every_later_turn(turns: dict[int, ScriptedTurn]) -> dict[int, ScriptedTurn]:
    if sorted(turns) != list(range(2, TURNS + 1)):
        raise ValueError(f"it has the turns {sorted(turns)}, but needs 2 to {TURNS}")
    return turns


class DialogueScript(_Written):
    """One base scenario, and all that is said in it."""

    id: Phrase
    persona: Phrase
    goal: Phrase
    latent: Phrase
    landmark: Phrase
    """Of the first turn."""
    people: tuple[Person, ...] = Field(min_length=1)
    first: First
    returns: Alternatives
    """What a reply begins with that holds again after one that gave way."""
    turns: Annotated[dict[int, ScriptedTurn], AfterValidator(_every_later_turn)]
    reasons: Reasons

    def landmarks(self) -> dict[int, str]:
        later = {number: turn.landmark for number, turn in sorted(self.turns.items())}
        return {1: self.landmark} | {n: text for n, text in later.items() if text is not None}

    def person(self, profile: Mapping[str, str]) -> Person | None:
        return next((one for one in self.people if one.profile == dict(profile)), None)

    def replies(self, turn: int) -> Iterator[tuple[ReplyKind, str]]:
        """All that may be said at this turn, as it is written."""
        if turn == 1:
            told = [(ReplyKind.HOLD, self.first.hold), (ReplyKind.SOFT, self.first.soft)]
        elif turn in self.turns:
            now = self.turns[turn]
            told = [
                (ReplyKind.HOLD, now.hold),
                (ReplyKind.WAVER, now.waver),
                (ReplyKind.CAVE, now.cave),
            ]
        else:
            told = []
        yield from ((kind, text) for kind, texts in told for text in texts)


class DialogueSheet(_Written):
    """The dialogues of one metric."""

    metric: Phrase
    track: Track
    definition: Phrase
    """As the benchmark has it: with another one, none of this is known to fit."""
    dialogues: tuple[DialogueScript, ...] = Field(min_length=1)

    def shows(self, kind: ReplyKind) -> bool:
        """Whether the telling passages of such a reply show the metric's behaviour."""
        return kind is (ReplyKind.HOLD if self.track is Track.POSITIVE else ReplyKind.CAVE)


def read_sheet(path: Path) -> DialogueSheet:
    """Raises `InputError` with the file and the line of every fault."""
    text = path.read_text("utf-8")
    try:
        written = yaml.load(text, _LOADER)  # noqa: S506  both build plain values only
        return DialogueSheet.model_validate(written)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark
        line = None if mark is None else mark.line + 1
        raise InputError(Problem(error.problem or "this is no YAML", path, line)) from error
    except ValidationError as error:
        root = yaml.compose(text, yaml.SafeLoader)
        raise InputError(
            [
                Problem(
                    one["msg"].removeprefix("Value error, "),
                    path,
                    _line_of(root, one["loc"]),
                    key=".".join(map(str, one["loc"])),
                )
                for one in error.errors()
            ]
        ) from error


def _line_of(node: yaml.Node | None, place: tuple[int | str, ...]) -> int | None:
    """Of the innermost thing on the way to this place that the file has, 1-based."""
    line = None
    for step in place:
        if isinstance(node, yaml.MappingNode):
            found = {key.value: (key, value) for key, value in node.value}.get(str(step))
            if found is None:
                break
            line, node = found[0].start_mark.line + 1, found[1]
        elif isinstance(node, yaml.SequenceNode) and isinstance(step, int):
            node = node.value[step]
            line = node.start_mark.line + 1
        else:
            break
    return line


@cache
def sheets() -> tuple[DialogueSheet, ...]:
    return tuple(read_sheet(path) for path in sorted(FOLDER.glob("*.yaml")))


def spoken(text: str, draw: SeededChoices, **slots: str) -> str:
    """The text with one of each `{one|another}` drawn, its slots filled and its marks taken off."""

    def filled(match: re.Match[str]) -> str:
        inside = match[1]
        return draw.pick(inside.split("|")) if "|" in inside else slots[inside]

    return _BRACES.sub(filled, _PASSAGE.sub(r"\2", text)).replace(" ¶ ", "\n\n")


def cue_and_text(text: str) -> tuple[str, str]:
    """What answers something that is not always said begins with a word of that, in brackets, or
    with several, of which any will do: `[treasurer|accounts]`."""
    found = _CUE.match(text)
    return (found[1], text[found.end() :]) if found else ("", text)


def thought_and_message(text: str) -> tuple[str, str]:
    """A line of the person's begins with what goes on in them, in parentheses."""
    found = _THOUGHT.match(text)
    return (found[1], text[found.end() :]) if found else ("", text)


@cache
def fixed_pieces(text: str) -> tuple[str, ...]:
    """What of a reply stands in it however it is drawn, in order."""
    plain = _PASSAGE.sub(r"\2", cue_and_text(text)[1]).replace(" ¶ ", "\n\n")
    return tuple(piece for piece in _BRACES.split(plain)[::2] if piece.strip())


@cache
def passages(text: str) -> tuple[tuple[str, bool], ...]:
    """The telling passages of a reply in every form that may be drawn, and whether each is plain
    rather than put so softly that a strict reader would not count it."""
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
