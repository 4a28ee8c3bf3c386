"""What the calls of a killed engine may have cost is on disk before they are sent."""

from __future__ import annotations

import random
import shutil
from pathlib import Path

import pytest

from engine.store.database import Store, open_store
from engine.store.open_reader import open_reader
from engine.store.tables import UnsettledRow
from engine.store.writer import SPARE, TOO_MUCH, OpenCalls
from tests.engine.store.building import note, run, write


@pytest.mark.parametrize("seed", range(20))
def test_no_call_is_sent_that_the_sum_on_disk_does_not_cover(seed: int) -> None:
    draw, calls = random.Random(seed), OpenCalls()
    waiting, sent, ended = list[float](), list[float](), list[float]()
    on_disk = given = written = 0.0
    for _ in range(2000):
        match draw.choice(("begin", "begin", "end", "commit")):
            case "begin":
                usd = draw.choice((0.01, 0.1, 1.0)) * draw.random()
                (sent if calls.begin(usd, int(written)) else waiting).append(usd)
            case "end" if sent:
                given += 1
                ended.append(sent.pop(draw.randrange(len(sent))))
                calls.end(ended[-1], int(given))
            case "commit":
                amount = calls.to_store(int(written))
                if amount is not None and draw.random() < 0.9:  # now and then there is no room
                    calls.stored(amount)
                    on_disk = amount
                    sent += waiting
                    waiting.clear()
                written = given
                ended.clear()
        assert sum(sent) + sum(ended) <= on_disk + 1e-9
    calls.to_store(int(written))
    at_rest = calls.to_store(int(written))
    assert at_rest is None or at_rest <= on_disk * SPARE * TOO_MUCH


def killed(store: Store, name: str) -> Path:
    """What is left of the store if its engine is killed now: a copy of it is nobody's."""
    path = store.path.with_name(name)
    for suffix in ("", "-wal"):
        shutil.copy(store.path.with_name(store.path.name + suffix), path.with_name(name + suffix))
    return path


def unsettled(path: Path) -> float:
    reader = open_reader(path)
    try:
        return reader.unsettled_usd()
    finally:
        reader.close()


def test_what_was_under_way_is_known_after_a_kill_until_it_is_settled(store: Store) -> None:
    run(store.begin_call(2.0))
    assert store.reader.unsettled_usd() == 0, "they are not cut off while the engine lives"
    path = killed(store, "killed.db")
    assert 2.0 <= unsettled(path) <= 2.0 * SPARE
    store.end_call(2.0)
    write(store, note())
    write(store, note())
    assert unsettled(killed(store, "ended.db")) == 0

    with open_store(path) as again:
        most = again.reader.unsettled_usd()
        assert most == unsettled(path) == pytest.approx(2.0 * SPARE)
        write(again, UnsettledRow(most_usd=0.5))
        assert again.reader.unsettled_usd() == pytest.approx(most + 0.5)
        assert again.reader.spent_usd() == 0
        write(again, UnsettledRow(most_usd=most + 0.5, counted_usd=1.25))
        assert again.reader.unsettled_usd() == 0
        assert again.reader.spent_usd() == 1.25
    with open_store(path) as closed_well:
        assert closed_well.reader.unsettled_usd() == 0
