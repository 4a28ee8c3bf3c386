"""A conversation as a text of its own: Markdown for people, JSON for programs."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence

from engine.benchmark import Scenario
from engine.display import clean
from engine.scripted import all_scripts, played_by, scripts_in_words
from engine.store.reader import Reader
from engine.store.records import StoredMessage, StoredTake, StoredVerdict
from tui.among import Subject
from tui.wording import ENDINGS, SPEAKER_NAMES, verdict


def as_markdown(reader: Reader, subject: Subject) -> str:
    """With nothing in it that acts on a terminal. Raises `StoreError`."""
    lines: list[str] = []
    for take, messages, verdicts in _takes(reader, subject):
        lines += _markdown(take, _scenario(reader, take), messages, verdicts)
    return clean("\n".join(lines) + "\n")


def as_json(reader: Reader, subject: Subject) -> str:
    """Every take as it was received, in characters that any terminal can take."""
    return json.dumps([_values(*each) for each in _takes(reader, subject)], indent=2) + "\n"


def _takes(
    reader: Reader, subject: Subject
) -> Iterator[tuple[StoredTake, list[StoredMessage], list[StoredVerdict]]]:
    """The newest first."""
    for take in reversed(reader.takes(subject.benchmark, subject.key)):
        yield take, reader.messages(take.seq), reader.verdicts(take.seq)


def _scenario(reader: Reader, take: StoredTake) -> Scenario | None:
    """As it was when the take was played."""
    stored = None if take.scenario_seq is None else reader.scenario_by_seq(take.scenario_seq)
    return None if stored is None else stored.scenario


def _markdown(
    take: StoredTake,
    scenario: Scenario | None,
    messages: Sequence[StoredMessage],
    verdicts: Sequence[StoredVerdict],
) -> Iterator[str]:
    yield f"# {take.key}, take {take.number + 1}"
    yield ""
    yield f"- benchmark: {take.benchmark}"
    yield f"- target: {take.model}; user model: {take.user_model}"
    if take.scripted:
        parts = played_by(take.user_model, take.model, scripted=take.scripted)
        some = None if all_scripts(parts) else scripts_in_words(parts)
        yield f"- {some or 'played by scripted models, which are not language models'}"
    if take.stop_reason is not None:
        yield f"- ended: {ENDINGS[take.stop_reason]}" + (f": {take.detail}" if take.detail else "")
    if scenario is not None:
        yield f"- persona: {scenario.persona}"
        yield f"- wants: {scenario.user_goal}"
        yield f"- is after: {scenario.latent_adversarial_goal}"
        yield from (f"- {axis}: {value}" for axis, value in scenario.demographic.items())
    for message in messages:
        yield f"\n## {message.turn}. {SPEAKER_NAMES[message.speaker]}\n"
        if message.landmark:
            yield f"> landmark: {message.landmark}\n"
        if message.served_by:
            yield f"> from {message.served_by}, not the model that was asked\n"
        if message.thought:
            yield f"> thought: {message.thought}\n"
        yield message.text
    for given in verdicts:
        yield f"\n## {verdict(given.passed)}, by {given.judge}\n"
        if given.served_by:
            yield f"Given by {given.served_by}, not the model that was asked\n"
        if given.unscored:
            yield f"Unscored: {given.unscored}\n"
        yield given.justification
        yield from (f"\n> {quote.text}" for quote in given.quotes)
    yield ""


def _values(
    take: StoredTake, messages: Sequence[StoredMessage], verdicts: Sequence[StoredVerdict]
) -> dict[str, object]:
    return {
        "conv_id": str(take.key),
        "benchmark": take.benchmark,
        "take": take.number,
        "target_model": take.model,
        "user_model": take.user_model,
        "scripted": take.scripted,
        "stop_reason": take.stop_reason,
        "detail": take.detail,
        "transcript": [
            {
                "turn": message.turn,
                "role": message.speaker,
                "content": message.text,
                "landmark": message.landmark,
                "thought": message.thought,
                "served_by": message.served_by,
            }
            for message in messages
        ],
        "verdicts": [
            {
                "metric_id": given.metric_id,
                "metric_type": given.track,
                "judge": given.judge,
                "pass": given.number,
                "present": given.present,
                "passed": given.passed,
                "unscored": given.unscored,
                "justification": given.justification,
                "quotes": [{"text": quote.text, "turn": quote.turn} for quote in given.quotes],
                "served_by": given.served_by,
            }
            for given in verdicts
        ],
    }
