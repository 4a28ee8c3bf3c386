"""A key and a header's value are in no file of a workspace and on no stream of the command."""

from __future__ import annotations

import base64
import os
import subprocess
import sys
from pathlib import Path
from typing import Final
from urllib.parse import quote

from tests.engine.wire.workplace import (
    CANARY,
    HEADER_CANARY,
    VARIABLES,
    Workplace,
    metric,
    scenario,
)
from tests.protocol_server.faults import Detail, Fault, always, first
from tests.protocol_server.server import ProtocolServer
from tests.protocol_server.settings import Settings
from tests.waiting import PATIENCE_S

ROOT: Final = Path(__file__).parents[3]
# each ends a call at once, or passes after one short wait
STRUCK: Final = {
    Fault.ECHOES_KEY: False,
    Fault.UNAUTHORIZED: False,
    Fault.BAD_REQUEST: False,
    Fault.FORBIDDEN: False,
    Fault.REDIRECT: False,
    Fault.REJECTS_PARAMETER: False,
    Fault.REFUSAL: False,
    Fault.HUGE_EVENT: False,
    Fault.ERROR_EVENT: True,
    Fault.RESET_MIDWAY: True,
    Fault.HTML: True,
    Fault.BAD_UTF8: True,
    Fault.RATE_LIMITED_SECONDS: True,
    Fault.SERVER_ERROR: True,
}
"""Whether only the first call is struck."""
SPELLINGS: Final = [
    spelled.encode()
    for secret in (CANARY, HEADER_CANARY)
    for spelled in (
        secret,
        secret[:12],
        secret[-8:],
        quote(secret, safe=""),
        base64.b64encode(secret.encode()).decode()[4:24],
        secret.encode().hex(),
    )
]
COMMAND: Final = """
import logging, sys
logging.basicConfig(level=logging.DEBUG)
from engine.cli.main import main
sys.exit(main(sys.argv[1:]))
"""


PROTOCOLS: Final = {
    "chat": ("openai", None),
    "responses": ("openai", "responses"),
    "messages": ("anthropic", None),
}


def test_no_fault_leaves_a_secret_anywhere(tmp_path: Path) -> None:
    root = tmp_path / "workspace"
    names = {
        (fault, protocol): f"{protocol}-{fault.value.replace('_', '-')}"
        for fault in STRUCK
        for protocol in PROTOCOLS
    }
    aliases = dict.fromkeys(names.values(), "steadfast")
    with ProtocolServer(Settings(aliases=aliases)) as server:
        place = Workplace(root, server, headers=True)
        targets = []
        for (_, protocol), name in names.items():
            source, api = PROTOCOLS[protocol]
            # a temperature, for there to be a parameter that can be refused
            model = place.model(name, source, params={"temperature": 0.5}, api=api)
            targets.append({"id": name, **model})
        place.configure(targets, turns=1, simulate=42, evaluate=42)
        place.define("bread", "About bread.", [metric(1, "Honest.")])
        place.stage("bread", [scenario(1, turns=1)])
        for (fault, _), name in names.items():
            when = first if STRUCK[fault] else always
            server.plan(fault, name, when, Detail(after=2, retry_after="0.2"))
        done = subprocess.run(
            [sys.executable, "-c", COMMAND, "run", "--headless", "--yes", "--workspace", str(root)],
            env={**os.environ, **VARIABLES, "CROSSWIND_DEBUG": "1", "PYTHONASYNCIODEBUG": "1"},
            cwd=ROOT,
            capture_output=True,
            check=False,
            timeout=PATIENCE_S,
        )
        assert done.returncode == 1, done.stderr
        assert {request.headers["x-own-key"] for request in server.requests} == {HEADER_CANARY}
        assert {request.key for request in server.requests} == {CANARY}
        assert set(server.counters.by_outcome) >= {fault.value for fault in STRUCK}
    assert b"DEBUG" in done.stderr
    kept = {str(path): path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    assert any(name.endswith("crosswind.db") for name in kept)
    for name, content in {**kept, "stdout": done.stdout, "stderr": done.stderr}.items():
        assert [spelled for spelled in SPELLINGS if spelled in content] == [], name
