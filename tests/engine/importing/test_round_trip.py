"""What was run here goes out into files and comes back whole."""

from __future__ import annotations

import asyncio
import json
import shutil
from pathlib import Path

import pytest

from engine.benchmark import ConversationKey, Speaker, Stage, StopReason, Track
from engine.config.schema import load_config
from engine.config.workspace import Workspace
from engine.importing.importer import Importer
from engine.importing.report import ImportReport
from engine.importing.source import look_through
from engine.importing.verdicts import EDITED
from engine.pipeline.order import Order
from engine.pipeline.run import Pipeline, mirror_benchmark
from engine.store.database import Store, open_store
from engine.store.tables import MessageRow, Quote, TakeEndRow, TakeRow, Verdict
from tests.engine.importing.building import Theirs, conversation, scenario, score
from tests.engine.importing.places import everything, make_place, mirrored_files
from tests.engine.small_workspace import Place
from tests.pipelines import run_once

AGAIN = ConversationKey("m01_s001_v01", "holds")


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
    """A run, one conversation of it played again, a person's verdict, and hard words."""
    place = make_place(tmp_path_factory.mktemp("played"))
    config = load_config(place.config)
    with open_store(place.store) as store:
        pipeline = Pipeline(Workspace(place.root), config, store.reader, store)
        asyncio.run(run_once(pipeline, Order(("giving-in",))))
        again = frozenset([AGAIN])
        stages = frozenset({Stage.SIMULATE, Stage.EVALUATE, Stage.AGGREGATE})
        pipeline = Pipeline(Workspace(place.root), config, store.reader, store)
        asyncio.run(run_once(pipeline, Order(("giving-in",), stages, again={"giving-in": again})))
        for name in ("m01_s001_v02", "m01_s002_v01"):
            asyncio.run(add_by_hand(store, ConversationKey(name, "wavers")))
    mirror(place)
    return place


async def add_by_hand(store: Store, key: ConversationKey) -> None:
    [take] = await store.write(
        TakeRow(
            benchmark="giving-in",
            key=key,
            number=1,
            scenario_seq=None,
            user_model="somebody",
            model="some model",
            scripted=False,
        )
    )
    hard = "“quoted”\n\n```\n\x1b[31mred\x00 \u2028 😀 \\u0041 </script>"
    await store.write(
        MessageRow(take=take, turn=1, speaker=Speaker.USER, text=hard, finish="stop", done=True),
        MessageRow(
            take=take,
            turn=1,
            speaker=Speaker.TARGET,
            text="",
            finish="refusal",
            reasoning="I would rather not.",
        ),
        TakeEndRow(take=take, stop_reason=StopReason.USER_ENDED, detail="of their own"),
    )
    for passed, judge, source in ((True, "judge", "model"), (False, "Ann", "human")):
        await store.write(
            Verdict(
                take=take,
                metric_id="m01",
                track=Track.POSITIVE,
                judge=judge,
                source=source,
                number=2,
                present=passed,
                passed=passed,
                justification=hard,
                quotes=(Quote("red", 1), Quote("nowhere", None)),
            )
        )


def test_the_second_store_says_what_the_first_one_says(played: Place, tmp_path: Path) -> None:
    place = make_place(tmp_path / "place")
    (place.root / "benchmarks" / "giving-in" / "benchmark.yaml").unlink()
    report = take_in(place, played.root)
    assert not report.failed
    then, now = everything(played), everything(place)
    for part, said in then.items():
        assert now[part] == said, part


def test_the_files_of_the_second_store_are_those_of_the_first_to_the_byte(
    played: Place, tmp_path: Path
) -> None:
    place = make_place(tmp_path / "place")
    take_in(place, played.root)
    mirror(place)
    assert mirrored_files(place) == mirrored_files(played)


def test_importing_our_own_files_again_adds_nothing(played: Place, tmp_path: Path) -> None:
    place = make_place(tmp_path / "place")
    take_in(place, played.root)
    report = take_in(place, played.root)
    assert [benchmark.added for benchmark in report.benchmarks if benchmark.is_new] == []
    again = played.copied(tmp_path / "again")
    assert not any(benchmark.is_new for benchmark in take_in(again, played.root).benchmarks)


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
    judged = everything(place)["judged"][f"{AGAIN} 1"]
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
