"""Holds a judge against what people labelled: calibrate."""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from typing import Any, Final

from engine.analysis.calibration import Calibration, Split
from engine.analysis.calibration_words import calibration_lines, comparison_lines, confusion_words
from engine.cli.console import out, out_json
from engine.cli.person_labels import definition_of
from engine.cli.reporting import page_path, unpublished_words, write_page
from engine.cli.session import open_to_read
from engine.errors import DONE, InputError, Problem
from engine.pipeline.calibrations import LabelledJudges

_PAGE: Final = "calibration.html"


def run_calibrate(arguments: argparse.Namespace) -> int:
    session = open_to_read(arguments)
    if not 0 < arguments.width < 1:
        raise InputError(Problem("--width: expected a share above 0 and below 1, such as 0.1"))
    definition = definition_of(session, arguments.benchmark)
    page = None if arguments.html is None else page_path(arguments.html, _PAGE)
    with session.reader() as reader:
        hidden = {} if page is None else unpublished_words(session, reader, [definition.name])
        labelled = LabelledJudges.of(definition, session.config, reader)
    if labelled is None:
        hint = f"`crosswind label {definition.name}` draws a sample"
        raise InputError(Problem(f"nobody has labelled {definition.name} yet", hint=hint))
    if arguments.compare is not None and page is None:
        return _compare(labelled, arguments)
    judges = [arguments.judge] if arguments.judge else labelled.judges
    compared = list(_compared_lines(labelled, *arguments.compare)) if arguments.compare else []
    found = [labelled.calibration(one, arguments.width) for one in arguments.compare or judges]
    if page is not None:
        write_page(page, _page(labelled, found, compared), hidden)
    elif arguments.json:
        out_json([_as_json(one, labelled) for one in found])
    else:
        _tell(labelled, found)
    return DONE


def _page(labelled: LabelledJudges, found: Sequence[Calibration], compared: Sequence[str]) -> str:
    # 22 ms for the templates, which lines do without
    from engine.report.html.page import calibration_page

    notes = [*compared, *labelled.notes()]
    now = datetime.now(UTC)
    return calibration_page(labelled.title, found, notes, now, scripted=labelled.scripted)


def _tell(labelled: LabelledJudges, found: Sequence[Calibration]) -> None:
    for one in found:
        for line in calibration_lines(one):
            out(line)
        for confusion in one.confusions:
            out(f"  {confusion.conv_id}: {confusion_words(confusion, one.judge)}")
        out()
    for line in labelled.notes():
        out(line)


def _compare(labelled: LabelledJudges, arguments: argparse.Namespace) -> int:
    left, right = arguments.compare
    found = labelled.compared(left, right)
    if arguments.json:
        out_json({"left": left, "right": right, "splits": [asdict(each) for each in found]})
        return DONE
    for line in (*_compared_lines(labelled, left, right), labelled.people.rule):
        out(line)
    return DONE


def _compared_lines(labelled: LabelledJudges, left: str, right: str) -> Iterator[str]:
    yield from comparison_lines(left, right, labelled.compared(left, right))
    yield (
        f"{Split.DEV} and {Split.TEST} are halves of the base scenarios by a hash of their names: "
        f"develop a judge on {Split.DEV}, report {Split.TEST}"
    )


def _as_json(one: Calibration, labelled: LabelledJudges) -> dict[str, Any]:
    labels = labelled.labels
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
        "rule": labelled.people.rule,
    }
