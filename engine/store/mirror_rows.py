"""Builds the rows of the mirrored files: the documented fields, and ours under the one key
`_crosswind`.

The rows hold no times and no `seq`: the same result gives the same row, however it came about.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from operator import attrgetter
from typing import Any, Final

from engine.benchmark import (
    ConversationKey,
    CostOrigins,
    Metric,
    Scenario,
    Speaker,
    Usage,
    When,
    metric_of,
)
from engine.checks import UserFault
from engine.jury import NO_VERDICT, Counts, counted_verdicts
from engine.scripted import (
    EVALUATOR,
    GENERATOR,
    MADE_BY_SCRIPTS,
    Parts,
    all_scripts,
    is_script,
    played_by,
    scripted_note,
)
from engine.store.tables import CheckRow, MessageRow, ScenarioRow, StoredTake, Verdict

JsonObject = dict[str, Any]
Metrics = Mapping[str, Metric]

OURS: Final = "_crosswind"
HISTORY: Final = "history.jsonl"
"""A file of our own: how each row of the other files came about, one object to a line."""

_NO_METRICS: Final[Metrics] = {}


@dataclass(frozen=True, slots=True)
class TargetName:
    """A target, and the name by which its provider knows the model behind it."""

    id: str
    model: str


def is_scripted(labels: Iterable[str]) -> bool:
    """Whether any of these models is a script."""
    return any(map(is_script, labels))


def parts_of(
    take: StoredTake,
    judges: Iterable[str] = (),
    *,
    written: bool = False,
) -> dict[str, bool]:
    """Return which roles of a conversation scripts played; `written` is whether one wrote its
    scenario. Without `judges` the evaluator is left out."""
    played = played_by(take.user_model, take.model, scripted=take.scripted)
    judged = {EVALUATOR: is_scripted(names)} if (names := list(judges)) else {}
    return {GENERATOR: written, **played, **judged}


def _provenance_json(parts: Parts) -> JsonObject:
    """The note on scripts. A scripted scenario alone does not make what was said scripted."""
    spoke = any(script for part, script in parts.items() if part != GENERATOR)
    note = scripted_note(parts)
    return {"scripted": spoke, **({} if note is None else {"note": note})}


def _scripted_note(scripted: bool) -> JsonObject:  # noqa: FBT001  (a column of the row, not a switch)
    return {"scripted": True, "note": MADE_BY_SCRIPTS} if scripted else {"scripted": False}


def scenario_row(
    stored: ScenarioRow, metrics: Metrics, *, base: Scenario | None, scripted: bool
) -> JsonObject:
    """Return a row of `scenarios.json`; `base` is given with the first of its variants only."""
    ours = {
        **_scripted_note(scripted),
        "base_id": stored.scenario.base_id,
        "source": stored.source,
    }
    if base is not None:
        ours["base"] = scenario_values(base)
    return {**scenario_fields(stored.scenario, metrics), OURS: ours}


def scenario_fields(scenario: Scenario, metrics: Metrics = _NO_METRICS) -> JsonObject:
    """Return the documented fields of a scenario, with every key that people added to it."""
    metric = metrics.get(scenario.metric_id)
    row = {
        "id": scenario.id,
        "metric_id": scenario.metric_id,
        "metric_name": None if metric is None else metric.name,
        "metric_type": None if metric is None else metric.track.value,
        **scenario_values(scenario),
        "demographic": dict(scenario.demographic),
    }
    if scenario.target_system_prompt is not None:
        row["target_system_prompt"] = scenario.target_system_prompt
    return {**row, **{key: value for key, value in scenario.extra.items() if key not in row}}


def metric_values(metric: Metric) -> JsonObject:
    """Return all fields of a metric, for files of our own."""
    return {
        "id": metric.id,
        "name": metric.name,
        "type": metric.track.value,
        "definition": metric.definition,
        "examples": list(metric.examples),
        **({} if metric.when is When.ANYWHERE else {"when": metric.when.value}),
    }


def scenario_values(scenario: Scenario) -> JsonObject:
    """Return what a conversation is played from, apart from the demographic values."""
    return {
        "persona": scenario.persona,
        "user_goal": scenario.user_goal,
        "latent_adversarial_goal": scenario.latent_adversarial_goal,
        "landmarks": [
            {"turn": landmark.turn, "instruction": landmark.instruction}
            for landmark in scenario.landmarks
        ],
    }


_TAKE: Final[Mapping[str, Callable[[StoredTake], object]]] = {
    "benchmark": attrgetter("benchmark"),
    "conv_id": lambda take: str(take.key),
    "id": attrgetter("key.scenario_id"),
    "target": attrgetter("key.target_id"),
    "sample": attrgetter("key.sample"),
    "take": lambda take: take.number + 1,
    "model": attrgetter("model"),
    "user_model": attrgetter("user_model"),
    "form": attrgetter("form"),
    "scripted": attrgetter("scripted"),
    "stop_reason": attrgetter("stop_reason"),
    "detail": attrgetter("detail"),
    "user_faults": lambda take: None if take.user_faults is None else _faults(take.user_faults),
}
_MESSAGE: Final[Mapping[str, Callable[[MessageRow], object]]] = {
    "turn": attrgetter("turn"),
    "role": attrgetter("speaker"),
    "content": attrgetter("text"),
    "landmark": attrgetter("landmark"),
    "thought": attrgetter("thought"),
    "finish": attrgetter("finish"),
    "reasoning": attrgetter("reasoning"),
    "served_by": attrgetter("served_by"),
}
_VERDICT: Final[Mapping[str, Callable[[Verdict], object]]] = {
    "metric_id": attrgetter("metric_id"),
    "metric_type": attrgetter("track"),
    "judge": attrgetter("judge"),
    "pass": lambda verdict: verdict.number + 1,
    "source": attrgetter("source"),
    "present": attrgetter("present"),
    "passed": attrgetter("passed"),
    "unscored": attrgetter("unscored"),
    "justification": attrgetter("justification"),
    "quotes": lambda verdict: [
        {"text": quote.text, "turn": quote.turn} for quote in verdict.quotes
    ],
    "marks": lambda verdict: None if verdict.marks is None else list(verdict.marks),
    "served_by": attrgetter("served_by"),
    "label": lambda verdict: _label(verdict),
}
"""What makes each value of a row, by its name in every file and every `--json`. Takes and passes
count from 1; in the store, and in the files of a workspace, from 0."""


def _label(verdict: Verdict) -> JsonObject | None:
    """What a person's verdict says beside its result; None for a model's."""
    fields = {
        name: value
        for name in ("stratum", "inclusion", "confidence", "seconds")
        if (value := getattr(verdict, name)) is not None
    }
    if verdict.adjudicates:
        fields["adjudicates"] = True
    return fields or None


def take_values(take: StoredTake, names: str) -> JsonObject:
    """Return the values of a take by these names, which are separated by blanks, in this order."""
    return {name: _TAKE[name](take) for name in names.split()}


def message_values(message: MessageRow, names: str) -> JsonObject:
    """As `take_values`, of a message."""
    return {name: _MESSAGE[name](message) for name in names.split()}


def verdict_values(verdict: Verdict, names: str) -> JsonObject:
    """As `take_values`, of a verdict."""
    return {name: _VERDICT[name](verdict) for name in names.split()}


def check_values(check: CheckRow) -> JsonObject:
    """Return a check as every file and every `--json` has it."""
    values: JsonObject = {
        "kind": check.kind,
        "model": check.model,
        "answers": [asdict(answer) for answer in check.answers],
        "unusable": check.unusable,
        "served_by": check.served_by,
    }
    return without_unknown(values, "unusable", "served_by")


def without_unknown(values: JsonObject, *names: str) -> JsonObject:
    """Drop those of these names whose values are None."""
    return {k: v for k, v in values.items() if v is not None or k not in names}


@dataclass(frozen=True, slots=True)
class PlayedTake:
    """A take with its messages, its verdicts and its checks."""

    take: StoredTake
    messages: Sequence[MessageRow]
    verdicts: Sequence[Verdict] = ()
    checks: Sequence[CheckRow] = ()


def conversation_row(
    scenario: Scenario,
    metrics: Metrics,
    target: TargetName,
    *,
    counting: PlayedTake,
    others: Sequence[PlayedTake],
    usage: Usage | None,
    scripted: bool,
    settings: JsonObject,
) -> JsonObject:
    """Return a row of `conversations.json`; `scripted` is whether a script wrote its scenario,
    `settings` what `target` and `user_model` were asked with."""
    take = counting.take
    ours: JsonObject = {
        **_provenance_json(parts_of(take, written=scripted)),
        **_take(counting),
    }
    if settings:
        ours["settings"] = settings
    if others:
        ours["other_takes"] = [take_row(other) for other in others]
    return {
        **scenario_fields(scenario, metrics),
        "conv_id": str(take.key),
        "target": {"id": target.id, "model": target.model},
        "target_model": target.id,
        "sample": take.key.sample,
        "_sample": take.key.sample,
        "transcript": _transcript(counting.messages),
        "_usage": _usage(usage),
        OURS: ours,
    }


def _take(played: PlayedTake) -> JsonObject:
    values = take_values(played.take, "take stop_reason detail user_model model user_faults")
    values["take"] = played.take.number
    fields = {**without_unknown(values, "user_faults"), "turns": _turns(played.messages)}
    if played.checks:
        fields["checks"] = [check_values(check) for check in played.checks]
    return fields


def _faults(faults: Iterable[UserFault]) -> list[JsonObject]:
    return [{"kind": fault.kind, "turn": fault.turn, "detail": fault.detail} for fault in faults]


def conversation_id(key: ConversationKey) -> JsonObject:
    """Return the fields that identify a conversation."""
    return {
        "conv_id": str(key),
        "id": key.scenario_id,
        "target_model": key.target_id,
        "sample": key.sample,
    }


def take_row(played: PlayedTake) -> JsonObject:
    """Return a take with its transcript and verdicts, to be put into another row."""
    return {
        **_take(played),
        "scripted": played.take.scripted,
        "transcript": _transcript(played.messages),
        "verdicts": [_verdict(verdict, played.take.key) for verdict in played.verdicts],
    }


def _transcript(messages: Iterable[MessageRow]) -> list[JsonObject]:
    return [{"role": message.speaker.value, "content": message.text} for message in messages]


def _turns(messages: Iterable[MessageRow]) -> list[JsonObject]:
    """By turn, what the documented transcript has no field for."""
    turns: dict[int, JsonObject] = {}
    for message in messages:
        turn = turns.setdefault(message.turn, {"turn": message.turn})
        if message.speaker is Speaker.USER:
            turn |= {"landmark": message.landmark, "thought": message.thought, "done": message.done}
        turn.setdefault("finish", {})[message.speaker.value] = message.finish
        if message.reasoning is not None:
            turn["reasoning"] = message.reasoning
        if message.served_by is not None:
            turn.setdefault("served_by", {})[message.speaker.value] = message.served_by
    return [turns[number] for number in sorted(turns)]


def _usage(usage: Usage | None) -> JsonObject:
    """The documented `_usage`. Calls that were not made here have unknown usage."""
    known = usage or Usage(0, None, None, None, None)
    return {
        "cost": _cost(known),
        "input_tokens": known.input_tokens,
        "output_tokens": known.output_tokens,
    }


def _cost(usage: Usage) -> float | None:
    """The cost in US dollars, rounded: the last digits of a sum depend on its order."""
    return None if usage.cost_usd is None else round(usage.cost_usd, 10)


def score_row(
    take: StoredTake,
    verdicts: Sequence[Verdict],
    metrics: Metrics,
    *,
    scripted: bool,
    counts: Counts | None,
    settings: JsonObject,
) -> JsonObject:
    """Return a row of `scores.json` from all verdicts on the counting take; at least one.
    `settings` are what judges were asked with, by label."""
    why_not = None if counts is None else counts.asked.why_not(take.key)
    counted = (
        counted_verdicts(verdicts, None) if counts is None else counts.verdicts_on(take, verdicts)
    )
    # whoever adds up the documented keys adds up what counts
    passed = counted.passed if why_not is None else None
    shown = counted.shown or verdicts[-1]
    metric = metrics.get(shown.metric_id)
    judges = (verdict.judge for verdict in verdicts)
    unscored = counted.unscored
    if unscored == NO_VERDICT:
        unscored = shown.unscored
    return {
        "id": take.key.scenario_id,
        "metric_id": shown.metric_id,
        "metric_name": None if metric is None else metric.name,
        "metric_type": shown.track.value,
        "target_model": take.key.target_id,
        "conv_id": str(take.key),
        "present": None if passed is None else shown.present,
        "passed": passed,
        "score": None if passed is None else int(passed),
        "justification": shown.justification,
        "sample": take.key.sample,
        OURS: {
            **_provenance_json(parts_of(take, judges, written=scripted)),
            "take": take.number,
            "judge": shown.judge,
            "unscored": unscored,
            **({} if why_not is None else {"why_not": why_not.value}),
            **({"settings": settings} if settings else {}),
            "verdicts": [_verdict(verdict, take.key) for verdict in verdicts],
        },
    }


RARE_OF_VERDICT: Final = ("marks", "served_by", "label")
"""Keys that are left out of the files where their values are not known."""
_OF_VERDICT: Final = (
    "metric_id judge pass source present passed unscored justification quotes marks served_by label"
)


def _verdict(verdict: Verdict, key: ConversationKey) -> JsonObject:
    """A verdict. Its metric is named only if it is not its scenario's, as imports may have it."""
    values = verdict_values(verdict, _OF_VERDICT) | {"pass": verdict.number}
    if verdict.metric_id == metric_of(key.scenario_id):
        del values["metric_id"]
    return without_unknown(values, *RARE_OF_VERDICT)


def cost_entry(
    phase: str, usage: Usage, *, parts: Parts, unmetered: int, origins: CostOrigins
) -> JsonObject:
    """Return one phase of `cost.json`.

    `parts` are the roles that called. `unmetered` attempts failed without reporting usage: some may
    have been billed, and none is in the sums.
    """
    entry = {"phase": phase, **_usage(usage)}
    note = scripted_note(parts)
    ours: JsonObject = {} if note is None else {"scripted": all_scripts(parts), "note": note}
    if unmetered:
        ours = {**ours, "unmetered_attempts": unmetered}
    origin_words = origins.in_words()
    if origin_words is not None:
        ours = {
            **ours,
            "cost_reported": round(origins.reported_usd, 10),
            "cost_computed": round(origins.computed_usd, 10),
            "cost_note": origin_words,
        }
    return {**entry, OURS: ours} if ours else entry
