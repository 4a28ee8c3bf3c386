"""What came while a display was held still."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from engine.facts import Fact, MessageSpoken, VerdictGiven
from tui.wording import count


@dataclass(slots=True)
class Missed:
    """Counts it, so that nobody takes what stands still for all there is."""

    messages: int = 0
    verdicts: int = 0
    others: int = 0

    def hear(self, facts: Iterable[Fact]) -> None:
        for fact in facts:
            match fact:
                case MessageSpoken():
                    self.messages += 1
                case VerdictGiven():
                    self.verdicts += 1
                case _:
                    self.others += 1

    @property
    def words(self) -> str:
        """`frozen  +3 messages +1 verdict`."""
        parts = [
            count(self.messages, "message") if self.messages else "",
            count(self.verdicts, "verdict") if self.verdicts else "",
        ]
        told = " ".join(f"+{part}" for part in parts if part)
        return f"frozen  {told or f'+{self.others}'}"
