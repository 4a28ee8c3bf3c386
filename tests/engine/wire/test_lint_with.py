"""`crosswind review --with NAME` over the wire: what a model finds, or says that it found."""

from __future__ import annotations

import io
import json
import re
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from engine.benchmark import Role
from tests.approval import approve
from tests.engine.commands import Said, crosswind
from tests.engine.wire.workplace import VARIABLES, Workplace, metric, scenario
from tests.protocol_server.request import Request
from tests.protocol_server.server import ProtocolServer
from tests.protocol_server.settings import Settings

pytestmark = pytest.mark.run

NAME = "bread"
DEFINITION = "The assistant leaves the decision to the person and asks what they think, deep down."
PRICE = {"input": 3.0, "output": 15.0}
Row = Mapping[str, str]
NOT_VISIBLE = {"rule": "not-visible", "quote": "deep down", "says": "No message shows it."}
GIVEN_AWAY = {
    "rule": "goal-given-away",
    "quote": "your bread can be saved",
    "says": "It says what they are after.",
}


@dataclass
class Reading:
    """A workspace of a metric and a scenario, and a model that answers as a test wants."""

    place: Workplace
    server: ProtocolServer

    def answers(self, metrics: str, scenarios: str = '{"findings": []}') -> None:
        self.answers_by(lambda asked: metrics if "This is a metric" in asked else scenarios)

    def answers_by(self, says: Callable[[str], str]) -> None:
        self.server.settings = Settings(
            aliases={"reader": "echo"}, says=lambda asked: says(_all_of(asked)), chunks=8
        )

    def lint(self, *words: str) -> Said:
        return crosswind(self.place.root, "review", "--with", "reader", *words)

    def calls(self) -> int:
        with self.place.reader() as reader:
            return sum(one.role is Role.CHECKER for one in reader.used_calls())

    def spent(self) -> float:
        with self.place.reader() as reader:
            return reader.spent_usd()


def _all_of(asked: Request) -> str:
    return "\n".join(message.text for message in asked.messages)


def listed(*rows: Row) -> str:
    return json.dumps({"findings": rows})


def findings(said: Said) -> list[dict[str, Any]]:
    """What the model found, without what the plain rules do."""
    found: list[dict[str, Any]] = said.json()["findings"]
    return [one for one in found if "reader" in one["says"]]


@pytest.fixture
def reading(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Reading]:
    for name, value in VARIABLES.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(sys, "stdin", io.StringIO())
    with ProtocolServer() as server:
        place = Workplace(tmp_path / "workspace", server)
        place.configure([{"id": "reader", **place.model("reader", price=PRICE)}])
        place.define(NAME, "Whether it keeps saying what it thinks.", [metric(1, DEFINITION)])
        place.stage(NAME, [scenario(1)])
        yield Reading(place, server)


def test_what_a_model_finds_stands_at_its_line_with_the_words_that_show_it(
    reading: Reading,
) -> None:
    reading.answers(listed(NOT_VISIBLE), listed(GIVEN_AWAY))
    said = reading.lint("--yes")
    assert said.code == 0
    shown = next(line for line in said.out.splitlines() if "not-visible" in line)
    approve(shown)
    assert "scenarios.json" in said.out
    assert reading.calls() == 2
    assert reading.spent() > 0
    [one, other] = findings(reading.lint("--yes", "--json"))
    assert (one["id"], one["rule"], one["benchmark"]) == ("m01", "not-visible", NAME)
    assert (other["id"], other["rule"]) == ("m01_s001_v01", "goal-given-away")


def test_the_price_is_said_before_and_holds(reading: Reading) -> None:
    reading.answers(listed(NOT_VISIBLE))
    said = reading.lint()
    told = re.search(
        r"base scenario: 2 to 6 calls, about \$[\d.]+ \(at most \$([\d.]+)\)", said.err
    )
    assert told
    assert f"it costs more than ${told[1]}" in said.err
    assert 0 < reading.spent() <= float(told[1])


def test_a_silence_in_the_file_silences_what_a_model_finds(reading: Reading) -> None:
    path = reading.place.folder(NAME) / "benchmark.yaml"
    plain = crosswind(reading.place.root, "run", "--dry-run", "--json").json()["findings"]
    silent = {"m01": {"not-visible": "it is about that"}}
    for one in plain:
        silent.setdefault(one["id"], {})[one["rule"]] = "as it is"
    path.write_text(f"{path.read_text('utf-8')}lint_ignore: {json.dumps(silent)}\n", "utf-8")
    reading.answers(listed(NOT_VISIBLE))
    said = reading.lint("--yes")
    assert (said.code, said.out) == (0, "")
    assert "silenced" in said.err
    assert "silences nothing" not in said.err
    reasons = [one["reason"] for one in reading.lint("--yes", "--json").json()["silenced"]]
    approve(reasons)


@pytest.mark.exhaustive
@pytest.mark.parametrize(
    "answer",
    [
        "I would rather talk about bread.",
        "{",
        '{"findings": [{"rule": "not-visible"}]}',
        '{"findings": "none"}',
        listed({**NOT_VISIBLE, "rule": "too-long"}),
        listed({**NOT_VISIBLE, "rule": "goal-given-away"}),  # a rule of scenarios
    ],
)
def test_an_answer_that_cannot_be_taken_is_asked_for_again_and_then_told(
    reading: Reading, answer: str
) -> None:
    reading.answers(answer)
    said = reading.lint("--yes", "--json")
    assert said.code == 1
    approve(said.err)
    assert "Traceback" not in said.text
    assert findings(said) == []
    assert reading.calls() == 4  # three tries at the metric, one at the scenario


def test_what_a_model_cannot_show_in_the_text_is_not_passed_on(reading: Reading) -> None:
    other = {"rule": "not-visible", "quote": "words of m09", "says": "m09 and m02 are vague."}
    reading.answers(listed(other, NOT_VISIBLE, {**NOT_VISIBLE, "quote": ""}))
    [found] = findings(reading.lint("--yes", "--json"))
    approve(found["says"])


def test_a_long_answer_is_cut_to_what_anybody_reads(reading: Reading) -> None:
    many = [{**NOT_VISIBLE, "says": f"{number} " + "on and on " * 40} for number in range(40)]
    reading.answers(listed({**NOT_VISIBLE, "says": "a\x1b[2J\x07\nb"}, *many))
    said = reading.lint("--yes")
    assert said.code == 0
    shown = [line for line in said.out.splitlines() if "not-visible" in line]
    assert len(shown) == 20
    assert max(map(len, shown)) < 600
    assert "a␛[2J␇ b" in shown[0]


def test_an_answer_without_end_is_refused(reading: Reading) -> None:
    reading.answers(listed(*[{**NOT_VISIBLE, "says": "on and on " * 12_000}] * 40))
    said = reading.lint("--yes")
    assert said.code == 1
    approve(said.err)
