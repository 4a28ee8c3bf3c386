"""Names, numbers and units as the screens write them: plain functions from values to text."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from rich.cells import cell_len

from engine.benchmark import ConversationKey, Speaker, Stage, StopReason, Track
from engine.display import one_line, percent, span
from engine.progress import TrackScore
from tui.text.ink import TOLD_APART, told_apart

if TYPE_CHECKING:
    from engine.statistics.rates import Rate


UNKNOWN: Final = "—"
SCRIPTED: Final = "scripted models, not language models"
SCRIPTED_IN_SHORT: Final = "no language models"
ROOM_FOR_PARTS: Final = 60
"""The longest list of scripted parts, in characters, that a header shows."""
READING: Final = "reading the configuration …"
ROOM_FOR_NOTICE: Final = 72
"""A header of this many cells or more has room for such a notice in full."""

STAGE_NAMES: Final = {
    Stage.GEN_METRICS: "metrics",
    Stage.GEN_SCENARIOS: "scenarios",
    Stage.SIMULATE: "simulate",
    Stage.EVALUATE: "evaluate",
    Stage.AGGREGATE: "aggregate",
}
TRACK_SIGNS: Final = {track: track.sign for track in Track}
TRACK_MEANINGS: Final = {Track.POSITIVE: "wanted", Track.NEGATIVE: "unwanted"}
TRACK_LEGEND: Final = "  ".join(f"{TRACK_SIGNS[track]} {TRACK_MEANINGS[track]}" for track in Track)
"""The meaning of the signs: whether the behaviour is wanted."""
SPEAKER_NAMES: Final = {Speaker.USER: "user", Speaker.TARGET: "target"}
ENDINGS_SHORT: Final = {
    StopReason.TURN_LIMIT: "all turns",
    StopReason.USER_ENDED: "by user",
    StopReason.USER_FAILED: "user model failed",
    StopReason.TARGET_FAILED: "target failed",
    StopReason.CONTEXT_FULL: "context full",
    StopReason.CANCELLED: "cancelled",
    StopReason.UNKNOWN: "unknown",
}
_BLOCKS: Final = " ▏▎▍▌▋▊▉█"


def duration(seconds: float) -> str:
    """`0:07`, `12:40`, `3:05:00`."""
    whole = max(int(seconds), 0)
    hours, rest = divmod(whole, 3600)
    minutes, second = divmod(rest, 60)
    return f"{hours}:{minutes:02d}:{second:02d}" if hours else f"{minutes}:{second:02d}"


def amount(number: float) -> str:
    """`7`, `840`, `1.2k`, `31k`, `2.4M`."""
    if number < 1_000:
        return f"{number:.0f}"
    if number < 9_950:
        return f"{number / 1_000:.1f}k"
    if number < 999_500:
        return f"{number / 1_000:.0f}k"
    return f"{number / 1_000_000:.1f}M"


def money(usd: float | None, *, scripted: bool) -> str:
    """`$1.20`, `<$0.01`; `free` for scripts that cost nothing; a dash if the cost is unknown."""
    if scripted and not usd:
        return "free"
    if usd is None:
        return UNKNOWN
    return f"${usd:.2f}" if usd >= 0.01 or usd == 0 else "<$0.01"


def rate(score: TrackScore, track: Track) -> str:
    """`+ 81% of 32`."""
    sign = TRACK_SIGNS[track]
    if score.rate is None:
        return f"{sign} {UNKNOWN}"
    return f"{sign} {percent(score.rate)} of {score.scored}"


def interval_rate(known: Rate, track: Track) -> str:
    """`+ 81% [65–91] 26/32`."""
    rate_and_ends = f"{percent(known.rate)} {span(known.interval.low, known.interval.high)}"
    return f"{TRACK_SIGNS[track]} {rate_and_ends} {known.passed}/{known.scored}"


def conversation_id(key: ConversationKey, targets: Sequence[str], width: int) -> str:
    """A conversation's id in `width` cells: its target cut and told apart from `targets`, or else
    as `m1s1v1 st…st s1`. In full if neither fits, or if the id is not one of ours."""
    text, target = one_line(str(key)), one_line(key.target_id)
    room = width - cell_len(text) + cell_len(target)
    if cell_len(text) <= width:
        return text
    if room >= TOLD_APART:
        return text.replace(target, told_apart((*targets, target), room)[target])
    scenario = one_line(key.scenario_id)
    numbered = [part for part in scenario.split("_") if part[1:].isdecimal()]
    if "_".join(numbered) != scenario:  # not made by us: it may hold anything
        return text
    short = "".join(f"{part[0]}{int(part[1:])}" for part in numbered)
    sample = f" s{key.sample}" if key.sample else ""
    room = width - cell_len(f"{short} {sample}")
    return f"{short} {told_apart((*targets, target), room)[target]}{sample}" if room > 2 else text


def verdict(passed: bool | None) -> str:  # noqa: FBT001  (a verdict, not a switch)
    """`✓ pass`, `✗ fail`, `· unscored`."""
    match passed:
        case True:
            return "✓ pass"
        case False:
            return "✗ fail"
        case None:
            return "· unscored"


def bar(share: float, width: int) -> tuple[str, str]:
    """The filled part of a bar, in eighths of a cell, and the rest. A share above 1 fills it."""
    eighths = round(min(share, 1) * 1000) * width * 8 // 1000
    full, part = divmod(eighths, 8)
    filled = "█" * full + (_BLOCKS[part] if part else "")
    return filled, " " * (width - len(filled))


def scripted_words(scripts: str | None, *, roomy: bool) -> str:
    """Header text that says whether all models are scripts or, from `scripts`, which are."""
    if scripts is None:
        return SCRIPTED if roomy else SCRIPTED_IN_SHORT
    fits = roomy and len(scripts) <= ROOM_FOR_PARTS
    return one_line(scripts) if fits else "some parts scripted"
