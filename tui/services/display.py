"""The last step before the terminal: a filter behind every widget.

What a view of ours draws has passed `engine.display.clean`. `ControlCodeFilter` stands behind it
for what did not come that way.
"""

from __future__ import annotations

import re
from typing import Final

from rich.segment import Segment
from textual.color import Color
from textual.filter import LineFilter

_ACTIVE: Final = re.compile(
    "[\x00-\x1f\x7f-\x9f\u00ad\u061c\u200b\u200e\u200f\u2028-\u202e\u2060\u2066-\u2069"
    "\ufeff\ufff9-\ufffb\ud800-\udfff\U000e0000-\U000e007f]"
)
"""Characters without width that some terminal acts on, or that nobody would see."""


class ControlCodeFilter(LineFilter):
    """Takes out of every drawn line what could act on a terminal, links included.

    What it removes has no width, so the line keeps its length.
    """

    def apply(self, segments: list[Segment], background: Color) -> list[Segment]:
        del background
        if not any(map(_acts, segments)):
            return segments
        return [_disarmed(segment) for segment in segments]


def _acts(segment: Segment) -> bool:
    text, style, _ = segment
    return (style is not None and style.link is not None) or (
        not text.isprintable() and _ACTIVE.search(text) is not None
    )


def _disarmed(segment: Segment) -> Segment:
    text, style, _ = segment
    if style is not None and style.link is not None:
        style = style.update_link(None)
    return Segment(_ACTIVE.sub("", text), style)
