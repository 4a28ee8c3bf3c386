"""A screen that lies over another until it is answered."""

from __future__ import annotations

from typing import TypeVar

from textual.await_complete import AwaitComplete
from textual.screen import ModalScreen

Result = TypeVar("Result")


class Overlay(ModalScreen[Result], inherit_bindings=False):
    """Is answered once. A key that comes while it goes, as a line's own Enter does on its way up,
    would else take the screen beneath it away, or end the app where there is none."""

    answered = False

    def dismiss(self, result: Result | None = None) -> AwaitComplete:
        if self.answered:
            return AwaitComplete()
        self.answered = True
        return super().dismiss(result)
