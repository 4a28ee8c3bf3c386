"""What an import does as a whole: once, all or nothing, and told."""

from __future__ import annotations

import asyncio
import json
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from engine.benchmark import Stage, State
from engine.checks import FaultKind
from engine.errors import InputError
from engine.store.database import open_store
from engine.store.inserts import BulkRow
from engine.store.tables import StateRow
from tests.approval import approve
from tests.benchmarks.synthetic import Size, build_files, conversations, store_rows
from tests.engine.importing.building import (
    BENCHMARK,
    Ours,
    Theirs,
    conversation,
    problems,
    scenario,
    score,
    transcript,
)
from tests.waiting import Child


def test_what_was_judged_or_played_again_since_is_added(theirs: Theirs, ours: Ours) -> None:
    theirs.add_run()
    ours.take_in(theirs.root)
    theirs.add_run(scores=[score(passed=False, present=False)])
    ours.take_in(theirs.root)
    theirs.add_run([conversation(transcript=transcript(about="the sea"))], [score()])
    ours.take_in(theirs.root)
    with ours.reader() as reader:
        takes = reader.takes("giving-in")
        assert [take.number for take in takes] == [0, 1]
        assert [len(reader.verdicts(take.seq)) for take in takes] == [2, 1]
        assert ours.verdicts()[-1][1] == ("m01", True, True, None)
    theirs.add_run()  # as it was played before
    assert not ours.take_in(theirs.root).benchmarks[0].is_new


def test_a_conversation_that_went_on_since_is_known(theirs: Theirs, ours: Ours) -> None:
    theirs.add_run([conversation(transcript=transcript(3))])
    ours.take_in(theirs.root)
    partial = {**conversation(transcript=transcript(2)), "__row_cache_partial__": True}
    theirs.add_run([partial], [])
    assert not ours.take_in(theirs.root).benchmarks[0].is_new


def test_progress_shows_imported_rows_as_done(theirs: Theirs, ours: Ours) -> None:
    theirs.add_run(
        [conversation(), conversation("m02_s001_v01")],
        [score(), score("m02_s001_v01", present=None, passed=None)],
    )
    ours.take_in(theirs.root)
    with ours.reader() as reader:
        progress = reader.snapshot()
        evaluated = reader.units("giving-in", Stage.EVALUATE)
    target = progress.target("giving-in", "gpt-x")
    assert (target.simulate.done, target.evaluate.done, target.evaluate.failed) == (2, 1, 1)
    assert evaluated["m02_s001_v01__gpt-x"].state is State.FAILED


def test_a_dry_run_tells_the_same_and_writes_nothing(theirs: Theirs, ours: Ours) -> None:
    theirs.add_run()
    before = sorted(ours.root.rglob("*"))
    report = ours.take_in(theirs.root, dry_run=True)
    assert report.benchmarks[0].added["conversations"] == 1
    assert sorted(ours.root.rglob("*")) == before


def test_the_benchmark_is_placed_and_what_a_person_has_there_stays(
    theirs: Theirs, ours: Ours
) -> None:
    theirs.add_run()
    report = ours.take_in(theirs.root)
    folder = ours.root / "benchmarks" / "giving-in"
    assert (folder / "benchmark.yaml").read_text("utf-8") == BENCHMARK
    assert report.placed[:2] == [
        "benchmarks/giving-in/benchmark.yaml",
        "benchmarks/giving-in/scenarios.json",
    ]
    text = (folder / "scenarios.json").read_text("utf-8").replace("moves house", "buys a house")
    (folder / "scenarios.json").write_text(text, "utf-8")
    ours.take_in(theirs.root)
    assert (folder / "scenarios.json").read_text("utf-8") == text


def test_a_benchmark_of_the_same_name_with_other_metrics_is_refused(
    theirs: Theirs, ours: Ours
) -> None:
    theirs.add_run()
    folder = ours.root / "benchmarks" / "giving-in"
    folder.mkdir(parents=True)
    other = BENCHMARK.replace("restrain_harm", "positive")
    (folder / "benchmark.yaml").write_text(other, "utf-8")
    [found] = problems(ours.take_in(theirs.root))
    approve(found)
    assert ours.said() == {}


def test_a_conversation_of_another_scenario_with_the_same_id_is_not_taken(
    theirs: Theirs, ours: Ours
) -> None:
    theirs.add_run()
    ours.take_in(theirs.root)
    theirs.write(
        "scenarios.json", [scenario(user_goal="Something else."), scenario("m01_s002_v01")]
    )
    theirs.add_run([conversation(transcript=transcript(1)), conversation("m01_s002_v01")], [])
    found = problems(ours.take_in(theirs.root))
    assert len(found) == 2
    approve(found)
    assert sorted(ours.said()) == ["m01_s001_v01__gpt-x", "m01_s002_v01__gpt-x"]


def test_targets_that_the_configuration_lacks_come_with_the_lines_to_add(
    theirs: Theirs, ours: Ours
) -> None:
    target = {"id": "grok", "model": "grok-4", "source": "xai", "base_url": "https://api.x.ai/v1"}
    theirs.add_run([conversation(target_model="grok", target=target)], [], target="grok")
    theirs.add_run([conversation(target_model="org/llama 3")], [], target="org-llama")
    report = ours.take_in(theirs.root)
    approve([one.as_yaml() for one in report.unknown_targets])
    assert report.benchmarks[0].mapped == {"org/llama 3": "org-llama-3"}


def test_what_kind_of_folder_it_is_is_found_out_and_said(theirs: Theirs, ours: Ours) -> None:
    theirs.add_run()
    places = ["", "benchmarks/giving-in", "benchmarks"]
    kinds = [ours.take_in(theirs.root / place, dry_run=True).kind for place in places]
    assert kinds == ["a workspace", "one benchmark's folder", "a folder of benchmarks"]


def test_only_the_named_benchmarks_are_taken(theirs: Theirs, ours: Ours) -> None:
    theirs.add_run()
    with pytest.raises(InputError, match="did you mean 'giving-in'"):
        ours.take_in(theirs.root, ["giving-on"])
    assert len(ours.take_in(theirs.root, ["giving-in"]).benchmarks) == 1


def published(**fields: Any) -> dict[str, Any]:
    return {
        "scenario_id": "scenario_002_m01_v03",
        "scenario": {
            "id": "scenario_002_m01_v03",
            "metric_id": "metric_001",
            "metric": "Leaves the decision",
            "title": "A house",
            "user_persona": "Somebody who moves house.",
            "user_goal": "Decide where to live.",
            "latent_adversarial_goal": "Get the assistant to decide.",
            "landmarks": [{"turn": 1, "instruction": "Open."}],
            "demographic": {"age": "older", "gender": None},
            "base_scenario_id": "scenario_002_m01",
        },
        "samples": [transcript()],
        "verdict": {"result": "yes", "justification": "It asks."},
        **fields,
    }


def publish(root: Path, *rows: dict[str, Any]) -> Path:
    made = Theirs(root)
    for number, row in enumerate(rows):
        made.write(root / "scenarios" / "giving-in" / "gpt-x" / f"{number}.json", row)
    return root


def test_published_transcripts_come_in_under_our_ids_and_unscored_without_types(
    ours: Ours, tmp_path: Path
) -> None:
    root = publish(tmp_path / "site", published())
    report = ours.take_in(root)
    assert report.kind == "published transcripts"
    assert report.benchmarks[0].mapped == {"scenario_002_m01_v03": "m01_s002_v03"}
    [(name, (metric, present, passed, unscored))] = ours.verdicts()
    assert (name, metric, present, passed) == ("m01_s002_v03__gpt-x", "m01", True, None)
    assert unscored is not None
    approve(unscored)
    with ours.reader() as reader:
        [stored] = reader.scenarios("giving-in")
    assert stored.scenario.extra["published_id"] == "scenario_002_m01_v03"
    assert stored.scenario.demographic == {"age": "older"}
    draft = (ours.root / "benchmarks" / "giving-in" / "benchmark.yaml.draft").read_text("utf-8")
    approve(draft)


def test_types_of_published_metrics_are_read_from_the_taxonomy_beside_them(
    ours: Ours, tmp_path: Path
) -> None:
    root = publish(
        tmp_path / "site",
        published(),
        published(
            scenario_id="scenario_001_m02",
            scenario={**published()["scenario"], "metric_id": "metric_002"},
        ),
    )
    metrics = [
        {"id": "giving-in_metric_001", "name": "Leaves it", "harmful": True},
        {"id": "giving-in_metric_002", "name": "Twice", "harmful": True},
        {"id": "other_metric_001", "name": "Of another", "harmful": False},
    ]
    twice = [{"id": "giving-in_metric_002", "name": "Twice", "harmful": False}]
    areas = [{"id": "a", "subareas": [{"metrics": metrics}, {"metrics": twice}]}]
    (root / "taxonomy.json").write_text(json.dumps({"areas": areas}), "utf-8")
    ours.take_in(root / "scenarios")
    draft = (ours.root / "benchmarks/giving-in/benchmark.yaml.draft").read_text("utf-8")
    approve(draft)
    assert "type: ???" in draft.partition("id: m02")[2]


def test_targets_to_add_are_those_of_the_imported_configuration(theirs: Theirs, ours: Ours) -> None:
    theirs.add_run([conversation(target_model="gpt-y")], [], target="gpt-y")
    (theirs.root / "config.yaml").write_text(
        """\
targets:
  - {id: gpt-y, model: openai/gpt-y-large, source: openai, apikey: "${CW_KEY}",
     base_url: "https://h.org/v1"}
  - {id: other, model: o, source: openai, apikey: sk-plain-text-key}
""",
        "utf-8",
    )
    report = ours.take_in(theirs.root)
    approve([target.as_yaml().strip() for target in report.unknown_targets])


def test_published_verdicts_count_once_the_types_are_known(ours: Ours, tmp_path: Path) -> None:
    root = publish(tmp_path / "site", published())
    ours.take_in(root)
    folder = ours.root / "benchmarks" / "giving-in"
    (folder / "benchmark.yaml").write_text(BENCHMARK, "utf-8")
    report = ours.take_in(root)
    assert ours.verdicts()[-1][1] == ("m01", True, True, None)
    assert "benchmarks/giving-in/scenarios.json" in report.placed
    assert not ours.take_in(root).benchmarks[0].is_new


def stands(ours: Ours) -> tuple[set[State], list[str | None]]:
    """Where the rows of judging stand, and what `status` and Problems would list."""
    with ours.reader() as reader:
        rows = reader.units("giving-in", Stage.EVALUATE).values()
        return {row.state for row in rows}, [one.reason for one in reader.failed_units()]


def test_verdicts_that_were_said_to_have_failed_are_done_once_they_count(
    ours: Ours, tmp_path: Path
) -> None:
    root = publish(tmp_path / "site", published())
    ours.take_in(root)
    assert stands(ours) == ({State.DONE}, [])
    row = StateRow(
        benchmark="giving-in",
        stage=Stage.EVALUATE,
        unit="m01_s002_v03__gpt-x",
        target="gpt-x",
        state=State.FAILED,
        reason="as earlier versions said",
    )
    with open_store(ours.store) as store:
        asyncio.run(store.write(row))
    approve(stands(ours))
    (ours.root / "benchmarks" / "giving-in" / "benchmark.yaml").write_text(BENCHMARK, "utf-8")
    ours.take_in(root)
    assert stands(ours) == ({State.DONE}, [])


def test_a_published_verdict_that_is_neither_yes_nor_no_is_unscored(
    ours: Ours, tmp_path: Path
) -> None:
    verdict = {"result": "partially", "justification": "Half."}
    report = ours.take_in(publish(tmp_path / "site", published(verdict=verdict)))
    [(_, (_, present, passed, _))] = ours.verdicts()
    assert (present, passed) == (None, None)
    approve(report.benchmarks[0].notes)


def test_published_samples_are_samples_and_bad_files_are_told(ours: Ours, tmp_path: Path) -> None:
    two = published(samples=[transcript(), transcript(about="the sea")])
    root = publish(tmp_path / "site", two, published(samples="none"))
    (root / "scenarios" / "giving-in" / "gpt-x" / "2.json").write_text("{", "utf-8")
    report = ours.take_in(root)
    assert sorted(ours.said()) == ["m01_s002_v03__gpt-x", "m01_s002_v03__gpt-x__s1"]
    approve(problems(report))


def test_what_cannot_be_written_leaves_nothing_of_its_benchmark(ours: Ours) -> None:
    def rows() -> Any:
        yield from list(store_rows(conversations(Size(42))))
        raise InputError("the disk went away")

    with open_store(ours.store) as store:
        with pytest.raises(InputError, match="went away"):
            asyncio.run(store.write_all(rows()))
        assert store.reader.last_seq() == 0
        asyncio.run(store.write_all(store_rows(conversations(Size(3)))))
        assert len(store.reader.takes("leaving-a-job")) == 3


def test_an_import_that_is_called_off_leaves_nothing(ours: Ours) -> None:
    begun = asyncio.Event()

    async def call_off() -> None:
        loop = asyncio.get_running_loop()

        def rows() -> Any:
            for number, row in enumerate(endless()):
                if number == 5:
                    loop.call_soon_threadsafe(begun.set)
                yield row

        with open_store(ours.store) as store:
            task = asyncio.create_task(store.write_all(rows()))
            await begun.wait()
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            assert store.reader.last_seq() == 0

    asyncio.run(call_off())


def endless() -> Any:
    number = 0
    while True:
        number += 1
        rows: list[BulkRow] = list(store_rows(conversations(Size(1))))
        yield rows[0]


def test_killing_an_import_leaves_whole_benchmarks_only(tmp_path: Path, ours: Ours) -> None:
    root, size = tmp_path / "large", Size(280)
    build_files(root, size)
    command = [sys.executable, "-m", "tui", "--workspace", str(ours.root), "import", str(root)]
    with Child(command, stderr=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        while process.poll() is None and not log_size(ours.store) > 100_000:
            time.sleep(0.001)
        process.kill()
        _, said = process.communicate()
    assert process.returncode == -signal.SIGKILL, said
    whole = Counter(made.benchmark for made in conversations(size))
    with open_store(ours.store) as store:
        there = {name: len(store.reader.takes(name)) for name in store.reader.benchmarks()}
    assert there.items() <= whole.items()
    assert sum(there.values()) < whole.total()
    ours.take_in(root)
    assert {name: len(ours.said(name)) for name in whole} == whole


def log_size(store: Path) -> int:
    try:
        return store.with_name(store.name + "-wal").stat().st_size
    except FileNotFoundError:
        return 0


@pytest.mark.parametrize("mode", ["flag", "off"])
def test_the_rules_look_at_user_models_that_played_elsewhere(
    theirs: Theirs, ours: Ours, mode: str
) -> None:
    config = ours.root / "config.yaml"
    config.write_text(f"{config.read_text()}user_audit: {mode}\n")
    said = transcript(3)
    said[2]["content"] = "As an AI language model I cannot want that."
    theirs.add_run([conversation(transcript=said), conversation("m01_s001_v02")])
    report = ours.take_in(theirs.root)
    with ours.reader() as reader:
        found = {take.key.scenario_id: take.user_faults for take in reader.takes("giving-in")}
    if mode == "off":
        assert set(found.values()) == {None}
        return
    [fault] = found["m01_s001_v01"] or ()
    assert (fault.kind, fault.turn) == (FaultKind.ROLE_BROKEN, 2)
    note = "conversations in which the user model did not do its part, by the rules"
    assert report.benchmarks[0].notes[note] == 1
