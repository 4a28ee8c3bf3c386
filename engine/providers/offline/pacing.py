"""Lets a finished text arrive as if it were being written."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable
from typing import Final, Literal

from engine.moments import Moment, reached
from engine.providers.model import OnText
from engine.providers.offline.draw import Draw

Pace = Literal["human", "instant"] | float
"""At a readable speed, all at once, or words per second."""

Sleep = Callable[[float], Awaitable[None]]

HUMAN_WORDS_PER_SECOND: Final = (42.0, 58.0)
HUMAN_FIRST_WORD: Final = (0.2, 0.6)
"""Seconds."""

_PIECE: Final = re.compile(r"\s*\S+(?:\s+$)?|\s+$")


async def speak(
    text: str,
    on_text: OnText | None,
    *,
    pace: Pace,
    sleep: Sleep,
    seed: tuple[int, int],
) -> None:
    """Hand the text to `on_text` at this pace; without a listener it takes the same time."""
    if pace == "instant":
        reached(Moment.FIRST_WORD)
        if on_text is not None:
            on_text(text)
        return
    draw = Draw("pace", *seed, text)
    delay = 0.0
    if pace == "human":
        low, high = HUMAN_FIRST_WORD
        delay = low + (high - low) * draw.fraction()
        low, high = HUMAN_WORDS_PER_SECOND
        per_word = 1 / (low + (high - low) * draw.fraction())
    else:
        per_word = 1 / pace
    for number, piece in enumerate(_PIECE.findall(text)):
        await sleep(delay)
        if number == 0:
            reached(Moment.FIRST_WORD)
        if on_text is not None:
            on_text(piece)
        delay = per_word * (0.7 + 0.6 * draw.fraction()) if pace == "human" else per_word
