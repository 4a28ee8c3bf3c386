"""The HTML pages of `export` and `calibrate`; and the texts, such as keys, that no published page
may contain."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from pathlib import Path, PurePath
from typing import Final

from engine.analysis.figures import Analysis
from engine.analysis.overall import overall
from engine.cli.commands.results import ExportCommand
from engine.cli.console import out
from engine.cli.reporting import counted_results
from engine.cli.session import Session, open_to_read
from engine.config.schema import secret_values
from engine.config.secrets import Environment
from engine.errors import InputError, Problem
from engine.files import is_stream, open_regular, write_named
from engine.report.html.page import GENERATOR, MOST_EVIDENCE, Evidence, evidence_of, html_report
from engine.report.writing import HIDDEN, spellings
from engine.store.reader import Reader

_PAGE: Final = "results.html"
_ENDS: Final = (".html", ".htm")
_LOOKED_AT: Final = 2_000
"""Bytes at the beginning of a page in which its generator is looked for."""


def export_page(arguments: ExportCommand) -> int:
    """Write the results as a page for a browser. Raises `InputError`."""
    session = open_to_read(arguments.workspace)
    names = session.benchmarks(arguments.names)
    path = checked_path(arguments.out or _PAGE)
    most_evidence = MOST_EVIDENCE // max(1, len(names))
    every: list[Analysis] = []
    evidence: dict[str, Sequence[Evidence]] = {}
    with session.reader() as reader:
        for name, counted in counted_results(session, reader, names, fresh=arguments.fresh):
            every.append(counted.analysis)
            judged = counted.stored.counting
            # but at least one piece of each metric
            most = max(most_evidence, len(counted.analysis.metrics))
            evidence[name] = evidence_of(counted.outcomes, judged, session.config.jury, most)
    together = overall(every)
    # one benchmark alone has nothing to be put together with
    alone = [together] if arguments.overall else every
    shown = alone if len(alone) < 2 else [together, *every]
    write_page(session, path, html_report(shown, datetime.now(UTC), evidence), names)
    return 0


def write_page(session: Session, path: Path, content: str, names: Iterable[str]) -> None:
    """Write a page about these benchmarks to a `checked_path`, without what no published page may
    contain. Raises `InputError`."""
    with session.reader() as reader:
        hidden = names_to_hide(session, reader, names)
    for text, shown in hidden.items():
        content = content.replace(text, shown)
    try:
        write_named(path, [content])
    except OSError as error:
        raise InputError(Problem(f"cannot be written: {error.strerror}", path=path)) from error
    if not is_stream(path):  # or its name stands in what is read from there
        out(str(path))


def checked_path(word: str | Path) -> Path:
    """Raises `InputError` for a path that is no `.html` file, has no folder, or is a file that
    Crosswind did not write."""
    path = Path(word)
    if is_stream(path):
        return path
    if path.suffix.lower() not in _ENDS:
        what = "is no page, expected a file that ends with .html"
        hint = "names of benchmarks stand before it"
        raise InputError(Problem(what, path=path, hint=hint))
    if not path.parent.is_dir():
        hint = f"make it first: mkdir -p {path.parent}"
        raise InputError(Problem("there is no such folder", path=path.parent, hint=hint))
    if path.is_dir():
        raise InputError(Problem("is a folder, expected a file", path=path))
    if path.exists() and not _is_ours(path):
        hint = "name another file, or move this one away"
        raise InputError(Problem("is there, and Crosswind did not write it", path=path, hint=hint))
    return path


def _is_ours(path: Path) -> bool:
    try:
        with open_regular(path) as file:
            start = file.read(_LOOKED_AT).decode("utf-8", "replace")
    except OSError as error:
        raise InputError(Problem(f"cannot be read: {error.strerror}", path=path)) from error
    return not start or f'content="{GENERATOR}"' in start


def names_to_hide(session: Session, reader: Reader, names: Iterable[str]) -> dict[str, str]:
    """The texts to replace in a published page: keys, and file paths that name models, each with
    its replacement, the longest first."""
    environment = Environment(session.workspace.root)
    labels = {spec.label for spec in session.config.every_model}
    for name in names:
        for (_, label), served in reader.served_names(name).items():
            labels |= {label, *served}
    shown = {path: PurePath(path).name for path in labels if _is_path(path)}
    for secret in secret_values(session.config.every_model, environment):
        shown |= dict.fromkeys(spellings(secret), HIDDEN)
    # a text that contains another one is replaced first
    return dict(sorted(shown.items(), key=lambda pair: -len(pair[0])))


def _is_path(label: str) -> bool:
    return label.startswith(("/", "~/", "./", "../")) and bool(PurePath(label).name)
