"""`crosswind export`: conversations and verdicts for other programs."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from itertools import chain
from pathlib import Path
from typing import Final

from engine.benchmark import ConversationKey, Metric
from engine.branches import Branch
from engine.cli.commands.results import ExportCommand
from engine.cli.console import tell
from engine.cli.ids import conversations as conversations_of
from engine.cli.session import Session, open_to_read
from engine.config.benchmark_file import load_definition
from engine.config.schema import config_of
from engine.display import plural
from engine.errors import InputError, Problem
from engine.pipeline.counting import StoredConversations
from engine.pipeline.provenance import stale_takes
from engine.pipeline.results import decided_otherwise
from engine.report.conversation import (
    Conversation,
    conversations,
    csv_lines,
    document,
    json_lines,
    label_lines,
    takes,
)
from engine.report.inspect_log import LogOf, eval_file, json_file
from engine.report.writing import refuse_ours, refuse_taken, write_file, write_folder
from engine.store.browsing import STALE, Browser, Field, Filter, FilterFault, parse
from engine.store.reader import Reader

Selection = Mapping[str, frozenset[ConversationKey] | None]
"""By benchmark, the chosen conversations, or None for all."""


def export(arguments: ExportCommand) -> int:
    session = open_to_read(arguments.workspace)
    place, is_folder = arguments.out, arguments.format in _FOLDERS
    if place is None and is_folder:
        what = f"{arguments.format} makes {_FOLDERS[arguments.format]}"
        raise InputError(Problem(what, hint="name a folder with --out"))
    if place is not None:
        refuse_ours(place, root=session.workspace.root, store=session.store_path)
        refuse_taken(place, force=arguments.force, folder=is_folder)
    with session.reader() as reader:
        selection = selected_conversations(reader, arguments.names, arguments.benchmark)
        if arguments.filter is not None:
            selection = _matching(session, reader, selection, parse_filter(arguments.filter))
        counter: Counter[str] = Counter()
        exported = _counting(exported_conversations(session, reader, selection), counter)
        if place is None or not is_folder:
            _write(place, _LINES[arguments.format](exported))
        elif arguments.format in _LOGS:
            written = write_folder(place, _logs(session, reader, selection, counter, arguments))
            tell(f"{plural(written, 'log')} of Inspect")
        else:
            documents = (
                (_path(conversation), "\n".join([*document(conversation), ""]))
                for conversation in exported
            )
            write_folder(place, documents)
    tell(f"{counter.total()} conversations exported")
    return 0


_LINES: Final = {"csv": csv_lines, "jsonl": json_lines, "labels": label_lines}
_LOGS: Final = {"inspect": eval_file, "inspect-json": json_file}
_FOLDERS: Final = {
    "md": "one document a conversation",
    **dict.fromkeys(_LOGS, "one log for each benchmark and target"),
}
"""The formats that write several files, each with what one file holds."""


def _logs(
    session: Session,
    reader: Reader,
    selection: Selection,
    counter: Counter[str],
    arguments: ExportCommand,
) -> Iterator[tuple[str, bytes]]:
    """The logs, one at a time, so that only one is in memory."""
    hide = session.hide
    for name, keys in selection.items():
        path = session.workspace.definition_path(name)
        definition = load_definition(path) if path.is_file() else None
        used, counts = reader.usage_by_model(name), session.counts(name, reader)
        # a log has no place for what does not count: its own sums would include it
        played = {take.key for take in reader.counting_takes(name)}
        left_out = Counter(
            why
            for key in played
            if (keys is None or key in keys) and (why := counts.asked.why_not(key)) is not None
        )
        for why, number in sorted(left_out.items()):
            verb = "counts" if number == 1 else "count"
            tell(f"{name}: {plural(number, 'conversation')} left out that {verb} nowhere: {why}")
        mine, failed = (
            sorted(
                key
                for key in some
                if (keys is None or key in keys) and counts.asked.why_not(key) is None
            )
            for some in (played, _failed_conversations(reader, name) - played)
        )
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
            exported = _counting(exported_conversations(session, reader, some), counter)
            broken = (
                hide(next(takes(reader, name, key, counts)))
                for key in sorted(failed)
                if key.target_id == target
            )
            log = _LOGS[arguments.format](about, chain(exported, broken))
            if log is not None:
                yield log


def _failed_conversations(reader: Reader, benchmark: str) -> set[ConversationKey]:
    """The conversations with a take that failed: a log has a place for errors."""
    return {
        take.key
        for take in reader.takes(benchmark)
        if take.stop_reason is not None and not take.finished
    }


def selected_conversations(
    reader: Reader, names: Iterable[str], benchmark: str | None
) -> Selection:
    """What is named, with `benchmark` only in this one. Raises `InputError` for what is neither a
    benchmark nor an id."""
    known = reader.benchmarks()
    words = list(names) or ([] if benchmark is None else [benchmark])
    if not words:
        # a validation run shares the ids of its original, so it must be named
        return dict.fromkeys(name for name in known if Branch.parse(name) is None)
    whole = [name for name in words if name in known and benchmark in {None, name}]
    ids = [name for name in words if name not in whole]
    some = conversations_of(reader, ids, benchmark=benchmark) if ids else {}
    return {**some, **dict.fromkeys(whole)}


def parse_filter(typed: str) -> Filter:
    """Raises `InputError`."""
    try:
        return parse(typed)
    except FilterFault as fault:
        raise InputError(Problem(f"--filter: {fault}")) from fault


def _matching(
    session: Session, reader: Reader, selection: Selection, wanted: Filter
) -> dict[str, frozenset[ConversationKey]]:
    """The judged conversations of the selection that a filter matches, as the verdict table has
    them. Raises `InputError` where there is none."""
    browser = Browser(reader)
    asks_stale = any(term.field is Field.IS and STALE in term.values for term in wanted)
    for name in selection:
        path = session.workspace.definition_path(name)
        if not path.is_file():
            continue
        counts = session.counts(name, reader)
        stored = StoredConversations.of(reader, name)
        browser.decided = {**browser.decided, **decided_otherwise(counts, stored)}
        if asks_stale:
            config = config_of(session.config, name)
            stale = stale_takes(load_definition(path), config, reader)
            browser.stale = {*browser.stale, *stale}
    found: dict[str, set[ConversationKey]] = {name: set() for name in selection}
    for row in browser.rows(browser.find(wanted).takes).values():
        name, key = row.verdict.benchmark, row.verdict.key
        keys = selection.get(name, frozenset())
        if keys is None or key in keys:
            found[name].add(key)
    matching = {name: frozenset(keys) for name, keys in found.items() if keys}
    if not matching:
        raise InputError(Problem("no judged conversation matches", key="--filter"))
    return matching


def exported_conversations(
    session: Session, reader: Reader, selection: Selection
) -> Iterator[Conversation]:
    found = chain.from_iterable(
        conversations(
            reader,
            name,
            metrics=_metrics(session, name),
            counts=session.counts(name, reader),
            keys=keys,
        )
        for name, keys in selection.items()
    )
    return map(session.hide, found)


def _metrics(session: Session, name: str) -> dict[str, Metric]:
    """The metrics by id; empty where the workspace has no definition of the benchmark any more."""
    path = session.workspace.definition_path(name)
    metrics = load_definition(path).metrics if path.is_file() else ()
    return {metric.id: metric for metric in metrics}


def _counting(
    conversations: Iterable[Conversation], counter: Counter[str]
) -> Iterator[Conversation]:
    for conversation in conversations:
        counter[conversation.benchmark] += 1
        yield conversation


def _write(place: Path | None, lines: Iterable[str]) -> None:
    if place is not None:
        write_file(place, lines)
        return
    for line in lines:
        sys.stdout.write(line)


def _path(conversation: Conversation) -> str:
    return f"{conversation.benchmark}/{conversation.take.key}.md"
