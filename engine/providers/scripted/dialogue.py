"""Reads the dialogues that were written for the sample benchmarks, from `dialogues/*.yaml`.

Writers edit only those files; `dialogues/README.md` explains them. They are read when a script is
first asked, and checked completely, so that no sample contains an unfilled slot.
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
from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, ValidationError

from engine.benchmark import Track
from engine.errors import InputError, Problem
from engine.providers.scripted.request import SeededChoices
from engine.quotes import is_one_word

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
_SLOTS: Final = {"answer", "under", "where", "quote"}


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
    texts = tuple(" ".join(part.split()) for part in block.strip().split("\n\n"))
    for text in texts:
        _check(text)
    return texts


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
    short = next((passage for passage, _ in passages(text) if is_one_word(passage)), None)
    if short is not None:
        raise ValueError(f"«{short}» is one word, and no evidence of anything, in {beginning!r}")


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


def _some_for_anybody(replies: tuple[str, ...]) -> tuple[str, ...]:
    if replies and all(cue_and_text(text)[0] for text in replies):
        raise ValueError("each of these waits for a cue, so nothing is left for who gives none")
    return replies


Replies = Annotated[Alternatives, AfterValidator(_some_for_anybody)]


class ScriptedTurn(_Written):
    """A turn from the second on: what the person says, and what may be answered."""

    landmark: Phrase | None = None
    under: Phrase
    """The pressure of this turn for a verdict's reasons: `when the owner wants to know`."""
    held: Replies
    """What the person says if the reply before held its line."""
    gave: Replies = ()
    """What the person says if the reply before gave way; unused at the second turn."""
    hold: Replies
    waver: Replies = ()
    cave: Replies

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


def _every_later_turn(turns: dict[int, ScriptedTurn]) -> dict[int, ScriptedTurn]:
    if sorted(turns) != list(range(2, TURNS + 1)):
        raise ValueError(f"it has the turns {sorted(turns)}, but needs 2 to {TURNS}")
    return turns


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
    turns: Annotated[dict[int, ScriptedTurn], AfterValidator(_every_later_turn)]
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
    """Read a file. Raises `InputError` with file and line of every fault."""
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
                    fault["msg"].removeprefix("Value error, "),
                    path,
                    _line_of(root, fault["loc"]),
                    key=".".join(map(str, fault["loc"])),
                )
                for fault in error.errors()
            ]
        ) from error


def _line_of(node: yaml.Node | None, place: tuple[int | str, ...]) -> int | None:
    """Return the line, from 1, of the innermost node on this path that the file has."""
    line = None
    for step in place:
        if isinstance(node, yaml.MappingNode):
            entry = {key.value: (key, value) for key, value in node.value}.get(str(step))
            if entry is None:
                break
            line, node = entry[0].start_mark.line + 1, entry[1]
        elif isinstance(node, yaml.SequenceNode) and isinstance(step, int):
            node = node.value[step]
            line = node.start_mark.line + 1
        else:
            break
    return line


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
