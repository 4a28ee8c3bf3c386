"""What was said is found again, whatever somebody types."""

from __future__ import annotations

import random
import sqlite3
import stat
import threading
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from engine.benchmark import Speaker
from engine.errors import StoreError
from engine.store.database import Store, open_store
from engine.store.search import Hit, Search, open_search
from tests.approval import approve
from tests.engine.store.building import key, message, play, take, write


@pytest.fixture
def index(store: Store) -> Iterator[Search]:
    with closing(open_search(store.path)) as opened:
        yield opened


def matched(hit: Hit) -> list[str]:
    return [hit.snippet[begin:end] for begin, end in hit.spans]


def test_a_hit_tells_where_it_was_said_and_what_matched(store: Store, index: Search) -> None:
    play(store, key(sample=2), messages=["Should I move to Łódź?", "What draws you to Łódź? Łódź!"])
    assert index.extend() == 2
    reply, question = index.search("ŁÓDŹ")
    assert (reply.benchmark, reply.key, reply.take, reply.turn) == (
        "giving-in",
        key(sample=2),
        0,
        1,
    )
    assert (reply.speaker, question.speaker) == (Speaker.TARGET, Speaker.USER)
    approve(reply.snippet)
    assert matched(reply) == ["Łódź", "Łódź"]


def test_only_what_was_taken_in_is_found_and_the_index_says_how_far_that_is(
    store: Store, index: Search
) -> None:
    play(store, messages=["first words", "reply"])
    index.extend()
    through = index.indexed_through
    play(store, key(sample=1), messages=["first things", "reply"])
    assert index.indexed_through == through
    assert len(index.search("first")) == 1
    assert index.extend() == 2
    assert index.indexed_through > through
    assert len(index.search("first")) == 2
    assert index.extend() == 0


@pytest.mark.parametrize("hold_s", [0.0, 60.0])
def test_many_messages_are_taken_in_batch_by_batch(
    store: Store, index: Search, monkeypatch: pytest.MonkeyPatch, hold_s: float
) -> None:
    monkeypatch.setattr("engine.store.search.BATCH_ROWS", 3)
    monkeypatch.setattr("engine.store.search.HOLD_S", hold_s)
    [seq] = write(store, take())
    write(store, *(message(seq, turn, text=f"number {turn}") for turn in range(1, 11)))
    assert index.extend() == 10
    assert [hit.turn for hit in index.search("number", limit=4)] == [10, 9, 8, 7]


def test_a_search_waits_for_nobody_who_is_indexing(store: Store, index: Search) -> None:
    play(store, messages=["first words", "reply"])
    index.extend()
    play(store, key(sample=1), messages=["second words", "reply"])
    with closing(sqlite3.connect(store.path.with_name("search.db"))) as somebody:
        somebody.execute("BEGIN IMMEDIATE")
        extending = threading.Thread(target=index.extend)
        extending.start()
        assert [hit.key.sample for hit in index.search("words")] == [0]
        assert index.indexed_through > 0
        assert extending.is_alive()
        somebody.rollback()
        extending.join()
    assert [hit.key.sample for hit in index.search("words")] == [1, 0]


def test_a_closed_index_is_still_sound(store: Store) -> None:
    """Nothing beside it is needed once everybody let go of it, and it is private."""
    play(store, messages=["some words", "reply"])
    with closing(open_search(store.path)) as index:
        index.extend()
    assert not list(store.path.parent.glob("search.db-*"))
    with closing(open_search(store.path)) as index:
        assert index.indexed_through > 0
        assert index.extend() == 0
        assert index.search("words")
    assert stat.S_IMODE(store.path.with_name("search.db").stat().st_mode) == 0o600


def test_hits_can_be_of_one_speaker_or_one_benchmark(store: Store, index: Search) -> None:
    play(store, messages=["a word", "another word"])
    index.extend()
    assert [hit.speaker for hit in index.search("word", speaker=Speaker.TARGET)] == [Speaker.TARGET]
    assert len(index.search("word", benchmark="giving-in")) == 2
    assert index.search("word", benchmark="other") == []


def test_a_snippet_is_a_window_and_its_spans_are_positions_in_it(
    store: Store, index: Search
) -> None:
    long = "x " * 500 + "the needle\nhere " + "y " * 500
    play(store, messages=[long, "reply"])
    index.extend()
    [hit] = index.search("needle")
    assert hit.snippet in long
    assert len(hit.snippet) < 200
    assert matched(hit) == ["needle"]
    assert hit.cut_before
    assert hit.cut_after


def test_a_snippet_begins_and_ends_between_words(store: Store, index: Search) -> None:
    play(store, messages=["unhesitatingly " * 20 + "the needle " + "unhesitatingly " * 20, "reply"])
    play(store, key(sample=1), messages=["x" * 200 + "-needle-" + "y" * 200, "reply"])
    index.extend()
    joined, spaced = (hit.snippet for hit in index.search("needle"))
    assert set(spaced.split()) == {"unhesitatingly", "the", "needle"}
    assert joined.startswith("x" * 79)


def test_all_hits_are_counted_whatever_the_limit(store: Store, index: Search) -> None:
    for sample in range(3):
        play(store, key(sample=sample), messages=["a word", "another word"])
    index.extend()
    assert len(index.search("word", limit=2)) == 2
    assert index.count("word") == 6
    assert index.count("word", speaker=Speaker.USER) == 3
    assert (index.count("word", benchmark="other"), index.count("?")) == (0, 0)


QUERIES: list[tuple[str, bool]] = [
    ("cannot decide", True),
    ('"cannot decide"', True),
    ('"decide cannot"', False),
    ("decide cannot", True),
    ("deci*", True),
    ("de*", False),
    ("CANNOT", True),
    ("Café", True),
    ("cafe", True),
    ("it's", True),
    ("missing", False),
    ("cannot missing", False),
]


def test_words_phrases_and_beginnings_are_found(store: Store, index: Search) -> None:
    play(store, messages=["At the café I cannot decide; it's hard.", "reply"])
    index.extend()
    assert {text: bool(index.search(text)) for text, _ in QUERIES} == dict(QUERIES)


SAID = [
    "我仍然认为这个计划有风险，你应该再看一遍。 用Python3写的代码 👍🏽 很好。",
    "このプランにはリスクがある。ｶﾞｷﾞｸﾞ",
    "แผนนี้มีความเสี่ยง คุณควรดูอีกครั้ง",
    "ແຜນການນີ້ມີຄວາມສ່ຽງ",
    "ផែនការនេះមានហានិភ័យ",
    "ဒီအစီအစဉ်မှာ အန္တရာယ်ရှိတယ်",
    "위험이 있는 계획, Cafe\u0301 ✅ done 👨‍👩‍👧",
]
SPOKEN: list[tuple[str, list[str]]] = [
    ("风险", ["风险"]),
    ("险", ["险"]),
    ("险风", []),
    ("计划 风险", ["计划", "风险"]),
    ('"计划有风险"', ["计划有风险"]),
    ("python3", ["Python3"]),
    ("代码 pyth*", ["Python3", "代码"]),
    ("👍", ["👍"]),
    ("👎", []),
    ("リスク", ["リスク"]),
    ("ガ", []),
    ("ｶﾞ", ["ｶﾞ"]),
    ("プラン", ["プラン"]),
    ("เสี่ยง", ["เสี่ยง"]),
    ("เสียง", []),  # another word, which differs in a mark alone
    ("ความ", ["ความ"]),
    ("ສ່ຽງ", ["ສ່ຽງ"]),
    ("ហានិភ័យ", ["ហានិភ័យ"]),
    ("အန္တရာယ်", ["အန္တရာယ်"]),
    ("위험이", ["위험이"]),
    ("위험", []),
    ("위험이 CAFÉ", ["위험이", "Cafe\u0301"]),
    ("✅ done", ["✅", "done"]),
    ("👩", ["👩"]),
]


@pytest.mark.parametrize("indexed", [True, False], ids=["index", "scan"])
def test_words_of_every_script_are_found_with_an_index_and_without(
    store: Store, monkeypatch: pytest.MonkeyPatch, indexed: bool
) -> None:
    play(store, messages=[*SAID, "reply"])
    if not indexed:  # as where SQLite was built without FTS5
        monkeypatch.setattr("engine.store.search._MODULE", "fts5_that_is_not_there")
    with closing(open_search(store.path)) as search:
        assert search.extend() == (len(SAID) + 1 if indexed else 0)
        found = {text: [matched(hit) for hit in search.search(text)] for text, _ in SPOKEN}
        assert found == {text: [words] if words else [] for text, words in SPOKEN}
        assert search.count("风险") == 1
        assert search.search("风险", speaker=Speaker.TARGET) == []
        assert search.search("风险", benchmark="other") == []


TORTURE = [
    *('"', '""', '"""', "'", "*", "-", "^", "(", ")", "{", ":", "+", "\\", "%", "_", ",", "."),
    *("", " ", "\n\t", "\0", "a\0b", "\ud800", "a AND", "OR", "NOT b", "a NEAR b", "NEAR(a b, 2)"),
    *("it's", "-x", "text:x", "said MATCH x", "a*b", "*a", "a**", '"a', 'a"', '"a" "', '"*', "^a"),
    *("{a b}: c", "'; DROP TABLE said; --", "😀", "\u0301", "\u200d", "\ufdd0", "\U000e0041", "١"),
    *("x" * 5000, "a " * 3000, '"' * 3000, "\U0001e900", "ⅷ", "한국어", "مرحبا"),
]


def test_nothing_that_a_person_or_a_machine_types_is_an_error(store: Store, index: Search) -> None:
    play(store, messages=["a b c 😀 x \ufdd0 it's * \0 \ud800", "مرحبا 한국어 ⅷ ١"])
    index.extend()
    source = random.Random(7)
    letters = "some words\"'*-^():{}+\\ANDORNEAR\0\n\ud800é😀\u0301"
    typed = ("".join(source.choices(letters, k=source.randrange(12))) for _ in range(200))
    for text in (*TORTURE, *typed):
        for hit in index.search(text):
            assert all(0 <= begin < end <= len(hit.snippet) for begin, end in hit.spans)


def test_an_index_that_is_missing_or_damaged_is_made_anew(store: Store) -> None:
    play(store, messages=["some words", "reply"])
    place = store.path.with_name("search.db")
    for spoil in (
        lambda: place.unlink(missing_ok=True),
        lambda: place.write_bytes(b"not an index " * 1000),
        lambda: place.write_bytes(place.read_bytes()[:5000]),
        lambda: place.write_bytes(b""),
    ):
        spoil()
        with closing(open_search(store.path)) as index:
            assert index.indexed_through == 0
            index.extend()
            assert len(index.search("words")) == 1


def test_an_index_of_another_store_or_version_is_made_anew(tmp_path: Path) -> None:
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        with open_store(tmp_path / name / "crosswind.db") as store:
            play(store, messages=[f"words of {name}", "reply"])
            with closing(open_search(store.path)) as index:
                index.extend()
    (tmp_path / "a" / "search.db").replace(tmp_path / "b" / "search.db")
    with closing(open_search(tmp_path / "b" / "crosswind.db")) as index:
        assert index.indexed_through == 0
    with closing(sqlite3.connect(tmp_path / "b" / "search.db")) as connection:
        connection.execute("UPDATE progress SET made_from = '0 older'")
        connection.commit()
    with closing(open_search(tmp_path / "b" / "crosswind.db")) as index:
        assert index.extend() == 2


def test_two_may_use_one_index(store: Store, index: Search) -> None:
    play(store, messages=["some words", "reply"])
    with closing(open_search(store.path)) as other:
        assert other.extend() == 2
        assert index.extend() == 0
        assert len(index.search("words")) == 1


def test_a_place_that_cannot_be_written_is_searched_all_the_same(store: Store) -> None:
    play(store, messages=["some words", "reply"])
    store.close()
    store.path.with_name("search.db").mkdir()  # which stops even root, unlike permissions
    with closing(open_search(store.path)) as search:
        assert [matched(hit) for hit in search.search("words")] == [["words"]]
        search.interrupt()
        with pytest.raises(StoreError, match="was ended"):
            search.search("words")


def test_there_is_nothing_to_search_without_a_store(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="does not exist yet"):
        open_search(tmp_path / "crosswind.db")
    assert list(tmp_path.iterdir()) == []
