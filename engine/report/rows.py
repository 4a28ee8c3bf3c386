"""A conversation as a JSON object, and as lines of a table."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterable, Iterator
from typing import Any, Final

from engine.benchmark import Speaker
from engine.display import clean
from engine.report.selection import Conversation
from engine.store.records import others_of
from engine.store.tables import MessageRow, Verdict

COLUMNS: Final = (
    "benchmark conv_id id metric_id metric_name metric_type target model sample take user_model "
    "stop_reason turns demographic passed unscored judge source pass verdict_metric_id "
    "verdict_present verdict_passed verdict_unscored justification quotes scripted "
    "target_served_by user_served_by judge_served_by"
).split()
"""Of the CSV: one line for each verdict, and one for a conversation without any."""

_DANGEROUS: Final = tuple("=+-@\t\r")
"""A spreadsheet takes a cell that begins so for a formula."""


def json_lines(conversations: Iterable[Conversation]) -> Iterator[str]:
    """Everything escaped that is not plain: no terminal and no old tool stumbles over it."""
    for one in conversations:
        yield json.dumps(as_object(one), ensure_ascii=True, allow_nan=False) + "\n"


def as_object(one: Conversation) -> dict[str, Any]:
    take, scenario, metric = one.take, one.scenario, one.metric
    set_up: dict[str, Any] = {}
    if scenario is not None:
        set_up = {
            "persona": scenario.persona,
            "user_goal": scenario.user_goal,
            "latent_adversarial_goal": scenario.latent_adversarial_goal,
            "landmarks": [
                {"turn": mark.turn, "instruction": mark.instruction} for mark in scenario.landmarks
            ],
            "demographic": dict(scenario.demographic),
        }
    note = {"note": one.scripted_note} if one.scripted else {}
    return {
        "benchmark": one.benchmark,
        "conv_id": str(take.key),
        "id": take.key.scenario_id,
        "metric_id": None if scenario is None else scenario.metric_id,
        "metric_name": None if metric is None else metric.name,
        "metric_type": None if metric is None else metric.track.value,
        **set_up,
        "target": {"id": take.key.target_id, "model": take.model},
        "user_model": take.user_model,
        "sample": take.key.sample,
        "take": take.number,
        "stop_reason": None if take.stop_reason is None else take.stop_reason.value,
        "scripted": one.scripted,
        **note,
        "transcript": [_message(message) for message in one.messages],
        "passed": one.passed,
        "unscored": one.unscored,
        "verdicts": [_verdict(verdict) for verdict in one.verdicts],
    }


def _message(message: MessageRow) -> dict[str, Any]:
    said = {"role": message.speaker.value, "content": message.text, "turn": message.turn}
    if message.served_by is not None:
        said["served_by"] = message.served_by
    if message.speaker is Speaker.USER:
        return {**said, "landmark": message.landmark, "thought": message.thought}
    reasoning = {} if message.reasoning is None else {"reasoning": message.reasoning}
    return {**said, "finish": message.finish, **reasoning}


def _verdict(verdict: Verdict) -> dict[str, Any]:
    return {
        "metric_id": verdict.metric_id,
        "judge": verdict.judge,
        "source": verdict.source,
        "pass": verdict.number,
        "present": verdict.present,
        "passed": verdict.passed,
        "unscored": verdict.unscored,
        "justification": verdict.justification,
        "quotes": [{"text": quote.text, "turn": quote.turn} for quote in verdict.quotes],
        **({} if verdict.served_by is None else {"served_by": verdict.served_by}),
    }


def csv_lines(conversations: Iterable[Conversation]) -> Iterator[str]:
    yield _csv_line(COLUMNS)
    for one in conversations:
        for verdict in one.verdicts or (None,):
            fields = _fields(one, verdict)
            yield _csv_line([cell(fields[column]) for column in COLUMNS])


def _fields(one: Conversation, verdict: Verdict | None) -> dict[str, object]:
    whole = as_object(one)
    told = {} if verdict is None else _verdict(verdict)
    return {
        **whole,
        "target": one.take.key.target_id,
        "model": one.take.model,
        "turns": len(one.messages) // 2,
        "demographic": whole.get("demographic") or "",
        **{name: told.get(name) for name in ("judge", "source", "pass", "justification")},
        "quotes": told.get("quotes") or "",
        "verdict_metric_id": told.get("metric_id"),
        "verdict_present": told.get("present"),
        "verdict_passed": told.get("passed"),
        "verdict_unscored": told.get("unscored"),
        "target_served_by": others_of(one.messages, Speaker.TARGET) or "",
        "user_served_by": others_of(one.messages, Speaker.USER) or "",
        "judge_served_by": told.get("served_by"),
    }


def cell(value: object) -> str:
    """Text that a spreadsheet shows and does not run."""
    match value:
        case None:
            return ""
        case bool():
            return "true" if value else "false"
        case int() | float():
            return str(value)
        case str():
            text = clean(value)
        case _:
            text = clean(json.dumps(value, ensure_ascii=False))
    return f"'{text}" if text.lstrip(" ").startswith(_DANGEROUS) else text


def _csv_line(cells: Iterable[str]) -> str:
    line = io.StringIO()
    csv.writer(line, lineterminator="\r\n").writerow(cells)
    return line.getvalue()
