"""The conversations of a table, one after the other, for a screen that shows one of them."""

from __future__ import annotations

from array import array
from typing import NamedTuple

from engine.benchmark import ConversationKey
from engine.store.browsing import Browser


class Subject(NamedTuple):
    """The conversation that a screen is about, or that its cursor is on."""

    benchmark: str
    key: ConversationKey


class Among:
    """Stays as it was when it was made; the table may go on changing."""

    def __init__(self, browser: Browser, rows: array[int], place: int) -> None:
        self._browser = browser
        self._rows = rows
        self.place = place
        """Of the one that is shown, from 0."""

    def __len__(self) -> int:
        return len(self._rows)

    @property
    def row(self) -> int:
        return self._rows[self.place]

    def step(self, by: int) -> Subject | None:
        """Go on to the next that is still there; None where there is none. Raises `StoreError`."""
        place = self.place + by
        while 0 <= place < len(self._rows):
            found = self._browser.keys([self._rows[place]])
            if found:
                self.place = place
                return Subject(*found[0])
            place += by
        return None
