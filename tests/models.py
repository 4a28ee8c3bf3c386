"""A model that says what a test wants."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from engine.benchmark import Usage
from engine.providers.model import Finish, JsonSchema, Message, OnText, Reply


@dataclass
class ScriptedModel:
    """A model that answers from a list, or by a function of what it is asked, and keeps both."""

    answers: list[str] | Callable[[Sequence[Message]], str]
    finish: Finish = Finish.STOP
    label: str = "double"
    scripted: bool = True
    asked: list[Sequence[Message]] = field(default_factory=list)
    schemas: list[JsonSchema] = field(default_factory=list)

    async def reply(
        self,
        messages: Sequence[Message],
        *,
        schema: JsonSchema | None = None,
        seed: int = 0,
        on_text: OnText | None = None,
    ) -> Reply:
        del seed
        self.asked.append(list(messages))
        self.schemas.append(schema or {})
        text = self.answers(messages) if callable(self.answers) else self.answers.pop(0)
        if on_text is not None:
            on_text(text)
        return Reply(text, self.finish, Usage(calls=1))


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
    rows = [{"message": number, "shown": shown} for number, shown in enumerate(marks, 1)]
    said = {"evidence": evidence, "reasoning": reasoning, "marks": rows, "present": present}
    return json.dumps(said)
