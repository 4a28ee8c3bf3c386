"""What was imported once and is as it was is not read again; what is not as it was is."""

from __future__ import annotations

import os
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from engine.importing import importer, unchanged_files
from engine.importing.context import ImportContext
from engine.importing.rows import BenchmarkRows
from engine.store.database import open_store
from engine.store.maintenance import plan_prune, prune
from tests.approval import approve
from tests.engine.commands import crosswind
from tests.engine.importing.building import Ours, Theirs, conversation, score, transcript
from tests.engine.importing.places import make_place
from tests.engine.importing.test_import import publish, published
from tests.waiting import PATIENCE_S

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
    theirs: Theirs, ours: Ours, reads: Reads, made: Callable[[Theirs], Path]
) -> None:
    folder = made(theirs)
    first = ours.take_in(folder)
    assert reads
    reads.clear()
    with ours.reader() as reader:
        before = reader.last_seq()
    second = ours.take_in(folder)
    assert reads == []
    [one], [then] = second.benchmarks, first.benchmarks
    assert one.unchanged == len(ours.said())
    assert not one.is_new
    assert second.unknown_targets == first.unknown_targets
    assert one.targets == then.targets
    with ours.reader() as reader:
        assert reader.last_seq() == before


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


def test_our_own_files_are_not_parsed_again_either(tmp_path: Path, reads: Reads) -> None:
    place = make_place(tmp_path / "place")
    crosswind(place.root, "run", "--headless", "--yes", code=0)
    ours = Ours(make_place(tmp_path / "other").root)
    ours.take_in(place.root)
    reads.clear()
    [one] = ours.take_in(place.root).benchmarks
    assert reads == []
    assert one.unchanged == len(ours.said())


def test_the_same_files_in_another_folder_are_known(
    theirs: Theirs, ours: Ours, reads: Reads, tmp_path: Path
) -> None:
    ours.take_in(whole(theirs))
    theirs.root.rename(tmp_path / "moved")
    reads.clear()
    ours.take_in(tmp_path / "moved")
    assert reads == []


def edit(path: Path, old: str, new: str) -> None:
    """Of the same size, at the same time."""
    at, content = path.stat(), path.read_text("utf-8")
    assert old in content
    assert len(old) == len(new)
    path.write_text(content.replace(old, new), "utf-8")
    os.utime(path, ns=(at.st_atime_ns, at.st_mtime_ns))


def lead_out(path: Path) -> None:
    outside = path.parents[5] / "outside.json"
    path.rename(outside)
    path.symlink_to(outside)


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
    "a file fewer": lambda theirs, _: theirs.scores.unlink(),
    "another cached row": lambda theirs, _: theirs.write(
        theirs.root / ".cache" / "giving-in" / "gpt-x" / "m02_s001_v01__s1__gpt-x.json",
        {"transcript": transcript()},
    ),
    "a link that leads out in place of a file": lambda theirs, _: lead_out(theirs.scores),
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
    "it was forgotten": change_store("DELETE FROM mirrored"),
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_after_any_change_all_is_read_again(
    theirs: Theirs, ours: Ours, reads: Reads, change: Callable[[Theirs, Ours], object]
) -> None:
    ours.take_in(whole(theirs))
    reads.clear()
    change(theirs, ours)
    [one] = ours.take_in(theirs.root).benchmarks
    assert reads == ["giving-in"]
    assert one.unchanged is None


def test_another_version_of_the_program_reads_again(
    theirs: Theirs, ours: Ours, reads: Reads, monkeypatch: pytest.MonkeyPatch
) -> None:
    ours.take_in(whole(theirs))
    monkeypatch.setattr(unchanged_files, "program_digest", lambda: "another")
    reads.clear()
    ours.take_in(theirs.root)
    ours.take_in(theirs.root)
    assert reads == ["giving-in"]


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


def test_what_was_done_since_is_no_reason_to_read_again(
    theirs: Theirs, ours: Ours, reads: Reads
) -> None:
    ours.take_in(whole(theirs))
    before = len(ours.said())
    done = "(1000000, 1, 'giving-in', 'evaluate', 'x', NULL, NULL, 'done', NULL)"
    change_store(f"INSERT INTO state VALUES {done}")(theirs, ours)
    reads.clear()
    [one] = ours.take_in(theirs.root).benchmarks
    assert reads == []
    assert one.unchanged == before


@pytest.mark.parametrize("damaged", ["{", "[]", "7", '{"rows": 1}'])
def test_a_damaged_note_is_none(theirs: Theirs, ours: Ours, reads: Reads, damaged: str) -> None:
    ours.take_in(whole(theirs))
    with closing(sqlite3.connect(ours.root / "crosswind.db", isolation_level=None)) as connection:
        sql = "UPDATE mirrored SET digest = ? WHERE path GLOB '*imported/*'"
        assert connection.execute(sql, (damaged,)).rowcount == 1
    reads.clear()
    [report] = ours.take_in(theirs.root).benchmarks
    assert reads == [report.name]


def test_a_repair_reads_what_is_unchanged_too(tmp_path: Path, reads: Reads) -> None:
    """A row that was damaged may have kept its number."""
    place = make_place(tmp_path / "place")
    crosswind(place.root, "run", "--headless", "--yes", code=0)
    ours = Ours(place.root)
    ours.take_in(place.root)
    assert ours.take_in(place.root).benchmarks[0].unchanged is not None
    reads.clear()
    crosswind(place.root, "repair", "--yes")
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


def test_a_broken_file_is_told_each_time(theirs: Theirs, ours: Ours, reads: Reads) -> None:
    ours.take_in(whole(theirs))
    theirs.scores.write_text("[{", "utf-8")
    told = [[str(problem) for problem in _problems(ours, theirs.root)] for _ in range(2)]
    assert told[0] == told[1] != []
    assert len(reads) == 3


def _problems(ours: Ours, folder: Path) -> list[Any]:
    [one] = ours.take_in(folder).benchmarks
    return [problem for file in one.files for problem in file.problems]


def test_a_pipe_in_place_of_a_file_is_told_and_nobody_waits_for_it(
    theirs: Theirs, ours: Ours
) -> None:
    ours.take_in(whole(theirs))
    theirs.scores.unlink()
    os.mkfifo(theirs.scores)
    approve(str(_problems(ours, theirs.root)[0]))


def test_a_definition_that_was_deleted_here_is_placed_again(
    theirs: Theirs, ours: Ours, reads: Reads
) -> None:
    ours.take_in(whole(theirs))
    folder = ours.root / "benchmarks" / "giving-in"
    for name in ("benchmark.yaml", "scenarios.json"):
        (folder / name).unlink()
    reads.clear()
    placed = ours.take_in(theirs.root).placed
    assert reads == []
    assert placed == [
        "benchmarks/giving-in/benchmark.yaml",
        "benchmarks/giving-in/scenarios.json",
    ]


def test_the_draft_of_what_nobody_has_defined_is_placed_again(
    theirs: Theirs, ours: Ours, reads: Reads
) -> None:
    folder = site(theirs)
    [draft] = ours.take_in(folder).placed
    (ours.root / draft).unlink()
    reads.clear()
    assert ours.take_in(folder).placed == [draft]
    assert reads == []


def test_an_import_that_is_killed_is_not_remembered(
    theirs: Theirs, ours: Ours, reads: Reads
) -> None:
    folder = whole(theirs)
    kill = (
        "import os, signal, sys\n"
        "def killed(*_): os.kill(os.getpid(), signal.SIGKILL)\n"
        "from engine.store import bulk\n"
        "keep = bulk.keep_import\n"
        "bulk.keep_import = lambda *given, **named: (keep(*given, **named), killed())\n"
        "from engine.cli.main import main\n"
        "sys.exit(main(sys.argv[1:]))\n"
    )
    command = [sys.executable, "-c", kill, "--workspace", str(ours.root), "import", str(folder)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE_S, check=False)
    assert done.returncode == -signal.SIGKILL, done.stderr
    report = ours.take_in(folder)
    assert report.benchmarks[0].is_new
    assert reads == ["giving-in"]


def test_a_dropped_row_is_told_each_time(theirs: Theirs, ours: Ours) -> None:
    theirs.add_run([conversation(), conversation("m02_s001_v01"), 7], [score()])
    words = ("import", str(theirs.root))
    complained = crosswind(ours.root, *words, code=1).err
    for options in ([], ["--dry-run"]):
        assert crosswind(ours.root, *words, *options, code=1).err == complained


def test_a_person_and_a_script_are_told_what_is_unchanged(theirs: Theirs, ours: Ours) -> None:
    theirs.add_run([conversation(), conversation("m02_s001_v01")], [score()])
    words = ("import", str(theirs.root))
    crosswind(ours.root, *words, code=0)
    said = crosswind(ours.root, *words, code=0).out
    approve(said)
    assert '"unchanged": 2' in crosswind(ours.root, *words, "--json", code=0).out


def test_a_dry_run_is_not_remembered(theirs: Theirs, ours: Ours, reads: Reads) -> None:
    words = ("import", str(whole(theirs)))
    open_store(ours.store).close()
    crosswind(ours.root, *words, "--dry-run", code=0)
    crosswind(ours.root, *words, code=0)
    assert reads == ["giving-in"] * 2
