"""The headline of a conversation: what it is judged by, and which verdict counts."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from rich.cells import cell_len

from engine.benchmark import Metric, metric_of
from engine.display import one_line, plural
from engine.jury import (
    HUMAN,
    Jury,
    counting_votes,
    headline,
    newest_votes,
    verdict_to_show,
    what_counts,
    why_unscored,
)
from engine.store.tables import Verdict
from engine.watch import BenchmarkInfo, Watch
from tui.format import TRACK_SIGNS, verdict
from tui.state.transcript import Dialogue
from tui.text.ink import (
    VERDICT_INKS,
    Ink,
    Line,
    Piece,
    length,
    shorten,
)

ENOUGH: Final = 20
"""The fewest cells in which a definition is useful."""
JUDGE_WIDTH: Final = 24
"""The most cells of a judge's name."""
_LISTED: Final = 4
"""The most turns that are named."""


def metric_behind(info: BenchmarkInfo | None, dialogue: Dialogue) -> Metric | None:
    """The metric of a conversation; None if unknown."""
    metric_id = metric_of(dialogue.shown.key.scenario_id)
    return None if info is None else info.metrics.get(metric_id, dialogue.metric)


def info_of(watch: Watch, benchmark: str) -> BenchmarkInfo | None:
    """The benchmark of this name; None if there is none."""
    return next((info for info in watch.benchmarks if info.name == benchmark), None)


def elsewhere_words(benchmark: str, current: str) -> Line:
    """`of own-judgement` behind a conversation of another benchmark than the `current` one, which
    may have one of the same id; nothing of the current one."""
    return () if benchmark == current else [Piece(f"  of {one_line(benchmark)}", Ink.WARN)]


def metric_in(watch: Watch, benchmark: str, scenario_id: str) -> Metric | None:
    """The metric of a scenario; None if unknown. Raises `StoreError`."""
    metric_id = metric_of(scenario_id)
    info = info_of(watch, benchmark)
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
    notes = [shown_words(dialogue.verdicts, jury)]
    left, right = metric_line(metric, notes, width - 2, group_words(who))
    return [Piece("  "), *left], right


def metric_line(
    metric: Metric | None,
    notes: Sequence[str],
    width: int,
    group: str = "",
) -> tuple[Line, Line]:
    """Both ends of a line of so many cells about a metric: its direction, its name, and the
    beginning of its definition; and these notes and the person's group, of which the last ones give
    way first."""
    if metric is None:
        return (), ()
    left = [
        Piece(f" {TRACK_SIGNS[metric.track]} ", Ink.MUTED),
        Piece(one_line(metric.name), Ink.STRONG),
    ]
    right = _fitting_notes([*notes, group], width - length(left))
    room = width - length([*left, *right]) - 3
    if room > ENOUGH:
        left.append(Piece(f"  {shorten(one_line(metric.definition), room)}", Ink.FAINT))
    return left, right


def _fitting_notes(notes: Sequence[str], room: int) -> Line:
    """As many notes as fit whole: cut, a group might look like another."""
    words = ""
    for note in filter(None, notes):
        if cell_len(words) + cell_len(note) + 4 > room:
            break
        words += f"  {note}"
    return [Piece(f"{words} ", Ink.MUTED)] if words else ()


def group_words(who: Mapping[str, str]) -> str:
    """`younger · woman`: as whom the person speaks; nothing for nobody in particular."""
    return " · ".join(one_line(str(value)) for value in who.values())


def votes_line(verdicts: Sequence[Verdict], jury: Jury | None) -> Line:
    """`✗ fail   evaluator counts · 1 other says ✓`."""
    passed = what_counts(verdicts, jury)
    words = votes_words(verdicts, jury)
    line = [Piece(verdict(passed), VERDICT_INKS[passed])]
    return [*line, Piece(f"   {words}", Ink.MUTED)] if words else line


def votes_words(verdicts: Sequence[Verdict], jury: Jury | None) -> str:
    """`evaluator counts · once more ✓ · 1 other says ✗`: of several verdicts whose it is that
    counts, what the same judges said once more, and what other judges and people say; nothing of a
    single one."""
    stand = newest_votes(verdicts)
    if len(stand) < 2:
        return ""
    counted = counting_votes(verdicts, jury)
    seqs = {vote.seq for vote in counted}
    others = [vote for vote in stand if vote.passed is not None and vote.seq not in seqs]
    people = {vote.judge: vote.passed for vote in others if vote.source == HUMAN}
    models = [vote for vote in others if vote.source != HUMAN]
    repeats = [vote for vote in models if jury is not None and jury.repeats(vote)]
    judges = defaultdict[str, list[bool | None]](list)
    for vote in models:
        if vote not in repeats:
            judges[vote.judge].append(vote.passed)
    words = [
        _counted_words(counted, why_unscored(verdicts, jury)),
        "once more " + _signs(vote.passed for vote in repeats) if repeats else "",
        _others_words([headline(passes) for passes in judges.values()], "other", "others"),
        _others_words([*people.values()], "person", "people"),
    ]
    return " · ".join(filter(None, words))


def _counted_words(votes: Sequence[Verdict], why_none: str | None) -> str:
    if why_none is not None:
        return why_none
    if len(votes) == 1:
        return f"{shorten(one_line(votes[0].judge), JUDGE_WIDTH)} counts"
    (_, agree), *_ = Counter(vote.passed for vote in votes).most_common(1)
    return f"{agree} of {len(votes)} votes"


def _others_words(answers: Sequence[bool | None], singular: str, many: str) -> str:
    """`1 other says ✓`, `3 people: 1 ✓ 2 ✗`; nothing where there are none."""
    if not answers:
        return ""
    says = ":" if len(set(answers)) > 1 else " says" if len(answers) == 1 else " say"
    return f"{plural(len(answers), singular, many)}{says} {_signs(answers)}"


def _signs(answers: Iterable[bool | None]) -> str:
    """`✓` if they all say so, else `1 ✓ 2 ✗`."""
    signs = Counter(verdict(passed)[0] for passed in answers)
    if len(signs) == 1:
        return next(iter(signs))
    return " ".join(f"{signs[sign]} {sign}" for sign in "✓✗·" if sign in signs)


def shown_words(verdicts: Sequence[Verdict], jury: Jury | None) -> str:
    """`shown in turn 4`, by the verdict that stands for what counts; nothing where the behaviour is
    absent, or nobody says where it is."""
    shown = verdict_to_show(verdicts, jury)
    if shown is None or shown.passed is None or not shown.present:
        return ""
    quoted = sorted({quote.turn for quote in shown.quotes if quote.turn is not None})
    turns = [turn for turn, mark in enumerate(shown.marks or (), 1) if mark] or quoted
    if not turns:
        return ""
    if len(turns) > _LISTED:
        return f"shown in {len(turns)} turns"
    if len(turns) > 2 and turns[-1] - turns[0] == len(turns) - 1:
        return f"shown in turns {turns[0]} to {turns[-1]}"
    *first, last = map(str, turns)
    return f"shown in turns {', '.join(first)} and {last}" if first else f"shown in turn {last}"
