"""Wrapping: rows fit, nothing is lost, and going on from the last row is as good as beginning."""

from __future__ import annotations

import random
from itertools import pairwise

import pytest
from rich.cells import cell_len

from tests.waiting import assert_quick
from tui.text.ink import Piece
from tui.text.wrap import AT_ONCE, Heading, TextRow, Wrapped, laid_out, wrap

WORDS = [
    "a", "the", "verdict", "conversation", "antidisestablishmentarianism", "it’s", "—", "naïve",
    "但是我还是觉得应该谨慎一点", "こんにちは", "안녕하세요", "👩‍👩‍👧‍👦", "👍🏽", "☺️", "1️⃣", "🇩🇪",
    "e\u0301\u0302\u0303", "ﷺ", "नमस्ते", "مرحبا", "-", "- item", "12. item", "•", "`code`", "x" * 90,
    "\u200d", "\ufe0f", "\u3000", "  ", "   ", "\n", "\n\n", "\n- a list", "\n    code", "中",
]  # fmt: skip


def rows_of(wrapped: Wrapped) -> list[TextRow]:
    return [wrapped[number] for number in range(len(wrapped))]


def shown(text: str, rows: list[TextRow]) -> list[str]:
    return [" " * row.indent + text[row.start : row.end] for row in rows]


def random_text(rng: random.Random, pieces: int) -> str:
    return "".join(rng.choice(WORDS) + rng.choice(["", " ", " ", " ", "\n"]) for _ in range(pieces))


def test_words_fill_rows_and_blanks_between_rows_vanish() -> None:
    text = "one two   three four"

    assert shown(text, wrap(text, 9)) == ["one two", "three", "four"]


def test_a_word_wider_than_a_row_begins_a_row_and_is_cut() -> None:
    text = "so antidisestablishment ok"

    assert shown(text, wrap(text, 8)) == ["so", "antidise", "stablish", "ment ok"]


def test_indentation_stays_and_rows_of_a_list_item_hang() -> None:
    text = "    code\n- a list item that is longer than one row"

    assert shown(text, wrap(text, 26)) == [
        "    code",
        "- a list item that is",
        "  longer than one row",
    ]


def test_east_asian_text_breaks_between_any_characters() -> None:
    text = "abc但是我还是觉得"

    assert shown(text, wrap(text, 6)) == ["abc但", "是我还", "是觉得"]


def test_joined_emoji_are_never_cut() -> None:
    text = "👩‍👩‍👧" * 5

    assert shown(text, wrap(text, 4)) == ["👩‍👩‍👧" * 2, "👩‍👩‍👧" * 2, "👩‍👩‍👧"]


def test_an_empty_text_is_one_row_and_each_newline_begins_another() -> None:
    assert wrap("", 10) == [TextRow(0, 0)]
    assert shown("a\n\nb\n", wrap("a\n\nb\n", 10)) == ["a", "", "b", ""]


@pytest.mark.parametrize("seed", range(12))
def test_rows_fit_and_hold_the_whole_text_however_it_grows(seed: int) -> None:
    rng = random.Random(seed)
    text, width = random_text(rng, 60), rng.choice([2, 3, 5, 8, 13, 24, 40, 77])

    rows = wrap(text, width)

    for row in rows:
        said = text[row.start : row.end]
        assert row.indent + cell_len(said) <= width or len(said) == 1, (said, width)
        assert "\n" not in said
    kept = "".join(text[row.start : row.end] for row in rows)
    assert "".join(kept.split()) == "".join(text.split())

    grown, end = Wrapped("", width), 0
    while end < len(text):
        end = min(end + rng.choice([1, 1, 2, 3, 7, 20]), len(text))
        grown = Wrapped(text[:end], width, grown)
        assert rows_of(grown) == wrap(text[:end], width), (text[:end], width)


def test_a_long_text_is_wrapped_in_no_time() -> None:
    text = "A plain sentence of ordinary length, said again. " * 16_000

    assert len(wrap(text, 80)) > 9_000
    assert_quick(lambda: wrap(text, 80), 1.0)


@pytest.mark.exhaustive
@pytest.mark.parametrize("width", [8, 24])
def test_what_is_measured_in_parts_is_wrapped_as_if_it_were_one(width: int) -> None:
    """Each row is what fits, and no more: whatever came next would not have fitted."""
    rng = random.Random(width)
    words = [word for word in WORDS if "\n" not in word and "\u200d" not in word[:1]]
    text = " ".join(rng.choice(words) for _ in range(4 * AT_ONCE // 5))
    rows = wrap(text, width)
    assert len(text) > 2 * AT_ONCE

    kept = "".join(text[row.start : row.end] for row in rows)
    assert "".join(kept.split()) == "".join(text.split())
    for row, following in pairwise(rows):
        assert cell_len(text[row.start : row.end]) <= width
        word = text[row.start : text.find(" ", following.start)]
        assert row.indent + cell_len(word) > width or following.start == len(text)


@pytest.mark.parametrize(
    "piece",
    [
        "👩‍👩‍👧‍👦👍🏽",
        "e\u0301\u0302\u0303",
        "但是我",
        "नमस्ते",
        "中e\u0301",
        "é漢",
        "\u200d",
        " ",
        "x",
    ],
)
def test_no_line_without_a_blank_takes_long(piece: str) -> None:
    text = piece * (100_000 // len(piece))

    assert_quick(lambda: Wrapped(text, 69), 1.0)
    wrapped = Wrapped(text, 69)
    last = wrapped[len(wrapped) - 1]
    assert len(text) - last.end < 1_000 or piece == " "


@pytest.mark.parametrize(
    ("width", "shown"),
    [
        (40, ["+", "outcome", "conversation", "because"]),
        (28, ["+", "outcome", "conversation", "bec…"]),
        (26, ["+", "outcome", "conversation"]),
        (22, ["+", "outcome", "conversati…"]),
        (12, ["+", "outcome"]),
    ],
)
def test_a_column_of_which_hardly_anything_fits_is_left_out(width: int, shown: list[str]) -> None:
    names = {"+": 1, "outcome": 8, "conversation": 12, "because": 0}
    headings = [Heading(name, name, wide) for name, wide in names.items()]
    laid = laid_out(headings, [Piece(name) for name in names], width)
    assert [piece.text.strip() for _, piece in laid] == shown
