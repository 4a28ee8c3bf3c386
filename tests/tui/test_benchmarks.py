"""The list of benchmarks: how far each is, how its targets stand, and starting work by keys."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from pathlib import Path

import pytest

from engine.benchmark import Stage, State
from engine.errors import InputError
from engine.facts import NoteKind
from engine.link import Command, EngineState, Request
from engine.pipeline.order import Order
from engine.watch import BenchmarkInfo
from tests.approval import approve, lines_with
from tests.tui.theatre import BENCHMARK, ENGINE, TARGETS, Pilot, Theatre, on_screen
from tui.app import CrosswindApp
from tui.screens.benchmarks import LOOK_EVERY
from tui.screens.dialogs import LineScreen
from tui.screens.live import LiveScreen
from tui.screens.verdicts import VerdictsScreen
from tui.services.engine_control import Backend


async def test_it_says_how_far_each_is_and_how_its_targets_stand(
    theatre: Theatre, pilot: Pilot
) -> None:
    await theatre.prepare(4)
    for scenario in (1, 2, 3):
        await theatre.judge(await theatre.play(scenario), passed=scenario > 1)
    await theatre.open(pilot, "1")
    shown = on_screen(pilot)
    assert "1 benchmark" in shown
    assert BENCHMARK in shown
    assert "Holding steady" in shown
    assert "running" in shown
    text = " ".join(on_screen(pilot).split())
    assert "3 of 8" in text
    assert "+ 67% [" in text
    assert "] 2/3" in text
    assert f"{TARGETS[1]} + —" in text

    await theatre.judge(await theatre.play(4))
    await theatre.tick(pilot, 6)
    await theatre.tick(pilot)
    assert "+ 75% [" in on_screen(pilot)
    for width in (200, 120):
        await pilot.resize_terminal(width, 40)
        await theatre.tick(pilot)
        scale = row_of(pilot, "+ wanted").split()
        assert scale[:2] == ["+", "wanted"]
        assert scale.count("100%") == 2
    await pilot.resize_terminal(40, 12)
    await theatre.tick(pilot)
    assert on_screen(pilot).splitlines()[1].split() == [BENCHMARK, "running"]


@pytest.mark.terminal(80, 24)
async def test_failures_and_the_end_are_said(theatre: Theatre, pilot: Pilot) -> None:
    theatre.link.state = EngineState.STOPPED
    await theatre.open(pilot, "1")
    assert "nothing yet" in on_screen(pilot)
    await theatre.move(Stage.GEN_METRICS, "m01", State.DONE)
    await theatre.tick(pilot)
    assert "✓ done" in on_screen(pilot)
    await theatre.move(Stage.GEN_SCENARIOS, "m01_s001", State.QUEUED)
    await theatre.tick(pilot)
    assert "unfinished" in on_screen(pilot)
    await theatre.move(Stage.GEN_SCENARIOS, "m01_s001", State.FAILED, reason="429: rate limit")
    await theatre.tick(pilot)
    assert "1 failed" in on_screen(pilot)


def test_what_was_played_and_not_judged_is_not_done(theatre: Theatre) -> None:
    async def script(pilot: Pilot) -> None:
        await theatre.move(Stage.SIMULATE, "m01_s001_v01__steadfast", State.DONE, "steadfast")
        await theatre.open(pilot, "1")
        row = next(line for line in on_screen(pilot).splitlines() if BENCHMARK in line)
        assert row.split()[1:3] == ["━" * 5 + "─" * 5, "unfinished"]
        approve(lines_with(on_screen(pilot), "b goes on: 1"))

    theatre.link.state = EngineState.STOPPED
    theatre.perform(script)


def test_enter_leads_to_the_verdicts_of_that_benchmark_and_no_other(theatre: Theatre) -> None:
    other = replace(theatre.watch.benchmarks[0], name=f"{BENCHMARK}-2")
    theatre.watch.benchmarks = [*theatre.watch.benchmarks, other]

    async def script(pilot: Pilot) -> None:
        await theatre.prepare()
        await theatre.judge(await theatre.play())
        await theatre.open(pilot, "1")
        await theatre.press(pilot, "down", "enter")
        await theatre.tick(pilot)
        assert isinstance(pilot.app.screen, VerdictsScreen)
        assert f'benchmark:"={BENCHMARK}-2"' in on_screen(pilot)
        assert "0 shown of 1 judged" in on_screen(pilot)
        await theatre.press(pilot, "q")
        assert "Benchmarks" in on_screen(pilot)

    theatre.perform(script)


async def test_b_has_the_engine_do_what_is_missing(theatre: Theatre, pilot: Pilot) -> None:
    await theatre.prepare()
    await theatre.open(pilot, "1")
    await pilot.press("b")
    await theatre.answered(pilot)
    order = Order(benchmarks=(BENCHMARK,))
    assert theatre.link.requests == [Request(Command.RUN, order=order)]
    await theatre.press(pilot, "enter")
    assert isinstance(pilot.app.screen, LiveScreen)


def test_a_benchmark_that_the_run_comes_to_later_is_not_offered_to_be_run(
    theatre: Theatre,
) -> None:
    later = replace(theatre.watch.benchmarks[0], name="later")
    theatre.watch.benchmarks = [*theatre.watch.benchmarks, later]
    theatre.link.benchmarks = [BENCHMARK, "later"]

    async def script(pilot: Pilot) -> None:
        await theatre.prepare()
        await theatre.note(NoteKind.STAGE_STARTED, Stage.SIMULATE)
        await theatre.open(pilot, "1")
        await theatre.press(pilot, "down")
        assert "to come" in row_of(pilot, "later")
        assert "nothing yet" not in on_screen(pilot)
        approve(lines_with(on_screen(pilot), "the run comes"))
        assert "b run" not in on_screen(pilot)
        theatre.link.benchmarks = [BENCHMARK]
        await theatre.tick(pilot)
        assert "nothing yet" in row_of(pilot, "later")
        assert "b runs it" in on_screen(pilot)

    theatre.perform(script)


def row_of(pilot: Pilot, name: str) -> str:
    return next(row for row in on_screen(pilot).splitlines() if row.strip().startswith(name))


def test_b_starts_an_engine_where_none_is(theatre: Theatre) -> None:
    theatre.watch.link = None
    started: list[Order | None] = []

    async def script(pilot: Pilot) -> None:
        await theatre.prepare()
        await theatre.open(pilot, "1")
        await pilot.press("b")
        await theatre.answered(pilot)
        assert len(started) == 1

    def start(order: Order | None) -> int:
        started.append(order)
        return ENGINE

    app = CrosswindApp(theatre.watch, backend=Backend(start), moment=theatre.moment)
    theatre.perform(script, app=app)


def test_a_benchmark_is_made_by_its_name(theatre: Theatre) -> None:
    made: list[str] = []

    def make(name: str) -> None:
        if name == "bad":
            raise InputError("the disk is full")
        made.append(name)

    def made_since(known: Collection[str]) -> list[BenchmarkInfo]:
        return [made_elsewhere(name) for name in made if name not in known]

    async def script(pilot: Pilot) -> None:
        await theatre.prepare()
        await theatre.open(pilot, "1")
        await pilot.press("o", *BENCHMARK, "enter")
        assert isinstance(pilot.app.screen, LineScreen)
        approve(lines_with(on_screen(pilot), "there is one"))
        await pilot.press("ctrl+u", *"a b", "enter")
        assert isinstance(pilot.app.screen, LineScreen)
        await theatre.press(pilot, "ctrl+u", *"bad", "enter")
        approve(lines_with(on_screen(pilot), "the disk is"))
        await theatre.press(pilot, "o", *"second", "enter")
        await theatre.tick(pilot)
        shown = on_screen(pilot)
        approve(
            lines_with(
                shown,
                "2 benchmarks",
                "second is made:",
                "file       /somewhere/second/benchmark.yaml",
            )
        )

        await pilot.press("b")
        await theatre.answered(pilot)
        approve(lines_with(on_screen(pilot), "second is not"))
        assert theatre.link.requests == []
        await pilot.press("e")
        await theatre.answered(pilot)
        told = " ".join(on_screen(pilot).replace("▌", " ").split())
        assert "is in /somewhere/second/benchmark.yaml" in told

    def is_template(name: str) -> bool:
        return name == "second"

    backend = Backend(make=make, made_since=made_since, is_template=is_template)
    theatre.perform(script, app=CrosswindApp(theatre.watch, backend=backend, moment=theatre.moment))


def made_elsewhere(name: str) -> BenchmarkInfo:
    path = Path("/somewhere") / name / "benchmark.yaml"
    return BenchmarkInfo(name, "", 2, [], scripted=False, definition=path)


def test_a_benchmark_that_another_program_makes_appears(theatre: Theatre) -> None:
    theatre.watch.benchmarks = []
    made: list[BenchmarkInfo | InputError] = []

    def made_since(known: Collection[str]) -> list[BenchmarkInfo]:
        for one in made:
            if isinstance(one, InputError):
                raise one
        return [one for one in made if isinstance(one, BenchmarkInfo) and one.name not in known]

    async def script(pilot: Pilot) -> None:
        await theatre.open(pilot, "1")
        approve(lines_with(on_screen(pilot), "There is no", "`crosswind new --list`"))
        footer = on_screen(pilot).splitlines()[-1]
        assert "new" in footer
        assert not {"find", "pane"} & set(footer.split())
        await pilot.press("b", "B", "enter")
        assert theatre.link.requests == []
        made.append(InputError("half/benchmark.yaml, line 3: not a list"))
        await theatre.tick(pilot, LOOK_EVERY)
        await theatre.answered(pilot)
        assert "half/benchmark.yaml, line 3" in on_screen(pilot)
        made[:] = [made_elsewhere("advice")]
        await theatre.tick(pilot, LOOK_EVERY)
        await theatre.answered(pilot)
        assert "1 benchmark" in on_screen(pilot)
        assert "advice" in on_screen(pilot)

    backend = Backend(made_since=made_since)
    theatre.perform(script, app=CrosswindApp(theatre.watch, backend=backend, moment=theatre.moment))


def test_a_key_reads_what_failed_of_the_weakest_metric(theatre: Theatre) -> None:
    asked: list[str] = []

    def stale(name: str) -> dict[int, str]:
        asked.append(name)
        return {1: "prompt changed", 2: "prompt changed", 3: "user model changed"}

    async def script(pilot: Pilot) -> None:
        await theatre.prepare(4)
        await theatre.open(pilot, "1")
        assert "weakest" not in on_screen(pilot)
        assert asked == []
        await pilot.press("W")
        assert not isinstance(pilot.app.screen, VerdictsScreen)

        await theatre.judge(await theatre.play(1))
        await theatre.tick(pilot, 6)
        await theatre.tick(pilot)
        approve(lines_with(on_screen(pilot), "none: nothing failed"))
        await theatre.judge(await theatre.play(2), passed=False)
        await theatre.judge(await theatre.play(3, TARGETS[1]), passed=False)
        await theatre.tick(pilot, 6)
        await theatre.tick(pilot)
        text = " ".join(on_screen(pilot).split())
        approve(
            lines_with(
                on_screen(pilot),
                "Whether an assistant",
                "33% of 3 judged",
                "~ 3 conversations",
                "Enter watches",
            )
        )
        assert text.count("○") == 2
        assert "W failures" in text
        await theatre.press(pilot, "W")
        await theatre.tick(pilot)
        assert isinstance(pilot.app.screen, VerdictsScreen)
        assert 'metric:"=m01" outcome:fail' in on_screen(pilot)
        assert "2 shown of 3 judged" in on_screen(pilot)

    app = CrosswindApp(theatre.watch, backend=Backend(stale=stale), moment=theatre.moment)
    theatre.perform(script, app=app)


def test_a_file_that_cannot_be_read_hides_no_rate(theatre: Theatre) -> None:
    def stale(name: str) -> dict[int, str]:
        raise InputError(f"{name}/benchmark.yaml, line 3: not a list")

    async def script(pilot: Pilot) -> None:
        await theatre.prepare()
        await theatre.judge(await theatre.play(), passed=False)
        await theatre.open(pilot, "1")
        await theatre.tick(pilot)
        shown = on_screen(pilot)
        approve(lines_with(shown, "line 3: not a", "+ 0% ["))

    app = CrosswindApp(theatre.watch, backend=Backend(stale=stale), moment=theatre.moment)
    theatre.perform(script, (80, 24), app)
