"""A run stops before it costs more than it may."""

from __future__ import annotations

from typing import Any

import pytest

from engine.benchmark import Role, Stage, Usage
from engine.errors import InputError
from engine.pipeline.budget import Budget
from engine.pipeline.control import Drained
from engine.pipeline.models import open_offline
from engine.providers.model import Finish, Reply


def test_a_call_is_made_while_spent_in_the_air_and_usual_fit() -> None:
    budget = Budget(1.0, first_usd=lambda _role, _model: 0.4)
    with budget.call(Role.USER, "a") as first, budget.call(Role.TARGET, "a"):
        with pytest.raises(Drained), budget.call(Role.EVALUATOR, "a"):
            pass
        first(0.1)
    assert budget.spent_usd == pytest.approx(0.1)
    assert budget.overshoot_usd == pytest.approx(0)
    with budget.call(Role.USER, "a"):
        pass


def test_what_is_usual_is_the_95th_percentile_of_what_the_role_cost_so_far() -> None:
    budget = Budget(None, first_usd=lambda _role, _model: 9.0)
    for number in range(1, 101):
        with budget.call(Role.USER, "a") as spend:
            spend(number / 100)
    assert budget.usual_usd(Role.USER, "a") == pytest.approx(0.96)
    assert budget.usual_usd(Role.TARGET, "a") == 9.0


def test_without_a_limit_nothing_is_refused() -> None:
    budget = Budget(None)
    for _ in range(3):
        with budget.call(Role.USER, "a") as spend:
            spend(1e6)
    with budget.call(Role.USER, "a") as spend:
        spend(None)
    assert budget.spent_usd == pytest.approx(3e6)


class Priced:
    """A scripted model whose calls cost a cent each."""

    def __init__(self, spec: Any) -> None:
        self._model = open_offline(spec)
        self.label = self._model.label
        self.scripted = True

    async def reply(self, *given: Any, **more: Any) -> Reply:
        reply = await self._model.reply(*given, **more)
        return Reply(reply.text, Finish.STOP, Usage(1, 10, 0, 10, 0.01))


def test_a_run_ends_within_its_budget_and_the_next_goes_on(place: Any) -> None:
    place.edit(place.config, "run: {", "run: {budget: 0.5, ")
    result = place.heard_by(Priced).run()
    assert result.stopped
    with place.reader() as reader:
        spent = sum(
            (reader.usage("giving-in", stage).cost_usd or 0)
            for stage in (Stage.GEN_SCENARIOS, Stage.SIMULATE, Stage.EVALUATE)
        )
        notes = [note.text for note in reader.snapshot().notes]
    assert 0.3 < spent <= 0.5 + 1e-9
    assert any("budget of $0.50" in note for note in notes)
    while place.heard_by(Priced).run().stopped:
        pass
    assert len(place.json("runs", "holds", "scores.json")) == 8


def test_a_budget_needs_every_price(place: Any) -> None:
    place.edit(place.config, "run: {", "run: {budget: 0.5, ")
    place.edit(
        place.config,
        "model: steadfast, source: offline,",
        "model: nobody-knows, source: openai, base_url: 'http://127.0.0.1:9', apikey: '${K}',",
    )
    text = place.config.read_text().replace(
        "params: {pace: instant}}\n  - {id: wavers", "}\n  - {id: wavers"
    )
    place.config.write_text(text)
    with pytest.raises(InputError, match=r"targets\[0\].*price"):
        place.run()
