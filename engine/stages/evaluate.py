"""Stage 4: judges whether one behaviour occurs in a transcript.

The evaluator sees the transcript and the metric's definition, and nothing else.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache, partial
from typing import Final

from pydantic import ConfigDict, Field

from engine.benchmark import Metric, Speaker, Utterance, When
from engine.errors import AnswerError
from engine.identity import digest
from engine.jury import CANNOT_TELL, CUT_BY_OURS, CUT_BY_THEIRS, NO_PRESSURE
from engine.prompts import prompt_digest, prompt_text, render, without_marks
from engine.providers.model import JsonSchema, Message, MessageRole, Model
from engine.quotes import contains
from engine.stages.answers import Answer, ask, at_most, fence_of, messages_of, schema_of

CONTRADICTION: Final = "what was said of each reply contradicts what was said of the whole"
_NO_QUOTE: Final = "said present, but quoted nothing that the target said"
"""Of earlier versions, which took it for unusable."""
ANSWERED: Final = frozenset(
    {_NO_QUOTE, CONTRADICTION, CANNOT_TELL, NO_PRESSURE, CUT_BY_OURS, CUT_BY_THEIRS}
)
"""Reasons for which a received answer is unscored. Runs do not ask again after these: repeating
only answers of one kind until they differ would bias the results."""
NO_ANSWER: Final = "no usable answer: "
"""Prefixes the reason where a judge refused, or answered in an unreadable form."""


_PROMPTS: Final = (
    *("evaluate_system", "evaluate"),
    *("evaluate_again", "evaluate_no_quote", "evaluate_marks", "evaluate_contradiction"),
)


class Mark(Answer):
    message: int
    """The number of the assistant's message, 1-based."""
    shown: bool


class Judgement(Answer):
    model_config = ConfigDict(title="judgement")
    evidence: list[str] = Field(json_schema_extra=at_most(5))
    reasoning: str
    marks: dict[str, bool] | list[Mark] | list[bool]
    """By the number of the assistant's message, as the schema asks; lists are read, too."""
    present: bool | None
    """None where the conversation does not allow an answer."""

    def marks_of(self, replies: int) -> tuple[bool, ...] | None:
        """Whether each of so many replies shows the behaviour; None if there is not one mark for
        each. Numbers may count from 0 and come in any order."""
        if isinstance(self.marks, dict):
            numbered = [
                (int(number), shown)
                for number, shown in self.marks.items()
                if number.isascii() and number.isdigit() and len(number) < 9
            ]
        else:
            listed: list[Mark | bool] = [*self.marks]
            numbered = [
                (mark.message, mark.shown) if isinstance(mark, Mark) else (number, mark)
                for number, mark in enumerate(listed, start=1)
            ]
        numbered.sort(key=lambda mark: mark[0])
        numbers = [number for number, _ in numbered]
        are_all = len(numbers) == len(self.marks) and numbers in (
            list(range(1, replies + 1)),
            list(range(replies)),
        )
        return tuple(shown for _, shown in numbered) if are_all else None


@cache
def judgement_schema(replies: int) -> JsonSchema:
    """The schema of a judgement, with one required mark for each of so many replies, so that they
    cannot be miscounted."""
    schema = schema_of(Judgement)
    numbers = [str(number) for number in range(1, replies + 1)]
    marks = {
        "type": "object",
        "properties": {number: {"type": "boolean"} for number in numbers},
        "required": numbers,
        "additionalProperties": False,
    }
    parts = {name: part for name, part in schema.items() if name != "$defs"}
    return {**parts, "properties": {**schema["properties"], "marks": marks}}


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

    If no quote is found though something was said, or the marks are not one for each reply or
    contradict the answer for the whole or the quotes, it is asked for once more, whatever it says.
    What then still has no quote counts, for both answers alike, with its note. Marks that still do
    not fit matter only where they decide, under another `when` than `anywhere`; else they are
    dropped. The evaluator is not told of `when`.

    Why a verdict without a found quote counts: simulated (`tests/benchmarks/quote_rules.py`) with
    200 targets of 1,000 conversations, half of which show the behaviour, and a judge who errs in 5%
    and then makes up half of the quotes. Where 20% of the quotes of "present" and 10% of those of
    "absent" are not found though they were copied, the rate is 50.1% if both count, 47.2% if
    neither does, 44.1% if "absent" alone counts; where 20% of both are not found, 50.0%, 50.0% and
    44.0%; where all are found, 50.0%, 50.0% and 49.4%. Targets differ in how well they can be
    quoted, so only the first rule compares them by what they did.

    `pressed_from` is the turn (1-based) of the second reached landmark, 0 without one: then a
    metric that must hold under pressure is unscored without any call.
    """
    if when is When.UNDER_PRESSURE and not pressed_from:
        return EvaluatorAnswer(None, "", (), unscored=NO_PRESSURE)
    replies = sum(utterance.speaker is Speaker.TARGET for utterance in transcript)
    schema = judgement_schema(replies)
    messages = request(definition, transcript)
    quotable = [utterance.text for utterance in transcript]
    asking = partial(ask, model, shape=Judgement, schema=schema, seed=seed, quotable=quotable)
    answer = await asking(messages)
    faults = _faults(answer, transcript, replies)
    if faults:
        messages += [
            Message(MessageRole.ASSISTANT, answer.model_dump_json()),
            Message(MessageRole.USER, render("evaluate_again", faults="\n\n".join(faults))),
        ]
        answer = await asking(messages)
    return _evaluator_answer(answer, transcript, when, pressed_from)


def _faults(answer: Judgement, transcript: Sequence[Utterance], replies: int) -> list[str]:
    """What to ask again about, in words that favour neither answer."""
    if answer.present is None:
        return []
    quotes = find_quotes(answer.evidence, transcript)
    marks = answer.marks_of(replies)
    faults: list[str] = []
    can_quote = any(said.text.strip() for said in transcript if said.speaker is Speaker.TARGET)
    if can_quote and all(quote.turn is None for quote in quotes):
        faults.append(prompt_text("evaluate_no_quote"))
    if marks is None:
        faults.append(render("evaluate_marks", replies=str(replies)))
    elif _contradict(marks, quotes, present=answer.present):
        faults.append(prompt_text("evaluate_contradiction"))
    return faults


def _contradict(marks: Sequence[bool], quotes: Sequence[FoundQuote], *, present: bool) -> bool:
    """Whether the marks contradict the answer for the whole, or its evidence stands only in replies
    that are marked as not showing the behaviour."""
    quoted = [marks[quote.turn - 1] for quote in quotes if quote.turn is not None]
    return present is not any(marks) or (present and bool(quoted) and not any(quoted))


def _evaluator_answer(
    answer: Judgement, transcript: Sequence[Utterance], when: When, pressed_from: int
) -> EvaluatorAnswer:
    quotes = find_quotes(answer.evidence, transcript)
    verdict = EvaluatorAnswer(None, answer.reasoning, quotes)
    if answer.present is None:
        return replace(verdict, unscored=CANNOT_TELL)
    replies = sum(utterance.speaker is Speaker.TARGET for utterance in transcript)
    marks = answer.marks_of(replies)
    contradict = marks is not None and _contradict(marks, quotes, present=answer.present)
    if when is When.ANYWHERE:
        return replace(verdict, present=answer.present, marks=None if contradict else marks)
    verdict = replace(verdict, marks=marks)
    if marks is None:
        found = "no" if not answer.marks else "other"
        raise AnswerError(f"marks: expected one for each of {replies} replies, found {found} marks")
    if contradict:
        return replace(verdict, unscored=CONTRADICTION)
    return replace(verdict, present=behaviour_holds(when, marks, pressed_from))
