"""What people write over verdicts of ours, and verdicts about other metrics, come back."""

from __future__ import annotations

import asyncio
import json
import shutil
from pathlib import Path

import pytest

from engine.config.schema import load_config
from engine.config.workspace import Workspace
from engine.importing.importer import Importer
from engine.importing.report import ImportReport
from engine.importing.source import look_through
from engine.importing.takes import EDITED
from engine.pipeline.order import Order
from engine.pipeline.run import Pipeline, mirror_benchmark
from engine.store.database import open_store
from tests.engine.importing.building import Theirs, conversation, scenario, score
from tests.engine.importing.places import everything, make_place
from tests.engine.small_workspace import Place
from tests.pipelines import run_once


def take_in(place: Place, folder: Path) -> ImportReport:
    with open_store(place.store) as store:
        importer = Importer(Workspace(place.root), load_config(place.config), store.reader, store)
        return asyncio.run(importer.run(look_through(folder)))


def mirror(place: Place) -> None:
    with open_store(place.store) as store:
        config = load_config(place.config)
        pipeline = Pipeline(Workspace(place.root), config, store.reader, store)
        asyncio.run(mirror_benchmark(pipeline, "giving-in"))


@pytest.fixture(scope="module")
def played(tmp_path_factory: pytest.TempPathFactory) -> Place:
    place = make_place(tmp_path_factory.mktemp("played"))
    config = load_config(place.config)
    with open_store(place.store) as store:
        pipeline = Pipeline(Workspace(place.root), config, store.reader, store)
        asyncio.run(run_once(pipeline, Order(("giving-in",))))
    mirror(place)
    return place


def test_what_a_person_wrote_over_a_verdict_is_a_verdict_of_its_own(
    played: Place, tmp_path: Path
) -> None:
    place = make_place(tmp_path / "place")
    take_in(place, played.root)
    edited = played.copied(tmp_path / "edited")
    path = edited.root / "benchmarks" / "giving-in" / "runs" / "holds" / "scores.json"
    rows = json.loads(path.read_text("utf-8"))
    rows[0] |= {"passed": not rows[0]["passed"], "justification": "I read it myself."}
    path.write_text(json.dumps(rows), "utf-8")
    for added in ({"verdicts": 1}, {}):
        [report] = take_in(place, edited.root).benchmarks
        assert report.added == added
    judged = everything(place)["judged"]["m01_s001_v01__holds 0"]
    assert [verdict[2:4] for verdict in judged][-1] == (EDITED, "human")


def test_a_verdict_about_another_metric_comes_back_as_one(tmp_path: Path) -> None:
    place, other = make_place(tmp_path / "place"), make_place(tmp_path / "other")
    folder = Theirs(tmp_path / "theirs").folder
    folder.mkdir(parents=True)
    shutil.copy(place.root / "benchmarks" / "giving-in" / "benchmark.yaml", folder)
    theirs = Theirs(tmp_path / "theirs")
    theirs.write("scenarios.json", [scenario()])
    row = conversation(target_model="holds")
    rows = [score(target_model="holds", metric_id=metric) for metric in ("m01", "m02")]
    theirs.add_run([row], rows, target="holds")
    take_in(place, theirs.root)
    mirror(place)
    take_in(other, place.root)
    assert everything(other)["judged"] == everything(place)["judged"]
    [judged] = everything(other)["judged"].values()
    assert [verdict[0] for verdict in judged] == ["m02", "m01"]
