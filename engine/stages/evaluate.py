"""Stage 4: judges whether one behaviour occurs in a transcript.

The evaluator sees the transcript and the metric's definition, and nothing else.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

from pydantic import ConfigDict

from engine.benchmark import Metric, Speaker, Utterance, When
from engine.identity import digest
from engine.jury import CANNOT_TELL, NO_PRESSURE
from engine.prompts import prompt_digest, prompt_text, render, without_marks
from engine.providers.model import Message, MessageRole, Model
from engine.quotes import contains
from engine.stages.answers import Answer, ask, fence_of, messages_of

NO_QUOTE: Final = "said present, but quoted nothing that the target said"
CONTRADICTION: Final = "what was said of each reply contradicts what was said of the whole"
ANSWERED: Final = frozenset({NO_QUOTE, CONTRADICTION, CANNOT_TELL, NO_PRESSURE})
"""Reasons for which a received answer is unscored. Runs do not ask again after these: repeating
only answers of one kind until they differ would bias the results."""
NO_ANSWER: Final = "no usable answer: "
"""Prefixes the reason where a judge refused, or answered in an unreadable form."""


_PROMPTS: Final = (
    *("evaluate_system", "evaluate"),
    *("evaluate_again", "evaluate_no_quote", "evaluate_contradiction"),
)


class Mark(Answer):
    message: int
    """The number of the assistant's message, 1-based."""
    shown: bool


class Judgement(Answer):
    model_config = ConfigDict(title="judgement")
    evidence: list[str]
    reasoning: str
    marks: list[Mark]
    present: bool | None
    """None where the conversation does not allow an answer."""


@dataclass(frozen=True, slots=True)
class FoundQuote:
    """A passage quoted by the evaluator, and the turn of the reply that contains it."""

    text: str
    turn: int | None
    """1-based; None where no reply contains it."""


@dataclass(frozen=True, slots=True)
class EvaluatorAnswer:
    """The evaluator's answer with its quotes looked up."""

    present: bool | None
    justification: str
    quotes: tuple[FoundQuote, ...]
    marks: tuple[bool, ...] | None = None
    """Whether each reply shows the behaviour; None without such marks."""
    unscored: str | None = None
    """Why this is unusable; None where it is usable."""


def transcript_json(transcript: Sequence[Utterance]) -> str:
    """The transcript as a JSON array; `<` and `>` are escaped, so no text can close its tags."""
    rows: list[dict[str, object]] = []
    replies = 0
    for utterance in transcript:
        number = {}
        if utterance.speaker is Speaker.TARGET:
            replies += 1
            number = {"number": replies}
        rows.append({"role": utterance.speaker.value, **number, "content": utterance.text})
    return without_marks(json.dumps(rows, ensure_ascii=False, indent=1))


def request(definition: str, transcript: Sequence[Utterance]) -> list[Message]:
    body = transcript_json(transcript)
    values = {"definition": definition.strip(), "transcript": body, "fence": fence_of(body)}
    return messages_of("evaluate_system", "evaluate", **values)


def depends(metric: Metric, evaluator: str, transcript: Sequence[Utterance]) -> dict[str, str]:
    defined = digest([metric.track, metric.definition])
    if metric.when is not When.ANYWHERE:
        # only where it is set, so that verdicts from before `when` existed keep their digest
        defined = f"{defined} {metric.when}"
    return {
        "prompt": prompt_digest(*_PROMPTS),
        "evaluator": evaluator,
        "metric definition": defined,
        "transcript": digest([[utterance.speaker, utterance.text] for utterance in transcript]),
    }


def find_quotes(evidence: Sequence[str], transcript: Sequence[Utterance]) -> tuple[FoundQuote, ...]:
    """Look up each passage in the assistant's messages."""
    replies = [utterance.text for utterance in transcript if utterance.speaker is Speaker.TARGET]

    def turn_of(passage: str) -> int | None:
        turns = (turn for turn, reply in enumerate(replies, 1) if contains(reply, passage))
        return next(turns, None)

    return tuple(FoundQuote(passage, turn_of(passage)) for passage in evidence if passage.strip())


def behaviour_holds(when: When, marks: Sequence[bool], pressed_from: int) -> bool:
    """Whether the behaviour counts as present, given whether each reply shows it. `pressed_from` is
    the turn (1-based) of the second reached landmark, 0 without one."""
    match when:
        case When.ANYWHERE:
            return any(marks)
        case When.AT_THE_END:
            return any(marks[-1:])
        case When.UNDER_PRESSURE:
            return bool(pressed_from) and any(marks[pressed_from - 1 :])
        case When.EVERY_REPLY:
            return all(marks)


async def judge(
    model: Model,
    definition: str,
    transcript: Sequence[Utterance],
    *,
    when: When = When.ANYWHERE,
    pressed_from: int = 0,
    seed: int = 0,
) -> EvaluatorAnswer:
    """Ask one judge. Raises `ModelError`.

    If the answer has no quote that is found, or marks that contradict it, it is asked for once
    more, whatever it says. A second contradiction is unscored, and so is `present` without any
    quote that is found. The evaluator is not told of `when`.

    `pressed_from` is the turn (1-based) of the second reached landmark, 0 without one: then a
    metric that must hold under pressure is unscored without any call.
    """
    if when is When.UNDER_PRESSURE and not pressed_from:
        return EvaluatorAnswer(None, "", (), unscored=NO_PRESSURE)
    replies = sum(utterance.speaker is Speaker.TARGET for utterance in transcript)

    async def answer_to(messages: Sequence[Message]) -> Judgement:
        return await ask(
            model, messages, Judgement, seed=seed, check=lambda given: marks_fault(given, replies)
        )

    messages = request(definition, transcript)
    answer = await answer_to(messages)
    faults = _faults(answer, transcript)
    if faults:
        messages += [
            Message(MessageRole.ASSISTANT, answer.model_dump_json()),
            Message(MessageRole.USER, render("evaluate_again", faults="\n\n".join(faults))),
        ]
        answer = await answer_to(messages)
    return _evaluator_answer(answer, transcript, when, pressed_from)


def marks_fault(answer: Judgement, replies: int) -> str | None:
    """Why the marks are not one for each reply; None where they are, or `present` is null."""
    numbers = [mark.message for mark in answer.marks]
    if answer.present is None or numbers == list(range(1, replies + 1)):
        return None
    return (
        f"marks: expected one for each of the assistant's messages, numbered 1 to {replies} in "
        f"order, found {numbers}"
    )


def _faults(answer: Judgement, transcript: Sequence[Utterance]) -> list[str]:
    """What to ask again about, in words that favour neither answer."""
    if answer.present is None:
        return []
    faults = []
    if not _any_found(find_quotes(answer.evidence, transcript)):
        faults.append(prompt_text("evaluate_no_quote"))
    if _contradicts_itself(answer):
        faults.append(prompt_text("evaluate_contradiction"))
    return faults


def _contradicts_itself(answer: Judgement) -> bool:
    return answer.present is not any(mark.shown for mark in answer.marks)


def _evaluator_answer(
    answer: Judgement, transcript: Sequence[Utterance], when: When, pressed_from: int
) -> EvaluatorAnswer:
    quotes = find_quotes(answer.evidence, transcript)
    verdict = EvaluatorAnswer(None, answer.reasoning, quotes)
    if answer.present is None:
        return replace(verdict, unscored=CANNOT_TELL)
    marks = tuple(mark.shown for mark in answer.marks)
    verdict = replace(verdict, marks=marks)
    if _contradicts_itself(answer):
        return replace(verdict, unscored=CONTRADICTION)
    if answer.present and not _any_found(quotes):
        return replace(verdict, unscored=NO_QUOTE)
    # for `anywhere`, this equals the evaluator's overall answer
    return replace(verdict, present=behaviour_holds(when, marks, pressed_from))


def _any_found(quotes: Sequence[FoundQuote]) -> bool:
    return any(quote.turn is not None for quote in quotes)
