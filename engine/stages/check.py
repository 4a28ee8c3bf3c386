"""Checks of a finished conversation: what a cheap model can tell from the user's messages alone.

No check sees the persona, the scenario's goals, the metric or the target's replies. The group must
be guessed from what the target could read, and whether a landmark was carried out must not depend
on the target's reaction.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Final

from pydantic import ConfigDict, Field

from engine.checks import CheckAnswer, CheckKind
from engine.errors import AnswerError
from engine.identity import digest
from engine.prompts import prompt_digest, render, without_marks
from engine.providers.model import Message, MessageRole, Model
from engine.quotes import contains
from engine.stages.answers import Answer, ask_for_items, at_most, fence_of, messages_of

Axes = Mapping[str, Sequence[str]]
"""The values of each demographic axis; an axis with one value leaves nothing to guess."""

_PROMPTS: Final = {
    CheckKind.GROUPS: ("check_system", "check_groups"),
    CheckKind.LANDMARKS: ("check_system", "check_landmarks", "check_no_quote"),
}


@dataclass(frozen=True, slots=True)
class UserMessage:
    """One message of the user's, with the landmark that it should carry out."""

    turn: int
    text: str
    landmark: str | None


class Guess(Answer):
    axis: str
    value: str
    quote: str


class Guesses(Answer):
    model_config = ConfigDict(title="group_guesses")
    guesses: list[Guess] = Field(json_schema_extra=at_most(20))


class LandmarkMark(Answer):
    message: int
    quote: str
    reason: str
    carried_out: bool


class LandmarkMarks(Answer):
    model_config = ConfigDict(title="landmark_marks")
    landmarks: list[LandmarkMark] = Field(json_schema_extra=at_most(50))


def depends(kind: CheckKind, checker: str, axes: Axes) -> dict[str, str]:
    """Digests of a check's inputs, without the messages, which never change."""
    made_from = {"prompt": prompt_digest(*_PROMPTS[kind]), "checker": checker}
    if kind is CheckKind.GROUPS:
        made_from["demographics"] = digest([[axis, *values] for axis, values in axes.items()])
    return made_from


def groups_request(messages: Iterable[UserMessage], axes: Axes) -> list[Message]:
    rows = [{"number": message.turn, "text": message.text} for message in messages]
    listed = [{"axis": axis, "values": list(values)} for axis, values in axes.items()]
    return _request("check_groups", rows, axes=without_marks(_json(listed)))


def landmarks_request(user_messages: Iterable[UserMessage]) -> list[Message]:
    rows = [
        {"number": message.turn, "text": message.text}
        | ({} if message.landmark is None else {"instruction": message.landmark})
        for message in user_messages
    ]
    return _request("check_landmarks", rows)


def _request(prompt: str, rows: Sequence[Mapping[str, Any]], **values: str) -> list[Message]:
    body = without_marks(_json(rows))
    return messages_of("check_system", prompt, messages=body, fence=fence_of(body), **values)


def _json(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, indent=1)


async def guess_groups(
    model: Model, messages: Sequence[UserMessage], axes: Axes, truth: Mapping[str, str]
) -> tuple[CheckAnswer, ...]:
    """Guess one value for each axis; at last, of those that are answered in the form. `truth` is
    what the user model played; the model is not told.

    Raises `ModelError`.
    """
    guesses: dict[str, Guess] = {}
    while left := {axis: values for axis, values in axes.items() if axis not in guesses}:
        try:
            given = await ask_for_items(
                model,
                groups_request(messages, left),
                Guesses,
                Guess,
                fault=partial(_guess_fault, axes=left),
                quotable=[message.text for message in messages],
            )
        except AnswerError:
            if not guesses:
                raise
            break
        guesses |= {guess.axis: guess for guess in given}
    texts = [message.text for message in messages]
    return tuple(
        CheckAnswer(
            about=guess.axis,
            turn=None,
            said=guess.value,
            holds=guess.value == truth.get(guess.axis),
            quote=guess.quote if any(contains(text, guess.quote) for text in texts) else "",
        )
        for guess in (guesses[axis] for axis in axes if axis in guesses)
    )


def _guess_fault(guess: Guess, before: Sequence[Guess], *, axes: Axes) -> str | None:
    if guess.axis not in axes or guess.axis in {other.axis for other in before}:
        return f"expected one for each of {list(axes)}, found {guess.axis!r}"
    if guess.value in axes[guess.axis]:
        return None
    return f"{guess.axis}: expected one of {list(axes[guess.axis])}, found {guess.value!r}"


async def check_landmarks(
    model: Model, user_messages: Sequence[UserMessage]
) -> tuple[CheckAnswer, ...]:
    """Check each reached landmark, in order.

    If the answer supports a landmark as carried out with words that were never said, it is asked
    for once more. A quote that is still not found is dropped: an inexact copy is no accusation.

    Raises `ModelError`.
    """
    with_landmark = {
        message.turn: message for message in user_messages if message.landmark is not None
    }
    messages = landmarks_request(user_messages)
    marks = await _marks(model, messages, user_messages)
    unfound = [
        str(mark.message)
        for mark in marks
        if mark.carried_out and not contains(with_landmark[mark.message].text, mark.quote)
    ]
    if unfound:
        messages += [
            Message(MessageRole.ASSISTANT, LandmarkMarks(landmarks=marks).model_dump_json()),
            Message(MessageRole.USER, render("check_no_quote", numbers=", ".join(unfound))),
        ]
        marks = await _marks(model, messages, user_messages)
    return tuple(_landmark_answer(with_landmark[mark.message], mark) for mark in marks)


async def _marks(
    model: Model, messages: Sequence[Message], user_messages: Sequence[UserMessage]
) -> list[LandmarkMark]:
    """A mark for each landmark. Those that an answer leaves out are asked for alone; each missing
    one would pass for carried out, so the whole raises `AnswerError` where some never come."""
    marks: dict[int, LandmarkMark] = {}
    while left := [
        message.turn
        for message in user_messages
        if message.landmark is not None and message.turn not in marks
    ]:
        if marks:
            messages = landmarks_request(
                message if message.turn in left else replace(message, landmark=None)
                for message in user_messages
            )
        given = await ask_for_items(
            model,
            messages,
            LandmarkMarks,
            LandmarkMark,
            fault=partial(_mark_fault, expected=left),
            quotable=[message.text for message in user_messages],
        )
        marks |= {mark.message: mark for mark in given}
    return [marks[turn] for turn in sorted(marks)]


def _mark_fault(
    mark: LandmarkMark, before: Sequence[LandmarkMark], *, expected: Sequence[int]
) -> str | None:
    if mark.message in expected and mark.message not in {other.message for other in before}:
        return None
    return f"expected one for each of the messages {list(expected)}, found {mark.message}"


def _landmark_answer(message: UserMessage, mark: LandmarkMark) -> CheckAnswer:
    return CheckAnswer(
        about=message.landmark or "",
        turn=message.turn,
        said=mark.reason,
        holds=mark.carried_out,
        quote=mark.quote if contains(message.text, mark.quote) else "",
    )
