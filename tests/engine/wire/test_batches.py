"""Calls in batches: half the price, nothing twice, whatever becomes of the provider or engine."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml

from engine.config.schema import load_config
from engine.config.workspace import Workspace
from engine.pipeline.batch_ledger import batch_lines
from engine.pipeline.order import Order
from engine.pipeline.run import Pipeline, RunResult
from engine.providers.batches import queue
from engine.store.database import open_store
from tests.approval import approve
from tests.engine.commands import crosswind
from tests.engine.wire.batched import NAME, asked, full_price, judged_usd, prepare, verdicts
from tests.engine.wire.workplace import BOTH_PROTOCOLS, VARIABLES, SleptTime, Workplace
from tests.killing.batches import kill_at
from tests.pipelines import run_once
from tests.protocol_server.batches import BatchFault
from tests.protocol_server.faults import Fault, nth
from tests.protocol_server.server import ProtocolServer


@pytest.fixture(autouse=True)
def _hurried(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(queue, "PACE", replace(queue.PACE, unsure_s=0.05))


@BOTH_PROTOCOLS
def test_verdicts_in_a_batch_are_as_others_and_cost_half(place: Workplace, tmp_path: Path) -> None:
    plain = Workplace(tmp_path / "plain", place.server, source=place.source)
    prepare(plain, batch=False)
    assert not plain.run(NAME).failed
    place.server.reset()
    prepare(place)
    assert not place.run(NAME).failed
    [batch] = place.server.batches.submitted
    assert len(batch.calls) == 3
    assert verdicts(place) == verdicts(plain)
    assert judged_usd(place) == pytest.approx(full_price(place) / 2)
    assert judged_usd(place) == pytest.approx(judged_usd(plain) / 2)
    with place.reader() as reader, plain.reader() as other:
        for one in (reader, other):
            assert one.unsettled_usd() == 0
        ours = [reader.verdicts(take.seq)[0].depends for take in reader.takes(NAME)]
        assert ours == [other.verdicts(take.seq)[0].depends for take in other.takes(NAME)]
        assert not [stored for stored in reader.batches() if stored.is_open]
        notes = [note.text for note in reader.snapshot().notes if "document" in note.text]
        assert not notes


@BOTH_PROTOCOLS
@pytest.mark.parametrize("fault", list(BatchFault))
def test_whatever_goes_wrong_with_a_batch_nothing_is_judged_twice(
    place: Workplace, fault: BatchFault
) -> None:
    prepare(place)
    place.server.batches.faults = {1: fault}
    result = place.run(NAME)
    if fault is BatchFault.REFUSED:
        assert result.failed == 3, "a request that is not accepted is not sent again"
        assert not place.server.batches.submitted
        assert not place.run(NAME).failed
    else:
        assert not result.failed
    assert len(verdicts(place)) == 3 + result.failed
    assert set(asked(place).values()) == {1}
    assert judged_usd(place) == pytest.approx(full_price(place) / 2)


def test_a_failed_call_is_made_again_in_the_next_batch(place: Workplace) -> None:
    prepare(place)
    place.server.plan(Fault.SERVER_ERROR, "evaluator", nth(2))
    place.server.plan(Fault.PROSE, "evaluator", nth(2))
    assert not place.run(NAME).failed
    assert [len(batch.calls) for batch in place.server.batches.submitted] == [3, 2]
    assert len(verdicts(place)) == 3


def test_with_first_what_is_asked_again_has_the_full_price(place: Workplace) -> None:
    prepare(place, batch="first")
    place.server.batches.faults = {1: BatchFault.EXPIRES}
    assert not place.run(NAME).failed
    assert len(place.server.batches.submitted) == 1
    assert set(asked(place).values()) == {1}
    assert full_price(place) / 2 < judged_usd(place) < full_price(place)


def test_a_batch_outlives_the_engine_that_submitted_it(tmp_path: Path) -> None:
    kill_at(tmp_path / "workspace", "openai", ["batch-submitted:2"])


def test_two_batches_that_may_be_there_are_told_apart_by_their_calls(
    monkeypatch: pytest.MonkeyPatch, server: ProtocolServer, tmp_path: Path
) -> None:
    monkeypatch.setattr(queue, "PACE", replace(queue.PACE, most_calls=2))
    place = Workplace(tmp_path / "workspace", server, source="anthropic")
    prepare(place, metrics=4)
    server.batches.looks = 3  # the first that is looked for finds both over
    server.batches.faults = dict.fromkeys((1, 2), BatchFault.LOST_REPLY)
    assert not place.run(NAME).failed
    assert [len(batch.calls) for batch in server.batches.submitted] == [2, 2]
    assert set(asked(place).values()) == {1}


def run_until(
    place: Workplace, is_time: Callable[[Pipeline], bool], *, cancel: bool = False, **order: Any
) -> list[str]:
    """Run until it is time, and stop; with `cancel` at once, as `stop --now`. Return what the calls
    waited for then."""
    said: list[str] = []
    loop_now: list[asyncio.Task[RunResult]] = []

    def look(_number: int) -> None:
        if not said and is_time(pipeline):
            said.extend(str(held) for held in pipeline.models.held().values())
            pipeline.drain()
            if cancel:
                pipeline.cancel_batches()
                loop_now[0].cancel()

    async def run() -> None:
        loop_now.append(asyncio.create_task(run_once(pipeline, Order((NAME,), **order))))
        with suppress(asyncio.CancelledError):
            assert (await loop_now[0]).stopped

    with open_store(place.root / "crosswind.db") as store:
        pipeline = Pipeline(
            Workspace(place.root),
            load_config(place.root / "config.yaml"),
            store.reader,
            store,
            environ=VARIABLES,
            clock=SleptTime(look, place.time.is_said).as_clock(),
            retry_policy=place.retry_policy,
        )
        asyncio.run(run())
    return said


def is_out(place: Workplace) -> Callable[[Pipeline], bool]:
    return lambda _: any(batch.looks > 1 for batch in place.server.batches.submitted)


def lines(place: Workplace) -> list[str]:
    """What is said of batches, without times and prices."""
    with place.reader() as reader:
        said = " | ".join(batch_lines(reader))
    return re.sub(r"\d\d \w{3} \d\d:\d\d|\$[\d.]+", "…", said).split(" | ")


def test_a_run_that_is_stopped_leaves_its_batch_to_the_next(place: Workplace) -> None:
    prepare(place)
    place.server.batches.held = True
    [said] = run_until(place, is_out(place))
    approve(re.sub(r"\d\d \w{3} \d\d:\d\d", "…", said))
    told = "3 calls to evaluator in a batch since … UTC, until … UTC at the latest (up to …)"
    assert lines(place) == [told]
    status = crosswind(place.root, "status").words
    listed = crosswind(place.root, "status", "--json").json()["batches"]
    before = crosswind(place.root, "run", "--dry-run").words
    for words in (status, *listed, before):
        assert told in re.sub(r"\d\d \w{3} \d\d:\d\d|\$[\d.]+", "…", words)
    with place.reader() as reader:
        assert reader.unsettled_usd() == 0, "what is out is not cut off"
    place.server.batches.held = False
    assert not place.run(NAME).failed
    assert len(place.server.batches.submitted) == 1
    assert lines(place) == [""]
    assert judged_usd(place) == pytest.approx(full_price(place) / 2)


def test_what_is_out_counts_against_the_budget_until_it_is_asked_for_again(
    place: Workplace,
) -> None:
    prepare(place)
    place.server.batches.held = True
    run_until(place, is_out(place))
    with place.reader() as reader:
        most = reader.spent_usd() + sum(batch.most_usd for batch in reader.batches())
    config = place.root / "config.yaml"
    keys = yaml.safe_load(config.read_text("utf-8")) | {"workspace_budget": most + 1e-6}
    keys["generator_model"] = keys["evaluator_model"]
    written = json.dumps(keys)
    other = {**keys["evaluator_model"], "params": {"temperature": 0.5}}
    config.write_text(json.dumps(keys | {"evaluator_model": other}), "utf-8")
    assert place.run(NAME).stopped, "another judge has no room beside it"
    assert len(place.server.batches.submitted) == 1
    config.write_text(written, "utf-8")
    place.server.batches.held = False
    result = place.run(NAME)
    assert not result.failed
    assert not result.stopped
    assert len(place.server.batches.submitted) == 1
    assert judged_usd(place) == pytest.approx(full_price(place) / 2)


def test_what_is_cancelled_is_submitted_by_the_next_run(place: Workplace) -> None:
    prepare(place)
    place.server.batches.held = True
    run_until(place, is_out(place), cancel=True)
    [batch] = place.server.batches.submitted
    assert batch.is_cancelled
    place.server.batches.held = False
    assert not place.run(NAME).failed
    assert len(place.server.batches.submitted) == 2
    assert set(asked(place).values()) == {1}


def test_a_batch_that_may_be_there_is_submitted_again_only_if_a_person_says_so(
    server: ProtocolServer, tmp_path: Path
) -> None:
    place = Workplace(tmp_path / "workspace", server, source="anthropic")
    prepare(place)
    server.batches.held = True
    server.batches.faults = {1: BatchFault.LOST_REPLY}
    [said] = run_until(place, is_out(place))
    approve(re.sub(r"\d\d \w{3} \d\d:\d\d", "…", said))
    [line] = lines(place)
    approve(line)
    server.batches.held = False
    for batch in server.batches.submitted:
        batch.looks = -1_000_000
    assert not place.run(NAME, resubmit=True).failed
    assert len(server.batches.submitted) == 2
    with place.reader() as reader:
        assert reader.counted_usd() > 0, "both may be billed"
    assert lines(place) == [""]
