"""What was imported once and is as it was is not read again; what is not as it was is."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from engine.errors import StoreError
from engine.importing import importer, known_rows
from engine.importing.context import ImportContext
from engine.importing.rows import BenchmarkRows
from engine.store.database import open_store
from engine.store.imports import keep_import
from engine.store.maintenance import plan_prune, prune
from tests.approval import approve
from tests.engine.commands import crosswind
from tests.engine.importing.building import Ours, Theirs, conversation, score, transcript
from tests.engine.importing.test_import import publish, published

Reads = list[str]


@pytest.fixture
def reads(monkeypatch: pytest.MonkeyPatch) -> Reads:
    """The benchmarks whose files were parsed."""
    found: Reads = []

    class Noted(BenchmarkRows):
        def __init__(self, setting: ImportContext) -> None:
            found.append(setting.name)
            super().__init__(setting)

    monkeypatch.setattr(importer, "BenchmarkRows", Noted)
    return found


def whole(theirs: Theirs) -> Path:
    """A workspace with one of each kind of file."""
    theirs.add_run()
    theirs.write("cost.json", {"gen_scenarios": {"cost": 1.0, "input_tokens": 9}})
    theirs.write("runs/gpt-x/cost.json", {"simulate": {"cost": 2.0, "input_tokens": 900}})
    name = "m02_s001_v01__s0__gpt-x.json"
    theirs.write(
        theirs.root / ".cache" / "giving-in" / "gpt-x" / name, {"transcript": transcript()}
    )
    return theirs.root


def site(theirs: Theirs) -> Path:
    return publish(theirs.root.with_name("site"), published(), published(samples=[]))


KINDS: dict[str, Callable[[Theirs], Path]] = {"a workspace": whole, "published": site}


@pytest.mark.parametrize("made", KINDS.values(), ids=KINDS)
def test_what_is_unchanged_is_not_parsed_and_nothing_is_added(
    theirs: Theirs, ours: Ours, reads: Reads, tmp_path: Path, made: Callable[[Theirs], Path]
) -> None:
    """Wherever its folder is, whatever was done since, and with the files that make it a
    benchmark, which somebody deleted here."""
    folder = made(theirs)
    first = ours.take_in(folder)
    assert reads == ["giving-in"]
    done = "(1000000, 1, 'giving-in', 'evaluate', 'x', NULL, NULL, 'done', NULL)"
    change_store(f"INSERT INTO state VALUES {done}")(theirs, ours)
    for path in first.placed:
        (ours.root / path).unlink()
    with ours.reader() as reader:
        before = reader.last_seq()
    second = ours.take_in(folder.rename(tmp_path / "moved"))
    assert reads == ["giving-in"]
    [one], [then] = second.benchmarks, first.benchmarks
    assert one.unchanged == len(ours.said())
    assert not one.is_new
    assert second.unknown_targets == first.unknown_targets
    assert second.placed == first.placed
    assert one.targets == then.targets
    with ours.reader() as reader:
        assert reader.last_seq() == before


def edit(path: Path, old: str, new: str) -> None:
    """Of the same size, at the same time."""
    at, content = path.stat(), path.read_text("utf-8")
    assert old in content
    assert len(old) == len(new)
    path.write_text(content.replace(old, new), "utf-8")
    os.utime(path, ns=(at.st_atime_ns, at.st_mtime_ns))


def change_store(sql: str) -> Callable[[Theirs, Ours], object]:
    def change(_: Theirs, ours: Ours) -> None:
        with closing(sqlite3.connect(ours.store)) as connection:
            assert connection.execute(sql).rowcount > 0
            connection.commit()

    return change


CHANGES: dict[str, Callable[[Theirs, Ours], object]] = {
    "a word, within the size and time of its file": lambda theirs, _: edit(
        theirs.scores, "It asks.", "It begs."
    ),
    "another target's folder": lambda theirs, _: theirs.add_run([], [], target="grok"),
    "another cached row": lambda theirs, _: theirs.write(
        theirs.root / ".cache" / "giving-in" / "gpt-x" / "m02_s001_v01__s1__gpt-x.json",
        {"transcript": transcript()},
    ),
    "results are there": lambda theirs, _: theirs.write("results.json", {}),
    "which model is behind a target": lambda theirs, _: (theirs.root / "config.yaml").write_text(
        "targets: [{id: gpt-x, model: other}]"
    ),
    "what a metric is here": lambda _, ours: edit(
        ours.root / "benchmarks" / "giving-in" / "benchmark.yaml", "flattery", "flatters"
    ),
    "scenarios that a person edited here": lambda _, ours: edit(
        ours.root / "benchmarks" / "giving-in" / "scenarios.json", "older", "other"
    ),
    "whose verdicts count": lambda _, ours: (ours.root / "config.yaml").write_text(
        (ours.root / "config.yaml")
        .read_text("utf-8")
        .replace("model: evaluator", "model: evaluator-strict")
    ),
    "a verdict was lost": change_store("DELETE FROM verdict"),
    "a call was lost": change_store("DELETE FROM attempt"),
    "what a call used was corrected": change_store("UPDATE attempt SET input_tokens = 1"),
    **{
        f"its note is {damaged}": change_store(
            f"UPDATE mirrored SET digest = '{damaged}' WHERE path GLOB '*imported/*'"
        )
        for damaged in ("{", "[]", "7", '{"rows": 1}')
    },
    "it was forgotten": change_store("DELETE FROM mirrored WHERE path GLOB '*imported/*'"),
    "a file fewer": lambda theirs, _: theirs.scores.unlink(),
}


def test_after_any_change_all_is_read_again(
    theirs: Theirs, ours: Ours, reads: Reads, monkeypatch: pytest.MonkeyPatch
) -> None:
    ours.take_in(whole(theirs))
    for name, change in CHANGES.items():
        reads.clear()
        change(theirs, ours)
        [one] = ours.take_in(theirs.root).benchmarks
        assert (reads, one.unchanged) == (["giving-in"], None), name
        ours.take_in(theirs.root)
        assert reads == ["giving-in"], name
    monkeypatch.setattr(known_rows, "program_digest", lambda: "another")
    ours.take_in(theirs.root)
    assert reads == ["giving-in"] * 2


def test_a_published_file_more_fewer_or_edited_is_taken(
    theirs: Theirs, ours: Ours, reads: Reads
) -> None:
    folder = site(theirs)
    ours.take_in(folder)
    reads.clear()
    model = folder / "scenarios" / "giving-in" / "gpt-x"
    edit(model / "0.json", "the house", "the rouse")
    assert ours.take_in(folder).benchmarks[0].added["takes"] == 1
    (model / "1.json").unlink()
    assert not ours.take_in(folder).benchmarks[0].is_new
    publish(folder, published(scenario_id="scenario_002_m01_v04"))
    assert ours.take_in(folder).benchmarks[0].is_new
    assert reads == ["giving-in"] * 3


def test_what_a_person_pruned_comes_back(theirs: Theirs, ours: Ours, reads: Reads) -> None:
    theirs.add_run()
    first = theirs.conversations.read_bytes()
    ours.take_in(theirs.root)
    theirs.add_run([conversation(transcript=transcript(about="the sea"))])
    ours.take_in(theirs.root)
    theirs.conversations.write_bytes(first)
    ours.take_in(theirs.root)
    with open_store(ours.store) as store:
        prune(store, plan_prune(store.reader, None))
        assert len(store.reader.takes("giving-in")) == 1
    reads.clear()
    assert ours.take_in(theirs.root).benchmarks[0].is_new
    assert reads


def test_verdicts_that_wait_for_their_conversation_are_looked_at_each_time(
    theirs: Theirs, ours: Ours, tmp_path: Path
) -> None:
    other = Theirs(tmp_path / "other")
    other.add_run(scores=[])
    theirs.add_run([])
    for _ in range(2):
        assert ours.take_in(theirs.root).failed
    ours.take_in(other.root)
    assert ours.take_in(theirs.root).benchmarks[0].added["verdicts"] == 1


def _cut_off(path: Path) -> None:
    path.write_text("[{", "utf-8")


def _pipe(path: Path) -> None:
    path.unlink()
    os.mkfifo(path)


def _lead_out(path: Path) -> None:
    path.unlink()
    outside = path.parents[5] / "outside.json"
    outside.write_text("[]", "utf-8")
    path.symlink_to(outside)


def test_a_fault_is_told_each_time_and_nobody_waits_for_a_pipe(
    theirs: Theirs, ours: Ours, reads: Reads
) -> None:
    ours.take_in(whole(theirs))
    for fault in (_cut_off, _pipe, _lead_out):
        fault(theirs.scores)
        reads.clear()
        told = [[str(problem) for problem in _problems(ours, theirs.root)] for _ in range(2)]
        assert told[0] == told[1]
        approve(told[0][0])
        assert len(reads) == 2


def _problems(ours: Ours, folder: Path) -> list[Any]:
    [one] = ours.take_in(folder).benchmarks
    return [problem for file in one.files for problem in file.problems]


def test_a_folder_that_became_a_link_that_leads_out_is_read_and_refused(
    theirs: Theirs, ours: Ours, reads: Reads, tmp_path: Path
) -> None:
    folder = site(theirs)
    ours.take_in(folder)
    reads.clear()
    model = folder / "scenarios" / "giving-in" / "gpt-x"
    model.rename(tmp_path / "elsewhere")
    model.symlink_to(tmp_path / "elsewhere")
    [one] = ours.take_in(folder).benchmarks
    assert reads == ["giving-in"]
    approve(str(one.files[0].problems[0]))


def test_an_import_that_does_not_end_is_not_remembered(
    theirs: Theirs, ours: Ours, reads: Reads, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = whole(theirs)

    def ended(*given: Any, **named: Any) -> None:
        keep_import(*given, **named)
        raise StoreError("the disk went away")

    with monkeypatch.context() as patched:
        patched.setattr("engine.store.inserts.keep_import", ended)
        with pytest.raises(StoreError, match="went away"):
            ours.take_in(folder)
    assert ours.take_in(folder).benchmarks[0].is_new
    assert reads == ["giving-in"] * 2


def test_a_person_and_a_script_are_told_what_is_unchanged_and_what_was_dropped(
    theirs: Theirs, ours: Ours, reads: Reads
) -> None:
    theirs.add_run([conversation(), conversation("m02_s001_v01")], [score()])
    words = ("import", str(theirs.root))
    open_store(ours.store).close()
    crosswind(ours.root, *words, "--dry-run", code=0)
    crosswind(ours.root, *words, code=0)
    assert reads == ["giving-in"] * 2, "a dry run is not remembered"
    approve(crosswind(ours.root, *words, code=0).out)
    assert '"unchanged": 2' in crosswind(ours.root, *words, "--json", code=0).out
    theirs.add_run([conversation(), conversation("m02_s001_v01"), 7], [score()])
    complained = crosswind(ours.root, *words, code=1).err
    for options in ([], ["--dry-run"]):
        assert crosswind(ours.root, *words, *options, code=1).err == complained
