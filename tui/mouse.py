"""Whether the terminal tells of the mouse: where it does, it selects no text by itself."""

from __future__ import annotations

from textual.driver import Driver


def turn_mouse(driver: Driver) -> bool:
    """On where it was off, and off where it was on, also when the terminal is had back after a
    pager; which of the two it is now. Textual decides it once, at the start, and shows nobody."""
    wanted = not driver._mouse  # noqa: SLF001
    driver._mouse = True  # noqa: SLF001  (neither way of turning it does anything without it)
    turn = getattr(driver, "_enable_mouse_support" if wanted else "_disable_mouse_support", None)
    if turn is not None:  # a driver without a terminal has neither
        turn()
    driver._mouse = wanted  # noqa: SLF001
    return wanted
