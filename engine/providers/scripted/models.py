"""The scripted models: their names, how each answers a request, and how a JSON schema is filled
whose shape no role knows."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches
from typing import Any, Final

from engine.benchmark import Usage
from engine.errors import InputError, Problem
from engine.kill_points import KillPoint, reached
from engine.providers.model import Finish, JsonSchema, Message, Model, OnText, Reply
from engine.providers.scripted import scenes
from engine.providers.scripted.checker import group_guesses, landmark_marks
from engine.providers.scripted.evaluator import judgement
from engine.providers.scripted.generator import written_metrics, written_scenarios, written_variant
from engine.providers.scripted.request import ModelRequest
from engine.providers.scripted.target import Character, spoken_reply
from engine.providers.scripted.user import Temperament, user_turn
from engine.providers.scripted.words import SeededChoices, token_count
from engine.scripted import Pace

_WORDS: Final = ("a plain answer", "something to look at again", "the part that matters", "a start")
_DEEP: Final = 12
"""The depth down to which a recursive schema is followed."""


def example_value(schema: Mapping[str, Any], draw: SeededChoices) -> Any:
    """Return a value that satisfies the schema: types, enums, required keys and lower bounds."""
    return _value(schema, schema, draw, 0)


def _value(
    schema: Mapping[str, Any], root: Mapping[str, Any], draw: SeededChoices, depth: int
) -> Any:
    if "$ref" in schema:
        return _value(_resolve_reference(schema["$ref"], root), root, draw, depth + 1)
    if "const" in schema:
        return schema["const"]
    if schema.get("enum"):
        return draw.pick(schema["enum"])
    for way in ("anyOf", "oneOf"):
        if schema.get(way):
            return _alternative(schema[way], root, draw, depth)
    if schema.get("allOf"):
        merged = {key: value for part in schema["allOf"] for key, value in part.items()}
        return _value({**schema, **merged, "allOf": None}, root, draw, depth)
    return _value_of_type(schema, root, draw, depth)


def _alternative(
    options: list[Mapping[str, Any]], root: Mapping[str, Any], draw: SeededChoices, depth: int
) -> Any:
    if depth > _DEEP and any(option.get("type") == "null" for option in options):
        return None
    return _value(options[0], root, draw, depth + 1)


def _resolve_reference(reference: str, root: Mapping[str, Any]) -> Mapping[str, Any]:
    node: Any = root
    for key in reference.removeprefix("#").strip("/").split("/"):
        node = node[key] if key else node
    result: Mapping[str, Any] = node
    return result


def _value_of_type(
    schema: Mapping[str, Any], root: Mapping[str, Any], draw: SeededChoices, depth: int
) -> Any:
    kind = schema.get("type")
    if isinstance(kind, list):
        kind = next((name for name in kind if name != "null"), "null")
    match kind:
        case "object":
            return _object(schema, root, draw, depth)
        case "array":
            least = schema.get("minItems", 0 if depth > _DEEP else 1)
            items = schema.get("items", {"type": "string"})
            return [_value(items, root, draw, depth + 1) for _ in range(least)]
        case "string":
            text = draw.pick(_WORDS)
            while len(text) < schema.get("minLength", 0):
                text += f", {draw.pick(_WORDS)}"
            return text[: schema.get("maxLength", len(text))]
        case "integer":
            return _number_of_schema(schema)
        case "number":
            return float(_number_of_schema(schema))
        case "boolean":
            return draw.chance(0.5)
        case "null":
            return None
        case _:
            return _object(schema, root, draw, depth) if "properties" in schema else "an answer"


def _object(
    schema: Mapping[str, Any], root: Mapping[str, Any], draw: SeededChoices, depth: int
) -> dict[str, Any]:
    properties: Mapping[str, Mapping[str, Any]] = schema.get("properties", {})
    required = schema.get("required", list(properties))
    # a schema may require a key without describing it
    return {key: _value(properties.get(key, {}), root, draw, depth + 1) for key in required}


def _number_of_schema(schema: Mapping[str, Any]) -> Any:
    if "minimum" in schema:
        return schema["minimum"]
    if "exclusiveMinimum" in schema:
        return schema["exclusiveMinimum"] + 1
    if "maximum" in schema:
        return schema["maximum"]
    if "exclusiveMaximum" in schema:
        return schema["exclusiveMaximum"] - 1
    return 1


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
    temperament: Temperament = Temperament.TALKATIVE
    strict: bool = False
    terse: bool = False


_MANNERS: Final = {
    "generator": _Traits(),
    "generator-terse": _Traits(terse=True),
    "user": _Traits(),
    "user-blunt": _Traits(temperament=Temperament.BLUNT),
    "steadfast": _Traits(character=Character.STEADFAST),
    "pushover": _Traits(character=Character.PUSHOVER),
    "erratic": _Traits(character=Character.ERRATIC),
    "evaluator": _Traits(),
    "evaluator-strict": _Traits(strict=True),
}

OFFLINE_MODELS: Final = frozenset(_MANNERS)

_Writer = Callable[[ModelRequest, _Traits], dict[str, Any]]

_WRITERS: Final[dict[str, _Writer]] = {
    "metrics": lambda asked, manner: written_metrics(asked, terse=manner.terse),
    "scenarios": lambda asked, manner: (
        scenes.scenarios(asked, terse=manner.terse) or written_scenarios(asked, terse=manner.terse)
    ),
    "variant": lambda asked, _: scenes.variant(asked) or written_variant(asked),
    "user_turn": lambda asked, manner: (
        scenes.user_turn(asked, manner.temperament) or user_turn(asked, manner.temperament)
    ),
    "judgement": lambda asked, manner: (
        scenes.judgement(asked, strict=manner.strict) or judgement(asked, strict=manner.strict)
    ),
    "group_guesses": lambda asked, _: group_guesses(asked),
    "lint_findings": lambda _asked, _: {"findings": []},  # scripts do not understand meaning
    "landmark_marks": lambda asked, _: landmark_marks(asked),
}
"""By the title of the schema: like a language model, each takes any role. In a sample's dialogue it
has written lines, elsewhere stock ones."""


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
            return scenes.reply(asked, manner.character) or spoken_reply(asked, manner.character)
        writer = _WRITERS.get(str(schema.get("title")))
        if writer is None:
            # a shape that no script knows, as of a later version: filled so that it can be parsed
            value = example_value(schema, asked.draw("shape", asked.last_said))
        else:
            value = writer(asked, manner)
            wanted = schema.get("properties", value)
            # only the schema's keys, as an answer with any other is refused
            value = {name: member for name, member in value.items() if name in wanted}
        return json.dumps(value, ensure_ascii=False)
