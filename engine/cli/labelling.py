"""The commands with which people label conversations and compare a judge with those labels: label
and calibrate."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from datetime import UTC, datetime
from operator import attrgetter
from pathlib import Path
from typing import Any, Final

from engine.analysis.calibration import LEAST_LABELS, Calibration, Split
from engine.analysis.calibration_words import against_words, calibration_sections, comparison_lines
from engine.cli.commands.results import CalibrateCommand, LabelCommand
from engine.cli.console import out, out_json, tell
from engine.cli.engine_requests import write_labels
from engine.cli.pages import checked_path, write_page
from engine.cli.person_labels import PersonDisputes, PersonSample, definition_of
from engine.cli.section_lines import NARROW_LAYOUT, section_lines
from engine.cli.session import Session, open_session, open_to_read
from engine.config.benchmark_file import Definition
from engine.display import one_line, plural
from engine.errors import DONE, InputError, Problem
from engine.files import is_stream, write_named
from engine.people import (
    SAMPLE_SEED,
    SAMPLE_SIZE,
    GivenLabel,
    LabelAnswer,
    LabelRequest,
    NumberedLabel,
)
from engine.pipeline.labelling.calibrations import LabelledJudges
from engine.pipeline.labelling.labels import (
    Dispute,
    LabellingProgress,
    answer_given,
    blind_item,
    label_verdict,
)
from engine.pipeline.labelling.storing import not_disputed
from engine.report.html.page import calibration_page
from engine.report.label_sheet import LabelSheetRow, read_sheet, sheet_lines
from engine.report.writing import refuse_ours
from engine.store.reader import Reader
from engine.store.tables import Verdict

_WORDS: Final[Mapping[str, LabelAnswer]] = {
    **{answer.value: answer for answer in LabelAnswer},
    "p": LabelAnswer.PRESENT,
    "y": LabelAnswer.PRESENT,
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


def label(arguments: LabelCommand) -> int:
    if arguments.decide is not None:
        return _decide(arguments)
    if arguments.present or arguments.absent or arguments.reason:
        raise InputError(Problem("a decision takes `--decide ID`, as `--decide` lists them"))
    sample = opened_sample(arguments)
    session, definition, labelling = sample.session, sample.definition, sample.labelling
    if arguments.read is not None:
        labelling = _take_in(session, definition, labelling, arguments.read)
    if arguments.write is not None:
        refuse_ours(arguments.write, root=session.workspace.root, store=session.store_path)
        _refuse_filled(arguments.write)
        with session.reader() as reader:
            _write_sheet(arguments.write, sample, reader)
    if arguments.json:
        out_json("labelling", _as_json(labelling))
    else:
        for line in progress_lines(labelling, arguments.write):
            out(line)
    return DONE


def opened_sample(arguments: LabelCommand) -> PersonSample:
    """The sample that the command asks for. Raises `CrosswindError`."""
    session = open_session(arguments.workspace)
    size = SAMPLE_SIZE if arguments.sample is None else arguments.sample
    name = session.one_benchmark(arguments.benchmark)
    words = (name, arguments.by, size, arguments.seed or SAMPLE_SEED)
    sample = PersonSample.open(session, *words, new=arguments.new)
    for line in _goes_on(sample.labelling, arguments):
        tell(f"note: {line}")
    return sample


def _goes_on(progress: LabellingProgress, arguments: LabelCommand) -> Iterator[str]:
    """Notes for options that ask for another sample than the one that is continued."""
    sample = progress.sample
    asked = {
        f"--sample {arguments.sample}": arguments.sample not in {None, len(sample.items)},
        f"--seed {arguments.seed}": arguments.seed not in {None, sample.seed},
        "--new": arguments.new and bool(progress.given),
    }
    for word in (word for word, is_another in asked.items() if is_another and progress.given):
        yield (
            f"{word} is for the next sample: {sample.person} continues the one of "
            f"{len(sample.items)} (seed {sample.seed}), and --new draws another when it is finished"
        )


def _refuse_filled(path: Path) -> None:
    """Raise `InputError` for a file that is no sheet, or one that somebody filled in."""
    if path.exists() and not is_stream(path) and read_sheet(path):
        hint = "read its labels with --import first, and name another file"
        raise InputError(Problem("this sheet is filled in; it was not replaced", path, hint=hint))


def _write_sheet(path: Path, sample: PersonSample, reader: Reader) -> None:
    progress, definition = sample.labelling, sample.definition
    items = (blind_item(progress, number, reader, definition) for number in progress.open)
    hidden = map(sample.session.hide, items)
    rows = ((item.number, item.definition, item.messages) for item in hidden)
    content = "".join(sheet_lines(progress.sample.seq, rows))
    try:
        write_named(path, ["\ufeff", content])
    except OSError as error:
        raise InputError(Problem(f"cannot be written: {error.strerror}", path)) from error


def _take_in(
    session: Session, definition: Definition, progress: LabellingProgress, path: Path
) -> LabellingProgress:
    """Store every row of a filled-in sheet, or none. Raises `InputError` with all faulty rows."""
    with session.reader() as reader:
        problems: list[Problem] = []
        new: list[NumberedLabel] = []
        rows: dict[int, Verdict] = {}
        seen: dict[int, int] = {}
        for row in read_sheet(path):
            try:
                number, label = _label_of_row(row, progress, seen)
                verdict = label_verdict(
                    progress,
                    number,
                    label,
                    reader=reader,
                    definition=definition,
                    jury=session.config.jury,
                )
            except InputError as error:
                problems += [
                    replace(problem, what=f"row {row.row}: {problem.what}", path=path)
                    for problem in error.problems
                ]
                continue
            before = progress.given.get(number)
            if before is not None and _says_the_same(before, verdict):
                continue
            if number in progress.gone:
                cell = "empty" if before is None else "as it was"
                what = f"row {row.row}: {_gone_words(number)}: leave it {cell}"
                problems.append(Problem(what, path))
                continue
            new.append(NumberedLabel(number, label))
            rows[number] = verdict
    if problems:
        raise InputError(problems)
    if new:
        request = LabelRequest(definition.name, sample=progress.sample.seq, labels=tuple(new))
        write_labels(session, request)
    return LabellingProgress(progress.sample, {**progress.given, **rows}, progress.gone)


def _gone_words(number: int) -> str:
    return f"number {number} was played again since, or is no longer asked for"


def _says_the_same(before: Verdict, now: Verdict) -> bool:
    said = attrgetter("present", "unscored", "marks", "justification", "confidence")
    return bool(said(before) == said(now))


def _label_of_row(
    row: LabelSheetRow, progress: LabellingProgress, seen: dict[int, int]
) -> tuple[int, GivenLabel]:
    """The number and label of a row. `seen` has the row of each number before it, and gains this
    one. Raises `InputError`."""
    if row.sample != str(progress.sample.seq):
        raise InputError(
            Problem(
                f"sample: found {shortened(row.sample)!r}, expected {progress.sample.seq}",
                hint=f"this table is not the sample that {progress.sample.person} is labelling",
            )
        )
    number = _whole_number(row.number, "number")
    progress.item(number)
    if number in seen:
        raise InputError(Problem(f"number {number} is in row {seen[number]}, too"))
    seen[number] = row.row
    answer = _WORDS.get(row.answer.casefold())
    if answer is None:
        expected = ", ".join(f"`{known.value}`" for known in LabelAnswer)
        raise InputError(Problem(f"answer: found {shortened(row.answer)!r}, expected {expected}"))
    confidence = _whole_number(row.confidence, "confidence") if row.confidence else None
    if confidence not in {None, 1, 2, 3}:
        raise InputError(Problem(f"confidence: found {confidence}, expected 1, 2 or 3"))
    replies = tuple(_whole_number(word, "replies") for word in row.replies.split())
    return number, GivenLabel(answer, replies, row.note, confidence)


def shortened(text: str) -> str:
    return text if len(text) <= 40 else f"{text[:39]}…"


def _whole_number(text: str, column: str) -> int:
    if not (text.isascii() and text.isdigit() and len(text) < 7):
        raise InputError(Problem(f"{column}: found {shortened(text)!r}, expected a whole number"))
    return int(text)


def progress_lines(progress: LabellingProgress, written: Path | None = None) -> Iterator[str]:
    """A person's progress and the next step; `written` is the sheet that was exported, if any."""
    sample = progress.sample
    yield (
        f"{sample.person} has labelled {len(progress.given)} of {len(sample.items)} conversations "
        f"of {sample.benchmark} (seed {sample.seed})"
    )
    if progress.gone:
        of = plural(len(progress.gone), "conversation")
        yield f"{of} of them left out: played again since, or no longer asked for"
    if written is not None:
        yield f"{plural(len(progress.open), 'conversation')} to label: {written}"
    elif progress.is_done:
        yield f"done: `crosswind calibrate {sample.benchmark}` compares the judge with these labels"


def _as_json(progress: LabellingProgress) -> dict[str, Any]:
    """Contains nothing that identifies the conversations."""
    return {
        "benchmark": progress.sample.benchmark,
        "person": progress.sample.person,
        "sample": progress.sample.seq,
        "seed": progress.sample.seed,
        "size": len(progress.sample.items),
        "labelled": sorted(progress.given),
        "open": progress.open,
        "replaced": sorted(progress.replaced),
    }


# What people disagree on


def _decide(arguments: LabelCommand) -> int:
    disputes = opened_disputes(arguments)
    if not arguments.decide:
        _tell_disputed(disputes.disputes, as_json=arguments.json)
        return DONE
    known = {dispute.short_id: dispute for dispute in disputes.disputes}
    dispute = known.get(arguments.decide)
    if dispute is None:
        raise not_disputed(disputes.definition.name, arguments.decide)
    reason = arguments.reason or ""
    if arguments.present == arguments.absent or not reason.strip():
        raise InputError(Problem("a decision takes `--present` or `--absent`, and `--reason`"))
    disputes.decide(dispute, present=arguments.present, reason=reason)
    answer = LabelAnswer.PRESENT if arguments.present else LabelAnswer.ABSENT
    out(f"{arguments.decide}: {answer}, decided by {disputes.person}")
    return DONE


def opened_disputes(arguments: LabelCommand) -> PersonDisputes:
    """The disputes of the benchmark. Raises `CrosswindError`."""
    session = open_session(arguments.workspace)
    name = session.one_benchmark(arguments.benchmark)
    return PersonDisputes.open(session, name, arguments.by)


def _tell_disputed(disputes: Sequence[Dispute], *, as_json: bool) -> None:
    if as_json:
        out_json(
            "disputes",
            [
                {
                    "id": dispute.short_id,
                    "definition": dispute.item.definition,
                    "messages": [
                        {"turn": row.turn, "speaker": row.speaker, "text": row.text}
                        for row in dispute.item.messages
                    ],
                    "labels": [
                        {
                            "person": verdict.judge,
                            "answer": answer_given(verdict),
                            "present": verdict.present,
                            "replies": [quote.turn for quote in verdict.quotes],
                            "note": verdict.justification,
                            "confidence": verdict.confidence,
                        }
                        for verdict in dispute.labels
                    ],
                }
                for dispute in disputes
            ],
        )
        return
    if not disputes:
        out("there is nothing to decide: people agree wherever several have labelled")
    for dispute in disputes:
        out(f"{dispute.short_id}: {one_line(dispute.item.definition)}")
        for verdict in dispute.labels:
            replies = ", ".join(str(quote.turn) for quote in verdict.quotes)
            where = f" (reply {replies})" if replies else ""
            note = f": {one_line(verdict.justification)}" if verdict.justification else ""
            out(f"  {verdict.judge}: {answer_given(verdict)}{where}{note}")
    if disputes:
        tell("a terminal shows them beside the transcripts, to decide with keys; so does `--json`")


_PAGE: Final = "calibration.html"


def run_calibrate(arguments: CalibrateCommand) -> int:
    session = open_to_read(arguments.workspace)
    if not 0 < arguments.width < 1:
        raise InputError(Problem("--width: expected a share above 0 and below 1, such as 0.1"))
    definition = definition_of(session, session.one_benchmark(arguments.benchmark))
    page = None if arguments.html is None else checked_path(arguments.html or _PAGE)
    with session.reader() as reader:
        labelled = LabelledJudges.of(definition, session.config, reader)
    if labelled is None:
        hint = f"`crosswind label {definition.name}` draws a sample"
        raise InputError(Problem(f"nobody has labelled {definition.name} yet", hint=hint))
    if arguments.compare is not None and page is None:
        return _compare(labelled, *arguments.compare, as_json=arguments.json)
    judges = [arguments.judge] if arguments.judge else labelled.judges
    compared = list(_compared_lines(labelled, *arguments.compare)) if arguments.compare else []
    calibrations = [
        labelled.calibration(judge, arguments.width) for judge in arguments.compare or judges
    ]
    if page is not None:
        notes, now = [*compared, *labelled.notes()], datetime.now(UTC)
        scripted = labelled.scripted
        content = calibration_page(labelled.title, calibrations, notes, now, scripted=scripted)
        write_page(session, page, content, [labelled.benchmark])
    elif arguments.json:
        out_json("calibration", [_calibration_as_json(one, labelled) for one in calibrations])
    else:
        _print_calibrations(labelled, calibrations)
    return DONE


def _print_calibrations(labelled: LabelledJudges, calibrations: Sequence[Calibration]) -> None:
    for calibration in calibrations:
        against = against_words(calibration, len(labelled.labels.disputed))
        out(f"{calibration.judge} against {against}")
        for line in section_lines(calibration_sections(calibration), NARROW_LAYOUT):
            out(line)
        out()
    for line in labelled.notes():
        out(line)


def _compare(labelled: LabelledJudges, left: str, right: str, *, as_json: bool) -> int:
    splits = labelled.compared(left, right)
    if as_json:
        out_json("judges", {"left": left, "right": right, "splits": list(map(asdict, splits))})
        return DONE
    for line in (*_compared_lines(labelled, left, right), *labelled.notes()):
        out(line)
    return DONE


def _compared_lines(labelled: LabelledJudges, left: str, right: str) -> Iterator[str]:
    yield from comparison_lines(left, right, labelled.compared(left, right))
    yield (
        f"{Split.DEV} and {Split.TEST} are halves of the base scenarios by a hash of their names: "
        f"develop a judge on {Split.DEV}, report {Split.TEST}"
    )


def _calibration_as_json(calibration: Calibration, labelled: LabelledJudges) -> dict[str, Any]:
    labels = labelled.labels
    left_out = {
        "cannot_tell": labels.cannot_tell,
        "disputed": len(labels.disputed),
        "replaced": labels.replaced,
    }
    # with so few labels only counts are reported, as in the text output
    few = {"accuracy": None, "agreement": None} if calibration.labels < LEAST_LABELS else {}
    return {
        **asdict(calibration),
        **few,
        "people": dict(labels.people),
        "left_out": left_out,
        "earlier_definition": labels.earlier_definition,
        "rule": labelled.people.rule,
    }
