"""Logs for Inspect, read by Inspect itself, which is installed in an environment of its own."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

from engine.cli.main import main
from tests.engine.small_workspace import small_workspace

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


def test_inspect_reads_what_is_exported(tmp_path: Path) -> None:
    place = small_workspace(tmp_path / "ours")
    place.run()
    python = tmp_path / "venv" / "bin" / "python"
    subprocess.run([sys.executable, "-m", "venv", str(tmp_path / "venv")], check=True)
    needed = ["-m", "pip", "install", "--quiet", INSPECT, "pandas", "pyarrow"]
    subprocess.run([str(python), *needed], check=True)
    found = {}
    for form in ("inspect", "inspect-json"):
        logs = tmp_path / form
        where = ["--workspace", str(place.root), "--out", str(logs)]
        assert main(["export", "--format", form, *where]) == 0
        words = [str(python), "-c", READ, str(logs)]
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
