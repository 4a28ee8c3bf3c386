"""What the app hands to each of its screens."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from engine.watch import Watch
from tui.navigation import Navigator
from tui.services.engine_control import EngineControl
from tui.services.preferences import Preferences
from tui.services.ticker import Ticker, Watching


class Tell(Protocol):
    """Shows a notice, whoever its text is from."""

    def __call__(self, text: str, *, bad: bool = False) -> None: ...


@dataclass(frozen=True, slots=True)
class Shell:
    """The app, as its screens see it. Nothing here waits for anything, unless it says so."""

    watch: Watch
    ticker: Ticker
    engine: EngineControl
    preferences: Preferences
    navigator: Navigator
    tell: Tell
    draw: Callable[[Watching], None]
    """Has a screen that comes up draw what is known, without waiting for the next look."""
    use_theme: Callable[[str], None]
