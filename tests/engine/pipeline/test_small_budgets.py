"""A budget that is too small for all conversations finishes some, instead of beginning many."""

from __future__ import annotations

from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

import pytest

from engine.store.open_reader import open_reader
from tests.engine.pipeline.timed_run import NAME, TimedRun

CONVERSATIONS = 30


@dataclass
class Bought:
    """What the money of a run went into."""

    judged: int
    begun: int
    """Conversations that are begun and not judged."""
    usd: float
    notes: list[str]


def bought(run: TimedRun) -> Bought:
    run.run()
    with closing(open_reader(run.root / "crosswind.db")) as reader:
        takes = reader.takes(NAME)
        judged = sum(bool(reader.verdicts(take.seq)) for take in takes)
        notes = [note.text for note in reader.snapshot().notes]
        return Bought(judged, len(takes) - judged, reader.spent_usd(), notes)


@pytest.fixture(scope="module")
def each_usd(tmp_path_factory: pytest.TempPathFactory) -> float:
    """What one conversation costs, its verdict included."""
    run = TimedRun(tmp_path_factory.mktemp("all"), 8, simulate=8, evaluate=8, budget=1000.0)
    return bought(run).usd / 8


@pytest.mark.parametrize(("enough_for", "at_once"), [(5, 40), (20, 4)])
def test_a_budget_for_some_conversations_has_nearly_as_many_judged(
    tmp_path: Path, each_usd: float, enough_for: int, at_once: int
) -> None:
    budget = enough_for * each_usd
    run = TimedRun(tmp_path, CONVERSATIONS, simulate=at_once, evaluate=at_once, budget=budget)
    found = bought(run)
    assert found.usd <= budget
    assert enough_for - 2 <= found.judged <= enough_for
    assert found.begun <= 2
    told = "are left, which is likely to be enough for the conversations that are open"
    assert sum(told in note for note in found.notes) == 1


def test_the_next_run_finishes_first_what_was_begun(tmp_path: Path, each_usd: float) -> None:
    run = TimedRun(tmp_path, CONVERSATIONS, simulate=8, evaluate=8, budget=5 * each_usd)
    first = bought(run)
    assert first.begun
    second = bought(run)
    assert second.begun <= first.begun
    assert second.judged >= first.judged + 3


def test_a_budget_that_is_enough_for_all_holds_nothing_up(tmp_path: Path, each_usd: float) -> None:
    run = TimedRun(tmp_path, 16, simulate=16, evaluate=16, budget=100 * each_usd)
    found = bought(run)
    assert found.judged == 16
    assert run.most["simulate"] == 16
    assert not [note for note in found.notes if "run.budget" in note]
