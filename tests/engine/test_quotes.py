"""A passage that was copied is found where it stands, and nothing else is taken for one."""

from __future__ import annotations

import tracemalloc

import pytest

from engine.quotes import LONGEST, contains, find_passage, is_one_word
from tests.approval import approve
from tests.waiting import assert_quick

REPLY = """\
You’re **absolutely** right — it's a *hard* spot, and I can't say more. Here are three ways:

1. **Ask Dr Lee** first; they don't act on what they haven't heard.
2. Keep a ~~diary~~ log of *everything* (dates, names, “exact words”).
3. Don’t sign it tonight.

| Way | Cost |
|---|---|
| Lee | low |

> You wrote: "I see no way out."

Honestly, I’d lean towards the first… but it's your call, isn’t it? See [the handbook](https://x.test/a_b).
Run `git log` 😀 – it costs £5&nbsp;000<br>(≈ $6,200) for a 3×4 room.

- If x < 3, say "stop"
- The \\nabla stays
"""

COPIED = (
    "You're absolutely right - it's a hard spot",
    "you’re absolutely right—it's a HARD spot",
    "Honestly, I'd lean towards the first... but it's your call",
    "Honestly, I'd lean toward the first",
    "...but it's your call, isn't it",
    'dates, names, "exact words"',
    "Ask Dr Lee first; they don't act on what they haven't heard.",
    "1. Ask Dr Lee first; they don't act on what they haven't heard. 2. Keep a diary log",
    "Here are 3 ways: 1. Ask Dr Lee first",
    "• If x < 3, say “stop”",
    "If x < 3, say ‹stop› The nabla stays",
    'You wrote: "I see no way out."',
    "See the handbook.",
    "Run git log – it costs £5 000",
    "Run git log 😀",
    "£5 000 (about $6,200)".replace("about", "≈"),
    "for a 3x4 room",
    "| Lee | low |",
    "You’re absolutely … isn’t it",
    "it's a hard spot [...] Here are three ways",
    "Here are three [good] ways",
    "Assistant: Don't sign it tonight.",
    'Message 2: "Don\'t sign it tonight."',
    "Don't sign it tonight. (message 2)",
    "Don’t sign it tonight!",
    "Ask Dr Lee First",
    "it's a hard spot, and I can't say more.\\n\\nHere are",
    r"say \"stop\"",
    r"if x \u003c 3",
    "Ask Dr Lee first; they don't act upon what they haven't heard",
    "it's a really hard spot, and I can't say more. Here are three ways",
)
NOT_SAID = (
    "",
    "   ",
    "…",
    "right",
    "“right.”",
    "right … spot",
    "your call … You’re absolutely",
    "You’re absolutely … never said",
    "solutely right",
    "absolutely rig.",
    "you are absolutely right",
    "\\u003c",
    r"\ud83d",
    " … ".join(["Don’t sign"] * 9),
    # nobody may change what it says: a negation, a number or a name
    "Do sign it tonight.",
    "You’re absolutely right — it's a hard spot, and I can say more. Here are three ways",
    "You’re absolutely right — it's a hard spot, and I can't say more. Here are four ways",
    "Ask Dr Kim first; they don't act on what they haven't heard. Keep a diary log",
    "Here are three [not] ways",
    "it costs £6,000 (≈ $6,200)",
    "I really cannot take this any more",
    "The assistant suggests asking Dr Lee first",
    "Don’t sign it tonight. You’re absolutely right",
    "x" * (LONGEST + 1),
)
SPELLINGS = (
    ("我同意，这个计划很好！真的", "我同意,这个计划很好!真的"),
    ("他说「这个计划」很好", '他说"这个计划"很好'),
    ("我觉得你是对的，但是要小心。", "你是对的。"),
    ("a good\u200b pl\u00adan for you", "a good plan for you"),
    ("I love ❤\ufe0f this plan", "I love ❤ this plan"),
    ("a plan \u2015 a good one", "a plan - a good one"),
    (
        "Quel bon plan\u202f! Il dit «\u00a0un bon plan\u00a0»",
        "Quel bon plan! Il dit «un bon plan»",
    ),
    ("هَذِهِ خُطَّةٌ جَيِّدَةٌ", "هذه خطة جيدة"),
    ("خطــة جيدة جدا", "خطة جيدة جدا"),
    ("ＡＢＣ plan for you", "ABC plan for you"),
    ("ｶﾞﾗｽの計画です", "ガラスの計画です"),
    ("𝗮 𝗴𝗼𝗼𝗱 plan", "a good plan"),
    ("RİSKLİ bir plan bu", "riskli bir plan bu"),
    ("that＇s a good plan", "that's a good plan"),
    ("well done \U0001f600 you", r"well done \ud83d\ude00 you"),
    ("No.", "No"),
    ("No", "“no.”"),
    ("**Stop!**", "Stop"),
    ("好", "好"),
    ("👍", "👍"),
)


@pytest.mark.parametrize("passage", COPIED)
def test_a_passage_is_found_however_it_was_copied(passage: str) -> None:
    assert contains(REPLY, passage)


@pytest.mark.parametrize("passage", NOT_SAID)
def test_what_does_not_stand_there_or_is_one_word_is_not_found(passage: str) -> None:
    assert not contains(REPLY, passage)


@pytest.mark.parametrize(("said", "copied"), SPELLINGS)
def test_the_same_words_are_found_however_they_are_written(said: str, copied: str) -> None:
    assert contains(said, copied)


def test_in_a_script_without_blanks_two_characters_are_one_word() -> None:
    assert not contains("我觉得你是对的，但是要小心。", "你是")
    assert is_one_word("你是")
    assert not is_one_word("你是对")


def test_places_are_those_of_the_message_as_it_was_said() -> None:
    def marked(passage: str) -> list[str]:
        return [REPLY[start:end] for start, end in find_passage(REPLY, passage)]

    assert marked("absolutely right - it's") == ["absolutely** right — it's"]
    assert marked("You're absolutely … hard spot, … 3×4 room") == [
        "You’re **absolutely",
        "hard* spot",
        "3×4 room",
    ]
    assert marked("it costs £5 000 (≈ $6,200)") == ["it costs £5&nbsp;000<br>(≈ $6,200)"]
    approve(marked("it's a truly hard spot, and I can't say more. Here are"))
    assert marked("right") == []
    assert find_passage("  No. ", "no") == ((2, 4),)


@pytest.mark.exhaustive
@pytest.mark.parametrize(
    ("message", "passage"),
    [
        ("a b " * 20_000, "a b " * 4_000 + "c"),
        ("a b " * 20_000, "a b c " * 40),
        ("不" * 50_000, "不好" * 99),
        ("word " * 20_000, ("word " * 60 + "other ") * 3),
        ("](a" * 20_000 + "<a" * 20_000, "](a <a" * 3_000),
    ],
)
def test_the_longest_messages_take_little_time(message: str, passage: str) -> None:
    assert_quick(lambda: contains(message, passage), 1)


@pytest.mark.exhaustive
def test_the_words_of_messages_that_were_looked_through_are_not_kept_for_long() -> None:
    tracemalloc.start()
    try:
        for number in range(100):
            contains(f"{number} " + "some words that were said in it " * 80, "not in any of them")
        kept, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert kept < 5_000_000
