"""The doctor says what is wrong and what to do, changes nothing, and shows no key."""

from __future__ import annotations

import json
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
from engine.providers.http.connector import system_trust
from engine.providers.http.descriptors import RESERVED
from engine.providers.http.pool import ConnectionPool
from engine.providers.http.transport import ConnectionFailedError, TransportFailure
from engine.providers.http.transport import Fault as TransportFault
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
    told = printed_data(text)
    assert code == told["exit_code"] == 2
    assert {finding["area"] for finding in told["findings"]} == set(Area) - {Area.CALL}
    [problem] = [f for f in told["findings"] if f["state"] == "problem" and f["area"] == "keys"]
    assert problem["subject"] == "NOT_SET_ANYWHERE"
    assert "export NOT_SET_ANYWHERE=" in problem["remedy"]


@pytest.mark.parametrize(
    ("problems", "code"),
    [
        ([], 0),
        ([Area.REACH], 1),
        ([Area.STORE], 1),
        ([Area.KEYS], 2),
        ([Area.STORE, Area.CONFIGURATION], 2),
    ],
)
def test_a_wrong_configuration_outweighs_all_else(problems: list[Area], code: int) -> None:
    found = [Diagnostic(area, "x", Severity.PROBLEM, "is wrong") for area in problems]
    assert exit_code([*found, Diagnostic(Area.KEYS, "x", Severity.NOTE, "is odd")]) == code


def test_what_to_do_stands_under_what_is_wrong_and_ascii_will_do() -> None:
    findings = [
        Diagnostic(Area.STORE, "store", Severity.OK, "well"),
        Diagnostic(Area.STORE, "space", Severity.PROBLEM, "too\x1b little", "make room"),
    ]
    assert list(report(findings)) == [
        "✓ store  store  well",
        "✗        space  too␛ little",
        "                → make room",
        "",
        "1 fine, 0 notes, 1 problem",
    ]
    marks = [line[0] for line in report(findings, "ascii") if line.strip()]
    assert marks[:2] == ["+", "!"]


def test_a_long_sentence_goes_on_under_itself_and_breaks_no_command() -> None:
    words = "a sentence that is longer than the terminal is wide"
    finding = Diagnostic(
        Area.STORE, "x", Severity.NOTE, words, "chmod 600 /a/long-path/that-is/one-word"
    )
    lines = list(report([finding], width=50))
    approve(lines[:3])
    assert lines[3].strip() == "/a/long-path/that-is/one-word"


def test_outside_of_a_workspace_there_is_still_something_to_say(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    text = command("doctor", code=0).out
    assert "crosswind init DIR" in text
    assert "TERM" in text
    crosswind(tmp_path, "doctor", code=2)


def test_an_old_sqlite_is_a_note_and_a_new_one_is_none() -> None:
    assert states(system_findings((3, 51, 2)))[-1] is Severity.NOTE
    assert states(system_findings((3, 51, 3)))[-1] is Severity.OK


# What people write


def test_every_fault_of_the_files_is_told_with_its_place(clinic: Clinic) -> None:
    clinic.write("config.yaml", OFFLINE.replace("user_model", "usr_model") + "perfunctory: 3\n")
    clinic.write("benchmarks/broken/benchmark.yaml", "name: x\n")
    code, text = clinic.run()
    assert code == 2
    for said in ("usr_model", "perfunctory", "config.yaml:5", "description", "✗"):
        assert said in text
    approve(lines_with(text, "where it is"))


def test_a_scenario_of_no_metric_is_a_problem_and_a_late_landmark_a_note(clinic: Clinic) -> None:
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
    late = clinic.examine(Area.CONFIGURATION)
    assert states(late)[-1] is Severity.NOTE
    assert "1 metric, 1 scenario, 1 variant" in [finding.sentence for finding in late]
    clinic.write(name, json.dumps([{**row, "metric_id": "m09"}]))
    assert states(clinic.examine(Area.CONFIGURATION))[-1] is Severity.PROBLEM


# Keys


def test_a_key_is_named_with_the_place_it_comes_from(clinic: Clinic) -> None:
    clinic.target('model: x, source: vllm, base_url: "http://127.0.0.1:1", apikey: "${MY_KEY}"')
    assert clinic.only(Area.KEYS).state is Severity.PROBLEM
    approve(clinic.only(Area.KEYS, MY_KEY=CANARY).sentence)
    clinic.write(".env", f"MY_KEY={CANARY}\n")
    assert clinic.examine(Area.KEYS)[-1].sentence.endswith("set in .env")
    both = clinic.examine(Area.KEYS, MY_KEY="sk-another-key")[-1]
    assert "goes before .env" in both.sentence


def test_an_env_file_that_others_can_read_is_a_note_with_its_remedy(clinic: Clinic) -> None:
    clinic.write(".env", "A=b\n")
    assert clinic.only(Area.KEYS).state is Severity.OK
    clinic.write(".env", "A=b\n", mode=0o644)
    found = clinic.only(Area.KEYS)
    assert found.state is Severity.NOTE
    assert found.remedy == f"chmod 600 {clinic.root / '.env'}"


def test_an_env_file_that_cannot_be_read_is_one_problem(clinic: Clinic) -> None:
    clinic.target('model: x, source: vllm, base_url: "http://127.0.0.1:1", apikey: "${MY_KEY}"')
    (clinic.root / ".env").write_bytes(b"MY_KEY=\xff\n")
    found = clinic.only(Area.KEYS)
    assert found.state is Severity.PROBLEM
    assert "not UTF-8" in found.sentence


@pytest.mark.parametrize("words", [["--call"], ["--call", "--json"]])
def test_no_key_is_shown_anywhere(
    clinic: Clinic,
    server: ProtocolServer,
    monkeypatch: pytest.MonkeyPatch,
    words: list[str],
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
    code, text = clinic.run(*words)
    assert code == 2
    approve(lines_with(text, "MY_KEY", "by the proxy"))
    for piece in (CANARY, CANARY[:10], CANARY[-6:], IN_A_PATH, PASSWORD):
        assert piece not in text


def test_a_key_that_cannot_be_sent_is_told_without_its_length(clinic: Clinic) -> None:
    clinic.target(f'model: x, source: vllm, base_url: "{NOBODY}", apikey: "${{MY_KEY}}"')
    found = clinic.only(Area.KEYS, MY_KEY=f"{CANARY}\n{CANARY}")
    assert found.state is Severity.PROBLEM
    approve(found.sentence)


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
    config = load_config(clinic.root / "config.yaml")
    models = models_in_use(config, Environment(clinic.root, {}))

    def told() -> Diagnostic:
        return next(f for f in model_findings(models) if f.subject == "x")

    monkeypatch.setenv("HTTP_PROXY", f"http://me:{CANARY}@127.0.0.1:9")
    approve(told().sentence)
    monkeypatch.setenv("NO_PROXY", "b.example, .A.example:80")
    approve(told().sentence)
    monkeypatch.setenv("NO_PROXY", "a.example:81")
    approve(told().sentence)
    monkeypatch.delenv("NO_PROXY")
    for unusable in ("socks5://127.0.0.1:9", "http://[oops", "http://", "http://h:0"):
        monkeypatch.setenv("HTTP_PROXY", unusable)
        assert told().state is Severity.PROBLEM


def test_http_beyond_this_machine_is_a_note(
    clinic: Clinic, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:9")
    clinic.target('model: x, source: vllm, base_url: "http://10.0.0.1/v1"')
    found = clinic.examine(Area.MODELS)[-1]
    assert found.state is Severity.NOTE
    approve(found.sentence)


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


def test_nobody_at_the_address_is_a_problem_and_no_wrong_configuration(
    clinic: Clinic, server: ProtocolServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    clinic.target(f"model: x, {speaks(server, 'openai')}")
    server.refuse()
    monkeypatch.setenv("MY_KEY", CANARY)
    code, text = clinic.run()
    assert code == 1
    assert "no connection (econnrefused)" in text
    assert "start the server" in text


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


def test_a_server_that_says_nothing_is_given_up_after_its_time(clinic: Clinic) -> None:
    with silent() as url:
        clinic.target(f'model: x, source: vllm, base_url: "{url}"')
        found = clinic.only(Area.REACH, longest_s=0.2)
    assert found.state is Severity.PROBLEM
    approve(found.sentence)
    assert found.remedy is not None
    approve(found.remedy)


def test_a_port_that_does_not_answer_tls_is_told_from_one_that_accepts_nothing(
    clinic: Clinic, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("engine.doctor.calls._CONNECT_S", 0.2)
    monkeypatch.setattr("engine.doctor.reachability._TO_CONNECT", 0.2)
    with silent() as url:
        place = url.removeprefix("http://").removesuffix("/v1")
        clinic.target(f'model: x, source: vllm, base_url: "https://{place}/v1"')
        reached, called = clinic.examine(Area.REACH, Area.CALL, call=True, longest_s=1)
    approve(reached.sentence)
    assert reached.remedy is not None
    approve(reached.remedy)
    words = f"no connection ({place} accepts connections but does not answer TLS within 0."
    assert called.sentence.startswith(words)


def test_a_server_without_tls_is_told_from_one_that_is_not_there(clinic: Clinic) -> None:
    with redirecting() as url:
        clinic.target(f'model: x, source: vllm, base_url: "{url.replace("http:", "https:")}"')
        found = clinic.only(Area.REACH)
    assert found.state is Severity.PROBLEM
    approve(found.sentence)
    assert found.remedy is not None
    approve(found.remedy)


def test_a_proxy_that_refuses_is_told_with_its_status(
    clinic: Clinic, monkeypatch: pytest.MonkeyPatch
) -> None:
    clinic.target('model: x, source: vllm, base_url: "https://a.example/v1"')
    with redirecting() as url:
        monkeypatch.setenv("HTTPS_PROXY", url.removesuffix("/v1"))
        found = clinic.only(Area.REACH)
    assert found.state is Severity.PROBLEM
    approve(found.sentence)
    assert found.remedy is not None
    assert "NO_PROXY" in found.remedy


@pytest.mark.parametrize("scheme", ["http", "https"])
def test_a_proxy_that_is_not_there_is_named_in_place_of_the_server(
    clinic: Clinic, monkeypatch: pytest.MonkeyPatch, scheme: str
) -> None:
    clinic.target(f'model: x, source: vllm, base_url: "{scheme}://a.example/v1"')
    with silent() as url:
        proxy = url.removesuffix("/v1")
    monkeypatch.setenv(f"{scheme.upper()}_PROXY", proxy)
    found = clinic.only(Area.REACH)
    assert found.state is Severity.PROBLEM
    place = proxy.removeprefix("http://")
    assert f"be reached ({place}: econnrefused)" in found.sentence
    assert found.remedy is not None
    assert "look at HTTPS_PROXY" in found.remedy


def test_a_server_that_does_not_speak_http_is_told_from_one_that_hangs_up(clinic: Clinic) -> None:
    with hostile([b"SSH-2.0-OpenSSH_9.2p1\r\n\r\n"]) as [url]:
        clinic.target(f'model: x, source: vllm, base_url: "{url}"')
        found = clinic.only(Area.REACH)
    assert found.state is Severity.PROBLEM
    approve(found.sentence)
    approve(found.remedy)


def test_another_client_gives_a_second_opinion_only_where_ours_fails(
    clinic: Clinic, server: ProtocolServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def fails(*_: object) -> None:
        raise ConnectionFailedError(TransportFailure(TransportFault.NOT_HTTP))

    clinic.target(f"model: x, {speaks(server, 'openai')}")
    monkeypatch.setattr(ConnectionPool, "get", fails)
    found = clinic.only(Area.REACH, MY_KEY=CANARY)
    approve(found.sentence)
    assert len(server.requests) == 1


def test_a_redirect_is_told_with_its_address_and_not_followed(clinic: Clinic) -> None:
    with redirecting() as url:
        clinic.target(f'model: x, source: vllm, base_url: "{url}"')
        found = clinic.only(Area.REACH)
    assert found.state is Severity.PROBLEM
    assert "redirects to http://elsewhere.example/v1/models (307)" in found.sentence
    assert CANARY not in found.sentence
    with redirecting() as url:
        clinic.target(f'model: x, source: vllm, base_url: "{url[:-2]}${{TENANT}}"')
        found = clinic.only(Area.REACH, TENANT="v1")
    # a variable in the address may be a key, and comes back with it
    assert "but it redirects (307)" in found.sentence


def test_the_order_is_that_of_the_configuration_however_long_each_takes(
    clinic: Clinic, server: ProtocolServer
) -> None:
    with silent() as url:
        lines = [
            f'  - {{id: slow, model: x, source: vllm, base_url: "{url}"}}\n',
            f"  - {{id: quick, model: echo, {speaks(server, 'openai')}}}\n",
        ]
        clinic.write("config.yaml", OFFLINE + "".join(lines))
        found = clinic.examine(Area.REACH, longest_s=0.5, MY_KEY=CANARY)
    assert states(found) == [Severity.PROBLEM, Severity.OK]


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


@pytest.mark.parametrize("source", ["openai", "anthropic"])
def test_a_call_tells_which_other_model_answered_and_what_to_write(
    clinic: Clinic, server: ProtocolServer, source: str
) -> None:
    server.plan(Fault.OTHER_MODEL, detail=Detail(served="mock-beta"))
    clinic.target(f"model: words-3, {speaks(server, source)}")
    found = clinic.only(Area.CALL, MY_KEY=CANARY)
    assert found.state is Severity.NOTE
    approve(found.sentence)
    approve(found.remedy)
    clinic.target(f"model: words-3, served_as: mock-beta, {speaks(server, source)}")
    assert clinic.only(Area.CALL, MY_KEY=CANARY).state is Severity.OK
    clinic.target(f"model: words-3, served_model: same, {speaks(server, source)}")
    found = clinic.only(Area.CALL, MY_KEY=CANARY)
    assert found.state is Severity.PROBLEM
    approve(found.sentence)


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


def test_a_limit_that_cuts_every_verdict_is_found_before_a_run(
    clinic: Clinic, server: ProtocolServer
) -> None:
    judging(clinic, f"model: evaluator, {speaks(server, 'openai')}, params: {{max_tokens: 2}}")
    found = clinic.only(Area.CALL, MY_KEY=CANARY)
    approve((found.state, found.sentence))


def test_a_context_that_is_smaller_than_the_limit_is_found_before_a_run(
    clinic: Clinic, server: ProtocolServer
) -> None:
    server.settings = Settings(context=2048)
    clinic.target(f"model: words-3, {speaks(server, 'anthropic')}")
    found = clinic.only(Area.CALL, MY_KEY=CANARY)
    assert found.state is Severity.OK
    approve(found.sentence)
    clinic.target(f"model: words-3, {speaks(server, 'anthropic')}, params: {{max_tokens: 8192}}")
    found = clinic.only(Area.CALL, MY_KEY=CANARY)
    assert found.state is Severity.PROBLEM
    approve(found.sentence)


@pytest.mark.parametrize(
    ("fault", "said"),
    [
        (Fault.REJECTS_JSON_SCHEMA, "takes no"),
        (Fault.BREAKS_ON_JSON_SCHEMA, "takes no"),
        (Fault.PROSE, "not one JSON object"),
    ],
)
def test_what_becomes_of_the_form_is_told(
    clinic: Clinic, server: ProtocolServer, fault: Fault, said: str
) -> None:
    server.plan(fault)
    judging(clinic, f"model: evaluator, {speaks(server, 'openai')}")
    found = clinic.only(Area.CALL, MY_KEY=CANARY)
    assert found.state is (Severity.PROBLEM if fault is Fault.PROSE else Severity.OK)
    assert said in found.sentence


@pytest.mark.parametrize("source", ["openai", "anthropic"])
@pytest.mark.parametrize(
    ("fault", "said"),
    [
        (Fault.UNAUTHORIZED, "401: the key was refused"),
        (Fault.REDIRECT, "redirects elsewhere"),
        (Fault.SERVER_ERROR, "500"),
        (Fault.RATE_LIMITED_LONG, "429"),
        (Fault.STALL, "no answer within 0.4 s"),
    ],
)
def test_a_call_that_fails_is_told_and_not_tried_for_long(
    clinic: Clinic, server: ProtocolServer, source: str, fault: Fault, said: str
) -> None:
    server.plan(fault)
    clinic.target(f"model: words-3, {speaks(server, source)}")
    found = clinic.only(
        Area.CALL, longest_s=0.4 if fault is Fault.STALL else PATIENCE_S, MY_KEY=CANARY
    )
    assert found.state is Severity.PROBLEM
    assert said in found.sentence
    assert len([request for request in server.requests if request.asks_a_model]) == 1


def test_entries_of_the_same_model_are_told_apart(clinic: Clinic, server: ProtocolServer) -> None:
    lines = [
        f'  - {{id: good, model: words-3, source: x, base_url: "{server.openai_url}"}}\n',
        f'  - {{id: bad, model: words-3, source: x, base_url: "{NOBODY}"}}\n',
    ]
    clinic.write("config.yaml", OFFLINE + "".join(lines))
    good, bad = clinic.examine(Area.CALL, call=True)
    approve(good.sentence)
    approve(bad.sentence)


def test_a_model_without_its_key_is_not_called(clinic: Clinic, server: ProtocolServer) -> None:
    clinic.target(f"model: words-3, {speaks(server, 'openai')}")
    assert clinic.only(Area.CALL).state is Severity.NOTE
    assert not any(request.asks_a_model for request in server.requests)


# The terminal

GOOD = Terminal(
    {"TERM": "xterm-256color", "COLORTERM": "truecolor", "LANG": "en_GB.UTF-8"},
    (120, 40),
    "utf-8",
    lambda words: None,
)


def test_a_good_terminal_needs_nothing() -> None:
    assert set(states(terminal_findings(GOOD))) == {Severity.OK}


@pytest.mark.parametrize(
    ("subject", "terminal", "said"),
    [
        ("TERM", replace(GOOD, environ={"TERM": "dumb"}), "plain lines"),
        ("TERM", replace(GOOD, environ={}), "is not set"),
        ("colours", replace(GOOD, environ={"TERM": "xterm"}), "16"),
        ("colours", replace(GOOD, environ={**GOOD.environ, "NO_COLOR": "1"}), "NO_COLOR"),
        ("size", replace(GOOD, size=(79, 24)), "79 columns"),
        ("size", replace(GOOD, size=None), "no terminal"),
        ("letters", replace(GOOD, encoding="latin-1"), "not UTF-8"),
        (
            "letters",
            replace(GOOD, environ={**GOOD.environ, "LC_ALL": "POSIX"}),
            "ASCII and not UTF-8",
        ),
        ("SSH", replace(GOOD, environ={**GOOD.environ, "SSH_CONNECTION": "a"}), "over SSH"),
    ],
)
def test_what_stands_between_the_terminal_and_the_app_is_a_note(
    subject: str, terminal: Terminal, said: str
) -> None:
    [found] = [f for f in terminal_findings(terminal) if f.subject == subject]
    assert found.state is Severity.NOTE
    assert said in found.sentence


@pytest.mark.parametrize(
    ("term", "colorterm", "number"),
    [
        ("xterm", "", 16),
        ("linux", "", 16),
        ("vt220", "", 0),
        ("xterm-mono", "", 0),
        ("vt100", "truecolor", 256**3),
        ("tmux-256color", "", 256),
        ("xterm-kitty", "", 256),
        ("xterm", "24bit", 256**3),
        ("dumb", "truecolor", 0),
    ],
)
def test_colours_go_by_two_variables(term: str, colorterm: str, number: int) -> None:
    assert colours({"TERM": term, "COLORTERM": colorterm}) == number


def test_each_setting_of_tmux_that_hurts_comes_with_its_one_line() -> None:
    answers = {"-V": "tmux 3.4", "set-clipboard": "off", "escape-time": "500", "focus-events": "on"}
    inside = replace(
        GOOD, environ={**GOOD.environ, "TMUX": "x"}, ask_tmux=lambda words: answers[words[-1]]
    )
    found = [finding for finding in terminal_findings(inside) if finding.subject == "tmux"]
    approve([finding.remedy for finding in found])


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


@pytest.mark.parametrize(
    ("content", "said"), [(b"", "is empty"), (b"not a database" * 2000, "is damaged")]
)
def test_a_store_that_is_none_is_a_problem(clinic: Clinic, content: bytes, said: str) -> None:
    path = clinic.root / "crosswind.db"
    path.write_bytes(content)
    found = about(clinic.examine(Area.STORE), "store")
    assert found.state is Severity.PROBLEM
    assert said in found.sentence


def test_a_store_that_opens_but_is_damaged_within_is_found(clinic: Clinic) -> None:
    path = stored(clinic)
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
    mounts = f"server:/x {clinic.root.resolve()} nfs4 rw 0 0\n"
    found = store_findings(path, clinic.root, mounts=mounts, free=1024)
    assert about(found, "place").state is Severity.PROBLEM
    assert "nfs4" in about(found, "place").sentence
    assert about(found, "space").state is Severity.PROBLEM
    little = store_findings(path, clinic.root, mounts="", free=500 * 1024**2)
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


@pytest.mark.parametrize(("limit", "state"), [(256, Severity.NOTE), (1 << 20, Severity.OK)])
def test_a_small_limit_of_open_files_is_told(
    limit: int, state: Severity, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(resource, "getrlimit", lambda _: (64, limit))
    [found] = [one for one in system_findings() if one.subject == "open files"]
    assert found.state is state
    assert f"{limit - RESERVED} connections at once" in found.sentence
