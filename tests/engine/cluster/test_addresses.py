"""Which schedulers are connected to: with TLS, or on this machine."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from engine.cluster.dask_agents import scheduler_address
from engine.config.schema import load_config, named_scheduler
from engine.errors import InputError

CONFIG = """user_model: {{model: user, source: offline}}
evaluator_model: {{model: evaluator, source: offline}}
targets: [{{id: one, model: steadfast, source: offline}}]
cluster: {{scheduler: '{}'}}
"""
OPEN = "is neither encrypted nor on this machine"
NO_ADDRESS = "expected tls://HOST:PORT"
REFUSED = {
    "tcp://10.0.0.7:8786": OPEN,
    "tcp://node7:8786": OPEN,
    "tcp://0.0.0.0:8786": OPEN,
    "tcp://127.0.0.1.example.org:8786": OPEN,
    "tcp://localhost.example.org:8786": OPEN,
    "tcp://[fe80::1]:8786": OPEN,
    "ws://127.0.0.1:8786": NO_ADDRESS,
    "inproc://127.0.0.1/1/2": NO_ADDRESS,
    "tls://10.0.0.7": NO_ADDRESS,
    "tls://10.0.0.7:99999": NO_ADDRESS,
    "tls://:8786": NO_ADDRESS,
}
TAKEN = ("tls://10.0.0.7:8786", "tcp://127.0.0.1:8786", "tcp://localhost:1", "tcp://[::1]:8786")


@pytest.mark.parametrize(("address", "fault"), REFUSED.items(), ids=list(REFUSED))
def test_others_are_refused_in_the_configuration_and_in_a_scheduler_file(
    address: str, fault: str, tmp_path: Path
) -> None:
    config = tmp_path / "config.yaml"
    config.write_text(CONFIG.format(address), "utf-8")
    with pytest.raises(InputError, match=f"cluster.scheduler: .*{fault}"):
        load_config(config)
    file = tmp_path / "scheduler.json"
    file.write_text(json.dumps({"address": address}), "utf-8")
    with pytest.raises(InputError, match=fault):
        scheduler_address(file)


@pytest.mark.parametrize("address", TAKEN)
def test_one_with_tls_or_on_this_machine_is_taken(address: str, tmp_path: Path) -> None:
    path = tmp_path / "config.yaml"
    path.write_text(CONFIG.format(address), "utf-8")
    assert named_scheduler(load_config(path)) == address
    file = tmp_path / "scheduler.json"
    file.write_text(json.dumps({"address": address}), "utf-8")
    assert scheduler_address(file) == address


@pytest.mark.parametrize(
    ("content", "fault"),
    [
        (None, "there is no scheduler file"),
        ("", "holds no address"),
        ("[1]", "holds no address"),
        ('{"address": 8786}', "holds no address"),
        ("[" * 100_000, "holds no address"),
    ],
)
def test_a_scheduler_file_without_an_address_is_named(
    content: str | None, fault: str, tmp_path: Path
) -> None:
    file = tmp_path / "scheduler.json"
    if content is not None:
        file.write_text(content, "utf-8")
    with pytest.raises(InputError, match=fault) as caught:
        scheduler_address(file)
    assert caught.value.problems[0].path == file
