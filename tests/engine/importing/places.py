"""Workspaces that scripted models can run in, and all that a store of one says."""

from __future__ import annotations

from collections import Counter
from contextlib import closing
from pathlib import Path
from typing import Any

from engine.benchmark import Stage
from engine.store.open_reader import open_reader
from engine.store.tables import MessageRow, StoredTake, Verdict
from tests.engine import small_workspace
from tests.engine.small_workspace import Place

CONFIG = small_workspace.CONFIG.replace("turns: 2", "turns: 3") + "perfunctory: true\n"


def make_place(root: Path) -> Place:
    return small_workspace.small_workspace(root, CONFIG)


def mirrored_files(place: Place) -> dict[str, bytes]:
    """By their path in the workspace."""
    return {
        path.relative_to(place.root).as_posix(): path.read_bytes()
        for path in sorted((place.root / "benchmarks").rglob("*.json"))
    }


def everything(place: Place, benchmark: str = "giving-in") -> dict[str, Any]:
    """All that a store says, but for what a file cannot: when, in which order, by how many calls,
    and from which fingerprint."""
    with closing(open_reader(place.store)) as reader:
        takes = reader.takes(benchmark)
        said = reader.messages_of(take.seq for take in takes)
        judged = reader.verdicts_of(take.seq for take in takes)
        checked = reader.checks_of(take.seq for take in takes)
        progress = reader.snapshot()
        return {
            "scenarios": {
                row.scenario.id: (row.scenario, row.source) for row in reader.scenarios(benchmark)
            },
            "takes": sorted(map(_take, takes)),
            "said": {_name(take): list(map(_message, said[take.seq])) for take in takes},
            "checked": {
                _name(take): sorted(
                    (one.kind, one.model, str(one.answers)) for one in checked[take.seq]
                )
                for take in takes
                if checked[take.seq]
            },
            "judged": {
                _name(take): list(map(_verdict, judged[take.seq]))
                for take in takes
                if judged[take.seq]
            },
            "counts": {
                target: (one.scores, one.usage.input_tokens, one.usage.output_tokens)
                for target, one in progress.targets_of(benchmark).items()
            },
            "states": {
                stage.value: Counter(
                    (row.unit, row.target, row.state.value)
                    for row in reader.units(benchmark, stage).values()
                )
                for stage in Stage
            },
        }


def _name(take: StoredTake) -> str:
    return f"{take.key} {take.number}"


def _take(take: StoredTake) -> tuple[object, ...]:
    ended = None if take.stop_reason is None else take.stop_reason.value
    return (_name(take), take.user_model, take.model, take.scripted, str(ended), take.finished)


def _message(one: MessageRow) -> tuple[object, ...]:
    return (
        *(one.turn, one.speaker.value, one.text, one.thought, one.landmark, one.done),
        *(one.finish, one.reasoning),
    )


def _verdict(one: Verdict) -> tuple[object, ...]:
    return (
        *(one.metric_id, one.track.value, one.judge, one.source, one.number, one.present),
        *(one.passed, one.unscored, one.justification, one.quotes),
    )
