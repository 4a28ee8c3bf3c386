"""What `run` says of its price, on a terminal and without one: a real server, and real processes
wherever a terminal, an engine of its own or a second command at the same time has a part in it."""

from __future__ import annotations

import io
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from engine.benchmark import Role, Usage
from engine.cli import headless
from engine.cli.lines import FailureNews, LinePrinter
from engine.cli.session import Session
from engine.config.schema import load_config
from engine.config.workspace import Workspace
from engine.errors import STOPPED
from engine.link import Board, EngineState
from engine.pipeline.order import Order
from engine.pipeline.run import RunResult
from engine.store.database import Store, open_store
from engine.store.tables import UnsettledRow
from engine.watch import Watch
from tests.approval import approve, lines_with
from tests.engine.cli.test_labelling import engine_at_work
from tests.engine.commands import Said, Somebody, crosswind, printed_data
from tests.engine.pipeline.test_provenance import answered
from tests.engine.small_workspace import Place
from tests.engine.store.building import note, write
from tests.engine.wire.workplace import VARIABLES, Workplace, metric, scenario
from tests.protocol_server.server import ProtocolServer
from tests.protocol_server.settings import Settings
from tests.tui.terminal import Terminal
from tests.waiting import PATIENCE_S, until

NAME = "bread"
UNIT = "m01_s001_v01__talker"
DEFINITION = "The assistant leaves the decision to the person and asks what they think."
PRICE = {"input": 3.0, "output": 15.0}
BRIEF, LONG = "words-20", "words-900"
SIZE = (200, 50)


@dataclass
class Study:
    """A workspace with prices, whose one target writes as much as a test wants."""

    place: Workplace
    server: ProtocolServer

    def configure(self, *, scenarios: int, **changes: Any) -> None:
        roles = {
            f"{role}_model": self.place.model(role, price={**PRICE})
            for role in ("user", "evaluator", "generator")
        }
        target = {"id": "talker", **self.place.model("talker", price={**PRICE})}
        one_at_a_time = {"run": {"concurrency": {"simulate": 1, "evaluate": 1}}}
        self.place.configure([target], **{**roles, **one_at_a_time, **changes})
        metrics = [metric(number, DEFINITION) for number in range(1, scenarios + 1)]
        self.place.define(NAME, "Whether an assistant keeps telling what it thinks.", metrics)
        self.place.stage(NAME, [scenario(number) for number in range(1, scenarios + 1)])

    def replies(self, model: str) -> None:
        self.server.settings = Settings(aliases={"talker": model})

    @property
    def config(self) -> Path:
        return self.place.root / "config.yaml"

    @property
    def where(self) -> list[str]:
        return ["--workspace", str(self.place.root)]

    def __call__(self, *words: str) -> Said:
        """A command without a terminal, in this process."""
        return crosswind(self.place.root, *words)

    def terminal(self, *words: str) -> Terminal:
        return Terminal(None, SIZE, [*words, *self.where], ("-m", "tui"), **VARIABLES)

    def spent(self) -> float:
        with self.place.reader() as reader:
            return reader.spent_usd()

    def grows_dear(self) -> None:
        """What is left is quoted from short replies, and the next ones are long."""
        self.replies(BRIEF)
        self.configure(scenarios=12)
        assert not self.place.run(NAME).failed
        self.configure(scenarios=24)
        self.replies(LONG)


@pytest.fixture
def study(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Study]:
    for name, value in VARIABLES.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(sys, "stdin", io.StringIO())
    with ProtocolServer() as server:
        found = Study(Workplace(tmp_path / "workspace", server), server)
        found.replies(BRIEF)
        yield found
        if Session(Workspace(found.place.root), load_config(found.config)).holder() is not None:
            found("stop", "--now", "--wait")


def dollars(pattern: str, text: str) -> list[float]:
    """What stands where the pattern has `$`."""
    where = re.escape(pattern).replace(r"\$", r"\$(\d+\.\d\d)")
    found = re.search(where, text)
    assert found is not None, f"{pattern} is not in\n{text}"
    return [float(group) for group in found.groups()]


def test_a_price_tells_why_it_is_wide_until_its_models_were_called(study: Study) -> None:
    study.configure(scenarios=6)
    why = "wide until each model was called 5 times in its role"
    before = study("run", "--dry-run").out
    assert why in before
    assert not (study.place.root / "crosswind.db").exists()
    assert study("run", "--headless", "--yes").code == 0
    study.configure(scenarios=12)
    after = study("run", "--dry-run").out
    assert why not in after
    approve(after)
    (expected, high), (likely, most) = (
        dollars("about $ (at most $)", text[text.index("all together") :])
        for text in (before, after)
    )
    assert most / likely < high / expected


def test_a_plan_begins_with_the_calls_of_its_benchmark_and_the_stage_that_decides_how_many(
    study: Study,
) -> None:
    def first_and_total() -> tuple[str, str]:
        first, *_, total = (
            line
            for line in study("run", "--dry-run").out.splitlines()
            if line.startswith((f"{NAME}: ", "all together: "))
        )
        return first, total.removeprefix("all together: ").partition(", ")[0]

    study.configure(scenarios=1)
    first, calls = first_and_total()
    assert first == f"{NAME}: {calls}"
    (study.place.folder(NAME) / "scenarios.json").unlink()
    first, calls = first_and_total()
    assert first == f"{NAME}: {calls}, gen_scenarios first"


def test_a_run_that_nobody_can_be_asked_of_says_where_it_stops(study: Study) -> None:
    study.grows_dear()
    before = study.spent()
    ended = study("run", "--headless")
    assert ended.code == 3
    [most] = dollars("it begins, and stops before it costs more than $", ended.err)
    [agreed, spent, rest] = dollars(
        "at most $ were agreed to, $ are spent, and the rest is expected to cost about $",
        ended.err,
    )
    assert agreed == most
    assert spent == pytest.approx(study.spent() - before, abs=0.006)
    assert spent + rest >= most
    assert study.spent() - before <= most + 0.006
    # the next one quotes what is left, and with a yes beforehand it comes to its end
    assert study("run", "--headless", "--yes").code == 0


class EngineThatAsks:
    """Its question can be seen before the note that says why is in the store, which comes while it
    is looked at the third time."""

    question = "this run is likely to cost more than was agreed to"
    error = None
    result = RunResult(failed=0, stopped=False)

    def __init__(self, store: Store) -> None:
        self._store = store
        self._looks = 0

    def start(self) -> None:
        """It runs already."""

    close = start

    def join(self, _seconds: float) -> bool:
        self._looks += 1
        if self._looks == 3:
            write(self._store, note(self.question))
        return self._looks > 4

    def board(self) -> Board:
        return Board(EngineState.PAUSED, (), question=self.question)


def test_nobody_is_asked_before_they_were_told_why(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    told_before = list[str]()

    def answer(_engine: object) -> None:
        told_before.append(capsys.readouterr().err)

    monkeypatch.setattr(headless, "answer_on_terminal", answer)
    with open_store(tmp_path / "crosswind.db") as store:
        engine: Any = EngineThatAsks(store)
        watch = Watch.open(store.path, [], engine)
        headless._print_until_end(engine, watch, FailureNews(), LinePrinter())
    assert len(told_before) == 1
    assert f"note: {EngineThatAsks.question}" in told_before[0]


@pytest.mark.parametrize("answer", ["y", "n"])
def test_a_run_that_leaves_its_quote_asks_in_the_terminal(study: Study, answer: str) -> None:
    study.grows_dear()
    with study.terminal("run", "--headless", "--plain") as terminal:
        terminal.read_until(b"go on? [y/N]")
        terminal.press_until("y\n", b"likely to cost more than was agreed to")
        terminal.read_until(b"go on? [y/N]", since=terminal.shown.rindex(b"likely to cost more"))
        before, text = study.spent(), seen(terminal)
        [most] = dollars("`crosswind resume` lets it cost up to $", text)
        if answer == "n":
            terminal.press("n\n")
            assert terminal.read_to_the_end() == 3
            assert study.spent() == before
            assert "before the end;" in seen(terminal)
            return
        terminal.press_until("y\n", f"running, for up to ${most:.2f}".encode())
        [spent_then, rest_then] = dollars(
            "$ are spent, and the rest is expected to cost about $", text
        )
        # by measured costs, however wide the first quote was
        assert most <= (spent_then + rest_then) * 1.5 + 0.02
        with suppress(AssertionError):  # it has gone
            while True:
                since = len(terminal.shown)
                terminal.read_some(1.0)
                if b"go on? [y/N]" in terminal.shown[since:]:
                    terminal.press("y\n")
        assert terminal.read_to_the_end() == 0
        # what the rest costs is told by what it costs by then: nobody is asked again and again
        assert seen(terminal).count("likely to cost") <= 3
    assert study.spent() > before


def seen(terminal: Terminal) -> str:
    return " ".join(terminal.shown.decode().split())


def test_while_it_asks_others_are_told_and_may_answer(study: Study) -> None:
    study.grows_dear()
    begun = study.spent()
    with study.terminal("run", "--headless", "--plain") as terminal:
        terminal.read_until(b"go on? [y/N]")
        terminal.press_until("y\n", b"likely to cost more than was agreed to")
        terminal.read_until(b"go on? [y/N]", since=terminal.shown.rindex(b"likely to cost more"))
        told = printed_data(study("status", "--json").out)["engine"]
        said = study("status").out
        low, high, spent, rest = dollars(
            "quoted at $ to $: $ spent, about $ expected to follow", said
        )
        assert (low, high) == (
            round(told["quote"]["low_usd"], 2),
            round(told["quote"]["high_usd"], 2),
        )
        assert spent == pytest.approx(study.spent() - begun, abs=0.006)
        assert rest == pytest.approx(told["rest_usd"], abs=0.006)
        assert told["question"] in said
        # what was begun is not being spoken: it waits for the answer
        assert told["speaking"] == 0
        assert told["waiting_messages"] <= 1
        assert "paused, 0 messages being" in said

        following = subprocess.Popen(
            [sys.executable, "-m", "tui", "evaluate", UNIT, "--yes", *study.where],
            stderr=subprocess.PIPE,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            text=True,
        )
        assert following.stderr is not None
        heard = ""
        while "likely to cost more than was agreed to" not in heard:
            line = following.stderr.readline()
            assert line, heard
            heard += line
        answered = study("stop")
        assert answered.code == 0, answered.err
        terminal.read_until(b"it was answered elsewhere")
        assert terminal.read_to_the_end() == 3
        assert following.wait(PATIENCE_S) == 3
        following.stderr.close()


@pytest.mark.parametrize(
    ("key", "usd", "raised"),
    [
        ("workspace_budget", 0.15, True),
        ("run.budget", 0.05, True),  # no call fits into it
        ("run.budget", 0.15, False),
    ],
)
def test_a_run_that_would_stop_again_at_once_is_not_advised_without_a_higher_budget(
    study: Study, key: str, usd: float, raised: bool
) -> None:
    budget = {"run": {"budget": usd}} if key == "run.budget" else {key: usd}
    study.configure(scenarios=6, **budget)
    told = study("run", "--headless", "--plain", "--yes")
    assert told.code == 3
    approve(lines_with(told.err, "stopped before the"))
    assert (f"the end by `{key}`: raise it" in told.err) is raised
    assert ("raise it in" in study("status").words) is raised
    again = study("run", "--headless", "--plain", "--yes")
    assert (f"`{key}`: raise it" in again.err) is raised


def test_doctor_tells_what_a_budget_has_left(study: Study) -> None:
    study.configure(scenarios=1)
    assert not study.place.run(NAME).failed
    spent = study.spent()
    assert spent > 0.005
    study.configure(scenarios=1, workspace_budget=7.5, run={"budget": 2.25})
    said = study("doctor").out
    assert dollars("more than $ (`run.budget`)", said) == [2.25]
    assert dollars("before $ (`workspace_budget`), $ are", said) == [7.5, round(spent, 2)]
    status = study("status").out
    assert f"before $7.50 (`workspace_budget`), ${spent:.2f} are spent" in status


def cut_off(study: Study, usd: float) -> None:
    """As if an engine had been killed in the midst of calls."""
    with open_store(study.place.root / "crosswind.db") as store:
        write(store, UnsettledRow(most_usd=usd))


def test_calls_that_were_cut_off_are_told_and_counted_as_the_provider_says_or_in_full(
    study: Study,
) -> None:
    study.configure(scenarios=1, workspace_budget=7.5)
    assert not study.place.run(NAME).failed
    recorded = study.spent()
    cut_off(study, 2.5)
    told = "calls that were cut off, as by a kill, may have cost up to $2.50 more"
    status = study("status").out
    assert f"! {told}; `crosswind run` asks" in status
    assert printed_data(study("status", "--json").out)["unsettled_usd"] == 2.5

    study.configure(scenarios=2, workspace_budget=7.5)
    said = study("run", "--headless", "--spent", "$1")
    assert said.code == 0, said.err
    approve(said.err)
    assert told not in said.err
    assert f"cut off ${1 - recorded:.2f}" in study("status").out
    spent = study.spent()
    assert 1 < spent < 1.1
    assert f"the ${spent:.2f} that are recorded" in study("run", "--spent", "0.5").err

    cut_off(study, 2.5)
    study.configure(scenarios=3, workspace_budget=7.5)
    said = study("run", "--headless")
    assert said.code == 0, said.err
    assert f"note: {told}, and are counted" in said.err
    assert spent + 2.5 < study.spent() < spent + 2.6
    assert told not in study("status").out


def test_on_a_terminal_a_run_asks_what_calls_that_were_cut_off_have_cost(
    study: Study, monkeypatch: pytest.MonkeyPatch
) -> None:
    study.configure(scenarios=1)
    told, counted = [], 0.0
    for answer, more in (("y", 2.5), ("1.75", None), ("4.25", 1.75), ("n", 0)):
        cut_off(study, 2.5)
        monkeypatch.setattr(sys, "stdin", Somebody(f"{answer}\nn\n"))  # the last is of the price
        said = study("run", "--headless")
        assert said.code == (2 if more is None else STOPPED)
        told.append(said.err)
        counted += more or 0
        with study.place.reader() as reader:
            assert reader.counted_usd() == counted
    approve("\n".join(told))
    assert not study.server.counters.by_role


def test_a_running_engine_has_spent_null_where_no_price_is_known(place: Place) -> None:
    place.long_talks()
    mock = "{model: mock, source: openai, base_url: 'http://127.0.0.1:9/v1'}"
    place.config.write_text(f"{place.config.read_text()}models: {{mock: {mock}}}\n")
    for before in (0.0, None):
        with engine_at_work(place, Order(("giving-in",))) as engine:
            until(lambda: engine.board().state is EngineState.RUNNING)
            told = crosswind(place.root, "status", "--json").json()["engine"]
        assert told["spent_usd"] == before
        with open_store(place.store) as store:
            call = answered(Role.TARGET, "mock", "mock")
            write(store, replace(call, usage=Usage(1, 9, 0, 9, None)))
