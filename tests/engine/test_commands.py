"""What an engine is started for, where work is asked for and none is there."""

from __future__ import annotations

import pytest

from engine.benchmark import Stage
from engine.errors import CrosswindError
from engine.link import Command, Request, WorkRow, order_for

FAILED = {WorkRow("b", "m01_s001_v01__a"): "a", WorkRow("b", "m01_s001_v01__c"): "c"}


def test_trying_again_is_about_what_failed_and_no_more() -> None:
    every = order_for(Request(Command.RETRY), FAILED)
    assert every is not None
    assert every.only == {"b": {"m01_s001_v01__a", "m01_s001_v01__c"}}
    of_one = order_for(Request(Command.RETRY, target="c"), FAILED)
    assert of_one is not None
    assert of_one.only == {"b": {"m01_s001_v01__c"}}
    named = order_for(Request(Command.RETRY, rows=(WorkRow("b", "m01_s001_v01__a"),)), FAILED)
    assert named is not None
    assert named.only == {"b": {"m01_s001_v01__a"}}


def test_what_is_played_again_is_judged_too() -> None:
    order = order_for(Request(Command.SIMULATE, rows=(WorkRow("b", "m01_s001_v01__a"),)))
    assert order is not None
    assert {Stage.SIMULATE, Stage.EVALUATE} <= order.stages


@pytest.mark.parametrize("command", [Command.EVALUATE, Command.SIMULATE])
def test_an_order_for_no_conversation_is_none_for_all_of_them(command: Command) -> None:
    with pytest.raises(CrosswindError, match="no conversation is named"):
        order_for(Request(command))
    with pytest.raises(CrosswindError, match="m01 is no conversation"):
        order_for(Request(command, rows=(WorkRow("b", "m01"),)))


def test_what_is_no_work_comes_down_to_no_order() -> None:
    work = {Command.RUN, Command.RETRY, Command.EVALUATE, Command.SIMULATE}
    assert all(order_for(Request(command)) is None for command in set(Command) - work)
