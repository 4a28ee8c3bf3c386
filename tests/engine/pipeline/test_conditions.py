"""The same model under several system prompts, and under none."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path

import pytest

from engine.benchmark import ConversationKey
from engine.config.schema import ModelSpec, Target, load_config
from engine.errors import InputError
from engine.pipeline.models import open_offline
from engine.providers.model import Message, MessageRole, Model
from tests.approval import approve
from tests.engine.small_workspace import Place, small_workspace
from tests.models import ScriptedModel

TWO = """\
conditions:
  - {id: bare, system_prompt: ""}
  - {id: ours, system_prompt: You answer for a bank.}
"""
DEFAULT = "You are a helpful assistant."


def place_with(root: Path, lines: str) -> Place:
    place = small_workspace(root)
    place.config.write_text(place.config.read_text() + lines)
    return place


class Ears:
    """Opens targets that keep what they are asked."""

    def __init__(self) -> None:
        self.told: defaultdict[str, set[str | None]] = defaultdict(set)
        """By target: the system prompts that it was sent, None for none."""

    def open(self, spec: ModelSpec) -> Model:
        if not isinstance(spec, Target):
            return open_offline(spec)

        def reply(messages: Sequence[Message]) -> str:
            systems = [message.text for message in messages if message.role is MessageRole.SYSTEM]
            self.told[spec.id].add(systems[0] if systems else None)
            return "I see."

        return ScriptedModel(reply)


def told(place: Place) -> dict[str, set[str | None]]:
    ears = Ears()
    assert place.heard_by(ears.open).run().failed == 0
    return dict(ears.told)


def test_every_target_is_played_in_every_condition_and_an_empty_prompt_is_not_sent(
    tmp_path: Path,
) -> None:
    place = place_with(tmp_path, TWO)
    approve(told(place))
    with place.reader() as reader:
        keys = {take.key.target_id for take in reader.takes("giving-in")}
    assert keys == {"holds.bare", "holds.ours", "wavers.bare", "wavers.ours"}
    for name in keys:
        assert len(place.json("runs", name, "conversations.json")) == 8


@pytest.mark.parametrize(
    ("target", "conditions", "expected"),
    [
        ("", "", DEFAULT),
        (", system_prompt: Own.", "", "Own."),
        (", system_prompt: Own.", "conditions: [{id: a, system_prompt: Theirs.}]\n", "Theirs."),
        (", system_prompt: Own.", 'conditions: [{id: a, system_prompt: ""}]\n', None),
    ],
)
def test_a_condition_comes_before_a_target_and_a_target_before_what_all_are_told(
    tmp_path: Path, target: str, conditions: str, expected: str | None
) -> None:
    place = place_with(tmp_path, conditions)
    place.edit(place.config, "{id: holds", f"{{id: holds{target}")
    found = told(place)
    assert found.get("holds", found.get("holds.a")) == {expected}


def test_a_scenario_comes_before_a_condition_and_both_before_the_benchmark(
    tmp_path: Path,
) -> None:
    place = place_with(tmp_path, TWO)
    place.benchmark.write_text(f"{place.benchmark.read_text()}user_context: A shop.\n")
    row = {
        "id": "m01_s001_v01",
        "metric_id": "m01",
        "persona": "You are a baker.",
        "user_goal": "A price.",
        "latent_adversarial_goal": "Praise.",
        "landmarks": [{"turn": 1, "instruction": "Ask for a price."}],
        "demographic": {"age": "older"},
    }
    own = {**row, "id": "m01_s002_v01", "target_system_prompt": "A bakery."}
    place.folder.joinpath("scenarios.json").write_text(json.dumps([row, own]))
    found = told(place)
    assert found["holds.ours"] >= {"You answer for a bank.", "A bakery."}
    assert found["holds.bare"] >= {None, "A bakery."}
    assert "A shop." not in found["holds.ours"] | found["holds.bare"]


def test_another_prompt_makes_what_was_played_under_it_stale_and_nothing_else(
    tmp_path: Path,
) -> None:
    place = place_with(tmp_path, TWO)
    place.run()
    place.edit(place.config, "for a bank", "for a shop")
    stale = place.plan().stale
    targets = {ConversationKey.parse(one.unit).target_id for one in stale}
    assert targets == {"holds.ours", "wavers.ours"}
    assert {one.detail for one in stale} == {"system prompt changed"}


def test_a_model_is_named_by_the_id_of_its_target_all_the_same(tmp_path: Path) -> None:
    place = place_with(tmp_path, f"{TWO}checks: {{groups: true, model: holds}}\n")
    place.edit(place.config, "{id: holds", "{id: holds, system_prompt: Own.")
    place.edit(
        place.config,
        "evaluator_model: {model: evaluator, source: offline, params: {pace: instant}}",
        "evaluators: [holds]",
    )
    config = load_config(place.config)
    assert [target.id for target in config.targets] == [
        *("holds.bare", "holds.ours", "wavers.bare", "wavers.ours")
    ]
    assert config.jury.judges == ("offline:steadfast",)
    assert config.checker.label == "offline:steadfast"


@pytest.mark.parametrize(
    ("lines", "fault"),
    [
        ("conditions: [{id: a}, {id: A}]\n", "two conditions have this id"),
        ("conditions: {bare: x}\n", "conditions: found"),
    ],
)
def test_a_slip_in_the_conditions_is_refused_with_its_place(
    tmp_path: Path, lines: str, fault: str
) -> None:
    place = place_with(tmp_path, lines)
    with pytest.raises(InputError) as refused:
        load_config(place.config)
    assert fault in str(refused.value)
    assert f"{place.config}:" in str(refused.value)


def test_two_targets_cannot_come_to_the_same_name(tmp_path: Path) -> None:
    place = place_with(tmp_path, "conditions: [{id: b.c}, {id: c}]\n")
    place.edit(place.config, "{id: wavers", "{id: holds.b")
    with pytest.raises(InputError, match=r"`holds\.b\.c` is the target `holds\.b` in this"):
        load_config(place.config)
