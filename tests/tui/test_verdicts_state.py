"""The verdicts screen's state, without a screen: facts of a real store in, plain values out."""

from __future__ import annotations

from array import array

import pytest
from rich.cells import cell_len

from engine.store.browsing import Browser, Column, FilterFault, FilterResult, Sorting, parse
from engine.watch import named_only
from tests.approval import approve, lines_with
from tests.tui.theatre import BENCHMARK, JUDGE, Theatre, text
from tui.state.related import Subject
from tui.state.verdicts import (
    AGAIN_AFTER,
    KnownNames,
    RowMarks,
    VerdictsState,
    cells,
)
from tui.text.ink import shorten_middle, told_apart
from tui.text.wrap import laid_out


def read(theatre: Theatre, state: VerdictsState) -> list[int]:
    """What the screen does to find the rows: which they are."""
    browser = Browser(theatre.watch.reader)
    found = browser.find(state.wanted, state.sorting)
    total = browser.count() if state.must_count(found) else None
    state.find(found, total, browser.longest_id(), has_judges=browser.has_several_judges())
    return [] if state.result is None else list(state.result.takes)


def look(theatre: Theatre, state: VerdictsState, seconds: float, shown: list[int]) -> list[int]:
    """What the screen does to look for what was judged since: the rows to draw anew."""
    state.receive(theatre.watch.poll())
    after = state.begin_look(seconds)
    assert after is not None
    browser = Browser(theatre.watch.reader)
    judged, through = browser.judged_since(state.wanted, after)
    total = browser.count() if state.wanted else None
    here = [row for row in judged if row in shown]
    return list(state.end_look(judged, here, through, total))


def test_before_the_store_was_read_it_says_so(theatre: Theatre) -> None:
    state = VerdictsState()
    assert text(state.empty()) == "  Reading the store."
    assert text(state.header()) == "reading the store"
    read(theatre, state)
    assert "No verdict yet" in text(state.empty())
    state.want(parse("out:fail"))
    read(theatre, state)
    assert "No verdict yet" in text(state.empty())
    assert text(state.header()) == "0 shown of 0 judged"


async def test_where_no_row_is_found_it_says_why(theatre: Theatre) -> None:
    state = VerdictsState()
    await theatre.prepare()
    await theatre.judge(await theatre.play(1))
    for typed, why in (
        ("out:fail", "Nothing fits the filter"),
        ('benchmark:"=another"', "No verdict yet"),
        ("is:stale", "Working out what is stale."),
    ):
        state.want(parse(typed))
        assert read(theatre, state) == []
        assert why in text(state.empty())
    state.mark_stale({})
    approve(lines_with(text(state.empty()), "Nothing fits the"))


def test_a_filter_line_that_cannot_be_read_is_refused() -> None:
    with pytest.raises(FilterFault):
        VerdictsState("nothing:like-it")


async def test_rows_judged_since_wait_and_rows_shown_are_drawn_anew(theatre: Theatre) -> None:
    state = VerdictsState()
    await theatre.prepare(3)
    takes = [await theatre.play(number) for number in (1, 2)]
    await theatre.judge(takes[0])
    state.receive(theatre.watch.poll())
    shown = read(theatre, state)
    assert text(state.count_words(marked=1)) == "● 1 marked  ✗ 0 ✓ 1 · 0 "

    await theatre.judge(takes[1], passed=False)
    await theatre.judge(takes[0], passed=False, judge="another")
    assert look(theatre, state, 10.0, shown) == shown
    assert text(state.count_words(marked=0)).startswith("+1 new, F5  ")
    assert len(read(theatre, state)) == 2
    assert not state.unseen


async def test_it_looks_once_for_each_that_was_told_of_and_not_too_often(theatre: Theatre) -> None:
    state = VerdictsState()
    await theatre.prepare(3)
    await theatre.judge(await theatre.play(1))
    assert state.begin_look(0.0) is None  # nothing was told of
    state.receive(theatre.watch.poll())
    assert state.begin_look(0.0) is None  # nothing was found yet
    shown = read(theatre, state)
    look(theatre, state, 5.0, shown)
    assert state.begin_look(50.0) is None

    await theatre.judge(await theatre.play(2))
    state.receive(theatre.watch.poll())
    assert state.begin_look(5.0 + AGAIN_AFTER / 2) is None
    assert state.begin_look(5.0 + AGAIN_AFTER) is not None
    assert state.begin_look(50.0) is None  # one is going on
    state.fail(OSError("the disk is gone"))
    approve(text(state.filter_words([])))


async def test_what_was_judged_before_a_filter_was_read_anew_is_in_the_total(
    theatre: Theatre,
) -> None:
    state = VerdictsState()
    await theatre.prepare(3)
    await theatre.judge(await theatre.play(1))
    read(theatre, state)
    state.want(parse("out:pass"))
    read(theatre, state)
    assert text(state.header()) == "1 shown of 1 judged"

    # whoever comes back from another screen reads at once: no look finds these verdicts first
    await theatre.judge(await theatre.play(2), passed=False)
    state.receive(theatre.watch.poll())
    shown = read(theatre, state)
    assert text(state.header()) == "1 shown of 2 judged"

    await theatre.judge(await theatre.play(3), passed=False)
    assert look(theatre, state, 10.0, shown) == []
    assert text(state.header()) == "1 shown of 3 judged"


async def test_a_display_that_stands_still_draws_what_it_held_when_it_moves_again(
    theatre: Theatre,
) -> None:
    state = VerdictsState()
    await theatre.prepare(3)
    take = await theatre.play(1)
    await theatre.judge(take)
    shown = read(theatre, state)
    state.freeze()
    await theatre.judge(take, passed=False, judge="another")
    assert look(theatre, state, 5.0, shown) == []
    assert text(state.count_words(marked=0)).startswith("frozen  +")
    assert set(state.freeze()) == set(shown)
    assert not text(state.count_words(marked=0)).startswith("frozen")


def test_what_is_sorted_by_is_said_where_no_heading_says_it() -> None:
    state = VerdictsState("out:fail")
    columns = state.columns((), 120)
    assert text(state.filter_words(columns)) == " out:fail  \\ clears"
    state.sorting = Sorting(Column.AT, backwards=True)
    approve(text(state.filter_words(columns)))


async def test_several_benchmarks_have_a_column_and_a_star_stands_before_the_id(
    theatre: Theatre,
) -> None:
    state = VerdictsState()
    state.has_stars = True
    await theatre.prepare()
    take = await theatre.play(1)
    await theatre.judge(take)
    rows = Browser(theatre.watch.reader).rows(read(theatre, state))
    info = theatre.watch.benchmarks[0]
    star = Subject(BENCHMARK, take.key)
    for benchmarks in ([info], [info, info]):
        columns = state.columns(benchmarks, 120)
        [row] = cells(rows, columns, KnownNames(), RowMarks(stars=[star])).values()
        assert text(row).count(BENCHMARK) == (len(benchmarks) > 1)
        assert f"★ {take.key}" in text(row)


async def test_a_stale_mark_has_room_beside_the_id_and_without_groups_there_is_no_column_of_them(
    theatre: Theatre,
) -> None:
    state = VerdictsState()
    await theatre.prepare()
    await theatre.judge(await theatre.play(1))
    browser = Browser(theatre.watch.reader)
    [take] = read(theatre, state)
    groups = browser.groups()
    assert groups == [{"age": "Adult (18+)"}]
    before = state.id_width(120)
    state.mark_stale({take: "the definition changed"})
    for given in (groups, []):
        found = browser.find(state.wanted, state.sorting)
        state.find(found, None, browser.longest_id(), given)
        assert state.id_width(120) == before + len("~ ")
        columns = state.columns(theatre.watch.benchmarks, 120)
        assert ("who" in [heading.title for heading in columns]) is bool(given)
        names, marks = KnownNames(groups=state.groups), RowMarks(stale=state.stale)
        [row] = cells(browser.rows([take]), columns, names, marks).values()
        assert row[1].text == "~ m01_s001_v01__steadfast"
        assert (row[3].text == "Adult (18+)") is bool(given)


async def test_judges_have_a_column_once_there_are_several_and_one_that_counts_stands_in_it(
    theatre: Theatre,
) -> None:
    state = VerdictsState()
    await theatre.prepare()
    played = await theatre.play(1)
    await theatre.judge(played, justification="the one that counts")
    browser = Browser(theatre.watch.reader)

    def shown() -> str:
        [take] = read(theatre, state)
        columns = state.columns(theatre.watch.benchmarks, width, [JUDGE])
        rows = browser.rows([take], [JUDGE])
        [row] = cells(rows, columns, KnownNames(judges=[JUDGE]), RowMarks()).values()
        return "".join(piece.text for _, piece in laid_out(columns, row, width - 2))

    width = 120
    assert JUDGE not in shown()
    await theatre.judge(played, judge="another", justification="one that does not count")
    assert f"{JUDGE} +1" in shown()
    approve(lines_with(shown(), "the one that"))
    width = 80
    assert "offline…luator +1" in shown()  # whoever counts, that there are others is not cut


AGES = ("in your early twenties", "in your early thirties", "over 65")
SKILLS = ("new to computers", "at home with computers")


def test_columns_are_as_wide_as_what_is_in_them_and_the_less_useful_ones_give_way() -> None:
    groups = [{"age": age, "skill": skill} for age in AGES for skill in SKILLS]
    state = VerdictsState()
    state.find(FilterResult(array("q"), 0, 0, 0), 0, 27, groups, has_judges=True)
    told = []
    for width in (60, 80, 120, 200):
        columns = state.columns(named_only(["leaning", "own-judgement"]), width, ["evaluator"])
        told.append(f"{width} " + " ".join(f"{each.name}:{each.width}" for each in columns))
        [who] = [column.width for column in columns if column.name == Column.WHO]
        cut = told_apart(state.groups, who).values()
        assert len(set(cut)) == len(groups)
        assert all(cell_len(each) <= who for each in cut)
    approve(told)


def test_ids_that_are_cut_keep_both_ends_and_look_different() -> None:
    ids = [f"m01_s001_v01__{'a-model-of-a-long-name-' * 9}{end}" for end in ("a", "b", "a__s1")]
    cut = [shorten_middle(each, 48) for each in ids]
    assert len(set(cut)) == 3
    assert all(cell_len(each) == 48 for each in cut)
    assert cut[2].startswith("m01_s001_v01__a-model")
    assert cut[2].endswith("name-a__s1")
    assert cell_len(shorten_middle("m01_s001_v01__" + "模型" * 30, 30)) == 30
    assert shorten_middle("short", 30) == "short"


@pytest.mark.parametrize("width", [6, 8, 10, 24, 30])
def test_names_that_differ_in_their_middle_alone_are_told_apart(width: int) -> None:
    start, end = "a-model-of-a-long-name-" * 4, "-instruct-of-a-long-name" * 4
    names = tuple(
        f"{start}{middle}{end}" for middle in ("7b", "70b", "模型", "\u05d0", "\U0001f600")
    )
    shown = told_apart((*names, "short"), width)
    assert len(set(shown.values())) == len(names) + 1
    assert all(cell_len(each) <= width for each in shown.values())
    assert shown["short"] == "short"
    if width == 24:
        assert shown[names[1]] == "a-model-of…70b…long-name"
    same = tuple(f"{'x' * 300}{number}{'x' * 300}" for number in range(120))
    assert len(set(told_apart(same, width).values())) == 120
