"""The board of targets, in terminals of all widths and with many of them."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

from engine.benchmark import Stage, State, Track
from engine.progress import TrackScore
from engine.statistics.distributions import Interval
from engine.statistics.rates import Rate
from engine.watch import TargetInfo
from tests.approval import approve
from tests.tui.theatre import Pilot, Theatre, on_screen
from tui.state.board import TargetView
from tui.text.ink import Piece
from tui.widgets.lines import OneLine
from tui.widgets.target_board import TargetBoard, field_legend, field_of

NAMES = [f"model-{number:02d}" for number in range(14)]


@pytest.fixture
def crowd(theatre: Theatre) -> Theatre:
    """Fourteen targets, each with a conversation to play."""
    [info] = theatre.watch.benchmarks
    targets = [TargetInfo(name, name, scripted=False) for name in NAMES]
    theatre.watch.benchmarks = [replace(info, targets=targets)]

    async def prepare() -> None:
        for name in NAMES:
            await theatre.move(Stage.SIMULATE, f"m01_s001_v01__{name}", State.QUEUED, name)

    asyncio.run(prepare())
    return theatre


def shown(pilot: Pilot) -> list[str]:
    return [name for name in NAMES if name in on_screen(pilot)]


@pytest.mark.parametrize(("size", "lines_each"), [((80, 24), 2), ((120, 40), 1)])
def test_many_targets_have_a_line_each_where_there_is_room(
    crowd: Theatre, size: tuple[int, int], lines_each: int
) -> None:
    async def script(pilot: Pilot) -> None:
        await crowd.tick(pilot)
        board = pilot.app.screen.query_one(TargetBoard)
        assert board.row_count() == 14 * lines_each + (lines_each == 1)
        assert len(shown(pilot)) >= board.page_height // lines_each - 1

    crowd.perform(script, size)


def test_the_cursor_brings_a_target_into_view(crowd: Theatre) -> None:
    async def script(pilot: Pilot) -> None:
        await crowd.tick(pilot)
        board = pilot.app.screen.query_one(TargetBoard)
        assert NAMES[-1] not in shown(pilot)
        await pilot.press("shift+tab", "G")
        await pilot.pause()
        assert board.cursor == 13
        assert NAMES[-1] in shown(pilot)
        await pilot.press("k", "k")
        assert board.cursor == 11
        await pilot.press("pageup", "g", "k")
        await pilot.pause()
        assert board.cursor == 0
        assert NAMES[0] in shown(pilot)

    crowd.perform(script, (80, 24))


def test_a_click_puts_the_cursor_on_a_target(crowd: Theatre) -> None:
    async def script(pilot: Pilot) -> None:
        await crowd.tick(pilot)
        await pilot.click(TargetBoard, offset=(4, 3))
        assert pilot.app.screen.query_one(TargetBoard).cursor == 1

    crowd.perform(script, (80, 24))


@pytest.mark.parametrize(
    ("passed", "scored", "played", "running", "field"),
    [
        (0, 0, 0, 0, "────────"),
        (0, 0, 0, 2, "░░──────"),
        (2, 3, 5, 2, "██▓▒▒░░─"),
        (8, 8, 8, 0, "████████"),
        (1, 8, 8, 0, "█▓▓▓▓▓▓▓"),
        (0, 9, 8, 3, "▓▓▓▓▓▓▓▓"),  # more was judged than is asked for today
    ],
)
def test_each_conversation_has_a_cell_where_there_is_room(
    passed: int, scored: int, played: int, running: int, field: str
) -> None:
    target = TargetView("a", played, 8, running, 0, scored, 8, TrackScore(passed, scored))
    assert "".join(piece.text for piece in field_of(target, 8)) == field
    assert "".join(piece.text for piece in field_of(target, 10)) == f"{field}  "
    twice = "".join(sign * 2 for sign in field)
    assert "".join(piece.text for piece in field_of(target, 17)) == f"{twice} "


@pytest.mark.parametrize("width", [80, 120, 200])
def test_a_sum_of_money_is_never_cut(theatre: Theatre, width: int) -> None:
    many = Rate(0.7, Interval(0.6, 0.8), 980, 1400, 140, 700.0, 139.0)
    views = [
        TargetView(
            name,
            1400,
            1400,
            12,
            3,
            1400,
            1400,
            TrackScore(980, 1400),
            TrackScore(980, 1400),
            tokens="1.2k",
            spend=spend,
            left="12:30",
            rates=dict.fromkeys(Track, many),
        )
        for name, spend in (("a-model-of-a-long-name", "$12345.60"), ("another", "$0.12"))
    ]

    async def script(pilot: Pilot) -> None:
        await theatre.tick(pilot)
        board = pilot.app.screen.query_one(TargetBoard)
        board.show(views)
        lines = [
            "".join(piece.text for piece in board.row(row)) for row in range(board.row_count())
        ]
        assert any("$12345.60" in line for line in lines)
        assert not any("$" in line and line.rstrip().endswith("…") for line in lines)

    theatre.perform(script, (width, 40))


def test_a_bar_does_not_breathe_with_how_many_speak_at_this_moment() -> None:
    now = TargetView("a", 1, 8, 1, 0, 0, 8, between=3)
    later = TargetView("a", 1, 8, 4, 0, 0, 8, between=0)
    assert field_of(now, 8) == field_of(later, 8)


def test_what_there_is_of_a_kind_is_seen_be_it_less_than_a_cell() -> None:
    target = TargetView("a", 500, 1000, 3, 0, 2, 1000, TrackScore(1, 2))
    drawn = "".join(piece.text for piece in field_of(target, 20))
    assert drawn == "█▓▒▒▒▒▒▒▒▒░─────────"


def test_only_signs_that_occur_are_explained() -> None:
    def legend(*targets: TargetView) -> str:
        return "".join(piece.text for piece in field_legend(targets, 80)).strip()

    waiting = TargetView("a", 0, 8, 0, 0, 0, 8)
    begun = replace(waiting, running=2)
    judged = TargetView("b", 8, 8, 0, 0, 8, 8, TrackScore(5, 8))
    unscored = TargetView("b", 8, 8, 0, 0, 8, 8, TrackScore(5, 7))
    assert legend() == legend(waiting) == ""
    assert legend(begun) == legend(waiting, begun) == "░ begun  ─ to come"
    assert legend(judged) == "█ passed  ▓ failed"
    approve(legend(unscored))
    approve(legend(judged, begun))


@pytest.mark.terminal(80, 24)
async def test_rates_stand_there_once_something_is_scored(theatre: Theatre, pilot: Pilot) -> None:
    board = pilot.app.screen.query_one(TargetBoard)
    board.show([TargetView("a", 1, 8, 1, 0, 0, 8, spend="free")])
    before = "".join(piece.text for piece in board.row(1))
    assert before.split() == ["free"]
    board.show([TargetView("a", 1, 8, 1, 0, 1, 8, TrackScore(1, 1), spend="free")])
    after = "".join(piece.text for piece in board.row(1))
    assert after.split()[0] == "passes"
    assert after.index("free") == before.index("free")


@pytest.mark.parametrize("width", [80, 149])
def test_a_long_bar_leaves_room_for_the_time_that_is_left(theatre: Theatre, width: int) -> None:
    target = TargetView("steadfast", 17, 64, 17, 0, 15, 64, left="0:36", left_about="0:36-0:51")

    async def script(pilot: Pilot) -> None:
        board = pilot.app.screen.query_one(TargetBoard)
        board.show([target])
        assert " left" in "".join(piece.text for piece in board.row(0))

    theatre.perform(script, (width, 40))


def test_curves_of_speed_begin_below_each_other(theatre: Theatre) -> None:
    targets = [
        TargetView(name, 1, 8, 1, 0, 0, 8, tokens=tokens, trend="▁█")
        for name, tokens in (("a", "—"), ("b", "959"), ("c", "1.0k"))
    ]

    async def script(pilot: Pilot) -> None:
        board = pilot.app.screen.query_one(TargetBoard)
        board.show(targets)
        rows = ["".join(piece.text for piece in board.row(index)) for index in range(6)]
        assert len({row.index("▁█") for row in rows if "▁█" in row}) == 1
        assert sum("▁█" in row for row in rows) == 3

    theatre.perform(script, (120, 40))


def test_a_target_at_rest_says_nothing_of_what_runs(theatre: Theatre) -> None:
    at_work = TargetView("steadfast", 8, 8, 0, 0, 8, 8)

    async def script(pilot: Pilot) -> None:
        board = pilot.app.screen.query_one(TargetBoard)
        board.show([at_work])
        assert "0 running" in "".join(piece.text for piece in board.row(0))
        board.show([replace(at_work, at_rest=True)])
        text = "".join(piece.text for row in range(2) for piece in board.row(row))
        assert "0 failed" in text
        assert "running" not in text
        assert "tok/s" not in text

    theatre.perform(script, (80, 24))


@pytest.mark.parametrize("size", [(80, 24), (200, 50)])
def test_what_follows_a_count_keeps_its_place_while_the_count_grows(
    theatre: Theatre, size: tuple[int, int]
) -> None:
    def places(pilot: Pilot) -> list[int]:
        rows = on_screen(pilot).splitlines()
        board = next(row for row in rows if row.startswith(" steadfast"))
        strip = next(row for row in rows if "aggregate" in row)
        counts = [place for place in range(len(board)) if board.startswith("/12", place)]
        return [*counts, strip.index("evaluate"), strip.index("aggregate")]

    async def script(pilot: Pilot) -> None:
        await theatre.prepare(12)
        await theatre.judge(await theatre.play(1))
        await theatre.tick(pilot)
        before = places(pilot)
        assert len(before) == 4
        for number in range(2, 11):
            await theatre.judge(await theatre.play(number))
        await theatre.tick(pilot)
        assert "10/12" in on_screen(pilot)
        assert places(pilot) == before

    theatre.perform(script, size)


@pytest.mark.parametrize(("width", "end"), [(40, "following"), (26, "following"), (25, "──")])
def test_the_right_end_is_left_out_where_no_rule_fits_before_it(
    monkeypatch: pytest.MonkeyPatch, width: int, end: str
) -> None:
    monkeypatch.setattr(OneLine, "line_width", width)
    line = OneLine(fill=True)
    line.show([Piece("user speaking")], [Piece("following")])
    text = "".join(piece.text for piece in line.row(0))
    assert text.startswith("user speaking ─")
    assert text.rstrip().endswith(end)
