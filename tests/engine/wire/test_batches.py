"""Calls in batches: half the price, nothing twice, whatever becomes of the provider or engine."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from engine.providers.batches import queue
from tests.engine.wire.batched import NAME, asked, full_price, judged_usd, prepare, verdicts
from tests.engine.wire.workplace import Workplace
from tests.killing.batches import kill_at
from tests.protocol_server.batches import BatchFault
from tests.protocol_server.faults import Fault, nth


@pytest.fixture(autouse=True)
def _hurried(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(queue, "PACE", replace(queue.PACE, unsure_s=0.05))


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


@pytest.mark.parametrize("source", ["openai", "anthropic"])
def test_a_batch_outlives_the_engine_that_submitted_it(source: str, tmp_path: Path) -> None:
    kill_at(tmp_path / "workspace", source, ["batch-intended", "batch-submitted:2"])
