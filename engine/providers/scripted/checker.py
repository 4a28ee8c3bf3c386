"""The scripted checker: guesses who wrote messages, and whether they follow their instructions.

It counts the words that two texts share and does not understand meaning, so it misses what is said
in other words.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from typing import Any, Final

from engine.providers.scripted.request import ModelRequest
from engine.providers.scripted.words import content_stems, sentences, tagged
from engine.quotes import is_one_word

_MESSAGES: Final = re.compile(r"<(messages-[0-9a-f]{1,64})>")
_ENOUGH: Final = 0.2
"""The share of an instruction's words from which a message carries it out."""


def group_guesses(asked: ModelRequest) -> dict[str, Any]:
    """For each axis, choose the value whose words occur most; on a tie the first."""
    spoken = [sentence for row in _messages(asked) for sentence in sentences(_text(row))]
    guesses = []
    for row in _rows(tagged(asked.task(), "properties") or ""):
        values = [str(value) for value in row.get("values", ())]
        nearest = [(_nearest_sentence(value, spoken), value) for value in values]
        (share, quote), value = max(
            nearest, key=lambda candidate: candidate[0][0], default=((0.0, ""), "")
        )
        axis = str(row.get("axis", ""))
        guesses.append({"axis": axis, "value": value, "quote": quote if share else ""})
    return {"guesses": guesses}


def landmark_marks(asked: ModelRequest) -> dict[str, Any]:
    """For each message with an instruction, say whether it has enough of its words."""
    marks = []
    for row in _messages(asked):
        if "instruction" not in row:
            continue
        instruction, text = str(row["instruction"]), _text(row)
        _, quote = _nearest_sentence(instruction, sentences(text))
        wanted = set(content_stems(instruction))
        shared = wanted.intersection(content_stems(text))
        done = not wanted or len(shared) >= _ENOUGH * len(wanted)
        marks.append(
            {
                "message": row.get("number"),
                "quote": text if is_one_word(quote) else quote,
                "reason": f"It has {len(shared)} of the {len(wanted)} words that matter.",
                "carried_out": done,
            }
        )
    return {"landmarks": marks}


def _nearest_sentence(wanted: str, spoken: Sequence[str]) -> tuple[float, str]:
    """Return the largest share of the words in any sentence, and that sentence."""
    stems = set(content_stems(wanted))
    candidates = [
        (len(stems.intersection(content_stems(text))) / (len(stems) or 1), text) for text in spoken
    ]
    return max(candidates, key=lambda candidate: candidate[0], default=(0.0, ""))


def _messages(asked: ModelRequest) -> list[dict[str, Any]]:
    text = asked.task()
    mark = _MESSAGES.search(text)
    return [] if mark is None else _rows(text[mark.end() :].partition(f"</{mark[1]}>")[0])


def _rows(text: str) -> list[dict[str, Any]]:
    try:
        rows = json.loads(text)
    except ValueError:
        return []
    return [row for row in rows if isinstance(row, dict)] if isinstance(rows, list) else []


def _text(row: dict[str, Any]) -> str:
    return str(row.get("text", ""))
