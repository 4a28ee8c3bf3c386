"""The commands that hold a judge against people: label, adjudicate, calibrate."""

from __future__ import annotations

import argparse
import asyncio
import getpass
import socket
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any, Final

from engine.analysis.calibration import (
    Calibration,
    JudgedRow,
    LabelledRow,
    Split,
    calibrate,
    calibration_lines,
    compare_judges,
    comparison_lines,
)
from engine.benchmark import base_id
from engine.cli.console import out, out_json
from engine.cli.pipelines import writing
from engine.cli.session import Session, open_session, open_to_read
from engine.config.benchmark_file import Definition, load_definition
from engine.display import one_line, plural
from engine.errors import DONE, InputError, Problem
from engine.files import replace_file
from engine.jury import HUMAN, People, newest, what_counts
from engine.pipeline.labels import (
    MOST_LABELS,
    GivenLabel,
    JudgedConversation,
    LabelAnswer,
    Labelling,
    Labels,
    adjudication,
    blind_item,
    check_person,
    draw_sample,
    judged_conversations,
    label_verdict,
    labelling,
    labels_of,
)
from engine.report.label_sheet import LabelSheetRow, read_sheet, sheet_lines
from engine.store.reader import Reader
from engine.store.reading import open_reader
from engine.store.tables import StoredRow, Verdict

_LONGEST_NAME: Final = 80
_WORDS: Final[Mapping[str, LabelAnswer]] = {
    **{answer.value: answer for answer in LabelAnswer},
    "p": LabelAnswer.PRESENT,
    "yes": LabelAnswer.PRESENT,
    "1": LabelAnswer.PRESENT,
    "true": LabelAnswer.PRESENT,
    "a": LabelAnswer.ABSENT,
    "n": LabelAnswer.ABSENT,
    "no": LabelAnswer.ABSENT,
    "0": LabelAnswer.ABSENT,
    "false": LabelAnswer.ABSENT,
    "c": LabelAnswer.CANNOT_TELL,
    "?": LabelAnswer.CANNOT_TELL,
}


def label(arguments: argparse.Namespace) -> int:
    session = open_session(arguments)
    definition = _definition(session, arguments.benchmark)
    person = _person(arguments.by)
    if not 1 <= arguments.sample <= MOST_LABELS:
        raise InputError(Problem(f"--sample {arguments.sample}: expected 1 to {MOST_LABELS}"))
    one = _sample(session, definition, arguments, person)
    if arguments.read is not None:
        one = _take_in(session, definition, one, arguments.read)
    if arguments.write is not None:
        with closing(open_reader(session.store_path)) as reader:
            _write_sheet(arguments.write, one, reader, definition)
    if arguments.json:
        out_json(_as_json(one))
    else:
        for line in _progress(one, arguments.write):
            out(line)
    return DONE


def _definition(session: Session, name: str) -> Definition:
    session.workspace.require_benchmarks([name])
    return load_definition(session.workspace.definition_path(name))


def _person(by: str | None) -> str:
    name = one_line(by if by is not None else getpass.getuser()).strip()
    if not 0 < len(name) <= _LONGEST_NAME:
        raise InputError(Problem(f"--by: expected a name of 1 to {_LONGEST_NAME} characters"))
    return name


def _account() -> str:
    return f"{getpass.getuser()}@{socket.gethostname()}"


def _sample(
    session: Session, definition: Definition, arguments: argparse.Namespace, person: str
) -> Labelling:
    """The sample that this person is at; a new one where there is none, or another is asked for."""
    account = _account()
    with closing(open_reader(session.store_path)) as reader:
        judged = judged_conversations(definition, session.config, reader)
        check_person(reader.label_samples(definition.name), person, account)
        found = labelling(reader, definition.name, person, judged)
    if found is not None and not _is_other(found, arguments):
        return found
    drawn = draw_sample(
        definition.name,
        judged,
        size=arguments.sample,
        seed=arguments.seed,
        person=person,
        account=account,
    )
    [seq] = _store(session, drawn)
    return Labelling(replace(drawn, seq=seq), {}, frozenset())


def _store(session: Session, *rows: StoredRow) -> list[int]:
    """Their `seq`s. Raises `WorkspaceBusyError` where an engine is at work, and `StoreError`."""
    with writing(session) as pipeline:
        return asyncio.run(pipeline.store.write(*rows))


def _is_other(found: Labelling, arguments: argparse.Namespace) -> bool:
    return bool(arguments.new) and found.is_done


def _write_sheet(path: Path, one: Labelling, reader: Reader, definition: Definition) -> None:
    items = (blind_item(one, number, reader, definition) for number in one.open)
    told = ((item.number, item.definition, item.messages) for item in items)
    content = "".join(sheet_lines(one.sample.seq, told))
    try:
        replace_file(path, b"\xef\xbb\xbf" + content.encode(), mode=0o600)
    except OSError as error:
        raise InputError(Problem(f"cannot be written: {error.strerror}", path)) from error


def _take_in(session: Session, definition: Definition, one: Labelling, path: Path) -> Labelling:
    """Every line of a table that came back, or none."""
    with closing(open_reader(session.store_path)) as reader:
        problems: list[Problem] = []
        rows: list[tuple[int, Verdict]] = []
        seen: dict[int, int] = {}
        for row in read_sheet(path):
            try:
                number, said = _said(row, one, seen)
                verdict = label_verdict(
                    one,
                    number,
                    said,
                    reader=reader,
                    definition=definition,
                    jury=session.config.jury,
                )
            except InputError as error:
                problems += [replace(each, path=path, line=row.line) for each in error.problems]
                continue
            before = one.given.get(number)
            if before is None or not _says_the_same(before, verdict):
                rows.append((number, verdict))
    if problems:
        raise InputError(problems)
    if rows:
        _store(session, *(verdict for _, verdict in rows))
    return Labelling(one.sample, {**one.given, **dict(rows)}, one.replaced)


def _says_the_same(before: Verdict, now: Verdict) -> bool:
    return (before.present, before.unscored, before.marks, before.justification) == (
        *(now.present, now.unscored, now.marks, now.justification),
    )


def _said(row: LabelSheetRow, one: Labelling, seen: dict[int, int]) -> tuple[int, GivenLabel]:
    """`seen` are the lines of the numbers before. Raises `InputError`."""
    if row.sample != str(one.sample.seq):
        raise InputError(
            Problem(
                f"sample: found {_short(row.sample)!r}, expected {one.sample.seq}",
                hint=f"this table is not the sample that {one.sample.person} is at",
            )
        )
    number = _whole(row.number, "number")
    one.item(number)
    if number in seen:
        raise InputError(Problem(f"number {number} stands in line {seen[number]}, too"))
    seen[number] = row.line
    if number in one.replaced:
        raise InputError(Problem(f"number {number} has been played again since: leave it empty"))
    answer = _WORDS.get(row.answer.lower())
    if answer is None:
        expected = ", ".join(f"`{known.value}`" for known in LabelAnswer)
        raise InputError(Problem(f"answer: found {_short(row.answer)!r}, expected {expected}"))
    confidence = _whole(row.confidence, "confidence") if row.confidence else None
    if confidence not in {None, 1, 2, 3}:
        raise InputError(Problem(f"confidence: found {confidence}, expected 1, 2 or 3"))
    words = row.replies.replace(",", " ").split()
    replies = tuple(_whole(word, "replies") for word in words)
    return number, GivenLabel(answer, replies, row.note, confidence)


def _short(text: str) -> str:
    return text if len(text) <= 40 else f"{text[:39]}…"


def _whole(text: str, column: str) -> int:
    if not (text.isascii() and text.isdigit() and len(text) < 7):
        raise InputError(Problem(f"{column}: found {_short(text)!r}, expected a whole number"))
    return int(text)


def _progress(one: Labelling, written: Path | None) -> Iterator[str]:
    sample = one.sample
    yield (
        f"{sample.person} has labelled {len(one.given)} of {len(sample.items)} conversations of "
        f"{sample.benchmark} (seed {sample.seed})"
    )
    if one.replaced:
        yield f"{plural(len(one.replaced), 'conversation')} of them were played again since"
    if written is not None:
        yield f"{plural(len(one.open), 'conversation')} to label: {written}"
    elif one.is_done:
        yield f"done: `crosswind calibrate {sample.benchmark}` holds the judge against it"


def _as_json(one: Labelling) -> dict[str, Any]:
    """Nothing in it tells which conversations these are."""
    return {
        "benchmark": one.sample.benchmark,
        "person": one.sample.person,
        "sample": one.sample.seq,
        "seed": one.sample.seed,
        "size": len(one.sample.items),
        "labelled": sorted(one.given),
        "open": one.open,
        "replaced": sorted(one.replaced),
    }


# What people disagree on


def adjudicate(arguments: argparse.Namespace) -> int:
    session = open_session(arguments)
    definition = _definition(session, arguments.benchmark)
    with closing(open_reader(session.store_path)) as reader:
        judged = judged_conversations(definition, session.config, reader)
        found = labels_of(judged, reader.peoples_verdicts(definition.name))
        if arguments.id is None:
            _tell_disputed(found, as_json=arguments.json)
            return DONE
        disputed = {str(of.key): of for of, _ in found.disputed}
        of = disputed.get(arguments.id)
        if of is None:
            hint = f"`crosswind adjudicate {definition.name}` lists them"
            raise InputError(
                Problem(f"people do not disagree on {_short(arguments.id)!r}", hint=hint)
            )
        if arguments.decide is None or not (arguments.reason or "").strip():
            raise InputError(Problem("a decision takes `--present` or `--absent`, and `--reason`"))
        row = adjudication(
            of,
            present=arguments.decide,
            reason=arguments.reason,
            by=_person(arguments.by),
            reader=reader,
            jury=session.config.jury,
        )
    _store(session, row)
    out(f"{arguments.id}: {_word(arguments.decide)}, decided by {row.judge}")
    return DONE


def _tell_disputed(found: Labels, *, as_json: bool) -> None:
    if as_json:
        out_json(
            [
                {
                    "conv_id": str(of.key),
                    "labels": [
                        {
                            "person": one.judge,
                            "present": one.present,
                            "replies": [quote.turn for quote in one.quotes],
                            "note": one.justification,
                            "confidence": one.confidence,
                        }
                        for one in labels
                    ],
                }
                for of, labels in found.disputed
            ]
        )
        return
    if not found.disputed:
        out("there is nothing to decide: people agree wherever several have labelled")
    for of, labels in found.disputed:
        out(str(of.key))
        for one in labels:
            replies = ", ".join(str(quote.turn) for quote in one.quotes)
            where = f" (reply {replies})" if replies else ""
            note = f": {one_line(one.justification)}" if one.justification else ""
            out(f"  {one.judge}: {_word(one.present)}{where}{note}")


def _word(present: bool | None) -> str:  # noqa: FBT001  (a value, not a switch)
    if present is None:
        return LabelAnswer.CANNOT_TELL
    return LabelAnswer.PRESENT if present else LabelAnswer.ABSENT


# What the labels say of a judge


def run_calibrate(arguments: argparse.Namespace) -> int:
    session = open_to_read(arguments)
    if not 0 < arguments.width < 1:
        raise InputError(Problem("--width: expected a share above 0 and below 1, such as 0.1"))
    definition = _definition(session, arguments.benchmark)
    with closing(open_reader(session.store_path)) as reader:
        judged = judged_conversations(definition, session.config, reader)
        labels = labels_of(judged, reader.peoples_verdicts(definition.name))
    if not labels.people:
        hint = f"`crosswind label {definition.name}` draws a sample"
        raise InputError(Problem(f"nobody has labelled {definition.name} yet", hint=hint))
    if arguments.compare is not None:
        return _compare(session, definition, judged, labels, arguments)
    judges = [arguments.judge] if arguments.judge else _judges(session, judged)
    found = [_calibration(session, judged, labels, one, arguments.width) for one in judges]
    if arguments.json:
        out_json([_calibration_json(one, labels, session) for one in found])
        return DONE
    for one in found:
        for line in calibration_lines(one):
            out(line)
        for conv_id, present in one.confusions:
            said = "absent" if present else "present"
            out(f"  {conv_id}: people {_word(present)}, {one.judge} {said}")
        out()
    for line in _notes(labels, session.config.people):
        out(line)
    return DONE


COUNTING: Final = "what counts"
"""The judges of the configuration together."""


def _judges(session: Session, judged: Sequence[JudgedConversation]) -> list[str]:
    """What counts, and where several judges make it, each of them."""
    own = sorted(
        {
            verdict.judge
            for one in judged
            for verdict in one.verdicts
            if verdict.source != HUMAN and session.config.jury.holds(verdict)
        }
    )
    return own if len(own) == 1 else [COUNTING, *own]


def _rows(
    session: Session, judged: Sequence[JudgedConversation], judge: str
) -> dict[tuple[int, str], JudgedRow]:
    known = {verdict.judge for one in judged for verdict in one.verdicts if verdict.source != HUMAN}
    if judge not in known | {COUNTING}:
        named = ", ".join(sorted(known)) or "nobody"
        raise InputError(Problem(f"no judge {_short(judge)!r} has judged this: {named} has"))
    return {
        one.item: JudgedRow(
            str(one.key),
            one.metric.id,
            one.key.target_id,
            base_id(one.key.scenario_id),
            one.metric.track,
            one.present,
            one.present if judge == COUNTING else _says(one, judge, session),
        )
        for one in judged
    }


def _says(one: JudgedConversation, judge: str, session: Session) -> bool | None:
    """Whether this judge calls it present, by the majority of its passes."""
    own = [row for row in one.verdicts if row.source != HUMAN and row.judge == judge]
    passed = what_counts(newest(own), replace(session.config.jury, judges=(judge,)))
    return None if passed is None else passed is one.metric.track.passes(present=True)


def _labelled(rows: Mapping[tuple[int, str], JudgedRow], labels: Labels) -> list[LabelledRow]:
    return [LabelledRow(rows[one.of.item], one.present, one.inclusion) for one in labels.settled]


def _calibration(
    session: Session,
    judged: Sequence[JudgedConversation],
    labels: Labels,
    judge: str,
    width: float,
) -> Calibration:
    rows = _rows(session, judged, judge)
    return calibrate(list(rows.values()), _labelled(rows, labels), judge, width)


def _compare(
    session: Session,
    definition: Definition,
    judged: Sequence[JudgedConversation],
    labels: Labels,
    arguments: argparse.Namespace,
) -> int:
    left, right = arguments.compare
    one, other = (_labelled(_rows(session, judged, name), labels) for name in (left, right))
    found = compare_judges(definition.name, one, other)
    if arguments.json:
        out_json({"left": left, "right": right, "splits": [asdict(each) for each in found]})
        return DONE
    for line in comparison_lines(left, right, found):
        out(line)
    out(
        f"{Split.DEV} and {Split.TEST} are halves of the base scenarios by a hash of their names: "
        f"develop a judge on {Split.DEV}, report {Split.TEST}"
    )
    return DONE


def _notes(labels: Labels, people: People) -> Iterator[str]:
    by = ", ".join(f"{name} {number}" for name, number in labels.people.items())
    yield f"labelled by {by}"
    if labels.cannot_tell:
        yield f"{plural(labels.cannot_tell, 'conversation')} left out: people cannot tell"
    if labels.disputed:
        disputed = plural(len(labels.disputed), "conversation")
        yield f"{disputed} left out: people disagree, and `crosswind adjudicate` settles it"
    if labels.replaced:
        yield f"{plural(labels.replaced, 'label')} left out: the conversation was played again"
    if labels.earlier_definition:
        number = plural(labels.earlier_definition, "conversation")
        yield f"{number} labelled under an earlier definition, and held against it all the same"
    yield people.rule


def _calibration_json(one: Calibration, labels: Labels, session: Session) -> dict[str, Any]:
    left_out = {
        "cannot_tell": labels.cannot_tell,
        "disputed": len(labels.disputed),
        "replaced": labels.replaced,
    }
    return {
        **asdict(one),
        "people": dict(labels.people),
        "left_out": left_out,
        "earlier_definition": labels.earlier_definition,
        "rule": session.config.people.rule,
    }
