"""Logs for Inspect, read by Inspect itself, which is installed in an environment of its own, and
logs that it wrote with its mock model, taken in."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.engine.commands import command, crosswind
from tests.engine.small_workspace import CONFIG, small_workspace

INSPECT = "inspect_ai==0.3.285"
READ = """
import json, sys
from inspect_ai.analysis import evals_df, messages_df, samples_df
from inspect_ai.log import list_eval_logs, read_eval_log

found = {}
for info in list_eval_logs(sys.argv[1]):
    log = read_eval_log(info.name)
    metric = log.results.scores[0].metrics["accuracy"].value
    found[log.eval.metadata["target"]] = [log.status, len(log.samples), metric]
messages = messages_df(sys.argv[1])
print(json.dumps({
    "logs": found,
    "samples": len(samples_df(sys.argv[1])),
    "messages": len(messages),
    "roles": sorted(set(messages["role"])),
    "evals": len(evals_df(sys.argv[1])),
}))
"""
WRITE = """
import sys
import tiktoken

class Characters:
    def encode(self, text, **more):
        return list(text)

# the real one fetches its tables from elsewhere
tiktoken.get_encoding = tiktoken.encoding_for_model = lambda *names: Characters()

from inspect_ai import Task, eval
from inspect_ai.dataset import Sample
from inspect_ai.model import ChatMessageUser, ModelOutput, get_model
from inspect_ai.scorer import Score, includes, mean, scorer
from inspect_ai.solver import solver, system_message

@scorer(metrics={"*": [mean()]})
def judge():
    async def score(state, target):
        return Score(value={"polite": 0.75, "brief": float("nan")}, explanation="It was.")
    return score

@solver
def talk():
    async def solve(state, generate):
        state = await generate(state)
        state.messages.append(ChatMessageUser(content="Are you sure?"))
        return await generate(state)
    return solve

def replies():
    while True:
        yield ModelOutput.from_content("mockllm/model", "It is 2.")

eval(
    Task(
        dataset=[Sample(id=f"sum-{n}", input=f"What is {n}+1?", target=str(n + 1)) for n in (1, 2)],
        solver=[system_message("Be brief."), talk()],
        scorer=[includes(), judge()],
        name="sums",
    ),
    model=get_model("mockllm/model", custom_outputs=replies()),
    epochs=2,
    log_dir=sys.argv[1],
    log_format=sys.argv[2],
    display="none",
)
"""


@pytest.fixture(scope="module")
def python(tmp_path_factory: pytest.TempPathFactory) -> str:
    """One that has Inspect."""
    folder = tmp_path_factory.mktemp("inspect")
    found = str(folder / "bin" / "python")
    subprocess.run([sys.executable, "-m", "venv", str(folder)], check=True)
    needed = ["-m", "pip", "install", "--quiet", INSPECT, "pandas", "pyarrow"]
    subprocess.run([found, *needed], check=True)
    return found


@pytest.mark.parametrize("form", ["eval", "json"])
def test_what_inspect_wrote_comes_in_is_searched_judged_again_and_goes_out(
    form: str, python: str, tmp_path: Path
) -> None:
    logs, root = tmp_path / "logs", tmp_path / "ours"
    subprocess.run([python, "-c", WRITE, str(logs), form], check=True)
    root.mkdir()
    config = CONFIG.replace("id: holds", "id: mockllm-model").replace(
        "num_samples: 1", "num_samples: 2"
    )
    root.joinpath("config.yaml").write_text(config, "utf-8")

    def said_by(*words: str) -> str:
        return crosswind(root, *words, code=0).out

    names = [word for name in ("includes", "polite", "brief") for word in ("--metric", name)]
    said = said_by("import", *map(str, logs.iterdir()), *names)
    assert "sums: added 12 conversations, 48 messages, 6 scenarios, 12 takes, 12 verdicts" in said
    assert "sum-1.polite__mockllm-model" in said_by("search", "are you sure")
    judged = "sum-2.includes__mockllm-model"
    assert "offline:evaluator" not in said_by("show", judged)
    said_by("evaluate", judged, "--yes")
    out = said_by("show", judged)
    assert "verdict of includes" in out
    assert "verdict of offline:evaluator, counts" in out
    said_by("export", "inspect", "sums", "--out", str(tmp_path / "out"))
    words = [python, "-c", READ, str(tmp_path / "out")]
    told = subprocess.run(words, check=True, capture_output=True, text=True).stdout
    found = json.loads(told.splitlines()[-1])
    assert (found["samples"], found["messages"]) == (12, 48)


def test_inspect_reads_what_is_exported(tmp_path: Path, python: str) -> None:
    place = small_workspace(tmp_path / "ours")
    place.run()
    found = {}
    for form in ("inspect", "inspect-json"):
        logs = tmp_path / form
        where = ["--workspace", str(place.root), "--out", str(logs)]
        command("export", form, *where, code=0)
        words = [python, "-c", READ, str(logs)]
        said = subprocess.run(words, check=True, capture_output=True, text=True).stdout
        found[form] = json.loads(said.splitlines()[-1])
    assert found["inspect"] == found["inspect-json"]
    with place.reader() as reader:
        takes = reader.counting_takes("giving-in")
        said_in_all = sum(len(reader.messages(take.seq)) for take in takes)
        rates = {}
        for target in {take.key.target_id for take in takes}:
            judged = [
                reader.verdicts(take.seq)[-1].counted
                for take in takes
                if take.key.target_id == target
            ]
            rates[target] = ["success", len(judged), sum(map(bool, judged)) / len(judged)]
    assert found["inspect"] == {
        "logs": rates,
        "samples": len(takes),
        "messages": said_in_all,
        "roles": ["assistant", "user"],
        "evals": 2,
    }
