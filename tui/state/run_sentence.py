"""What is going on, in one sentence, before there are rates to read; and how far conversations
are."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Final

from engine.benchmark import Stage
from engine.display import plural
from engine.facts import Speech
from engine.link import Board
from engine.watch import BenchmarkInfo, Watch
from tui.state.board import HEIGHTS
from tui.state.run_status import RunPhase, RunStatus
from tui.text.ink import Ink, Line, Piece

MOST_TURNS: Final = 20
"""So many turns at most have a cell each."""
_FIRST: Final = {
    RunPhase.STARTING: "the engine finds out what is missing",
    RunPhase.METRICS: "a model writes the metrics",
    RunPhase.SCENARIOS: "a model writes the scenarios",
    RunPhase.ADDING_UP: "the results are being added up",
    RunPhase.PAUSED: "nothing new begins",
    RunPhase.DRAINING: "nothing new begins",
}


def run_sentence(status: RunStatus, watch: Watch, info: BenchmarkInfo, board: Board | None) -> str:
    """`17 conversations with 2 targets, turn 1 of 5; 4 being judged; 40 to come`. Of a run that is
    over, how far it came."""
    if status.phase.over:
        return _how_far(watch, info)
    played = watch.progress.stage_tally(info.name, Stage.SIMULATE)
    judged = watch.progress.stage_tally(info.name, Stage.EVALUATE)
    parts = [_FIRST.get(status.phase, ""), _going_on(watch, info, board)]
    if judged.running:
        parts.append(f"{judged.running:,} being judged")
    if board is not None and board.waits:
        held = sum(wait.calls for wait in board.waits)
        parts.append(f"{plural(held, 'call')} held up")
    if played.queued:
        parts.append(f"{played.queued:,} to come")
    whole = "; ".join(filter(None, parts)) or "nothing is being said at this moment"
    return whole[0].upper() + whole[1:]


def _going_on(watch: Watch, info: BenchmarkInfo, board: Board | None) -> str:
    """How many conversations have begun and not ended, with how many targets, and in which turn
    those are that are speaking."""
    progresses = watch.progress.targets_of(info.name).values()
    counts = [each.simulate.running for each in progresses if each.simulate.running]
    if not counts:
        return ""
    begun = sum(counts)
    whole = f"{plural(begun, 'conversation')} with {plural(len(counts), 'target')}"
    turns = turns_of(board, info.name)
    speaking = turns.total()
    if not speaking:
        return f"{whole}, none speaking now"
    share = "" if speaking >= begun else f"{speaking:,} speaking in "
    return f"{whole}, {share}{_turn_words(turns, info.turns)}"


def _turn_words(turns: Counter[int], last: int) -> str:
    low, high = min(turns), max(turns)
    words = f"turn {low}" if low == high else f"turns {low} to {high}"
    return f"{words} of {last}" if last >= high else words


def _how_far(watch: Watch, info: BenchmarkInfo) -> str:
    """What a run that is over has left."""
    played = watch.progress.stage_tally(info.name, Stage.SIMULATE)
    judged = watch.progress.stage_tally(info.name, Stage.EVALUATE)
    if not played.total:
        return "No conversation has been planned yet"
    targets = [
        each for each in watch.progress.targets_of(info.name).values() if each.simulate.total
    ]
    parts = [
        f"{played.done:,} of {plural(played.total, 'conversation')} with "
        f"{plural(len(targets), 'target')} played",
        f"{judged.done:,} judged",
    ]
    failed = played.failed + judged.failed
    parts += [f"{failed:,} failed"] if failed else []
    parts += [f"{played.running:,} in the middle"] if played.running else []
    return ", ".join(parts)


def turns_of(board: Board | None, benchmark: str) -> Counter[int]:
    """How many conversations of a benchmark are speaking, by the turn that they are in."""
    speaking: Sequence[Speech] = () if board is None else board.speaking
    return Counter(speech.turn for speech in speaking if speech.benchmark == benchmark)


def turn_strip(turns: Counter[int], last: int) -> Line:
    """`turns ▂█▄··`: a cell for each turn, as high as conversations are speaking in it; nothing
    where nobody speaks, or where there is no cell for each."""
    if not turns or not 1 < last <= MOST_TURNS:
        return ()
    most = max(turns.values())
    line = [Piece("turns ", Ink.MUTED)]
    for turn in range(1, last + 1):
        count = turns[turn]
        height = HEIGHTS[round(count / most * (len(HEIGHTS) - 1))] if count else "·"
        line.append(Piece(height, Ink.ACCENT if count else Ink.FAINT))
    return line
