"""Converts samples of Inspect's logs to rows of our own files, as far as one sample tells:
who was tested under which settings, what user and target said, and what else is in it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import msgspec

from engine.benchmark import UNKNOWN, Speaker, StopReason
from engine.importing.fields import OURS, PARTIAL, is_secret, without_secrets
from engine.importing.inspect_files import (
    InspectResults,
    InspectSample,
    LoggedMessage,
    MessagePart,
    last_target_call,
)

AUDITOR: Final = "auditor"
TARGET: Final = "target"
"""Roles of models as Petri and Bloom name them."""

_SYSTEM: Final = frozenset({"system", "developer"})
_USER, _TARGET = Speaker.USER.value, Speaker.TARGET.value
_SHOWN: Final = 2_000
"""Characters of a system message that a note shows."""


@dataclass(slots=True)
class AlternatingTurns:
    """A transcript in which user and target alternate, beginning with the user."""

    transcript: list[dict[str, str]] = field(default_factory=list)
    turns: list[dict[str, Any]] = field(default_factory=list)
    """What the transcript has no field for, in the format of our own files."""
    system: str | None = None
    """The target's system message."""
    asides: Counter[str] = field(default_factory=Counter)
    """Counts of what is not speech of either side, by kind."""
    tools: set[str] = field(default_factory=set)
    """Names of the tools that were called."""

    def note(self, *, with_system: bool) -> str | None:
        """Describe what of the sample is not in the transcript; None if all of it is."""
        parts = [f"{kind}: {times}" for kind, times in sorted(self.asides.items())]
        if self.tools:
            parts.append(f"names of tools: {', '.join(sorted(self.tools)[:20])}")
        sentences = [f"In the log, and not shown here: {'; '.join(parts)}."] if parts else []
        if with_system and self.system:
            cut = " …" if len(self.system) > _SHOWN else ""
            sentences.append(f"The target's system message was: {self.system[:_SHOWN]}{cut}")
        return " ".join(sentences) or None


def alternating_turns(sample: InspectSample, roles: Iterable[str]) -> AlternatingTurns:
    """Return the conversation of user and target, even if the log is mainly about an auditor."""
    messages, result = sample.messages, AlternatingTurns()
    if TARGET in roles:
        last = last_target_call(sample)
        if last and not _contains(messages, last[-1]):
            messages = last  # the sample's messages are the auditor's own
    for message in messages:
        _add(result, message)
    result.asides = +result.asides
    return result


def _contains(messages: list[LoggedMessage], reply: LoggedMessage) -> bool:
    """Whether a reply is among these messages."""
    text = _text(reply)
    return any(
        message.role == _TARGET
        and (message.id == reply.id if message.id and reply.id else _text(message) == text)
        for message in messages
    )


def _add(result: AlternatingTurns, message: LoggedMessage) -> None:
    asides = result.asides
    if isinstance(message.content, list):
        others = sum(part.type not in {"text", "reasoning"} for part in message.content)
        asides["pictures, files and other contents that are no text"] += others
    match message.role:
        case role if role in _SYSTEM:
            if result.system is None and not result.transcript:
                result.system = _text(message)
            else:
                asides["later system messages"] += 1
        case "tool":
            asides["tool results"] += 1
        case "user":
            _add_speech(result, _USER, message)
        case "assistant" if (message.metadata or {}).get("prefill") is True:
            # written by the auditor in the target's name
            asides["beginnings of replies that were written for the target"] += 1
        case "assistant":
            calls = message.tool_calls or []
            asides["tool calls"] += len(calls)
            result.tools.update(str(call.get("function", ""))[:80] for call in calls)
            if not calls or _text(message).strip():
                _add_speech(result, _TARGET, message)
        case _:
            asides["messages of other roles"] += 1


def _add_speech(result: AlternatingTurns, role: str, message: LoggedMessage) -> None:
    text = _text(message)
    if not result.transcript and role == _TARGET:
        result.asides["replies before the user's first message"] += 1
        return
    if result.transcript and result.transcript[-1]["role"] == role:
        last = result.transcript[-1]
        last["content"] = "\n\n".join(part for part in (last["content"], text) if part)
        result.asides["messages that follow one of the same side, joined with it"] += 1
    else:
        result.transcript.append({"role": role, "content": text})
    _add_metadata(result, role, message)


def _add_metadata(result: AlternatingTurns, role: str, message: LoggedMessage) -> None:
    """Add what our own export keeps in metadata, and a model's reasoning."""
    number = (len(result.transcript) + 1) // 2
    there = bool(result.turns) and result.turns[-1]["turn"] == number
    turn = result.turns[-1] if there else {"turn": number}
    _add_to(turn, role, message)
    # most turns have nothing beside their text
    if not there and len(turn) > 1:
        result.turns.append(turn)


def _add_to(turn: dict[str, Any], role: str, message: LoggedMessage) -> None:
    metadata = message.metadata or {}
    if role == _USER:
        turn |= {
            key: metadata[key] for key in ("landmark", "thought") if metadata.get(key) is not None
        }
        return
    thought = [part.reasoning for part in _message_parts(message) if part.type == "reasoning"]
    if thought:
        turn["reasoning"] = "\n\n".join(filter(None, [turn.get("reasoning"), *thought]))
    if isinstance(metadata.get("served_by"), str):
        turn["served_by"] = {_TARGET: metadata["served_by"]}


def _message_parts(message: LoggedMessage) -> list[MessagePart]:
    return message.content if isinstance(message.content, list) else []


def _text(message: LoggedMessage) -> str:
    if isinstance(message.content, list):
        return "\n".join(part.text for part in message.content if part.type == "text")
    return message.content or ""


def subject_of_sample(sample: InspectSample) -> str:
    """Return what the sample is about: its input, or the last message of the user in that."""
    if isinstance(sample.input, str):
        return sample.input
    texts = [_text(message) for message in sample.input if message.role == "user"]
    return texts[-1] if texts else ""


EXPORTER: Final = "crosswind"
"""The package that our own export names."""
_SOURCES: Final = frozenset({"openai", "anthropic"})
"""Providers whose models are called by the same names here."""

LoggedSettings = Mapping[str, str]
"""By name, each value as JSON."""


@dataclass(slots=True)
class LoggedTargets:
    """The targets of one benchmark's logs. A model that was tested under several settings is
    several targets, of which the second and later ones are numbered."""

    tested: dict[str, list[LoggedSettings]] = field(default_factory=dict)
    """The settings under which each model was tested, in the order of the logs; also those of
    earlier imports."""
    differences: list[str] = field(default_factory=list)
    """What is different about each numbered target, in words."""

    def of(self, about: InspectResults) -> dict[str, str]:
        """Return a log's target as in a row of our own file."""
        ours = (about.metadata or {}).get("target") if EXPORTER in about.packages else None
        role = model_of(about, TARGET) or about.model or UNKNOWN
        source, _, model = role.partition("/")
        is_ours = source in _SOURCES and model
        known = {"model": model, "source": source} if is_ours else {"model": role}
        name = ours if isinstance(ours, str) else self._numbered(role, _settings(about))
        return {"id": name, "label": role, **known}

    def _numbered(self, role: str, settings: LoggedSettings) -> str:
        tested = self.tested.setdefault(role, [])
        if settings not in tested:
            tested.append(settings)
        number = tested.index(settings) + 1
        if number == 1:
            return role
        difference = _difference(role, number, tested[0], settings)
        if difference not in self.differences:
            self.differences.append(difference)
        return f"{role} {number}"


def _settings(about: InspectResults) -> LoggedSettings:
    """Return what a person set for the task, its solver and the model under test."""
    role = _of_role(about, TARGET)
    tested = role if isinstance(role, dict) else {}
    groups = {
        "task_args": about.task_args,
        "model_args": tested.get("args") or about.model_args,
        "config": tested.get("config") or about.model_generate_config,
        "solver_args": about.solver_args,
    }
    named = {
        f"{group}.{name}": value
        for group, values in groups.items()
        if isinstance(values, dict)
        for name, value in values.items()
        if not is_secret(name)
    }
    named["solver"] = about.solver
    return {
        name: msgspec.json.encode(without_secrets(value)).decode()
        for name, value in named.items()
        if value is not None
    }


def _difference(role: str, number: int, first: LoggedSettings, settings: LoggedSettings) -> str:
    changed = [
        name for name in sorted({*first, *settings}) if first.get(name) != settings.get(name)
    ]
    listed = [
        f"{name[:100]} {settings.get(name, 'unset')[:60]} (the first: "
        f"{first.get(name, 'unset')[:60]})"
        for name in changed[:3]
    ]
    more = f" and {len(changed) - 3} more" if len(changed) > 3 else ""
    return f"target {role} {number} is {role} with {', '.join(listed)}{more}"


def _of_role(about: InspectResults, role: str) -> object:
    named = (about.model_roles or {}).get(role)
    # a role may have several models, of which the first is named
    return named[0] if isinstance(named, list) and named else named


def model_of(about: InspectResults, role: str) -> str | None:
    """Return the model of a role, by the name that the log has for it."""
    named = _of_role(about, role)
    model = named.get("model") if isinstance(named, dict) else named
    return model if isinstance(model, str) else None


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
        limited = sample.limit.get("type") in _LIMITS
        reason = StopReason.TURN_LIMIT if limited else StopReason.UNKNOWN
    note = spoken.note(with_system=AUDITOR in (about.model_roles or {}))
    failed = None if sample.error is None else str(sample.error.get("message", ""))[:2_000]
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
