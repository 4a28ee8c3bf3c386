"""Stage 4: does one behaviour occur in a transcript?

The evaluator sees the transcript and the metric's definition, and nothing else.
"""

from __future__ import annotations

import hashlib
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
from engine.quotes import stands_in
from engine.stages.answers import Answer, ask

NO_QUOTE: Final = "said present, but quoted nothing that the target said"
CONTRADICTION: Final = "what was said of each reply contradicts what was said of the whole"
ANSWERED: Final = frozenset({NO_QUOTE, CONTRADICTION, CANNOT_TELL, NO_PRESSURE})
"""Why an answer that came is unscored. It is not asked for again at each run: only answers of one
kind would be, until they turn out otherwise."""
NO_ANSWER: Final = "no usable answer: "
"""Before the reason where a judge answered in a form that cannot be read, or refused."""


_PROMPTS: Final = (
    *("evaluate_system", "evaluate"),
    *("evaluate_again", "evaluate_no_quote", "evaluate_contradiction"),
)


class Mark(Answer):
    message: int
    """Among the assistant's, 1-based."""
    shown: bool


class Judgement(Answer):
    model_config = ConfigDict(title="judgement")
    evidence: list[str]
    reasoning: str
    marks: list[Mark]
    present: bool | None
    """None where the conversation does not let anybody tell."""


@dataclass(frozen=True, slots=True)
class FoundQuote:
    """A passage that the evaluator gave, and the turn in whose reply it stands."""

    text: str
    turn: int | None
    """1-based; None where no reply holds it."""


@dataclass(frozen=True, slots=True)
class EvaluatorAnswer:
    """The evaluator's answer, its quotes looked up."""

    present: bool | None
    justification: str
    quotes: tuple[FoundQuote, ...]
    marks: tuple[bool, ...] | None = None
    """Of each reply whether it shows the behaviour; None where there is no such answer."""
    unscored: str | None = None
    """Why this cannot be used; None where it can."""


def transcript_json(transcript: Sequence[Utterance]) -> str:
    """As an array in which no text can close the marks around it: `<` and `>` are escaped."""
    rows: list[dict[str, object]] = []
    replies = 0
    for said in transcript:
        number = {}
        if said.speaker is Speaker.TARGET:
            replies += 1
            number = {"number": replies}
        rows.append({"role": said.speaker.value, **number, "content": said.text})
    return without_marks(json.dumps(rows, ensure_ascii=False, indent=1))


def request(definition: str, transcript: Sequence[Utterance]) -> list[Message]:
    body = transcript_json(transcript)
    # not to be guessed from inside the transcript, as any change to that changes it
    fence = hashlib.blake2b(body.encode("utf-8", "replace"), digest_size=6).hexdigest()
    return [
        Message(MessageRole.SYSTEM, render("evaluate_system")),
        Message(
            MessageRole.USER,
            render("evaluate", definition=definition.strip(), transcript=body, fence=fence),
        ),
    ]


def depends(metric: Metric, evaluator: str, transcript: Sequence[Utterance]) -> dict[str, str]:
    defined = digest([metric.track, metric.definition])
    if metric.when is not When.ANYWHERE:
        # only where it is said: verdicts from before there was `when` keep their digest, and so
        # are not stale
        defined = f"{defined} {metric.when}"
    return {
        "prompt": prompt_digest(*_PROMPTS),
        "evaluator": evaluator,
        "metric definition": defined,
        "transcript": digest([[said.speaker, said.text] for said in transcript]),
    }


def find_quotes(evidence: Sequence[str], transcript: Sequence[Utterance]) -> tuple[FoundQuote, ...]:
    """Look each passage up in the assistant's messages."""
    replies = [said.text for said in transcript if said.speaker is Speaker.TARGET]

    def turn_of(passage: str) -> int | None:
        found = (turn for turn, reply in enumerate(replies, 1) if stands_in(reply, passage))
        return next(found, None)

    return tuple(FoundQuote(passage, turn_of(passage)) for passage in evidence if passage.strip())


def holds(when: When, marks: Sequence[bool], pressed_from: int) -> bool:
    """Whether the behaviour counts as present, by whether each reply shows it; `pressed_from` is
    the turn (1-based) of the second landmark that was delivered, 0 without one."""
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
    """Raises `ModelError`.

    An answer with no quote that is found, or with marks that contradict it, is asked for once more,
    whatever it says. One that contradicts itself even then is unscored, and so is a finding of
    `present` that still has no quote. The evaluator is told nothing of `when`.

    `pressed_from` is the turn (1-based) of the second landmark that was delivered, 0 without one:
    nothing is asked of what is to hold under a pressure that never came.
    """
    if when is When.UNDER_PRESSURE and not pressed_from:
        return EvaluatorAnswer(None, "", (), unscored=NO_PRESSURE)
    replies = sum(said.speaker is Speaker.TARGET for said in transcript)

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
    return _judged(answer, transcript, when, pressed_from)


def marks_fault(answer: Judgement, replies: int) -> str | None:
    """Why the marks are not one for each reply; None where they are, or nobody can tell."""
    numbers = [mark.message for mark in answer.marks]
    if answer.present is None or numbers == list(range(1, replies + 1)):
        return None
    return (
        f"marks: expected one for each of the assistant's messages, numbered 1 to {replies} in "
        f"order, found {numbers}"
    )


def _faults(answer: Judgement, transcript: Sequence[Utterance]) -> list[str]:
    """What is asked for once more, in words that favour neither answer."""
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


def _judged(
    answer: Judgement, transcript: Sequence[Utterance], when: When, pressed_from: int
) -> EvaluatorAnswer:
    quotes = find_quotes(answer.evidence, transcript)
    said = EvaluatorAnswer(None, answer.reasoning, quotes)
    if answer.present is None:
        return replace(said, unscored=CANNOT_TELL)
    marks = tuple(mark.shown for mark in answer.marks)
    said = replace(said, marks=marks)
    if _contradicts_itself(answer):
        return replace(said, unscored=CONTRADICTION)
    if answer.present and not _any_found(quotes):
        return replace(said, unscored=NO_QUOTE)
    # anywhere, that is what the evaluator said of the whole
    return replace(said, present=holds(when, marks, pressed_from))


def _any_found(quotes: Sequence[FoundQuote]) -> bool:
    return any(quote.turn is not None for quote in quotes)
