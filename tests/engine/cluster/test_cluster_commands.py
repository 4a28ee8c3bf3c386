"""The commands of a cluster as people run them, against Dask as it is."""

from __future__ import annotations

import gc
import json
import shutil
import socket
import ssl
from contextlib import ExitStack
from importlib.util import find_spec
from pathlib import Path

import psutil
import pytest

from engine.cli import workers as worker_options
from tests.engine.cluster.processes import ClusterProcess
from tests.engine.commands import command


def demands_a_certificate(host: str, port: int) -> bool:
    """Whether a stranger who would trust anybody is sent away."""
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    with socket.create_connection((host, port), 10) as plain:
        try:
            with context.wrap_socket(plain) as stranger:
                stranger.recv(1)
        except ssl.SSLError as error:
            return "CERTIFICATE_REQUIRED" in str(error) or "HANDSHAKE_FAILURE" in str(error)
    return False


def reached_from_outside(process: psutil.Process) -> list[tuple[str, int]]:
    return [
        (one.laddr.ip, one.laddr.port)
        for one in process.net_connections("inet4")
        if one.status == psutil.CONN_LISTEN and not one.laddr.ip.startswith("127.")
    ]


def workers(folder: Path) -> list[dict[str, object]]:
    told = command("cluster", "status", "--cluster", str(folder), "--json", code=0)
    found: list[dict[str, object]] = told.json()["workers"]
    return found


def test_a_cluster_from_its_key_to_its_end(folder: Path, tmp_path: Path) -> None:
    keys = tmp_path / "keys.env"
    keys.write_text("OPENAI_API_KEY=sk-never-shown\n", "utf-8")
    keys.chmod(0o600)
    with ExitStack() as stack:
        scheduler = stack.enter_context(ClusterProcess(folder, "scheduler", "--port", "0"))
        scheduler.until_told("scheduler at tls://")
        worker = stack.enter_context(
            ClusterProcess(
                folder, "worker", "--env", str(keys), "--name", "a", HF_TOKEN="hf-never-shown"
            )
        )
        worker.until_told("worker a makes calls")
        assert f"OPENAI_API_KEY (from {keys}); " in worker.told
        assert "HF_TOKEN" in worker.told

        [standing] = workers(folder)
        assert (standing["name"], standing["ours"], standing["usable"]) == ("a", True, True)
        open_ports = [
            port
            for one in (*scheduler.processes(), *worker.processes())
            for port in reached_from_outside(one)
        ]
        assert len(open_ports) == 3  # the scheduler, the worker, and who starts it again
        assert all(demands_a_certificate(*port) for port in open_ports)

        worker.processes()[1].kill()
        scheduler.until_told("worker a has come", 2)

        scheduler.kill()
        worker.until_told("the scheduler has gone")
        again = stack.enter_context(ClusterProcess(folder, "scheduler", "--port", "0"))
        again.until_told("worker a has come: 1 worker")

        assert worker.end() == 0
        again.until_told("worker a has gone: 0 workers")
        assert again.end() == 0
        assert not (folder / "scheduler.json").exists()
        for told in (scheduler.told, again.told, worker.told):
            assert "Traceback" not in told
            assert "distributed" not in told
            assert "never-shown" not in told


@pytest.mark.filterwarnings("ignore::ResourceWarning")
def test_each_fault_of_a_cluster_is_told_in_a_sentence(folder: Path, tmp_path: Path) -> None:
    """All against one scheduler, as it takes a second to begin. Dask leaves the sockets open that
    it could not listen on."""
    other = tmp_path / "other"
    loose = tmp_path / "loose.env"
    loose.write_text("KEY=value\n", "utf-8")
    loose.chmod(0o644)
    torn = tmp_path / "torn.env"
    torn.write_text("KEY=value\n=\n", "utf-8")
    torn.chmod(0o600)
    command("cluster", "init", "--out", str(other), code=0)
    with ClusterProcess(folder, "scheduler", "--port", "0", "--host", "127.0.0.1") as scheduler:
        scheduler.until_told("scheduler at ")
        shutil.copy(folder / "scheduler.json", other)
        address = json.loads((folder / "scheduler.json").read_text("utf-8"))["address"]
        taken = address.rpartition(":")[2]
        for words, said in [
            (["status", "--cluster", f"{tmp_path}/none"], "there is no such folder"),
            (["status", "--cluster", f"{other}"], "has another key than"),
            (["worker", "--cluster", f"{other}"], "has another key than"),
            (["scheduler", "--cluster", f"{other}", "--port", taken], f"port {taken} is taken"),
            (["scheduler", "--cluster", f"{other}", "--interface", "x0"], "'x0' is not a valid"),
            (["worker", "--cluster", f"{folder}", "--interface", "x0"], "'x0' is not a valid"),
            (["worker", "--cluster", f"{folder}", "--env", f"{loose}"], "mode is 0644"),
            (["worker", "--cluster", f"{folder}", "--env", f"{torn}"], "torn.env:2: expected NAME"),
            (["init", "--out", f"{folder}"], "is there already"),
            (["init", "--out", f"{other}", "--address", "tcp://a:1"], "is not encrypted"),
        ]:
            assert said in command("cluster", *words, code=2).words, words
    gc.collect()  # while nobody minds
    late = ["worker", "--cluster", f"{folder}", "--death-timeout", "0.1"]
    for words in (["status", "--cluster", f"{folder}"], late):
        told = command("cluster", *words, code=2)
        assert "no scheduler answers at tls://127.0.0.1" in told.err


@pytest.mark.parametrize("name", ["status", "worker", "scheduler"])
@pytest.mark.parametrize(
    ("left", "told"), [(None, "there is no such file"), (700, "damaged"), (0, "expected a key and")]
)
def test_what_is_wrong_with_the_key_is_told_where_no_scheduler_runs_either(
    name: str, left: int | None, told: str, folder: Path
) -> None:
    pem = folder / "cluster.pem"
    kept = pem.read_bytes()[:left]
    pem.write_bytes(kept) if left is not None else pem.unlink()
    said = command("cluster", name, "--cluster", str(folder), code=2).err
    assert f"{pem}: " in said
    assert told in said


def test_without_the_extra_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    missing = {"distributed": None, "cryptography": find_spec("cryptography")}
    monkeypatch.setattr(worker_options, "find_spec", missing.get)
    told = command("cluster", "status", code=2)
    assert "pip install 'crosswind[cluster]'" in told.err


def test_a_scheduler_that_cannot_write_its_file_must_have_been_named(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("os.access", lambda *_: False)
    told = command("cluster", "scheduler", "--cluster", str(folder), code=2)
    assert "cluster init --address" in told.err
