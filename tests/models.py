"""Models that say what a test wants, and models that are overheard."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from engine.benchmark import Usage
from engine.config.schema import ModelSpec
from engine.pipeline.models import open_offline
from engine.providers.model import Finish, JsonSchema, Message, Model, OnText, Reply


@dataclass
class ScriptedModel:
    """A model that answers from a list, or by a function of what it is asked, and keeps both."""

    answers: list[str] | Callable[[Sequence[Message]], str]
    finish: Finish = Finish.STOP
    label: str = "double"
    scripted: bool = True
    asked: list[Sequence[Message]] = field(default_factory=list)
    schemas: list[JsonSchema] = field(default_factory=list)
    seeds: list[int] = field(default_factory=list)
    reasoning: str | None = None

    async def reply(
        self,
        messages: Sequence[Message],
        *,
        schema: JsonSchema | None = None,
        seed: int = 0,
        on_text: OnText | None = None,
    ) -> Reply:
        self.asked.append(list(messages))
        self.seeds.append(seed)
        self.schemas.append(schema or {})
        text = self.answers(messages) if callable(self.answers) else self.answers.pop(0)
        if on_text is not None:
            on_text(text)
        return Reply(text, self.finish, Usage(calls=1), reasoning=self.reasoning)


@dataclass
class Overheard:
    """A model, and what it is asked; what it says may be changed."""

    model: Model
    asked: list[Sequence[Message]] = field(default_factory=list)
    changed: Callable[[Reply], Reply] = lambda reply: reply

    @property
    def label(self) -> str:
        return self.model.label

    @property
    def scripted(self) -> bool:
        return self.model.scripted

    async def reply(
        self,
        messages: Sequence[Message],
        *,
        schema: JsonSchema | None = None,
        seed: int = 0,
        on_text: OnText | None = None,
    ) -> Reply:
        self.asked.append(list(messages))
        reply = await self.model.reply(messages, schema=schema, seed=seed, on_text=on_text)
        return self.changed(reply)


def opening(models: Mapping[str, Model]) -> Callable[[ModelSpec], Model]:
    """Opens these by their names in a configuration, and scripted models for all others."""
    return lambda spec: models.get(spec.model) or open_offline(spec)


def failing(error: Exception, label: str = "double") -> ScriptedModel:
    """A model whose every call meets this error, made anew each time."""

    def fail(_messages: Sequence[Message]) -> str:
        raise type(error)(*error.args)

    return ScriptedModel(fail, label=label)


def replies_in(messages: Sequence[Message]) -> list[str]:
    """What the target said in the transcript that an evaluator is shown."""
    marked = re.search(r"<transcript-\w+>(.*)</transcript", messages[1].text, re.DOTALL)
    assert marked is not None
    return [row["content"] for row in json.loads(marked[1]) if row["role"] == "assistant"]


def judgement(
    *evidence: str, marks: Sequence[bool], present: bool | None, reasoning: str = "because"
) -> str:
    """An evaluator's answer."""
    numbered = {str(number): shown for number, shown in enumerate(marks, 1)}
    said = {"evidence": evidence, "reasoning": reasoning, "marks": numbered, "present": present}
    return json.dumps(said)
