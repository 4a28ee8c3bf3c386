"""The contrast of text to what it stands on."""

from __future__ import annotations

from typing import Final

from textual.color import Color

LEAST_CONTRAST: Final = 4.5
"""The least contrast ratio of text to background, from WCAG 2.1 for text of this size."""


def contrast(one: str | None, other: str | None) -> float:
    """The contrast ratio of two colours by WCAG 2.1, from 1 to 21."""
    low, high = sorted(_luminance(Color.parse(each or "")) for each in (one, other))
    return (high + 0.05) / (low + 0.05)


def _luminance(colour: Color) -> float:
    """The relative luminance of WCAG 2.1."""
    linear = [
        part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4
        for part in colour.normalized
    ]
    return sum(part * weight for part, weight in zip(linear, (0.2126, 0.7152, 0.0722), strict=True))
