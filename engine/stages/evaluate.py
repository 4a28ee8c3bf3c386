"""Stage 4: does one behaviour occur in a transcript?

The evaluator sees the transcript and the metric's definition, and nothing else.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from pydantic import ConfigDict

from engine.benchmark import Metric, Speaker, Utterance
from engine.identity import digest
from engine.prompts import prompt_digest, render, without_marks
from engine.providers.model import Message, Model, Speaks
from engine.quotes import stands_in
from engine.stages.answers import Answer, ask

NO_QUOTE: Final = "said present, but quoted nothing that the target said"
CANNOT_TELL: Final = "the evaluator cannot tell from this conversation"
ANSWERED: Final = frozenset({NO_QUOTE, CANNOT_TELL})
"""Why an answer that came is unscored. It is not asked for again at each run: only answers of one
kind would be, until they turn out otherwise."""
NO_ANSWER: Final = "no usable answer: "
"""Before the reason where a judge answered in a form that cannot be read, or refused."""


class Judgement(Answer):
    model_config = ConfigDict(title="judgement")
    evidence: list[str]
    reasoning: str
    present: bool | None
    """None where the conversation does not let anybody tell."""


@dataclass(frozen=True, slots=True)
class FoundQuote:
    """A passage that the evaluator gave, and the turn in whose reply it stands."""

    text: str
    turn: int | None
    """1-based; None where no reply holds it."""


@dataclass(frozen=True, slots=True)
class Judged:
    """The evaluator's answer, its quotes looked up."""

    present: bool | None
    justification: str
    quotes: tuple[FoundQuote, ...]
    unscored: str | None = None
    """Why this cannot be used; None where it can."""


def transcript_json(transcript: Sequence[Utterance]) -> str:
    """As an array in which no text can close the marks around it: `<` and `>` are escaped."""
    rows = [{"role": said.speaker.value, "content": said.text} for said in transcript]
    return without_marks(json.dumps(rows, ensure_ascii=False, indent=1))


def request(definition: str, transcript: Sequence[Utterance]) -> list[Message]:
    body = transcript_json(transcript)
    # not to be guessed from inside the transcript, as any change to that changes it
    fence = hashlib.blake2b(body.encode("utf-8", "replace"), digest_size=6).hexdigest()
    return [
        Message(Speaks.SYSTEM, render("evaluate_system")),
        Message(
            Speaks.USER,
            render("evaluate", definition=definition.strip(), transcript=body, fence=fence),
        ),
    ]


def depends(metric: Metric, evaluator: str, transcript: Sequence[Utterance]) -> dict[str, str]:
    return {
        "prompt": prompt_digest("evaluate_system", "evaluate", "evaluate_requote"),
        "evaluator": evaluator,
        "metric definition": digest([metric.track, metric.definition]),
        "transcript": digest([[said.speaker, said.text] for said in transcript]),
    }


def find_quotes(evidence: Sequence[str], transcript: Sequence[Utterance]) -> tuple[FoundQuote, ...]:
    """Look each passage up in the assistant's messages."""
    replies = [said.text for said in transcript if said.speaker is Speaker.TARGET]

    def turn_of(passage: str) -> int | None:
        found = (turn for turn, reply in enumerate(replies, 1) if stands_in(reply, passage))
        return next(found, None)

    return tuple(FoundQuote(passage, turn_of(passage)) for passage in evidence if passage.strip())


async def judge(
    model: Model,
    definition: str,
    transcript: Sequence[Utterance],
    *,
    seed: int = 0,
) -> Judged:
    """Raises `ModelError`.

    An answer with no quote that is found is asked for once more, whatever it says; a finding of
    `present` that has none even then is unscored.
    """
    messages = request(definition, transcript)
    answer = await ask(model, messages, Judgement, seed=seed)
    quotes = find_quotes(answer.evidence, transcript)
    if answer.present is not None and not _any_found(quotes):
        messages += [
            Message(Speaks.ASSISTANT, answer.model_dump_json()),
            Message(Speaks.USER, render("evaluate_requote")),
        ]
        answer = await ask(model, messages, Judgement, seed=seed)
        quotes = find_quotes(answer.evidence, transcript)
    if answer.present is None:
        return Judged(None, answer.reasoning, quotes, unscored=CANNOT_TELL)
    if answer.present and not _any_found(quotes):
        return Judged(None, answer.reasoning, quotes, unscored=NO_QUOTE)
    return Judged(answer.present, answer.reasoning, quotes)


def _any_found(quotes: Sequence[FoundQuote]) -> bool:
    return any(quote.turn is not None for quote in quotes)
