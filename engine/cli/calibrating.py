"""Holds a judge against what people labelled: calibrate."""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import asdict, replace
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
from engine.cli.labelling import answer_word, shortened
from engine.cli.person_sample import definition_of
from engine.cli.session import Session, open_to_read
from engine.config.benchmark_file import Definition
from engine.display import plural
from engine.errors import DONE, InputError, Problem
from engine.jury import HUMAN, People, newest, what_counts
from engine.pipeline.labels import JudgedConversation, Labels, judged_conversations, labels_of
from engine.store.reading import open_reader


def run_calibrate(arguments: argparse.Namespace) -> int:
    session = open_to_read(arguments)
    if not 0 < arguments.width < 1:
        raise InputError(Problem("--width: expected a share above 0 and below 1, such as 0.1"))
    definition = definition_of(session, arguments.benchmark)
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
            out(f"  {conv_id}: people {answer_word(present)}, {one.judge} {said}")
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
        raise InputError(Problem(f"no judge {shortened(judge)!r} has judged this: {named} has"))
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
