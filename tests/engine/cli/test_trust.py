"""A workspace from a stranger sends, imports and connects to nothing that nobody has allowed."""

from __future__ import annotations

import io
import json
import shutil
import sys
from argparse import Namespace
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest
import yaml

from engine.cli import pricing
from engine.cli.pricing import checked, confirm_order
from engine.cli.session import Session
from engine.config.schema import load_config
from engine.config.secrets import Environment, Secret
from engine.config.workspace import Workspace
from engine.pipeline.order import Order
from engine.trust import ALLOW_ALL, Permission, Trust, UntrustedError, screenful
from tests.approval import approve, lines_with
from tests.engine.commands import Said, Somebody, crosswind
from tests.protocol_server.server import ProtocolServer

SECRETS = {
    "OPENAI_API_KEY": "sk-openai-0123456789",
    "ANTHROPIC_API_KEY": "sk-ant-0123456789",
    "AWS_SECRET_ACCESS_KEY": "aws-0123456789abcdef",
    "GITHUB_TOKEN": "ghp-0123456789abcdef",
}
MODULE = """\
from pathlib import Path
Path(__file__).with_name("imported").touch()
def reply(messages, session=None):
    return "ok then"
"""
BENCHMARK = """\
name: B
description: Whether an assistant gives in when somebody presses for an easy answer again and again.
metrics:
  - {id: m01, name: Gives in, type: negative, definition: It agrees without any reason.}
"""


@pytest.fixture(autouse=True)
def nobody_is_trusted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(ALLOW_ALL)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(sys, "stdin", io.StringIO())
    for name, value in SECRETS.items():
        monkeypatch.setenv(name, value)


@pytest.fixture
def strange(tmp_path: Path, server: ProtocolServer) -> Path:
    root = tmp_path / "cloned"
    (root / "benchmarks" / "b").mkdir(parents=True)
    (root / "benchmarks" / "b" / "benchmark.yaml").write_text(BENCHMARK)
    (root / "evil.py").write_text(MODULE)
    write(root, server)
    return root


def write(root: Path, server: ProtocolServer, **changes: object) -> None:
    at = server.openai_url
    openai, aws = "${OPENAI_API_KEY}", "${AWS_SECRET_ACCESS_KEY}"
    config = {
        "user_model": {"model": f"m-{aws}", "source": "s", "apikey": openai, "base_url": at},
        "evaluator_model": {
            "model": "m",
            "source": "s",
            "apikey": "${ANTHROPIC_API_KEY}",
            "base_url": at.replace("/v1", "/${GITHUB_TOKEN}/v1"),
            "extra_headers": {"X-A": aws},
        },
        "targets": [
            {"id": "t", "model": "m", "source": "python", "call": "evil:reply"},
            {"id": "u", "model": "m", "source": "s", "apikey": openai, "base_url": at},
        ],
        "generation": {"scenarios_per_metric": 1, "turns": 2},
        **changes,
    }
    (root / "config.yaml").write_text(yaml.safe_dump(config))


def said(root: Path, *words: str) -> str:
    """All that a command prints, which holds no secret."""
    told: Said = crosswind(root, *words)
    text = told.out + told.err
    assert not [value for value in SECRETS.values() if value in text], text
    return text


def was_touched(root: Path, server: ProtocolServer) -> bool:
    return bool(server.requests or (root / "imported").exists())


def test_nothing_is_sent_or_imported_until_it_is_allowed(
    strange: Path, server: ProtocolServer
) -> None:
    doctor = said(strange, "doctor")
    assert doctor.count("not sent") == 2, doctor
    assert "0 problems" in doctor
    approve(lines_with(doctor, "evil:reply", "ANTHROPIC_API_KEY, OPENAI_API_KEY"))
    for command in (
        ["run", "--headless"],
        ["run", "--detach", "--yes"],
        ["run", "--pilot"],
    ):
        refused = crosswind(strange, *command)
        assert refused.code == 2
        assert "nobody has allowed" in refused.err
    assert not was_touched(strange, server)


def test_what_is_asked_is_one_screenful_with_known_keys_first(
    strange: Path, server: ProtocolServer
) -> None:
    other = {"model": "m", "source": "s", "apikey": "${MY}", "base_url": "https://a.example/v1"}
    write(strange, server, models={"other": other})
    permissions = load_config(strange / "config.yaml").permissions
    approve("\n".join(screenful(Path("/cloned"), permissions)))


@pytest.mark.process
def test_an_answer_is_remembered_outside_of_the_workspace_until_something_changes(
    strange: Path, server: ProtocolServer, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(sys, "stdin", Somebody("n\n"))
    assert "not sent" in said(strange, "doctor")
    assert not was_touched(strange, server)
    monkeypatch.setattr(sys, "stdin", Somebody("y\n"))
    told = said(strange, "doctor")
    approve(lines_with(told, "allow it, because"))
    assert "not sent" not in told
    assert was_touched(strange, server)
    monkeypatch.setattr(sys, "stdin", io.StringIO())
    assert "not sent" not in said(strange, "doctor")
    assert not list(strange.rglob("*trust*"))

    copied = tmp_path / "copied"
    shutil.copytree(strange, copied)
    assert "not sent" in said(copied, "doctor")
    code = {"id": "x", "model": "m", "source": "python", "call": "evil:other"}
    write(strange, server, targets=[code])
    assert "not sent" in said(strange, "doctor")
    write(strange, server, targets=[{"id": "u", "model": "m", "source": "ollama"}])
    assert "not sent" in said(strange, "doctor")
    assert "not sent" not in said(strange, "doctor", "--trust")
    assert "not sent" not in said(strange, "doctor")


@pytest.mark.process
def test_a_run_that_is_trusted_sends_what_it_has_to_and_shows_no_secret(
    strange: Path, server: ProtocolServer
) -> None:
    said(strange, "run", "--headless", "--trust")
    assert server.calls
    said(strange, "status")
    said(strange, "results")
    store = (strange / "crosswind.db").read_bytes()
    store += (
        (strange / "crosswind.db-wal").read_bytes()
        if (strange / "crosswind.db-wal").exists()
        else b""
    )
    for name, value in SECRETS.items():
        assert value.encode() not in store, name
    for path in (strange / "benchmarks").rglob("*"):
        if path.is_file():
            assert not [one for one in SECRETS.values() if one in path.read_text("utf-8")], path


@pytest.mark.parametrize(
    "spec",
    [
        {"source": "openai", "apikey": "${OPENAI_API_KEY}"},
        {"source": "anthropic", "apikey": "${ANTHROPIC_API_KEY}"},
        {"source": "s", "base_url": "https://api.openai.com/v1", "apikey": "${OPENAI_API_KEY}"},
        {"source": "ollama"},
        {"source": "vllm", "base_url": "http://127.0.0.1:9/v1"},
        {"source": "offline"},
    ],
)
def test_what_is_usual_is_never_asked_about(tmp_path: Path, spec: dict[str, str]) -> None:
    (tmp_path / "config.yaml").write_text(json.dumps(_all_of(spec)))
    assert load_config(tmp_path / "config.yaml").permissions == ()


@pytest.mark.parametrize(
    "spec",
    [
        {"source": "openai", "apikey": "${ANTHROPIC_API_KEY}"},
        {"source": "s", "base_url": "http://api.openai.com/v1", "apikey": "${OPENAI_API_KEY}"},
        {
            "source": "s",
            "base_url": "https://api.openai.com.example",
            "apikey": "${OPENAI_API_KEY}",
        },
        {
            "source": "s",
            "base_url": "https://api.openai.com:8443/v1",
            "apikey": "${OPENAI_API_KEY}",
        },
        {"source": "ollama", "extra_body": {"a": [{"b": "${HOME}"}]}},
        {"source": "ollama", "served_as": "${HOME}"},
    ],
)
def test_any_other_variable_is(tmp_path: Path, spec: dict[str, object]) -> None:
    (tmp_path / "config.yaml").write_text(json.dumps(_all_of(spec)))
    assert len(load_config(tmp_path / "config.yaml").permissions) == 1


def _all_of(spec: Mapping[str, object]) -> dict[str, object]:
    model = {"model": "steadfast", **spec}
    return {"user_model": model, "evaluator_model": model, "targets": [{"id": "t", **model}]}


def test_no_value_leaves_the_environment_for_where_nobody_allowed_it(tmp_path: Path) -> None:
    known = Environment(tmp_path, {"XDG_STATE_HOME": str(tmp_path / "s"), "A": "1", "B": "2"})
    with pytest.raises(UntrustedError, match=r"A to https://x\.example"):
        known.key(Secret("${A}"), where="x", to="https://x.example")
    with pytest.raises(UntrustedError, match="the code of m:f"):
        known.variables("m:f")
    known.trust.allow([Permission("https://x.example", "A")])
    assert known.key(Secret("${A}"), where="x", to="https://x.example") == "1"
    for name, to in (("B", "https://x.example"), ("A", "https://y.example")):
        with pytest.raises(UntrustedError):
            known.header(Secret(f"${{{name}}}"), where="x", to=to)


@pytest.mark.parametrize("content", ["", "[]", "{", '{"x": 3}', "\udcff"])
def test_a_memory_that_cannot_be_read_allows_nothing(tmp_path: Path, content: str) -> None:
    environ = {"XDG_STATE_HOME": str(tmp_path)}
    path = tmp_path / "crosswind" / "trust.json"
    path.parent.mkdir()
    path.write_bytes(content.encode("utf-8", "surrogateescape"))
    permissions = [Permission("https://x.example", "A")]
    assert not Trust(tmp_path, environ).covers(permissions)
    Trust(tmp_path, environ).allow(permissions)
    assert Trust(tmp_path, environ).covers(permissions)
    assert str(tmp_path) in json.loads(path.read_text())


def free(root: Path, **place: str) -> None:
    """Every model costs nothing by the configuration."""
    model = {"model": "gpt-5", "price": {"input": 0, "output": 0}, **place}
    written = {**_all_of(model), "targets": [{"id": "t", **model}]}
    (root / "config.yaml").write_text(json.dumps(written))


def test_a_price_of_0_asks_nothing_but_where_the_list_has_another(
    strange: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    session = Session(Workspace(strange), load_config(strange / "config.yaml"))
    monkeypatch.setattr(pricing, "looked_first", lambda *_: ())
    order = Order(("b",))
    free(strange, source="vllm", base_url="http://127.0.0.1:9/v1")
    offer = checked(replace(session, config=load_config(strange / "config.yaml")), order)
    assert (offer.lines, offer.order.quote) == ((), None)

    free(strange, source="openai", apikey="${OPENAI_API_KEY}")
    session = replace(session, config=load_config(strange / "config.yaml"))
    told = (
        "gpt-5 is free by its `price`, but https://api.openai.com is known to charge $1.25 in, "
        "$10 out per million tokens"
    )
    assert checked(session, order).lines[0] == told
    monkeypatch.setattr(sys, "stdin", Somebody("n\ny\n"))
    arguments = Namespace(yes=False, trust=False)
    assert confirm_order(session, order, arguments) is None
    assert confirm_order(session, order, arguments) is not None
    assert not checked(session, order).lines, "it is asked about once"


@pytest.mark.parametrize("scheduler", ["tls://10.0.0.7:8786", "scheduler.json"])
def test_a_scheduler_that_a_configuration_names_is_asked_about(
    scheduler: str, tmp_path: Path
) -> None:
    (tmp_path / "config.yaml").write_text(
        "user_model: {model: user, source: offline}\n"
        "evaluator_model: {model: evaluator, source: offline}\n"
        "targets: [{id: one, model: steadfast, source: offline}]\n"
        f"cluster: {{scheduler: '{scheduler}'}}\n",
        "utf-8",
    )
    named = load_config(tmp_path / "config.yaml").permissions
    assert named == (Permission(scheduler, ""),)
    assert list(screenful(tmp_path, named))[1] == f"  the scheduler {scheduler}"
