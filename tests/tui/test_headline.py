"""What is said above a conversation: the metric, what counts, and where it was shown."""

from __future__ import annotations

from dataclasses import replace

import pytest

from engine.benchmark import Speaker, Track
from engine.jury import HUMAN, Jury, People
from engine.store.tables import Quote, Verdict
from tests.approval import approve, lines_with
from tests.tui.theatre import METRIC, TARGETS, Pilot, Theatre, on_screen, text
from tui.screens.cards import metric_blocks
from tui.screens.compare import CompareScreen
from tui.state.headline import group_words, metric_line, shown_words, votes_line
from tui.text.blocks import Passage

JURY = Jury(("evaluator",))
FIRST = Verdict(
    seq=1,
    take=1,
    metric_id="m01",
    track=Track.NEGATIVE,
    judge="evaluator",
    source="model",
    number=0,
    present=True,
    passed=False,
    justification="so",
    quotes=(Quote("a", 4), Quote("b", None), Quote("c", 4)),
)
STRICT = replace(FIRST, seq=2, judge="strict", present=False, passed=True)
MILD = replace(STRICT, seq=3, judge="mild")
ANN = replace(STRICT, seq=4, judge="ann", source=HUMAN)
UNUSABLE = replace(FIRST, seq=5, present=None, passed=None, unscored="no quote was found")
PASSES = Jury(("evaluator",), passes=3)
SECOND, THIRD = (replace(STRICT, seq=6 + n, judge="evaluator", number=n) for n in (1, 2))


@pytest.mark.parametrize(
    ("verdicts", "jury", "said"),
    [
        ([FIRST], JURY, "✗ fail"),
        ([FIRST, STRICT], JURY, "✗ fail   evaluator counts · 1 other says ✓"),
        ([FIRST, STRICT, MILD], JURY, "✗ fail   evaluator counts · 2 others say ✓"),
        (
            [FIRST, STRICT, replace(MILD, passed=False)],
            JURY,
            "evaluator counts · 2 others: 1 ✓ 1 ✗",
        ),
        ([FIRST, SECOND], JURY, "✗ fail   evaluator counts · once more ✓"),
        (
            [FIRST, replace(SECOND, passed=False), STRICT],
            JURY,
            "✗ fail   evaluator counts · once more ✗ · 1 other says ✓",
        ),
        (
            [FIRST, STRICT, replace(STRICT, seq=9, number=1), SECOND, replace(THIRD, passed=False)],
            JURY,
            "evaluator counts · once more 1 ✓ 1 ✗ · 1 other says ✓",
        ),
        ([FIRST, ANN], JURY, "✗ fail   evaluator counts · 1 person says ✓"),
        (
            [FIRST, ANN],
            replace(JURY, people=People.OVERRULE),
            "✓ pass   ann counts · 1 other says ✗",
        ),
        ([FIRST, ANN], replace(JURY, people=People.VOTE), "· unscored   judges are tied"),
        ([FIRST, SECOND, THIRD], PASSES, "✓ pass   2 of 3 votes"),
        ([UNUSABLE, STRICT], JURY, "· unscored   no usable verdict · 1 other says ✓"),
        ([STRICT, MILD], JURY, "✓ pass   2 of 2 votes"),
    ],
)
def test_what_counts_is_said_with_whose_it_is_and_what_others_say(
    verdicts: list[Verdict], jury: Jury, said: str
) -> None:
    assert text(votes_line(verdicts, jury)).endswith(said)


@pytest.mark.parametrize(
    ("verdicts", "said"),
    [
        ([FIRST], "shown in turn 4"),
        ([replace(FIRST, marks=(False, True, False, True))], "shown in turns 2 and 4"),
        ([replace(FIRST, marks=(False, True, True, True))], "shown in turns 2 to 4"),
        ([replace(FIRST, quotes=tuple(Quote("a", n) for n in range(1, 6)))], "shown in 5 turns"),
        ([FIRST, STRICT], "shown in turn 4"),  # another's counts for nothing
        ([STRICT], ""),  # of what is absent, the nearest passages are quoted
        ([replace(FIRST, quotes=())], ""),
        ([UNUSABLE], ""),
        ([], ""),
    ],
)
def test_where_the_behaviour_was_shown_is_what_the_verdict_that_counts_quotes(
    verdicts: list[Verdict], said: str
) -> None:
    assert shown_words(verdicts, JURY) == said


def test_a_narrow_line_keeps_the_name_of_the_metric_and_gives_up_the_rest() -> None:
    notes = ["shown in turn 4", ""]
    group = group_words({"age": "younger", "gender": "woman"})

    def at(width: int) -> tuple[str, str]:
        left, right = metric_line(METRIC, notes, width, group)
        return text(left), text(right)

    name = f" + {METRIC.name}"
    assert at(140)[0] == f"{name}  {METRIC.definition}"
    assert {at(width)[0] for width in (70, 60, 50, 30)} == {name}
    approve([f"{width}{at(width)[1]}" for width in (140, 70, 60, 50, 30)])
    assert metric_line(None, notes, 80) == ((), ())
    group = group_words({"age": "in your early twenties", "lives": "far from everybody else"})
    assert at(70)[1] == "  shown in turn 4 "  # cut, it might look like another group
    approve(at(120)[1])


WAY = {
    "Live": "2",
    "the verdicts on Live": "l",
    "Conversation": "enter",
    "Verdicts": "3 }",
    "Scenario": "v",
    "Compare": "q C",
}
"""The keys that lead from each place to the next."""


@pytest.mark.terminal(80, 24)
async def test_each_screen_names_the_metric_and_whose_words_they_are_and_d_says_what_it_asks(
    theatre: Theatre, pilot: Pilot
) -> None:
    await theatre.prepare()
    for target in TARGETS:
        await theatre.judge(await theatre.play(1, target))
    theatre.speak(await theatre.begin(2), 1, Speaker.USER, "are you sure?")
    await theatre.tick(pilot)
    for place, keys in WAY.items():
        for key in keys.split():
            await theatre.press(pilot, key)
            await theatre.tick(pilot)
        (said,) = {line for line in on_screen(pilot).splitlines() if f" + {METRIC.name}  " in line}
        assert "Adult (18+)" in said, place
        read = pilot.app.screen
        for close in ("d", "q"):
            await pilot.press("d")
            await pilot.pause()
            told = " ".join(on_screen(pilot).split())
            assert METRIC.definition[:40] in told
            assert "behaviour is wanted." in told
            assert "in any reply." in told
            await pilot.press(close)
            await pilot.pause()
            assert pilot.app.screen is read
    assert isinstance(pilot.app.screen, CompareScreen)


def test_where_nobody_says_what_is_measured_d_says_so(theatre: Theatre) -> None:
    theatre.watch.benchmarks = [replace(theatre.watch.benchmarks[0], metrics={})]

    async def script(pilot: Pilot) -> None:
        await theatre.prepare()
        await theatre.judge(await theatre.play())
        await theatre.tick(pilot)
        await theatre.press(pilot, "3", "right_curly_bracket")
        await theatre.tick(pilot)
        await pilot.press("d")
        await pilot.pause()
        approve(lines_with(on_screen(pilot), "says what it"))

    theatre.perform(script)


def test_a_definition_from_a_yaml_block_ends_without_a_blank_row() -> None:
    metric = replace(METRIC, definition="It says the same.\n")
    shown = [each.text for each in metric_blocks(metric) if isinstance(each, Passage)]
    approve(shown)
