"""Sections as lines of a sheet: draws cells by their types; and curves over turns, paragraphs,
headings, and the filter line that shows the verdicts behind a figure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from rich.cells import cell_len

from engine.analysis.figures import Analysis, Estimate, MarkedDifference, Overall
from engine.analysis.findings import rests_on
from engine.analysis.number_words import p_value_words, points, points_interval
from engine.analysis.onset import OnsetCurve
from engine.analysis.sections import (
    Cell,
    Change,
    Forest,
    Grid,
    Name,
    Row,
    Section,
    Sentence,
    ShareCell,
    Shift,
    Table,
    VerdictScope,
    cell_text,
    scope_of,
    sections,
    whose,
)
from engine.benchmark import Track
from engine.display import one_line, percent
from engine.report.scale import RATES, Scale, scale_of
from tui.format import TRACK_SIGNS
from tui.text.ink import Ink, Line, Piece, fitted_line, pad, pad_apart, told_apart
from tui.text.plot import Curve, Whiskers, change_line, plot, tick_line, whiskers
from tui.text.wrap import wrap
from tui.widgets.lines import SheetRow

_LEAST_BAR: Final = 10
_NAME: Final = 24
_NAMES_AT_MOST: Final = 44
_WIDE: Final = 100


def sections_rows(
    analysis: Analysis, keys: Sequence[str], width: int, target: str | None = None
) -> list[SheetRow]:
    """The sections with these keys, or why there is none."""
    found = {section.key: section for section in sections(analysis)}
    rows: list[SheetRow] = []
    for key in keys:
        if key in found:
            rows += section_rows(found[key], width, target)
        else:
            rows += [*paragraph(_NOTHING[key], width, ink=Ink.MUTED), SheetRow([])]
    return rows


def titled(name: str, note: str, found: Sequence[Section], width: int) -> Iterator[SheetRow]:
    """Sections below the name of what they are about."""
    yield title(one_line(name), width, note)
    for section in found:
        yield from section_rows(section, width)


_NOTHING: Final = {
    "comparisons": "A comparison takes two targets that were scored on the same scenarios.",
    "people": (
        "There are no groups to compare: `demographics:` in config.yaml gives scenarios some."
    ),
    "agreement": (
        "Nothing was answered twice. Agreement needs several samples (`num_samples:`), judges, or "
        "passes of a judge in config.yaml."
    ),
}
"""Why a section has nothing to show."""


def section_rows(section: Section, width: int, target: str | None = None) -> Iterator[SheetRow]:
    """The section in `width` cells, what is said of the chosen target first; without what is folded
    away elsewhere, and without heat maps, which have a cursor of their own."""
    shown = [block for block in section.blocks if not isinstance(block, Grid) or not block.folded]
    if not all(isinstance(block, Forest) for block in shown[:1]):
        yield title(one_line(section.title), width)
    for block in shown:
        match block:
            case Sentence():
                yield from paragraph(block.text, width, ink=Ink.MUTED)
            case Table():
                if block.title:
                    yield title(one_line(cell_text(block.title)), width)
                yield from _table(block, width)
                if block.note:
                    yield from paragraph(block.note, width, ink=Ink.FAINT)
            case Forest():
                yield from _forest(block, width, target)
            case Grid(heat=False):
                yield from _grid(block, width)
    if section.why:
        yield from paragraph(section.why, width, ink=Ink.FAINT)
    yield SheetRow([])


def of_estimate(estimate: Estimate) -> Whiskers:
    """The plot of a rate, with a hollow dot if it rests on too few scenarios."""
    return Whiskers(estimate.rate, estimate.low, estimate.high, sure=not estimate.too_few)


def _table(table: Table, width: int) -> Iterator[SheetRow]:
    """Each row with a plot of its first share, where there is room; a text ends it."""
    texts = [[cell_text(cell, whole=table.whole) for cell in row.cells] for row in table.rows]
    heads = [column.brief for column in table.columns[1:]]
    sizes = [max(map(cell_len, column)) for column in zip(heads, *texts, strict=True)]
    right = [not table.whole and not isinstance(cell, str | Name) for cell in table.rows[0].cells]
    known = [one_line(row.name.text) for row in table.rows]
    names = min(max(map(cell_len, known)), max(width // 3, 12))
    bar = width - names - sum(sizes) - 2 * len(sizes) - 5
    plotted = bar >= _LEAST_BAR and any(
        isinstance(cell, ShareCell | Change) for row in table.rows for cell in row.cells
    )

    def cells(words: Sequence[str], ink: Ink) -> list[Piece]:
        return [
            Piece("  " + pad(one_line(word), size, right=is_right), ink)
            for word, size, is_right in zip(words, sizes, right, strict=True)
        ]

    ticks = tick_line(RATES, bar) if plotted else []
    head = [Piece(" " * (names + 3)), *ticks, *cells(heads, Ink.FAINT)]
    yield SheetRow(fitted_line(head, width))
    for row, name, words in zip(table.rows, known, texts, strict=True):
        line = [Piece(" " + pad_apart(name, known, names) + "  ", Ink.STRONG)]
        if plotted:
            line += _plot(row.cells, bar)
        yield SheetRow(fitted_line([*line, *cells(words, Ink.TEXT)], width), row.behind)


def _plot(cells: Sequence[Cell], width: int) -> Line:
    """Of the first share, or the first change of one."""
    sure = any(isinstance(cell, Shift) and cell.sure for cell in cells)
    for cell in cells:
        if isinstance(cell, Change):
            return change_line(*cell, RATES, width, Ink.WARN if sure else Ink.MUTED)
        if isinstance(cell, ShareCell):
            drawn = Whiskers(cell.value, cell.low, cell.high, sure=cell.sure)
            return whiskers(drawn, RATES, width)
    return whiskers(Whiskers(None), RATES, width)


def _grid(grid: Grid, width: int) -> Iterator[SheetRow]:
    """A row of the grid below the other, each with a line for each of its columns."""
    yield title(one_line(grid.title), width)
    columns = [one_line(name.text) for name, _ in grid.columns]
    rows = [one_line(row.name.text) for row in grid.rows]
    column, name = (min(max(map(cell_len, words)), _NAME) for words in (columns, rows))
    texts = [[cell_text(cell) for cell in grid.estimates(row)] for row in grid.rows]
    right = max(cell_len(text) for row in texts for text in row)
    bar = width - name - column - right - 7
    head = [Piece(" " * (name + column + 4)), *(tick_line(RATES, bar) if bar >= _LEAST_BAR else [])]
    yield SheetRow(fitted_line(head, width))
    for row, label, words in zip(grid.rows, rows, texts, strict=True):
        yield from _grid_lines(grid, row, label, words, (name, column, bar), width)


def _grid_lines(
    grid: Grid,
    row: Row,
    label: str,
    words: Sequence[str],
    sizes: tuple[int, int, int],
    width: int,
) -> Iterator[SheetRow]:
    name, column, bar = sizes
    for number, (estimate, text) in enumerate(zip(grid.estimates(row), words, strict=True)):
        (group, scope), first = grid.columns[number], label if number == 0 else ""
        line = [
            Piece(f" {pad(first, name)}", Ink.STRONG),
            Piece(f"  {pad(one_line(group.text), column)} ", Ink.TEXT),
        ]
        if bar >= _LEAST_BAR:
            line += whiskers(
                Whiskers(None) if estimate is None else of_estimate(estimate), RATES, bar
            )
        line.append(Piece(f"  {text}", Ink.TEXT))
        behind = row.behind.narrowed_to(scope) if isinstance(row.behind, VerdictScope) else None
        yield SheetRow(fitted_line(line, width), behind)


def _forest(forest: Forest, width: int, target: str | None) -> Iterator[SheetRow]:
    """Draw all groups on one scale, so that they can be compared by eye."""
    every = [one for group in forest.groups for one in group.differences]
    scale = scale_of(end for one in every for end in (one.low, one.high, one.difference))
    wide = width >= _WIDE
    words = dict(zip(every, _aligned_words(every, wide=wide), strict=True))
    right = max(map(cell_len, words.values()))
    owner = min(max(cell_len(one_line(whose(one))) for one in every), _NAME if wide else 12)
    owner += 2 if owner else 0
    most = min(_NAMES_AT_MOST, max(width // 3, 16), max(width - right - owner - _LEAST_BAR - 8, 12))
    names = min(max(cell_len(_names(one)) for one in every), most)
    bar = max(width - names - owner - right - 8, _LEAST_BAR)
    yield SheetRow(fitted_line([Piece(" " * (names + owner + 5)), *tick_line(scale, bar)], width))
    for group in forest.groups:
        note = f"{group.sure} of {len(group.differences)} significant"
        yield title(one_line(cell_text(group.title)), width, note)
        known = tuple(one_line(name) for one in group.differences for name in (one.left, one.right))
        for one in sorted(group.differences, key=lambda one: _is_of_another(one, target)):
            label = pad(_names(one, names, known), names)
            label += f"  {pad(one_line(whose(one)), owner - 2, middle=True)}" if owner else ""
            yield SheetRow(
                fitted_line(_branch(one, label, words[one], scale, bar), width), scope_of(one)
            )


def _is_of_another(difference: MarkedDifference, target: str | None) -> bool:
    """Whether it is a gap of another target than the chosen one."""
    owner = getattr(difference, "target", None)
    return owner is not None and owner != target


def _branch(one: MarkedDifference, label: str, words: str, scale: Scale, bar: int) -> list[Piece]:
    ink = Ink.ACCENT if one.sure else Ink.MUTED
    drawn = Whiskers(one.difference, one.low, one.high, sure=one.sure, ink=ink)
    return [
        Piece(" ✓ " if one.sure else " · ", Ink.GOOD if one.sure else Ink.MUTED),
        Piece(label, Ink.STRONG if one.sure else Ink.TEXT),
        Piece("  "),
        *whiskers(drawn, scale, bar),
        Piece("  " + words, Ink.TEXT if one.sure else Ink.MUTED),
    ]


def _names(one: MarkedDifference, width: int | None = None, known: tuple[str, ...] = ()) -> str:
    """`a > b`, or `a = b`. Names that do not fit into `width` cells are cut as far as needed."""
    sign = f" {'>' if one.difference else '='} "
    greater, less = one_line(one.left), one_line(one.right)
    if width is not None:
        room = width - len(sign)
        half = room // 2
        greater = told_apart(known, max(half, room - cell_len(less)))[greater]
        less = told_apart(known, room - cell_len(greater))[less]
    return greater + sign + less


def _aligned_words(differences: Sequence[MarkedDifference], *, wide: bool) -> list[str]:
    """What is said beside each bar, its parts in columns."""
    rows = [_difference_words(difference, wide=wide) for difference in differences]
    size, interval, p = (max(cell_len(row[part]) for row in rows) for part in range(3))
    gap = "  " if wide else " "
    return [
        gap.join((row[0].rjust(size), row[1].ljust(interval), row[2].ljust(p), row[3]))
        for row in rows
    ]


def _difference_words(difference: MarkedDifference, *, wide: bool) -> tuple[str, str, str, str]:
    """The difference, its interval, its p-value, and what it rests on."""
    p = p_value_words(difference.p_adjusted) or "no p"
    interval = points_interval(difference.low, difference.high)
    if not wide:
        over = f"{difference.base_scenarios:,} ({difference.rows:,})"
        return f"{round(difference.difference * 100)}", interval, p, over
    words = points(difference.difference).replace("less than a", "< 1")
    return words, interval, p, rests_on(difference)


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


_SAYS: Final = {
    Track.POSITIVE: "shown by the end of each turn",
    Track.NEGATIVE: "still avoided at the end of each turn",
}
_MEANS: Final = (
    "What would count had each conversation ended with that turn, by the judges' marks of each "
    "reply; of one without marks, from the turn of its earliest quote on, though it may have begun "
    "before."
)
_TURN: Final = 6
_PLOT: Final = (100, 12)
_AT_ONCE: Final = 12
"""The most curves drawn, as more cannot be told apart: the chosen one and the first others."""


def onset_rows(courses: Sequence[OnsetCurve], target: str | None, width: int) -> list[SheetRow]:
    """The pass rate by the end of each turn, for all targets; `target` is the chosen one,
    highlighted. `width` is in cells."""
    if not any(curve.of for curve in courses):
        words = "No verdict says yet in which turn its evidence stands."
        return list(paragraph(words, width, ink=Ink.MUTED))
    rows: list[SheetRow] = []
    for track in Track:
        of_track = [curve for curve in courses if curve.track is track and curve.of]
        of_track.sort(key=lambda curve: (-curve.passing[-1], curve.target))
        if of_track:
            rows += _track(track, of_track, target, width)
    return [*rows, *paragraph(_MEANS, width, ink=Ink.FAINT)]


def _track(
    track: Track, courses: Sequence[OnsetCurve], target: str | None, width: int
) -> Iterator[SheetRow]:
    yield title(f"{TRACK_SIGNS[track]} {track.value} metrics", width, _SAYS[track])
    names = max(8, *(cell_len(one_line(curve.target)) for curve in courses))
    names = min(names, 24, max(width - 2 * _TURN, 8))
    turns = range(len(courses[0].seen))
    fit = max((width - names - 16) // _TURN, 2)
    shown = turns if len(turns) <= fit else [*turns[: fit - 1], turns[-1]]
    heads = "".join(pad(f"{turn + 1}", _TURN, right=True) for turn in shown)
    yield SheetRow(fitted_line([Piece(" " + pad("turn", names) + heads, Ink.FAINT)], width))
    for curve in courses:
        label = pad_apart(
            one_line(curve.target), (one_line(curve.target) for curve in courses), names
        )
        yield _curve_row(curve, shown, label, width, is_chosen=curve.target == target)
    unplaced = sum(curve.unplaced for curve in courses)
    if unplaced:
        words = f"{unplaced:,} more have evidence in no turn, and are left out here."
        yield from paragraph(words, width, Piece("·", Ink.WARN), Ink.MUTED)
    for line in plot(_curves(courses, target), min(width - 1, _PLOT[0]), _PLOT[1]):
        yield SheetRow([Piece(" "), *line])


def _curve_row(
    onset_curve: OnsetCurve, shown: Sequence[int], label: str, width: int, *, is_chosen: bool
) -> SheetRow:
    ink = Ink.ACCENT if is_chosen else Ink.TEXT
    line = [Piece(" " + label, Ink.STRONG)]
    before = None
    for turn in shown:
        share = onset_curve.passing[turn]
        same = before is not None and percent(share) == percent(before)
        line.append(Piece(pad(percent(share), _TURN, right=True), Ink.FAINT if same else ink))
        before = share
    line.append(Piece(f"  of {onset_curve.of:,}", Ink.MUTED))
    return SheetRow(
        fitted_line(line, width), VerdictScope((onset_curve.target,), track=onset_curve.track)
    )


def _curves(courses: Sequence[OnsetCurve], target: str | None) -> list[Curve]:
    chosen = [curve for curve in courses if curve.target == target]
    others = [curve for curve in courses if curve.target != target][: _AT_ONCE - len(chosen)]
    return [
        *(Curve(one_line(other.target), other.passing, Ink.MUTED) for other in others),
        *(Curve(one_line(curve.target), curve.passing, Ink.ACCENT) for curve in chosen),
    ]
