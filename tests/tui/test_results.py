"""The results screen: by what a person reads on it, by its keys, and by where they lead."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path

import pytest
from textual.pilot import Pilot

import tui
from engine.analysis.calibration import Confusion, JudgedRow, LabelledRow, calibrate
from engine.analysis.figures import Analysis, MetricInfo
from engine.analysis.onset import OnsetCurve, OnsetObservation, onset_curves, since
from engine.analysis.overall import ALL, overall
from engine.analysis.provenance import Staleness
from engine.analysis.sections import VerdictScope
from engine.analysis.target_sections import target_sections
from engine.analysis.validation import SideOutcome, ValidationSide, validation_report
from engine.benchmark import ConversationKey, Role, Stage, State, Track
from engine.branches import Branch
from engine.config.schema import load_config
from engine.config.workspace import Workspace
from engine.errors import InputError
from engine.jury import People
from engine.link import EngineState
from engine.pipeline.labelling.calibrations import CalibrationReport
from engine.pipeline.report import Report, ValidatedBenchmark, build_report
from engine.report.scale import RATES, scale_of
from engine.watch import BenchmarkInfo
from tests.approval import approve, lines_with
from tests.engine.small_workspace import Place
from tests.engine.stages.verdicts import METRICS, analysed, mixed, outcomes
from tests.tui.idle import Gate
from tests.tui.theatre import BENCHMARK, TARGETS, Theatre, on_screen
from tui.app import CrosswindApp
from tui.results.leaderboard import behind_spot, says_rows, standing_rows
from tui.results.sections import line_of, onset_rows, section_rows, sections_rows
from tui.screens.conversation import ConversationScreen
from tui.screens.results import SECTIONS, ResultsScreen, judge_rows
from tui.screens.verdicts import VerdictsScreen
from tui.services.engine_control import Backend
from tui.text.ink import Ink, length
from tui.text.plot import Curve, Whiskers, load, plot, tick_line, whiskers
from tui.widgets.grids import GridCell
from tui.widgets.lines import Sheet, SheetRow
from tui.widgets.table import WideTable

ROOT = Path(tui.__file__).parent.parent
Compare = Callable[..., bool]
Pictures = Mapping[str, Mapping[MetricInfo, str]]

HELD, CAVED = TARGETS
SIDES: Pictures = {
    HELD: {METRICS[0]: mixed(0.95), METRICS[1]: mixed(0.8)},
    CAVED: {METRICS[0]: mixed(0.3, turn=3), METRICS[1]: mixed(0.1, turn=5)},
}


def an_analysis(pictures: Pictures = SIDES) -> Analysis:
    return usual_analysis() if pictures is SIDES else analysis_of(pictures)


@cache
def usual_analysis() -> Analysis:
    return analysis_of(SIDES)


def analysis_of(pictures: Pictures) -> Analysis:
    found = [
        outcome
        for target, by_metric in pictures.items()
        for metric, picture in by_metric.items()
        for outcome in outcomes({target: picture}, metric=metric, samples=2)
    ]
    return replace(analysed(found, scripted=["offline:user"]), benchmark=BENCHMARK)


def a_validation() -> ValidatedBenchmark:
    def side(model: str, passing: Mapping[str, Sequence[int]]) -> ValidationSide:
        rows = [
            SideOutcome(
                ConversationKey(f"m01_s{base:03d}_v{row:02d}", name), "m01", Track.POSITIVE, row < n
            )
            for name, bases in passing.items()
            for base, n in enumerate(bases)
            for row in range(4)
        ]
        return ValidationSide(model, rows)

    swap = Branch(BENCHMARK, Role.EVALUATOR, "strict")
    before = side("offline:evaluator", {HELD: [4, 3] * 5, CAVED: [1, 0] * 5})
    after = side("offline:evaluator-strict", {HELD: [1, 0] * 5, CAVED: [3, 2] * 5})
    branch = Branch(BENCHMARK, Role.EVALUATOR, "strict")
    return ValidatedBenchmark(branch, BENCHMARK, validation_report(swap, before, after), None)


def some_courses() -> list[OnsetCurve]:
    """One holds, the other gives way in the third turn."""
    turns = {HELD: [None] * 9 + [4], CAVED: [None, 1, *[3] * 6, 4, 4]}
    return onset_curves(
        (
            OnsetObservation(name, Track.NEGATIVE, (False,) if turn is None else since(turn))
            for name, found in turns.items()
            for turn in found
        ),
        4,
    )


def a_calibration() -> CalibrationReport:
    """24 labels, on one of which the judge and people differ."""
    rows = [
        JudgedRow(
            str(ConversationKey(f"m01_s{base:03d}_v01", name)),
            "m01",
            name,
            ("m01", f"m01_s{base:03d}"),
            Track.POSITIVE,
            counts=present,
            present=present,
        )
        for base in range(1, 13)
        for name, present in ((HELD, True), (CAVED, base > 9))
    ]
    labels = [LabelledRow(row, bool(row.present) is not (row is rows[1]), 1.0, 2) for row in rows]
    found = calibrate(rows, labels, "offline:evaluator")
    return CalibrationReport([found], ["labelled by Ann 24", People.COMPARE.rule])


def a_report() -> Report:
    return Report(an_analysis(), (a_validation(),), tuple(some_courses()))


def a_labelled_report() -> Report:
    return replace(a_report(), calibration=a_calibration())


class Sums:
    """Adds up what it was told to, and remembers what it was asked."""

    def __init__(self, report: Report | str) -> None:
        self.report = report
        self.asked: list[str] = []

    def __call__(self, benchmark: str) -> Report:
        self.asked.append(benchmark)
        if isinstance(self.report, str):
            raise InputError(self.report)
        return self.report


def app_with(theatre: Theatre, report: Callable[[str], Report]) -> CrosswindApp:
    return CrosswindApp(
        theatre.watch, theme="crosswind-dark", moment=theatre.moment, backend=Backend(report=report)
    )


async def at_section(theatre: Theatre, pilot: Pilot[None], name: str) -> None:
    await theatre.open(pilot, "4")
    for _ in range(SECTIONS.index(name)):
        await pilot.press("right_curly_bracket")
    await pilot.press("tab")
    await theatre.tick(pilot)


def text_of(rows: Sequence[SheetRow]) -> list[str]:
    return ["".join(piece.text for piece in row.line) for row in rows]


# What stands there


def test_each_target_has_its_rate_its_interval_its_rank_and_what_they_rest_on() -> None:
    few = an_analysis({HELD: {METRICS[0]: "++-- ++++"}, CAVED: {METRICS[0]: "---- +---"}})
    none = replace(an_analysis(), metrics=())
    for analysis in (an_analysis(), few, together(), none):
        for width in (79, 126):
            approve("\n".join(text_of(standing_rows(analysis, width))))
    for width in range(20, 80, 7):
        said = text_of(standing_rows(an_analysis(), width))[1].rstrip()
        assert said.endswith(" scenarios") == ("of" in said), width
        assert said.endswith((" scenarios", "1")), width


def test_the_head_counts_what_is_stale_and_calls_it_not_up_to_date(theatre: Theatre) -> None:
    analysis = an_analysis()
    old = Staleness(conversations=4, verdicts=4, stale=2, stale_verdicts=2)
    first, *others = analysis.targets
    targets = (replace(first, staleness={"m01": old}), *others)

    async def script(pilot: Pilot[None]) -> None:
        await theatre.prepare()
        await theatre.open(pilot, "4")
        head = on_screen(pilot).splitlines()[0]
        assert "2 stale" in head
        assert "up to date" not in head

    theatre.perform(script, app=app_with(theatre, Sums(Report(replace(analysis, targets=targets)))))


def test_whiskers_stand_where_the_scale_says() -> None:
    line = whiskers(Whiskers(0.5, 0.25, 1.0), RATES, 21)
    assert "".join(piece.text for piece in line) == "┊    ├────●─────────┤"
    hollow = whiskers(Whiskers(0.0, sure=False), RATES, 9)
    assert "".join(piece.text for piece in hollow) == "○ ┊ ┊ ┊ ┊"
    assert length(whiskers(Whiskers(None), RATES, 13)) == 13


def test_every_section_is_reached_and_says_its_own(theatre: Theatre) -> None:
    expected = {
        "findings": "✓ steadfast > pushover by",
        "metrics": "+ m01 Leaves the decision",
        "groups and pairs": "all targets",
        "judges": "Agreement beyond chance: AC1 ",
    }
    report = a_labelled_report()

    async def script(pilot: Pilot[None]) -> None:
        await theatre.open(pilot, "4")
        for name in SECTIONS:
            assert f"[{name}]" in on_screen(pilot)
            assert expected[name] in on_screen(pilot), name
            await pilot.press("right_curly_bracket")
            await pilot.pause()
        assert "[findings]" in on_screen(pilot)
        await pilot.press("left_curly_bracket")
        await pilot.pause()
        approve(lines_with(on_screen(pilot), "[judges]", "samples of all"))
        await pilot.press("tab", "end")
        await pilot.pause()
        approve(lines_with(on_screen(pilot), "was ahead of"))

    theatre.perform(script, (120, 60), app_with(theatre, Sums(report)))


def test_what_labels_say_of_judges_leads_to_where_they_differ(
    theatre: Theatre,
) -> None:
    approve("\n".join(text_of(judge_rows(a_labelled_report(), 100))))

    async def script(pilot: Pilot[None]) -> None:
        await theatre.prepare()
        await theatre.judge(await theatre.play(target=CAVED), passed=False)
        await at_section(theatre, pilot, "judges")
        while not isinstance(pilot.app.screen.query_one("#section", Sheet).cursor, Confusion):
            await pilot.press("down")
        await pilot.press("enter")
        await theatre.tick(pilot)
        assert isinstance(pilot.app.screen, ConversationScreen)
        assert pilot.app.screen.subject == (BENCHMARK, ConversationKey("m01_s001_v01", CAVED))

    theatre.perform(script, app=app_with(theatre, Sums(a_labelled_report())))


def test_what_is_not_scored_is_said_with_its_reason_and_what_it_could_do(theatre: Theatre) -> None:
    pictures = {
        HELD: {METRICS[0]: "++++ ++?? ++++"},
        CAVED: {METRICS[0]: "---- ---- ----"},
    }

    async def script(pilot: Pilot[None]) -> None:
        await theatre.open(pilot, "4")
        approve(lines_with(on_screen(pilot), "so far 22 of 24"))
        await pilot.press("enter")
        await theatre.tick(pilot)
        approve(lines_with(on_screen(pilot), "2 of 12 unscored", "would be 83%"))

    theatre.perform(script, app=app_with(theatre, Sums(Report(an_analysis(pictures)))))


def test_a_metric_on_which_all_targets_are_the_same_is_marked(theatre: Theatre) -> None:
    both = mixed(1.0)
    pictures = {name: {METRICS[0]: both, METRICS[1]: mixed(0.5)} for name in TARGETS}

    async def script(pilot: Pilot[None]) -> None:
        await at_section(theatre, pilot, "metrics")
        marked, told = [line for line in on_screen(pilot).splitlines() if "≡" in line]
        assert "Leaves the decision" in marked
        assert "≡ all pass" in marked
        approve(lines_with(told, "the same for"))

    theatre.perform(script, app=app_with(theatre, Sums(Report(an_analysis(pictures)))))


def told_line(pilot: Pilot[None]) -> str:
    """What stands below the heat map: the cell under the cursor in full."""
    return [line for line in on_screen(pilot).splitlines() if "conversations, " in line][-1]


def test_all_sections_can_be_looked_at_in_any_terminal_and_names_do_nothing_to_it(
    theatre: Theatre,
) -> None:
    evil = "\x1b]0;owned\x07steady[bold]"
    pictures = {evil: SIDES[HELD], CAVED: SIDES[CAVED]}

    async def script(pilot: Pilot[None]) -> None:
        await theatre.open(pilot, "4")
        for size in ((20, 5), (80, 24), (200, 50)):
            await pilot.resize_terminal(*size)
            for _ in SECTIONS:
                await pilot.press("right_curly_bracket", "tab", "down", "pagedown")
                await theatre.tick(pilot)
                assert all(len(line) <= size[0] for line in on_screen(pilot).splitlines())
                assert not {"\x1b", "\x07"} & set(on_screen(pilot))
        assert isinstance(pilot.app.screen, ResultsScreen)
        assert "steady[bold]" in on_screen(pilot)

    report = replace(a_labelled_report(), analysis=an_analysis(pictures))
    theatre.perform(script, (20, 5), app_with(theatre, Sums(report)))


def test_findings_stand_beside_the_rest_where_there_is_room(theatre: Theatre) -> None:
    async def script(pilot: Pilot[None]) -> None:
        await theatre.open(pilot, "4")
        shown = on_screen(pilot)
        assert "✓ steadfast > pushover by" in shown
        assert "[metrics]" in shown
        assert "findings" not in shown.splitlines()[1]
        assert "ranks among" not in shown
        for said in (True, False):
            await pilot.press("I")
            await pilot.pause()
            assert ("ranks among" in on_screen(pilot)) is said

    theatre.perform(script, (200, 50), app_with(theatre, Sums(Report(an_analysis()))))


def test_a_narrow_header_says_how_complete_and_how_old_the_figures_are(theatre: Theatre) -> None:
    name = "what-people-who-are-pressed-for-an-answer-say"
    info = BenchmarkInfo(name=name, title="", turns=2, targets=[], scripted=True)
    theatre.watch.benchmarks = [info, *theatre.watch.benchmarks]

    async def script(pilot: Pilot[None]) -> None:
        await theatre.open(pilot, "4")
        first = on_screen(pilot).splitlines()[0]
        assert first.startswith(" Results  what-people")
        approve(lines_with(first, "scored  up to"))
        assert first.endswith("no language models")

    theatre.perform(script, (80, 24), app_with(theatre, Sums(a_report())))


def test_a_target_page_says_rates_samples_and_groups() -> None:
    found = target_sections(an_analysis(), an_analysis().targets[0])
    for width in (78, 118):
        approve("\n".join(text_of([row for one in found for row in section_rows(one, width)])))


def test_a_course_says_when_a_target_gives_way() -> None:
    rows = text_of(onset_rows(some_courses(), HELD, 100))
    assert [line.split() for line in rows if line.endswith("of 10")] == [
        [HELD, "100%", "100%", "100%", "90%", "of", "10"],
        [CAVED, "90%", "90%", "30%", "10%", "of", "10"],
    ]
    assert any("no verdict says" in line.lower() for line in text_of(onset_rows([], HELD, 80)))


def test_each_curve_of_a_plot_has_its_name_at_its_end_and_its_own_ink() -> None:
    curves = [
        Curve("falls", [1.0, 0.5, 0.0], Ink.MUTED),
        Curve("holds", [1.0, 1.0, 1.0], Ink.ACCENT),
    ]
    load()
    drawn = plot(curves, 70, 12)
    lines = ["".join(piece.text for piece in line) for line in drawn]
    assert max(length(line) for line in drawn) <= 70
    assert lines[1].endswith("holds")
    assert lines[9].endswith("falls")
    assert "100%" in lines[1]
    assert lines[-1].split() == ["1", "2", "3"]
    [first] = [piece for piece in drawn[1] if piece.ink is Ink.ACCENT and "holds" not in piece.text]
    assert all("\u2800" <= sign <= "\u28ff" for sign in first.text)
    assert not any("\x1b" in line for line in lines)
    assert plot(curves, 40, 13) == []
    assert plot(curves, 70, 8) == []
    assert plot([], 70, 13) == []


def test_what_draws_curves_is_loaded_when_they_are_looked_at() -> None:
    program = (
        "import sys, tui.app, tui.screens.results\n"
        "heavy = {'plotext', 'openai', 'anthropic', 'engine.pipeline.validation'}\n"
        "sys.exit(len(heavy & {*sys.modules}))"
    )
    subprocess.run([sys.executable, "-c", program], check=True, cwd=ROOT)


# Where it leads


async def played(theatre: Theatre) -> None:
    await theatre.prepare(2)
    for target, passed in ((HELD, True), (CAVED, False)):
        await theatre.judge(await theatre.play(1, target), passed=passed)


async def opened_line(theatre: Theatre, pilot: Pilot[None]) -> str:
    await pilot.press("enter")
    for _ in range(3):
        await theatre.tick(pilot)
    assert isinstance(pilot.app.screen, VerdictsScreen)
    return on_screen(pilot).splitlines()[1]


def test_each_figure_leads_to_its_verdicts_and_q_leads_back(theatre: Theatre) -> None:
    async def back(pilot: Pilot[None], *keys: str) -> None:
        await pilot.press(*keys)
        await theatre.tick(pilot)
        assert isinstance(pilot.app.screen, ResultsScreen)

    async def script(pilot: Pilot[None]) -> None:
        await played(theatre)
        await theatre.open(pilot, "4")
        await pilot.press("down", "enter")
        await theatre.tick(pilot)
        assert "these metrics" in on_screen(pilot)
        assert f"target:{CAVED}" in await opened_line(theatre, pilot)
        assert len(pilot.app.screen.query_one(WideTable).rows) == 1
        await theatre.press(pilot, "q", "end")
        assert "┤" in on_screen(pilot)
        line = await opened_line(theatre, pilot)
        assert f"target:{HELD}" in line  # the last curve
        assert "type:negative" in line
        await back(pilot, "q", "q")
        assert pilot.app.screen.query_one("#standing", Sheet).cursor == CAVED
        await pilot.press("W")
        await theatre.tick(pilot)
        await theatre.tick(pilot)
        assert f"target:{CAVED} outcome:fail" in on_screen(pilot).splitlines()[1]

        # a cell of the map of metrics
        await back(pilot, "q")
        await pilot.press("right_curly_bracket", "tab", "down", "right")
        await theatre.tick(pilot)
        assert "10%" in told_line(pilot)
        await pilot.press("W")
        await theatre.tick(pilot)
        approve(lines_with(on_screen(pilot), "Nothing of this"))
        line = await opened_line(theatre, pilot)
        assert f"target:{CAVED}" in line
        assert "metric:m02" in line
        await back(pilot, "q")
        await pilot.press("up", "W")
        await theatre.tick(pilot)
        assert f"target:{CAVED} metric:m01 outcome:fail" in on_screen(pilot).splitlines()[1]

        # a pair of targets, and a gap between groups
        await back(pilot, "q", "right_curly_bracket", "down")
        assert "type:positive" in await opened_line(theatre, pilot)
        await back(pilot, "q", "end")
        assert f"target:{CAVED}" in await opened_line(theatre, pilot)

    report = Report(an_analysis(), courses=tuple(some_courses()))
    theatre.perform(script, app=app_with(theatre, Sums(report)))


def test_a_name_within_another_name_is_not_taken_for_it() -> None:
    pictures = dict.fromkeys(("gpt-4", "gpt-4o", "claude"), SIDES[HELD])
    analysis = replace(an_analysis(pictures), benchmark="giving-in")
    wanted = VerdictScope(("gpt-4",), metric="m01")
    assert line_of(wanted, analysis, ["giving-in"]) == "target:gpt-4 -target:gpt-4o metric:m01"
    assert line_of(wanted, analysis, ["giving-in", "giving-in-2"]).startswith(
        "benchmark:giving-in -benchmark:giving-in-2 target:"
    )
    branch = VerdictScope(benchmark="giving-in@user-blunt")
    assert line_of(VerdictScope(), analysis, ["giving-in", "giving-in@user-blunt"]) == (
        "benchmark:giving-in -benchmark:giving-in@user-blunt"
    )
    assert line_of(branch, analysis, ["giving-in", "giving-in@user-blunt"]) == (
        "benchmark:giving-in@user-blunt"
    )
    older = VerdictScope(axis="age group", people=("over 65, retired",))
    assert line_of(older, analysis, ["giving-in"]) == "who:age*group=over*65**retired"


# While it is added up


def test_the_screen_answers_while_it_is_added_up(theatre: Theatre) -> None:
    go_on = Gate()
    begun = threading.Event()

    def slow(benchmark: str) -> Report:
        del benchmark
        begun.set()
        assert go_on.wait()
        return Report(an_analysis())

    async def script(pilot: Pilot[None]) -> None:
        assert isinstance(pilot.app, CrosswindApp)
        await pilot.press("4")
        pilot.app.tick()
        assert await asyncio.to_thread(begun.wait, 10)
        await pilot.press("right_curly_bracket")
        pilot.app.tick()
        await pilot.pause()
        approve(lines_with(on_screen(pilot), "Adding up what", "[metrics]"))
        go_on.set()
        await theatre.tick(pilot)
        approve(lines_with(on_screen(pilot), "+ m01 Leaves the"))

    theatre.perform(script, app=app_with(theatre, slow))


def test_what_is_judged_is_added_up_again_now_and_then_and_only_while_seen(
    theatre: Theatre,
) -> None:
    sums = Sums(Report(an_analysis()))

    async def script(pilot: Pilot[None]) -> None:
        await theatre.prepare(3)
        await theatre.open(pilot, "4")
        assert len(sums.asked) == 1
        await theatre.judge(await theatre.play(1))
        await theatre.tick(pilot, 1)
        assert "1 s old" in on_screen(pilot)
        await theatre.tick(pilot, 2)
        assert len(sums.asked) == 1
        await theatre.tick(pilot, 3)
        await theatre.tick(pilot)
        assert len(sums.asked) == 2
        assert "up to date" in on_screen(pilot)
        await theatre.move(Stage.GEN_SCENARIOS, "m01_s004_v01", State.DONE)
        await theatre.tick(pilot, 6)
        await theatre.tick(pilot)
        assert len(sums.asked) == 3
        await pilot.press("3", "right_curly_bracket")
        await theatre.judge(await theatre.play(2))
        await theatre.tick(pilot, 60)
        assert len(sums.asked) == 3
        await pilot.press("4")
        await theatre.tick(pilot)
        assert len(sums.asked) == 4

    theatre.perform(script, app=app_with(theatre, sums))


def test_a_fault_is_said_and_u_tries_again(theatre: Theatre) -> None:
    sums = Sums("the scenarios of this benchmark cannot be read")

    async def script(pilot: Pilot[None]) -> None:
        await theatre.open(pilot, "4")
        approve(lines_with(on_screen(pilot), "the scenarios of"))
        await theatre.tick(pilot, 60)
        assert len(sums.asked) == 1
        sums.report = Report(an_analysis())
        await pilot.press("f5")
        await theatre.tick(pilot)
        await theatre.tick(pilot)
        assert "46 of 48 conversations" in on_screen(pilot)
        sums.report = "the disk has gone"
        await pilot.press("f5")
        await theatre.tick(pilot)
        await theatre.tick(pilot)
        approve(lines_with(on_screen(pilot), "46 of 48 conversations", "cannot be added"))

    theatre.perform(script, app=app_with(theatre, sums))


def test_what_is_worked_on_is_shown_first_and_what_was_chosen_the_next_time(
    theatre: Theatre, tmp_path: Path
) -> None:
    other = BenchmarkInfo(name="another", title="", turns=2, targets=[], scripted=False)
    theatre.watch.benchmarks = [other, *theatre.watch.benchmarks]
    sums = Sums(a_report())

    def app() -> CrosswindApp:
        backend, memory = Backend(report=sums), tmp_path / "app.json"
        return CrosswindApp(theatre.watch, moment=theatre.moment, backend=backend, memory=memory)

    async def choose(pilot: Pilot[None]) -> None:
        await theatre.open(pilot, "4")
        assert f"{BENCHMARK} 2 of 2" in on_screen(pilot)
        await pilot.press("less_than_sign", "left_curly_bracket")
        await theatre.tick(pilot)
        assert "another 1 of 2" in on_screen(pilot)
        await theatre.press(pilot, "greater_than_sign")
        await theatre.tick(pilot)
        assert f"{BENCHMARK} 2 of 2" in on_screen(pilot)
        assert sums.asked == [BENCHMARK, "another"]

    async def come_back(pilot: Pilot[None]) -> None:
        await theatre.open(pilot, "4")
        assert f"{BENCHMARK} 2 of 2" in on_screen(pilot)
        assert "[judges]" in on_screen(pilot)

    asyncio.run(theatre.prepare())
    asyncio.run(theatre.begin())
    theatre.perform(choose, app=app())
    theatre.perform(come_back, app=app())


def test_without_benchmarks_or_verdicts_it_says_what_to_do(theatre: Theatre) -> None:
    nothing = {HELD: {METRICS[0]: "????"}, CAVED: {METRICS[0]: "????"}}

    async def unscored(pilot: Pilot[None]) -> None:
        await theatre.open(pilot, "4")
        approve(lines_with(on_screen(pilot), "Nothing is scored", "nothing scored yet"))
        await pilot.press("right_curly_bracket", "right_curly_bracket", "tab")
        await theatre.tick(pilot)
        assert "—" in on_screen(pilot)

    async def empty(pilot: Pilot[None]) -> None:
        theatre.watch.benchmarks = []
        await theatre.open(pilot, "4")
        approve(lines_with(on_screen(pilot), "There is no"))
        await pilot.press("enter", "greater_than_sign", "f5", "right_curly_bracket")

    theatre.perform(unscored, app=app_with(theatre, Sums(Report(an_analysis(nothing)))))
    theatre.perform(empty)


def test_an_engine_that_is_not_at_work_says_no_so_far(theatre: Theatre) -> None:
    theatre.link.state = EngineState.STOPPED
    report = Report(an_analysis({HELD: {METRICS[0]: "++?+"}, CAVED: {METRICS[0]: "+---"}}))

    async def script(pilot: Pilot[None]) -> None:
        await theatre.open(pilot, "4")
        assert "7 of 8 scored" in on_screen(pilot)
        assert "so far" not in on_screen(pilot)

    theatre.perform(script, app=app_with(theatre, Sums(report)))


def test_a_report_is_added_up_from_a_workspace(played: Place) -> None:
    (played.folder / "validation" / "evaluator-nobody").mkdir(parents=True)
    workspace, config = Workspace(played.root), load_config(played.config)
    found = build_report(workspace, config, played.root / "crosswind.db", "giving-in")
    assert {target.target for target in found.analysis.targets} == {"holds", "wavers"}
    assert sum(target.scored for target in found.analysis.targets) == 16
    assert {one.target for one in found.courses} == {"holds", "wavers"}
    assert sum(one.of + one.unplaced for one in found.courses) == 16
    [validated] = found.validations
    assert validated.report is None
    assert "nobody" in (validated.fault or "")


# Pictures


@pytest.mark.parametrize(
    ("size", "section"),
    [((120, 40), "groups and pairs"), ((80, 24), "metrics"), ((200, 50), "judges")],
    ids=["120x40-pairs", "80x24-metrics", "200x50-judges"],
)
def test_the_results_screen(
    theatre: Theatre, snap_compare: Compare, size: tuple[int, int], section: str
) -> None:
    async def look(pilot: Pilot[None]) -> None:
        await pilot.pause()
        await at_section(theatre, pilot, section)
        for _ in range(4):
            await pilot.pause()

    report = a_report()
    app = app_with(theatre, Sums(report))
    assert snap_compare(app, terminal_size=size, run_before=look)


def test_where_a_cost_is_from_is_told_without_a_warning() -> None:
    words = "The calls cost $1.25, all of it as the providers reported it."
    rows = says_rows(replace(an_analysis(), cost=words), 100, in_full=True)
    texts = ["".join(piece.text for piece in row.line).strip() for row in rows]
    assert words in texts
    assert not any("The calls cost" in text and text != words for text in texts)


# All benchmarks together


def together() -> Analysis:
    every = {SECOND: SIDES, BENCHMARK: {**SIDES, HELD: {**SIDES[HELD], METRICS[0]: mixed(0.5)}}}
    return overall([replace(an_analysis(of), benchmark=name) for name, of in every.items()])


SECOND = "second"


def with_a_second_benchmark(theatre: Theatre) -> None:
    [info] = theatre.watch.benchmarks
    theatre.watch.describe([info, replace(info, name=SECOND)], theatre.watch.link)


def test_all_benchmarks_together_are_one_key_away(theatre: Theatre) -> None:
    with_a_second_benchmark(theatre)
    asked: list[str] = []

    def report(name: str) -> Report:
        asked.append(name)
        return Report(together() if name == ALL else an_analysis())

    async def script(pilot: Pilot[None]) -> None:
        await theatre.open(pilot, "4")
        assert "O together" in on_screen(pilot).splitlines()[-1]
        await pilot.press("O")
        await theatre.tick(pilot)
        await theatre.tick(pilot)
        shown = on_screen(pilot)
        assert "all 2 benchmarks together" in shown
        assert "24 scenarios, 2 benchmarks" in shown
        await pilot.press("I")
        await pilot.pause()
        shown = on_screen(pilot)
        approve(lines_with(shown, "intervals for other"))
        assert "rows" not in shown
        assert "judges" not in shown
        for name, said in {
            "metrics": f"− {SECOND} negative",
            "groups and pairs": "positive metrics",
        }.items():
            await pilot.press("right_curly_bracket")
            await pilot.pause()
            assert f"[{name}]" in on_screen(pilot)
            assert said in on_screen(pilot), name
        await pilot.press("O")
        await theatre.tick(pilot)
        assert f"{BENCHMARK} 1 of 2" in on_screen(pilot)
        await pilot.press("less_than_sign")
        await theatre.tick(pilot)
        assert "all 2 benchmarks together" in on_screen(pilot)
        assert asked == [BENCHMARK, ALL]

    theatre.perform(script, app=app_with(theatre, report))


def test_a_figure_of_all_benchmarks_leads_to_the_verdicts_behind_it() -> None:
    found = together()
    known = [BENCHMARK, SECOND, f"{BENCHMARK}@evaluator-strict"]
    behind = behind_spot(found, GridCell(1, 0))
    assert behind is not None
    assert line_of(behind, found, known) == f"benchmark:{SECOND} target:{HELD} type:negative"
    everywhere = line_of(VerdictScope((HELD,), track=Track.POSITIVE), found, known)
    assert everywhere.startswith(f"benchmark:{SECOND},{BENCHMARK} -benchmark:")
    assert everywhere.endswith("type:positive")


@pytest.mark.parametrize("width", [160, 80])
def test_gaps_with_their_tests_and_what_they_rest_on_stand_in_columns(width: int) -> None:
    """Also beside an interval over the whole scale, the longest one."""
    analysis = an_analysis()
    first, *others = (replace(one, p_adjusted=0.5) for one in analysis.gaps)
    gaps = [replace(first, low=-1.0, high=1.0), *others]
    approve(
        "\n".join(text_of(sections_rows(replace(analysis, gaps=gaps), ("people",), width, HELD)))
    )


@pytest.mark.parametrize(
    ("width", "shown"),
    [
        (40, "−100     −50        0       +50     +100"),
        (20, "−100      0     +100"),
        (9, "−100 +100"),
        (4, "−100"),
    ],
)
def test_a_scale_says_how_far_it_reaches_before_what_lies_between(width: int, shown: str) -> None:
    [line] = tick_line(scale_of((-1.0, 1.0)), width)
    assert line.text.rstrip() == shown


def test_labels_of_a_scale_are_evenly_apart() -> None:
    shown = {tuple(tick_line(RATES, width)[0].text.split()) for width in range(9, 40)}
    whole = ("0%", "25%", "50%", "75%", "100%")
    assert shown == {whole, whole[::2], whole[::4]}
