"""The commands that hand what is stored to others: export, datasette-metadata, and site; and
what is not for the public, wherever it turns up on a page."""

from __future__ import annotations

import argparse
import json
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from html import escape
from importlib.resources import files
from itertools import chain
from pathlib import PurePath
from typing import Final
from urllib.parse import quote, urlsplit

from engine.benchmark import ConversationKey, Metric
from engine.branches import Branch
from engine.cli.console import out, tell
from engine.cli.ids import conversations as conversations_of
from engine.cli.session import Session, open_to_read
from engine.config.benchmark_file import load_definition
from engine.config.secrets import VARIABLE, Environment
from engine.config.values import texts_with_variables
from engine.display import plural
from engine.doctor.models import ModelInUse, models_in_use
from engine.errors import InputError, Problem
from engine.pipeline.results import counted_of
from engine.pipeline.validation import report_of, validations
from engine.report.conversation import (
    Conversation,
    conversations,
    csv_lines,
    document,
    json_lines,
    takes,
)
from engine.report.inspect_log import LogOf, eval_file, json_file
from engine.report.site.build import CountedBenchmark, refuse_others, write_site
from engine.report.site.transcripts import as_json
from engine.report.writing import refuse_ours, refuse_taken, write_file, write_folder
from engine.store.reader import Reader

Selection = Mapping[str, frozenset[ConversationKey] | None]
"""By benchmark: these of its conversations, or None for all."""


def export(arguments: argparse.Namespace) -> int:
    session = open_to_read(arguments)
    is_folder = arguments.format in _FOLDERS
    if arguments.out is None and is_folder:
        what = f"--format {arguments.format} makes {_FOLDERS[arguments.format]}"
        raise InputError(Problem(what, hint="name a folder with --out"))
    if arguments.out is not None:
        refuse_ours(arguments.out, root=session.workspace.root, store=session.store_path)
        refuse_taken(arguments.out, force=arguments.force, folder=is_folder)
    with session.reader() as reader:
        selection = _selection(reader, arguments.names)
        counter: Counter[str] = Counter()
        found = _counted(_conversations(session, reader, selection), counter)
        if arguments.format in _LOGS:
            written = write_folder(
                arguments.out, _logs(session, reader, selection, counter, arguments)
            )
            tell(f"{plural(written, 'log')} of Inspect")
        elif is_folder:
            documents = ((_path(one), "\n".join([*document(one), ""])) for one in found)
            write_folder(arguments.out, documents)
        else:
            lines = (csv_lines if arguments.format == "csv" else json_lines)(found)
            _write(arguments, lines)
    tell(f"{counter.total()} conversations exported")
    return 0


_LOGS: Final = {"inspect": eval_file, "inspect-json": json_file}
_FOLDERS: Final = {
    "md": "one document a conversation",
    **dict.fromkeys(_LOGS, "one log for each benchmark and target"),
}
"""Formats of several files, and what each of these is."""


def _logs(
    session: Session,
    reader: Reader,
    selection: Selection,
    counter: Counter[str],
    arguments: argparse.Namespace,
) -> Iterator[tuple[str, bytes]]:
    """One after the other, so that never more than one is in memory."""
    for name, keys in selection.items():
        path = session.workspace.definition_path(name)
        definition = load_definition(path) if path.is_file() else None
        used = reader.usage_by_model(name)
        mine = [
            take.key for take in reader.counting_takes(name) if keys is None or take.key in keys
        ]
        failed = [key for key in _failed(reader, name) - {*mine} if keys is None or key in keys]
        for target in sorted({key.target_id for key in (*mine, *failed)}):
            about = LogOf(
                benchmark=name,
                title=name if definition is None else definition.title,
                description="" if definition is None else definition.description,
                target=target,
                epochs=1 + max(key.sample for key in (*mine, *failed) if key.target_id == target),
                used=used,
            )
            some = {name: frozenset(key for key in mine if key.target_id == target)}
            found = _counted(_conversations(session, reader, some), counter)
            broken = (
                next(takes(reader, name, key, session.config.jury))
                for key in sorted(failed)
                if key.target_id == target
            )
            log = _LOGS[arguments.format](about, chain(found, broken))
            if log is not None:
                yield log


def _failed(reader: Reader, benchmark: str) -> set[ConversationKey]:
    """Of which a playing ended without being finished: for a log that has a place for errors."""
    return {
        take.key
        for take in reader.takes(benchmark)
        if take.stop_reason is not None and not take.finished
    }


def datasette_metadata(arguments: argparse.Namespace) -> int:
    store = open_to_read(arguments).store_path
    words = files("engine.store").joinpath("datasette.yaml").read_text("utf-8")
    # Datasette calls a database by the name of its file
    for line in words.replace("\n  crosswind:\n", f"\n  {json.dumps(store.stem)}:\n").splitlines():
        out(line)
    return 0


def _selection(reader: Reader, names: Iterable[str]) -> Selection:
    """Raises `InputError` for what is neither a benchmark nor an id."""
    known = reader.benchmarks()
    given = list(names)
    if not given:
        # a validation run has the ids of its original once more, so it must be named
        return dict.fromkeys(name for name in known if Branch.parse(name) is None)
    whole = [name for name in given if name in known]
    ids = [name for name in given if name not in known]
    some = conversations_of(reader, ids) if ids else {}
    return {**some, **dict.fromkeys(whole)}


def _conversations(
    session: Session, reader: Reader, selection: Selection
) -> Iterator[Conversation]:
    return chain.from_iterable(
        conversations(
            reader,
            name,
            metrics=_metrics(session, name),
            jury=session.config.jury,
            keys=keys,
        )
        for name, keys in selection.items()
    )


def _metrics(session: Session, name: str) -> dict[str, Metric]:
    """None where the workspace has no definition of the benchmark any more."""
    path = session.workspace.definition_path(name)
    metrics = load_definition(path).metrics if path.is_file() else ()
    return {metric.id: metric for metric in metrics}


def _counted(found: Iterable[Conversation], counter: Counter[str]) -> Iterator[Conversation]:
    for one in found:
        counter[one.benchmark] += 1
        yield one


def _write(arguments: argparse.Namespace, lines: Iterable[str]) -> None:
    if arguments.out is not None:
        write_file(arguments.out, lines)
        return
    for line in lines:
        sys.stdout.write(line)


def _path(one: Conversation) -> str:
    return f"{one.benchmark}/{one.take.key}.md"


_SHORTEST: Final = 12
"""Characters of a key that is looked for; `ollama` and `EMPTY` are words of every transcript."""
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
            unpublished(session, reader, names),
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
        reports = [report_of(one, reader) for one in begun]
        yield CountedBenchmark(definition, found.analysis, found.outcomes, reports)


def unpublished(session: Session, reader: Reader, names: Iterable[str]) -> dict[str, str]:
    """Keys, and paths of this machine that models are named by, with what stands in their place."""
    environment = Environment(session.workspace.root)
    models = models_in_use(session.config, environment)
    labels = {model.spec.label for model in models}
    for name in names:
        for (_, label), served in reader.served_names(name).items():
            labels |= {label, *served}
    shown = {path: PurePath(path).name for path in labels if _is_path(path)}
    for secret in {key for model in models for key in _keys_of(model, environment)}:
        if len(secret) >= _SHORTEST:
            # as it stands in a page, in a script and in a link
            spellings = {secret, as_json(secret)[1:-1], _as_html(secret), quote(secret, safe="")}
            shown |= dict.fromkeys(spellings, _HIDDEN)
    # what holds another text goes first
    return dict(sorted(shown.items(), key=lambda one: -len(one[0])))


def _as_html(text: str) -> str:
    """As templates escape it."""
    return escape(text, quote=False).replace('"', "&#34;").replace("'", "&#39;")


def _is_path(label: str) -> bool:
    return label.startswith(("/", "~/", "./", "../")) and bool(PurePath(label).name)


def _keys_of(model: ModelInUse, environment: Environment) -> Iterator[str]:
    """Everything that this model comes with and nobody else is to know."""
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
