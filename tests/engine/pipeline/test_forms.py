"""How the user model is asked for messages: in JSON, or in plain text where it speaks no JSON."""

from __future__ import annotations

import asyncio
from contextlib import closing
from pathlib import Path

from engine.benchmark import AnswerForm, Stage, State
from engine.config.benchmark_file import load_definition
from engine.config.schema import ModelSpec, load_config
from engine.config.workspace import Workspace
from engine.pipeline.models import CONVERSATIONS_WITHOUT_JSON, open_offline
from engine.pipeline.order import Order
from engine.pipeline.provenance import stale_takes
from engine.pipeline.run import Pipeline
from engine.providers.model import Model
from engine.store.database import open_store
from engine.store.open_reader import open_reader
from engine.store.tables import StateRow
from tests.approval import approve
from tests.engine.commands import crosswind
from tests.engine.pipeline.test_visibility import BENCHMARK, CONFIG
from tests.models import ScriptedModel
from tests.pipelines import run_once


def run(root: Path, form: str = "") -> tuple[ScriptedModel, int]:
    """Play three conversations with a user model that writes sentences, whatever it is asked for;
    return it and how many rows failed."""
    folder = root / "benchmarks" / "shop"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "benchmark.yaml").write_text(BENCHMARK)
    write_config(root, form)
    small = ScriptedModel(lambda _: "  Is it wise to quit?\n", label="small", scripted=False)

    def opened(spec: ModelSpec) -> Model:
        return small if spec.model == "small" else open_offline(spec)

    store = open_store(root / "crosswind.db")
    try:
        config = load_config(root / "config.yaml")
        pipeline = Pipeline(Workspace(root), config, store.reader, store, opener=opened)
        result = asyncio.run(run_once(pipeline, Order(("shop",))))
    finally:
        store.close()
    return small, result.failed


def write_config(root: Path, form: str) -> None:
    user = f"{{model: small, source: mine, base_url: 'http://127.0.0.1:9/v1'{form}}}"
    text = CONFIG.replace("LANDMARKS", "true").replace("simulate: 8", "simulate: 1")
    text = text.replace("num_samples: 1", "num_samples: 3").replace("young-canary, ", "")
    old = "{model: user, source: offline, params: {pace: instant}}"
    (root / "config.yaml").write_text(text.replace(old, user, 1))


def forms(root: Path) -> list[tuple[int, AnswerForm, int]]:
    """Number, form and messages of each take."""
    with closing(open_reader(root / "crosswind.db")) as reader:
        takes = reader.takes("shop")
        return [(take.number, take.form, len(reader.messages(take.seq))) for take in takes]


def stale(root: Path) -> set[str]:
    config = load_config(root / "config.yaml")
    definition = load_definition(root / "benchmarks" / "shop" / "benchmark.yaml")
    with closing(open_reader(root / "crosswind.db")) as reader:
        return {
            name for why in stale_takes(definition, config, reader).values() for name in why.take
        }


def test_a_user_model_without_json_plays_whole_conversations_in_plain_text(tmp_path: Path) -> None:
    small, failed = run(tmp_path)
    json, plain = AnswerForm.JSON, AnswerForm.PLAIN
    fifth = (0, plain, 6)
    assert failed == 0
    assert forms(tmp_path) == [(0, json, 0), (1, plain, 6), (0, json, 0), (1, plain, 6), fifth]
    with_schema = [schema for schema in small.schemas if schema]
    assert len(with_schema) == 3 * CONVERSATIONS_WITHOUT_JSON


def test_what_was_played_in_another_form_than_the_configured_one_is_stale(tmp_path: Path) -> None:
    run(tmp_path, ", form: plain")
    assert [form for _, form, _ in forms(tmp_path)] == [AnswerForm.PLAIN] * 3
    changed = {}
    for form in (", form: plain", "", ", form: json"):
        write_config(tmp_path, form)
        changed[form] = stale(tmp_path)
    assert changed == {", form: plain": set(), "": set(), ", form: json": {"prompt", "form"}}


def test_a_configured_form_is_kept_to(tmp_path: Path) -> None:
    _, failed = run(tmp_path, ", form: json")
    assert failed == 3
    assert forms(tmp_path) == [(0, AnswerForm.JSON, 0)] * 3


def test_in_plain_text_it_is_told_this_turns_landmark_in_few_words(tmp_path: Path) -> None:
    small, _ = run(tmp_path, ", form: plain")
    for turn, messages in enumerate(small.asked[:3], 1):
        system, _, *rest = messages
        assert f"message number {turn} of at most 3" in system.text
        assert [message.role for message in rest] == ["assistant", "user"] * (turn - 1)
        assert "Definition canary" not in system.text


def test_the_last_answer_that_could_not_be_used_is_kept_and_shown(tmp_path: Path) -> None:
    run(tmp_path, ", form: json")
    unit = "m01_s001_v01__held"
    shown = crosswind(tmp_path, "show", unit).out.partition(f"{unit} · shop · simulate")
    fault = "it was not one JSON object (there is none in it)"
    approve(shown[1] + shown[2])
    [failed] = crosswind(tmp_path, "show", unit, "--json").json()["failed"]
    answer = {"role": "user", "model": "small", "fault": fault, "answer": "  Is it wise to quit?\n"}
    assert failed["unusable_answers"] == [answer]


def test_a_row_of_work_that_failed_before_it_became_anything_is_shown(tmp_path: Path) -> None:
    run(tmp_path, ", form: plain")
    store = open_store(tmp_path / "crosswind.db")
    unit = "m01_s009_v02"
    store.tell(
        StateRow(
            benchmark="shop",
            stage=Stage.GEN_SCENARIOS,
            unit=unit,
            target=None,
            state=State.FAILED,
            reason="the answer was cut",
        )
    )
    store.close()
    approve(crosswind(tmp_path, "show", unit).out)
    assert crosswind(tmp_path, "show", unit, "--json").json()["kind"] == "row"
