"""An engine that is asked for things while it is at work, on a real store."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from engine.benchmark import ConversationKey, Stage, State
from engine.config.schema import ModelSpec, load_config
from engine.config.workspace import Workspace
from engine.errors import ModelError, StoreError
from engine.link import Command, EngineState, Request, Response, WorkRow
from engine.people import LabelRequest, SampleDraw
from engine.pipeline.models import open_offline
from engine.pipeline.order import Order
from engine.pipeline.run import Pipeline, RunResult
from engine.providers.model import JsonSchema, Message, Model, OnText, Reply
from engine.service.engine import Engine
from engine.store.database import Store, open_store
from tests.approval import approve
from tests.engine.small_workspace import Place, small_workspace
from tests.waiting import PATIENCE_S

BENCHMARK = "giving-in"
WHOLE = Order((BENCHMARK,))
HELD = ConversationKey("m01_s001_v01", "holds")
WAVERED = ConversationKey("m02_s002_v02", "wavers")


@dataclass
class Door:
    """Models that answer once they are let through, and fail where that is asked for."""

    open: asyncio.Event = field(default_factory=asyncio.Event)
    failing: set[str] = field(default_factory=set)
    """Names of models that fail."""
    calls: list[str] = field(default_factory=list)

    def __call__(self, spec: ModelSpec) -> Model:
        return _Doored(open_offline(spec), spec.model, self)


@dataclass
class _Doored:
    inside: Model
    name: str
    door: Door

    @property
    def label(self) -> str:
        return self.inside.label

    @property
    def scripted(self) -> bool:
        return True

    async def reply(
        self,
        messages: Sequence[Message],
        *,
        schema: JsonSchema | None = None,
        seed: int = 0,
        on_text: OnText | None = None,
    ) -> Reply:
        self.door.calls.append(self.name)
        await self.door.open.wait()
        if self.name in self.door.failing:
            raise ModelError("out of order", retryable=True)
        return await self.inside.reply(messages, schema=schema, seed=seed, on_text=on_text)


@dataclass
class House:
    """One workspace, its store, and an engine in it."""

    place: Place
    store: Store
    door: Door
    engine: Engine

    def state(self, stage: Stage, unit: str) -> State:
        return self.store.reader.units(BENCHMARK, stage)[unit].state

    def takes(self, key: ConversationKey) -> int:
        return sum(take.key == key for take in self.store.reader.takes(BENCHMARK))

    def verdicts(self, key: ConversationKey) -> int:
        take = self.store.reader.counting_take(BENCHMARK, key)
        return 0 if take is None else len(self.store.reader.verdicts(take.seq))

    async def until(self, met: Callable[[], bool]) -> None:
        async with asyncio.timeout(PATIENCE_S):
            while not met():  # noqa: ASYNC110  (the store's rows have no event to wait for)
                await asyncio.sleep(0.005)


@contextmanager
def house(root: Path, linger: float, kind: type[Pipeline] = Pipeline) -> Iterator[House]:
    place = small_workspace(root)
    door = Door()
    with open_store(root / "crosswind.db") as store:

        def pipeline() -> Pipeline:
            config = load_config(place.config)
            return kind(Workspace(root), config, store.reader, store, opener=door)

        yield House(place, store, door, Engine(pipeline, linger=linger))


def play(
    root: Path, script: Callable[[House], Awaitable[None]], *, linger: float = 0.0
) -> RunResult:
    """A run of the whole benchmark, and beside it what the script does."""

    async def both(found: House) -> RunResult:
        serving = asyncio.create_task(found.engine.serve(WHOLE))
        try:
            await script(found)
            return await serving
        finally:
            serving.cancel()

    with house(root, linger) as found:
        return asyncio.run(both(found))


async def ask(found: House, command: Command, *keys: ConversationKey, **more: object) -> Response:
    rows = tuple(WorkRow.of(BENCHMARK, key) for key in keys)
    return await found.engine.answer(Request(command, rows=rows, **more))  # type: ignore[arg-type]  # any fields of a request


def test_a_pause_lets_what_is_spoken_finish_and_begins_nothing(tmp_path: Path) -> None:
    async def script(found: House) -> None:
        await found.until(lambda: "generator" in found.door.calls)
        assert (await ask(found, Command.PAUSE)).accepted
        assert found.engine.board().state is EngineState.PAUSED
        found.door.open.set()
        await found.until(lambda: not found.engine.board().speaking)
        assert (await ask(found, Command.PAUSE)).accepted
        assert (await ask(found, Command.RESUME)).text == "running"

    assert play(tmp_path, script) == RunResult(failed=0, stopped=False)


def test_stop_ends_between_two_messages_and_says_so_once_more(tmp_path: Path) -> None:
    async def script(found: House) -> None:
        await found.until(lambda: "generator" in found.door.calls)
        assert (await ask(found, Command.STOP)).accepted
        assert (await ask(found, Command.STOP)).accepted
        assert found.engine.board().state is EngineState.DRAINING
        refused = await ask(found, Command.RETRY)
        assert not refused.accepted
        assert "stopping" in refused.text
        found.door.open.set()

    assert play(tmp_path, script).stopped


def test_stop_now_cuts_off_what_is_spoken(tmp_path: Path) -> None:
    async def script(found: House) -> None:
        await found.until(lambda: "generator" in found.door.calls)
        assert (await ask(found, Command.STOP_NOW)).accepted

    assert play(tmp_path, script).stopped  # though the door never opened


def test_a_conversation_is_judged_again_while_others_still_talk(tmp_path: Path) -> None:
    async def script(found: House) -> None:
        found.door.open.set()
        await found.until(lambda: found.verdicts(HELD) == 1)
        found.door.open.clear()
        answer = await ask(found, Command.EVALUATE, HELD)
        assert answer.accepted, answer.text
        found.door.open.set()
        await found.until(lambda: found.verdicts(HELD) == 2)

    assert not play(tmp_path, script, linger=1.0).stopped


def test_what_is_not_played_yet_is_not_judged(tmp_path: Path) -> None:
    async def script(found: House) -> None:
        await found.until(lambda: "generator" in found.door.calls)
        answer = await ask(found, Command.EVALUATE, HELD)
        assert not answer.accepted
        approve(answer.text)
        found.door.open.set()

    play(tmp_path, script)


def test_a_conversation_is_played_again_as_a_new_take_and_never_twice_at_once(
    tmp_path: Path,
) -> None:
    async def script(found: House) -> None:
        found.door.open.set()
        await found.until(lambda: found.verdicts(WAVERED) == 1)
        found.door.open.clear()
        first = await ask(found, Command.SIMULATE, WAVERED)
        await found.until(lambda: found.takes(WAVERED) == 2)
        second = await ask(found, Command.SIMULATE, WAVERED)
        assert (first.accepted, second.accepted) == (True, True)
        approve(second.text)
        found.door.open.set()
        await found.until(lambda: found.verdicts(WAVERED) == 1 and found.takes(WAVERED) == 2)

    play(tmp_path, script, linger=1.0)


def test_what_failed_is_done_once_more_and_only_that(tmp_path: Path) -> None:
    async def script(found: House) -> None:
        found.door.failing.add("steadfast")
        found.door.open.set()
        await found.until(lambda: found.engine.board().state is EngineState.IDLE)
        assert found.state(Stage.SIMULATE, str(HELD)) is State.FAILED
        refused = await ask(found, Command.RETRY, WAVERED)
        approve(refused.text)
        found.door.failing.clear()
        found.door.calls.clear()
        assert (await ask(found, Command.RETRY, HELD)).accepted
        await found.until(lambda: found.state(Stage.EVALUATE, str(HELD)) is State.DONE)
        assert found.door.calls.count("steadfast") == 2  # one conversation of two turns
        others = await ask(found, Command.RETRY, target="holds")
        assert others.text.startswith("trying 7 again")
        await found.until(lambda: found.engine.board().state is EngineState.IDLE)
        assert (await ask(found, Command.RETRY)).text == "nothing has failed"
        assert "erratic" not in found.door.calls

    assert play(tmp_path, script, linger=0.3).failed == 8


def test_the_board_says_what_is_spent_of_what_and_whether_anybody_speaks(tmp_path: Path) -> None:
    async def script(found: House) -> None:
        await found.until(lambda: "generator" in found.door.calls)
        board = found.engine.board()
        assert (board.spent_usd, board.budget_usd, dict(board.said)) == (0.0, 5.0, {})
        found.place.long_talks()
        found.door.open.set()
        await found.until(lambda: sum(found.engine.board().said.values()) > 0)
        assert set(found.engine.board().said) <= {"holds", "wavers"}

    with house(tmp_path, 0.0) as found:
        found.place.edit(found.place.config, "run: {", "run: {budget: 5, ")

        async def both() -> None:
            serving = asyncio.create_task(found.engine.serve(WHOLE))
            await script(found)
            await serving

        asyncio.run(both())


def test_concurrency_changes_at_once_and_a_wrong_number_is_refused(tmp_path: Path) -> None:
    async def script(found: House) -> None:
        await found.until(lambda: "generator" in found.door.calls)
        less = await ask(found, Command.CONCURRENCY, stage=Stage.SIMULATE, number=1)
        assert less.accepted
        assert found.engine.board().concurrency[Stage.SIMULATE] == 1
        for stage, number in ((Stage.SIMULATE, 0), (Stage.AGGREGATE, 3), (None, 3)):
            refused = await ask(found, Command.CONCURRENCY, stage=stage, number=number)
            assert not refused.accepted
        found.door.open.set()
        most = 0
        while found.engine.board().state is not EngineState.STOPPED:
            most = max(most, len(found.engine.board().speaking))
            await asyncio.sleep(0)
        assert most == 1

    play(tmp_path, script)


def test_another_order_follows_and_the_same_one_is_not_done_twice(tmp_path: Path) -> None:
    async def script(found: House) -> None:
        await found.until(lambda: "generator" in found.door.calls)
        same = await ask(found, Command.RUN, order=WHOLE)
        approve(same.text)
        next_one = Order((BENCHMARK,), stages=frozenset({Stage.AGGREGATE}))
        assert (await ask(found, Command.RUN, order=next_one)).accepted
        assert found.engine.board().benchmarks == (BENCHMARK, BENCHMARK)
        lost = await ask(found, Command.RUN, order=Order(("no-such",)))
        assert not lost.accepted
        assert "no-such" in lost.text
        found.door.open.set()

    assert play(tmp_path, script) == RunResult(failed=0, stopped=False)


def test_an_edited_configuration_counts_from_the_next_order(tmp_path: Path) -> None:
    async def script(found: House) -> None:
        found.door.open.set()
        await found.until(lambda: found.engine.board().state is EngineState.IDLE)
        found.place.edit(found.place.config, "num_samples: 1", "num_samples: 2")
        assert (await ask(found, Command.RUN, order=WHOLE)).accepted
        second = ConversationKey(HELD.scenario_id, HELD.target_id, 1)
        await found.until(lambda: found.verdicts(second) == 1)

    play(tmp_path, script, linger=0.5)


def test_what_breaks_an_order_beside_the_main_one_is_told_though_both_end_at_once(
    tmp_path: Path,
) -> None:
    begun, ready, both = asyncio.Event(), asyncio.Event(), asyncio.Event()

    class EndingAtOnce(Pipeline):
        async def run_order(self, order: Order) -> RunResult:
            result = await super().run_order(order)
            await begun.wait()
            ready.set()
            await both.wait()
            return result

        async def work_beside(self, order: Order) -> int:
            begun.set()
            await both.wait()  # before the main order, so that it ends just before it
            raise StoreError("the disk is gone")

    async def played() -> RunResult:
        serving = asyncio.create_task(found.engine.serve(WHOLE))
        await found.until(lambda: "generator" in found.door.calls)
        found.door.open.set()
        await found.until(lambda: found.verdicts(HELD) == 1)
        assert (await ask(found, Command.EVALUATE, HELD)).accepted
        async with asyncio.timeout(PATIENCE_S):
            await ready.wait()
        both.set()
        return await serving

    with house(tmp_path, 0.0, EndingAtOnce) as found, pytest.raises(StoreError, match="disk"):
        asyncio.run(played())


@pytest.mark.parametrize("first", ["pause", "trouble"])
def test_the_end_of_a_trouble_leaves_a_persons_pause(tmp_path: Path, first: str) -> None:
    async def script(found: House) -> None:
        await found.until(lambda: "generator" in found.door.calls)
        if first == "trouble":
            found.engine.trouble("disk is full")
        assert (await ask(found, Command.PAUSE)).accepted
        found.engine.trouble("disk is full")
        found.engine.trouble(None)
        assert found.engine.board().state is EngineState.PAUSED
        assert (await ask(found, Command.RESUME)).accepted
        found.door.open.set()

    play(tmp_path, script)


def test_the_same_conversation_asked_for_twice_before_it_begins_is_played_once(
    tmp_path: Path,
) -> None:
    async def script(found: House) -> None:
        found.door.open.set()
        await found.until(lambda: found.engine.board().state is EngineState.IDLE)
        found.door.open.clear()
        first, second = await asyncio.gather(
            ask(found, Command.SIMULATE, WAVERED), ask(found, Command.SIMULATE, WAVERED)
        )
        approve(first.text)
        approve(second.text)
        found.door.open.set()
        await found.until(lambda: found.verdicts(WAVERED) == 1 and found.takes(WAVERED) == 2)

    play(tmp_path, script, linger=1.0)


def test_what_is_accepted_while_files_are_written_at_the_end_is_done(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    may_write, written = asyncio.Event(), []

    async def mirror(_engine: Engine, _pipeline: Pipeline, benchmark: str) -> None:
        await may_write.wait()
        written.append(benchmark)

    monkeypatch.setattr(Engine, "_mirror", mirror)
    draw = LabelRequest(BENCHMARK, SampleDraw(1, "7", "Ann", "ann@here"))

    async def script(found: House) -> None:
        found.door.open.set()
        await found.until(lambda: found.verdicts(WAVERED) == 1)
        assert (await ask(found, Command.LABEL, labels=draw)).accepted
        await found.until(lambda: found.engine.board().state is EngineState.IDLE)
        assert (await ask(found, Command.LABEL, labels=draw)).accepted
        assert (await ask(found, Command.SIMULATE, WAVERED)).accepted
        may_write.set()
        await found.until(lambda: found.takes(WAVERED) == 2)

    play(tmp_path, script)
    assert written == [BENCHMARK, BENCHMARK]
