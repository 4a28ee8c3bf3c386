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
from engine.prompts import prompt_digest, render
from engine.providers.model import Message, Model, Speaks
from engine.stages.answers import Answer, ask

NO_QUOTE: Final = "said present, but quoted nothing that the target said"


class Judgement(Answer):
    model_config = ConfigDict(title="judgement")
    evidence: list[str]
    reasoning: str
    present: bool


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
    text = json.dumps(rows, ensure_ascii=False, indent=1)
    return text.replace("<", "\\u003c").replace(">", "\\u003e")


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
    """Look each passage up in the assistant's messages; white space, quotation marks, dashes and
    light Markdown do not count."""
    replies = [_plain(said.text) for said in transcript if said.speaker is Speaker.TARGET]

    def turn_of(passage: str) -> int | None:
        wanted = _plain(passage)
        if not wanted:
            return None
        return next((turn for turn, reply in enumerate(replies, 1) if wanted in reply), None)

    return tuple(FoundQuote(passage, turn_of(passage)) for passage in evidence if passage.strip())


_MARKS = str.maketrans(
    {
        **dict.fromkeys("\u2018\u2019\u201a\u201b\u2032`", "'"),
        **dict.fromkeys("\u201c\u201d\u201e\u201f\u2033\u00ab\u00bb", '"'),
        **dict.fromkeys("\u2010\u2011\u2012\u2013\u2014\u2212", "-"),
        "\u2026": "...",
        "*": "",
        "_": "",
    }
)


def _plain(text: str) -> str:
    folded = " ".join(text.translate(_MARKS).split())
    return folded.strip("\"' ").removesuffix("...").removeprefix("...").strip()


async def judge(
    model: Model,
    definition: str,
    transcript: Sequence[Utterance],
    *,
    seed: int = 0,
) -> Judged:
    """Raises `ModelError`.

    A finding of `present` with no quote that is found is asked for once more, then unscored.
    """
    messages = request(definition, transcript)
    answer = await ask(model, messages, Judgement, seed=seed)
    quotes = find_quotes(answer.evidence, transcript)
    if answer.present and not _any_found(quotes):
        messages += [
            Message(Speaks.ASSISTANT, answer.model_dump_json()),
            Message(Speaks.USER, render("evaluate_requote")),
        ]
        answer = await ask(model, messages, Judgement, seed=seed)
        quotes = find_quotes(answer.evidence, transcript)
        if answer.present and not _any_found(quotes):
            return Judged(None, answer.reasoning, quotes, unscored=NO_QUOTE)
    return Judged(answer.present, answer.reasoning, quotes)


def _any_found(quotes: Sequence[FoundQuote]) -> bool:
    return any(quote.turn is not None for quote in quotes)
