"""What would fail every call is found before the first: exit 2, and nothing is spent."""

from __future__ import annotations

import socket
import sys
import threading
from collections.abc import Sequence
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from engine.cli.pricing import checked
from engine.cli.session import Session
from engine.config.schema import load_config
from engine.config.workspace import Workspace
from engine.doctor.examination import DoctorOptions, examine
from engine.doctor.findings import Effect
from engine.doctor.reachability import is_listed, model_names
from engine.pipeline.order import Order
from engine.providers.http.connector import system_trust
from engine.store.lock import hold_workspace
from tests.approval import approve
from tests.engine.commands import Said, Somebody, crosswind
from tests.engine.wire.hostile import answer, hostile
from tests.engine.wire.workplace import CANARY, VARIABLES, Workplace, metric, scenario
from tests.protocol_server.server import ProtocolServer
from tests.protocol_server.settings import Settings


@pytest.fixture
def place(server: ProtocolServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Workplace:
    for name, value in VARIABLES.items():
        monkeypatch.setenv(name, value)
    place = Workplace(tmp_path / "ours", server)
    configure(place)
    place.define("bread", "About bread.", [metric(1, "Honest.")])
    place.stage("bread", [scenario(1)])
    return place


def configure(place: Workplace, **target: str) -> None:
    place.configure([{"id": "good", **place.model("steadfast"), **target}], turns=1)


def run(place: Workplace, *more: str, code: int | None = 0) -> Said:
    return crosswind(place.root, "run", "--headless", "--plain", "--yes", *more, code=code)


def noted(place: Workplace) -> Sequence[str]:
    """What is said before a run that may begin."""
    session = Session(Workspace(place.root), load_config(place.root / "config.yaml"))
    return checked(session, Order(("bread",), force=True)).notes


def test_a_refused_key_stops_the_run_before_anything_is_spent(place: Workplace) -> None:
    place.server.settings = Settings(key="sk-another")
    said = run(place, code=2).err
    approve(said)
    assert CANARY[:5] not in said
    assert place.server.counters.by_role == {}
    assert not (place.root / "crosswind.db").exists()


@pytest.mark.parametrize(
    "words", [("run", "--force"), ("validate", "bread", "--replay", "user")], ids=" ".join
)
def test_a_plan_says_which_variable_would_stop_the_run(
    place: Workplace, monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...]
) -> None:
    targets = [{"id": name, **place.model("steadfast")} for name in ("one", "other")]
    place.configure(targets, turns=1)
    run(place)
    assert "stop the run" not in crosswind(place.root, *words, "--dry-run", code=0).err
    monkeypatch.delenv("CANARY_KEY")
    said = crosswind(place.root, *words, "--dry-run", code=2)
    approve(said.err)
    assert "all together: " in said.out
    assert "CANARY_KEY" in crosswind(place.root, *words, "--yes", code=2).err


def test_a_gateway_that_refuses_a_key_with_a_400_stops_the_run_as_well(place: Workplace) -> None:
    place.server.settings = Settings(key="sk-another", is_gateway=True)
    refusal = "refuses the key CANARY_KEY (400), and says: No connected db."
    assert refusal in run(place, code=2).err
    assert place.server.counters.by_role == {}
    assert refusal in crosswind(place.root, "doctor", code=1).out


def test_a_refused_key_is_told_from_one_that_may_not_list(place: Workplace) -> None:
    scopes = b"You have insufficient permissions. Missing scopes: api.model.read"
    for status, words, effect in (
        (401, b"Incorrect API key provided", Effect.STOPS),
        (403, b"Invalid API key", Effect.STOPS),
        (403, b"Forbidden", Effect.NONE),
        (403, b"Missing scopes: api.model.read", Effect.NONE),
        (401, scopes, Effect.NONE),
    ):
        refusal = answer(b'{"error": {"message": "%b"}}' % words, b"", status)
        with hostile([refusal]) as [url]:
            configure(place, base_url=url)
            asked = DoctorOptions(place.root, named=True)
            [found] = [one for one in examine(asked) if one.subject == urlsplit(url).netloc]
        assert found.effect is effect, words


def test_a_model_that_a_whole_list_does_not_have_stops_a_run_and_is_found_by_doctor(
    place: Workplace, monkeypatch: pytest.MonkeyPatch
) -> None:
    configure(place, model="words-7")
    host = place.server.origin.removeprefix("http://")
    monkeypatch.setattr("engine.doctor.reachability.COMPLETE", {host})
    refusal = "has no model 'words-7' for this key"
    assert f"{host}: {refusal}" in run(place, code=2).err
    assert refusal in crosswind(place.root, "doctor", code=1).out


UNIT = "m01_s001_v01__good"


def test_nobody_is_asked_for_a_price_and_refused_then(
    place: Workplace, monkeypatch: pytest.MonkeyPatch
) -> None:
    two = [{"id": name, **place.model("steadfast")} for name in ("good", "another")]
    place.configure(two, turns=1)
    run(place)
    before = dict(place.server.counters.by_role)
    place.server.settings = Settings(key="sk-another")
    place.stage("bread", [{**scenario(1), "id": f"m01_s00{n}_v01"} for n in (1, 2)])
    refused = []
    for words in (
        ["run", "--headless"],
        ["evaluate", UNIT],
        ["simulate", UNIT],
        ["validate", "bread", "--swap", "user", "--with", "good"],
    ):
        monkeypatch.setattr(sys, "stdin", Somebody("y\n" * 5))
        refused.append(crosswind(place.root, *words, code=2).err)
    # so is an order to an engine at work
    with hold_workspace(place.root):
        refused.append(crosswind(place.root, "evaluate", UNIT, "--yes", code=2).err)
    approve("\n".join(refused))
    assert place.server.counters.by_role == before


def test_whoever_cannot_begin_since_an_engine_is_at_work_is_told_before_the_price(
    place: Workplace, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "stdin", Somebody("y\n" * 5))
    with hold_workspace(place.root):
        said = crosswind(place.root, "run", "--headless", code=4).err
    assert "is being worked" in said
    assert "all together" not in said


def test_everything_that_is_missing_is_told_at_once_and_only_what_is_needed(
    place: Workplace, monkeypatch: pytest.MonkeyPatch
) -> None:
    place.configure(
        [{"id": "good", **place.model("steadfast", apikey="${NOT_THERE_1}")}],
        turns=1,
        evaluator_model=place.model("evaluator", apikey="${NOT_THERE_2}"),
        generator_model=place.model("generator", apikey="${NOT_NEEDED}"),
    )
    said = run(place, code=2).err
    approve(said)
    assert place.server.counters.by_role == {}
    monkeypatch.setenv("NOT_THERE_1", CANARY)
    monkeypatch.setenv("NOT_THERE_2", CANARY)
    place.stage("bread", [{**scenario(1), "id": f"m01_s00{n}_v01"} for n in (1, 2)])
    run(place)


def test_certificates_that_cannot_be_read_are_told_with_their_variable(
    place: Workplace, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", "/nowhere/certificates.pem")
    system_trust.cache_clear()
    configure(place, base_url="https://127.0.0.1:1/v1")
    said = run(place, code=2).err
    assert "SSL_CERT_FILE is /nowhere/certificates.pem" in said
    assert "unset it" in said
    assert place.server.counters.by_role == {}


def test_a_server_that_is_not_there_and_a_name_that_is_not_listed_are_only_told(
    place: Workplace,
) -> None:
    configure(place, model="words-7")
    said = run(place).err
    approve(said)

    configure(place, base_url="http://127.0.0.1:1/v1", model="another")
    [warning] = noted(place)
    approve(warning)


def test_a_server_that_speaks_no_tls_is_not_waited_for(place: Workplace) -> None:
    with HTTPServer(("127.0.0.1", 0), BaseHTTPRequestHandler) as plain:
        thread = threading.Thread(target=plain.serve_forever, args=[0.01])
        thread.start()
        try:
            configure(place, base_url=f"https://127.0.0.1:{plain.server_port}/v1")
            told = run(place, code=None)
        finally:
            plain.shutdown()
            thread.join()
    said = told.err
    assert "not agree on TLS" in said
    assert "; every call fails" in said
    assert "a run waits" not in said


@pytest.mark.parametrize(
    ("scheme", "what"), [("http", "does not answer"), ("https", "does not answer TLS")]
)
def test_a_server_that_accepts_connections_and_is_silent_is_not_said_to_be_out_of_reach(
    place: Workplace, monkeypatch: pytest.MonkeyPatch, scheme: str, what: str
) -> None:
    monkeypatch.setattr("engine.doctor.preflight.LONGEST_S", 1)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        host = f"127.0.0.1:{silent.getsockname()[1]}"
        configure(place, base_url=f"{scheme}://{host}/v1")
        [warning] = noted(place)
    expected = f"{host}: accepts connections but {what} within 1 s; a run tries it again"
    assert warning == expected


def test_what_does_not_speak_http_is_not_said_to_be_waited_for(place: Workplace) -> None:
    with hostile([b"SSH-2.0-OpenSSH_9.2p1\r\n\r\n"]) as [url]:
        configure(place, base_url=url)
        [warning] = noted(place)
    host = url.removeprefix("http://").removesuffix("/0")
    assert warning.startswith(f"{host}: ")
    assert "HTTP" in warning


def test_a_name_that_a_list_may_mean_is_not_refused() -> None:
    known = {"gpt-4o", "claude-sonnet", "llama3:latest", "qwen/qwen3", "models/gemini-pro"}
    meant = """gpt-4o gpt-4o-2024-08-06 claude-sonnet-latest claude-sonnet-20250514 llama3
    ft:gpt-4o:us::x qwen/qwen3 qwen/qwen3:free gemini-pro"""
    assert [name for name in meant.split() if not is_listed(name, known)] == []
    assert not is_listed("gpt-4x", known)
    assert not is_listed("claude", known)
    # one that may not be whole says nothing of what there is
    for body in (
        *(b"", b"no json", b"[]", b'{"data": 3}', b'{"data": [7, {"id": null}]}'),
        *(b'{"data": [{"id": "a"}], "has_more": true}', b'{"data": [{"id": "openai/*"}]}'),
    ):
        assert model_names(body) == frozenset()
