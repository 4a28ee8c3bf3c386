"""A store is written to files, and the files alone make a store that says the same."""

from __future__ import annotations

import json
import shutil
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from engine.branches import folder_of
from tests.engine.importing.oddities import BRANCH, ORIGINAL, Odd
from tests.engine.importing.told import counted, differences


@pytest.fixture(scope="module")
def odd(tmp_path_factory: pytest.TempPathFactory) -> Odd:
    return Odd(tmp_path_factory.mktemp("odd") / "workspace").build()


@pytest.fixture(scope="module")
def rebuilt(odd: Odd, tmp_path_factory: pytest.TempPathFactory) -> Odd:
    made = Odd(tmp_path_factory.mktemp("rebuilt") / "workspace").set_up()
    assert not made.take_in(odd.root).failed
    return made


def test_the_second_store_says_all_that_the_first_one_says(odd: Odd, rebuilt: Odd) -> None:
    assert list(differences(odd.store, rebuilt.store)) == []
    assert all(counted(odd.store).values()), "a kind that is not there proves nothing"


def test_the_files_of_the_second_store_are_those_of_the_first(odd: Odd, rebuilt: Odd) -> None:
    rebuilt.mirror()
    assert rebuilt.files().keys() == odd.files().keys()
    for name, content in odd.files().items():
        assert rebuilt.files()[name].decode() == content.decode(), name


def test_no_more_is_read_than_was_announced(odd: Odd, tmp_path: Path) -> None:
    """Of histories, too: a bar that goes past its end says nothing of how far it is."""
    announced: list[int] = []
    taken: list[int] = []
    into = Odd(tmp_path / "workspace").set_up()
    into.take_in(odd.root, on_begin=lambda _, size: announced.append(size), on_read=taken.append)
    assert 0.9 * sum(announced) <= sum(taken) <= sum(announced)


def test_taking_the_files_in_again_adds_nothing(odd: Odd, rebuilt: Odd) -> None:
    before = counted(rebuilt.store)
    for folder in (odd.root, rebuilt.root):
        assert [
            benchmark.added for benchmark in rebuilt.take_in(folder).benchmarks if benchmark.is_new
        ] == []
    assert counted(rebuilt.store) == before


def test_the_store_that_the_files_are_from_learns_nothing_from_them(odd: Odd) -> None:
    before = counted(odd.store)
    assert [
        benchmark.added for benchmark in odd.take_in(odd.root).benchmarks if benchmark.is_new
    ] == []
    assert counted(odd.store) == before


def test_calls_that_a_store_has_lost_come_back(odd: Odd, tmp_path: Path) -> None:
    damaged = Odd(tmp_path / "workspace").set_up()
    damaged.take_in(odd.root)
    with closing(sqlite3.connect(damaged.store, isolation_level=None)) as connection:
        connection.execute("DELETE FROM attempt")
    damaged.take_in(odd.root)
    assert list(differences(odd.store, damaged.store)) == []


@pytest.mark.parametrize("name", [ORIGINAL, BRANCH])
def test_without_their_history_files_hold_what_was_said_and_judged(
    odd: Odd, tmp_path: Path, name: str
) -> None:
    """As files are whose history somebody threw away: no times, calls, failures or settings of
    models, and no conversation that has not come to its end, but nothing that is wrong."""
    for path in sorted((odd.root / "benchmarks").rglob("*")):
        if path.is_file() and path.name != "history.jsonl":
            place = tmp_path / "theirs" / path.relative_to(odd.root)
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_bytes(path.read_bytes())
    made = Odd(tmp_path / "workspace").set_up()
    assert not made.take_in(tmp_path / "theirs").failed
    made.mirror()
    runs = folder_of(name) / "runs"
    for target in ("holds", "wavers"):
        for file in ("conversations.json", "scores.json"):
            ours, theirs = ((one / runs / target / file) for one in (made.root, odd.root))
            assert _without_settings(ours) == _without_settings(theirs)


def _without_settings(path: Path) -> object:
    def without(row: dict[str, object]) -> dict[str, object]:
        return {name: value for name, value in row.items() if name != "settings"}

    return json.loads(path.read_bytes(), object_hook=without)


def replaced(value: object, name: str, by: object) -> object:
    if isinstance(value, dict):
        return {key: by if key == name else replaced(one, name, by) for key, one in value.items()}
    return [replaced(one, name, by) for one in value] if isinstance(value, list) else value


def _copied(odd: Odd, into: Path) -> Path:
    """The files of one benchmark, without its validation runs."""
    folder = odd.root / "benchmarks" / ORIGINAL
    place = into / "benchmarks" / ORIGINAL
    shutil.copytree(folder, place, ignore=shutil.ignore_patterns("validation"))
    return place


@pytest.mark.parametrize("name", ["kind", "source", "confidence"])
def test_a_list_where_a_word_is_expected_is_left_out_alone(
    odd: Odd, tmp_path: Path, name: str
) -> None:
    """What a set is asked for must be hashable, which a list is not."""
    for path in _copied(odd, tmp_path / "theirs").rglob("*.json*"):
        text = path.read_text("utf-8")
        rows = text.strip("\n").split("\n") if path.suffix == ".jsonl" else [text]
        changed = (json.dumps(replaced(json.loads(row), name, [["x"]])) for row in rows)
        path.write_text("\n".join(changed), "utf-8")
    made = Odd(tmp_path / "workspace").set_up()
    [report] = made.take_in(tmp_path / "theirs").benchmarks
    assert report.added["conversations"] == 9


def test_a_history_that_is_not_ours_is_told_and_the_rows_come_in(odd: Odd, tmp_path: Path) -> None:
    theirs = _copied(odd, tmp_path / "theirs")
    unit = "m01_s001_v01__holds"
    lines = [
        json.dumps([1]),
        json.dumps({"what": "else"}),
        json.dumps({"conv_id": unit, "takes": [{"take": 0, "at": -1, "ended": 1 << 60}]}),
        json.dumps({"conv_id": "m9__holds", "apart": [{"transcript": [{"role": "assistant"}]}]}),
        json.dumps({"conv_id": "x", "calls": [{"stage": "lunch"}], "work": [{"state": "queued"}]}),
        "{not JSON",
    ]
    (theirs / "runs" / "holds" / "history.jsonl").write_text("\n".join(lines), "utf-8")
    made = Odd(tmp_path / "workspace").set_up()
    [report] = made.take_in(tmp_path / "theirs").benchmarks
    told = [str(problem) for file in report.files for problem in file.problems]
    assert [text.split("history.jsonl")[-1].split(":")[1] for text in told] == ["1", "2", "6", "4"]
    assert report.added["conversations"] == 8
