"""Finds out whether a server fails because a form of answer is asked of it. Pure.

llama-server answers 500 where a model breaks the form that its own grammar should hold it to. That
says nothing about the form, and an outage looks the same. So a call that keeps failing under a form
asks once without it, and the form is to blame if that helps again and again.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

FAILURES_FIRST: Final = 3
"""Failures under a form before a call asks without it, as long as that has not helped yet."""
TURNS_TO_BLAME: Final = 5
"""With fewer, a server that fails now and then for hours is taken for one that fails on forms: of
300 calls one after another to a server that fails at random 40% of the time, 7% of the time."""


@dataclass(slots=True)
class FormFailures:
    """What all calls to one model have shown."""

    turns: int = 0
    """How often in a row a request failed under a form and was then answered without it. Starts
    again if one is answered under a form or fails without one, as the server was to blame then."""


@dataclass(slots=True)
class FormTrial:
    """What one call shows."""

    known: FormFailures
    _failures: int = 0
    _turns_before: int = 0
    """The turns when the last request under a form was sent."""
    _refuted: bool = False

    def sent_under_form(self) -> None:
        self._turns_before = self.known.turns

    def failed_under_form(self) -> bool:
        """Note that the server failed; return whether to ask once without the form."""
        self._failures += 1
        enough = 1 if self.known.turns else FAILURES_FIRST
        return self._failures >= enough and not self._refuted

    def failed_without_form(self) -> None:
        self.known.turns, self._refuted = 0, True

    def answered_under_form(self) -> None:
        self.known.turns = 0

    def answered_without_form(self) -> bool:
        """Note the answer to a request that had failed under a form; return whether the form is to
        blame."""
        # if another call was answered since this one failed, the server may have recovered between
        # the two: that was one outage, not two turns
        if self._turns_before == self.known.turns:
            self.known.turns += 1
        return self.known.turns >= TURNS_TO_BLAME
