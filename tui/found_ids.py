"""Ids in the command palette, answered from the store by prefix and never listed whole."""

from __future__ import annotations

import asyncio
from functools import partial

from textual.command import Hit, Hits, Provider

from engine.errors import StoreError
from tui.display import content, unmarked
from tui.finding import find
from tui.navigation import Navigating

SCORE = 0.5
"""Beside commands whose name has all that was typed, ids come second."""
FEWEST = 2
"""Letters from which on ids are looked for."""


class FoundIds(Provider):
    """What begins like the words that were typed."""

    async def search(self, query: str) -> Hits:
        app = self.app
        if not isinstance(app, Navigating) or len(query) < FEWEST:
            return
        try:
            found = await asyncio.to_thread(find, app.watched.reader, query, 12)
        except StoreError:
            return
        for each in found:
            yield Hit(
                SCORE,
                content(each.id),
                partial(app.open_found, each),
                text=each.id,
                help=unmarked(f"{each.kind} of {each.benchmark}"),
            )
