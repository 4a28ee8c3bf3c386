"""What all rows up to some moment add up to, kept in the store so that nobody adds them up again: a
watcher who comes takes it and adds what was written since.

It is no fact: where it is missing or cannot be read, everything is added up. Nothing that is pruned
changes it: sums are of what counts.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import astuple
from typing import Any

from engine.benchmark import MOST_TOKENS, Stage, Track, Usage
from engine.progress import Progress, Score, Tally, TargetProgress
from engine.store.connection import Connection
from engine.store.parsing import UNREADABLE

KEEP = "INSERT OR REPLACE INTO summary (one, seq, progress) VALUES (1, ?, ?)"


def kept_summary(connection: Connection, last: int) -> Progress:
    """The sums that were kept; of nothing where none were, or where they hold more than is to be
    seen, whose last row is `last`."""
    # as bytes: of text that is damaged SQLite would tell no more than that
    row = connection.first(
        "SELECT seq, CAST(progress AS BLOB) AS progress FROM summary WHERE seq <= ?", (last,)
    )
    try:
        kept = Progress() if row is None else _parsed(row["seq"], json.loads(row["progress"]))
        return kept if all(map(_is_plausible, kept.targets.values())) else Progress()
    except UNREADABLE:
        return Progress()


def _is_plausible(target: TargetProgress) -> bool:
    """Whether it was added up of what can be: versions that did not look kept anything."""
    used = target.usage
    tokens = max(used.input_tokens or 0, used.output_tokens or 0)
    return tokens <= MOST_TOKENS * max(used.calls, 1)


def summary_row(progress: Progress) -> tuple[int, str]:
    """The sums as they are kept: `seq`, and text for `kept_summary`."""
    stages = [
        [benchmark, stage.value, *astuple(tally)]
        for (benchmark, stage), tally in progress.stages.items()
    ]
    targets = [[*name, *_of_target(target)] for name, target in progress.targets.items()]
    text = json.dumps({"stages": stages, "targets": targets}, separators=(",", ":"))
    return progress.seq, text


def _of_target(target: TargetProgress) -> Sequence[Any]:
    used = target.usage
    return (
        astuple(target.simulate),
        astuple(target.evaluate),
        {track.value: astuple(score) for track, score in target.scores.items()},
        (used.calls, used.input_tokens, used.output_tokens, used.cost_usd),
        target.last_problem,
        target.replies,
        target.others,
    )


def _parsed(seq: int, kept: dict[str, Any]) -> Progress:
    progress = Progress(seq=seq)
    for benchmark, stage, *counts in kept["stages"]:
        progress.stages[benchmark, Stage(stage)] = Tally(*counts)
    for benchmark, name, simulate, evaluate, scores, used, problem, *more in kept["targets"]:
        replies, others = more or (0, {})
        calls, input_tokens, output_tokens, cost = used
        progress.targets[benchmark, name] = TargetProgress(
            simulate=Tally(*simulate),
            evaluate=Tally(*evaluate),
            scores={Track(track): Score(*score) for track, score in scores.items()},
            usage=Usage(calls, input_tokens, 0, output_tokens, cost),
            last_problem=problem,
            replies=replies,
            others=others,
        )
    return progress
