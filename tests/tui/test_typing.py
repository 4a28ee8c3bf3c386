"""Keys that come faster than the screen follows reach what they are meant for."""

from __future__ import annotations

from typing import ClassVar

from textual import events
from textual.app import App, ComposeResult
from textual.binding import Binding, BindingType

from engine.link import Command
from tests.tui.idle import hurried
from tests.tui.theatre import Pilot, Theatre
from tui.screens.conversation import ConversationScreen
from tui.screens.dialogs import TypingScreen


class Asking(TypingScreen[str]):
    """Asks for a line; Esc gives none."""

    def __init__(self) -> None:
        super().__init__("anything", self._submit)

    def compose(self) -> ComposeResult:
        yield self.line

    def _submit(self, typed: str) -> None:
        if typed != "no":
            self.dismiss(typed)

    def action_close(self) -> None:
        self.dismiss("")


class Counting(App[None]):
    """Counts how often `C` reached what lies beneath the line."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("C", "count", "count")]
    counted = 0

    def action_count(self) -> None:
        self.counted += 1


def typed_at_once(*keys: tuple[str, str | None]) -> tuple[list[str | None], int, str]:
    """What was answered, how often `C` arrived beneath, and what stands on the line, when all
    keys are in the queue before the first is taken."""
    answers: list[str | None] = []

    async def play() -> tuple[int, str]:
        app = Counting()
        async with app.run_test() as pilot:
            screen = Asking()
            app.push_screen(screen, answers.append)
            await pilot.pause()
            for key, character in keys:
                screen.line.post_message(events.Key(key, character))
            await pilot.pause()
            await pilot.pause()
            return app.counted, screen.line.value

    counted, line = hurried(play())
    return answers, counted, line


def test_a_key_behind_enter_is_for_what_lies_beneath() -> None:
    answers, counted, line = typed_at_once(("a", "a"), ("enter", None), ("C", "C"), ("C", "C"))

    assert (answers, counted, line) == (["a"], 2, "a")


def test_a_key_behind_escape_is_for_what_lies_beneath() -> None:
    answers, counted, line = typed_at_once(("a", "a"), ("escape", None), ("C", "C"))

    assert (answers, counted, line) == ([""], 1, "a")


def test_a_line_that_is_refused_goes_on_being_typed() -> None:
    keys = [("n", "n"), ("o", "o"), ("enter", None), ("C", "C"), ("enter", None)]
    answers, counted, line = typed_at_once(*keys)

    assert (answers, counted, line) == (["noC"], 0, "noC")


async def all_at_once(pilot: Pilot, *keys: str) -> None:
    """As a terminal hands on what came in one packet."""
    for key in keys:
        pilot.app.post_message(events.Key(key, key if len(key) == 1 else None))
    await pilot.pause()
    await pilot.pause()


async def test_keys_in_one_packet_with_the_one_that_opens_a_dialog_are_for_the_dialog(
    theatre: Theatre,
    pilot: Pilot,
) -> None:
    await theatre.prepare()
    take = await theatre.play(2)
    await theatre.tick(pilot)
    await all_at_once(pilot, "i", *str(take.key), "enter")
    await theatre.answered(pilot)
    await theatre.tick(pilot)
    assert isinstance(pilot.app.screen, ConversationScreen)

    await all_at_once(pilot, "r", "down", "enter")
    await theatre.answered(pilot)
    assert [asked.evaluator for asked in theatre.link.requests] == ["strict"]

    await all_at_once(pilot, "2", "x", "s")
    await theatre.answered(pilot)
    assert theatre.link.commands[-1] is Command.STOP


async def test_keys_do_nothing_while_another_program_has_the_terminal(
    theatre: Theatre, pilot: Pilot
) -> None:
    await theatre.prepare()
    await theatre.tick(pilot)
    shown = pilot.app.screen
    # as `App.suspend` does it around a pager; there is none beside a Pilot
    pilot.app.app_suspend_signal.publish(pilot.app)
    await all_at_once(pilot, "i", "m")
    assert pilot.app.screen is shown
    pilot.app.app_resume_signal.publish(pilot.app)
    await all_at_once(pilot, "i")
    assert isinstance(pilot.app.screen, TypingScreen)
