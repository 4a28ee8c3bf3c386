"""What a watcher asks an engine for, and when; without an engine, by a clock of our own."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from engine.facts import LiveText, Speech
from engine.link import Board, EngineState
from engine.service.link_state import BOARD_HERTZ, INTEREST_SECONDS, ConversationId, LinkState
from engine.service.protocol import (
    BoardAsked,
    EngineLine,
    MessageError,
    SomeText,
    TextAsked,
    WatcherMessage,
    encode_value,
)
from tests.engine.service.staging import BENCHMARK, KEY, a_speech

CONVERSATION: ConversationId = (BENCHMARK, KEY)
SPEECH = a_speech()


@pytest.fixture
def hearing() -> LinkState:
    return LinkState(hertz=10)


def answered(hearing: LinkState, asked: WatcherMessage, said: str, speech: Speech = SPEECH) -> None:
    """As an engine would that has said so much of this speech."""
    assert isinstance(asked, TextAsked)
    cursor = asked.cursor if speech == asked.speech else 0
    heard = LiveText.since(cursor, speech, said)
    ok = json.loads(encode_value(SomeText.of(heard)))
    hearing.hear(asked, EngineLine(1, ok), now=0.0)


def test_nothing_is_asked_before_somebody_looks(hearing: LinkState) -> None:
    assert hearing.due(0.0) == []
    assert hearing.next_due(0.0) is None


def test_a_first_look_is_news_and_asked_for_at_once(hearing: LinkState) -> None:
    assert hearing.want_board(0.0)
    assert hearing.want_text(CONVERSATION, 0.0)
    assert hearing.due(0.0) == [BoardAsked(0), TextAsked(BENCHMARK, KEY)]
    assert not hearing.want_board(0.1)
    assert not hearing.want_text(CONVERSATION, 0.1)


def test_nothing_is_asked_again_before_it_was_answered(hearing: LinkState) -> None:
    hearing.want_text(CONVERSATION, 0.0)
    [asked] = hearing.due(0.0)
    assert hearing.due(1.0) == []
    assert hearing.next_due(1.0) is None
    answered(hearing, asked, "I would")
    assert hearing.next_due(1.0) == pytest.approx(0.1)
    assert hearing.due(1.0) == [TextAsked(BENCHMARK, KEY, 7, SPEECH)]


def test_text_is_pulled_at_its_pace_and_the_board_more_slowly(hearing: LinkState) -> None:
    asked = {BoardAsked: 0, TextAsked: 0}
    board = json.loads(encode_value(Board(EngineState.RUNNING, ())))
    for step in range(1000):
        now = step / 100
        hearing.want_board(now)
        hearing.want_text(CONVERSATION, now)
        for ask in hearing.due(now):
            if isinstance(ask, TextAsked):
                asked[TextAsked] += 1
                answered(hearing, ask, "I")
            else:
                asked[BoardAsked] += 1
                hearing.hear(ask, EngineLine(1, {"number": 1, "board": board}), now)
    assert asked[TextAsked] == pytest.approx(10 * 10, abs=12)
    assert asked[BoardAsked] == pytest.approx(10 * BOARD_HERTZ, abs=6)


def test_what_nobody_looked_at_for_a_while_is_forgotten_and_then_news_again(
    hearing: LinkState,
) -> None:
    hearing.want_text(CONVERSATION, 0.0)
    [asked] = hearing.due(0.0)
    answered(hearing, asked, "I would")
    later = INTEREST_SECONDS + 1
    assert not hearing.interested(later)
    assert hearing.want_text(CONVERSATION, later)
    assert hearing.text(CONVERSATION, 0) is None
    assert hearing.due(later) == [TextAsked(BENCHMARK, KEY)]


def test_an_answer_that_comes_after_the_look_had_ended_does_no_harm(hearing: LinkState) -> None:
    hearing.want_text(CONVERSATION, 0.0)
    [first] = hearing.due(0.0)
    answered(hearing, first, "I would")
    [second] = hearing.due(0.2)
    later = INTEREST_SECONDS + 1
    assert hearing.want_text(CONVERSATION, later)
    assert hearing.due(later) == []
    answered(hearing, second, "I would rather")
    assert hearing.text(CONVERSATION, 0) is None
    [third] = hearing.due(later)
    answered(hearing, third, "I would rather not")
    assert hearing.text(CONVERSATION, 8) == LiveText(SPEECH, "rather not", 18)


def test_a_message_that_began_anew_is_told_from_its_beginning(hearing: LinkState) -> None:
    hearing.want_text(CONVERSATION, 0.0)
    for now, said in enumerate(("I would rather", "No", "No, no")):
        hearing.want_text(CONVERSATION, now)
        [asked] = hearing.due(now)
        answered(hearing, asked, said)
        found = hearing.text(CONVERSATION, 0)
        assert found is not None
        assert found.text == said


def test_a_board_that_is_said_to_be_known_and_is_not_is_refused(hearing: LinkState) -> None:
    hearing.want_board(0.0)
    [asked] = hearing.due(0.0)
    with pytest.raises(MessageError, match="said to be known"):
        hearing.hear(asked, EngineLine(1, {"number": 4, "board": None}), 0.0)


def test_after_another_connection_everything_is_asked_for_anew(hearing: LinkState) -> None:
    hearing.want_text(CONVERSATION, 0.0)
    [asked] = hearing.due(0.0)
    answered(hearing, asked, "I would")
    hearing.due(0.5)
    hearing.reset(1.0)
    assert hearing.text(CONVERSATION, 0) is None
    assert hearing.due(1.0) == [BoardAsked(0), TextAsked(BENCHMARK, KEY)]


def test_a_watcher_loads_nothing_heavy() -> None:
    program = "import sys, engine.service.client; print(' '.join(sys.modules))"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, check=True)
    loaded = set(done.stdout.decode().split())
    assert not loaded & {"pydantic", "asyncio", "sqlite3", "sqlite_utils", "yaml", "engine.store"}
