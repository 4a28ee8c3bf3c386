"""The documented files: complete, stable byte by byte, and never over what a person wrote."""

from __future__ import annotations

import errno
import itertools
import json
import os
import sqlite3
import threading
from collections.abc import Callable, Iterable, Sequence
from contextlib import closing
from dataclasses import replace
from functools import partial
from hashlib import blake2b
from pathlib import Path
from typing import Any

import pytest

from engine.benchmark import ConversationKey, Role, Speaker, Stage, State, StopReason, Track, Usage
from engine.errors import InputError, StoreError
from engine.files import NewFile
from engine.store.database import Store, open_store
from engine.store.mirror import (
    EditPolicy,
    Mirror,
    MirrorReport,
    MirrorSources,
)
from engine.store.mirror_content import file_difference
from engine.store.mirror_rows import HISTORY, TargetName
from engine.store.open_reader import open_reader
from engine.store.reader import Reader
from engine.store.tables import MessageRow, TakeEndRow
from tests.approval import approve
from tests.engine.store.building import (
    BENCHMARK,
    FLATTERS,
    HOLDS,
    attempt,
    key,
    message,
    play,
    run,
    scenario,
    scenario_row,
    state,
    take,
    verdict,
    write,
)

STEADY = TargetName("steady", "model-s")
OTHER = TargetName("other", "model-o")
SCORES = "runs/steady/scores.json"
CONVERSATIONS = "runs/steady/conversations.json"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "benchmarks" / BENCHMARK


def mirror(
    store: Store,
    targets: Sequence[TargetName] = (STEADY, OTHER),
    results: object | None = None,
    edits: EditPolicy = EditPolicy.LEAVE,
) -> MirrorReport:
    """As the engine does it: write the files, then remember them."""
    report = unremembered(store, targets, results, edits)
    run(store.set_kept(report.accepted))
    run(store.set_mirrored(report.digests, through=report.through))
    return report


def unremembered(
    store: Store,
    targets: Sequence[TargetName] = (STEADY, OTHER),
    results: object | None = None,
    edits: EditPolicy = EditPolicy.LEAVE,
) -> MirrorReport:
    return Mirror(store.path.parent, store.reader).write_benchmark(
        BENCHMARK,
        MirrorSources(
            metrics=[HOLDS, FLATTERS],
            targets=targets,
            results=lambda: results,
            results_made_from=repr(results),
        ),
        edits=edits,
    )


def differences(store: Store) -> list[str]:
    found = Mirror(store.path.parent, store.reader).differences(
        BENCHMARK, MirrorSources(metrics=[HOLDS, FLATTERS], targets=[STEADY, OTHER])
    )
    return list(found)


def read(path: Path) -> Any:
    return json.loads(path.read_text(encoding="utf-8"))


def tree(folder: Path) -> dict[str, bytes]:
    return {
        path.relative_to(folder).as_posix(): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file() and not path.name.startswith(".")
    }


def filled(store: Store) -> None:
    """Two scenarios, one conversation of each judged."""
    base = scenario("m01_s001", demographic={})
    [_, first, second] = write(
        store,
        scenario_row(base),
        scenario_row(scenario("m01_s001_v01", extra={"title": "Ünicode"})),
        scenario_row(scenario("m01_s001_v02")),
    )
    one = play(store, key("m01_s001_v01"), scenario_seq=first)
    two = play(store, key("m01_s001_v02"), scenario_seq=second)
    write(store, verdict(one, passed=True), verdict(two, passed=None))
    write(store, attempt("m01", Stage.GEN_SCENARIOS, target=None, role=Role.GENERATOR))
    write(store, attempt("m01_s001_v01__steady"), attempt("m01_s001_v01__steady"))


def judged_by_several(store: Store) -> None:
    """One conversation with a majority, one with judges who are tied."""
    for number, given in ((3, "yes no yes none"), (4, "yes no")):
        write(store, scenario_row(scenario(name := f"m02_s00{number}_v01", metric="m02")))
        seq = play(store, key(name))
        for judge, word in zip("abcd", given.split(), strict=False):
            passed = {"yes": True, "no": False}.get(word)
            words = {"judge": judge, "justification": f"{judge} says {word}.", "metric": "m02"}
            write(store, verdict(seq, passed, track=Track.NEGATIVE, **words))  # type: ignore[arg-type]  # all of them are texts


def played_twice(store: Store) -> None:
    """Scenarios whose first version was played, of which one was removed since; two takes, the
    first judged; samples in another order; and turns with thoughts and a cut reply."""
    name = "m01_s005_v01"
    [old] = write(store, scenario_row(scenario(name, persona="As it was.")))
    first = play(store, key(name), number=0, messages=["old?", "old."], scenario_seq=old)
    write(store, verdict(first, passed=False))
    play(store, key(name, sample=1), scenario_seq=old)
    [seq] = write(store, replace(take(key(name), number=1), scenario_seq=old))
    asked = message(seq, 1, thought="Hm.", landmark="Press.")
    reply = replace(message(seq, 1, finish="length"), speaker=Speaker.TARGET)
    write(store, asked, reply, TakeEndRow(take=seq, stop_reason=StopReason.USER_ENDED))
    write(store, scenario_row(scenario(name, persona="Edited since."), source="file"))
    write(store, scenario_row(scenario(gone := "m01_s006_v01")))
    write(store, verdict(play(store, key(gone)), passed=True))
    write(store, scenario_row(scenario(gone), removed=True))


def played_by_scripts(store: Store) -> None:
    write(store, scenario_row(scenario(name := "m01_s007_v01")))
    seq = play(store, ConversationKey(name, "other"), scripted=True)
    write(store, verdict(seq, passed=True, judge="offline:evaluator"))
    generator = {"target": None, "role": Role.GENERATOR, "model": "offline:generator"}
    write(store, attempt(name, Stage.GEN_SCENARIOS, **generator))  # type: ignore[arg-type]  # each is of its field's type
    write(store, attempt(f"{name}__other", target="other", model="offline:steadfast"))


def test_files_hold_every_row_as_documented(store: Store, folder: Path) -> None:
    filled(store)
    judged_by_several(store)
    played_twice(store)
    played_by_scripts(store)
    write(store, attempt("x", Stage.EVALUATE, usage=Usage(1, 5, 0, 6, None)))
    mirror(store, results=[{"target_model": "steady", "title": "Ünicode"}])
    for name, content in tree(folder).items():
        if not name.endswith(HISTORY):  # it holds times
            approve(f"{name}\n{content.decode()}")


def test_a_file_begins_with_its_first_row_and_rows_that_are_gone_leave_an_empty_list(
    store: Store, folder: Path
) -> None:
    write(store, scenario_row())
    files = [f"benchmarks/{BENCHMARK}/{name}" for name in ("scenarios.json", HISTORY)]
    assert list(mirror(store).written) == files
    assert sorted(tree(folder)) == [HISTORY, "scenarios.json"]
    filled(store)
    mirror(store)
    write(store, *(scenario_row(scenario(f"m01_s001_v0{n}"), removed=True) for n in (1, 2)))
    mirror(store)
    for name in ("scenarios.json", CONVERSATIONS, SCORES):
        assert (folder / name).read_text() == "[]\n"


def test_how_each_row_came_about_stands_in_a_file_of_its_own(store: Store, folder: Path) -> None:
    filled(store)
    [unfinished] = write(store, take(key("m01_s001_v02", sample=1)))
    write(store, message(unfinished, 1, text="Half of it"))
    write(store, state("m01_s001_v02__steady__s1", State.FAILED))
    mirror(store)
    lines = (folder / "runs" / "steady" / HISTORY).read_text(encoding="utf-8").splitlines()
    first, _, third = map(json.loads, lines)
    assert first["conv_id"] == "m01_s001_v01__steady"
    assert len(first["calls"]) == 2
    [played] = first["takes"]
    moments = [played["at"], *played["messages"], played["ended"], played["verdicts"][0]["at"]]
    assert moments == sorted(moments)
    assert third["conv_id"] == "m01_s001_v02__steady__s1"
    assert third["apart"][0]["transcript"] == [{"role": "user", "content": "Half of it"}]
    assert [one["reason"] for one in third["work"]] == ["it broke"]
    assert len(read(folder / CONVERSATIONS)) == 2


# Again and again


def test_the_same_results_make_the_same_bytes_however_they_came_about(tmp_path: Path) -> None:
    """One store filled at once, the other with interruptions, retries and in another order."""
    scores = []
    for name, detours in (("straight", False), ("winding", True)):
        root = tmp_path / name
        root.mkdir()
        with open_store(root / "crosswind.db") as store:
            rows = [scenario_row(scenario(f"m01_s001_v0{n}")) for n in (1, 2)]
            write(store, *(reversed(rows) if detours else rows))
            for one in ("m01_s001_v02", "m01_s001_v01") if detours else ("m01_s001_v01",):
                if detours:
                    write(store, attempt(usage=Usage(1, None, None, None, None)))
                    mirror(store)
                seq = play(store, key(one))
                write(store, verdict(seq, passed=True))
            if not detours:
                seq = play(store, key("m01_s001_v02"))
                write(store, verdict(seq, passed=True))
            mirror(store)
        scores.append((root / "benchmarks" / BENCHMARK / SCORES).read_bytes())
    assert scores[0] == scores[1]


def test_what_came_while_the_files_were_written_is_not_said_to_be_in_them(store: Store) -> None:
    filled(store)
    report = unremembered(store)
    assert report.through == store.reader.last_seq()
    write(store, scenario_row(scenario("m01_s009_v01")))
    run(store.set_mirrored(report.digests, through=report.through))
    known = store.reader.mirrored(f"benchmarks/{BENCHMARK}/scenarios.json")
    assert known is not None
    assert known.seq < store.reader.last_seq()


# What people do


@pytest.mark.parametrize("name", ["scenarios.json", CONVERSATIONS, SCORES, "results.json"])
def test_a_file_that_a_person_changed_is_left_and_ours_stands_beside_it(
    store: Store, folder: Path, name: str
) -> None:
    filled(store)
    mirror(store, results=[1])
    (folder / name).write_text("mine")
    report = mirror(store, results=[1])
    [sentence] = report.kept
    approve(sentence)
    assert (folder / name).read_text() == "mine"
    assert read(folder / f"{name}.crosswind")
    assert f"benchmarks/{BENCHMARK}/{name}" not in report.digests
    assert mirror(store, results=[1]).kept == report.kept
    (folder / name).unlink()
    assert mirror(store, results=[1]).kept == []
    assert not (folder / f"{name}.crosswind").exists()


def test_files_of_another_tool_are_left_and_what_a_killed_process_left_is_not(
    store: Store, folder: Path
) -> None:
    (folder / SCORES).parent.mkdir(parents=True)
    (folder / SCORES).write_text("[1]")
    (folder / "runs/steady/.conversations.json.tmp").write_text("half of an earlier one")
    filled(store)
    assert len(mirror(store).kept) == 1
    assert (folder / SCORES).read_text() == "[1]"
    assert not list(folder.rglob("*.tmp"))


def test_scenarios_that_were_read_after_they_were_changed_are_ours_again(
    store: Store, folder: Path
) -> None:
    filled(store)
    mirror(store)
    place = folder / "scenarios.json"
    place.write_text("[]")
    digest = blake2b(place.read_bytes(), digest_size=16).hexdigest()
    run(store.set_mirrored({f"benchmarks/{BENCHMARK}/scenarios.json": digest}))
    assert mirror(store).kept == []
    assert len(read(place)) == 2


def test_a_changed_file_is_kept_without_a_word_or_written_anew_where_that_is_asked_for(
    store: Store, folder: Path, contents: list[set[int]]
) -> None:
    filled(store)
    mirror(store)
    before = tree(folder)
    _edit(folder)
    edited = (folder / SCORES).read_bytes()
    [sentence] = mirror(store).kept
    kept = mirror(store, edits=EditPolicy.KEEP)
    assert (kept.kept, list(kept.accepted)) == ([], [f"benchmarks/{BENCHMARK}/{SCORES}"])
    assert mirror(store).kept == []
    contents.clear()
    assert f"benchmarks/{BENCHMARK}/{SCORES}" not in mirror(store).digests
    assert contents == []
    assert (folder / SCORES).read_bytes() == edited
    assert not (folder / f"{SCORES}.crosswind").exists()
    (folder / SCORES).write_text("mine, once more")
    assert mirror(store).kept == [sentence]
    overwritten = mirror(store, edits=EditPolicy.OVERWRITE).written
    assert overwritten == [f"benchmarks/{BENCHMARK}/{SCORES}"]
    assert tree(folder) == before


def test_the_difference_of_a_changed_file_is_shown_and_nothing_is_changed(
    store: Store, folder: Path
) -> None:
    filled(store)
    mirror(store)
    write(store, verdict(play(store, key("m01_s001_v01", sample=1)), passed=False))
    assert differences(store) == []  # behind, but not changed by a person
    place = folder / SCORES
    place.write_text(place.read_text().replace('"present": true', '"present": false'))
    before = tree(folder)
    name = f"benchmarks/{BENCHMARK}/{SCORES}"
    lines = differences(store)
    assert lines[0].startswith(f"--- {name}, as it is")
    assert lines[1].startswith(f"+++ {name}, as Crosswind would write it")
    assert '-    "present": false,' in lines
    assert '+    "present": true,' in lines
    assert tree(folder) == before


def test_a_difference_in_a_very_long_file_is_shown_from_where_it_begins(tmp_path: Path) -> None:
    there, ours = tmp_path / "there", tmp_path / "ours"
    lines = [f"line {number}\n" for number in range(100_000)]
    ours.write_text("".join(lines))
    there.write_text("".join(["edited\n" if n == 90_000 else x for n, x in enumerate(lines)]))
    found = list(file_difference(there, ours, "long"))
    approve(found[0])
    assert [line for line in found[2:] if line[0] in "+-"] == ["-edited", "+line 90000"]
    approve(found[-1])


# A disk without room, and damage


def test_a_file_without_room_is_said_and_left_whole_and_the_others_are_written(
    store: Store, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    filled(store)
    mirror(store)
    before = tree(folder)
    write(store, verdict(play(store, key("m01_s001_v01"), 1, messages=["a", "b"]), True))

    def new_file(path: Path, pieces: Iterable[str]) -> NewFile:
        if path == folder / CONVERSATIONS:
            raise OSError(errno.EFBIG, "File too large", str(path))
        return NewFile(path, pieces)

    monkeypatch.setattr("engine.store.mirror.NewFile", new_file)
    report = mirror(store, results=[1])
    approve(report.failed)
    assert f"benchmarks/{BENCHMARK}/results.json" in report.written
    assert (folder / CONVERSATIONS).read_bytes() == before[CONVERSATIONS]


def test_a_damaged_message_leaves_its_file_as_it_was_and_is_named(
    store: Store, folder: Path
) -> None:
    filled(store)
    mirror(store)
    before = tree(folder)
    with closing(sqlite3.connect(store.path)) as other:
        other.execute("UPDATE message SET text = 'Not what was said.' WHERE seq = 5")
        other.commit()
    write(store, state("m01_s001_v02__steady", State.DONE))
    before.pop("runs/steady/history.jsonl")
    report = mirror(store)
    [sentence] = report.failed
    approve(sentence)
    assert tree(folder).items() >= before.items()


def test_a_conversation_that_begins_while_files_are_written_waits_for_the_next_time(
    store: Store, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    filled(store)
    numbers = itertools.count(1)
    reader = open_reader(store.path)
    ask = reader.connection.all

    def and_one_is_played(sql: str, parameters: Sequence[Any] = ()) -> list[sqlite3.Row]:
        rows = ask(sql, parameters)
        # after each question, so that it lies between any two
        write(store, verdict(play(store, key(), next(numbers)), passed=True))
        return rows

    with closing(reader), monkeypatch.context() as patched:
        patched.setattr(reader.connection, "all", and_one_is_played)
        sources = MirrorSources(metrics=[HOLDS, FLATTERS], targets=[STEADY])
        Mirror(store.path.parent, reader).write_benchmark(BENCHMARK, sources)
    mirror(store)
    [first, _] = (folder / f"runs/steady/{HISTORY}").read_text("utf-8").splitlines()
    assert len(json.loads(first)["takes"]) == next(numbers)


def test_a_crash_between_writing_and_remembering_makes_no_file_foreign(
    store: Store, folder: Path
) -> None:
    filled(store)
    unremembered(store)
    write(store, verdict(play(store, key("m01_s001_v01", sample=1)), passed=False))
    report = mirror(store)
    assert report.kept == []
    assert len(read(folder / SCORES)) == 3
    mirror(store)
    assert not (folder / ".crosswind-moves").exists()


@pytest.mark.parametrize("linked", ["runs", "runs/steady"])
def test_a_run_folder_that_is_a_link_is_refused(
    store: Store, folder: Path, tmp_path: Path, linked: str
) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (folder / linked).parent.mkdir(parents=True)
    (folder / linked).symlink_to(elsewhere)
    filled(store)
    with pytest.raises(InputError, match="is a symbolic link"):
        mirror(store)
    assert list(elsewhere.iterdir()) == []


def test_a_file_that_is_a_link_is_not_written_through(
    store: Store, folder: Path, tmp_path: Path
) -> None:
    victim = tmp_path / "victim"
    victim.write_text("precious")
    folder.mkdir(parents=True)
    (folder / "scenarios.json").symlink_to(victim)
    filled(store)
    assert len(mirror(store).kept) == 1
    assert victim.read_text() == "precious"


def test_a_target_that_cannot_name_a_folder_is_refused(store: Store) -> None:
    for name in ("../up", "a/b", "", ".."):
        with pytest.raises(InputError, match="cannot name a folder"):
            mirror(store, targets=[TargetName(name, "m")])


def test_a_place_that_cannot_be_written_is_named(store: Store, folder: Path) -> None:
    folder.parent.mkdir()
    folder.write_text("a file where the folder would be")
    filled(store)
    with pytest.raises(StoreError, match=r"could not be (written|read)"):
        mirror(store)


def test_two_mirrors_at_once_leave_whole_files(store: Store, folder: Path) -> None:
    filled(store)
    threads = [threading.Thread(target=unremembered, args=(store,)) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert mirror(store).kept == []
    assert len(read(folder / CONVERSATIONS)) == 2


def test_values_of_every_kind_are_written_as_json_writes_them(store: Store, folder: Path) -> None:
    value = {
        "empty": [{}, [], "", ()],
        "numbers": [0, -1, 10**30, 0.1, 1e-9, 1e22, True, False, None],
        'text "quoted"': "back\\slash, tab\t, line\n, nul\0, del\x7f, \u2028, 😀, é, </script>",
        "deep": [[[{"a": [1, {"b": ["c"]}]}]]],
    }
    write(store, scenario_row())
    mirror(store, results=value)
    expected = json.dumps(value, indent=2, ensure_ascii=False) + "\n"
    assert (folder / "results.json").read_text(encoding="utf-8") == expected


# What is as it was


@pytest.fixture
def contents(monkeypatch: pytest.MonkeyPatch) -> list[set[int]]:
    """The takes of which what was said was read."""
    read: list[set[int]] = []
    messages_of = Reader.messages_of

    def noted(reader: Reader, takes: Iterable[int]) -> dict[int, list[MessageRow]]:
        read.append(set(takes))
        return messages_of(reader, read[-1])

    monkeypatch.setattr(Reader, "messages_of", noted)
    return read


def _times(folder: Path) -> dict[Path, int]:
    return {path: path.stat().st_mtime_ns for path in folder.rglob("[!.]*") if path.is_file()}


def test_a_mirror_of_what_is_unchanged_reads_no_conversation_and_writes_no_file(
    store: Store, folder: Path, contents: list[set[int]]
) -> None:
    filled(store)
    first = mirror(store, results=[])
    before = _times(folder)
    contents.clear()
    second = mirror(store, results=[])
    assert contents == []
    assert (second.written, second.kept) == ([], [])
    assert set(second.unchanged) == {*first.written, *first.unchanged}
    assert second.digests == first.digests
    assert _times(folder) == before
    digests = dict(first.digests)
    assert digests.pop(f"/mirrored/benchmarks/{BENCHMARK}")  # of how the folder stands
    for relative, digest in digests.items():
        content = (store.path.parent / relative).read_bytes()
        assert blake2b(content, digest_size=16).hexdigest() == digest
        known = store.reader.mirrored(relative)
        assert known is not None
        assert known.seq == store.reader.last_seq()


def _edit(folder: Path) -> None:
    """Of the same size, at the same time."""
    path = folder / SCORES
    at = path.stat()
    path.write_bytes(path.read_bytes().replace(b"steady", b"sturdy"))
    os.utime(path, ns=(at.st_atime_ns, at.st_mtime_ns))


CHANGES: dict[str, Callable[[Store, Path], object]] = {
    "a file was edited": lambda store, folder: _edit(folder),
    "a file was deleted": lambda store, folder: (folder / CONVERSATIONS).unlink(),
    "a file is there of which nothing is known": lambda store, folder: (
        folder / "results.json"
    ).write_text("{}"),
    "a row was added": lambda store, folder: write(store, attempt("m01_s001_v01__steady")),
    "a verdict was taken away": lambda store, folder: store.exclusively(
        lambda connection: connection.execute(
            "DELETE FROM verdict WHERE seq = (SELECT max(seq) FROM verdict)"
        ).close()
    ),
    "what a call used was corrected": lambda store, folder: store.exclusively(
        lambda connection: connection.execute("UPDATE attempt SET output_tokens = 1").close()
    ),
    "it was not remembered": lambda store, folder: store.exclusively(
        lambda connection: connection.execute("DELETE FROM mirrored").close()
    ),
}


def test_after_any_change_everything_is_held_against_the_store(
    store: Store, folder: Path, contents: list[set[int]]
) -> None:
    filled(store)
    mirror(store)
    for name, change in CHANGES.items():
        contents.clear()
        change(store, folder)
        mirror(store, edits=EditPolicy.KEEP)
        assert contents, name
    mirror(store)
    orders: list[dict[str, Any]] = [
        {"targets": (STEADY,)},
        {"targets": (STEADY, TargetName("other", "model-p"))},
        {"results": [1]},
        {"edits": EditPolicy.OVERWRITE},
    ]
    for given in orders:
        contents.clear()
        mirror(store, **given)
        assert contents, given


def test_results_are_worked_out_again_where_they_may_be_others(store: Store) -> None:
    filled(store)
    worked_out: list[str] = []
    for made_from in ("a", "a", "b", "b"):
        sources = MirrorSources(
            metrics=[HOLDS],
            targets=[STEADY],
            results=partial(worked_out.append, made_from),
            results_made_from=made_from,
        )
        report = Mirror(store.path.parent, store.reader).write_benchmark(BENCHMARK, sources)
        run(store.set_mirrored(report.digests, through=report.through))
    assert worked_out == ["a", "b"]
