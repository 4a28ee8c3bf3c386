"""Stores what people say about conversations, through the running engine or without one."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import closing

from engine.config.benchmark_file import Definition, load_definition
from engine.config.schema import Config, config_of
from engine.display import plural
from engine.errors import InputError, Problem
from engine.jury import WITHDRAWN
from engine.people import (
    Decision,
    GivenLabel,
    LabelAnswer,
    LabelRequest,
    SampleDraw,
)
from engine.pipeline.files import write_files
from engine.pipeline.labelling.labels import (
    JudgedConversation,
    LabellingProgress,
    adjudication,
    check_person,
    draw_sample,
    judged_conversations,
    label_verdict,
    labels_of,
    withdrawal_of,
)
from engine.pipeline.run import Pipeline
from engine.store.open_reader import open_reader
from engine.store.reader import Reader
from engine.store.tables import LabelSampleRow, StoredRow, Verdict


async def store_labels(pipeline: Pipeline, request: LabelRequest) -> str:
    """Store a request and return what was stored, in words; `mirror_labels` then updates the files.
    Raises `InputError` with every fault, or `StoreError`; nothing is stored then."""
    rows, words = await asyncio.to_thread(_rows, pipeline, request)
    await pipeline.store.write(*rows)
    return words


async def mirror_labels(pipeline: Pipeline, benchmark: str) -> None:
    """Write the benchmark's files, labels included. Raises `InputError` and `StoreError`."""
    await write_files(pipeline.context_of(_definition(pipeline, benchmark)))


def _definition(pipeline: Pipeline, benchmark: str) -> Definition:
    pipeline.workspace.require_benchmarks([benchmark])
    return load_definition(pipeline.workspace.definition_path(benchmark))


def _rows(pipeline: Pipeline, request: LabelRequest) -> tuple[Sequence[StoredRow], str]:
    definition = _definition(pipeline, request.benchmark)
    config = config_of(pipeline.config, definition.name)
    # runs on a thread of its own, so it opens its own reader
    with closing(open_reader(pipeline.store.path)) as reader:
        if request.draw is not None:
            drawn = _sample_row(definition, config, reader, request.draw)
            return [drawn], f"{plural(len(drawn.items), 'conversation')} drawn"
        if request.decision is not None:
            row = _adjudicated_verdict(definition, config, reader, request.decision)
            back = request.decision.present is None
            return [row], f"taken back by {row.judge}" if back else f"decided by {row.judge}"
        rows = _labelled(definition, config, reader, request)
        return rows, f"{plural(len(rows), 'label')} stored"


def _sample_row(
    definition: Definition, config: Config, reader: Reader, draw: SampleDraw
) -> LabelSampleRow:
    check_person(reader.label_samples(definition.name), draw.person, draw.account)
    return draw_sample(
        definition.name,
        judged_conversations(definition, config, reader),
        size=draw.size,
        seed=draw.seed,
        person=draw.person,
        account=draw.account,
    )


def _labelled(
    definition: Definition, config: Config, reader: Reader, request: LabelRequest
) -> list[Verdict]:
    samples = reader.label_samples(definition.name)
    sample = next((sample for sample in samples if sample.seq == request.sample), None)
    if sample is None:
        raise InputError(Problem(f"there is no sample {request.sample} of {definition.name}"))
    unlabelled = LabellingProgress(sample, {}, frozenset())
    counting = reader.counting_among({item.take for item in sample.items})
    rows: list[Verdict] = []
    problems: list[Problem] = []
    for label in request.labels:
        given = label.said or GivenLabel(LabelAnswer.CANNOT_TELL)
        try:
            if unlabelled.item(label.number).take not in counting:
                what = f"number {label.number} has been played again since: leave it out"
                problems.append(Problem(what))
                continue
            row = label_verdict(
                unlabelled,
                label.number,
                given,
                reader=reader,
                definition=definition,
                jury=config.jury,
            )
        except InputError as error:
            problems += error.problems
            continue
        rows.append(row if label.said is not None else withdrawal_of(row, config.jury))
    if problems:
        raise InputError(problems)
    return rows


def _adjudicated_verdict(
    definition: Definition, config: Config, reader: Reader, decision: Decision
) -> Verdict:
    judged = judged_conversations(definition, config, reader)
    if decision.present is None:
        return _taken_back(judged, config, reader, definition, decision)
    disputed = labels_of(judged, reader.peoples_verdicts(definition.name)).disputed
    conversation = {str(conversation.key): conversation for conversation, _ in disputed}.get(
        decision.conversation
    )
    if conversation is None:
        raise not_disputed(definition.name, decision.conversation)
    return adjudication(
        conversation,
        present=decision.present,
        reason=decision.reason,
        by=decision.by,
        reader=reader,
        jury=config.jury,
    )


def _taken_back(
    judged: Sequence[JudgedConversation],
    config: Config,
    reader: Reader,
    definition: Definition,
    decision: Decision,
) -> Verdict:
    items = {
        conversation.item
        for conversation in judged
        if str(conversation.key) == decision.conversation
    }
    mine = [
        verdict
        for verdict in reader.peoples_verdicts(definition.name)
        if verdict.adjudicates
        and verdict.judge == decision.by
        and (verdict.take, verdict.metric_id) in items
    ]
    if not mine or mine[-1].unscored == WITHDRAWN:
        raise InputError(Problem(f"{decision.by} has decided nothing there that could be undone"))
    return withdrawal_of(mine[-1], config.jury)


def not_disputed(benchmark: str, conversation: str) -> InputError:
    """The error for a conversation without a dispute: agreed on, unlabelled, or already decided."""
    shown = conversation if len(conversation) <= 40 else f"{conversation[:39]}…"
    hint = f"`crosswind label {benchmark} --decide` lists what they disagree on"
    return InputError(Problem(f"people do not disagree on {shown!r}", hint=hint))
