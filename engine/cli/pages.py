"""The HTML pages of `export` and `calibrate`; and the texts, such as keys, that no published page
may contain."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path, PurePath
from typing import Final

from engine.analysis.calibration import Calibration
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
from engine.pipeline.labelling.calibrations import LabelledJudges
from engine.report.hidden_keys import HIDDEN, spellings
from engine.report.html.page import calibration_page, html_report
from engine.report.html.view import GENERATOR, MOST_EVIDENCE, Evidence, evidence_of
from engine.store.reader import Reader

_PAGE: Final = "results.html"
_ENDS: Final = (".html", ".htm")
_LOOKED_AT: Final = 2_000
"""Bytes at the beginning of a page in which its generator is looked for."""


def export_page(arguments: ExportCommand) -> int:
    """Write the results as a page for a browser. Raises `InputError`."""
    session = open_to_read(arguments.workspace)
    names = session.benchmarks(arguments.names)
    page = HtmlPage.of(str(arguments.out or _PAGE), session)
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
    page.write_results(names, alone if len(alone) < 2 else [together, *every], evidence)
    return 0


@dataclass(frozen=True, slots=True)
class HtmlPage:
    """A page to write, whose path was checked before anything is read for it."""

    path: Path
    session: Session

    @classmethod
    def of(cls, word: str, session: Session) -> HtmlPage:
        """Raises `InputError` for a path that cannot be written to."""
        return cls(_checked_path(word), session)

    def write_results(
        self,
        names: Sequence[str],
        analyses: Sequence[Analysis],
        evidence: Mapping[str, Sequence[Evidence]],
    ) -> None:
        """Write the results of the named benchmarks. Raises `InputError`."""
        self._write(html_report(analyses, datetime.now(UTC), evidence), names)

    def write_calibration(
        self, labelled: LabelledJudges, calibrations: Sequence[Calibration], notes: Sequence[str]
    ) -> None:
        """Write how well judges agree with people. Raises `InputError`."""
        now, scripted = datetime.now(UTC), labelled.scripted
        content = calibration_page(labelled.title, calibrations, notes, now, scripted=scripted)
        self._write(content, [labelled.benchmark])

    def _write(self, content: str, names: Iterable[str]) -> None:
        with self.session.reader() as reader:
            hidden = names_to_hide(self.session, reader, names)
        for text, shown in hidden.items():
            content = content.replace(text, shown)
        try:
            write_named(self.path, [content])
        except OSError as error:
            what = f"cannot be written: {error.strerror}"
            raise InputError(Problem(what, path=self.path)) from error
        if not is_stream(self.path):  # or its name stands in what is read from there
            out(str(self.path))


def _checked_path(word: str) -> Path:
    """Raises `InputError` for a path that is no `.html` file, has no folder, or is a file that
    Crosswind did not write."""
    path = Path(word)
    if is_stream(path):
        return path
    if path.suffix.lower() not in _ENDS:
        raise InputError(
            Problem(
                "is no page, expected a file that ends with .html",
                path=path,
                hint="names of benchmarks stand before it",
            )
        )
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
