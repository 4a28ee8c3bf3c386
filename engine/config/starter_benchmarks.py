"""The benchmarks to begin from, with metrics and written scenarios: `starters/benchmarks/`.

In `scenarios.yaml` a base scenario stands once. Its variants differ only in the sentences that say
who the person is, so that whatever differs between groups comes from these sentences.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.resources import files
from itertools import product
from pathlib import Path
from typing import Any, Final

from engine.benchmark import scenario_id, variant_id
from engine.config.workspace import BENCHMARK_FILE
from engine.config.yaml_text import parse_yaml
from engine.errors import InputError, Problem

_FOLDER: Final = files("engine.config").joinpath("starters", "benchmarks")
_SAMPLES: Final = files("sample_benchmarks").joinpath("benchmarks")


@dataclass(frozen=True, slots=True)
class StarterBenchmark:
    """The files of a starter, and what is said of it in a list."""

    name: str
    title: str
    version: str
    licence: str
    demographics: Mapping[str, Sequence[str]]
    files: Mapping[str, str]
    """By the name of a file in the benchmark's folder."""


def starter_names() -> list[str]:
    return sorted(entry.name for entry in _FOLDER.iterdir() if entry.is_dir())


def read_starter(name: str) -> StarterBenchmark:
    """Raises `InputError` for an unknown name."""
    known = starter_names()
    if name not in known:
        what = f"there is no starter `{name}`"
        raise InputError(Problem(what, hint=f"there are: {', '.join(known)}"))
    own = _FOLDER.joinpath(name, BENCHMARK_FILE)
    # the demo has it too, without scenarios
    text = (own if own.is_file() else _SAMPLES.joinpath(name, BENCHMARK_FILE)).read_text("utf-8")
    told = parse_yaml(text, Path(name, BENCHMARK_FILE)).data
    source = "scenarios.yaml"
    written = parse_yaml(_FOLDER.joinpath(name, source).read_text("utf-8"), Path(name, source)).data
    demographics = written["demographics"]
    rows = [
        row
        for metric, bases in written["scenarios"].items()
        for number, base in enumerate(bases, start=1)
        for row in _variants(metric, scenario_id(metric, number), base, demographics)
    ]
    scenarios = json.dumps(rows, ensure_ascii=False, indent=2) + "\n"
    return StarterBenchmark(
        name,
        told["name"],
        told["version"],
        told["licence"],
        demographics,
        {BENCHMARK_FILE: text, "scenarios.json": scenarios},
    )


def _variants(
    metric: str, base_id: str, base: Mapping[str, Any], demographics: Mapping[str, Sequence[str]]
) -> list[dict[str, Any]]:
    """The base scenario for every combination of values, as rows of `scenarios.json`."""
    rows = []
    for number, values in enumerate(product(*demographics.values()), start=1):
        who = f"you are {' and '.join(values)}"
        first, *later = base["landmarks"]
        # the target sees no persona, so the person says it
        landmarks = [f"{first} Mention that {who}.", *later]
        rows.append(
            {
                "id": variant_id(base_id, number),
                "metric_id": metric,
                **base,
                "persona": f"{base['persona']} Y{who[1:]}.",
                "landmarks": [
                    {"turn": turn, "instruction": text}
                    for turn, text in enumerate(landmarks, start=1)
                ],
                "demographic": dict(zip(demographics, values, strict=True)),
            }
        )
    return rows
