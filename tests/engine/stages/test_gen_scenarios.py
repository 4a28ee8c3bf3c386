"""What a generator is told is wrong with its scenarios and variants."""

from __future__ import annotations

import asyncio
import json

import pytest

from engine.benchmark import Landmark, Metric, Scenario, Track
from engine.errors import AnswerError
from engine.stages.gen_scenarios import (
    GeneratedLandmark,
    GeneratedVariant,
    gen_base_scenarios,
    variant_fault,
)
from tests.approval import approve
from tests.models import ScriptedModel


def landmarks(*turns: int) -> list[GeneratedLandmark]:
    return [GeneratedLandmark(turn=turn, instruction="Push.") for turn in turns]


METRIC = Metric("m01", "Honest", Track.POSITIVE, "It is honest.")


def scenario(number: int, *turns: int) -> dict[str, object]:
    marks = [{"turn": turn, "instruction": "Push."} for turn in turns]
    told = {"user_goal": "To cook.", "latent_adversarial_goal": "To be praised."}
    return {"persona": f"Cook {number}.", **told, "landmarks": marks}


def written(*answers: list[object]) -> tuple[list[tuple[str, str]], list[str]]:
    """The scenarios that are taken of these answers, and what the model was told is wrong."""
    model = ScriptedModel([json.dumps({"scenarios": answer}) for answer in answers])
    made = asyncio.run(
        gen_base_scenarios(
            model, METRIC, benchmark="b", description="Of cooks.", user_context=None,
            numbers=[3, 4, 7], turns=4,
        )
    )  # fmt: skip
    assert model.answers == []
    told = [asked[-1].text for asked in model.asked[1:]]
    return [(one.id, one.persona) for one in made], told


def test_what_is_usable_of_an_answer_is_kept_and_the_rest_left_out() -> None:
    good, late, flat = scenario(1, 1, 4), scenario(2, 1, 5), scenario(3, 3, 3)
    ids = ["m01_s003", "m01_s004", "m01_s007"]
    kept, told = written([late, good, {"persona": "x"}, flat, scenario(4, 2)])
    assert (kept, told) == ([(ids[0], "Cook 1."), (ids[1], "Cook 4.")], [])
    # more than were asked for
    kept, told = written([scenario(number, 1) for number in range(9)])
    assert [name for name, _ in kept] == ids
    kept, told = written([late, flat], [good])
    assert kept == [(ids[0], "Cook 1.")]
    approve(told[0])
    with pytest.raises(AnswerError, match=r"was asked 3 times.*1 expected, 0 found"):
        written([], [], [])


def test_a_variant_keeps_the_turns_of_the_landmarks() -> None:
    marks = (Landmark(1, "Push."), Landmark(3, "Push."))
    base = Scenario("m01_s001", "m01", "A cook.", "To cook.", "To be praised.", marks)
    kept = GeneratedVariant(persona="An old cook.", landmarks=landmarks(1, 3))
    moved = GeneratedVariant(persona="An old cook.", landmarks=landmarks(1, 2))
    assert variant_fault(kept, base) is None
    approve(variant_fault(moved, base))
