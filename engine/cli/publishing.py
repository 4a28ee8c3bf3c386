"""`crosswind site`: results and transcripts as web pages; and the texts, such as keys, that no
published page may contain."""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from html import escape
from pathlib import PurePath
from typing import Final
from urllib.parse import quote, urlsplit

from engine.cli.console import out, tell
from engine.cli.session import Session, open_to_read
from engine.config.benchmark_file import load_definition
from engine.config.secrets import VARIABLE, Environment
from engine.config.values import texts_with_variables
from engine.display import plural
from engine.doctor.models import ModelInUse, models_in_use
from engine.errors import InputError
from engine.pipeline.results import counted_of
from engine.pipeline.validation import report_of, validations
from engine.report.site.build import CountedBenchmark, refuse_others, write_site
from engine.report.site.transcripts import as_json
from engine.report.writing import refuse_ours
from engine.store.reader import Reader

_SHORTEST: Final = 12
"""Characters: shorter keys are not searched for, as `ollama` or `EMPTY` may be plain words."""
_HIDDEN: Final = "[hidden]"


def site(arguments: argparse.Namespace) -> int:
    session = open_to_read(arguments)
    names = session.benchmarks(arguments.benchmarks)
    refuse_ours(arguments.out, root=session.workspace.root, store=session.store_path)
    refuse_others(arguments.out)
    with session.reader() as reader:
        built = write_site(
            arguments.out,
            _counted_benchmarks(session, reader, names),
            reader,
            session.config.jury,
            datetime.now(UTC),
            names_to_hide(session, reader, names),
        )
    tell(f"{plural(built.conversations, 'conversation')} in {plural(built.files, 'file')}")
    out(str(arguments.out / "index.html"))
    return 0


def _counted_benchmarks(
    session: Session, reader: Reader, names: Sequence[str]
) -> Iterator[CountedBenchmark]:
    for name in names:
        definition = load_definition(session.workspace.definition_path(name))
        found = counted_of(definition, session.config, reader)
        begun = validations(session.workspace, session.config, name)
        reports = [report_of(validation, reader) for validation in begun]
        yield CountedBenchmark(definition, found.analysis, found.outcomes, reports)


def names_to_hide(session: Session, reader: Reader, names: Iterable[str]) -> dict[str, str]:
    """The texts to replace in a published page: keys, and file paths that name models, each with
    its replacement, the longest first."""
    environment = Environment(session.workspace.root)
    models = models_in_use(session.config, environment)
    labels = {model.spec.label for model in models}
    for name in names:
        for (_, label), served in reader.served_names(name).items():
            labels |= {label, *served}
    shown = {path: PurePath(path).name for path in labels if _is_path(path)}
    for secret in {key for model in models for key in _keys_of(model, environment)}:
        if len(secret) >= _SHORTEST:
            # as it is spelled in a page, in a script and in a link
            spellings = {secret, as_json(secret)[1:-1], _as_html(secret), quote(secret, safe="")}
            shown |= dict.fromkeys(spellings, _HIDDEN)
    # a text that contains another one is replaced first
    return dict(sorted(shown.items(), key=lambda one: -len(one[0])))


def _as_html(text: str) -> str:
    """Escaped as the templates do it."""
    return escape(text, quote=False).replace('"', "&#34;").replace("'", "&#39;")


def _is_path(label: str) -> bool:
    return label.startswith(("/", "~/", "./", "../")) and bool(PurePath(label).name)


def _keys_of(model: ModelInUse, environment: Environment) -> Iterator[str]:
    """All secrets of this model: passwords, keys, headers, and variables in its configuration."""
    if model.endpoint is not None:
        yield urlsplit(model.endpoint.base_url).password or ""
        with suppress(InputError):  # a variable that is not set holds no key
            yield model.endpoint.key()
        with suppress(InputError):
            yield from model.endpoint.headers().values()
    written = [*texts_with_variables(model.spec.extra_body), model.spec.base_url or ""]
    for name in {name for text in written for name in VARIABLE.findall(text)}:
        if environment.holds(name):
            yield environment.resolve(f"${{{name}}}", where="site")
