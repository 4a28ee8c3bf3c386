"""The files that make imported rows a benchmark of the workspace; none that is there is changed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from engine.benchmark import Metric
from engine.config.workspace import Workspace
from engine.errors import StoreError
from engine.regular import read_regular
from engine.store.database import Store
from engine.store.mirror import HISTORY, Mirror
from engine.store.reading import open_reader
from engine.store.replaced_file import NewFile, digest_on_disk

_DRAFT: Final = """\
# What was imported does not say what its metrics are: fill in what is marked with ???, save this
# file as benchmark.yaml, and import again. Until then no verdict on it counts.
name: {title}
description: ???
metrics:
{metrics}"""
_METRIC: Final = """\
  - id: {id}
    name: {name}
    type: ???   # positive: should be there; negative: should not
    definition: ???
"""


def place_definition(source: Path, place: Path) -> list[Path]:
    """A copy of theirs, which our reader has taken already."""
    return _placed(place, read_regular(source).decode("utf-8"))


def place_draft(place: Path, title: str, metrics: Mapping[str, str]) -> list[Path]:
    """What is known of a benchmark that nobody has defined, for a person to fill in."""
    draft = place.with_name(place.name + ".draft")
    if draft.exists() or place.exists() or not metrics:
        return []
    listed = "".join(
        _METRIC.format(id=name, name=_quoted(title)) for name, title in sorted(metrics.items())
    )
    return _placed(draft, _DRAFT.format(title=_quoted(title), metrics=listed))


def _placed(place: Path, text: str) -> list[Path]:
    try:
        place.parent.mkdir(parents=True, exist_ok=True)
        new = NewFile(place, [text])
        try:
            new.move(place)
        finally:
            new.discard()
    except OSError as error:
        raise StoreError(f"{place} could not be written: {error.strerror}") from error
    return [place]


def _quoted(text: str) -> str:
    escaped = " ".join(text.split()).replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


async def place_scenarios(
    workspace: Workspace, store: Store, name: str, metrics: Sequence[Metric]
) -> list[Path]:
    """`scenarios.json` as the store has it now, unless a person wrote the one that is there."""
    path = workspace.definition_path(name).with_name("scenarios.json")
    relative = path.relative_to(workspace.root).as_posix()
    with_store = open_reader(store.path)
    try:
        known, on_disk = with_store.mirrored(relative), digest_on_disk(path)
        if on_disk is not None and (known is None or known.digest != on_disk):
            return []
        mirror = Mirror(workspace.root, with_store)
        report = mirror.write_benchmark(name, metrics=metrics, targets=[], results=None)
        await store.set_mirrored(report.digests, through=report.through)
        mirror.settle(name)
    finally:
        with_store.close()
    places = (workspace.root / one for one in report.written)
    return [place for place in places if place.name != HISTORY]
