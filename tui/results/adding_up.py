"""From the store as it is now to a report of a benchmark."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

from engine.branches import Branch
from engine.config.definition import load_definition
from engine.config.settings import Config
from engine.config.workspace import Workspace
from engine.errors import CrosswindError
from engine.pipeline.branching import config_of
from engine.pipeline.results import analysis_of
from engine.pipeline.validation import report_of, validations
from engine.store.database import open_reader
from engine.store.reader import Reader
from tui.results.report import Report, Validated


def added_up(workspace: Workspace, config: Config, store: Path, benchmark: str) -> Report:
    """Takes up to seconds, and a reader of its own, so that nobody waits for it.

    Raises `CrosswindError`.
    """
    definition = load_definition(workspace.definition_path(benchmark))
    with closing(open_reader(store)) as reader:
        analysis = analysis_of(definition, config_of(config, benchmark), reader)
        return Report(analysis, tuple(_validated(workspace, config, benchmark, reader)))


def _validated(
    workspace: Workspace, config: Config, benchmark: str, reader: Reader
) -> Iterator[Validated]:
    if Branch.parse(benchmark) is not None:
        return
    for one in validations(workspace, config, benchmark):
        try:
            yield Validated(one.branch, one.played, report_of(one, reader), None)
        except CrosswindError as error:
            yield Validated(one.branch, one.played, None, str(error))
