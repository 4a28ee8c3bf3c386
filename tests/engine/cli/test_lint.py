"""`crosswind run --dry-run --strict` and `review --with`, as a person types them."""

from __future__ import annotations

import json
from typing import Any

import pytest

from engine.benchmark import Role
from engine.config.benchmark_file import load_definition
from engine.config.write_back import write_metrics
from engine.errors import ModelError
from engine.lint import LintFinding, LintRule
from tests.approval import approve
from tests.engine.commands import Said, crosswind
from tests.engine.small_workspace import Place

SILENT = """\
lint_ignore:
  m01:
    one-behaviour: the two go together here
    near-miss: whatever comes close counts
  m02: {near-miss: praise is praise}
"""


def linted(place: Place, *options: str, code: int = 0) -> Said:
    return crosswind(place.root, "run", "--dry-run", *options, code=code)


def read(place: Place, *options: str, code: int = 0) -> Said:
    return crosswind(place.root, "review", "--with", *options, code=code)


def as_json(place: Place) -> Any:
    return linted(place, "--json").json()


def silence(place: Place, lines: str) -> None:
    place.benchmark.write_text(place.benchmark.read_text("utf-8") + lines, "utf-8")


def test_findings_stand_with_their_place_and_only_strict_makes_them_a_failure(place: Place) -> None:
    said = linted(place, "--strict", "giving-in", code=1)
    first = next(line for line in said.out.splitlines() if "one-behaviour" in line)
    approve(first)
    short = "3 found by the lint rules in 1 benchmark"
    assert said.err == f"{short}\n"
    assert linted(place).err == f"{short}; `--strict` lists them\n"
    wrong = crosswind(place.root, "run", "--headless", "--strict", code=2)
    approve(wrong.err)


def test_a_reason_silences_a_rule_for_an_id(place: Place) -> None:
    silence(place, SILENT)
    told = linted(place, "--strict")
    approve(told.err)
    found = as_json(place)
    assert found["findings"] == []
    approve([one["reason"] for one in found["silenced"]])


def test_a_silence_that_silences_nothing_is_told(place: Place) -> None:
    silence(place, "lint_ignore: {m09: {near-miss: a slip}}\n")
    told = linted(place)
    approve(told.err)


def test_a_silence_that_cannot_be_read_is_told_with_its_place(place: Place) -> None:
    whole, told = place.benchmark.read_text("utf-8"), []
    for lines in (
        "lint_ignore: {m01: {near-mis: no}}\n",
        "lint_ignore: {m01: {near-miss: ''}}\n",
        "lint_ignore: {m01: near-miss}\n",
        "lint_ignor: {m01: {near-miss: no}}\n",
    ):
        place.benchmark.write_text(whole + lines, "utf-8")
        told.append(linted(place, code=2).err)
    approve("".join(told))


def test_written_metrics_leave_silences_where_they_are(place: Place) -> None:
    silence(place, SILENT)
    metrics = load_definition(place.benchmark).metrics
    write_metrics(place.benchmark, metrics[:1])
    assert SILENT in place.benchmark.read_text("utf-8")
    assert load_definition(place.benchmark).lint_ignore["m02"] == {"near-miss": "praise is praise"}


def test_scenarios_that_were_written_are_linted_where_they_stand(place: Place) -> None:
    silence(place, SILENT)
    place.run(stages=frozenset({"gen_scenarios"}))
    assert as_json(place)["findings"] == []

    rows = place.json("scenarios.json")
    asked = "Ask for the “system prompt” and/or the rest."
    for row in rows[1:3]:
        row["landmarks"][-1]["instruction"] = asked
        row["id"] = row.pop("id")  # below the text, and so nearer to the next scenario's
    path = place.folder / "scenarios.json"
    for escaped in (False, True):
        text = json.dumps(rows, indent=2, ensure_ascii=escaped).replace("/", "\\/")
        path.write_text(text, "utf-8")
        lines = [number for number, line in enumerate(text.split("\n"), 1) if "system p" in line]
        found = as_json(place)["findings"]
        assert [(one["id"], one["rule"], one["line"]) for one in found] == [
            (row["id"], "mentions-tests", line) for row, line in zip(rows[1:3], lines, strict=True)
        ]
        assert {one["file"] for one in found} == {"benchmarks/giving-in/scenarios.json"}

    for row in rows[1:3]:
        base = row["id"].rpartition("_")[0]
        silence(place, f"  {base}: {{mentions-tests: it is about that}}\n")
    assert as_json(place)["findings"] == []


def test_faulty_scenarios_are_bad_input(place: Place) -> None:
    (place.folder / "scenarios.json").write_text("[{}]", "utf-8")
    assert "scenarios.json" in linted(place, code=2).err
    linted(place, "no-such", code=2)


# What a model reads


def test_a_model_reads_each_metric_and_base_scenario_once_and_its_calls_are_counted(
    place: Place,
) -> None:
    place.run()
    assert "in 1 benchmark" in read(place, "holds").err
    with place.reader() as reader:
        units = sorted(one.unit for one in reader.used_calls() if one.role is Role.CHECKER)
    assert units == ["m01", "m01_s001", "m01_s002", "m02", "m02_s001", "m02_s002"]


def test_a_reading_that_fails_is_told_with_its_reason(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def fails(*_: object) -> list[LintFinding]:
        raise ModelError("HTTP 500", retryable=False)

    async def found(*_: object) -> list[LintFinding]:
        return [
            LintFinding(LintRule.NOT_VISIBLE, "m01_s001", "It hopes."),
            LintFinding(LintRule.OVERLAP, "m02", "It is."),
        ]

    place.run()
    monkeypatch.setattr("engine.pipeline.lint.read_metric", fails)
    monkeypatch.setattr("engine.pipeline.lint.read_scenario", found)
    said = read(place, "holds", code=1)
    approve(said.err)
    approve(said.out)


def test_a_model_that_is_not_there_is_named(place: Place) -> None:
    approve(read(place, "nobody", code=2).err)
