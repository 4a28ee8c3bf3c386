"""Conversations as logs of Inspect (inspect_ai, log format 2): one for each benchmark and target.

A conversation is a sample, with the scenario's id and the sample's number, from 1, as its epoch.
Each judge and pass is a scorer, and so is `counts`, what counts for the conversation: C is a pass,
I a fail. What is unscored is no score, as Inspect counts its `N` as a fail, but is in the sample's
metadata, as is what Inspect has no field for.
"""

from __future__ import annotations

import io
import json
import zipfile
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from hashlib import blake2b
from importlib.metadata import version
from typing import Any, Final

from engine.benchmark import Role, Speaker, Track, Usage
from engine.report.conversation import Conversation
from engine.store.mirror_rows import metric_values, scenario_values
from engine.store.tables import MessageRow, Verdict

VERSION: Final = 2
"""The version of Inspect's log format."""
COUNTS: Final = "counts"
"""The scorer with what counts for a conversation."""
_VALUES: Final[Mapping[bool | None, str | None]] = {True: "C", False: "I", None: None}
UNSCORED: Final = "unscored"
"""The key of a sample's metadata with the scores that are none."""
_SHOULD_BE: Final = {Track.POSITIVE: "present", Track.NEGATIVE: "absent"}
_ANSWERS: Final = {True: "present", False: "absent", None: None}
_FINISHES: Final = {
    "length": "max_tokens",
    "refusal": "content_filter",
    "content_filter": "content_filter",
    "context_full": "model_length",
}
"""Our finish reasons that Inspect calls something else than `stop`."""

Used = Mapping[str, Mapping[tuple[Role, str], Usage]]
"""By conversation, the usage of each model in each role."""


@dataclass(frozen=True, slots=True)
class LogOf:
    """The benchmark and target of a log."""

    benchmark: str
    title: str
    description: str
    target: str
    epochs: int
    used: Used = field(default_factory=dict)


def eval_file(about: LogOf, conversations: Iterable[Conversation]) -> tuple[str, bytes] | None:
    """The name and content of a `.eval` file; None where there is no conversation."""
    written, summaries = io.BytesIO(), []
    with zipfile.ZipFile(written, "w", zipfile.ZIP_DEFLATED) as archive:
        for conversation in conversations:
            sample = _sample(conversation, about)
            summaries.append(_summary(sample))
            name = f"samples/{sample['id']}_epoch_{sample['epoch']}.json"
            archive.writestr(_entry(name), _text(sample))
        if not summaries:
            return None
        header = _header(about, conversation, summaries)
        start = {name: header[name] for name in ("version", "eval", "plan")}
        archive.writestr(_entry("_journal/start.json"), _text(start))
        archive.writestr(_entry("summaries.json"), _text(summaries))
        archive.writestr(_entry("header.json"), _text(header))
    return f"{_file_name(about, header)}.eval", written.getvalue()


def json_file(about: LogOf, conversations: Iterable[Conversation]) -> tuple[str, bytes] | None:
    """The name and content of a `.json` log, which is easier to read for other programs; None where
    there is no conversation."""
    samples = []
    for conversation in conversations:
        samples.append(_sample(conversation, about))
    if not samples:
        return None
    header = _header(about, conversation, [_summary(sample) for sample in samples])
    return f"{_file_name(about, header)}.json", _text({**header, "samples": samples}).encode()


def _file_name(about: LogOf, header: Mapping[str, Any]) -> str:
    """Without its ending, as Inspect names its own."""
    when = header["eval"]["created"].replace(":", "-")
    return f"{when}_{about.benchmark}_{about.target}"


def _entry(name: str) -> zipfile.ZipInfo:
    """An entry without a time of its own, so that the same conversations make the same file."""
    entry = zipfile.ZipInfo(name, (1980, 1, 1, 0, 0, 0))
    entry.compress_type = zipfile.ZIP_DEFLATED
    return entry


def _text(value: object) -> str:
    return json.dumps(value, ensure_ascii=True, allow_nan=False)


_SUMMED: Final = (
    *("id", "epoch", "input", "target", "metadata", "scores", "model_usage", "role_usage"),
    *("started_at", "uuid", "completed_at", "total_time"),
)


def _summary(sample: Mapping[str, Any]) -> dict[str, Any]:
    summary = {name: sample[name] for name in _SUMMED}
    summary |= {"completed": "error" not in sample, "message_count": len(sample["messages"])}
    if "error" in sample:
        summary["error"] = sample["error"]["message"]
    return summary


def _header(
    about: LogOf, last: Conversation, summaries: Sequence[Mapping[str, Any]]
) -> dict[str, Any]:
    """The header of a log of these samples, of which `last` is the last one's conversation."""
    ids = list(dict.fromkeys(summary["id"] for summary in summaries))
    scores: defaultdict[str, list[str]] = defaultdict(list)
    for summary in summaries:
        for name, score in summary["scores"].items():
            scores[name].append(score["value"])
    judges = sorted(name for name in scores if name != COUNTS)
    starts = [summary["started_at"] for summary in summaries]
    began = min((start for start in starts if start != _time(0)), default=_time(0))
    return {
        "version": VERSION,
        "status": "success",
        "eval": {
            **_eval(about, last, began, ids),
            "scorers": [{"name": name} for name in (COUNTS, *judges)],
        },
        "plan": {
            "name": "plan",
            "steps": [{"solver": "user_model", "params": {"model": last.take.user_model}}],
        },
        "results": {
            "total_samples": len(summaries),
            "completed_samples": sum(summary["completed"] for summary in summaries),
            "scores": [
                _score_sums(name, scores[name], len(summaries)) for name in (COUNTS, *judges)
            ],
        },
        "stats": {
            "started_at": began,
            "completed_at": max(summary["completed_at"] for summary in summaries),
            "model_usage": _usage_sums(summary["model_usage"] for summary in summaries),
            "role_usage": _usage_sums(summary["role_usage"] for summary in summaries),
        },
    }


def _eval(about: LogOf, last: Conversation, began: str, ids: Sequence[str]) -> dict[str, Any]:
    """What was evaluated; `ids` are those of the samples."""
    return {
        "eval_id": _id(about.benchmark, about.target, began),
        "run_id": _id(about.benchmark, began),
        "created": began,
        "task": about.benchmark,
        "task_id": _id(about.benchmark),
        "task_version": 0,
        "task_display_name": about.title,
        "task_description": about.description,
        "dataset": {
            "name": about.benchmark,
            "samples": len(ids),
            "sample_ids": ids,
            "shuffled": False,
        },
        "model": last.take.model,
        "model_roles": {"user": {"model": last.take.user_model}},
        "config": {"epochs": about.epochs},
        "packages": {"crosswind": version("crosswind")},
        "metadata": {"target": about.target},
    }


def _score_sums(name: str, values: Sequence[str], samples: int) -> dict[str, Any]:
    score: dict[str, Any] = {
        "name": name,
        "scorer": name,
        "scored_samples": len(values),
        "unscored_samples": samples - len(values),
        "metrics": {},
    }
    if values:
        rate = values.count("C") / len(values)
        score["metrics"] = {"accuracy": {"name": "accuracy", "value": rate}}
    return score


def _usage_sums(
    used: Iterable[Mapping[str, Mapping[str, int]]],
) -> dict[str, dict[str, int]]:
    """The sums by name and kind of token."""
    sums: dict[str, dict[str, int]] = {}
    for usages in used:
        for name, usage in usages.items():
            of_name = sums.setdefault(name, {})
            for part, amount in usage.items():
                of_name[part] = of_name.get(part, 0) + amount
    return sums


# A conversation


def _sample(conversation: Conversation, about: LogOf) -> dict[str, Any]:
    take = conversation.take
    ended = _end_time(conversation)
    used = sorted(about.used.get(str(take.key), {}).items())
    messages = [_message(conversation, message) for message in conversation.messages]
    given = dict(_scores(conversation))
    scores = {name: score for name, score in given.items() if score["value"] is not None}
    unscored = {name: score for name, score in given.items() if name not in scores}
    sample: dict[str, Any] = {
        "id": take.key.scenario_id,
        "epoch": take.key.sample + 1,
        "input": conversation.messages[0].text if conversation.messages else "",
        "target": "" if conversation.metric is None else _SHOULD_BE[conversation.metric.track],
        "messages": messages,
        "output": _output(conversation),
        "events": list(_events(conversation)),
        "events_data": {"messages": messages, "calls": []},
        "scores": scores,
        "metadata": {**_metadata(conversation), **({UNSCORED: unscored} if unscored else {})},
        "model_usage": _usage_sums({model: _usage(usage)} for (_, model), usage in used),
        "role_usage": _usage_sums({str(role): _usage(usage)} for (role, _), usage in used),
        "started_at": _time(take.at or 0),
        "completed_at": _time(ended),
        "total_time": max(0.0, (ended - (take.at or 0)) / 1000),
        "uuid": _id(conversation.benchmark, str(take.key), str(take.number)),
    }
    if not take.finished:
        why = take.detail or (take.stop_reason or "interrupted")
        sample["error"] = {"message": str(why), "traceback": "", "traceback_ansi": ""}
    return sample


def _message(conversation: Conversation, message: MessageRow) -> dict[str, Any]:
    # Inspect takes messages with the same id for one, across all logs that it reads together
    own = _id(
        conversation.benchmark,
        str(conversation.take.key),
        str(conversation.take.number),
        str(message.turn),
    )
    metadata: dict[str, Any] = {"turn": message.turn}
    if message.speaker is Speaker.USER:
        metadata |= {"landmark": message.landmark, "thought": message.thought}
        return {
            "id": f"{own}-user",
            "role": "user",
            "content": message.text,
            "metadata": metadata,
        }
    if message.served_by is not None:
        metadata["served_by"] = message.served_by
    content: str | list[dict[str, str]] = message.text
    if message.reasoning:
        content = [
            {"type": "reasoning", "reasoning": message.reasoning},
            {"type": "text", "text": message.text},
        ]
    return {
        "id": f"{own}-assistant",
        "role": "assistant",
        "content": content,
        "source": "generate",
        "model": conversation.take.model,
        "metadata": metadata,
    }


def _output(conversation: Conversation, reply: MessageRow | None = None) -> dict[str, Any]:
    """The output of this reply, or of the last one."""
    replies = [message for message in conversation.messages if message.speaker is Speaker.TARGET]
    if not replies:
        return {"model": conversation.take.model, "choices": []}
    reply = reply or replies[-1]
    stop = _FINISHES.get(reply.finish, "stop")
    return {
        "model": conversation.take.model,
        "choices": [{"message": _message(conversation, reply), "stop_reason": stop}],
    }


def _events(conversation: Conversation) -> Iterator[dict[str, Any]]:
    """A model event for each reply of the target; its input refers to the messages in
    `events_data`."""
    began = conversation.take.at or 0
    for place, message in enumerate(conversation.messages):
        if message.speaker is not Speaker.TARGET:
            continue
        at = message.at or began
        yield {
            "event": "model",
            "uuid": _id(
                conversation.benchmark,
                str(conversation.take.key),
                str(conversation.take.number),
                "call",
                str(place),
            ),
            "timestamp": _time(at),
            "working_start": max(0.0, (at - began) / 1000),
            "model": conversation.take.model,
            "input": [],
            "input_refs": [[0, place]],
            "tools": [],
            "tool_choice": "none",
            "config": {},
            "output": _output(conversation, message),
        }


def _scores(conversation: Conversation) -> Iterator[tuple[str, dict[str, Any]]]:
    """What counts, then the newest verdict of each judge and pass."""
    if not conversation.verdicts:
        return
    shown = next(
        (
            verdict
            for verdict in reversed(conversation.verdicts)
            if verdict.passed is conversation.passed
        ),
        None,
    )
    why = {} if conversation.unscored is None else {"unscored": conversation.unscored}
    yield (
        COUNTS,
        {
            "value": _VALUES[conversation.passed],
            "answer": None if shown is None else _ANSWERS[shown.present],
            "explanation": None if shown is None else shown.justification,
            "metadata": why,
        },
    )
    newest = {(verdict.judge, verdict.number): verdict for verdict in conversation.verdicts}
    for (judge, number), verdict in newest.items():
        yield judge if not number else f"{judge}, pass {number + 1}", _score(verdict)


def _score(verdict: Verdict) -> dict[str, Any]:
    metadata: dict[str, Any] = {
        "quotes": [{"text": quote.text, "turn": quote.turn} for quote in verdict.quotes],
        "source": verdict.source,
        "metric": verdict.metric_id,
    }
    if verdict.unscored is not None:
        metadata["unscored"] = verdict.unscored
    if verdict.marks is not None:
        metadata["marks"] = list(verdict.marks)
    if verdict.served_by is not None:
        metadata["served_by"] = verdict.served_by
    return {
        "value": _VALUES[verdict.passed],
        "answer": _ANSWERS[verdict.present],
        "explanation": verdict.justification,
        "metadata": metadata,
    }


def _metadata(conversation: Conversation) -> dict[str, Any]:
    metadata: dict[str, Any] = {
        "conversation": str(conversation.take.key),
        "target": conversation.take.key.target_id,
        "take": conversation.take.number,
        "user_model": conversation.take.user_model,
        "scripted": conversation.scripted,
        "stop_reason": None
        if conversation.take.stop_reason is None
        else conversation.take.stop_reason.value,
        "user_faults": [str(fault) for fault in conversation.take.faults],
    }
    if conversation.metric is not None:
        metadata["metric"] = metric_values(conversation.metric)
    if conversation.scenario is not None:
        metadata |= {
            **scenario_values(conversation.scenario),
            "demographic": dict(conversation.scenario.demographic),
            "target_system_prompt": conversation.scenario.target_system_prompt,
        }
    return metadata


def _usage(used: Usage) -> dict[str, int]:
    """Token counts; unknown ones are 0, as Inspect has no other value for them."""
    read, written = used.input_tokens or 0, used.output_tokens or 0
    return {
        "input_tokens": read,
        "output_tokens": written,
        "total_tokens": read + written,
        "input_tokens_cache_read": used.cached_tokens or 0,
    }


def _end_time(conversation: Conversation) -> int:
    """When its last message or verdict came, in milliseconds."""
    return max(
        (
            row.at or 0
            for row in (conversation.take, *conversation.messages, *conversation.verdicts)
        ),
        default=0,
    )


def _time(at: int) -> str:
    return datetime.fromtimestamp(at / 1000, UTC).isoformat(timespec="seconds")


def _id(*parts: str) -> str:
    """An id that is the same for the same parts."""
    return blake2b("\0".join(parts).encode(), digest_size=11).hexdigest()
