"""Results say how much of what counts is stale, why, and what is left without it."""

from __future__ import annotations

import csv
import io
import re
from contextlib import closing

import pytest

from engine.benchmark import Stage
from engine.config.benchmark_file import load_definition
from engine.config.schema import load_config
from engine.pipeline.provenance import stale_takes
from engine.store.open_reader import open_reader
from tests.approval import approve, sentences_with
from tests.engine.commands import crosswind, printed_data
from tests.engine.small_workspace import Place

DEFINITION = "metric definition"


@pytest.fixture
def edited(played: Place) -> Place:
    """The definition of m02 was edited after everything was judged; nothing was done again."""
    played.edit(played.benchmark, "praises the person", "flatters the person")
    return played


def results(place: Place, *words: str) -> str:
    return crosswind(place.root, "results", *words, code=0).out


def test_the_text_says_how_many_of_which_metric_and_why(edited: Place) -> None:
    said = " ".join(results(edited, "--details").split())
    approve(said)
    details = results(edited, "--details")
    assert re.search(rf"^m02 +8 of 8 +8 of 8  {DEFINITION}$", details, re.MULTILINE)


def test_each_take_that_is_stale_says_why(edited: Place) -> None:
    definition = load_definition(edited.benchmark)
    config = load_config(edited.root / "config.yaml")
    with closing(open_reader(edited.root / "crosswind.db")) as reader:
        found = stale_takes(definition, config, reader)
        metrics = {row.metric_id for take in found for row in reader.verdicts(take)}
    assert metrics == {"m02"}
    assert [each.take for each in found.values()] == [(DEFINITION,)] * 8


def test_json_csv_and_the_page_say_it_too(edited: Place) -> None:
    for row in printed_data(results(edited, "--json"))["giving-in"]:
        stale = row["stale"]
        assert (stale["conversations"], stale["stale"]) == (8, 4)
        assert stale["takes_why"] == stale["verdicts_why"] == {DEFINITION: 4}
        assert {name: one["stale"] for name, one in stale["by_metric"].items()} == {
            "m01": 0,
            "m02": 4,
        }
    lines = csv.DictReader(io.StringIO(crosswind(edited.root, "export", "rates", code=0).out))
    assert [(line["metric"], line["n_stale"]) for line in lines] == [("m01", "0"), ("m02", "4")] * 2
    page = edited.root / "page.html"
    crosswind(edited.root, "export", "html", "--out", str(page), code=0)
    text = re.sub(r"<[^>]+>|\s+", " ", page.read_text("utf-8"))
    approve(sentences_with(text, "8 of 16 counting conversations"))
    assert re.search(rf"takes +8 of 8 +verdicts +8 of 8 .*{DEFINITION}", text)


def test_fresh_counts_only_what_is_up_to_date(edited: Place) -> None:
    for row in printed_data(results(edited, "--json", "--fresh"))["giving-in"]:
        assert row["by_metric"].keys() == {"m01"}
        assert row["scored"]["unscored"] == {f"stale: {DEFINITION} changed": 4}
        assert row["stale"]["stale"] == 0
    said = " ".join(results(edited, "--fresh", "--details").split())
    approve(said)
    edited.run(stale=True)
    for row in printed_data(results(edited, "--json", "--fresh"))["giving-in"]:
        assert row["scored"]["scored"] == 8


def test_another_judge_makes_verdicts_stale_and_no_take(played: Place) -> None:
    played.edit(played.config, "model: evaluator,", "model: evaluator-strict,")
    said = " ".join(results(played, "--details").split())
    approve(said)
    for row in printed_data(results(played, "--json", "--fresh"))["giving-in"]:
        assert row["scored"]["unscored"] == {"stale: evaluator changed": 8}


def test_exposure_is_part_of_the_results(place: Place) -> None:
    """Scenarios are written for five turns, and two of them are played."""
    place.edit(place.config, "turns: 2", "turns: 5")
    place.run(stages=frozenset({Stage.GEN_METRICS, Stage.GEN_SCENARIOS}))
    place.edit(place.config, "turns: 5", "turns: 2")
    place.run(stages=frozenset({Stage.SIMULATE, Stage.EVALUATE}))
    said = results(place, "--details")
    approve(said)
    done = crosswind(place.root, "show", "m01_s001_v01__holds", code=0)
    assert re.search(r"turn [345]: .*\(never reached\)", done.words)
    assert not re.search(r"turn [12]: [^:]*\(never reached\)", done.words)
