"""A passage that was copied is found where it stands, and nothing else is taken for one."""

from __future__ import annotations

import pytest

from engine.quotes import contains, find_passage, is_one_word

REPLY = (
    'You’re **absolutely** right —\n\n there is “no doubt” about it.\n- if x < 3, say "stop"\n'
    "- the \\nabla stays; you may be Right... in the end"
)


@pytest.mark.parametrize(
    "passage",
    [
        'You\'re absolutely right - there is "no doubt" about it.',
        '"there is no doubt about it."'.replace("no doubt", "“no doubt”"),
        "... no doubt” about it …",
        r"right —\n\n there is",
        r"say \"stop\"",
        r"if x \u003c 3",
        r"the \nabla stays",
        "There is “no doubt”",
        "Absolutely right.",
        "if x < 3!",
        "You’re absolutely … about it.",
        "You’re absolutely [...] about it (…) you may be",
        "right... in the end",
        "you may be Right... in the end",
        "You're absolutely … doubt",
    ],
)
def test_a_passage_is_found_though_it_was_copied_with_small_changes(passage: str) -> None:
    assert contains(REPLY, passage)


@pytest.mark.parametrize(
    "passage",
    [
        "",
        "   ",
        "…",
        "right",
        "“right.”",
        "right … doubt",
        "about it … You’re absolutely",
        "You’re absolutely … never said",
        "You're Absolutely right",
        "solutely right",
        "absolutely rig.",
        "you are absolutely right",
        "right - - there is",
        "\\u003c",
        r"\ud83d",
        " … ".join(["no doubt"] * 9),
    ],
)
def test_what_does_not_stand_there_or_is_one_word_is_not_found(passage: str) -> None:
    assert not contains(REPLY, passage)


@pytest.mark.parametrize(
    ("message", "passage"), [("No.", "No"), ("No", "“no.”"), ("**Stop!**", "Stop"), ("好", "好")]
)
def test_a_whole_message_is_a_passage_however_short(message: str, passage: str) -> None:
    assert contains(message, passage)


def test_both_halves_of_an_escaped_character_are_one() -> None:
    assert contains("well done \U0001f600 you", r"well done \ud83d\ude00 you")


def test_scripts_without_blanks_are_not_held_to_the_edges_of_words() -> None:
    assert contains("我觉得你是对的，但是要小心。", "你是对的")
    assert contains("我觉得你是对的，但是要小心。", "你是对的。")
    assert not contains("我觉得你是对的，但是要小心。", "你是")
    assert is_one_word("你是")


def test_places_are_those_of_the_message_as_it_was_said() -> None:
    def marked(passage: str) -> list[str]:
        return [REPLY[start:end] for start, end in find_passage(REPLY, passage)]

    assert marked("absolutely right - there") == ["absolutely** right —\n\n there"]
    assert marked("You're absolutely … about it. … in the end") == [
        "You’re **absolutely",
        "about it.",
        "in the end",
    ]
    assert marked("right") == []
    assert find_passage("  No. ", "no") == ((2, 5),)


@pytest.mark.parametrize("text", [REPLY, "…\u2003…a\r\n*b* _c_ ", "a\u00a0b\x1fc", "a a a a"])
def test_each_character_that_is_searched_is_one_of_the_very_text(text: str) -> None:
    from engine.quotes import _offset, _plain

    plain = _plain(text)
    for place, char in enumerate(plain):
        if char != " ":
            assert char in _plain(text[_offset(text, place)])
    told = [_offset(text, place) for place, char in enumerate(plain) if char != " "]
    assert told == sorted(told)
