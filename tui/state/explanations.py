"""The text of the conversation pane when there is no conversation to show, and the stamp at the end
of a conversation."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import chain, repeat
from typing import TYPE_CHECKING, Final

from engine.benchmark import Metric, Stage, When
from engine.cli.lines import price_stop
from engine.display import display_text, one_line, percent, plural
from engine.facts import Writing
from engine.jury import TIED, Jury, counting_votes, verdict_to_show, what_counts
from engine.link import Board
from engine.progress import Progress
from engine.store.tables import Verdict
from engine.watch import BenchmarkInfo, Watch
from tui.format import TRACK_SIGNS, verdict
from tui.state.benchmark_summary import newest_failure, weakest_metric
from tui.state.related import TakeRef
from tui.state.run_status import RunPhase, RunStatus
from tui.state.transcript import Dialogue, quote_block
from tui.text.blocks import Block, Passage, Rule
from tui.text.ink import VERDICT_INKS, Ink, Line, Piece, pad

if TYPE_CHECKING:
    from engine.pipeline.scores import ScoreCounts

_TEXTS: Final = {
    RunPhase.NOTHING: "No engine is at work here, and nothing of this benchmark was played. A run "
    "fills this screen.",
    RunPhase.IMPORTED: "No run has been here: what there is was taken from files.",
    RunPhase.CUT_OFF: "The run broke off before its end, and no engine is at work: it was killed, "
    "its machine went down, or its disk was full. P starts another one, which goes on from there.",
    RunPhase.LOST: "The engine ended without a word: it was killed, or its machine went down. P "
    "starts another one, which goes on from there.",
    RunPhase.STARTING: "The engine reads the benchmark and finds out what is missing.",
    RunPhase.METRICS: "A model writes the metrics: what good and bad behaviour would look like, "
    "one yes/no question each.",
    RunPhase.SCENARIOS: "A model writes the scenarios: a persona, what it openly wants, what it is "
    "really after (its hidden goal), and the landmarks.",
    RunPhase.RUNNING: "No conversation is being played at this moment.",
    RunPhase.ADDING_UP: "All conversations are played and judged; the results are being added up.",
    RunPhase.PAUSED: "Nothing new begins until P resumes it.",
    RunPhase.DRAINING: "What is being spoken is finished, and nothing new begins.",
    RunPhase.STOPPED: "The run was stopped before its end. Nothing is lost: P goes on from here.",
    RunPhase.FAILED: "The engine came to a halt. What it had stored is safe, and P goes on from "
    "there.",
}
_BROKEN_OFF: Final = {RunPhase.LOST, RunPhase.CUT_OFF}
_WRITING: Final = {RunPhase.METRICS, RunPhase.SCENARIOS}


def explain(
    status: RunStatus,
    watch: Watch,
    info: BenchmarkInfo | None,
    scores: ScoreCounts | None = None,
    *,
    tiny: bool = False,
    board: Board | None = None,
) -> list[Block]:
    """The pane's text in place of a conversation. It does not repeat what is above it: the progress
    of the run and of each target. At the end of a run, `scores` tell which metric is weakest.
    In a `tiny` terminal it starts at the top, and has no room for that."""
    top = [] if tiny else [Passage("top", "", "", close=True)]
    if info is None:
        return [*top, _passage_of("nothing", "There is no benchmark to show.")]
    if status.phase is RunPhase.ENDED:
        steps = _next_steps(status, watch, labelled=not tiny)
        if tiny or scores is None:
            return [*top, *steps]
        return [*top, *_weakest_blocks(scores, info), *steps]
    text = _TEXTS[status.phase]
    if status.phase in _WRITING:
        text += f" {_then(board)}"
    blocks: list[Block] = [*top, _passage_of("text", text)]
    if status.problem is not None:
        blocks.append(
            Passage("problem", "problem", display_text(status.problem), Ink.BAD, Ink.STRONG)
        )
    if status.phase is RunPhase.STOPPED and (why := price_stop(watch.progress)) is not None:
        blocks.append(Passage("why", "why", display_text(why), Ink.WARN))
    if status.phase in _BROKEN_OFF:
        blocks += _kept_blocks(watch, info)
    if status.phase in {RunPhase.IMPORTED, RunPhase.STOPPED, RunPhase.FAILED, *_BROKEN_OFF}:
        blocks += _next_steps(status, watch)
    return blocks


def nobody_speaks(status: RunStatus) -> list[Block]:
    """The wall's text while it has no conversation to show."""
    text = _TEXTS.get(status.phase, "Every conversation has ended.")
    return [
        Passage("top", "", "", close=True),
        _passage_of("text", text),
        Passage("2", "", f"{pad('2', 5)}the run as a whole", close=True),
        Passage("3", "", f"{pad('3', 5)}every conversation that was judged", close=True),
    ]


def _passage_of(key: str, text: str) -> Passage:
    return Passage(key, "", text)


def _then(board: Board | None) -> str:
    """What follows the writing in this run."""
    stages = () if board is None else board.stages
    if not stages or Stage.SIMULATE in stages:
        return "Conversations begin as soon as they can."
    if Stage.GEN_SCENARIOS in stages:
        return "The run ends when the scenarios are written."
    return "The run ends when the metrics are written."


def writing_now(board: Board | None, benchmark: str) -> list[Writing]:
    """What models write right now: metrics, scenarios, and what judges say."""
    written = () if board is None else board.writing
    return [each for each in written if each.benchmark == benchmark]


def judging_blocks(board: Board | None, dialogue: Dialogue) -> list[Block]:
    """What a judge writes right now about a conversation that has ended."""
    if board is None or dialogue.take is None or dialogue.take.stop_reason is None:
        return []
    row = dialogue.shown.benchmark, Stage.EVALUATE, str(dialogue.shown.key)
    return [
        writing_block(each, "judge")
        for each in board.writing
        if (each.benchmark, each.stage, each.unit) == row
    ]


def writing_block(writing: Writing, label: str) -> Passage:
    """What a model writes right now."""
    key = ("writing", writing.stage, writing.unit)
    text = display_text(writing.text)
    return Passage(key, label, text, Ink.ACCENT, Ink.MUTED, gutter=Ink.ACCENT, growing=True)


def _kept_blocks(watch: Watch, info: BenchmarkInfo) -> list[Block]:
    """What is kept of an interrupted run, and how to continue it."""
    played = watch.progress.stage_tally(info.name, Stage.SIMULATE)
    kept = "Every message and verdict that was stored."
    if played.running:
        kept += (
            f" {plural(played.running, 'conversation')} in the middle: each goes on after its last "
            "whole message; only what was being said at that moment is said anew."
        )
    return [Passage("kept", "kept", kept, Ink.GOOD)]


def _weakest_blocks(scores: ScoreCounts, info: BenchmarkInfo) -> list[Block]:
    """How often the weakest metric passed over all targets, and with each where there are more; and
    its newest failure, which Enter opens, with what shows it."""
    weakest = weakest_metric(scores, info)
    if weakest is None:
        return []
    metric = weakest.metric
    rate = f"{percent(weakest.rate)} of {weakest.scored:,} pass"
    text = f"{rate}  {TRACK_SIGNS[metric.track]} {one_line(metric.name)}"
    blocks: list[Block] = [Passage("metric", "weakest", text, Ink.STRONG, close=True)]
    cells = [(target.id, (target.id, metric.track, metric.id)) for target in info.targets]
    passes = [
        f"{one_line(target)} {scores.passes[cell].passed:,}/{scores.passes[cell].scored:,}"
        for target, cell in cells
        if cell in scores.passes
    ]
    if len(passes) > 1:
        rates = one_line(", ".join(passes))
        blocks.append(Passage("metric of", "", rates, ink=Ink.MUTED, close=True))
    failure = newest_failure(scores, info, metric)
    if failure is None:
        return [*blocks, Passage("after metric", "", "", close=True)]
    name = f"{one_line(str(failure.key))}   Enter opens its evidence"
    blocks.append(Passage("failed", "failed", name, ink=Ink.BAD, close=True))
    quote = next((quote for quote in failure.quotes if quote.turn is not None), None)
    if quote is None or failure.quote is None:
        why = display_text(_because(failure.justification, metric.when))
        return [*blocks, Passage("why failed", "because", why)]
    return [*blocks, quote_block("why failed", quote)]


def _next_steps(status: RunStatus, watch: Watch, *, labelled: bool = True) -> list[Block]:
    """The next steps, each with its key."""
    any_verdict = any(
        score.scored
        for target in watch.progress.targets.values()
        for score in target.scores.values()
    )
    several = len(watch.benchmarks) > 1
    steps = []
    if any_verdict:
        whose = "each benchmark's" if several else "the"
        steps += [
            ("4", "what is significant, and what may be chance"),
            ("1 W", f"what failed of {whose} weakest metric"),
            ("Tab", "the verdicts; Enter reads one, evidence marked"),
        ]
    if status.failed:
        steps.append(("3 X", "what failed, why, and what to do"))
    steps.append(("", "Everything is stored: leave whenever you like."))
    labels = chain(["next"] if labelled else [], repeat(""))
    return [
        Passage(("next", keys), label, f"{pad(keys, 5)}{leads}", close=True)
        for label, (keys, leads) in zip(labels, steps, strict=False)
    ]


def awaits_verdict(dialogue: Dialogue, progress: Progress) -> bool:
    """Whether it has ended without a verdict and its target still has conversations to judge."""
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


def verdict_stamp(dialogue: Dialogue, jury: Jury | None, metric: Metric | None) -> list[Block]:
    """What counts, by which metric, and the quote that shows it or else the reason; nothing before
    there is a verdict. `metric` names it, where that is known."""
    shown = verdict_to_show(dialogue.verdicts, jury)
    if shown is None:
        return []
    passed = what_counts(dialogue.verdicts, jury)
    votes = [vote.passed for vote in counting_votes(dialogue.verdicts, jury)]
    name = shown.metric_id if metric is None or metric.id != shown.metric_id else metric.name
    title = f"{verdict(passed)}  {TRACK_SIGNS[shown.track]} {one_line(name)}"
    alone = passed is None or len(votes) == 1
    note = "" if alone else f"{votes.count(passed)} of {len(votes)} verdicts"
    return [Rule("stamp", title, note, VERDICT_INKS[passed]), _reason(shown, passed)]


def left_above(blocks: Sequence[Block], shown: TakeRef) -> list[Block]:
    """The previous conversation, dimmed, to stand above the one that is `shown` now until its words
    push it out of sight; the outcome keeps its colour."""
    begins = Rule("begins", one_line(str(shown.key)), ink=Ink.STRONG)
    return [*map(_dim, blocks), begins]


def _dim(block: Block) -> Block:
    key = ("left", block.key)
    if isinstance(block, Rule):
        return replace(block, key=key, ink=block.ink if block.key == "stamp" else Ink.FAINT)
    return replace(
        block,
        key=key,
        label_ink=Ink.FAINT,
        ink=Ink.FAINT,
        gutter=None if block.gutter is None else Ink.FAINT,
        light_markdown=False,
        marks=(),
        growing=False,
    )


def _reason(shown: Verdict, passed: bool | None) -> Passage:  # noqa: FBT001  (a verdict, not a switch)
    if passed is None:
        why = TIED if shown.unscored is None else shown.unscored
        return Passage("stamp reason", "unscored", display_text(why), Ink.WARN)
    # of behaviour that is absent, judges quote what comes nearest to it
    quote = next((quote for quote in shown.quotes if quote.turn is not None), None)
    if quote is not None and passed is shown.track.passes(present=True):
        return quote_block("stamp reason", quote)
    why = _because(shown.justification, shown.must_hold)
    return Passage("stamp reason", "because", display_text(why))


def _because(justification: str, when: When) -> str:
    """A judge's reason, with the rule that was applied to what the judge found."""
    given = justification.rstrip(".") if when.condition else justification
    return "; ".join(filter(None, (given, when.condition)))
