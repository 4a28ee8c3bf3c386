"""The store as other programs find it: its views, and what Datasette makes of them."""

from __future__ import annotations

import json
import re
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
import yaml

from engine.benchmark import base_id
from engine.store.browsing import Browser
from tests.approval import approve
from tests.engine.small_workspace import Place, small_workspace
from tests.waiting import PATIENCE_S, until

VIEWS = ("conversations", "pass_rates", "transcripts", "verdicts_that_count")
DOCS = Path(__file__).parents[3] / "docs"
METADATA = DOCS / "datasette.yaml"


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Place:
    """One of whose conversations was played twice."""
    found = small_workspace(tmp_path_factory.mktemp("store"))
    found.edit(found.config, "num_samples: 1", "num_samples: 2")
    found.run()
    with found.reader() as reader:
        key = reader.counting_takes("giving-in")[0].key
    found.run(again={"giving-in": frozenset({key})})
    return found


def read(place: Place, view: str) -> list[dict[str, Any]]:
    with closing(sqlite3.connect(place.root / "crosswind.db")) as store:
        store.row_factory = sqlite3.Row
        return [dict(row) for row in store.execute(f"SELECT * FROM {view}")]


def test_the_views_say_what_the_program_says(place: Place) -> None:
    conversations = {row["take"]: row for row in read(place, "conversations")}
    verdicts = {row["take"]: row for row in read(place, "verdicts_that_count")}
    with place.reader() as reader:
        takes = reader.counting_takes("giving-in")
        browser = Browser(reader)
        shown = browser.rows(list(browser.find().takes))
        said = {take.seq: reader.messages(take.seq) for take in takes}
    assert conversations.keys() == verdicts.keys() == {take.seq for take in takes} == shown.keys()
    for take in takes:
        row = conversations[take.seq]
        assert row["conversation"] == str(take.key)
        assert row["base_scenario"] == base_id(take.key.scenario_id)
        assert row["turns"] == len(said[take.seq]) / 2
        assert json.loads(row["person"]) == shown[take.seq].who
    for seq, row in verdicts.items():
        given = shown[seq].verdict
        outcome = {True: "pass", False: "fail", None: "unscored"}[given.passed]
        said_of_it = given.metric_id, given.track.value, given.judge, given.justification
        assert (
            tuple(row[name] for name in ("metric", "track", "judge", "justification")) == said_of_it
        )
        assert row["outcome"] == outcome
    for row in read(place, "pass_rates"):
        mine = [
            verdict["passed"]
            for verdict in verdicts.values()
            if (verdict["target"], verdict["metric"]) == (row["target"], row["metric"])
        ]
        assert (row["passed"], row["scored"]) == (sum(mine), len(mine))
        assert row["pass_rate"] == sum(mine) / len(mine)
    texts = [(row["take"], row["turn"], row["text"]) for row in read(place, "transcripts")]
    assert sorted(texts) == sorted(
        (seq, message.turn, message.text) for seq, of in said.items() for message in of
    )


def test_every_table_column_and_query_that_is_described_is_there(place: Place) -> None:
    [told] = described()["databases"].values()
    with closing(sqlite3.connect(place.root / "crosswind.db")) as store:
        named = {name for (name,) in store.execute("SELECT name FROM sqlite_schema")}
        for name, of in told["tables"].items():
            columns = {row[1] for row in store.execute(f"PRAGMA table_info({name})")}
            assert {*of.get("columns", ()), *of.get("units", ())} <= columns, name
        assert {*told["tables"]} <= named
        visible = {"table", "view"}
        kinds = store.execute("SELECT name, type FROM sqlite_schema").fetchall()
        tables = {name for name, kind in kinds if kind in visible and not name.startswith("sqlite")}
        assert tables == {*told["tables"]}
        for query in told["queries"].values():
            store.execute(query["sql"]).fetchall()


def described() -> Any:
    return yaml.safe_load(METADATA.read_text("utf-8"))


@contextmanager
def datasette(root: Path) -> Iterator[httpx.Client]:
    """The real one, on a socket of its own."""
    socket = root / "d.sock"
    words = ["crosswind.db", "--metadata", str(METADATA), "--uds", str(socket)]
    server = subprocess.Popen(
        [sys.executable, "-m", "datasette", "serve", *words],
        cwd=root,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        until(lambda: socket.exists() or server.poll() is not None)
        assert server.poll() is None, server.returncode
        transport = httpx.HTTPTransport(uds=str(socket), retries=5)
        with httpx.Client(
            transport=transport, base_url="http://datasette", timeout=PATIENCE_S
        ) as client:
            yield client
    finally:
        server.kill()
        server.wait()


@pytest.mark.process
def test_datasette_shows_it_and_answers_every_query(place: Place) -> None:
    told = described()
    with datasette(place.root) as client:
        front = client.get("/crosswind").text
        for view in VIEWS:
            assert f'href="/crosswind/{view}"' in front
            page = client.get(f"/crosswind/{view}").text
            assert told["databases"]["crosswind"]["tables"][view]["title"] in page
            found = client.get(f"/crosswind/{view}.json", params={"_shape": "objects"})
            assert len(found.json()["rows"]) == min(100, len(read(place, view)))
        for name, query in told["databases"]["crosswind"]["queries"].items():
            answer = client.get(f"/crosswind/{name}.json", params={"_shape": "objects"}).json()
            assert answer["ok"], answer
            assert answer["rows"], name
            assert query["title"] in front


def test_the_recipe_for_pandas_does_what_it_says(
    place: Place, capsys: pytest.CaptureFixture[str]
) -> None:
    [recipe] = re.findall(r"```python\n(.*?)```", (DOCS / "store.md").read_text("utf-8"), re.DOTALL)
    exec(recipe.replace('"study"', repr(str(place.root))), {})
    said = capsys.readouterr().out
    approve(said)
