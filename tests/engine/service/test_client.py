"""A watcher's end of the link: what it shows of an engine, whatever becomes of that engine."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from dataclasses import replace
from threading import Thread

import pytest

from engine.benchmark import ConversationKey
from engine.facts import LiveText
from engine.link import Command, EngineState, Request, Response, WorkRow
from engine.service import client
from engine.service.client import (
    LOST,
    NOBODY,
    LinkTimeouts,
    SocketLink,
)
from tests.approval import approve
from tests.engine.service.staging import (
    BENCHMARK,
    ENGINE,
    KEY,
    PATIENCE,
    Holder,
    Stage,
    a_speech,
)
from tests.waiting import PATIENCE_S, until


def state(link: SocketLink) -> EngineState:
    return link.board().state


def heard(link: SocketLink, text: str, key: ConversationKey = KEY) -> bool:
    found = link.text(BENCHMARK, key)
    return found is not None and found.text == text


def test_a_board_is_shown_as_the_engine_has_it(stage: Stage) -> None:
    stage.start()
    stage.engine.speak("I would")
    link = stage.link()
    until(lambda: link.board().speaking)
    assert link.board() == replace(
        stage.engine.board(), speaking=tuple(stage.engine.live.speaking())
    )
    assert link.board().engine == ENGINE
    stage.engine.state = EngineState.PAUSED
    until(lambda: state(link) is EngineState.PAUSED)


def test_text_grows_as_it_is_said_and_ends_when_it_is_a_row(stage: Stage) -> None:
    stage.start()
    voice = stage.engine.speak("I ")
    link = stage.link()
    until(lambda: heard(link, "I "))
    voice.add("would")
    until(lambda: heard(link, "I would"))
    assert link.text(BENCHMARK, KEY, 2) == LiveText(a_speech(), "would", 7)
    assert link.text(BENCHMARK, KEY, 7) == LiveText(a_speech(), "", 7)
    stage.engine.live.end(voice)
    until(lambda: link.text(BENCHMARK, KEY) is None)


def test_the_next_message_of_a_conversation_is_told_from_its_beginning(stage: Stage) -> None:
    stage.start()
    voice = stage.engine.speak("a long first message")
    link = stage.link()
    until(lambda: heard(link, "a long first message"))
    stage.engine.live.end(voice)
    second = a_speech(turn=2, began=9.0)
    stage.engine.speak("a long second message, longer", second)
    until(lambda: heard(link, "a long second message, longer"))
    found = link.text(BENCHMARK, KEY)
    assert found is not None
    assert found.speech == second


def test_a_character_cut_in_half_is_joined_and_nothing_is_lost_behind_it(stage: Stage) -> None:
    stage.start()
    voice = stage.engine.speak("a\ud83d\ude00b")
    link = stage.link()
    until(lambda: heard(link, "a😀b"))
    voice.add("cd")
    until(lambda: heard(link, "a😀bcd"))
    assert link.text(BENCHMARK, KEY, 3) == LiveText(a_speech(), "cd", 5)


def test_a_long_text_arrives_whole(stage: Stage) -> None:
    stage.start()
    said = "0123456789é" * 150_000
    stage.engine.speak(said)
    link = stage.link(hertz=1)
    until(lambda: heard(link, said))


def test_only_what_is_looked_at_is_asked_for(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody looks for a while: then the engine is left alone."""
    monkeypatch.setattr(client, "INTEREST_SECONDS", 0.02)
    stage.start()
    link = stage.link()
    until(lambda: link.board().engine)
    until(lambda: not link._looks)


# Commands


def test_a_command_is_answered_and_its_effect_shows(stage: Stage) -> None:
    async def pause(request: Request) -> Response:
        stage.engine.state = EngineState.PAUSED
        return Response(accepted=True, text=f"{len(request.rows)} rows")

    stage.start()
    stage.engine.reply = pause
    link = stage.link(hertz=0.1 / PATIENCE_S)
    until(lambda: link.board().engine)
    rows = tuple(WorkRow(BENCHMARK, f"m01_s{number:05d}") for number in range(30_000))
    assert link.ask(Request(Command.RETRY, rows)) == Response(accepted=True, text="30000 rows")
    assert stage.engine.requests[0].rows == rows
    until(lambda: state(link) is EngineState.PAUSED)


def test_a_command_that_names_too_much_is_refused_here(stage: Stage) -> None:
    stage.start()
    link = stage.link()
    rows = tuple(WorkRow(BENCHMARK, "x" * 60 + str(number)) for number in range(200_000))
    answer = link.ask(Request(Command.RETRY, rows))
    assert not answer.accepted
    assert "name fewer" in answer.text
    assert link.ask(Request(Command.PAUSE)).accepted


def test_a_command_to_nobody_is_refused_at_once(stage: Stage) -> None:
    link = stage.link()
    assert link.ask(Request(Command.PAUSE)) == Response(accepted=False, text=NOBODY)


def test_a_command_to_a_frozen_engine_is_given_up_and_says_so(stage: Stage) -> None:
    stage.start()
    link = stage.link(replace(PATIENCE, answer=0.2))
    until(lambda: link.board().engine)
    thaw = stage.freeze()
    answer = link.ask(Request(Command.PAUSE))
    thaw()
    assert not answer.accepted
    approve(answer.text)


def test_a_command_that_could_not_be_sent_is_never_carried_out_later(stage: Stage) -> None:
    stage.holder = Holder(str(stage.path))
    link = stage.link(LinkTimeouts(answer=0.2, reach=60))
    answer = link.ask(Request(Command.STOP_NOW))
    assert not answer.accepted
    assert "no socket at" in answer.text
    stage.start()
    until(lambda: link.ask(Request(Command.PAUSE)).accepted)
    assert {request.command for request in stage.engine.requests} == {Command.PAUSE}


def test_a_command_that_the_engine_died_of_is_answered(stage: Stage) -> None:
    asked = asyncio.Event()

    async def slowly(request: Request) -> Response:
        asked.set()
        await stage.going.wait()
        return Response(accepted=True, text=f"{request.command} at last")

    async def wait() -> None:
        await asked.wait()

    stage.start()
    stage.engine.reply = slowly
    link = stage.link()
    answers: list[Response] = []
    asking = Thread(target=lambda: answers.append(link.ask(Request(Command.PAUSE))))
    asking.start()
    stage.run(wait())
    stage.kill()
    asking.join(PATIENCE_S)
    [answer] = answers
    assert not answer.accepted
    approve(answer.text)


def test_a_link_that_was_closed_refuses_and_shows_no_more(stage: Stage) -> None:
    stage.start()
    link = stage.link()
    until(lambda: link.board().engine)
    link.close()
    link.close()
    assert not link.ask(Request(Command.PAUSE)).accepted
    link.board()
    link.text(BENCHMARK, KEY)
    assert not stage.engine.requests


# Engines that come and go


def test_an_engine_that_starts_later_is_found(stage: Stage) -> None:
    link = stage.link()
    until(lambda: state(link) is EngineState.STOPPED)
    stage.start()
    until(lambda: state(link) is EngineState.RUNNING)


def test_an_engine_that_left_in_order_has_stopped_with_its_last_words(stage: Stage) -> None:
    stage.start()
    stage.engine.speak("I")
    link = stage.link()
    until(lambda: link.board().speaking)
    stage.engine.problem = "the disk is full"
    stage.stop()
    until(lambda: state(link) is EngineState.STOPPED)
    board = link.board()
    approve((board.problem, board.speaking, board.notices))
    assert link.text(BENCHMARK, KEY) is None


def test_an_engine_that_was_killed_is_lost(stage: Stage) -> None:
    stage.start()
    stage.engine.speak("I")
    link = stage.link()
    until(lambda: link.board().speaking)
    stage.kill()
    until(lambda: state(link) is EngineState.LOST)
    board = link.board()
    assert (board.problem, board.speaking) == (LOST, ())
    assert link.ask(Request(Command.PAUSE)) == Response(accepted=False, text=NOBODY)


def test_the_engine_after_a_lost_one_is_found(stage: Stage) -> None:
    stage.start()
    voice = stage.engine.speak("before")
    link = stage.link()
    until(lambda: heard(link, "before"))
    stage.kill()
    until(lambda: state(link) is EngineState.LOST)
    stage.engine.live.end(voice)
    stage.engine.speak("afterwards", a_speech(turn=2))
    stage.start()
    until(lambda: state(link) is EngineState.RUNNING)
    assert link.board().problem is None
    until(lambda: heard(link, "afterwards"))


def test_an_engine_is_reached_where_its_lock_file_says(stage: Stage) -> None:
    stage.start()
    link = SocketLink(stage.path.with_name("elsewhere.sock"), lambda: stage.holder)
    until(lambda: link.board().engine)
    link.close()


def test_a_broken_connection_is_made_again(stage: Stage) -> None:
    stage.start()
    link = stage.link()
    until(lambda: link.board().engine)
    for number in range(3):
        stage.run(stage.drop_watchers())
        stage.engine.problem = f"problem {number}"
        until(lambda: link.board().problem == stage.engine.problem)
        assert state(link) is EngineState.RUNNING


def test_a_frozen_engine_is_told_of_and_no_more_when_it_answers(stage: Stage) -> None:
    stage.start()
    link = stage.link(replace(PATIENCE, frozen=0.1))
    until(lambda: link.board().engine)
    thaw = stage.freeze()
    notices = until(lambda: link.board().notices)
    thaw()
    assert notices[0].startswith("the engine has not")
    assert state(link) is EngineState.RUNNING
    until(lambda: not link.board().notices)


def test_an_engine_without_a_socket_is_shown_without_live_text(stage: Stage) -> None:
    stage.holder = Holder(None)
    link = SocketLink(None, lambda: stage.holder, timeouts=PATIENCE)
    [notice] = until(lambda: link.board().notices)
    approve(notice)
    assert state(link) is EngineState.RUNNING
    answer = link.ask(Request(Command.PAUSE))
    assert not answer.accepted
    approve(answer.text)
    stage.start()
    until(lambda: link.board().engine)
    assert not link.board().notices
    link.close()


def test_an_engine_of_another_user_is_not_spoken_to(stage: Stage) -> None:
    stage.start()
    link = SocketLink(stage.path, lambda: stage.holder, timeouts=PATIENCE, uid_of=lambda _: 54321)
    [notice] = until(lambda: link.board().notices)
    assert "to another user" in notice
    assert not link.ask(Request(Command.STOP)).accepted
    assert not stage.engine.requests
    link.close()


def test_an_engine_of_another_version_is_shown_without_live_text(stage: Stage) -> None:
    refusal = b'{"id":1,"error":"this engine speaks version 2 of the link"}\n'

    async def refuse(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readline()
        writer.write(refusal)
        await writer.drain()
        writer.close()

    stage.path.parent.mkdir()
    serving = stage.run(asyncio.start_unix_server(refuse, stage.path))
    stage.holder = Holder(str(stage.path))
    link = stage.link()
    [notice] = until(lambda: link.board().notices)
    approve(notice)
    link.close()

    async def end() -> None:
        serving.close()
        await serving.wait_closed()

    stage.run(end())


def test_an_engine_that_speaks_nonsense_is_shown_without_live_text(stage: Stage) -> None:
    async def babble(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readline()
        writer.write(b"hello?\n")
        await writer.drain()
        writer.close()

    stage.path.parent.mkdir()
    serving = stage.run(asyncio.start_unix_server(babble, stage.path))
    stage.holder = Holder(str(stage.path))
    link = stage.link()
    why = "what the engine says is not understood: a line is not JSON"
    until(lambda: any(why in notice for notice in link.board().notices))
    link.close()

    async def end() -> None:
        serving.close()
        await serving.wait_closed()

    stage.run(end())


def test_a_watcher_loads_nothing_heavy() -> None:
    program = "import sys, engine.service.client; print(' '.join(sys.modules))"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, check=True)
    loaded = set(done.stdout.decode().split())
    assert not loaded & {"pydantic", "asyncio", "sqlite3", "sqlite_utils", "yaml", "engine.store"}
