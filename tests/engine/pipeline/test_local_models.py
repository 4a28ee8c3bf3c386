"""Language models that Crosswind runs itself, each in a server process of its own."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from engine.config.schema import load_config
from engine.config.secrets import Environment
from engine.errors import ModelError
from engine.local_models import SMOLLM2
from engine.pipeline.models import ModelOpener
from engine.providers.accounts import Accounts
from engine.providers.local import fitness
from engine.providers.model import Message, MessageRole, Model
from engine.providers.retry import RetryPolicy
from tests.approval import approve, sentences_with
from tests.engine.commands import crosswind, crosswind_in
from tests.engine.small_workspace import Place, small_workspace
from tests.gguf_files import MODEL, write_gguf
from tests.waiting import until

STAND_IN = Path(__file__).parents[2] / "stand_in"
BARE = "  - {id: wavers, model: erratic, source: offline, params: {pace: instant}}\n"
HELLO = (Message(MessageRole.USER, "Should I sign it?"),)
pytestmark = pytest.mark.process


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Place:
    """A workspace of a benchmark, with the stand-in for xllamacpp installed."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.syspath_prepend(str(STAND_IN))
    monkeypatch.setenv("PYTHONPATH", str(STAND_IN))
    found = small_workspace(tmp_path / "ours")
    found.edit(found.config, "scenarios_per_metric: 2", "scenarios_per_metric: 1")
    found.edit(found.config, "demographics: {age: [younger, older]}\n", "")
    return found


def add(place: Place, *models: str) -> None:
    lines = [f"  - {{id: m{n}, source: local, model: {one}}}\n" for n, one in enumerate(models, 1)]
    place.edit(place.config, BARE, "".join(lines))


def pids(folder: Path) -> list[int]:
    """The processes that were started for the models in a folder."""
    path = folder / "pids"
    return list(map(int, path.read_text().split())) if path.exists() else []


def is_there(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return "State:\tZ" not in Path(f"/proc/{pid}/status").read_text()


def test_it_is_measured_as_any_other_model_and_one_server_serves_its_targets(place: Place) -> None:
    write_gguf(place.root / "small.gguf")
    add(place, "small.gguf", "./small.gguf")
    done = crosswind(place.root, "run", "--headless", "--yes", code=0)
    assert "small.gguf runs on" in done.words
    assert "30.0 tokens a second" in done.words
    scores = [*place.json("runs", "m1", "scores.json"), *place.json("runs", "m2", "scores.json")]
    assert len(scores) == 4
    assert all(score["passed"] is not None for score in scores)
    [server] = pids(place.root)
    assert not is_there(server)
    methods = " ".join(crosswind(place.root, "results", "--methods").out.split())
    assert "m1 (small.gguf)" in methods
    looked = crosswind(place.root, "doctor", "--call")
    assert "answered in" in looked.out
    assert "30.0 tokens a second" in looked.out


def test_a_result_depends_on_the_content_of_a_file_and_not_on_where_it_lies(place: Place) -> None:
    write_gguf(place.root / "small.gguf")
    add(place, "small.gguf")
    crosswind(place.root, "run", "--headless", "--yes", code=0)
    (place.root / "small.gguf").rename(place.root / "moved.gguf")
    place.edit(place.config, "model: small.gguf", "model: moved.gguf")
    assert "stale" not in crosswind(place.root, "run", "--explain").out
    write_gguf(place.root / "moved.gguf", padding=1)
    assert "stale: target changed" in crosswind(place.root, "run", "--explain").out


def opened(place: Place, accounts: Accounts) -> Model:
    opener = ModelOpener(Environment(place.root), accounts, lambda _note: None)
    return opener(load_config(place.config).targets[1])


def test_a_server_that_is_killed_is_started_again(place: Place) -> None:
    write_gguf(place.root / "small.gguf")
    add(place, "small.gguf")

    async def ask_twice() -> None:
        accounts = Accounts()
        try:
            model = opened(place, accounts)
            before = await model.reply(HELLO)
            os.kill(pids(place.root)[0], signal.SIGKILL)
            assert (await model.reply(HELLO)).text == before.text
        finally:
            await accounts.close()

    asyncio.run(ask_twice())
    first, second = pids(place.root)
    assert not is_there(first)
    assert not is_there(second)


@pytest.mark.parametrize(
    ("name", "words"),
    [
        (
            "broken.gguf",
            "broken.gguf: its server could not be started: Failed to init server, please check the "
            "input params.; it printed: E llama_model_load: tensor data is not within the file "
            "bounds",
        ),
        (
            "crashing.gguf",
            "crashing.gguf: its server could not be started: its process was killed by SIGABRT",
        ),
    ],
)
def test_a_server_that_cannot_be_started_fails_its_calls_once_for_all(
    place: Place, name: str, words: str
) -> None:
    write_gguf(place.root / name)
    add(place, name)

    async def ask() -> list[Any]:
        accounts = Accounts(retry_policy=RetryPolicy(tries=1))
        try:
            model = opened(place, accounts)
            calls = [model.reply(HELLO) for _ in range(6)]
            return await asyncio.gather(*calls, return_exceptions=True)
        finally:
            await accounts.close()

    failures = asyncio.run(ask())
    assert all(isinstance(one, ModelError) for one in failures)
    assert str(failures[0]).startswith(words)
    assert len(pids(place.root)) < len(failures)


def test_its_server_ends_with_an_engine_that_is_killed(place: Place) -> None:
    write_gguf(place.root / "small.gguf")
    add(place, "small.gguf")
    place.edit(place.config, "simulate: 8", "simulate: 1")
    place.edit(place.config, "turns: 2", "turns: 9")
    words = ["run", "--headless", "--yes", "--workspace", str(place.root)]
    with subprocess.Popen([sys.executable, "-m", "tui", *words], stderr=subprocess.DEVNULL) as run:
        until(lambda: bool(pids(place.root)))
        run.send_signal(signal.SIGKILL)
    [server] = pids(place.root)
    until(lambda: not is_there(server))


def refusal(place: Place, monkeypatch: pytest.MonkeyPatch, case: str) -> str:
    if case == "no extra":
        monkeypatch.setattr(fitness, "find_spec", lambda _name: None)
    if case == "no memory":
        monkeypatch.setattr(fitness, "free_bytes", lambda: 100_000_000)
    template = None if case == "no template" else MODEL["tokenizer.chat_template"]
    write_gguf(place.root / "m.gguf", size=4_000_000_000, **{"tokenizer.chat_template": template})
    (place.root / "text.gguf").write_text("a model")
    files = {"no file": "gone.gguf", "no GGUF": "text.gguf"}
    add(place, files.get(case, {"not got": "smollm2-135m", "name": "smollm"}.get(case, "m.gguf")))
    done = crosswind(place.root, "run", "--headless", "--yes", code=2)
    assert not (place.root / "crosswind.db").exists()
    return done.err.replace(str(place.root), "WORK").replace(str(place.root.parent), "HOME")


REFUSALS: Mapping[str, str] = {
    "no extra": "crosswind: WORK/config.yaml: a language model on this machine needs the package "
    "xllamacpp, which is not installed (pip install 'crosswind[local]', or pipx inject crosswind "
    "xllamacpp)\n",
    "no file": "crosswind: WORK/config.yaml: WORK/gone.gguf cannot be read: No such file or "
    "directory (`model` is a path from the workspace's folder to a GGUF file)\n",
    "not got": "crosswind: WORK/config.yaml: the file of `smollm2-135m` is not there: "
    "HOME/cache/crosswind/models/SmolLM2-135M-Instruct.Q4_1.gguf (`crosswind model get smollm2` "
    "gets it)\n",
    "no GGUF": "crosswind: WORK/config.yaml: WORK/text.gguf is not usable: it is no GGUF file "
    "(name a GGUF file, as llama.cpp reads it)\n",
    "no template": "crosswind: WORK/config.yaml: WORK/m.gguf has no chat template: it is a base "
    "model, which continues any text for ever (take the file of an instruct or chat model)\n",
    "no memory": "crosswind: WORK/config.yaml: WORK/m.gguf needs about 6.7 GB of memory, and "
    "0.1 GB are free (take a smaller model or quantization, or end other programs)\n",
    "name": "crosswind: WORK/config.yaml:8:36: targets[1].model: there is no local model "
    "`smollm` (write smollm2-135m, or the path of a GGUF file)\n",
}


@pytest.mark.parametrize("case", REFUSALS)
def test_one_that_cannot_be_run_is_refused_before_the_first_row(
    place: Place, monkeypatch: pytest.MonkeyPatch, case: str
) -> None:
    assert refusal(place, monkeypatch, case) == REFUSALS[case]


def test_the_demo_with_a_language_model_says_which_part_is_one(
    place: Place, tmp_path: Path
) -> None:
    write_gguf(tmp_path / "cache" / "crosswind" / "models" / SMOLLM2.file, size=SMOLLM2.size)
    done = crosswind_in(tmp_path, "demo", "--real", "--headless")
    assert done.code == 0, done.text
    root = tmp_path / "demo-real"
    assert sorted(path.name for path in (root / "benchmarks").iterdir()) == ["own-judgement"]
    assert not (root / "real.yaml").exists()
    assert "smollm2 is a small" in done.words
    approve(sentences_with(done.words, "The user model,"))
    assert "32 of 32 scored" in done.out


def test_without_its_file_the_demo_names_the_command_that_gets_it(
    place: Place, tmp_path: Path
) -> None:
    done = crosswind_in(tmp_path, "demo", "--real", "--headless")
    assert done.code == 2
    approve(done.err)
    assert not (tmp_path / "demo-real").exists()
