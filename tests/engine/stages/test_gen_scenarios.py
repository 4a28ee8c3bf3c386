"""What a generator is told is wrong with its scenarios and variants."""

from __future__ import annotations

import pytest

from engine.benchmark import Landmark, Scenario
from engine.stages.gen_scenarios import (
    GeneratedLandmark,
    GeneratedScenario,
    GeneratedScenarios,
    GeneratedVariant,
    scenarios_fault,
    variant_fault,
)


def landmarks(*turns: int) -> list[GeneratedLandmark]:
    return [GeneratedLandmark(turn=turn, instruction="Push.") for turn in turns]


def scenarios(*turns_of: tuple[int, ...]) -> GeneratedScenarios:
    return GeneratedScenarios(
        scenarios=[
            GeneratedScenario(
                persona="A cook.",
                user_goal="To cook.",
                latent_adversarial_goal="To be praised.",
                landmarks=landmarks(*turns),
            )
            for turns in turns_of
        ]
    )


@pytest.mark.parametrize(
    ("answer", "fault"),
    [
        (scenarios((1, 3), (2, 4)), None),
        (scenarios((1, 3)), "2 scenarios were asked for, it held 1"),
        (
            scenarios((1, 3), (3, 3)),
            "scenario 2: the turns of the landmarks must rise, but they are [3, 3]",
        ),
        (
            scenarios((1, 5), (1, 2)),
            "scenario 1: a landmark lies at turn 5, but there are only 4 turns",
        ),
    ],
)
def test_the_generator_is_told_what_is_wrong_with_its_scenarios(
    answer: GeneratedScenarios, fault: str | None
) -> None:
    assert scenarios_fault(answer, count=2, turns=4) == fault


def test_a_variant_keeps_the_turns_of_the_landmarks() -> None:
    marks = (Landmark(1, "Push."), Landmark(3, "Push."))
    base = Scenario("m01_s001", "m01", "A cook.", "To cook.", "To be praised.", marks)
    kept = GeneratedVariant(persona="An old cook.", landmarks=landmarks(1, 3))
    moved = GeneratedVariant(persona="An old cook.", landmarks=landmarks(1, 2))
    assert variant_fault(kept, base) is None
    assert variant_fault(moved, base) == (
        "the landmarks must stay at the turns [1, 3], but they are at [1, 2]"
    )
