"""From an id to what it names, by the store's index, however much the store holds."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from functools import partial
from pathlib import Path

import pytest

from engine.benchmark import ConversationKey
from engine.cli.ids import IdMatch, conversations, find
from engine.errors import InputError
from engine.store.database import create_store
from engine.store.open_reader import open_reader
from engine.store.reader import Reader
from tests.approval import approve
from tests.engine.commands import crosswind
from tests.engine.small_workspace import small_workspace

PLAYED = ConversationKey("m01_s007_v02", "steadfast")

TAKES = """
WITH RECURSIVE each (n) AS (SELECT 0 UNION ALL SELECT n + 1 FROM each WHERE n + 1 < ?1)
INSERT INTO take (seq, at, benchmark, scenario_id, target, sample, number, user_model, model,
                  scripted)
SELECT 4 * n + ?2, 0, ?3, printf('m%02d_s%03d_v%02d', n / 900, n / 3 % 300, n % 3), 'steadfast',
       0, 0, 'u', 'm', 1 FROM each
"""


@contextmanager
def a_store(path: Path, takes: int, *benchmarks: str) -> Iterator[Reader]:
    create_store(path)
    with closing(sqlite3.connect(path)) as connection:
        for number, name in enumerate(benchmarks):
            connection.execute(TAKES, (takes, number, name))
        connection.commit()
    with closing(open_reader(path)) as reader:
        yield reader


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Reader]:
    with a_store(tmp_path_factory.mktemp("small") / "crosswind.db", 2_700, "bread") as reader:
        yield reader


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Reader]:
    with a_store(tmp_path_factory.mktemp("large") / "crosswind.db", 54_000, "bread") as reader:
        yield reader


def work(reader: Reader, asked: Callable[[], object]) -> int:
    """In instructions of SQLite, by tens."""
    steps = 0

    def count() -> None:
        nonlocal steps
        steps += 1

    connection = reader.connection._connection
    connection.set_progress_handler(count, 10)
    try:
        asked()
    finally:
        connection.set_progress_handler(None, 0)
    return steps


def test_an_id_costs_no_more_where_a_store_holds_twenty_times_as_much(
    small: Reader, large: Reader
) -> None:
    texts = (str(PLAYED), PLAYED.scenario_id, "m01_s007")
    asked: list[Callable[[Reader], object]] = [
        *(partial(conversations, texts=[text]) for text in texts),
        partial(find, text=str(PLAYED)),
    ]
    for look in asked:
        few, many = (work(one, partial(look, one)) for one in (small, large))
        assert few > 0
        assert many < 2 * few + 20


def test_what_is_named_is_found_with_all_that_was_played_of_it(small: Reader) -> None:
    assert find(small, str(PLAYED)) == IdMatch("bread", str(PLAYED), "conversation")
    assert find(small, str(PLAYED)[:-3]).id == str(PLAYED)
    variants = {ConversationKey(f"m01_s007_v{n:02d}", "steadfast") for n in range(3)}
    assert conversations(small, [str(PLAYED)]) == {"bread": {PLAYED}}
    assert conversations(small, [PLAYED.scenario_id]) == {"bread": {PLAYED}}
    assert conversations(small, ["m01_s007"]) == {"bread": variants}
    assert len(conversations(small, ["m01"])["bread"]) == 900


def test_the_beginning_of_several_names_none_of_them(small: Reader) -> None:
    """Nor does the beginning of one name all that was played of it."""
    for text in ("m01_s00", "m01_s007_", "m01_s007_v02__stead"):
        with pytest.raises(InputError, match=r"begins \d+ ids|no conversation of .* was played"):
            conversations(small, [text])


def test_a_slip_is_met_with_the_nearest_in_a_store_of_any_size(
    small: Reader, large: Reader
) -> None:
    for reader in (small, large):
        with pytest.raises(InputError, match="did you mean m01_s007_v02__steadfast"):
            find(reader, "m01_s007_v02__steadfats")


def test_what_is_no_id_is_refused_in_words(small: Reader) -> None:
    for text in ("\udcff", "m01\udcff", "", "x" * 9_000, "\U0010ffff", "stead"):
        with pytest.raises(InputError, match=r"nothing with the id|begins 2700 ids"):
            find(small, text)


def test_an_id_of_several_benchmarks_is_asked_for_with_its_own(tmp_path: Path) -> None:
    with a_store(tmp_path / "crosswind.db", 3, "bread", "salt", "bread@user-blunt") as reader:
        every = "m00_s000_v01__steadfast"
        for asked in (find, lambda reader, text: conversations(reader, [text])):
            with pytest.raises(InputError, match=r"is in several benchmarks: bread, salt \("):
                asked(reader, every)
        assert find(reader, every, benchmark="salt").benchmark == "salt"
        assert set(conversations(reader, [every], benchmark="bread@user-blunt")) == {
            "bread@user-blunt"
        }
        # so is the beginning of one id that several have
        with pytest.raises(InputError, match=rf"'{every}' is in several benchmarks"):
            find(reader, "m00_s000_v01__st")
        with pytest.raises(
            InputError, match=r"begins 3 ids \(say which: m00_s000_v00__steadfast, "
        ):
            find(reader, "m00_s000")


def test_an_unknown_benchmark_is_named_with_those_that_there_are(tmp_path: Path) -> None:
    known = r"no benchmark 'sugar' was begun here \(there are: bread, salt\)"
    with a_store(tmp_path / "crosswind.db", 3, "bread", "salt", "bread@user-blunt") as reader:
        with pytest.raises(InputError, match=known):
            find(reader, "m00_s000", benchmark="sugar")
        with pytest.raises(InputError, match=known):
            conversations(reader, ["m00_s000"], benchmark="sugar")


def test_an_id_before_anything_was_run_is_not_taken_for_a_benchmark(tmp_path: Path) -> None:
    place = small_workspace(tmp_path)
    told = crosswind(place.root, "run", "giving-in", "m01_s001_v01__holds", "--yes", code=2)
    approve(told.err)
