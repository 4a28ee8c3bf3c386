"""The demo, from nothing to its files, as a person runs it without a terminal."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.engine.commands import crosswind_in
from tests.waiting import PATIENCE_S

TARGETS = ["steadfast", "erratic", "pushover"]


@dataclass(frozen=True)
class Demo:
    root: Path
    code: int
    stdout: str
    stderr: str

    def benchmarks(self) -> list[Path]:
        return sorted(path.parent for path in self.root.glob("benchmarks/*/benchmark.yaml"))

    def read(self, *parts: str) -> Any:
        return json.loads(self.root.joinpath("benchmarks", *parts).read_text("utf-8"))


def made(folder: Path) -> Demo:
    done = subprocess.run(
        [sys.executable, "-m", "tui", "demo", "--headless"],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
        stdin=subprocess.DEVNULL,
    )
    return Demo(folder / "demo", done.returncode, done.stdout, done.stderr)


def it_ends_well_and_prints_a_table_for_each_benchmark(demo: Demo) -> None:
    assert demo.code in {0, 1}, demo.stderr
    assert "Traceback" not in demo.stderr
    assert len(demo.benchmarks()) == 3
    for folder in demo.benchmarks():
        assert folder.name in demo.stdout
    assert "not language models" in demo.stderr
    assert "not language models" in demo.stdout


def every_documented_file_is_there(demo: Demo) -> None:
    for folder in demo.benchmarks():
        for name in ("scenarios.json", "results.json", "cost.json"):
            assert demo.read(folder.name, name), name
        for target in TARGETS:
            for name in ("conversations.json", "scores.json", "cost.json"):
                assert demo.read(folder.name, "runs", target, name), name


def who_holds_the_line_passes_more_and_by_a_clear_gap(demo: Demo) -> None:
    for folder in demo.benchmarks():
        rows = demo.read(folder.name, "results.json")
        assert [row["target_model"] for row in rows] == TARGETS, folder.name
        rates = [row["positive_pass_rate"] for row in rows]
        assert rates[0] - rates[1] >= 0.15, (folder.name, rates)
        assert rates[1] - rates[2] >= 0.15, (folder.name, rates)


def samples_of_the_erratic_target_disagree(demo: Demo) -> None:
    for folder in demo.benchmarks():
        by_name = {row["target_model"]: row for row in demo.read(folder.name, "results.json")}
        assert by_name["erratic"]["agreement"]["samples"]["percent"]["value"] < 1, folder.name


def nobody_can_take_the_scripts_for_language_models(demo: Demo) -> None:
    for folder in demo.benchmarks():
        for target in TARGETS:
            for name in ("conversations.json", "scores.json"):
                for row in demo.read(folder.name, "runs", target, name):
                    assert row["_crosswind"]["scripted"] is True
        for row in demo.read(folder.name, "results.json"):
            assert any("not language models" in note for note in row["notes"])


def a_second_time_there_is_nothing_left_to_do(demo: Demo) -> None:
    before = {path: path.read_bytes() for path in demo.root.rglob("*.json")}
    again = crosswind_in(demo.root.parent, "demo", "--headless")
    assert again.code in {0, 1}
    assert again.out == demo.stdout
    assert {path: path.read_bytes() for path in demo.root.rglob("*.json")} == before
    plan = crosswind_in(demo.root, "run", "--dry-run", "--json")
    benchmarks = plan.json()["benchmarks"]
    assert sum(len(benchmark["work"]) for benchmark in benchmarks) <= demo.stderr.count("failed")


def search_finds_what_was_said(demo: Demo) -> None:
    name = demo.benchmarks()[0].name
    row = demo.read(name, "runs", "pushover", "conversations.json")[0]
    words = " ".join(row["transcript"][1]["content"].replace("*", "").split()[:4])
    found = crosswind_in(demo.root, "search", words, "--by", "target", "--limit", "999", "--json")
    assert found.code == 0, found.err
    assert row["conv_id"] in {hit["conv_id"] for hit in found.json()}


def search_says_how_many_messages_its_limit_leaves_out(demo: Demo) -> None:
    every = crosswind_in(demo.root, "search", "you", "--limit", "99999")
    assert every.err == ""
    few = crosswind_in(demo.root, "search", "you", "--limit", "3")
    of = len(every.out.splitlines())
    assert few.out.splitlines() == every.out.splitlines()[:3]
    assert few.err.startswith(f"3 of {of:,}; ")
    assert crosswind_in(demo.root, "search", "you", "--limit", "3", "--json").err == few.err
    unknown = crosswind_in(demo.root, "search", "you", "--benchmark", "nope")
    assert (unknown.code, "no benchmark 'nope'" in unknown.err) == (2, True)


def a_conversation_can_be_played_again_as_a_new_take(demo: Demo) -> None:
    name = demo.benchmarks()[1].name
    conv_id = demo.read(name, "runs", "erratic", "scores.json")[0]["conv_id"]
    where = ("--benchmark", name)
    config = demo.root / "config.yaml"
    config.write_text(config.read_text().replace("pace: human", "pace: instant"))
    before = crosswind_in(demo.root, "show", conv_id, *where, "--json").json()
    done = crosswind_in(demo.root, "simulate", conv_id, *where)
    assert done.code in {0, 1}, done.err
    shown = crosswind_in(demo.root, "show", conv_id, *where, "--json").json()
    assert [take["take"] for take in shown["takes"]] == [1, 2]
    assert shown["takes"][0]["transcript"] == before["takes"][0]["transcript"]
    assert shown["takes"][1]["verdicts"]


def test_the_demo_goes_from_nothing_to_its_files_and_on_from_there(tmp_path: Path) -> None:
    demo = made(tmp_path)
    it_ends_well_and_prints_a_table_for_each_benchmark(demo)
    every_documented_file_is_there(demo)
    who_holds_the_line_passes_more_and_by_a_clear_gap(demo)
    samples_of_the_erratic_target_disagree(demo)
    nobody_can_take_the_scripts_for_language_models(demo)
    a_second_time_there_is_nothing_left_to_do(demo)
    search_finds_what_was_said(demo)
    search_says_how_many_messages_its_limit_leaves_out(demo)
    a_conversation_can_be_played_again_as_a_new_take(demo)
