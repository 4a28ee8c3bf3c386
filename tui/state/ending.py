"""The end of a conversation: whether its verdict is still to come, and what it is stamped with."""

from __future__ import annotations

from engine.benchmark import Metric
from engine.display import drawn, one_line
from engine.jury import TIED, Jury, counting, verdict_to_show, what_counts
from engine.progress import Progress
from engine.store.tables import Verdict
from tui.format import TRACK_SIGNS, verdict
from tui.state.transcript import Dialogue, quote_block
from tui.text.blocks import Block, Passage, Rule
from tui.text.ink import VERDICT_INKS, Ink, Line, Piece


def awaits_verdict(dialogue: Dialogue, progress: Progress) -> bool:
    """Whether it ended, has no verdict, and something of its target is still to be judged."""
    take = dialogue.take
    if take is None or not take.finished or dialogue.verdicts:
        return False
    shown = dialogue.shown
    counts = progress.target(shown.benchmark, shown.key.target_id).evaluate
    return counts.queued + counts.running > 0


def end_words(dialogue: Dialogue, jury: Jury | None, *, awaited: bool) -> Line:
    """`ended  ✗ fail`; before there is a verdict, whether it is `awaited`."""
    if not dialogue.verdicts:
        return [Piece("verdict awaited" if awaited else "ended", Ink.MUTED)]
    passed = what_counts(dialogue.verdicts, jury)
    return [Piece("ended  ", Ink.MUTED), Piece(verdict(passed), VERDICT_INKS[passed])]


def stamp(dialogue: Dialogue, jury: Jury | None, metric: Metric | None) -> list[Block]:
    """What counts, by which metric, and the quote that shows it or else the reason; nothing before
    there is a verdict. `metric` names it, where that is known."""
    told = verdict_to_show(dialogue.verdicts, jury)
    if told is None:
        return []
    passed = what_counts(dialogue.verdicts, jury)
    votes = [vote.passed for vote in counting(dialogue.verdicts, jury)]
    name = told.metric_id if metric is None or metric.id != told.metric_id else metric.name
    title = f"{verdict(passed)}  {TRACK_SIGNS[told.track]} {one_line(name)}"
    alone = passed is None or len(votes) == 1
    note = "" if alone else f"{votes.count(passed)} of {len(votes)} verdicts"
    return [Rule("stamp", title, note, VERDICT_INKS[passed]), _reason(told, passed)]


def _reason(told: Verdict, passed: bool | None) -> Passage:  # noqa: FBT001  (a verdict, not a switch)
    if passed is None:
        why = TIED if told.unscored is None else told.unscored
        return Passage("stamp reason", "unscored", drawn(why), Ink.WARN)
    # of behaviour that is absent, judges quote what comes nearest to it
    quote = next((one for one in told.quotes if one.turn is not None), None)
    if quote is not None and passed is told.track.passes(present=True):
        return quote_block("stamp reason", quote)
    return Passage("stamp reason", "because", drawn(told.justification))
