"""Differences between targets and between demographic groups, with their tests, as forest plots."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from rich.cells import cell_len

from engine.analysis.figures import Analysis, Comparison, Gap, MarkedDifference
from engine.analysis.findings import (
    marks_mean,
    p_value_words,
    pairs_by_kind,
    points,
    points_interval,
    rests_on,
)
from engine.display import one_line
from engine.report.scale import scale_of
from tui.results.text import VerdictScope, paragraph, title
from tui.text.ink import Ink, Piece, fitted_line, pad, told_apart
from tui.text.plot import Whiskers, tick_line, whiskers
from tui.widgets.sheet import SheetRow

_LEAST_BAR: Final = 12
_NAMES_AT_MOST: Final = 44
_WIDE: Final = 100


class _ForestLine(NamedTuple):
    """One line of a forest plot; the greater side is first, so that all lines reach right."""

    of: MarkedDifference
    behind: VerdictScope

    @property
    def greater(self) -> str:
        return one_line(self.of.left)

    @property
    def less(self) -> str:
        return one_line(self.of.right)


class _PairGroup(NamedTuple):
    """Pairs of one kind, under one title."""

    title: str
    branches: Sequence[_ForestLine]


def pairs_rows(analysis: Analysis, width: int) -> list[SheetRow]:
    """Every pair of targets with its interval and its test, in `width` cells."""
    if not analysis.comparisons:
        words = "A comparison takes two targets that were scored on the same scenarios."
        return list(paragraph(words, width, ink=Ink.MUTED))
    blocks = [
        _PairGroup(
            where,
            [_of_pair(pair) for pair in sorted(pairs, key=lambda pair: -abs(pair.difference))],
        )
        for where, pairs in pairs_by_kind(analysis)
    ]
    words = "“a > b”: a passes more often than b on the same scenarios"
    return [*_forest(blocks, width), *_legend(analysis, width, words)]


def people_rows(analysis: Analysis, target: str | None, width: int) -> list[SheetRow]:
    """Demographic differences: of all targets together, then of each, the chosen one first."""
    if not analysis.gaps:
        return list(paragraph(_no_gaps(analysis), width, ink=Ink.MUTED))
    whose = list(dict.fromkeys(gap.target for gap in analysis.gaps))
    whose.sort(key=lambda target_id: (target_id is not None, target_id != target))
    blocks = [
        _PairGroup(
            "all targets together" if who is None else one_line(who),
            [_of_gap(gap) for gap in analysis.gaps if gap.target == who],
        )
        for who in whose
    ]
    words = "“a > b”: passes more often with people who are a than b, within the same scenario"
    return [*_forest(blocks, width), *_legend(analysis, width, words)]


def _no_gaps(analysis: Analysis) -> str:
    if analysis.axes:
        return "There are too few scored variants of one scenario to compare people yet."
    return "This benchmark has no demographics: `demographics:` in config.yaml gives it some."


def _of_pair(pair: Comparison) -> _ForestLine:
    pair = pair.greater_first
    return _ForestLine(pair, VerdictScope((pair.left, pair.right), track=pair.track))


def _of_gap(gap: Gap) -> _ForestLine:
    gap = gap.greater_first
    targets = () if gap.target is None else (gap.target,)
    return _ForestLine(gap, VerdictScope(targets, axis=gap.axis, people=(gap.left, gap.right)))


def _forest(blocks: Sequence[_PairGroup], width: int) -> Iterator[SheetRow]:
    """Draw all blocks on one scale, so that they can be compared by eye."""
    branches = [branch for block in blocks for branch in block.branches]
    differences = [branch.of for branch in branches]
    scale = scale_of(
        end for branch in differences for end in (branch.low, branch.high, branch.difference)
    )
    wide = width >= _WIDE
    words = dict(zip(differences, _aligned_words(differences, wide=wide), strict=True))
    right = max(map(cell_len, words.values()))
    most = min(_NAMES_AT_MOST, max(width // 3, 16), max(width - right - _LEAST_BAR - 8, 12))
    names = min(max(cell_len(_names(branch)) for branch in branches), most)
    bar = max(width - names - right - 8, _LEAST_BAR)
    yield SheetRow(fitted_line([Piece(" " * (names + 5)), *tick_line(scale, bar)], width))
    for block in blocks:
        sure = sum(branch.of.sure for branch in block.branches)
        yield title(block.title, width, f"{sure} of {len(block.branches)} significant")
        known = tuple(name for branch in block.branches for name in (branch.greater, branch.less))
        for pair in block.branches:
            of = pair.of
            ink = Ink.ACCENT if of.sure else Ink.MUTED
            drawn = Whiskers(of.difference, of.low, of.high, sure=of.sure, ink=ink)
            line = [
                Piece(" ✓ " if of.sure else " · ", Ink.GOOD if of.sure else Ink.MUTED),
                Piece(pad(_names(pair, names, known), names), Ink.STRONG if of.sure else Ink.TEXT),
                Piece("  "),
                *whiskers(drawn, scale, bar),
                Piece("  " + words[of], Ink.TEXT if of.sure else Ink.MUTED),
            ]
            yield SheetRow(fitted_line(line, width), pair.behind)


def _names(branch: _ForestLine, width: int | None = None, known: tuple[str, ...] = ()) -> str:
    """`a > b`, or `a = b`. Names that do not fit into `width` cells are cut as far as needed."""
    sign = f" {'>' if branch.of.difference else '='} "
    greater, less = branch.greater, branch.less
    if width is not None:
        room = width - len(sign)
        half = room // 2
        greater = told_apart(known, max(half, room - cell_len(less)))[greater]
        less = told_apart(known, room - cell_len(greater))[less]
    return greater + sign + less


def _aligned_words(differences: Sequence[MarkedDifference], *, wide: bool) -> list[str]:
    """What is said beside each bar, its parts in columns."""
    rows = [_difference_words(difference, wide=wide) for difference in differences]
    points, interval, p = (max(cell_len(row[part]) for row in rows) for part in range(3))
    gap = "  " if wide else " "
    return [
        gap.join((row[0].rjust(points), row[1].ljust(interval), row[2].ljust(p), row[3]))
        for row in rows
    ]


def _difference_words(difference: MarkedDifference, *, wide: bool) -> tuple[str, str, str, str]:
    """The difference, its interval, its p-value, and what it rests on."""
    p = p_value_words(difference.p_adjusted) or "no p"
    interval = points_interval(difference.low, difference.high)
    if not wide:
        over = f"{difference.base_scenarios:,} ({difference.rows:,})"
        return f"{round(difference.difference * 100)}", interval, p, over
    return _points(difference.difference), interval, p, rests_on(difference)


def _points(difference: float) -> str:
    words = points(difference)
    return words.replace("less than a", "< 1")


def _legend(analysis: Analysis, width: int, words: str) -> Iterator[SheetRow]:
    yield SheetRow([])
    over = "" if width >= _WIDE else " scenarios (conversations) last."
    text = (
        f"{words}; in points, with the interval among all of the family. · ○ may be chance.{over}"
    )
    yield from paragraph(text, width, ink=Ink.FAINT)
    yield from paragraph(marks_mean(analysis), width, ink=Ink.FAINT)
