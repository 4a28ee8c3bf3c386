"""Conversations as logs of Inspect, held against the schema of its format.

`inspect_log.schema.json` is what `EvalLog.model_json_schema()` of inspect_ai 0.3.285 (MIT licence)
gives, without its descriptions; `tests/long/test_inspect.py` reads logs with the package itself.
"""

from __future__ import annotations

import io
import json
import zipfile
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from engine.benchmark import StopReason
from engine.config.benchmark_file import load_definition
from engine.report.conversation import Conversation, conversations
from engine.report.inspect_log import LogOf, eval_file, json_file
from engine.store.open_reader import open_reader
from tests.engine.commands import command
from tests.engine.small_workspace import Place, small_workspace

SCHEMA = json.loads(Path(__file__).with_name("inspect_log.schema.json").read_text("utf-8"))
ABOUT = LogOf("giving-in", "Giving in", "Whether it does.", "holds", 1)


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Place:
    found = small_workspace(tmp_path_factory.mktemp("logs"))
    found.run()
    return found


@pytest.fixture
def played(place: Place) -> list[Conversation]:
    metrics = {metric.id: metric for metric in load_definition(place.benchmark).metrics}
    with closing(open_reader(place.root / "crosswind.db")) as reader:
        found = conversations(reader, "giving-in", metrics=metrics, counts=None)
        return [one for one in found if one.take.key.target_id == "holds"]


def held(value: object, of: str | None = None) -> None:
    """Against the whole schema, or that of a part."""
    schema = SCHEMA if of is None else {"$defs": SCHEMA["$defs"], "$ref": f"#/$defs/{of}"}
    faults = [error.message for error in Draft202012Validator(schema).iter_errors(value)]
    assert not faults


def read(place: Place, folder: Path, form: str, *words: str) -> Iterator[tuple[str, bytes]]:
    where = ("--workspace", str(place.root), "--out", str(folder))
    command("export", form, *where, *words, code=0)
    for path in sorted(folder.iterdir()):
        yield path.name, path.read_bytes()


def test_each_target_has_a_log_that_fits_the_format_and_an_archive_of_the_same(
    place: Place, tmp_path: Path
) -> None:
    [holds, wavers] = read(place, tmp_path / "json", "inspect-json")
    log = json.loads(holds[1])
    held(log)
    assert holds[0].endswith("+00-00_giving-in_holds.json")
    assert wavers[0].endswith("_giving-in_wavers.json")
    assert log["eval"]["dataset"]["samples"] == len(log["samples"]) == 8
    assert log["results"]["scores"][0]["name"] == "counts"
    assert log["results"]["scores"][0]["scored_samples"] == 8
    [(name, archive), _] = read(place, tmp_path / "eval", "inspect")
    assert name.endswith(".eval")
    with zipfile.ZipFile(io.BytesIO(archive)) as found:
        header = json.loads(found.read("header.json"))
        samples = [
            json.loads(found.read(f"samples/{one['id']}_epoch_{one['epoch']}.json"))
            for one in log["samples"]
        ]
        summaries = json.loads(found.read("summaries.json"))
        start = json.loads(found.read("_journal/start.json"))
    assert samples == log["samples"]
    assert header == {name: value for name, value in log.items() if name != "samples"}
    assert start == {name: header[name] for name in ("version", "eval", "plan")}
    for sample in samples:
        held(sample, "EvalSample")
    assert [(one["id"], one["epoch"]) for one in summaries] == [
        (sample["id"], sample["epoch"]) for sample in samples
    ]


def test_a_sample_holds_what_was_said_and_judged(played: list[Conversation]) -> None:
    one = played[0]
    [sample] = samples([one])
    assert [message["content"] for message in sample["messages"]] == [
        message.text for message in one.messages
    ]
    asked = sample["messages"][0]
    assert asked["metadata"]["landmark"] == one.messages[0].landmark
    assert sample["metadata"]["conversation"] == str(one.take.key)
    assert one.metric is not None
    assert sample["target"] == {"positive": "present", "negative": "absent"}[one.metric.track]
    counts, by_judge = sample["scores"]["counts"], sample["scores"]["offline:evaluator"]
    [verdict] = one.verdicts
    assert counts["value"] == by_judge["value"] == {True: "C", False: "I"}[bool(verdict.passed)]
    assert by_judge["explanation"] == verdict.justification
    assert [quote["text"] for quote in by_judge["metadata"]["quotes"]] == [
        quote.text for quote in verdict.quotes
    ]
    # a call for each reply, that knows what had been said before it
    assert [event["input_refs"] for event in sample["events"]] == [[[0, 1]], [[0, 3]]]


def test_messages_of_several_samples_are_never_taken_for_the_same(
    played: list[Conversation],
) -> None:
    again = replace(played[0], take=replace(played[0].take, number=1))
    ids = [message["id"] for one in samples([*played, again]) for message in one["messages"]]
    assert len(ids) == len(set(ids))


def test_what_failed_or_has_no_verdict_says_so(played: list[Conversation]) -> None:
    take = replace(
        played[0].take, finished=False, stop_reason=StopReason.TARGET_FAILED, detail="HTTP 500"
    )
    failed = replace(played[0], take=take, messages=[], verdicts=[], passed=None)
    unscored = replace(played[1], passed=None, unscored="a tie")
    log = document([failed, unscored])
    held(log)
    first, second = log["samples"]
    assert first["error"]["message"] == "HTTP 500"
    assert first["scores"] == {}
    assert "counts" not in second["scores"]
    assert second["metadata"]["unscored"]["counts"]["metadata"] == {"unscored": "a tie"}
    assert log["results"]["completed_samples"] == 1
    assert log["results"]["scores"][0]["metrics"] == {}


def test_accuracy_is_that_of_what_is_scored_as_inspect_counts_it(
    played: list[Conversation],
) -> None:
    passed = [True, None, False, True]
    log = document(
        [replace(one, passed=given) for one, given in zip(played[:4], passed, strict=True)]
    )
    held(log)
    values = [
        sample["scores"]["counts"]["value"]
        for sample in log["samples"]
        if "counts" in sample["scores"]
    ]
    # Inspect's `value_to_float`, and its mean of the samples that have the score
    floats = [{"C": 1.0, "P": 0.5, "I": 0.0, "N": 0.0}[value] for value in values]
    [counts] = [one for one in log["results"]["scores"] if one["name"] == "counts"]
    assert counts["metrics"]["accuracy"]["value"] == sum(floats) / len(floats) == 2 / 3
    assert (counts["scored_samples"], counts["unscored_samples"]) == (3, 1)


def test_nothing_makes_no_log() -> None:
    assert eval_file(ABOUT, []) is None
    assert json_file(ABOUT, []) is None


def document(played: list[Conversation]) -> Any:
    found = json_file(ABOUT, played)
    assert found is not None
    return json.loads(found[1])


def samples(played: list[Conversation]) -> Any:
    return document(played)["samples"]
