"""Parts shared by the sections of Results: paragraphs, headings, and the filter line that shows the
verdicts behind a figure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from rich.cells import cell_len

from engine.analysis.figures import Analysis, Overall
from engine.analysis.sections import VerdictScope
from engine.display import one_line
from tui.text.ink import Ink, Piece, fitted_line
from tui.text.wrap import wrap
from tui.widgets.sheet import SheetRow

READABLE: Final = 100
"""Paragraphs are set at most this many cells wide."""


def paragraph(
    text: str,
    width: int,
    mark: Piece | None = None,
    ink: Ink = Ink.TEXT,
) -> Iterator[SheetRow]:
    """Wrap a text, made harmless, into rows after `mark`."""
    sign = Piece(" " if mark is None else f" {mark.text} ", Ink.TEXT if mark is None else mark.ink)
    indent = cell_len(sign.text)
    words = one_line(text)
    for number, row in enumerate(wrap(words, max(min(width - indent - 1, READABLE), 8))):
        head = sign if number == 0 else Piece(" " * indent)
        yield SheetRow([head, Piece(words[row.start : row.end], ink)])


def title(words: str, width: int, note: str = "") -> SheetRow:
    """A heading, a thin line, and a note at the right end, left out if there is no room."""
    note = note if cell_len(words) + cell_len(note) + 8 <= width else ""
    room = max(width - cell_len(words) - cell_len(note) - 5, 0)
    line = [
        Piece(f" {words} ", Ink.ACCENT),
        Piece("─" * room, Ink.RULE),
        Piece(f" {note}" if note else "", Ink.MUTED),
    ]
    return SheetRow(fitted_line(line, width))


_BREAKS = re.compile(r'[\s,"]')
"""Characters that would end a word of the filter line."""


def line_of(behind: VerdictScope, analysis: Analysis, benchmarks: Sequence[str]) -> str:
    """The filter line for `behind`. A filter matches parts of names, so other names that contain a
    wanted one are excluded again."""
    people = {
        value
        for result in analysis.targets
        for value in result.demographics.get(behind.axis or "", {})
    }
    metrics = () if behind.metric is None else (behind.metric,)
    own = analysis.benchmarks if isinstance(analysis, Overall) else [analysis.benchmark]
    words = [
        *_terms_for("benchmark", [behind.benchmark] if behind.benchmark else own, benchmarks),
        *_terms_for("target", behind.targets, [target.target for target in analysis.targets]),
        *_terms_for("metric", metrics, [metric.id for metric in analysis.metrics]),
        *_terms_for("who", behind.people, people, f"{_quoted_term(behind.axis or '')}="),
    ]
    if behind.track is not None:
        words.append(f"type:{behind.track.value}")
    if behind.judge is not None:
        words.append(f"judge:{_quoted_term(behind.judge)}")
    if behind.failed:
        words.append("outcome:fail")
    if behind.split:
        words.append("is:split")
    return " ".join(words)


def _terms_for(
    field: str, wanted: Sequence[str], known: Iterable[str], prefix: str = ""
) -> Iterable[str]:
    known = sorted(set(known))
    if not wanted or (known and set(known) <= set(wanted)):
        return
    yield f"{field}:" + ",".join(prefix + _quoted_term(name) for name in wanted)
    others = [
        name
        for name in known
        if name not in wanted and any(word.lower() in name.lower() for word in wanted)
    ]
    if others:
        yield f"-{field}:" + ",".join(prefix + _quoted_term(name) for name in others)


def _quoted_term(name: str) -> str:
    """Replace what would end a word by `*`, which matches anything."""
    return _BREAKS.sub("*", name)
