"""What a conversation is compared with first."""

from __future__ import annotations

from engine.benchmark import ConversationKey, StopReason
from engine.store.browsing import RelatedTake
from tui.state.related import comparison_partners


def playing(
    target: str, *, passed: bool | None = None, scenario: str = "m01_s001_v01", number: int = 0
) -> RelatedTake:
    return RelatedTake(
        take_seq=1,
        key=ConversationKey(scenario, target, 0),
        number=number,
        counts=True,
        stop_reason=StopReason.TURN_LIMIT,
        finished=True,
        judged=passed is not None,
        passed=passed,
    )


def names(kin: list[RelatedTake], of: RelatedTake) -> list[str]:
    return [str(each.key) for each in comparison_partners(kin, of.key, of.number)]


def test_a_target_that_held_comes_before_those_that_gave_in_too() -> None:
    gave_in = playing("a", passed=False)
    kin = [gave_in, playing("b"), playing("c", passed=False), playing("d", passed=True)]
    assert names(kin, gave_in) == [f"m01_s001_v01__{target}" for target in "dcb"]


def test_what_is_nearer_comes_before_what_came_out_otherwise() -> None:
    gave_in = playing("a", passed=False)
    other_variant = playing("a", passed=True, scenario="m01_s001_v02")
    kin = [gave_in, other_variant, playing("b", passed=False)]
    assert names(kin, gave_in) == ["m01_s001_v01__b", "m01_s001_v02__a"]


def test_one_that_was_not_judged_has_no_contrast() -> None:
    unjudged = playing("b")
    kin = [unjudged, playing("c", passed=True), playing("a", passed=False)]
    assert names(kin, unjudged) == ["m01_s001_v01__a", "m01_s001_v01__c"]
