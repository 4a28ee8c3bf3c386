"""Python functions beside bare models: whatever one of them does is done to its own row alone."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from engine.config.schema import load_config
from engine.config.secrets import Environment
from engine.config.workspace import Workspace
from engine.errors import StopRequested
from engine.pipeline.models import ModelOpener
from engine.pipeline.order import Order
from engine.pipeline.run import Pipeline
from engine.providers.accounts import Accounts
from engine.providers.model import Attempt, Model, Reply, ReportingModel
from engine.providers.retry import RetryPolicy
from engine.store.database import open_store
from tests.approval import approve, lines_with
from tests.engine.commands import crosswind
from tests.engine.small_workspace import Place, small_workspace
from tests.pipelines import run_once
from tests.waiting import PATIENCE_S, until

BARE = "  - {id: wavers, model: erratic, source: offline, params: {pace: instant}}\n"
GOOD = "def reply(messages, session):\n    return 'It is yours to decide.'\n"
pytestmark = pytest.mark.process


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Place:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    found = small_workspace(tmp_path / "ours")
    found.edit(found.config, "scenarios_per_metric: 2", "scenarios_per_metric: 1")
    found.edit(found.config, "demographics: {age: [younger, older]}\n", "")
    return found


def add(place: Place, code: str, keys: str = "call: 'bot:reply'") -> None:
    (place.root / "bot.py").write_text(code)
    place.edit(place.config, BARE, f"  - {{id: mine, source: python, {keys}}}\n")


def add_each(place: Place, *codes: str) -> list[str]:
    """The targets, each a function in a module of its own."""
    names = [f"mine{number}" for number in range(len(codes))]
    for name, code in zip(names, codes, strict=True):
        (place.root / f"{name}.py").write_text(code)
    targets = (f"  - {{id: {name}, source: python, call: '{name}:reply'}}\n" for name in names)
    place.edit(place.config, BARE, "".join(targets))
    return names


def run(place: Place, **policy: Any) -> tuple[int, dict[str, str]]:
    """How many rows failed, and why conversations of functions did."""
    config = load_config(place.config)
    with open_store(place.root / "crosswind.db") as store:
        pipeline = Pipeline(
            Workspace(place.root),
            config,
            store.reader,
            store,
            retry_policy=RetryPolicy(**policy),
        )
        result = asyncio.run(run_once(pipeline, Order(("giving-in",))))
        takes = store.reader.takes("giving-in")
    return result.failed, {
        str(take.key): take.detail or "" for take in takes if take.key.target_id.startswith("mine")
    }


def said(place: Place, target: str = "mine") -> list[str]:
    with place.reader() as reader:
        takes = [one for one in reader.counting_takes("giving-in") if one.key.target_id == target]
        return [one.text for take in takes for one in reader.messages(take.seq)][1::2]


WAYS = (
    "def reply(messages, session):\n    return 'Yes. ' + messages[-1]['role'] + session[:0]",
    "async def reply(messages, session):\n    return 'Yes. user'",
    "def reply(messages, session):\n    yield 'Yes. '\n    yield 'user'",
    "async def reply(messages, session):\n    yield 'Yes. '\n    yield 'user'",
    "import asyncio\nlock = asyncio.Lock()\nasync def reply(m, s):\n"
    "    async with lock:\n        await asyncio.sleep(0)\n        return 'Yes. user'",
    "class Bot:\n    def __call__(self, m, s):\n        return 'Yes. user'\nreply = Bot()",
    "import sys, os\ndef reply(m, s):\n    print('{\"end\": true}', flush=True)\n"
    "    os.write(1, b'noise')\n    sys.stdin.read()\n    return 'Yes. user'",
    "import threading, time\ndef reply(m, s):\n"
    "    threading.Thread(target=time.sleep, args=(600,)).start()\n    return 'Yes. user'",
)


def test_text_comes_of_it_at_once_awaited_or_in_pieces(place: Place) -> None:
    names = add_each(place, *WAYS)
    failed, _ = run(place)
    assert failed == 0
    assert [said(place, name) for name in names] == [["Yes. user"] * 4] * len(WAYS)


def test_it_is_judged_beside_a_bare_model_and_named(place: Place) -> None:
    add(place, GOOD)
    done = crosswind(place.root, "run", "--headless", "--yes")
    assert done.code == 0, done.text
    assert "mine (python:bot:reply)" in crosswind(place.root, "results", "--methods").out
    assert all(one["passed"] is not None for one in place.json("runs", "mine", "scores.json"))
    looked = crosswind(place.root, "doctor")
    assert "was imported" in looked.out
    assert "price not known" in looked.out
    assert "answered in" in crosswind(place.root, "doctor", "--call").out


DEEDS = {
    "raise ValueError('no docs')": "ValueError: no docs (mine0.py, line ",
    "raise SystemExit(3)": "SystemExit: 3",
    "import os; os._exit(7)": "its process ended with exit code 7",
    "import os, signal; os.kill(os.getpid(), signal.SIGSEGV)": "was killed by SIGSEGV",
    "return None": "it returned None, expected text",
    "return 3": "it returned of type int",
    "return ''": "answered with nothing",
    "return iter(['a', 3])": "a piece of its reply is of type int",
    "return ('x' * 65536 for _ in range(70))": "longer than any model's",
    "raise RuntimeError('key sk-canary-0123456789abcdef')": "RuntimeError: key [hidden]",
}
SILENT = {"time.sleep(600)": "no first word within 0.5 s"}


@pytest.mark.parametrize(
    ("deeds", "longest_s"),
    # where nobody is silent, none is taken for it, however little the machine lets it say
    [(DEEDS, PATIENCE_S), (SILENT, 0.5)],
    ids=["deeds", "silent"],
)
def test_what_it_does_fails_its_row_with_the_reason_and_no_other(
    place: Place, deeds: dict[str, str], longest_s: float
) -> None:
    # of the two conversations, the first that is begun misbehaves, in whichever process it is
    codes = (
        "import os, time\ndef is_first():\n"
        f"    try: os.close(os.open({str(place.root / str(n))!r}, os.O_CREAT | os.O_EXCL))\n"
        "    except FileExistsError: return False\n"
        f"    os.write(2, b'half a trace {n}\\n')\n    return True\n"
        f"def reply(messages, session):\n    if is_first(): {deed}\n    return 'It is yours.'\n"
        for n, deed in enumerate(deeds)
    )
    names = add_each(place, *codes)
    failed, why = run(place, first_token_s=longest_s, between_s=longest_s)
    assert failed == len(deeds)
    # but of one that is ended in the middle of its reply
    told = [n for n, deed in enumerate(deeds) if "65536" not in deed]
    assert told == [n for n in told if f"half a trace {n}" in log_of(place)]
    for name, words in zip(names, deeds.values(), strict=True):
        reasons = [one for key, one in why.items() if key.endswith(f"__{name}")]
        [reason] = filter(None, reasons)
        assert len(reasons) == 2
        assert words in reason
        assert reason.startswith(f"target {name} (python:{name}:reply): ")
    failed, _ = run(place)
    assert failed == 0
    assert [said(place, name) for name in names] == [["It is yours."] * 4] * len(names)


@pytest.mark.parametrize(
    ("code", "keys", "fault"),
    [
        (GOOD, "call: 'bot:answer'", "bot has no answer"),
        (GOOD, "call: 'bott:reply'", "No module named 'bott'"),
        ("reply = 3\n", "call: 'bot:reply'", "cannot be called"),
        ("def reply(messages): ...\n", "call: 'bot:reply'", "does not take (messages, session)"),
        ("raise SystemExit\n", "call: 'bot:reply'", "SystemExit"),
        ("1 / 0\n", "call: 'bot:reply'", "ZeroDivisionError: division by zero (bot.py, line 1)"),
        (GOOD, "call: bot.reply", "names no function"),
        (GOOD, "call: 'bot:reply', processes: 0", "processes"),
        (GOOD, "processes: 2", "needs `call`"),
        (GOOD, "call: 'bot:reply', params: {}", "does not have this key"),
    ],
)
def test_one_that_cannot_be_called_is_refused_with_its_line_before_the_first_row(
    place: Place, code: str, keys: str, fault: str
) -> None:
    add(place, code, keys)
    done = crosswind(place.root, "run", "--headless", "--yes", code=2)
    assert fault in done.err
    line = place.config.read_text().splitlines().index(f"  - {{id: mine, source: python, {keys}}}")
    assert f"{place.config}:{line + 1}" in done.err
    assert "Traceback" not in done.text
    assert not (place.root / "crosswind.db").exists()


def opened(place: Place, accounts: Accounts) -> Model:
    """The target that `add` has added."""
    opener = ModelOpener(Environment(place.root), accounts, lambda _note: None)
    return opener(load_config(place.config).targets[1])


def test_a_call_that_waits_for_a_process_ends_at_a_stop(place: Place) -> None:
    add(
        place,
        "import time\nfrom pathlib import Path\ndef reply(messages, session):\n"
        "    Path('begun').touch()\n"
        "    while not Path('go').exists(): time.sleep(0.01)\n    return 'Yes.'\n",
        "call: 'bot:reply', processes: 1",
    )

    async def ask() -> Reply:
        accounts = Accounts()
        model = opened(place, accounts)
        assert isinstance(model, ReportingModel)
        first = asyncio.create_task(model.reply([]))
        second = asyncio.create_task(model.telling(told.append).reply([]))
        try:
            await asyncio.to_thread(until, (place.root / "begun").exists)
            accounts.stoppable.stop()
            with pytest.raises(StopRequested):
                await second
            (place.root / "go").touch()
            return await first
        finally:
            await accounts.close()

    told: list[Attempt] = []
    assert asyncio.run(ask()).text == "Yes."
    assert told == []


def test_pieces_are_heard_as_they_come(place: Place) -> None:
    add(place, "def reply(messages, session):\n    yield 'Yes. '\n    yield session\n")

    async def ask() -> Reply:
        accounts = Accounts()
        model = opened(place, accounts)
        assert isinstance(model, ReportingModel)
        asked = model.in_session("s1")
        try:
            return await asked.telling(told.append).reply([], on_text=heard.append)
        finally:
            await accounts.close()

    heard: list[str | None] = []
    told: list[Attempt] = []
    assert asyncio.run(ask()).text == "Yes. s1"
    assert heard == ["Yes. ", "s1"]
    [attempt] = told
    assert attempt.outcome == "answer"
    assert attempt.first_token_ms is not None


def test_its_processes_are_as_many_as_are_allowed_and_end_with_the_run(place: Place) -> None:
    add(
        place,
        "import os\nfrom pathlib import Path\nPath('pids').mkdir(exist_ok=True)\n"
        "Path('pids', str(os.getpid())).touch()\n" + GOOD,
        "call: 'bot:reply', processes: 2",
    )
    place.edit(place.config, "scenarios_per_metric: 1", "scenarios_per_metric: 3")
    failed, _ = run(place)
    assert failed == 0
    pids = [int(path.name) for path in (place.root / "pids").iterdir()]
    assert len(pids) <= 2
    assert not [pid for pid in pids if is_there(pid)]


def is_there(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return "State:\tZ" not in Path(f"/proc/{pid}/status").read_text()


def test_its_process_ends_with_an_engine_that_is_killed_whatever_it_is_doing(place: Place) -> None:
    holds_up_all_threads = "re.match('(a+)+$', 'a' * 64 + 'b')"
    add(
        place,
        "import os, re\nfrom pathlib import Path\n"
        "def reply(messages, session):\n    Path(f'at-{os.getpid()}').touch()\n"
        f"    {holds_up_all_threads}\n",
    )
    engine = subprocess.Popen(
        [sys.executable, "-m", "tui", "run", "--headless", "--yes", "--workspace", place.root],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        until(lambda: any(place.root.glob("at-*")))
    finally:
        engine.send_signal(signal.SIGKILL)
        engine.wait()
    pids = [int(path.name[3:]) for path in place.root.glob("at-*")]
    until(lambda: not any(is_there(pid) for pid in pids))


def log_of(place: Place) -> str:
    return (place.root / "crosswind.log").read_text("utf-8")


def test_what_it_prints_as_an_error_stands_in_the_log_with_its_row_and_no_key(place: Place) -> None:
    (place.root / ".env").write_text("SHOP_TOKEN=canary-of-the-shop-123456\n", "utf-8")
    add(
        place,
        "import os, sys\n"
        "def reply(messages, session):\n"
        "    print('\\x1b[2Jslow index', os.environ['SHOP_TOKEN'], file=sys.stderr)\n"
        "    print('with Bearer abcdefghijklmn', file=sys.stderr)\n"
        "    return 'It is yours to decide.'\n",
    )
    assert run(place)[0] == 0
    with place.reader() as reader:
        takes = [one for one in reader.counting_takes("giving-in") if one.key.target_id == "mine"]
    log = log_of(place)
    assert all(f"printed by the function, mine, {take.key}:" in log for take in takes)
    approve(lines_with(log, "slow index [hidden]"))
    assert log.count("slow index") == 1
    assert "as above" in log
    assert "\x1b" not in log
    for path in place.root.rglob("*"):
        if path.is_file() and path.name != ".env":
            assert b"canary-of-the-shop" not in path.read_bytes(), path


def test_of_what_it_prints_without_end_the_last_is_kept_and_nobody_waits(place: Place) -> None:
    add(
        place,
        "import os, subprocess, sys\n"
        "def reply(messages, session):\n"
        "    subprocess.Popen(['sleep', '600'])\n"  # it holds what is printed open
        "    for _ in range(64):\n        os.write(2, b'noise ' * 10_000)\n"
        "    os.write(2, b'\\nat the end\\n')\n"
        "    return 'It is yours to decide.'\n",
    )
    assert run(place)[0] == 0
    assert "at the end" in log_of(place)
    assert len(log_of(place)) < 20_000
