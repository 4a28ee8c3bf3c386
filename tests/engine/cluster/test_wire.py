"""What crosses, read from whoever may have said it."""

from __future__ import annotations

import random
from typing import Any, Final

import pytest

from engine.cluster.wire import (
    LONGEST_FAULT,
    AgentHello,
    AgentReport,
    CallChanges,
    CallNews,
    CallOutcome,
    Greeting,
    WireError,
    decoded,
    encoded,
)
from engine.providers.accounts import RemoteRequest, RequestDestination
from engine.providers.endpoint import Wire
from engine.providers.failures import Cause, Failure
from engine.providers.http.transport import HostPort
from engine.providers.model import Finish, Message, MessageRole
from engine.providers.protocols.base import ChatRequest, Tokens
from engine.providers.retry import RetryPolicy
from tests.waiting import assert_quick

WHERE = RequestDestination(Wire.OPENAI, "http://127.0.0.1:9/v1", "${KEY}", {"x-a": "b"}, ("KEY",))
ASK = ChatRequest("m", (Message(MessageRole.USER, "Hällo 🥐"),), extra_body={"a": [1, {"b": 2.5}]})
ENDED = CallOutcome(Failure(Cause.STATUS, "no", 503), status=200, finish=Finish.STOP)
SAID: Final[dict[type, Any]] = {
    Greeting: Greeting(1, "0.1", 30.0, "/a/workspace"),
    AgentHello: AgentHello(1, "0.1", "here", 500),
    CallChanges: CallChanges(
        {1: RemoteRequest(WHERE, ASK, RetryPolicy())},
        {2: HostPort("a", 1, False)},
        (3,),
        {"K": "v"},
    ),
    AgentReport: AgentReport(
        {
            1: CallNews("words", True, True, ENDED),
            2: CallNews(outcome=CallOutcome(tokens=Tokens(1))),
        },
        {3: True},
    ),
}
KINDS = pytest.mark.parametrize("kind", list(SAID), ids=lambda kind: kind.__name__)
LYING = [
    b"\xdd\xff\xff\xff\xff",  # an array of four thousand million
    b"\xdf\xff\xff\xff\xff",  # as many pairs
    b"\xdb\xff\xff\xff\xffabc",  # a text as long
    b"\xc6\xff\xff\xff\xffabc",  # bytes
    b"\xc9\xff\xff\xff\xff\x01abc",  # something of our own
    b"\x81\xa5calls\xdf\xff\xff\xff\xff",
    b"\x91" * 100_000,
    b"\x81\xa1a" * 100_000,
    b"\xc1",  # no value begins like that
    b"\xd6\xff\x00\x00\x00\x00",  # a time
    b"\x81\xa5calls\x90",
    b"\x81\xa5calls\x81\xa31e9\xc0",
    b"\x81\xa6probes\x81\x01\xa4true",
    b"",
]


def understood(raw: bytes, kind: type) -> bool:
    """Whatever it is, it is understood or refused; nothing else comes of it."""
    try:
        found: object = decoded(raw, kind)
    except WireError as error:
        told = str(error)
    else:
        assert isinstance(found, kind)
        return True
    assert len(told) <= LONGEST_FAULT
    return False


@KINDS
def test_what_is_said_is_heard_as_it_was(kind: type) -> None:
    assert decoded(encoded(SAID[kind]), kind) == SAID[kind]


@KINDS
def test_a_part_of_it_is_nothing(kind: type) -> None:
    whole = encoded(SAID[kind])
    assert not any(understood(whole[:length], kind) for length in range(len(whole)))
    assert not understood(whole + b"\x00", kind)


@KINDS
def test_any_bytes_are_refused_in_words(kind: type) -> None:
    chance = random.Random(17)
    whole = encoded(SAID[kind])

    def changed() -> bytes:
        said = bytearray(whole)
        for _ in range(chance.randint(1, 4)):
            said[chance.randrange(len(said))] = chance.randrange(256)
        return bytes(said)

    for _ in range(2_000):
        understood(changed(), kind)
        understood(chance.randbytes(chance.randrange(200)), kind)


@KINDS
@pytest.mark.parametrize("raw", LYING, ids=lambda raw: raw[:8].hex() or "nothing")
def test_a_length_or_depth_that_is_a_lie_takes_neither_time_nor_memory(
    kind: type, raw: bytes
) -> None:
    understood(raw, kind)
    assert_quick(lambda: understood(raw, kind), 0.1)


def test_a_body_that_is_as_deep_as_one_likes_is_refused() -> None:
    """What a person may write beside a request can be anything."""
    whole = encoded(SAID[CallChanges])
    place = whole.index(b"\x93") if b"\x93" in whole else whole.index(b"\x92\x01\x81\xa1b")
    deep = whole[:place] + b"\x91" * 50_000 + whole[place:]
    assert not understood(deep, CallChanges)


@KINDS
def test_one_kind_is_not_taken_for_another(kind: type) -> None:
    others = [encoded(said) for other, said in SAID.items() if other is not kind]
    if kind in {Greeting, AgentHello}:  # the others may be empty, and know no field of these
        assert not any(understood(raw, kind) for raw in others)
    assert not understood(encoded([1, 2]), kind)
    assert not understood(encoded("words"), kind)
