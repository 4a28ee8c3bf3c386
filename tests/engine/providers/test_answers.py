"""Every answer of the corpus, in pieces of every size, and answers to nothing."""

from __future__ import annotations

import asyncio

import pytest

from engine.providers.http.pool import ConnectionPool
from tests.engine.providers.answers import ALL, SEGMENTATIONS, Outcome, outcomes, stale_answers
from tests.waiting import PATIENCE_S


@pytest.mark.exhaustive
def test_every_answer_is_read_to_its_end_or_refused_in_whatever_pieces_it_comes() -> None:
    found = asyncio.run(outcomes(ConnectionPool, PATIENCE_S))
    assert len(found) == len(ALL) * len(SEGMENTATIONS)
    assert {case: outcome for case, outcome in found.items() if outcome is not Outcome.RIGHT} == {}


@pytest.mark.parametrize("idle", [True, False], ids=["idle", "at once"])
def test_an_answer_to_nothing_is_never_taken_for_that_to_the_next_request(idle: bool) -> None:
    assert asyncio.run(stale_answers(ConnectionPool, 50, idle=idle)) == 0
