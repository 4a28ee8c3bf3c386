"""A person reviews what a model wrote: with real keys, on a real workspace."""

from __future__ import annotations

import asyncio
import getpass
import json
import shutil
from collections.abc import Awaitable, Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from engine.benchmark import Stage
from engine.cli.person_labels import PersonSample
from engine.cli.reviewing import PersonReview
from engine.cli.session import open_session
from engine.config.benchmark_file import load_definition
from engine.people import GivenLabel, LabelAnswer, NumberedLabel
from engine.pipeline.review.reviews import Reviews
from engine.watch import Watch
from tests.approval import approve
from tests.engine.commands import crosswind
from tests.engine.small_workspace import Place, small_workspace
from tests.tui.idle import hurried
from tests.tui.theatre import Pilot, ScriptedLink, on_screen
from tests.waiting import PATIENCE_S, assert_quick
from tui.app import CrosswindApp
from tui.orders import Orders
from tui.screens import your_turn
from tui.services.engine_control import Backend
from tui.services.label_queue import wait_for_files
from tui.services.terminal import PagerError
from tui.state.reviewing import word_diff

Script = Callable[[Pilot], Awaitable[None]]
SMALL = (80, 24)


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Place:
    place = small_workspace(tmp_path_factory.mktemp("written"))
    place.run(stages=frozenset({Stage.GEN_SCENARIOS}))
    return place


@pytest.fixture
def place(written: Place, tmp_path: Path) -> Place:
    shutil.copytree(written.root, tmp_path / "w")
    return Place(tmp_path / "w")


def play(
    place: Place,
    script: Script,
    size: tuple[int, int] = SMALL,
    link: ScriptedLink | None = None,
) -> None:
    session = open_session(place.root)

    async def perform() -> None:
        with closing(Watch.open(session.store_path, session.watched(), link)) as watch:
            orders = Orders(session, session.store_path, lambda: app.preferences.choices.person)
            backend = Backend(review=orders.review, label=orders.label, disputes=orders.disputes)
            memory = place.root / "app.json"
            app = CrosswindApp(watch, theme="crosswind-dark", backend=backend, memory=memory)
            async with app.run_test(size=size, notifications=True) as pilot:
                await press(pilot, "5")
                await script(pilot)

    hurried(perform())
    wait_for_files()


async def press(pilot: Pilot, *keys: str) -> str:
    """What is on the screen when all that the keys set going is done."""
    for key in keys:
        await pilot.press(key)
        await pilot.pause()
    await pilot.app.workers.wait_for_complete()
    assert isinstance(pilot.app, CrosswindApp)
    pilot.app.tick()
    await pilot.pause()
    return on_screen(pilot)


async def shown(pilot: Pilot, words: str) -> None:
    """Once that is on the screen; what waits for a person is no worker that ends."""
    async with asyncio.timeout(PATIENCE_S):
        while words not in on_screen(pilot):
            await pilot.pause()


def states(place: Place) -> dict[str, str]:
    with place.reader() as reader:
        found = Reviews.of(load_definition(place.benchmark), reader)
        return {entry.id: str(entry.state) for entry in found.entries()}


def test_a_person_says_by_which_name_they_review(place: Place) -> None:
    async def script(pilot: Pilot) -> None:
        await press(pilot, "enter", "a", "colon", *"your", "space", *"name", "enter")
        await press(pilot, *"ann", "enter", "enter", "a")

    play(place, script)
    with place.reader() as reader:
        account, ann = (one.person for one in reader.reviews(load_definition(place.benchmark).name))
    assert (account, ann) == (getpass.getuser(), "ann")
    assert json.loads((place.root / "app.json").read_text("utf-8"))["person"] == "ann"


@pytest.mark.parametrize("size", [SMALL, (120, 40)])
def test_items_are_reviewed_with_enter_and_a_letter(place: Place, size: tuple[int, int]) -> None:
    async def script(pilot: Pilot) -> None:
        seen = on_screen(pilot)
        approve(seen)
        assert "12 to review" in await press(pilot, "a", "x")  # a slip of a finger decides nothing
        assert "have written again" in await press(pilot, "enter")
        seen = await press(pilot, "a")
        assert "variant m01_s001_v01" in seen
        assert "{+" in seen  # as what became of its base
        seen = await press(pilot, "enter", "x", *"dull", "enter")
        assert "m01_s001_v01 rejected" in seen
        assert "10 to review" in seen
        assert "variant m01_s001_v01" not in seen
        seen = await press(pilot, "u")
        assert "undone: reject m01_s001_v01" in seen
        assert "variant m01_s001_v01" in seen  # the cursor is on it again
        assert "11 to review" in seen
        await press(pilot, "enter", "x", "escape")
        seen = await press(pilot, "backslash")
        assert "by hand" in seen
        assert "11 to review  1 approved  " in seen

    play(place, script, size)
    found = states(place)
    assert (found["m01_s001"], found["m01_s001_v01"]) == ("approved", "waits")


def test_all_that_waits_for_a_person_stands_in_one_queue_and_enter_opens_it(place: Place) -> None:
    place.run()
    account = getpass.getuser()
    for by, answer in (
        ("Ann", GivenLabel(LabelAnswer.ABSENT)),
        ("Ben", GivenLabel(LabelAnswer.PRESENT, (1,))),
        (account, None),
    ):
        session = open_session(place.root)
        sample = PersonSample.open(session, "giving-in", by, 6, "7", new=False)
        if answer is not None:
            sample.store([NumberedLabel(number, answer) for number in range(1, 7)])
    link = ScriptedLink(question="it may cost $3 more: go on?")

    async def script(pilot: Pilot) -> None:
        await press(pilot, "escape", "5")  # the question comes up by itself once
        seen = on_screen(pilot)
        approve(seen)
        await press(pilot, "home", "enter")
        approve(await press(pilot))
        await press(pilot, "escape", "j", "j")
        seen = await press(pilot, "enter")
        assert "disagreement" in seen
        await press(pilot, "q", "j", "enter")
        assert "0 of 6 labelled" in await press(pilot)
        await press(pilot, "enter", "n", "q")
        await shown(pilot, "5 of 6 conversations to label")

    play(place, script, (120, 40), link)


def test_an_edit_that_cannot_be_taken_is_offered_again_as_it_was_written(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    written_by_hand = ["user_goal: [", "user_goal: A lighthouse."]

    def typed(path: Path) -> None:
        line = written_by_hand.pop(0)
        lines = path.read_text().splitlines()
        lines = [line if one.startswith("user_goal:") else one for one in lines]
        path.write_text("\n".join(lines) + "\n")

    async def edit(app: object, path: Path, words: object) -> None:
        del app, words
        await asyncio.to_thread(typed, path)

    monkeypatch.setattr(your_turn, "show_file", edit)

    async def script(pilot: Pilot) -> None:
        await pilot.press("e")
        await shown(pilot, "m01_s001.yaml:")
        assert "m01_s001 changed" in await press(pilot, "e")

    play(place, script)
    assert written_by_hand == []
    assert states(place)["m01_s001"] == "approved"


def test_what_was_written_when_the_editor_was_cut_off_is_there_again(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[str] = []

    async def edit(app: object, path: Path, words: object) -> None:
        del app, words
        seen.append(await asyncio.to_thread(path.read_text))
        lines = seen[-1].splitlines()
        lines = ["user_goal: A lighthouse." if "user_goal:" in line else line for line in lines]
        await asyncio.to_thread(path.write_text, "\n".join(lines) + "\n")
        if len(seen) == 1:
            raise PagerError("the terminal is gone")

    monkeypatch.setattr(your_turn, "show_file", edit)

    async def script(pilot: Pilot) -> None:
        approve(await press(pilot, "e"))

    async def later(pilot: Pilot) -> None:
        approve(await press(pilot, "e"))

    play(place, script)
    assert states(place)["m01_s001"] == "waits"
    play(place, later)
    assert "A lighthouse." not in seen[0]
    assert "A lighthouse." in seen[1]
    assert list((place.root / "drafts").rglob("*.yaml")) == []


def test_the_cursor_is_on_what_was_undone_though_it_was_read_meanwhile(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def script(pilot: Pilot) -> None:
        await press(pilot, "enter", "a", "j", "enter", "x", *"dull", "enter")
        screen, loop = pilot.app.screen, asyncio.get_running_loop()
        assert isinstance(screen, your_turn.YourTurnScreen)
        act = PersonReview.act

        def act_and_be_read(*words: Any, **more: Any) -> str:
            said = act(*words, **more)
            asyncio.run_coroutine_threadsafe(screen._read(), loop).result()
            return said

        monkeypatch.setattr(PersonReview, "act", act_and_be_read)
        seen = await press(pilot, "j", "j", "u")
        assert "undone: reject m01_s001_v02" in seen
        assert "variant m01_s001_v02 ─" in seen

    play(place, script)


def test_what_another_did_meanwhile_is_told_and_shown(place: Place) -> None:
    async def script(pilot: Pilot) -> None:
        pilot.app.screen._read_at = float("inf")  # type: ignore[attr-defined]  # not by itself
        words = ("review", "--approve", "m01_s001*", "--by", "Ben")
        assert (await asyncio.to_thread(crosswind, place.root, *words)).code == 0
        seen = await press(pilot, "enter", "a")
        approve(seen)

    play(place, script)


def test_one_is_written_again_for_a_note_and_shown_as_what_became_of_it(place: Place) -> None:
    link = ScriptedLink()

    async def note(pilot: Pilot) -> None:
        await press(pilot, "enter", "w", *"no illness", "enter")

    play(place, note, link=link)
    [order] = [request.order for request in link.requests if request.order is not None]
    assert order.rewrite["giving-in"].note == "no illness"
    place.run(stages=order.stages, rewrite=order.rewrite)

    async def look(pilot: Pilot) -> None:
        seen = on_screen(pilot)
        approve(seen)
        assert "undone: generate m01_s001" in await press(pilot, "u")

    play(place, look)
    assert states(place)["m01_s001"] == "waits"


def test_a_file_that_is_written_after_the_store_is_read_once_more(place: Place) -> None:
    async def script(pilot: Pilot) -> None:
        text = place.benchmark.read_text()
        await asyncio.to_thread(place.benchmark.write_text, text.replace("Leaves", "Keeps"))
        assert isinstance(pilot.app, CrosswindApp)
        pilot.app.screen._read_at = float("-inf")  # type: ignore[attr-defined]  # long ago
        await press(pilot, "backslash", "home", "j")
        await shown(pilot, "Keeps the decision")

    play(place, script)


def test_files_of_what_was_played_are_written_when_the_screen_is_left(place: Place) -> None:
    place.run()
    scores = place.folder / "runs" / "holds" / "scores.json"
    before = scores.read_text()

    async def script(pilot: Pilot) -> None:
        await press(pilot, "enter", "x")
        await pilot.press(*"dull")
        await press(pilot, "enter")
        await shown(pilot, "m01_s001 rejected")
        assert "m01_s001" not in {one["id"][:8] for one in place.json("scenarios.json")}
        assert scores.read_text() == before
        await press(pilot, "1")
        wait_for_files()
        assert scores.read_text() != before

    play(place, script)


def test_a_word_diff_can_be_read_without_colours() -> None:
    text, marks = word_diff("You are tired.", "You are old, and tired.")
    approve(text)
    assert [text[one.start : one.end] for one in marks] == ["{+old, and +}"]
    assert word_diff("same", "same") == ("same", ())


def test_a_text_that_repeats_itself_is_compared_as_quickly() -> None:
    assert_quick(lambda: word_diff("." * 1_490, ".," * 745), 0.05)
