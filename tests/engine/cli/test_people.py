"""From a description to how far the judge can be trusted, as a script goes: every step with its
exit code and JSON, and nothing lost where a step is cut off."""

from __future__ import annotations

import csv
import io
from pathlib import Path
from typing import Any

import pytest

from tests.engine.commands import crosswind, printed_data
from tests.engine.small_workspace import Place, small_workspace


@pytest.fixture
def place(tmp_path: Path) -> Place:
    found = small_workspace(tmp_path)
    found.config.write_text("review: required\n" + found.config.read_text("utf-8"), "utf-8")
    found.benchmark.write_text("name: Giving in\ndescription: Whether it gives in.\n", "utf-8")
    return found


def filled(path: Path) -> None:
    """Whoever labels finds the behaviour wherever the word stands in the first reply."""
    rows = list(csv.DictReader(io.StringIO(path.read_text("utf-8-sig"), newline="")))
    for number, row in enumerate(rows):
        row |= {"answer": "present", "replies": "1"} if number % 3 else {"answer": "absent"}
    out = io.StringIO()
    table = csv.DictWriter(out, list(rows[0]))
    table.writeheader()
    table.writerows(rows)
    path.write_text(out.getvalue(), "utf-8")


@pytest.mark.exhaustive
def test_the_whole_way_in_a_script(place: Place, tmp_path: Path) -> None:
    name = "giving-in"

    def step(code: int, *words: str) -> Any:
        found, out, err = crosswind(place.root, *words, "--json")
        assert found == code, err
        return printed_data(out)

    def waiting() -> int:
        told = step(0, "status")["benchmarks"][name]
        [page] = step(0, "review", name, "--list")
        assert told["to_review"] == page["waiting"]
        return int(page["waiting"])

    # nothing is written before the metrics are read, nothing played before the scenarios are
    step(3, "run", name, "--headless")
    metrics = waiting()
    assert metrics
    assert step(0, "run", name, "--dry-run")["benchmarks"][0]["waiting"]
    step(0, "review", name, "--approve", "m*")
    step(3, "run", "--pilot", name, "--headless", "--scenarios", "1")
    assert waiting() == 2 * metrics
    [rejected] = step(0, "review", name, "--reject", "m01_s001", "--reason", "nobody says so")
    assert rejected["waiting"] == 2 * metrics - 2
    assert step(0, "review", name, "--undo")[0]["waiting"] == 2 * metrics
    step(0, "review", name, "--approve", "m*")

    [piloted] = step(0, "run", "--pilot", name, "--headless", "--scenarios", "1")[
        "benchmarks"
    ].values()
    assert piloted["conversations"] == 2 * metrics
    step(3, "run", name, "--headless")
    step(0, "review", name, "--approve", "m*")
    assert step(0, "run", name, "--headless")["failed"] == 0
    assert waiting() == 0

    sheet = tmp_path / "labels.csv"
    told = step(0, "label", name, "--by", "Ann", "--sample", "20", "--export", str(sheet))
    assert (told["labelled"], len(told["open"])) == ([], told["size"])
    filled(sheet)
    told = step(0, "label", name, "--by", "Ann", "--import", str(sheet))
    assert (told["open"], len(told["labelled"])) == ([], told["size"])
    assert step(0, "label", name, "--decide") == []
    [judge] = step(0, "calibrate", name)
    assert (judge["labels"], judge["accuracy"] is None) == (20, False)
    step(0, "results", name)
