"""A request to a scripted model, and what all roles read from it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from engine.providers.model import Message, MessageRole
from engine.providers.scripted.words import SeededChoices, tagged

ASKED_AGAIN = "could not be used:"
"""Part of what a model is told whose answer could not be used."""


@dataclass(frozen=True, slots=True)
class ModelRequest:
    """The messages, and the seeds that distinguish samples."""

    messages: tuple[Message, ...]
    model_seed: int
    call_seed: int

    @property
    def system(self) -> str:
        return "\n".join(m.text for m in self.messages if m.role is MessageRole.SYSTEM)

    @property
    def last_said(self) -> str:
        """The newest message that is not this model's own."""
        return next(
            (m.text for m in reversed(self.messages) if m.role is not MessageRole.ASSISTANT), ""
        )

    @property
    def faults(self) -> tuple[str, ...]:
        """What was wrong with earlier answers to this request."""
        return tuple(
            m.text for m in self.messages if m.role is MessageRole.USER and ASKED_AGAIN in m.text
        )

    def tagged(self, name: str) -> str | None:
        """Return the text between the first pair of these tags in any message."""
        texts = (tagged(message.text, name) for message in self.messages)
        return next((text for text in texts if text is not None), None)

    def task(self) -> str:
        """Return the message that says what to do: the first of the user, else the system's."""
        return next((m.text for m in self.messages if m.role is MessageRole.USER), self.system)

    def draw(self, *parts: str | int) -> SeededChoices:
        return SeededChoices(self.model_seed, self.call_seed, *parts)


def number_after(text: str, before: str, otherwise: int) -> int:
    """Return the integer after the words `before`; `otherwise` if there is none."""
    for piece in text.split(before)[1:]:
        digits = leading_digits(piece.lstrip())
        if digits:
            return int(digits)
    return otherwise


def leading_digits(text: Iterable[str]) -> str:
    digits = ""
    for char in text:
        if not char.isascii() or not char.isdigit():
            break
        digits += char
    return digits
