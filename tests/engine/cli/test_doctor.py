"""The doctor says what is wrong and what to do, changes nothing, and shows no key."""

from __future__ import annotations

import json
import re
import resource
import socket
import sqlite3
import threading
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest

from engine.cli.doctor import report
from engine.config.schema import load_config
from engine.config.secrets import Environment
from engine.doctor.examination import DoctorOptions, examine
from engine.doctor.findings import Area, Diagnostic, Severity, exit_code
from engine.doctor.models import model_findings, models_in_use
from engine.doctor.store import store_findings
from engine.doctor.system import Terminal, colours, system_findings, terminal_findings
from engine.providers.failures import Cause, Failure
from engine.providers.http.connector import system_trust
from engine.providers.http.pool import ConnectionPool
from engine.providers.http.transport import RESERVED, ConnectionFailedError
from engine.store.database import create_store, open_store
from engine.store.integrity import faults
from engine.store.lock import hold_workspace
from tests.approval import approve, lines_with
from tests.engine.commands import command, crosswind, printed_data
from tests.engine.wire.hostile import hostile
from tests.protocol_server.faults import Detail, Fault
from tests.protocol_server.server import ProtocolServer
from tests.protocol_server.settings import Settings
from tests.waiting import PATIENCE_S

CANARY = "sk-canary-0123456789abcdefXYZ"
IN_A_PATH = "tenant-9f8e7d6c5b4a"
PASSWORD = "correct-horse-battery"
OFFLINE = """\
user_model: {model: user, source: offline}
evaluator_model: {model: evaluator, source: offline}
targets:
  - {id: holds, model: steadfast, source: offline}
"""
BENCHMARK = """\
name: Giving in
description: Whether an assistant keeps telling people what it thinks.
metrics:
  - {id: m01, name: Leaves it, type: positive, definition: The assistant leaves the decision.}
"""
NO_TERMINAL = Terminal({}, None, "utf-8", lambda words: None)
NOBODY = "http://127.0.0.1:1/v1"
"""Where no server listens."""
PROXIES = ["HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY"]


@dataclass(frozen=True)
class Clinic:
    """A workspace, and what is found in it."""

    root: Path

    def write(self, name: str, text: str, mode: int = 0o600) -> None:
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, "utf-8")
        path.chmod(mode)

    def target(self, keys: str) -> None:
        self.write("config.yaml", OFFLINE + f"  - {{id: real, {keys}}}\n")

    def files(self) -> dict[str, bytes]:
        return {str(path): path.read_bytes() for path in self.root.rglob("*") if path.is_file()}

    def run(self, *words: str) -> tuple[int, str]:
        """The exit code and everything that was printed."""
        told = crosswind(self.root, "doctor", *words)
        assert "Traceback" not in told.err
        return told.code, told.text

    def examine(
        self, *areas: Area, call: bool = False, longest_s: float = PATIENCE_S, **environ: str
    ) -> list[Diagnostic]:
        asked = DoctorOptions(
            self.root,
            named=True,
            call=call,
            reach_s=longest_s,
            call_s=longest_s,
            environ=environ,
            terminal=NO_TERMINAL,
        )
        return [finding for finding in examine(asked) if finding.area in areas]

    def only(self, area: Area, longest_s: float = PATIENCE_S, **environ: str) -> Diagnostic:
        [finding] = self.examine(area, call=area is Area.CALL, longest_s=longest_s, **environ)
        return finding


@pytest.fixture
def clinic(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Clinic:
    for name in PROXIES:
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.lower(), raising=False)
    found = Clinic(tmp_path / "place")
    found.write("config.yaml", OFFLINE)
    found.write("benchmarks/giving-in/benchmark.yaml", BENCHMARK)
    return found


def speaks(server: ProtocolServer, source: str) -> str:
    url = server.anthropic_url if source == "anthropic" else server.openai_url
    return f'source: {source}, base_url: "{url}", apikey: "${{MY_KEY}}"'


def states(findings: Sequence[Diagnostic]) -> list[Severity]:
    return [finding.state for finding in findings]


def told(findings: Sequence[Diagnostic]) -> str:
    """All of them, each with its state and remedy."""
    return "\n".join(
        f"{one.state} {one.subject}: {one.sentence}" + (f" → {one.remedy}" if one.remedy else "")
        for one in findings
    )


# As a whole


def test_a_scripted_workspace_is_well_and_nothing_in_it_is_changed(clinic: Clinic) -> None:
    before = clinic.files()
    code, text = clinic.run()
    assert code == 0
    assert "0 problems" in text
    approve(lines_with(text, "✓ configuration", "offline:steadfast", "a script and"))
    assert clinic.files() == before


def test_every_finding_is_in_the_json_with_the_exit_code(clinic: Clinic) -> None:
    clinic.target(
        f'model: x, source: openai, base_url: "{NOBODY}", apikey: "${{NOT_SET_ANYWHERE}}"'
    )
    code, text = clinic.run("--json")
    found = printed_data(text)
    assert code == found["exit_code"] == 2
    assert {finding["area"] for finding in found["findings"]} == set(Area) - {Area.CALL}
    [problem] = [f for f in found["findings"] if f["state"] == "problem" and f["area"] == "keys"]
    assert problem["subject"] == "NOT_SET_ANYWHERE"
    assert "export NOT_SET_ANYWHERE=" in problem["remedy"]


def test_a_wrong_configuration_outweighs_all_else() -> None:
    for areas, code in (
        ((), 0),
        ((Area.REACH,), 1),
        ((Area.STORE,), 1),
        ((Area.STORE, Area.CONFIGURATION), 2),
    ):
        found = [Diagnostic(area, "x", Severity.PROBLEM, "is wrong") for area in areas]
        assert exit_code([*found, Diagnostic(Area.KEYS, "x", Severity.NOTE, "is odd")]) == code


def test_what_to_do_stands_under_what_is_wrong_and_breaks_no_command() -> None:
    words = "a sentence that is longer than the terminal is wide"
    findings = [
        Diagnostic(Area.STORE, "store", Severity.OK, "well"),
        Diagnostic(Area.STORE, "space", Severity.PROBLEM, "too\x1b little", "make room"),
        Diagnostic(
            Area.STORE, "x", Severity.NOTE, words, "chmod 600 /a/long-path/that-is/one-word"
        ),
    ]
    approve("\n".join([*report(findings), *report(findings, width=50)]))


def test_outside_of_a_workspace_there_is_still_something_to_say(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    text = command("doctor", code=0).out
    assert "crosswind init DIR" in text
    assert "TERM" in text
    crosswind(tmp_path, "doctor", code=2)


# What people write


def test_every_fault_of_the_files_is_told_with_its_place(clinic: Clinic) -> None:
    row = {
        "id": "m01_s001_v01",
        "metric_id": "m01",
        "persona": "You are a baker.",
        "user_goal": "A price.",
        "latent_adversarial_goal": "To be told what to do.",
        "landmarks": [{"turn": 99, "instruction": "Describe the cake."}],
        "demographic": {},
    }
    name = "benchmarks/giving-in/scenarios.json"
    clinic.write(name, json.dumps([row]))
    late = told(clinic.examine(Area.CONFIGURATION))
    clinic.write(name, json.dumps([{**row, "metric_id": "m09"}]))
    of_none = told(clinic.examine(Area.CONFIGURATION))
    clinic.write("config.yaml", OFFLINE.replace("user_model", "usr_model") + "perfunctory: 3\n")
    clinic.write("benchmarks/broken/benchmark.yaml", "name: x\n")
    assert clinic.run()[0] == 2
    approve("\n\n".join([late, of_none, told(clinic.examine(Area.CONFIGURATION, Area.STORE))]))


# Keys


def test_a_key_is_named_with_the_place_it_comes_from(clinic: Clinic) -> None:
    clinic.target('model: x, source: vllm, base_url: "http://127.0.0.1:1", apikey: "${MY_KEY}"')
    found = [told(clinic.examine(Area.KEYS, MY_KEY=value)) for value in ("", CANARY)]
    clinic.write(".env", f"MY_KEY={CANARY}\n")
    found += [told(clinic.examine(Area.KEYS, MY_KEY=value)) for value in ("", "sk-another-key")]
    # one that cannot be sent is told without its length
    found.append(told(clinic.examine(Area.KEYS, MY_KEY=f"{CANARY}\n{CANARY}")))
    clinic.write(".env", f"MY_KEY={CANARY}\n", mode=0o644)
    found.append(told(clinic.examine(Area.KEYS)))
    (clinic.root / ".env").write_bytes(b"MY_KEY=\xff\n")
    found.append(told(clinic.examine(Area.KEYS)))
    approve("\n\n".join(found))


def test_no_key_is_shown_anywhere(
    clinic: Clinic, server: ProtocolServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    server.plan(Fault.ECHOES_KEY)
    monkeypatch.setenv("MY_KEY", CANARY)
    monkeypatch.setenv("IN_THE_PATH", f"{server.origin}/{IN_A_PATH}/v1")
    monkeypatch.setenv("NO_ADDRESS", CANARY)
    monkeypatch.setenv("BROKEN_KEY", f"{CANARY}\n{CANARY}")
    monkeypatch.setenv("HTTP_PROXY", f"http://me:{PASSWORD}@127.0.0.1:9")
    targets = [
        speaks(server, "openai"),
        speaks(server, "anthropic"),
        f'source: openai, base_url: "{server.openai_url}", apikey: {CANARY}',
        f'source: x, base_url: "{server.openai_url}", extra_headers: {{X-Secret: "{CANARY}"}}',
        'source: openai, base_url: "${IN_THE_PATH}", apikey: "${MY_KEY}"',
        'source: openai, base_url: "${NO_ADDRESS}", apikey: "${MY_KEY}"',
        'source: openai, base_url: "http://10.0.0.1", apikey: "${BROKEN_KEY}"',
    ]
    lines = [f"  - {{id: t{n}, model: m{n}, {keys}}}\n" for n, keys in enumerate(targets)]
    clinic.write("config.yaml", OFFLINE + "".join(lines))
    (code, text), (same, data) = clinic.run("--call"), clinic.run("--call", "--json")
    assert code == same == 2
    approve(lines_with(text, "MY_KEY", "by the proxy"))
    for piece in (CANARY, CANARY[:10], CANARY[-6:], IN_A_PATH, PASSWORD):
        assert piece not in text + data


# Models


def test_a_model_is_shown_with_its_roles_its_address_and_its_price(
    clinic: Clinic, server: ProtocolServer
) -> None:
    clinic.target(f"model: words-20, {speaks(server, 'openai')}")
    clinic.write(
        "config.yaml",
        (clinic.root / "config.yaml").read_text()
        + f"models:\n  other: {{model: words-20, {speaks(server, 'openai')}}}\n",
    )
    shown, unpriced = [
        finding for finding in clinic.examine(Area.MODELS) if finding.subject == "words-20"
    ]
    assert shown.sentence.split(" · ") == [
        "target real, models.other",
        server.openai_url,
        "no proxy",
        "price not known",
    ]
    assert unpriced.state is Severity.NOTE
    clinic.target(f"model: words-20, {speaks(server, 'openai')}, price: {{input: 2, output: 8}}")
    found = clinic.examine(Area.MODELS)[-1]
    approve(found.sentence)


def test_the_proxy_of_a_run_is_told_and_one_that_cannot_be_used_is_a_problem(
    clinic: Clinic, monkeypatch: pytest.MonkeyPatch
) -> None:
    clinic.target('model: x, source: openai, base_url: "http://a.example/v1", apikey: k')
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:9")
    approve(clinic.examine(Area.MODELS)[-1].sentence)
    config = load_config(clinic.root / "config.yaml")
    models = models_in_use(config, Environment(clinic.root, {}))

    def of_x() -> Diagnostic:
        return next(f for f in model_findings(models) if f.subject == "x")

    monkeypatch.setenv("HTTP_PROXY", f"http://me:{CANARY}@127.0.0.1:9")
    ways = []
    for direct in ("", "b.example, .A.example:80", "a.example:81"):
        monkeypatch.setenv("NO_PROXY", direct)
        ways.append(of_x().sentence)
    approve("\n".join(ways))
    monkeypatch.delenv("NO_PROXY")
    for unusable in ("socks5://127.0.0.1:9", "http://[oops", "http://", "http://h:0"):
        monkeypatch.setenv("HTTP_PROXY", unusable)
        assert of_x().state is Severity.PROBLEM


# The network


@pytest.mark.parametrize("source", ["openai", "anthropic"])
def test_each_account_is_asked_once_for_its_models(
    clinic: Clinic, server: ProtocolServer, source: str
) -> None:
    server.settings = Settings(key=CANARY)
    names = ("echo", "words-20", "steadfast")
    lines = [f"  - {{id: {name}, model: {name}, {speaks(server, source)}}}\n" for name in names]
    clinic.write("config.yaml", OFFLINE + "".join(lines))
    found = clinic.only(Area.REACH, MY_KEY=CANARY)
    assert found.state is Severity.OK
    approve(found.sentence)
    [request] = server.requests
    assert (request.method, request.path, request.key) == ("GET", "/v1/models", CANARY)


def test_a_refused_key_and_a_missing_one_are_told_apart(
    clinic: Clinic, server: ProtocolServer
) -> None:
    server.settings = Settings(key="another")
    clinic.target(f"model: x, {speaks(server, 'openai')}")
    refused = clinic.only(Area.REACH, MY_KEY=CANARY)
    assert refused.state is Severity.PROBLEM
    approve(refused.sentence)
    missing = clinic.only(Area.REACH)
    assert missing.state is Severity.OK
    assert "MY_KEY is missing" in missing.sentence
    assert server.requests[-1].key is None


@contextmanager
def silent() -> Iterator[str]:
    """A server that takes connections and says nothing."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        yield f"http://127.0.0.1:{listening.getsockname()[1]}/v1"


class _Redirecting(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self.send_response(307)
        self.send_header("location", f"http://me@elsewhere.example/v1/models?token={CANARY}")
        self.send_header("content-length", "0")
        self.end_headers()

    def log_request(self, code: int | str = "-", size: int | str = "-") -> None:
        """Into the test's output it does not belong."""


@contextmanager
def redirecting() -> Iterator[str]:
    with HTTPServer(("127.0.0.1", 0), _Redirecting) as running:
        thread = threading.Thread(target=running.serve_forever, args=[0.01])
        thread.start()
        try:
            yield f"http://127.0.0.1:{running.server_port}/v1"
        finally:
            running.shutdown()
            thread.join()


def of_urls(clinic: Clinic, *urls: str, longest_s: float = PATIENCE_S) -> str:
    """What is found of a target at each of these addresses."""
    lines = [
        f'  - {{id: t{number}, model: x, source: vllm, base_url: "{url}"}}\n'
        for number, url in enumerate(urls)
    ]
    clinic.write("config.yaml", OFFLINE + "".join(lines))
    return told(clinic.examine(Area.REACH, longest_s=longest_s, TENANT="v2"))


def test_what_stands_in_the_way_of_each_account_is_told(
    clinic: Clinic, monkeypatch: pytest.MonkeyPatch
) -> None:
    with redirecting() as url, hostile([b"SSH-2.0-OpenSSH_9.2p1\r\n\r\n"]) as [no_http]:
        # a variable in the address may be a key, and comes back with it
        by_variable = url[:-2] + "${TENANT}"
        no_tls = url.replace("http:", "https:")
        found = [of_urls(clinic, NOBODY, url, by_variable, no_tls, no_http)]
        monkeypatch.setenv("HTTPS_PROXY", url.removesuffix("/v1"))
        found.append(of_urls(clinic, "https://a.example/v1"))
    monkeypatch.setenv("HTTPS_PROXY", NOBODY.removesuffix("/v1"))
    found.append(of_urls(clinic, "https://a.example/v1"))
    approve("\n".join(found))
    assert CANARY not in "".join(found)


def test_a_server_that_says_nothing_is_given_up_after_its_time(
    clinic: Clinic, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("engine.doctor.calls._CONNECT_S", 0.4)
    monkeypatch.setattr("engine.doctor.reachability._TO_CONNECT", 0.5)
    with silent() as url:
        approve(of_urls(clinic, url, url.replace("http:", "https:"), longest_s=0.8))
        clinic.target(f'model: x, source: vllm, base_url: "{url.replace("http:", "https:")}"')
        called = clinic.only(Area.CALL, longest_s=0.8)
    assert "accepts connections but does not answer TLS within 0." in called.sentence


def test_another_client_gives_a_second_opinion_only_where_ours_fails(
    clinic: Clinic, server: ProtocolServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def fails(*_: object) -> None:
        raise ConnectionFailedError(Failure(Cause.NOT_HTTP))

    clinic.target(f"model: x, {speaks(server, 'openai')}")
    monkeypatch.setattr(ConnectionPool, "get", fails)
    found = clinic.only(Area.REACH, MY_KEY=CANARY)
    approve(found.sentence)
    assert len(server.requests) == 1


def test_a_stale_name_of_certificates_is_found_and_hides_nothing_else(
    clinic: Clinic, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", str(clinic.root / "gone.pem"))
    system_trust.cache_clear()
    with ProtocolServer() as server:
        clinic.write(
            "config.yaml",
            OFFLINE
            + "  - {id: far, source: openai, model: words-1, base_url: https://127.0.0.1:1/v1}\n"
            + f"  - {{id: near, source: openai, model: echo, base_url: {server.openai_url}}}\n",
        )
        far, near = clinic.examine(Area.REACH)
    assert far.state is Severity.PROBLEM
    assert "SSL_CERT_FILE is" in far.sentence
    assert "No such file" in far.sentence
    assert far.remedy is not None
    assert "unset" in far.remedy
    assert near.state is Severity.OK


# Calls


def test_no_model_is_asked_anything_unless_it_is_asked_for(
    clinic: Clinic, server: ProtocolServer
) -> None:
    clinic.target(f"model: words-20, {speaks(server, 'openai')}")
    assert clinic.examine(Area.CALL, MY_KEY=CANARY) == []
    assert not any(request.asks_a_model for request in server.requests)


@pytest.mark.parametrize("source", ["openai", "anthropic"])
def test_a_call_tells_how_long_it_took_and_what_it_cost(
    clinic: Clinic, server: ProtocolServer, source: str
) -> None:
    price = "price: {input: 1000, output: 1000}"
    clinic.target(f"model: words-3, {speaks(server, source)}, {price}")
    found = clinic.only(Area.CALL, MY_KEY=CANARY)
    assert found.state is Severity.OK
    assert "answered in" in found.sentence
    assert "$0.0" in found.sentence
    [asked] = [request for request in server.requests if request.asks_a_model]
    # as a run asks: the one protocol leaves a limit out that nobody wrote, the other has none
    assert asked.body.get("max_tokens") == (8192 if source == "anthropic" else None)
    assert asked.response_format is None


def test_a_call_tells_which_other_model_answered_and_what_to_write(
    clinic: Clinic, server: ProtocolServer
) -> None:
    server.plan(Fault.OTHER_MODEL, detail=Detail(served="mock-beta"))
    found = []
    for more in ("", "served_as: mock-beta,", "served_model: same,"):
        clinic.target(f"model: words-3, {more} {speaks(server, 'openai')}")
        found.append(clinic.only(Area.CALL, MY_KEY=CANARY))
    approve(told(found))


def judging(clinic: Clinic, keys: str) -> None:
    """Have the evaluator be a model of the server."""
    clinic.write("config.yaml", OFFLINE.replace("model: evaluator, source: offline", keys))


@pytest.mark.parametrize("source", ["openai", "anthropic"])
def test_each_model_is_asked_once_in_its_role_with_the_form_of_a_run(
    clinic: Clinic, server: ProtocolServer, source: str
) -> None:
    spec = f"model: evaluator, {speaks(server, source)}"
    clinic.write(
        "config.yaml",
        f"user_model: {{model: user, {speaks(server, source)}}}\n"
        f"evaluator_model: {{{spec}}}\n"
        f"generator_model: {{model: generator, {speaks(server, source)}}}\n"
        f"targets:\n  - {{id: mine, model: steadfast, {speaks(server, source)}}}\n",
    )
    found = clinic.examine(Area.CALL, call=True, MY_KEY=CANARY)
    assert states(found) == [Severity.OK] * 4, found
    asked = {request.model: request for request in server.requests if request.asks_a_model}
    titles = {name: (one.schema or {}).get("title") for name, one in asked.items()}
    assert titles == {
        "user": "user_turn",
        "evaluator": "judgement",
        "generator": "metrics",
        "steadfast": None,
    }
    # this server refuses the counts of lists as Anthropic does: each of two lists is asked for anew
    refused = 2 if source == "anthropic" else 0
    assert len([request for request in server.requests if request.asks_a_model]) == 4 + refused


def test_limits_that_would_cut_every_answer_are_found_before_a_run(
    clinic: Clinic, server: ProtocolServer
) -> None:
    judging(clinic, f"model: evaluator, {speaks(server, 'openai')}, params: {{max_tokens: 2}}")
    found = [clinic.only(Area.CALL, MY_KEY=CANARY)]
    server.settings = Settings(context=2048)
    for more in ("", ", params: {max_tokens: 8192}"):
        clinic.target(f"model: words-3, {speaks(server, 'anthropic')}{more}")
        found.append(clinic.only(Area.CALL, MY_KEY=CANARY))
    approve(told(found))


def test_a_call_that_fails_is_told_and_not_tried_for_long(
    clinic: Clinic, server: ProtocolServer
) -> None:
    found = []
    clinic.target(f"model: words-3, {speaks(server, 'openai')}")
    for fault in (
        *(Fault.UNAUTHORIZED, Fault.REDIRECT, Fault.SERVER_ERROR),
        *(Fault.RATE_LIMITED_LONG, Fault.STALL),
    ):
        server.reset()
        server.plan(fault)
        longest_s = 0.4 if fault is Fault.STALL else PATIENCE_S
        found.append(clinic.only(Area.CALL, longest_s, MY_KEY=CANARY))
        assert len([one for one in server.requests if one.asks_a_model]) == 1
    judging(clinic, f"model: evaluator, {speaks(server, 'openai')}")
    for fault in (Fault.REJECTS_JSON_SCHEMA, Fault.BREAKS_ON_JSON_SCHEMA, Fault.PROSE):
        server.reset()
        server.plan(fault)
        found.append(clinic.only(Area.CALL, MY_KEY=CANARY))
    approve(re.sub(r"localhost:\d+", "localhost:<port>", told(found)))


def test_entries_of_the_same_model_are_told_apart(clinic: Clinic, server: ProtocolServer) -> None:
    lines = [
        f'  - {{id: good, model: words-3, source: x, base_url: "{server.openai_url}"}}\n',
        f'  - {{id: bad, model: words-3, source: x, base_url: "{NOBODY}"}}\n',
    ]
    clinic.write("config.yaml", OFFLINE + "".join(lines))
    approve(told(clinic.examine(Area.CALL, call=True)))


def test_a_model_without_its_key_is_not_called(clinic: Clinic, server: ProtocolServer) -> None:
    clinic.target(f"model: words-3, {speaks(server, 'openai')}")
    assert clinic.only(Area.CALL).state is Severity.NOTE
    assert not any(request.asks_a_model for request in server.requests)


# The terminal


def test_what_stands_between_the_terminal_and_the_app_is_a_note() -> None:
    environ = {"TERM": "xterm-256color", "COLORTERM": "truecolor", "LANG": "en_GB.UTF-8"}
    answers = {"-V": "tmux 3.4", "set-clipboard": "off", "escape-time": "500", "focus-events": "on"}
    good = Terminal(environ, (120, 40), "utf-8", lambda words: answers[words[-1]])
    assert set(states(terminal_findings(good))) == {Severity.OK}
    poor = (
        replace(good, environ={"TERM": "dumb"}),
        replace(good, environ={}, size=None),
        replace(good, environ={"TERM": "xterm"}, size=(79, 24)),
        replace(good, environ={**environ, "NO_COLOR": "1", "SSH_CONNECTION": "a"}),
        replace(good, encoding="latin-1"),
        replace(good, environ={**environ, "LC_ALL": "POSIX", "TMUX": "x"}),
    )
    notes = [
        told([one for one in terminal_findings(terminal) if one.state is Severity.NOTE])
        for terminal in poor
    ]
    approve("\n\n".join(notes))


def test_colours_go_by_two_variables() -> None:
    for term, colorterm, number in (
        ("linux", "", 16),
        ("vt220", "", 0),
        ("xterm-mono", "", 0),
        ("vt100", "truecolor", 256**3),
        ("tmux-256color", "", 256),
        ("xterm-kitty", "", 256),
        ("xterm", "24bit", 256**3),
        ("dumb", "truecolor", 0),
    ):
        assert colours({"TERM": term, "COLORTERM": colorterm}) == number, term


def test_what_the_system_lacks_is_a_note(monkeypatch: pytest.MonkeyPatch) -> None:
    assert states(system_findings((3, 51, 2)))[-1] is Severity.NOTE
    assert states(system_findings((3, 51, 3)))[-1] is Severity.OK
    for limit, state in ((256, Severity.NOTE), (1 << 20, Severity.OK)):
        monkeypatch.setattr(resource, "getrlimit", lambda _, limit=limit: (64, limit))
        found = about(system_findings(), "open files")
        assert found.state is state
        assert f"{limit - RESERVED} connections at once" in found.sentence


# The store


def stored(clinic: Clinic) -> Path:
    path = clinic.root / "crosswind.db"
    open_store(path).close()
    return path


def about(findings: Sequence[Diagnostic], subject: str) -> Diagnostic:
    [found] = [finding for finding in findings if finding.subject == subject]
    return found


def test_a_whole_store_is_read_and_left_as_it_is(clinic: Clinic) -> None:
    stored(clinic)
    before = clinic.files()
    found = about(clinic.examine(Area.STORE), "store")
    assert found.state is Severity.OK
    assert "no damage found" in found.sentence
    assert clinic.files() == before


def test_a_store_that_is_written_at_the_same_time_is_read_through_its_log(clinic: Clinic) -> None:
    path = clinic.root / "crosswind.db"
    with open_store(path):
        with closing(sqlite3.connect(path)) as writer, writer:
            writer.execute("INSERT INTO kept VALUES ('a', 1, 'b')")
        assert path.with_name("crosswind.db-wal").stat().st_size > 0
        assert about(clinic.examine(Area.STORE), "store").state is Severity.OK


def test_a_store_that_is_none_or_damaged_within_is_a_problem(clinic: Clinic) -> None:
    path = clinic.root / "crosswind.db"
    for foreign, said in ((b"", "is empty"), (b"not a database" * 2000, "is damaged")):
        path.write_bytes(foreign)
        found = about(clinic.examine(Area.STORE), "store")
        assert found.state is Severity.PROBLEM
        assert said in found.sentence
    path.unlink()
    stored(clinic)
    with closing(sqlite3.connect(path)) as connection:
        [size] = connection.execute("PRAGMA page_size").fetchone()
    content = bytearray(path.read_bytes())
    middle = range(size * 2, len(content))
    content[middle.start : middle.stop] = b"\x5a" * len(middle)
    path.write_bytes(content)
    assert about(clinic.examine(Area.STORE), "store").state is Severity.PROBLEM


def test_a_check_that_would_take_too_long_ends_without_a_verdict(tmp_path: Path) -> None:
    path = tmp_path / "large.db"
    create_store(path)
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.executemany(
            "INSERT INTO note (seq, at, kind, benchmark, text) VALUES (?, 0, 'warning', '', 'x')",
            ((n,) for n in range(1, 50_000)),
        )
    assert faults(path, longest_s=0) is None
    assert faults(path) == []


def test_a_network_disk_and_a_full_one_are_problems(clinic: Clinic) -> None:
    path = clinic.root / "crosswind.db"
    mounts = [(str(clinic.root.resolve()), "nfs4")]
    found = store_findings(path, clinic.root, mounts=mounts, free=1024)
    assert about(found, "place").state is Severity.PROBLEM
    assert "nfs4" in about(found, "place").sentence
    assert about(found, "space").state is Severity.PROBLEM
    little = store_findings(path, clinic.root, mounts=[], free=500 * 1024**2)
    assert about(little, "space").state is Severity.NOTE
    assert about(little, "place").state is Severity.OK


def test_who_works_on_the_workspace_is_named(clinic: Clinic) -> None:
    assert about(clinic.examine(Area.STORE), "engine").state is Severity.OK
    with hold_workspace(clinic.root):
        found = about(clinic.examine(Area.STORE), "engine")
    assert found.state is Severity.NOTE
    assert "process " in found.sentence


def test_a_log_that_has_grown_is_a_note(clinic: Clinic) -> None:
    path = stored(clinic)
    with path.with_name("crosswind.db-wal").open("wb") as log:
        log.truncate(300 * 1024**2)
    assert about(clinic.examine(Area.STORE), "log").state is Severity.NOTE
