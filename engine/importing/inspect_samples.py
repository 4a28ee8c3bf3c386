"""Reduces a sample of Inspect's log to what is kept of it: its transcript and its scores."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from hashlib import blake2b
from pathlib import Path
from typing import Any, Final

import msgspec

from engine.benchmark import UNKNOWN, StopReason, base_id
from engine.importing.fields import OURS, PARTIAL, fitting_name, is_secret, without_secrets
from engine.importing.inspect_scores import LoggedMetrics, given_values
from engine.importing.inspect_shapes import InspectResults, InspectSample
from engine.importing.inspect_speech import (
    AUDITOR,
    TARGET,
    AlternatingTurns,
    alternating_turns,
    subject_of_sample,
)

_EXPORTER: Final = "crosswind"
_SOURCES: Final = frozenset({"openai", "anthropic"})
"""Providers whose models are called by the same names here."""
_NOT_TOLD: Final = "Not told by the log."
_LONGEST: Final = 100_000
"""Characters of a scenario's goal."""
_NOT_BOTH: Final = "samples in which user and target do not both speak, not taken"
_FAILED_BEFORE: Final = "samples that failed before user and target had both spoken, not taken"
_LIMITS: Final = frozenset({"message", "turn"})
_ANSWERS: Final = {"present": True, "absent": False}
_PASSED: Final = {"C": True, "I": False}
_COUNTS: Final = "counts"
"""The judge of our own export that says what counts, which follows from the judges beside it."""


@dataclass(frozen=True, slots=True)
class LogChoice:
    """A person's choices about logs."""

    present_from: float | None = None
    """Numbers from here on mean present; None for the middle of their scale."""
    metrics: Collection[str] = ()
    """Names of the scores to take; empty for all."""


Settings = Mapping[str, str]
"""By name, each value as JSON."""


@dataclass(slots=True)
class LoggedBenchmark:
    """What was found in the logs of one task."""

    name: str
    title: str
    description: str
    folder: Path
    logs: list[Path] = field(default_factory=list)
    metrics: LoggedMetrics = field(default_factory=LoggedMetrics)
    notes: Counter[str] = field(default_factory=Counter)
    read_as: list[str] = field(default_factory=list)
    """For each metric, which of its values mean present."""
    seen: set[bytes] = field(default_factory=set)
    """Digests of the samples' ids: a run that was retried has some samples twice."""
    numbers: defaultdict[tuple[str, str], int] = field(default_factory=lambda: defaultdict(int))
    """How many samples were taken from earlier logs, by target and sample id."""
    ids: dict[str, str] = field(default_factory=dict)
    """What our scenario ids begin with, by their sample ids."""
    used_ids: set[str] = field(default_factory=set)

    settings: defaultdict[str, list[Settings]] = field(default_factory=lambda: defaultdict(list))
    """The settings under which each model was tested, in the order of the logs."""

    @property
    def kept(self) -> Path:
        return self.folder / "samples.jsonl"

    def target(self, about: InspectResults) -> dict[str, str]:
        """Return a log's target as in a row of our own file. A model that was tested under several
        settings is as many targets, of which the second and later ones are numbered."""
        ours = (about.metadata or {}).get("target") if _EXPORTER in about.packages else None
        role = _model(about, TARGET) or about.model or UNKNOWN
        source, _, model = role.partition("/")
        is_ours = source in _SOURCES and model
        known = {"model": model, "source": source} if is_ours else {"model": role}
        name = ours if isinstance(ours, str) else self._numbered(role, _settings(about))
        return {"id": name, "label": role, **known}

    def _numbered(self, role: str, settings: Settings) -> str:
        tested = self.settings[role]
        if settings not in tested:
            tested.append(settings)
            if len(tested) > 1:
                self.read_as.append(_difference(role, len(tested), tested[0], settings))
        number = tested.index(settings) + 1
        return role if number == 1 else f"{role} {number}"


def _settings(about: InspectResults) -> Settings:
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


def _difference(role: str, number: int, first: Settings, settings: Settings) -> str:
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


def _model(about: InspectResults, role: str) -> str | None:
    named = _of_role(about, role)
    model = named.get("model") if isinstance(named, dict) else named
    return model if isinstance(model, str) else None


def kept_of(
    sample: InspectSample,
    about: InspectResults,
    target: Mapping[str, str],
    benchmark: LoggedBenchmark,
    before: Mapping[tuple[str, str], int],
    choice: LogChoice,
) -> dict[str, Any] | None:
    """Return what is kept of a sample; None if nothing can be taken, which is counted."""
    notes = benchmark.notes
    own = sample.uuid or f"{about.eval_id}/{sample.id}/{sample.epoch}"
    mark = blake2b(own.encode(errors="replace"), digest_size=12).digest()
    if mark in benchmark.seen:
        notes["samples that are there twice, taken once"] += 1
        return None
    benchmark.seen.add(mark)
    spoken = alternating_turns(sample, about.model_roles or {})
    if len(spoken.transcript) < 2:
        cut_off = sample.error is not None
        notes[_FAILED_BEFORE if cut_off else _NOT_BOTH] += 1
        return None
    # epochs count from 1; logs of the same task continue where the one before ended
    number = before.get((target["id"], str(sample.id)), 0) + max(0, min(sample.epoch, 10**6) - 1)
    key = (target["id"], str(sample.id))
    benchmark.numbers[key] = max(benchmark.numbers[key], number + 1)
    row = {
        "target": target,
        "sample": number,
        "transcript": spoken.transcript,
        "_usage": _usage(sample, target["label"]),
        OURS: _conversation_fields(sample, about, target["label"], spoken),
    }
    if sample.error is not None:
        row[PARTIAL] = True
    for kind, times in spoken.asides.items():
        notes[f"{kind}, not shown as speech"] += times
    metric = sample.metadata.get("metric")
    if _EXPORTER in about.packages and isinstance(metric, dict):
        return {**row, **_own_sample(sample, metric, benchmark)}
    scored = _foreign_sample(sample, about, benchmark, spoken, choice)
    return None if scored is None else {**row, **scored}


def _usage(sample: InspectSample, model: str) -> dict[str, int]:
    """Sum the usage of the model under test and the one that talked with it, not of judges."""
    talking = [sample.role_usage.get(role) for role in (TARGET, AUDITOR, "user")]
    used = [usage for usage in talking if usage is not None] or [
        usage for name, usage in sample.model_usage.items() if name == model
    ]
    read, written = (
        sum(usage.input_tokens for usage in used),
        sum(usage.output_tokens for usage in used),
    )
    return {"input_tokens": read, "output_tokens": written} if used else {}


def _conversation_fields(
    sample: InspectSample, about: InspectResults, model: str, spoken: AlternatingTurns
) -> dict[str, Any]:
    ours = sample.metadata if _EXPORTER in about.packages else {}
    user = ours.get("user_model") or _model(about, AUDITOR) or _model(about, "user") or UNKNOWN
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
        fields["user_faults"] = ours["user_faults"]
    return fields


def _own_sample(
    sample: InspectSample, metric: Mapping[str, Any], benchmark: LoggedBenchmark
) -> dict[str, Any]:
    """Convert a sample of our own export: its scenario and verdicts as they were."""
    name = benchmark.metrics.own_id(metric)
    keys = "persona user_goal latent_adversarial_goal landmarks demographic target_system_prompt"
    scenario: dict[str, Any] = {key: sample.metadata.get(key) for key in keys.split()}
    judged = []
    for judge, score in (sample.scores or {}).items():
        told_of = score.metadata or {}
        if judge == _COUNTS:
            continue
        # the export names a score after its judge and, from the second pass on, the pass
        label, _, number = judge.rpartition(", pass ")
        judged.append(
            {
                "judge": label or judge,
                "pass": int(number) - 1 if label and number.isdecimal() and len(number) < 5 else 0,
                "source": told_of.get("source"),
                "metric_id": told_of.get("metric"),
                "present": _ANSWERS.get(score.answer) if isinstance(score.answer, str) else None,
                "passed": _PASSED.get(score.value) if isinstance(score.value, str) else None,
                "unscored": told_of.get("unscored"),
                "justification": score.explanation or "",
                "quotes": told_of.get("quotes"),
                "marks": told_of.get("marks"),
                "served_by": told_of.get("served_by"),
            }
        )
    return {"id": str(sample.id), "metric_id": name, "scenario": scenario, "judged": judged}


def _foreign_sample(
    sample: InspectSample,
    about: InspectResults,
    benchmark: LoggedBenchmark,
    spoken: AlternatingTurns,
    choice: LogChoice,
) -> dict[str, Any] | None:
    """Convert another sample; None if it has no score, and so no metric for its scenario."""
    scores: list[dict[str, Any]] = []
    for value in given_values(sample):
        measured = (
            None if isinstance(value.value, dict | list) else benchmark.metrics.of(value, about)
        )
        if measured is None:
            benchmark.notes["scores that are lists, or of too many metrics, left out"] += 1
            continue
        if choice.metrics and value.name not in choice.metrics:
            benchmark.notes["scores that were not asked for, left out"] += 1
            continue
        measured.taken = True
        measured.observe(value.value)
        scores.append(
            {"metric": measured.id, "value": value.value, "explanation": value.explanation}
        )
    system = None if AUDITOR in (about.model_roles or {}) else spoken.system
    if not scores:
        benchmark.notes["samples without a score, not taken"] += 1
        return None
    scenario: dict[str, Any] = {
        "persona": _NOT_TOLD,
        "user_goal": subject_of_sample(sample)[:_LONGEST].strip() or _NOT_TOLD,
        "latent_adversarial_goal": _NOT_TOLD,
        "landmarks": [],
        "demographic": {},
        "target_system_prompt": system,
    }
    return {"id": _free_id(benchmark, str(sample.id)), "scenario": scenario, "scores": scores}


def _free_id(benchmark: LoggedBenchmark, theirs: str) -> str:
    """Return our id for a sample: unique, and not like that of a variant."""
    if theirs not in benchmark.ids:
        fitting = fitting_name(theirs[:1_000]) or "sample"
        if base_id(fitting) != fitting:
            fitting = f"{base_id(fitting)}-{fitting[len(base_id(fitting)) + 1 :]}"
        if len(fitting) > 40 or fitting in benchmark.used_ids:
            mark = blake2b(theirs.encode(errors="replace"), digest_size=4).hexdigest()
            fitting = f"{fitting[:30].rstrip('-._')}-{mark}"
        benchmark.ids[theirs] = fitting
        benchmark.used_ids.add(fitting)
    return benchmark.ids[theirs]
