"""What `run` refuses before its first call, `doctor` and `--dry-run` say too, in the same words."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.engine.commands import crosswind
from tests.engine.small_workspace import CONFIG, small_workspace

REAL = 'source: openai, base_url: "http://127.0.0.1:1/v1", apikey: "${NOT_THERE}"'
KEYED = REAL.replace("${NOT_THERE}", "${PATH_KEY}")
PRICED = "price: {input: 1, output: 1}"
CROSSED = f"""\
run: {{budget: 2}}
user_model: {{model: one, {KEYED}, {PRICED}}}
evaluator_model: {{model: two, {KEYED}}}
generation: {{scenarios_per_metric: 1, turns: 2}}
conditions: [{{id: bare, system_prompt: ""}}, {{id: ours, system_prompt: Be kind.}}]
targets:
  - {{id: alpha, model: three, {KEYED}, {PRICED}}}
  - {{id: beta, model: four, {KEYED}}}
"""
UNDER_PRESSURE = "    type: positive\n    when: under_pressure\n"


@pytest.mark.parametrize(
    ("config", "benchmark", "said"),
    [
        (
            CROSSED,
            {},
            "config.yaml:3:18: evaluator_model: run.budget needs the price of every model, and "
            "that of 'two', 'four' (targets[1], line 8) is not known",
        ),
        (
            CONFIG.replace("turns: 2", "turns: 1"),
            {"    type: positive\n": UNDER_PRESSURE},
            "benchmark.yaml:9:11: metrics[0].when: m01 must hold `under_pressure`, from the second "
            "landmark on, and none is reached with `generation.turns: 1` in config.yaml",
        ),
        (
            CONFIG.replace("user, source: offline, params: {pace: instant}", f"one, {REAL}")
            .replace("evaluator, source: offline, params: {pace: instant}", f"two, {REAL}"),
            {},
            "model one, model two: the variable NOT_THERE is not set",
        ),
        (
            CONFIG,
            {"name: Giving in   # a title": "name: [x]"},
            "benchmark.yaml:2:7: name: ",
        ),
    ],
    ids=["a budget without prices", "pressure", "a key", "a slip in a file"],
)  # fmt: skip
def test_each_says_it_once_and_alike(
    config: str,
    benchmark: dict[str, str],
    said: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("PATH_KEY", "k")
    place = small_workspace(tmp_path, config)
    for old, new in benchmark.items():
        place.edit(place.benchmark, old, new)
    for command in (("doctor",), ("run", "--dry-run"), ("run", "--yes", "--headless")):
        told = crosswind(place.root, *command).words
        assert told.count(said) == 1, (command, told)
