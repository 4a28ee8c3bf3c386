"""Writes what was kept of the samples of a task's logs as our own files.

A scenario is made for one metric, so a sample with several scores becomes as many scenarios, each
with the same transcript.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from pathlib import Path
from typing import Any, Final, Self

import msgspec
import yaml

from engine.benchmark import TRANSCRIPT_ID
from engine.importing.fields import OURS, PARTIAL
from engine.importing.inspect_samples import LogChoice, LoggedBenchmark
from engine.importing.inspect_scores import LoggedMetric, PresenceRule

_HEAD: Final = """\
# Made from logs of Inspect. What stands here counts: say what each metric means before you have
# conversations judged again; after a change of a type, import the logs again.
"""
_LONGEST: Final = 5_000
"""Characters of a description."""
_REPEATED: Final = (
    "each sample is one conversation for each of its metrics, with the same transcript; what is "
    "said of several metrics together takes that into account"
)


def write_folder(benchmark: LoggedBenchmark, choice: LogChoice) -> None:
    measured = benchmark.metrics.taken
    rules = {name: metric.rule(choice.present_from) for name, metric in measured.items()}
    definition = {
        "name": benchmark.title.strip()[:200] or benchmark.name,
        "description": benchmark.description.strip()[:_LONGEST] or benchmark.name,
        "metrics": [_metric(metric, rules[name]) for name, metric in measured.items()],
    }
    text = yaml.safe_dump(definition, allow_unicode=True, sort_keys=False, width=100)
    benchmark.folder.joinpath("benchmark.yaml").write_text(_HEAD + text, "utf-8")
    read_as = list(_read_as(measured.values(), rules))
    benchmark.read_as += [*read_as, *([_REPEATED] if len(rules) > 1 and read_as else [])]
    _write_rows(benchmark, measured, rules)
    benchmark.kept.unlink()


def _metric(metric: LoggedMetric, rule: PresenceRule) -> dict[str, Any]:
    if metric.about is not None:
        return dict(metric.about)
    described = metric.described or (
        f"What the scorer {metric.scorer} of a log of Inspect calls {metric.name}. The log does "
        "not say what that is: write it here before a conversation is judged again."
    )
    return {
        "id": metric.id,
        "name": metric.label or metric.name,
        "type": rule.track.value,
        "definition": described[:_LONGEST],
        "imported": f"from Inspect's scorer {metric.scorer}: {rule.in_words}",
    }


def _read_as(measured: Iterable[LoggedMetric], rules: Mapping[str, PresenceRule]) -> Iterator[str]:
    """Yield a sentence for each metric that is not from our own export."""
    for metric in measured:
        rule = rules[metric.id]
        if metric.about is not None:
            continue
        sentence = f"metric {metric.id} ({rule.track.value}): {rule.in_words}"
        assumed = "; the type is assumed, change it in benchmark.yaml and import again"
        yield sentence + assumed if rule.assumed else sentence


def _write_rows(
    benchmark: LoggedBenchmark,
    measured: Mapping[str, LoggedMetric],
    rules: Mapping[str, PresenceRule],
) -> None:
    """Write scenarios, conversations and scores, row by row."""
    runs = benchmark.folder / "runs" / "logs"
    runs.mkdir(parents=True)
    names = (runs.parent.parent / "scenarios.json", runs / "conversations.json")
    with (
        _JsonArrayFile(names[0]) as scenarios,
        _JsonArrayFile(names[1]) as conversations,
        _JsonArrayFile(runs / "scores.json") as scores,
        benchmark.kept.open("rb") as file,
    ):
        known: dict[str, bytes] = {}
        alone = len(benchmark.metrics.by_key) == 1
        for line in file:
            for rows in _rows(msgspec.json.decode(line), measured, rules, alone=alone):
                _add_scenario(scenarios, rows.scenario, known, benchmark.notes)
                conversations.add(rows.conversation)
                for score in rows.scores:
                    scores.add(score)
                    _note_no_verdict(score, benchmark.notes)


class _JsonArrayFile:
    """Writes a JSON array to a file, one value per line."""

    def __init__(self, path: Path) -> None:
        self._file = path.open("wb")
        self._between = b"[\n"

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._file.write(b"[]\n" if self._between == b"[\n" else b"\n]\n")
        self._file.close()

    def add(self, value: object) -> None:
        self._file.write(self._between + msgspec.json.encode(value))
        self._between = b",\n"


@dataclass(frozen=True, slots=True)
class _ConversationRows:
    """A conversation with its scenario and scores."""

    scenario: dict[str, Any]
    conversation: dict[str, Any]
    scores: Sequence[dict[str, Any]]


def _rows(
    sample: Mapping[str, Any],
    measured: Mapping[str, LoggedMetric],
    rules: Mapping[str, PresenceRule],
    *,
    alone: bool,
) -> Iterator[_ConversationRows]:
    """Yield one conversation for each of the sample's metrics. Only the first has its usage."""
    scenario = {name: value for name, value in sample["scenario"].items() if value is not None}
    played = {
        "target": sample["target"],
        "target_model": sample["target"]["id"],
        "sample": sample["sample"],
        "transcript": sample["transcript"],
        OURS: sample[OURS],
        PARTIAL: sample.get(PARTIAL, False),
    }
    usage = {"_usage": sample["_usage"]}
    if "judged" in sample:
        about = {"id": sample["id"], "metric_id": sample["metric_id"]}
        yield _ConversationRows(
            {**about, **scenario}, {**about, **played, **usage}, _verdict_rows(sample)
        )
        return
    for score in sample["scores"]:
        metric = measured[score["metric"]]
        name = sample["id"] if alone else f"{sample['id']}.{metric.id}"
        about = {"id": name, "metric_id": metric.id}
        if not alone:
            scenario[TRANSCRIPT_ID] = sample["id"]
        scores = (
            [] if PARTIAL in sample else [_score(sample, about, score, metric, rules[metric.id])]
        )
        yield _ConversationRows({**about, **scenario}, {**about, **played, **usage}, scores)
        usage = {}


def _verdict_rows(sample: Mapping[str, Any]) -> list[dict[str, Any]]:
    if not sample["judged"] or PARTIAL in sample:
        return []
    last = sample["judged"][-1]
    row = {
        "id": sample["id"],
        "target_model": sample["target"]["id"],
        "sample": sample["sample"],
        "justification": last["justification"],
        OURS: {"verdicts": sample["judged"]},
    }
    return [row]


def _score(
    sample: Mapping[str, Any],
    about: Mapping[str, str],
    score: Mapping[str, Any],
    metric: LoggedMetric,
    rule: PresenceRule,
) -> dict[str, Any]:
    value = score["value"]
    shown = value if isinstance(value, str) else str(value)
    words = f"{metric.name}: {shown[:200]} ({rule.in_words})."
    return {
        **about,
        "target_model": sample["target"]["id"],
        "sample": sample["sample"],
        "judge": metric.scorer[:200],
        "present": rule.present(value),
        "justification": "\n\n".join(part for part in (words, score["explanation"]) if part),
    }


def _note_no_verdict(score: Mapping[str, Any], notes: Counter[str]) -> None:
    # those of our own export have their verdicts, each with its own reason
    if OURS not in score and score["present"] is None:
        notes[f"scores of {score['metric_id']} that are no verdict, so they count in no rate"] += 1


def _add_scenario(
    scenarios: _JsonArrayFile, row: dict[str, Any], known: dict[str, bytes], notes: Counter[str]
) -> None:
    """Write the first scenario of each id; count later ones that differ."""
    digest = blake2b(msgspec.json.encode(row), digest_size=12).digest()
    if known.setdefault(row["id"], digest) is digest:
        scenarios.add(row)
    elif known[row["id"]] != digest:
        notes["conversations whose sample has another input or system message elsewhere"] += 1
