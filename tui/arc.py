"""A conversation in as many signs as it has turns: where it was steered, and where its judge quotes
from."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from engine.store.browsing import ArcTurn

SIGNS: Final = {
    ArcTurn(landmark=False, quoted=False): "·",
    ArcTurn(landmark=True, quoted=False): "◇",
    ArcTurn(landmark=False, quoted=True): "•",
    ArcTurn(landmark=True, quoted=True): "◆",
}
MOST_TURNS: Final = 12
"""Turns that can be taken in at a glance."""


def arc(turns: Sequence[ArcTurn]) -> str:
    """`◇◇◆·•`; of a long one the number of its turns."""
    return "".join(map(SIGNS.__getitem__, turns)) if len(turns) <= MOST_TURNS else str(len(turns))
