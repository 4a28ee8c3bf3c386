"""Progress as plain lines, for a log or a simple terminal, or as bars; and a line for each kind of
failure."""

from __future__ import annotations

import re
import time
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

from engine.benchmark import Stage, State
from engine.cli.console import tell
from engine.display import one_line, plural
from engine.facts import Fact, NoteKind, StateChanged
from engine.pipeline.remedies import (
    FailureGroup,
    KnownFailure,
    failed_model,
    failure_kind,
    may_pass,
)
from engine.progress import Progress, StateCounts, TargetProgress
from engine.watch import Watch

if TYPE_CHECKING:
    from rich import progress as rich_progress


LINE_SECONDS: Final = 5.0
_OF_PRICE: Final = ("this run is likely to cost more", "`run.budget`", "`workspace_budget`")


class LinePrinter:
    """Prints one line for each stage that changed, every `LINE_SECONDS` and at the end."""

    def __init__(self) -> None:
        self._began = time.monotonic()
        self._shown = 0.0
        self._last: dict[tuple[str, Stage], str] = {}

    def aside(self) -> AbstractContextManager[None]:
        return nullcontext()

    def show(self, watch: Watch, *, last: bool = False) -> None:
        now = time.monotonic()
        if not last and now - self._shown < LINE_SECONDS:
            return
        self._shown = now
        turns = {info.name: info.turns for info in watch.benchmarks}
        for name, stage in list(watch.progress.stages):
            if name not in turns or (name, stage) not in watch.progress.begun:
                continue
            line = stage_line(watch.progress, name, stage, turns[name])
            if line is not None and self._last.get((name, stage)) != line:
                self._last[name, stage] = line
                tell(f"[{_clock_text(now - self._began)}] {line}")


def price_stop(progress: Progress) -> str | None:
    """Why the last run stopped, if its price was the reason."""
    sentence = None
    for note in progress.notes:
        if note.kind is NoteKind.RUN_STARTED:
            sentence = None
        elif note.kind is NoteKind.WARNING and note.text.startswith(_OF_PRICE):
            sentence = note.text
    return sentence


def budget_to_raise(progress: Progress) -> str | None:
    """The key of the budget without which the next run would stop at once like the last one."""
    reason = price_stop(progress) or ""
    # each run has a `run.budget` of its own: it stops the next one only where no call fits into it
    keys = ("workspace_budget", *(("run.budget",) if _NOTHING_SPENT in reason else ()))
    return next((key for key in keys if reason.startswith(f"`{key}`")), None)


_NOTHING_SPENT: Final = "$0.0000 are spent"


def stopped_line(progress: Progress, command: str = "crosswind run") -> str:
    """That a run was stopped, and how it goes on."""
    key = budget_to_raise(progress)
    how = "; " if key is None else f" by `{key}`: raise it in config.yaml, then "
    return f"stopped before the end{how}`{command}` goes on from here"


NOT_REDONE: Final = (
    "`crosswind run` does what is missing; what has a result already is not asked for any more"
)
"""What becomes of a request to do again what there is, where it was stopped."""

_COUNTED: Final = {Stage.GEN_SCENARIOS: " metrics and variants"}
"""The rows that a stage counts, where that is not obvious: here one row is all base scenarios of a
metric, or one variant."""


def stage_line(progress: Progress, name: str, stage: Stage, turns: int) -> str | None:
    """`sycophancy simulate 24/64 · a 8/32 · b 16/32 · 1 failed · 3.2/s · 00:12 left`; None where
    there was nothing to do."""
    tally = progress.stages[name, stage]
    if not tally.total:
        return None
    parts = [f"{name} {stage} {tally.settled}/{tally.total}{_COUNTED.get(stage, '')}"]
    rate, left = 0.0, 0.0
    if stage in {Stage.SIMULATE, Stage.EVALUATE}:
        for target, target_progress in progress.targets_of(name).items():
            mine = tally_of(target_progress, stage)
            parts.append(f"{target} {mine.settled}/{mine.total}")
            if stage is Stage.SIMULATE:
                rate += target_progress.settled.per_second(datetime.now(UTC))
                mine_left = target_progress.time_left(datetime.now(UTC), turns)
                # targets run side by side: the slowest one decides when all are done
                left = max(left, 0.0 if mine_left is None else mine_left.likely)
    parts.append(f"{tally.failed} failed")
    if tally.settled < tally.total and rate:
        parts.append(f"{rate:.1f}/s")
        parts += [f"{_clock_text(left)} left"] if left else []
    return " · ".join(parts)


def tally_of(target: TargetProgress, stage: Stage) -> StateCounts:
    return target.simulate if stage is Stage.SIMULATE else target.evaluate


def _clock_text(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{rest:02d}" if hours else f"{minutes:02d}:{rest:02d}"


NAMED: Final = 3
"""Ids that a line names."""
NAMED_FOR_SCRIPTS: Final = 100
REASON: Final = 200
"""Characters of a reason that a line shows."""


def failed_rows(number: int) -> str:
    return f"{plural(number, 'row')} failed"


def count_of(groups: Sequence[FailureGroup]) -> int:
    return sum(len(group.units) for group in groups)


def failure_lines(groups: Sequence[FailureGroup]) -> Iterator[str]:
    """`3 rows failed: the provider refuses the key … (a, b and 1 more): 401: …. Mend …`."""
    for group in groups:
        names = _some([unit.unit for unit in group.units])
        yield (
            f"{failed_rows(len(group.units))}: {group.kind.name_in_words} ({names}): "
            f"{_reasons(group)} {group.kind.advice}"
        )


def _some(names: Sequence[str]) -> str:
    """`a, b, c and 2 more`."""
    shown = ", ".join(one_line(name) for name in names[:NAMED])
    return f"{shown} and {len(names) - NAMED} more" if len(names) > NAMED else shown


def _reasons(group: FailureGroup) -> str:
    """The newest reason of each model; models that fail alike share one."""
    if len(group.models) == 1:
        return _reason(group.units[-1].reason or "")
    alike: dict[str, list[str]] = {}
    for model, units in group.models.items():
        reason = _OF_MODEL.sub("", (units[-1].reason or "").removeprefix(f"{model}: "))
        alike.setdefault(reason, []).append(model)
    shown = list(alike.items())[:NAMED]
    parts = [
        _reason(f"{whose}: {reason}" if (whose := _some(list(filter(None, models)))) else reason)
        for reason, models in shown
    ]
    rest = len(alike) - len(shown)
    parts += [f"and {plural(rest, 'other reason')}."] if rest else []
    return "; ".join([*(part.removesuffix(".") for part in parts[:-1]), parts[-1]])


def what_next(groups: Sequence[FailureGroup], command: str) -> str:
    """How many rows another try may mend as things are, and that the others need a change."""
    total = count_of(groups)
    passing = may_pass(groups)
    if passing == total:
        return f"`{command}` tries {'it' if total == 1 else 'them'} again"
    if not passing:
        they = "it is" if total == 1 else "they are"
        return f"change what is named there, then `{command}`: else {they} likely to fail again"
    rest = total - passing
    others = "the other one is" if rest == 1 else f"the other {rest} are"
    return (
        f"`{command}` may mend {passing} of these {total} rows as things are; {others} likely to "
        "fail again until what is named there is changed"
    )


def tell_failures(groups: Sequence[FailureGroup]) -> None:
    """Print what failed, and what another `crosswind run` would do about it."""
    for line in failure_lines(groups):
        tell(line)
    if groups:
        tell(what_next(groups, "crosswind run"))


def failures_json(groups: Sequence[FailureGroup]) -> list[dict[str, Any]]:
    """For JSON: each kind of failure with its count, first ids and remedy."""
    return [
        {
            "kind": group.kind.name.lower(),
            "count": len(group.units),
            "what": group.kind.name_in_words,
            "reason": group.units[-1].reason or "",
            "models": {
                model: {"count": len(units), "reason": units[-1].reason or ""}
                for model, units in group.models.items()
            },
            "rows": [
                {"benchmark": unit.benchmark, "stage": unit.stage, "id": unit.unit}
                for unit in group.units[:NAMED_FOR_SCRIPTS]
            ],
            "remedy": group.kind.advice,
            "may_pass_unchanged": group.kind.can_pass,
        }
        for group in groups
    ]


class FailureNews:
    """Reports each kind of failure at its 1st, 10th, 100th … row and for its first `NAMED` models,
    so that a run in which all fails does not fill the terminal."""

    def __init__(self) -> None:
        self._counts: Counter[KnownFailure] = Counter()
        self._models: defaultdict[KnownFailure, set[str]] = defaultdict(set)

    def hear(self, fact: Fact) -> str | None:
        if not isinstance(fact, StateChanged) or fact.state is not State.FAILED:
            return None
        kind = failure_kind(fact.reason or "")
        self._counts[kind] += 1
        number, models = self._counts[kind], self._models[kind]
        model = failed_model(fact.reason or "")
        is_new = model not in models and len(models) < NAMED
        models.add(model)
        unit, reason = one_line(fact.unit), _reason(fact.reason or "")
        if number == 1:
            return f"{unit} failed: {kind.name_in_words}: {reason} {kind.advice}"
        if number in _TOLD_AT:
            return f"{failed_rows(number)} by now: {kind.name_in_words}"
        return f"{unit} failed likewise: {reason}" if is_new else None


_OF_MODEL: Final = re.compile(r" ?\(parked[^()]{0,300}\)")
"""What a reason says of its model alone."""
_TOLD_AT: Final = frozenset(10**power for power in range(9))


def _reason(reason: str) -> str:
    text = one_line(reason, REASON) or "no reason was kept"
    if len(reason) > REASON:
        return f"{text}…"
    return text if text.endswith((".", "…")) else f"{text}."


def waiting_sentence(benchmark: str, waiting: Sequence[str]) -> str:
    """About ids that a person must approve before anything follows from them."""
    rows = plural(len(waiting), "row")
    verb = "waits" if len(waiting) == 1 else "wait"
    return (
        f"{rows} {verb} for approval (`review: required`), as does all that follows from them; "
        f"`crosswind review {benchmark}` lists them"
    )


def rejected_sentence(benchmark: str) -> str:
    """About a benchmark whose metrics are all rejected."""
    return (
        f"every metric of {benchmark} is rejected, so nothing follows: `crosswind review "
        f"{benchmark} --approve ID` brings one back, `crosswind run {benchmark} --force --stage "
        "gen_metrics` has others written"
    )


class BarPrinter:
    """Draws one bar for each stage, and below it one for each target."""

    def __init__(self, progress: rich_progress.Progress) -> None:
        self._progress = progress
        self._tasks: dict[tuple[str, Stage, str | None], rich_progress.TaskID] = {}

    def show(self, watch: Watch, *, last: bool = False) -> None:
        for (name, stage), tally in list(watch.progress.stages.items()):
            if name != watch.progress.benchmark:
                self._hide(name)
                continue
            if (name, stage) not in watch.progress.begun:
                continue
            self._update(name, stage, None, tally)
            if stage in {Stage.SIMULATE, Stage.EVALUATE}:
                for target, target_progress in watch.progress.targets_of(name).items():
                    self._update(name, stage, target, tally_of(target_progress, stage))
        if last:
            self._progress.refresh()

    @contextmanager
    def aside(self) -> Iterator[None]:
        self._progress.stop()
        try:
            yield
        finally:
            self._progress.start()

    def _hide(self, name: str) -> None:
        """Remove the bars of a benchmark that is over, to make room for the next."""
        for key in [key for key in self._tasks if key[0] == name]:
            self._progress.remove_task(self._tasks.pop(key))

    def _update(self, name: str, stage: Stage, target: str | None, tally: StateCounts) -> None:
        if not tally.total:
            return
        key = (name, stage, target)
        if key not in self._tasks:
            label = one_line(f"{name} {stage}") if target is None else f"  {one_line(target)}"
            self._tasks[key] = self._progress.add_task(label, total=tally.total, failed="")
        failed = f"{tally.failed} failed" if tally.failed else ""
        self._progress.update(
            self._tasks[key], total=tally.total, completed=tally.settled, failed=failed
        )


def _progress(*, of_bytes: bool) -> rich_progress.Progress:
    """Bars that count bytes and vanish at the end, or rows, with those that failed."""
    # 23 ms to load rich, only where there are bars to draw
    from rich import console, progress

    return progress.Progress(
        progress.TextColumn("{task.description}", markup=False),
        progress.BarColumn(bar_width=30),
        progress.DownloadColumn() if of_bytes else progress.MofNCompleteColumn(),
        progress.TimeRemainingColumn(),
        *([] if of_bytes else [progress.TextColumn("{task.fields[failed]}", markup=False)]),
        console=console.Console(stderr=True, markup=False, highlight=False),
        refresh_per_second=5,
        transient=of_bytes,
    )


@contextmanager
def bars() -> Iterator[BarPrinter]:
    with _progress(of_bytes=False) as progress:
        yield BarPrinter(progress)


class ImportBar:
    """Draws one bar, for the benchmark that is being read."""

    def __init__(self, progress: rich_progress.Progress) -> None:
        self._progress = progress
        self._task: rich_progress.TaskID | None = None

    def begin(self, benchmark: str, size: int) -> None:
        if self._task is not None:
            self._progress.remove_task(self._task)
        self._task = self._progress.add_task(one_line(benchmark), total=size)

    def read(self, size: int) -> None:
        """Advance by `size` bytes. Safe to call from any thread."""
        if self._task is not None:
            self._progress.advance(self._task, size)


@contextmanager
def import_bar() -> Iterator[ImportBar]:
    with _progress(of_bytes=True) as progress:
        yield ImportBar(progress)
