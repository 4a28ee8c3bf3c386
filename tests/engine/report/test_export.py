"""Exports: whole, in their place, and inert whatever models and files say."""

from __future__ import annotations

import asyncio
import csv
import io
import json
import os
import re
import signal
import socket
import sqlite3
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from typing import Final

import pytest

from engine.benchmark import ConversationKey, Speaker, StopReason, Track
from engine.files import NewFile, write_named
from engine.report.conversation import COLUMNS, cell, escaped, quoted_block
from engine.report.writing import UnfinishedFolder, refuse_taken, write_folder
from engine.store.database import open_store
from engine.store.open_reader import open_reader
from engine.store.tables import MessageRow, Quote, ScenarioRow, TakeEndRow, TakeRow, Verdict
from tests.approval import approve
from tests.engine.commands import Said, crosswind
from tests.engine.small_workspace import small_workspace
from tests.engine.store.building import scenario

HOSTILE = '=HYPERLINK("http://x")\n# Title\n```\n<script>alert(1)</script>\n| a |\n\x1b[31mred'


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A workspace with two conversations, one of them judged by two."""
    root = tmp_path / "workspace"
    small_workspace(root)
    asyncio.run(fill(root / "crosswind.db"))
    return root


async def fill(path: Path, benchmark: str = "giving-in") -> None:
    take = 0
    with open_store(path) as store:
        for name in ("m01_s001_v01", "m02_s001_v01"):
            made = scenario(name, name[:3])
            [of] = await store.write(ScenarioRow(benchmark=benchmark, scenario=made, source="file"))
            [take] = await store.write(
                TakeRow(
                    benchmark=benchmark,
                    key=ConversationKey(name, "gpt-x"),
                    number=0,
                    scenario_seq=of,
                    user_model="offline:user",
                    model="gpt-x-large",
                    scripted=True,
                )
            )
            user, target = (
                MessageRow(take=take, turn=1, speaker=speaker, text=HOSTILE, finish="stop")
                for speaker in Speaker
            )
            end = TakeEndRow(take=take, stop_reason=StopReason.TURN_LIMIT)
            await store.write(user, target, end)
        for judge, passed in (("one", True), ("two", False)):
            await store.write(
                Verdict(
                    take=take,
                    metric_id="m02",
                    track=Track.NEGATIVE,
                    judge=judge,
                    source="model",
                    number=0,
                    present=not passed,
                    passed=passed,
                    justification="-1+2",
                    quotes=(Quote("red", 1),),
                )
            )


def export(root: Path, *arguments: str, code: int = 0) -> Said:
    return crosswind(root, "export", *arguments, code=code)


def test_json_lines_hold_every_conversation_to_the_letter(root: Path) -> None:
    written = export(root, "jsonl").out
    assert written.isascii()
    first, second = map(json.loads, written.splitlines())
    assert first["conv_id"] == "m01_s001_v01__gpt-x"
    assert [said["content"] for said in first["transcript"]] == [HOSTILE, HOSTILE]
    assert (first["passed"], first["unscored"]) == (None, "not judged yet")
    assert (second["passed"], second["unscored"]) == (None, "judges are tied")
    assert [one["judge"] for one in second["verdicts"]] == ["one", "two"]
    assert first["scripted"]
    approve(first["note"])


def test_a_key_that_a_server_repeats_is_exported_in_no_form(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    key = "alert(1)</script>"  # as the server says it, in a message
    monkeypatch.setenv("MY_KEY", key)
    config = (root / "config.yaml").read_text("utf-8")
    model = "{model: m, source: ollama, extra_headers: {X-A: '${MY_KEY}'}}"
    (root / "config.yaml").write_text(f"{config}\nmodels: {{other: {model}}}\n", "utf-8")
    for form in ("jsonl", "csv", "md", "inspect-json"):
        out = tmp_path / form
        export(root, form, "--out", str(out))
        texts = [path.read_text("utf-8") for path in (out, *out.rglob("*")) if path.is_file()]
        assert not [text for text in texts if "alert(1)" in text]
        # a table has no messages, and a log no conversation that does not count
        assert any("hidden" in text for text in texts) == (form in {"jsonl", "md"})


def test_an_id_of_several_benchmarks_is_exported_of_the_named_one(root: Path) -> None:
    asyncio.run(fill(root / "crosswind.db", "other"))

    def exported(*words: str) -> list[tuple[str, str]]:
        lines = export(root, "jsonl", *words).out.splitlines()
        return [(one["benchmark"], one["conv_id"]) for one in map(json.loads, lines)]

    asked = export(root, "jsonl", "m01_s001", code=2).err
    approve(asked)
    assert exported("m01_s001", "--benchmark", "other") == [("other", "m01_s001_v01__gpt-x")]
    assert {name for name, _ in exported("--benchmark", "other")} == {"other"}
    approve(export(root, "jsonl", "giving-in", "--benchmark", "other", code=2).err)
    assert "no benchmark 'third'" in export(root, "jsonl", "--benchmark", "third", code=2).err


def test_a_table_has_a_line_for_each_verdict_and_nothing_that_runs(root: Path) -> None:
    rows = list(csv.DictReader(io.StringIO(export(root, "csv").out)))
    assert [(row["id"], row["judge"], row["verdict_passed"]) for row in rows] == [
        ("m01_s001_v01", "", ""),
        ("m02_s001_v01", "one", "true"),
        ("m02_s001_v01", "two", "false"),
    ]
    assert list(rows[0]) == COLUMNS
    assert rows[1]["justification"] == "'-1+2"


def test_a_cell_that_a_spreadsheet_would_run_is_defused() -> None:
    for text in ("=1+1", "+1", "-1", "@a", "\t=1", "  =1", "\n=1", "＝1", "＋1", "－1", "＠a"):
        assert cell(text).startswith("'")


KILLED = """
import os, sys
from pathlib import Path
from engine.report.writing import write_folder

def documents():
    yield "transcript.md", "what was said"
    os.kill(os.getpid(), 9)
    yield "never", ""

write_folder(Path(sys.argv[1]), documents())
"""


def test_what_a_killed_export_leaves_is_beside_its_folder_and_goes_with_the_next(
    tmp_path: Path,
) -> None:
    place = tmp_path / "out"
    place.mkdir()
    done = subprocess.run([sys.executable, "-c", KILLED, str(place)], check=False)
    assert done.returncode == -signal.SIGKILL
    refuse_taken(place, force=False, folder=True)
    [left] = [path for path in tmp_path.iterdir() if path != place]
    assert (left / "transcript.md").exists()

    alive = UnfinishedFolder(place)  # of a process that is at work
    assert not left.exists()
    write_folder(place, [("transcript.md", "all")])
    assert alive.path.exists()
    alive.close()
    assert [path.name for path in tmp_path.iterdir()] == ["out"]
    assert [path.name for path in place.iterdir()] == ["transcript.md"]


KILLED_FILE = """
import os, sys
from pathlib import Path
from engine.files import write_named

def pieces():
    yield "what was said"
    os.kill(os.getpid(), 9)

write_named(Path(sys.argv[1]), pieces())
"""


def test_what_a_killed_export_leaves_of_a_file_goes_with_the_next(tmp_path: Path) -> None:
    place = tmp_path / "all.csv"
    done = subprocess.run([sys.executable, "-c", KILLED_FILE, str(place)], check=False)
    assert done.returncode == -signal.SIGKILL
    refuse_taken(place, force=False, folder=False)
    [left] = tmp_path.iterdir()
    assert left.name.startswith(".all.csv.unfinished-")

    alive = NewFile(place, ["half"], ending="unfinished-1", locked=True)  # of one at work
    write_named(place, ["all"])
    assert sorted(tmp_path.iterdir()) == sorted([place, alive.path])
    alive.discard()
    assert place.read_text("utf-8") == "all"


def test_a_document_shows_foreign_text_and_nothing_in_it_acts(root: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    export(root, "md", "--out", str(out))
    path = out / "giving-in" / "m02_s001_v01__gpt-x.md"
    lines = path.read_text("utf-8").splitlines()
    assert [line for line in lines if line.startswith("#")] == [
        r"# m02\_s001\_v01\_\_gpt-x",
        "## Scenario",
        "## Conversation",
        "### Turn 1, User",
        "### Turn 1, Target",
        "## Verdicts",
        "### one, pass 1",
        "### two, pass 1",
    ]
    text = "\n".join(lines)
    assert "```" not in text
    assert re.search(r"(?<!\\)<script", text) is None
    assert "\x1b" not in text
    approve(lines)


def test_what_markdown_would_read_is_escaped() -> None:
    for text, shown in (
        ("# no title", r"\# no title"),
        ("1. no list", r"1\. no list"),
        ("    no code", "&nbsp;&nbsp;&nbsp;&nbsp;no code"),
        ("---", r"\---"),
        ("[a](http://b)", r"\[a\](http\://b)"),
        ("&lt; <b>", r"\&lt; \<b\>"),
        ("a\\b `c` *d* _e_ ~f~ $g$", r"a\\b \`c\` \*d\* \_e\_ \~f\~ \$g\$"),
    ):
        assert escaped(text) == shown
    # lines of a message stay lines, and none leaves its block
    assert quoted_block("a\nb\n\n> c") == ["> a\\", "> b", ">", r"> \> c"]
    for mark in ("\t", "\r", "\x0b", "\x1b", "\x85", "\u2028", "\u200b", "é", "👩\u200d🚀"):
        lines = quoted_block(f"before{mark}# after\n{mark}> c\n  # no")
        assert all(line == ">" or line.startswith("> ") for line in lines), lines
        assert len(lines) == len("\n".join(lines).splitlines())


def test_a_folder_of_documents_waits_for_the_disk_once(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    waited = []
    monkeypatch.setattr("os.sync", lambda: waited.append("sync"))
    monkeypatch.setattr("os.fsync", lambda descriptor: waited.append("fsync"))
    export(root, "md", "--out", str(tmp_path / "out"))
    assert waited == ["sync", "fsync"]


def test_a_folder_that_is_there_stays_as_it_was_where_an_export_fails(
    root: Path, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    export(root, "md", "--out", str(out))
    (out / "mine.txt").write_text("mine")
    for path in out.rglob("*.md"):
        path.write_text("of last week")
    before = {path: path.read_text() for path in out.rglob("*") if path.is_file()}
    with closing(sqlite3.connect(root / "crosswind.db")) as connection:
        connection.execute(
            "UPDATE message SET text = 'other' WHERE seq = (SELECT max(seq) FROM message)"
        )
        connection.commit()
    export(root, "md", "--out", str(out), "--force", code=2)
    assert {path: path.read_text() for path in out.rglob("*") if path.is_file()} == before
    assert {path.suffix for path in before} == {".md", ".txt"}


def test_a_benchmark_or_ids_can_be_named(root: Path) -> None:
    for names, found in (
        (["giving-in"], 2),
        (["m02"], 1),
        (["m01_s001_v01__gpt-x"], 1),
        (["m01_s001", "m02_s001"], 2),
    ):
        assert len(export(root, "jsonl", *names).out.splitlines()) == found
    out = root / "all.jsonl"  # an export may stand in the workspace
    export(root, "jsonl", "--out", str(out))
    assert out.read_text("utf-8").count("\n") == 2


def test_what_is_there_is_not_written_over_without_being_told_to(
    root: Path, tmp_path: Path
) -> None:
    for form in ("jsonl", "csv", "md"):
        out = tmp_path / form
        mine = out / "mine" if form == "md" else out
        mine.parent.mkdir(exist_ok=True)
        mine.write_text("mine")
        asked = [form, "--out", str(out)]
        approve(export(root, *asked, code=2).err)
        assert mine.read_text() == "mine"
        export(root, *asked, "--force")
        assert (mine.read_text("utf-8") == "mine") == (form == "md")


def test_what_cannot_be_exported_is_refused(root: Path, tmp_path: Path) -> None:
    nowhere = str(tmp_path / "no" / "where.jsonl")
    for words in (
        ("jsonl", "givingin"),
        ("md",),
        ("jsonl", "--out", nowhere),
        ("jsonl", "--out", str(tmp_path)),
        ("jsonl", "--filter", "outcome:pass"),
        ("csv", "--filter", "outcme:pass"),
        ("html", "--filter", "outcome:fail"),
        ("rates", "--overall"),
    ):
        approve(export(root, *words, code=2).err)


def test_an_export_that_fails_leaves_nothing(root: Path, tmp_path: Path) -> None:
    with closing(sqlite3.connect(root / "crosswind.db")) as connection:
        connection.execute(
            "UPDATE message SET text = 'other' WHERE seq = (SELECT max(seq) FROM message)"
        )
        connection.commit()
    for form, name in (("jsonl", "out.jsonl"), ("md", "out")):
        before = sorted(tmp_path.iterdir())
        export(root, form, "--out", str(tmp_path / name), code=2)
        assert sorted(tmp_path.iterdir()) == before


def test_no_force_puts_an_export_over_what_the_workspace_lives_on(root: Path) -> None:
    own = "benchmarks/giving-in/benchmark.yaml"
    for name in ("crosswind.db", "crosswind.db-wal", "config.yaml", own):
        place = root / name
        before = place.read_bytes() if place.exists() else None
        told = export(root, "jsonl", "--out", str(place), "--force", code=2)
        assert f"{place}: this is a place" in told.err
        assert (place.read_bytes() if place.exists() else None) == before


def write_to(root: Path, form: str, place: Path | str) -> Said:
    return crosswind(root, "export", form, "--force", "--out", str(place))


FILES: Final = ["jsonl", "rates", "html", "archive"]
"""Formats that are a single file."""


@pytest.mark.parametrize("form", FILES)
def test_what_a_person_names_is_written_through_links_pipes_and_open_files(
    form: str, root: Path, tmp_path: Path
) -> None:
    real, link, chain = (tmp_path / f"{name}.html" for name in ("real", "link", "chain"))
    link.symlink_to(chain)
    chain.symlink_to(real.name)
    # nothing there, then a file
    for _ in range(2):
        assert write_to(root, form, link).code == 0
        assert [link.is_symlink(), chain.is_symlink(), real.is_symlink()] == [True, True, False]
    whole = without_times(real.read_bytes())
    assert len(whole) > 20

    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    with ThreadPoolExecutor() as pool:
        read = pool.submit(pipe.read_bytes)
        assert (said := write_to(root, form, pipe)).code == 0
        assert without_times(read.result()) == whole
    assert pipe.is_fifo()
    assert said.out == ""  # a pipe may be stdout

    opened = tmp_path / "opened"
    with opened.open("w+b") as file:
        file.write(b"before")
        file.flush()
        assert write_to(root, form, f"/dev/fd/{file.fileno()}").code == 0
        assert without_times(opened.read_bytes()) == b"before" + whole


def without_times(page: bytes) -> bytes:
    return re.sub(rb"\d\d:\d\d", b"", page)


@pytest.mark.parametrize("form", FILES)
def test_what_is_no_file_and_no_stream_is_not_replaced(
    form: str, root: Path, tmp_path: Path
) -> None:
    loop, bound = tmp_path / "loop.html", tmp_path / "socket.html"
    loop.symlink_to(loop.name)
    with closing(socket.socket(socket.AF_UNIX)) as listening:
        listening.bind(str(bound))
        for place in (loop, bound, tmp_path / "no" / "where.html", "/dev/fd/987654"):
            said = write_to(root, form, place)
            assert (said.code, said.out) != (0, ""), said
            assert str(place).removesuffix("/where.html") in said.err
    assert [loop.is_symlink(), bound.is_socket()] == [True, True]


def test_a_filter_chooses_what_is_exported(root: Path) -> None:
    for line in ("is:uncounted", "judge:two -metric:m01 target:gpt"):
        [told] = export(root, "jsonl", "--filter", line).out.splitlines()
        assert json.loads(told)["conv_id"] == "m02_s001_v01__gpt-x"


def test_labels_are_exported_with_who_gave_them_and_how_likely_they_were_drawn(root: Path) -> None:
    async def label() -> None:
        with open_store(root / "crosswind.db") as store, closing(open_reader(store.path)) as reader:
            [take] = [
                take.seq
                for take in reader.takes("giving-in")
                if take.key.scenario_id == "m02_s001_v01"
            ]
            await store.write(
                Verdict(
                    take=take,
                    metric_id="m02",
                    track=Track.NEGATIVE,
                    judge="=ann",
                    source="human",
                    number=0,
                    present=True,
                    passed=False,
                    justification="seen",
                    quotes=(Quote("red", 1),),
                    stratum="absent",
                    inclusion=0.25,
                    confidence=3,
                )
            )

    header = export(root, "labels").out
    assert len(header.splitlines()) == 1
    asyncio.run(label())
    [row] = csv.DictReader(io.StringIO(export(root, "labels").out))
    assert {name: value for name, value in row.items() if value} == {
        "benchmark": "giving-in", "conv_id": "m02_s001_v01__gpt-x", "target": "gpt-x",
        "metric_id": "m02", "person": "'=ann", "present": "true", "passed": "false",
        "counts": "false", "justification": "seen", "replies": "1", "stratum": "absent",
        "inclusion": "0.25", "confidence": "3",
    }  # fmt: skip
