"""The scripted models: their names, and how each answers a request."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches
from typing import Any, Final

from engine.benchmark import Usage
from engine.errors import InputError, Problem
from engine.kill_points import KillPoint, reached
from engine.providers.model import Finish, JsonSchema, Message, Model, OnText, Reply
from engine.providers.scripted import generic, scenes
from engine.providers.scripted.generic import group_guesses, judgement, landmark_marks
from engine.providers.scripted.request import ModelRequest, SeededChoices, token_count
from engine.providers.scripted.scenes import Character
from engine.scripted import Pace

Sleep = Callable[[float], Awaitable[None]]

HUMAN_WORDS_PER_SECOND: Final = (42.0, 58.0)
HUMAN_FIRST_WORD: Final = (0.2, 0.6)
"""Seconds, from and to."""

_PIECE: Final = re.compile(r"\s*\S+(?:\s+$)?|\s+$")


async def speak(
    text: str,
    on_text: OnText | None,
    *,
    pace: Pace,
    sleep: Sleep,
    seed: tuple[int, int],
) -> None:
    """Pass the text to `on_text` at this pace; it takes as long without a listener."""
    if pace == "instant":
        reached(KillPoint.FIRST_WORD)
        if on_text is not None:
            on_text(text)
        return
    # seeded by the text, so that a repeated run takes the same time
    draw = SeededChoices("pace", *seed, text)
    delay = 0.0
    if pace == "human":
        low, high = HUMAN_FIRST_WORD
        delay = low + (high - low) * draw.fraction()
        low, high = HUMAN_WORDS_PER_SECOND
        per_word = 1 / (low + (high - low) * draw.fraction())
    else:
        per_word = 1 / pace
    for number, piece in enumerate(_PIECE.findall(text)):
        await sleep(delay)
        if number == 0:
            reached(KillPoint.FIRST_WORD)
        if on_text is not None:
            on_text(piece)
        delay = per_word * (0.7 + 0.6 * draw.fraction()) if pace == "human" else per_word


@dataclass(frozen=True, slots=True)
class _Traits:
    """How a scripted model differs from the others, in any role."""

    character: Character = Character.STEADFAST
    blunt: bool = False
    strict: bool = False
    terse: bool = False


_MANNERS: Final = {
    "generator": _Traits(),
    "generator-terse": _Traits(terse=True),
    "user": _Traits(),
    "user-blunt": _Traits(blunt=True),
    "steadfast": _Traits(character=Character.STEADFAST),
    "pushover": _Traits(character=Character.PUSHOVER),
    "erratic": _Traits(character=Character.ERRATIC),
    "evaluator": _Traits(),
    "evaluator-strict": _Traits(strict=True),
}

OFFLINE_MODELS: Final = frozenset(_MANNERS)

_Writer = Callable[[ModelRequest, _Traits], dict[str, Any]]

_WRITERS: Final[dict[str, _Writer]] = {
    "metrics": lambda asked, manner: generic.metrics(asked, terse=manner.terse),
    "scenarios": lambda asked, manner: (
        scenes.scenarios(asked, terse=manner.terse) or generic.scenarios(asked, terse=manner.terse)
    ),
    "variant": lambda asked, _: scenes.variant(asked) or generic.variant(asked),
    "user_turn": lambda asked, manner: (
        scenes.user_turn(asked, blunt=manner.blunt) or generic.user_turn(asked, blunt=manner.blunt)
    ),
    "judgement": lambda asked, manner: (
        scenes.judgement(asked, strict=manner.strict) or judgement(asked, strict=manner.strict)
    ),
    "group_guesses": lambda asked, _: group_guesses(asked),
    "lint_findings": lambda _asked, _: {"findings": []},  # scripts do not understand meaning
    "landmark_marks": lambda asked, _: landmark_marks(asked),
}
"""By the title of the schema: like a language model, each takes any role. In a sample's dialogue it
has written lines, elsewhere generic ones."""


def offline_model(
    name: str, *, seed: int = 0, pace: Pace = "human", sleep: Sleep = asyncio.sleep
) -> Model:
    """Return the scripted model of this name.

    Raises `InputError` for an unknown name, or a pace that is not above zero.
    """
    if name not in OFFLINE_MODELS:
        near = get_close_matches(name, sorted(OFFLINE_MODELS), n=1)
        hint = f"did you mean {near[0]}?" if near else f"known are {', '.join(sorted(_MANNERS))}"
        raise InputError(Problem(f"there is no offline model {name!r}", hint=hint))
    if not isinstance(pace, str) and not pace > 0:
        raise InputError(
            Problem(
                f"the pace of the offline model {name} is {pace}, but must be above 0",
                hint="give words per second, or 'human' or 'instant'",
            )
        )
    return _ScriptedModel(name, seed, pace, sleep)


@dataclass(frozen=True, slots=True)
class _ScriptedModel:
    name: str
    seed: int
    pace: Pace
    sleep: Sleep = field(repr=False)

    @property
    def label(self) -> str:
        return f"offline:{self.name}"

    @property
    def scripted(self) -> bool:
        return True

    async def reply(
        self,
        messages: Sequence[Message],
        *,
        schema: JsonSchema | None = None,
        seed: int = 0,
        on_text: OnText | None = None,
    ) -> Reply:
        reached(KillPoint.SENDING)
        text = self._answer(ModelRequest(tuple(messages), self.seed, seed), schema)
        reached(KillPoint.SENT)
        await speak(text, on_text, pace=self.pace, sleep=self.sleep, seed=(self.seed, seed))
        reached(KillPoint.LAST_WORD)
        usage = Usage(
            calls=1,
            input_tokens=sum(token_count(message.text) for message in messages),
            cached_tokens=0,
            output_tokens=token_count(text),
            cost_usd=0.0,
        )
        return Reply(text, Finish.STOP, usage)

    def _answer(self, asked: ModelRequest, schema: JsonSchema | None) -> str:
        manner = _MANNERS[self.name]
        if schema is None:
            return scenes.reply(asked, manner.character) or generic.reply(
                asked, scenes.plan(manner.character, asked.draw("plan", *asked.user_texts[:1]))
            )
        value = _WRITERS[str(schema.get("title"))](asked, manner)
        # only the schema's keys, as an answer with any other is refused
        wanted = schema.get("properties", value)
        value = {name: member for name, member in value.items() if name in wanted}
        return json.dumps(value, ensure_ascii=False)
