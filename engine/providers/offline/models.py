"""The door to the scripted models: which there are, and how each answers a request."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches
from typing import Any, Final

from engine.benchmark import Usage
from engine.errors import InputError, Problem
from engine.moments import Moment, reached
from engine.providers.model import Finish, JsonSchema, Message, Model, OnText, Reply
from engine.providers.offline.evaluator import judgement
from engine.providers.offline.metric_writer import written_metrics
from engine.providers.offline.pacing import Pace, Sleep, speak
from engine.providers.offline.reading import token_count
from engine.providers.offline.request import Request
from engine.providers.offline.scenario_writer import written_scenarios
from engine.providers.offline.shapes import filled
from engine.providers.offline.target import Character, spoken_reply
from engine.providers.offline.user import Temperament, user_turn
from engine.providers.offline.variant_writer import written_variant


@dataclass(frozen=True, slots=True)
class _Manner:
    """How one scripted model differs from the others, in whatever role it is put."""

    character: Character = Character.STEADFAST
    temperament: Temperament = Temperament.TALKATIVE
    strict: bool = False
    terse: bool = False


_MANNERS: Final = {
    "generator": _Manner(),
    "generator-terse": _Manner(terse=True),
    "user": _Manner(),
    "user-blunt": _Manner(temperament=Temperament.BLUNT),
    "steadfast": _Manner(character=Character.STEADFAST),
    "pushover": _Manner(character=Character.PUSHOVER),
    "erratic": _Manner(character=Character.ERRATIC),
    "evaluator": _Manner(),
    "evaluator-strict": _Manner(strict=True),
}

OFFLINE_MODELS: Final = frozenset(_MANNERS)

_Writer = Callable[[Request, _Manner], dict[str, Any]]

_WRITERS: Final[dict[str, _Writer]] = {
    "metrics": lambda asked, manner: written_metrics(asked, terse=manner.terse),
    "scenarios": lambda asked, manner: written_scenarios(asked, terse=manner.terse),
    "variant": lambda asked, _: written_variant(asked),
    "user_turn": lambda asked, manner: user_turn(asked, manner.temperament),
    "judgement": lambda asked, manner: judgement(asked, strict=manner.strict),
}
"""By the title of the schema: like a language model, each takes whatever role it is asked for."""


def offline_model(
    name: str, *, seed: int = 0, pace: Pace = "human", sleep: Sleep = asyncio.sleep
) -> Model:
    """The scripted model of this name.

    Raises `InputError` for a name that is none, or a pace that is not above zero.
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
        reached(Moment.SENDING)
        text = self._answer(Request(tuple(messages), self.seed, seed), schema)
        reached(Moment.SENT)
        await speak(text, on_text, pace=self.pace, sleep=self.sleep, seed=(self.seed, seed))
        reached(Moment.LAST_WORD)
        usage = Usage(
            calls=1,
            input_tokens=sum(token_count(message.text) for message in messages),
            cached_tokens=0,
            output_tokens=token_count(text),
            cost_usd=0.0,
        )
        return Reply(text, Finish.STOP, usage)

    def _answer(self, asked: Request, schema: JsonSchema | None) -> str:
        manner = _MANNERS[self.name]
        if schema is None:
            return spoken_reply(asked, manner.character)
        writer = _WRITERS.get(str(schema.get("title")))
        if writer is None:
            value = filled(schema, asked.draw("shape", asked.last_said))
        else:
            value = writer(asked, manner)
        return json.dumps(value, ensure_ascii=False)
