"""What a conversation is judged by and what counts of how it was judged, as its headline."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Final

from engine.benchmark import Metric, metric_of
from engine.display import one_line, plural
from engine.jury import HUMAN, Jury, counting, newest, verdict_to_show, what_counts, why_unscored
from engine.store.tables import Verdict
from engine.watch import BenchmarkInfo, Watch
from tui.format import TRACK_SIGNS, verdict
from tui.state.transcript import Dialogue
from tui.text.ink import VERDICT_INKS, Ink, Line, Piece, length, shorten

ENOUGH: Final = 20
"""Cells that a definition takes at least to say anything."""
JUDGE_WIDTH: Final = 24
"""Cells of a judge's name at most."""
_LISTED: Final = 4
"""So many turns at most are named."""


def metric_behind(info: BenchmarkInfo | None, dialogue: Dialogue) -> Metric | None:
    """What a conversation of this benchmark is judged by; None where that is not known."""
    metric_id = metric_of(dialogue.shown.key.scenario_id)
    return None if info is None else info.metrics.get(metric_id, dialogue.metric)


def metric_in(watch: Watch, benchmark: str, scenario_id: str) -> Metric | None:
    """What conversations of a scenario are judged by; None where that is not known. Raises
    `StoreError`."""
    metric_id = metric_of(scenario_id)
    info = next((one for one in watch.benchmarks if one.name == benchmark), None)
    if info is not None and metric_id in info.metrics:
        return info.metrics[metric_id]
    written = (metric for metric, _, _ in watch.reader.metrics(benchmark))
    return next((metric for metric in written if metric.id == metric_id), None)


def measured(
    info: BenchmarkInfo | None, dialogue: Dialogue | None, jury: Jury | None, width: int
) -> tuple[Line, Line]:
    """Both ends of the line below a conversation's id, in so many cells: what it is judged by and
    whether that is wanted; where it was shown, and as whom the person speaks."""
    metric = None if dialogue is None else metric_behind(info, dialogue)
    if dialogue is None or metric is None:
        return (), ()
    who = {} if dialogue.scenario is None else dialogue.scenario.demographic
    notes = [shown_words(dialogue.verdicts, jury), group_words(who)]
    left, right = metric_line(metric, notes, width - 2)
    return [Piece("  "), *left], right


def metric_line(metric: Metric | None, notes: Sequence[str], width: int) -> tuple[Line, Line]:
    """Both ends of a line of so many cells about a metric: its direction, its name, and the
    beginning of its definition; and these notes, of which the last ones give way first."""
    if metric is None:
        return (), ()
    left = [
        Piece(f" {TRACK_SIGNS[metric.track]} ", Ink.MUTED),
        Piece(one_line(metric.name), Ink.STRONG),
    ]
    told = [note for note in notes if note]
    while told and length(left) + length(right := _notes(told)) > width:
        told.pop()
    right = _notes(told)
    room = width - length([*left, *right]) - 3
    if room > ENOUGH:
        left.append(Piece(f"  {shorten(one_line(metric.definition), room)}", Ink.FAINT))
    return left, right


def _notes(told: Sequence[str]) -> Line:
    return [Piece(f"  {'  '.join(told)} ", Ink.MUTED)] if told else ()


def group_words(who: Mapping[str, str]) -> str:
    """`younger · woman`: as whom the person speaks; nothing for nobody in particular."""
    return " · ".join(one_line(str(value)) for value in who.values())


def votes_line(verdicts: Sequence[Verdict], jury: Jury | None) -> Line:
    """`✗ fail  evaluator counts · 1 other says ✓`: what counts, and where there is more than one
    verdict, whose it is and what the others say."""
    passed = what_counts(verdicts, jury)
    line = [Piece(verdict(passed), VERDICT_INKS[passed])]
    stand = newest(verdicts)
    if len(stand) < 2:
        return line
    counted = counting(verdicts, jury)
    seqs = {vote.seq for vote in counted}
    others = [vote for vote in stand if vote.passed is not None and vote.seq not in seqs]
    words = [
        _counted_words(counted, passed, why_unscored(verdicts, jury)),
        _others_words([vote for vote in others if vote.source != HUMAN], "other", "others"),
        _others_words([vote for vote in others if vote.source == HUMAN], "person", "people"),
    ]
    return [*line, Piece("   " + " · ".join(filter(None, words)), Ink.MUTED)]


def _counted_words(votes: Sequence[Verdict], passed: bool | None, why: str | None) -> str:  # noqa: FBT001  (a verdict, not a switch)
    if why is not None:
        return why
    if len(votes) == 1:
        return f"{shorten(one_line(votes[0].judge), JUDGE_WIDTH)} counts"
    return f"{[vote.passed for vote in votes].count(passed)} of {len(votes)} votes"


def _others_words(votes: Sequence[Verdict], one: str, many: str) -> str:
    """`1 other says ✓`, `3 people: 1 ✓ 2 ✗`; nothing where there are none."""
    signs = Counter(verdict(vote.passed)[0] for vote in votes)
    if not signs:
        return ""
    who = plural(len(votes), one, many)
    if len(signs) == 1:
        return f"{who} {'says' if len(votes) == 1 else 'say'} {next(iter(signs))}"
    return f"{who}: " + " ".join(f"{signs[sign]} {sign}" for sign in "✓✗" if sign in signs)


def shown_words(verdicts: Sequence[Verdict], jury: Jury | None) -> str:
    """`shown in turn 4`, by the verdict that stands for what counts; nothing where the behaviour is
    absent, or nobody says where it is."""
    told = verdict_to_show(verdicts, jury)
    if told is None or told.passed is None or not told.present:
        return ""
    turns = sorted({quote.turn for quote in told.quotes if quote.turn is not None})
    turns = turns or [turn for turn, mark in enumerate(told.marks or (), 1) if mark]
    if not turns:
        return ""
    if len(turns) > _LISTED:
        return f"shown in {len(turns)} turns"
    *first, last = map(str, turns)
    return f"shown in turns {', '.join(first)} and {last}" if first else f"shown in turn {last}"
