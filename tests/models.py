"""A model that says what a test wants."""

from __future__ import annotations

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
