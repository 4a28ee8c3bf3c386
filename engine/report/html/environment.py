"""Where templates are found, and what they may say: text can only ever be text.

Whatever a template prints passes the display boundary and is escaped, unless a template made it.
"""

from __future__ import annotations

from functools import cache
from typing import Final

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from engine.analysis.exposure import exposure_words
from engine.analysis.findings import (
    MARKS,
    NO_COEFFICIENT,
    Kind,
    chance,
    coefficient,
    marks_mean,
    percent,
    points,
    reach,
    span,
    whose,
)
from engine.analysis.provenance import served_words
from engine.analysis.validation_words import agreement_words, floor_words, order_words
from engine.display import clean, plural
from engine.report.html.view import scale_of, signed
from engine.report.scale import RATES

_MOST_PAIRS: Final = 24
"""Pairs that are shown at once; more of them are folded away, the clearest ones first."""
_MOST_COLUMNS: Final = 14
"""Targets that stand side by side in a table, as many as a sheet of paper is wide."""
_FINDING_TITLES: Final = {
    Kind.SURE: "Sure",
    Kind.OPEN: "Seen, but it may be chance",
    Kind.CAUTION: "Before you use a number",
}


@cache
def environment() -> Environment:
    made = Environment(
        loader=PackageLoader("engine.report.html"),
        autoescape=True,
        undefined=StrictUndefined,
        finalize=_printable,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    made.globals |= {
        "finding_titles": _FINDING_TITLES,
        "marks": MARKS,
        "most_columns": _MOST_COLUMNS,
        "most_pairs": _MOST_PAIRS,
        "no_coefficient": NO_COEFFICIENT,
        "rates": RATES,
        "scale_of": scale_of,
    }
    words = (
        agreement_words,
        chance,
        coefficient,
        exposure_words,
        floor_words,
        marks_mean,
        order_words,
        percent,
        plural,
        points,
        reach,
        signed,
        served_words,
        span,
        whose,
    )
    made.globals |= {word.__name__: word for word in words}
    return made


def _printable(value: object) -> object:
    """What models, files and people wrote steers nothing and turns no text around."""
    return clean(value) if isinstance(value, str) and not isinstance(value, Markup) else value
