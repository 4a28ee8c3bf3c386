"""The benchmarks that one can begin from: complete, without findings, and playable to the end."""

from __future__ import annotations

import json
import re
from collections import Counter
from pathlib import Path

import pytest

from engine.benchmark import Track
from engine.config.benchmark_file import load_definition
from engine.config.templates import read_starter, starter_names
from engine.config.yaml_text import read_yaml
from engine.lint import lint_metrics, lint_scenarios
from engine.store.scenarios_json import read_scenarios
from tests.approval import approve
from tests.engine.commands import crosswind
from tests.engine.small_workspace import CONFIG

LISTED = """\
starter        measures                      version  groups by       licence
─────────────  ────────────────────────────  ───────  ──────────────  ─────────
facts          Facts under push-back         1.0      age, schooling  CC-BY-4.0
health-advice  Health advice under pressure  1.0      age, home       CC-BY-4.0
leaning        Leaning on one voice          1.0      age, computers  CC-BY-4.0
own-judgement  Own judgement                 1.0      age, computers  CC-BY-4.0
sycophancy     What people want to hear      1.0      age, computers  CC-BY-4.0
third-persons  People who are not there      1.0      gender, age     CC-BY-4.0
"""


@pytest.fixture
def desk(tmp_path: Path) -> Path:
    config = CONFIG.replace(
        "scenarios_per_metric: 2, turns: 2", "scenarios_per_metric: 1, turns: 6"
    )
    config = config.replace("{age: [younger, older]}", "{}")
    (tmp_path / "config.yaml").write_text(config, "utf-8")
    return tmp_path


@pytest.mark.parametrize("name", starter_names())
def test_a_starter_is_whole_and_nothing_is_found_in_it(desk: Path, name: str) -> None:
    crosswind(desk, "new", "mine", "--from", name, code=0)
    path = desk / "benchmarks" / "mine" / "benchmark.yaml"
    definition = load_definition(path)
    assert Counter(m.track for m in definition.metrics) == {Track.POSITIVE: 2, Track.NEGATIVE: 2}
    assert lint_metrics(definition.metrics) == []
    metrics = [metric.id for metric in definition.metrics]
    scenarios, told = read_scenarios(path.with_name("scenarios.json"), turns=6, metrics=metrics)
    assert (told, lint_scenarios(scenarios, turns=6)) == ([], [])
    groups = {metric: Counter[str]() for metric in metrics}
    for scenario in scenarios:
        groups[scenario.metric_id][scenario.base_id] += 1
        assert len(scenario.demographic) == 2
        assert all(value in scenario.persona for value in scenario.demographic.values())
        assert all(
            value in scenario.landmarks[0].instruction for value in scenario.demographic.values()
        )
    assert [sorted(of_bases.values()) for of_bases in groups.values()] == [[4] * 4] * 4
    written = read_yaml(path).data
    assert {"version", "licence", "authors", "cannot_measure"} <= written.keys()


def test_the_list_shows_every_starter(desk: Path) -> None:
    assert crosswind(desk, "new", "--list", code=0).out == LISTED
    assert not (desk / "benchmarks").exists()


def test_a_starter_is_never_written_over_anything(desk: Path) -> None:
    crosswind(desk, "new", "mine", "--from", "facts", code=0)
    taken = crosswind(desk, "new", "mine", "--from", "sycophancy", code=2)
    approve(taken.words)
    unknown = crosswind(desk, "new", "other", "--from", "fcats", code=2)
    assert f"starter `fcats` (there are: {', '.join(starter_names())})" in unknown.words
    approve(crosswind(desk, "new", code=2).words)
    files = {path.name for path in (desk / "benchmarks").rglob("*") if path.is_file()}
    assert files == {"benchmark.yaml", "scenarios.json"}


def test_every_starter_is_played_to_its_end(desk: Path) -> None:
    for name in starter_names():
        crosswind(desk, "new", name, "--from", name, code=0)
        path = desk / "benchmarks" / name / "scenarios.json"
        rows = json.loads(read_starter(name).files["scenarios.json"])
        path.write_text(
            json.dumps([row for row in rows if row["id"].endswith("_s001_v01")]), "utf-8"
        )
    crosswind(desk, "run", "--target", "holds", "--headless", code=0)
    status = crosswind(desk, "status", code=0).out
    done = re.findall(r"^(\S+) +holds +4/4 +4/4 +0 ", status, re.MULTILINE)
    assert done == starter_names()
