"""The calls behind a conversation's messages: in the store, and on the screen."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path

import pytest

from engine.benchmark import Speaker, Stage
from engine.cli.session import open_session
from engine.config.benchmark_file import load_definition
from engine.config.schema import ModelSpec, config_of, load_config
from engine.pipeline.context import LiveBoard
from engine.pipeline.models import open_offline
from engine.pipeline.provenance import TakeCalls, calls_of_take
from engine.providers.model import Message, Model
from engine.store.tables import TakeRow
from engine.watch import Watch
from tests.approval import approve, lines_with
from tests.engine.small_workspace import Place, small_workspace
from tests.models import Overheard
from tests.tui.idle import hurried
from tests.tui.theatre import Pilot, on_screen
from tui.app import CrosswindApp
from tui.orders import Orders
from tui.services.engine_control import Backend


def found(place: Place, take: TakeRow) -> TakeCalls:
    config = config_of(load_config(place.config), "giving-in")
    with place.reader() as reader:
        return calls_of_take(
            load_definition(place.benchmark), config, reader, take.key, take.number
        )


def test_requests_are_made_again_as_they_were_sent(tmp_path: Path) -> None:
    heard: dict[str, list[Sequence[Message]]] = defaultdict(list)

    def opened(spec: ModelSpec) -> Model:
        return Overheard(open_offline(spec), heard[spec.model])

    place = small_workspace(tmp_path).heard_by(opened)
    place.run(stages=frozenset({Stage.GEN_SCENARIOS, Stage.SIMULATE}))
    with place.reader() as reader:
        takes = reader.takes("giving-in")
    sent = [list(request) for requests in heard.values() for request in requests]
    for take in takes:
        calls = found(place, take)
        assert calls.changed is None
        assert [(call.turn, call.speaker) for call in calls.calls] == [
            (turn, speaker) for turn in (1, 2) for speaker in (Speaker.USER, Speaker.TARGET)
        ]
        for call in calls.calls:
            assert list(call.request) in sent
            [attempt] = call.attempts
            assert attempt.outcome == "answer"

    place.edit(place.benchmark, "asks what they think", "asks how they feel")
    changed = found(place, takes[0])
    assert changed.changed == "metric definition changed"


def test_what_generator_and_judge_write_is_shown_while_they_write(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: set[tuple[Stage, str]] = set()
    end = LiveBoard.end_writing

    def look_then_end(board: LiveBoard, benchmark: str, stage: Stage, unit: str) -> None:
        seen.update((each.stage, each.text.partition(":")[0]) for each in board.writing())
        end(board, benchmark, stage, unit)
        assert unit not in {each.unit for each in board.writing()}

    monkeypatch.setattr(LiveBoard, "end_writing", look_then_end)
    small_workspace(tmp_path).run()
    assert {(Stage.GEN_SCENARIOS, "persona"), (Stage.EVALUATE, "reasoning")} <= seen


def test_m_shows_the_calls_of_the_message_that_is_read_and_leads_on(tmp_path: Path) -> None:
    place = small_workspace(tmp_path)
    place.run()
    session = open_session(place.root)

    async def perform() -> None:
        with closing(Watch.open(session.store_path, session.watched())) as watch:
            backend = Backend(calls=Orders(session, session.store_path).calls)
            app = CrosswindApp(watch, theme="crosswind-dark", backend=backend)
            async with app.run_test(size=(80, 24)) as pilot:
                await pilot.press("3")
                assert "[All]" in await settled(pilot)
                await pilot.press("enter")
                await settled(pilot)
                await pilot.press("m")
                approve(lines_with(await settled(pilot), "the answer as"))
                await pilot.press(*["left_square_bracket"] * 3)
                seen = await settled(pilot)
                approve(lines_with(seen, "turn 1, user", "1 of 4", "1 attempt", "the answer as"))
                await pilot.press("right_square_bracket")
                seen = await settled(pilot)
                assert "turn 1, target" in seen
                await pilot.press("end")
                approve(lines_with(seen + await settled(pilot), "made again from"))

    hurried(perform())


async def settled(pilot: Pilot) -> str:
    await pilot.pause()
    await pilot.app.workers.wait_for_complete()
    assert isinstance(pilot.app, CrosswindApp)
    pilot.app.tick()
    await pilot.pause()
    return on_screen(pilot)
