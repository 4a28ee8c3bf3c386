"""What an engine is started for, where work is asked for and none is there."""

from __future__ import annotations

from datetime import UTC, datetime

from engine.benchmark import Stage
from engine.link import Command, Request, Row
from engine.store.records import FailedUnit
from tui.services.engine_control import order_for


def failed(unit: str, target: str) -> FailedUnit:
    return FailedUnit(1, datetime.now(UTC), "b", Stage.SIMULATE, unit, target, "out of order")


FAILED = [failed("m01_s001_v01__a", "a"), failed("m01_s001_v01__c", "c")]


def test_trying_again_is_about_what_failed_and_no_more() -> None:
    every = order_for(Request(Command.RETRY), FAILED)
    assert every is not None
    assert every.only == {"b": {"m01_s001_v01__a", "m01_s001_v01__c"}}
    of_one = order_for(Request(Command.RETRY, target="c"), FAILED)
    assert of_one is not None
    assert of_one.only == {"b": {"m01_s001_v01__c"}}
    named = order_for(Request(Command.RETRY, rows=(Row("b", "m01_s001_v01__a"),)), FAILED)
    assert named is not None
    assert named.only == {"b": {"m01_s001_v01__a"}}


def test_what_is_played_again_is_judged_too() -> None:
    order = order_for(Request(Command.SIMULATE, rows=(Row("b", "m01_s001_v01__a"),)))
    assert order is not None
    assert {Stage.SIMULATE, Stage.EVALUATE} <= order.stages
