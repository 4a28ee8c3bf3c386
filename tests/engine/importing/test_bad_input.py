"""Files that are broken in every way: each says where and what, and all else comes in."""

from __future__ import annotations

import json
import os
import random
import re
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from engine.errors import InputError
from engine.importing import source
from engine.importing.source import (
    _DECODER,
    _QUICK_DECODER,
    Source,
    SourceFiles,
    read_object,
    read_rows,
)
from tests.approval import approve
from tests.engine.importing.building import (
    Ours,
    Theirs,
    conversation,
    problems,
    scenario,
    score,
    transcript,
)

GOOD = json.dumps([conversation(), conversation("m02_s001_v01")], indent=2)


def cut(text: str) -> bytes:
    return text[: text.rindex('"content"')].encode()


@pytest.mark.parametrize(
    ("content", "said", "taken"),
    [
        (b"  \n\n", "conversations.json: is empty; expected JSON", 0),
        (b'{"a": 1}', "expected a JSON array, [...], found an object", 0),
        (b"[ ", "this is not JSON: expecting value (was the file cut off?)", 0),
        (cut(GOOD), "(was the file cut off?)", 1),
        (b'[{"id": "\xc3', "the file ends in the middle of a character (was the file cut off", 0),
        (GOOD.encode("utf-16"), "this is UTF-16, expected UTF-8 (save the file as UTF-8)", 0),
        (
            GOOD.replace("the house at turn 2", "l'été").encode("latin-1"),
            "byte 0xe9 is not UTF-8 (save the file as UTF-8)",
            0,
        ),
        (b"\xef\xbb\xbf" + GOOD.encode(), "", 2),
        (GOOD.encode() + b"]", "this is not JSON: extra data", 2),
        (GOOD.replace("0.5", "NaN", 1).encode(), "NaN is not JSON; expected a number or null", 0),
        (b"[" * 200_000, "values are nested more than 50 deep", 0),
        (GOOD.encode("utf-16-be"), "this is UTF-16, expected UTF-8 (save the file as UTF-8)", 0),
        (b"[" + b"9" * 5000 + b"]", "a number", 0),
        (GOOD.encode().replace(b'"id"', b"id", 1), "this is not JSON: expecting property name", 0),
    ],
)
def test_a_broken_file_says_where_and_the_rows_before_that_come_in(
    content: bytes, said: str, taken: int, theirs: Theirs, ours: Ours
) -> None:
    theirs.add_run([], [])
    theirs.conversations.write_bytes(content)
    report = ours.take_in(theirs.root)
    found = problems(report)
    assert bool(found) == bool(said)
    if said:
        assert len(found) == 1
        assert said in found[0]
        assert found[0].startswith("conversations.json")
    assert len(ours.said()) == taken
    assert report.failed == bool(said)


BAD_ROWS: list[tuple[object, str]] = [
    (7, "expected an object, {...}, found the number 7"),
    (None, "expected an object, {...}, found null"),
    (conversation(id=None), ".id: expected an id, found null"),
    (conversation("../../evil"), ".id: '../../evil' cannot be an id"),
    (conversation("a__b"), "cannot be an id: a name must not contain '..' or '__'"),
    (conversation(target_model="../x"), ".target_model: '../x' cannot be a target's name"),
    (conversation(target_model="/etc"), ".target_model: '/etc' cannot be a target's name"),
    (conversation(_sample=-1), "._sample: expected the number of a sample"),
    (conversation(_sample=True), "._sample: expected the number of a sample, found true"),
    (conversation(transcript="hi"), ".transcript: expected a list of messages"),
    (conversation(transcript=[7]), ".transcript[0]: expected {role, content}, found the"),
    (
        conversation(transcript=transcript()[1:]),
        ".transcript[0].role: expected the role 'user', found the text 'assistant'",
    ),
    (
        conversation(transcript=[{"role": "user", "content": {"a": 1}}]),
        ".transcript[0].content: expected a text or null, found an object",
    ),
    (
        conversation(extra=json.loads("[" * 60 + "]" * 60)),
        ": values are nested more than 50 deep",
    ),
]


def test_a_bad_row_is_dropped_with_its_place_and_the_next_comes_in(
    theirs: Theirs, ours: Ours
) -> None:
    theirs.add_run([*(row for row, _ in BAD_ROWS), conversation("m02_s001_v01")], [])
    report = ours.take_in(theirs.root)
    for index, (found, (_, said)) in enumerate(zip(problems(report), BAD_ROWS, strict=True)):
        assert re.match(rf"conversations\.json:\d+: \[{index}\]", found)
        assert said in found
    assert list(ours.said()) == ["m02_s001_v01__gpt-x"]
    assert report.failed


def test_the_line_of_a_bad_row_is_where_it_begins(theirs: Theirs, ours: Ours) -> None:
    theirs.add_run([conversation(), 7], [])
    lines = theirs.conversations.read_text("utf-8").splitlines()
    line = lines.index("  7") + 1
    [problem] = problems(ours.take_in(theirs.root))
    assert problem.startswith(f"conversations.json:{line}: ")
    approve(problem)


def test_a_conversation_that_is_there_twice_is_taken_once(theirs: Theirs, ours: Ours) -> None:
    other = conversation(transcript=transcript(about="the sea"))
    theirs.add_run([conversation(), conversation(), other], [score()])
    report = ours.take_in(theirs.root)
    approve(ours.said()["m01_s001_v01__gpt-x"][0])
    [found] = problems(report)
    approve(found)
    [one] = report.benchmarks
    approve(one.notes)


def test_a_scenario_that_our_reader_refuses_is_told_precisely(theirs: Theirs, ours: Ours) -> None:
    rows = [scenario(), scenario("m03_s001_v01"), scenario("m02_s001_v01", landmarks=[{"turn": 0}])]
    theirs.write("scenarios.json", rows)
    report = ours.take_in(theirs.root)
    approve(problems(report))
    with ours.reader() as reader:
        assert [row.scenario.id for row in reader.scenarios("giving-in")] == ["m01_s001_v01"]


def test_a_benchmark_that_our_loader_refuses_is_left_out_and_others_come_in(
    theirs: Theirs, ours: Ours
) -> None:
    theirs.add_run()
    other = theirs.root / "benchmarks" / "other"
    other.mkdir()
    (other / "benchmark.yaml").write_text("name: Other\nmetrics: [{id: m01, type: sideways}]\n")
    report = ours.take_in(theirs.root)
    assert any("sideways" in text for text in problems(report))
    assert not (ours.root / "benchmarks" / "other").exists()
    assert len(ours.said()) == 1


@pytest.mark.parametrize("where", ["conversations", "scores"])
def test_a_link_that_leads_out_of_the_folder_is_not_read(
    where: str, theirs: Theirs, ours: Ours, tmp_path: Path
) -> None:
    theirs.add_run()
    path = theirs.conversations if where == "conversations" else theirs.scores
    secret = tmp_path / "elsewhere.json"
    path.rename(secret)
    path.symlink_to(secret)
    report = ours.take_in(theirs.root)
    approve(problems(report))
    assert (len(ours.said()), len(ours.verdicts())) == (
        (0, 0) if where == "conversations" else (1, 0)
    )


def test_a_definition_that_is_a_link_to_elsewhere_is_not_read(
    theirs: Theirs, ours: Ours, tmp_path: Path
) -> None:
    theirs.add_run()
    (theirs.folder / "benchmark.yaml").rename(tmp_path / "elsewhere.yaml")
    (theirs.folder / "benchmark.yaml").symlink_to(tmp_path / "elsewhere.yaml")
    [found] = problems(ours.take_in(theirs.root))
    approve(found)
    assert ours.said() == {}


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda path: None, "there is no such folder"),
        (lambda path: path.mkdir(), "there is nothing to import here"),
        (lambda path: path.write_text("x"), "expected a folder, found a file"),
    ],
)
def test_what_holds_nothing_to_import_is_refused(
    make: Callable[[Path], None], said: str, ours: Ours, tmp_path: Path
) -> None:
    make(tmp_path / "nothing")
    with pytest.raises(InputError, match=said):
        ours.take_in(tmp_path / "nothing")


def test_a_file_without_permission_is_told(theirs: Theirs, ours: Ours) -> None:
    theirs.add_run()
    theirs.conversations.chmod(0)
    if os.access(theirs.conversations, os.R_OK):
        pytest.skip("this user may read everything")
    found = problems(ours.take_in(theirs.root))
    assert any(text.startswith("conversations.json: cannot be") for text in found)


def to_itself(path: Path) -> None:
    path.symlink_to(path.name)


def to_nothing(path: Path) -> None:
    path.symlink_to("gone.json")


@pytest.mark.parametrize(
    ("put", "said"),
    [
        (Path.mkdir, "expected a file, found a folder"),
        (os.mkfifo, "expected a file, found a pipe or a device"),
        (to_itself, "this is a link that leads back to itself; it was not read"),
        (to_nothing, "this is a link to a file that is not there; it was not read"),
    ],
)
def test_what_is_no_file_is_told_and_nobody_waits_for_it(
    put: Callable[[Path], None], said: str, theirs: Theirs, ours: Ours
) -> None:
    theirs.add_run()
    for path in (theirs.conversations, theirs.scores, theirs.folder / "scenarios.json"):
        path.unlink()
        put(path)
    found = problems(ours.take_in(theirs.root))
    assert len(found) == 3
    assert all(said in text for text in found)


def test_a_pipe_among_published_files_is_not_waited_for(ours: Ours, tmp_path: Path) -> None:
    folder = tmp_path / "site" / "scenarios" / "giving-in" / "some-model"
    folder.mkdir(parents=True)
    os.mkfifo(folder / "a.json")
    with pytest.raises(InputError, match="there is nothing to import here"):
        ours.take_in(tmp_path / "site")


def test_rows_know_their_lines_by_either_decoder(tmp_path: Path) -> None:
    path = tmp_path / "rows.json"
    for said in ("é", "\\ud800"):
        raw = f'[\n {{"a":\n 1}}, 2,\n\n "é\\n{said}"\n]'.encode()
        rows = list(read_rows(path, raw))
        assert [row.value for row in rows][:2] == [{"a": 1}, 2]
        assert [(row.index, row.line) for row in rows] == [(0, 2), (1, 3), (2, 5)]


def test_rows_before_a_fault_are_read_once(tmp_path: Path) -> None:
    rows = read_rows(tmp_path / "rows.json", b'[1,\n"two",\n"\xe9"]')
    assert [next(rows).value, next(rows).value] == [1, "two"]
    with pytest.raises(InputError, match=r"rows.json:3: byte 0xe9 is not UTF-8"):
        next(rows)


def test_many_bad_rows_are_told_as_a_few_and_a_number(theirs: Theirs, ours: Ours) -> None:
    theirs.add_run([7] * 100, [])
    report = ours.take_in(theirs.root)
    assert len(problems(report)) == 20
    assert report.benchmarks[0].dropped == 100


def read_by(root: Path) -> Callable[[Path], bytes]:
    return SourceFiles(Source("theirs", root, published=False), root).read


def test_in_a_folder_that_is_known_each_link_is_still_looked_at(tmp_path: Path) -> None:
    root = tmp_path / "theirs"
    root.mkdir()
    (tmp_path / "elsewhere.json").write_text("{}")
    (root / "good.json").write_text("{}")
    (root / "out.json").symlink_to(tmp_path / "elsewhere.json")
    (root / "folder.json").mkdir()
    (root / "in.json").symlink_to(root / "good.json")
    read = read_by(root)
    for _ in range(2):
        assert read(root / "good.json") == read(root / "in.json") == b"{}"
        with pytest.raises(InputError, match="leads out of the folder"):
            read(root / "out.json")
        with pytest.raises(InputError, match="expected a file, found a folder"):
            read(root / "folder.json")


def test_a_file_in_a_folder_that_leads_out_is_refused_every_time(tmp_path: Path) -> None:
    root, elsewhere = tmp_path / "theirs", tmp_path / "elsewhere"
    root.mkdir()
    elsewhere.mkdir()
    (elsewhere / "good.json").write_text("{}")
    (root / "model").symlink_to(elsewhere)
    read = read_by(root)
    for _ in range(2):
        with pytest.raises(InputError, match="leads out of the folder"):
            read(root / "model" / "good.json")


def test_a_file_that_is_too_large_is_not_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(source, "LARGEST", 1 << 20)
    (tmp_path / "one.json").write_bytes(b" " * ((1 << 20) + 1))
    with pytest.raises(InputError, match=r"one.json: cannot be read: it has more than 1 MB"):
        read_by(tmp_path)(tmp_path / "one.json")


def test_a_broken_small_file_says_where(tmp_path: Path) -> None:
    for content, said in (
        (b" \n", "one.json: is empty; expected JSON"),
        ('{"a": 1}'.encode("utf-16"), "this is UTF-16, expected UTF-8 (save the file as UTF-8)"),
        (b'{"a":\n"\xe9"}', "one.json:2: byte 0xe9 is not UTF-8 (save the file as UTF-8)"),
        (b'{"a": 1', "(was the file cut off?)"),
        (b'{"a": NaN}', "NaN is not JSON"),
        (b'{"a":' * 100_000, "values are nested"),
    ):
        with pytest.raises(InputError) as told:
            read_object(tmp_path / "one.json", content)
        assert said in str(told.value)


def test_what_the_quick_decoder_takes_is_the_same_to_the_other_one() -> None:
    said = b'"\xc3\xa9": "\\u00e9\\ud83d\\ude00\\n \\""'
    good = b'[1, -2.5e-3, {"k": null, ' + said + b', "": true}, [[]], "\xe2\x80\xa8"]'
    chance, taken = random.Random(1), 0
    for _ in range(5_000):
        mutant = bytearray(good)
        for _ in range(chance.randint(1, 3)):
            at = chance.randrange(len(mutant))
            mutant[at : at + chance.randint(0, 1)] = chance.choice(
                b'{}[]",:\\u019eE.+-nN \n\0\x80'
            ).to_bytes()
        try:
            quick = _QUICK_DECODER.decode(mutant)
        except (msgspec.DecodeError, UnicodeDecodeError):
            continue
        taken += 1
        assert repr(_DECODER.decode(mutant.decode("utf-8"))) == repr(quick), mutant
    assert taken > 300
