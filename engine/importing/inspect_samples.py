"""Converts samples of Inspect's logs to rows of our own files, as far as one sample tells."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from engine.benchmark import UNKNOWN, StopReason
from engine.importing.fields import OURS, PARTIAL
from engine.importing.inspect_shapes import InspectResults, InspectSample
from engine.importing.inspect_speech import (
    AUDITOR,
    TARGET,
    AlternatingTurns,
    subject_of_sample,
)
from engine.importing.inspect_targets import EXPORTER, model_of

_NOT_TOLD: Final = "Not told by the log."
_LONGEST: Final = 100_000
"""Characters of a scenario's goal."""
_LIMITS: Final = frozenset({"message", "turn"})
_ANSWERS: Final = {"present": True, "absent": False}
_PASSED: Final = {"C": True, "I": False}
_COUNTS: Final = "counts"
"""The judge of our own export that says what counts, which follows from the judges beside it."""
_SCENARIO: Final = (
    *("persona", "user_goal", "latent_adversarial_goal", "landmarks", "demographic"),
    "target_system_prompt",
)


def conversation_row(
    sample: InspectSample,
    about: InspectResults,
    target: Mapping[str, str],
    number: int,
    spoken: AlternatingTurns,
) -> dict[str, Any]:
    """Return a row of `conversations.json` without its scenario's id."""
    row = {
        "target": target,
        "target_model": target["id"],
        "sample": number,
        "transcript": spoken.transcript,
        OURS: _conversation_fields(sample, about, target["label"], spoken),
    }
    return row if sample.error is None else {**row, PARTIAL: True}


def _conversation_fields(
    sample: InspectSample, about: InspectResults, model: str, spoken: AlternatingTurns
) -> dict[str, Any]:
    ours = sample.metadata if EXPORTER in about.packages else {}
    user = ours.get("user_model") or model_of(about, AUDITOR) or model_of(about, "user") or UNKNOWN
    reason = ours.get("stop_reason")
    if sample.limit is not None and reason is None:
        limited = sample.limit.type in _LIMITS
        reason = StopReason.TURN_LIMIT if limited else StopReason.UNKNOWN
    note = spoken.note(with_system=AUDITOR in (about.model_roles or {}))
    failed = None if sample.error is None else sample.error.message[:2_000]
    fields = {
        "take": ours.get("take", 0),
        "stop_reason": reason or StopReason.UNKNOWN,
        "detail": failed or note,
        "user_model": user,
        "model": model,
        "turns": spoken.turns,
    }
    if isinstance(ours.get("user_faults"), list):
        fields["user_faults"] = [_user_fault(str(fault)) for fault in ours["user_faults"]]
    return fields


def _user_fault(words: str) -> dict[str, Any]:
    """Return a fault of the user model, which our own export has in words, as in our own files."""
    place, _, rest = words.partition(": ")
    kind, _, detail = rest.partition(": ")
    turn = place.removeprefix("turn ")
    is_number = turn.isdecimal() and len(turn) < 10
    return {"kind": kind, "turn": int(turn) if is_number else None, "detail": detail}


def usage_row(sample: InspectSample, model: str) -> dict[str, int]:
    """Sum the usage of the model under test and the one that talked with it, not of judges."""
    talking = [sample.role_usage.get(role) for role in (TARGET, AUDITOR, "user")]
    used = [usage for usage in talking if usage is not None] or [
        usage for name, usage in sample.model_usage.items() if name == model
    ]
    read = sum(usage.input_tokens for usage in used)
    written = sum(usage.output_tokens for usage in used)
    return {"input_tokens": read, "output_tokens": written} if used else {}


def foreign_scenario(
    sample: InspectSample, about: InspectResults, spoken: AlternatingTurns
) -> dict[str, Any]:
    """Return the scenario of a sample of which the log says little."""
    system = None if AUDITOR in (about.model_roles or {}) else spoken.system
    return {
        "persona": _NOT_TOLD,
        "user_goal": subject_of_sample(sample)[:_LONGEST].strip() or _NOT_TOLD,
        "latent_adversarial_goal": _NOT_TOLD,
        "landmarks": [],
        "demographic": {},
        **({} if system is None else {"target_system_prompt": system}),
    }


# Our own export


def own_scenario(sample: InspectSample) -> dict[str, Any]:
    """Return the scenario of a sample of our own export, as it was."""
    return {key: value for key in _SCENARIO if (value := sample.metadata.get(key)) is not None}


def own_verdicts(sample: InspectSample) -> list[dict[str, Any]]:
    """Return the verdicts of our own export, as in our files, oldest first."""
    unscored = sample.metadata.get("unscored")
    scores: dict[str, Any] = {**(unscored if isinstance(unscored, dict) else {})}
    for judge, score in (sample.scores or {}).items():
        scores[judge] = {
            "value": score.value,
            "answer": score.answer,
            "explanation": score.explanation,
            "metadata": score.metadata,
        }
    return list(_verdicts(scores))


def _verdicts(scores: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    for judge, score in scores.items():
        if judge == _COUNTS or not isinstance(score, dict):
            continue
        told = score["metadata"] if isinstance(score.get("metadata"), dict) else {}
        answer, value = score.get("answer"), score.get("value")
        # the export names a score after its judge and, from the second pass on, the pass
        label, _, number = judge.rpartition(", pass ")
        yield {
            "judge": label or judge,
            "pass": int(number) - 1 if label and number.isdecimal() and len(number) < 5 else 0,
            "source": told.get("source"),
            "metric_id": told.get("metric"),
            "present": _ANSWERS.get(answer) if isinstance(answer, str) else None,
            "passed": _PASSED.get(value) if isinstance(value, str) else None,
            "unscored": told.get("unscored"),
            "justification": score.get("explanation") or "",
            "quotes": told.get("quotes"),
            "marks": told.get("marks"),
            "served_by": told.get("served_by"),
        }
