"""Workspaces in states that a person's acts, faults and interruptions leave at random."""

from __future__ import annotations

import itertools
import json
import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from engine.benchmark import Stage
from engine.errors import ModelError
from engine.pipeline.models import open_offline
from engine.providers.model import Message, Model, Reply
from tests.engine.commands import crosswind
from tests.engine.small_workspace import CONFIG, Place, small_workspace
from tests.models import Overheard, ScriptedModel

CHECKED = "models: {looker: {model: evaluator-strict, source: offline, params: {pace: instant}}}\n"
ROLES = ("generator", "user", "steadfast", "evaluator", "evaluator-strict")


class _Failing:
    """A model of which one call in a few fails, or answers without the form."""

    def __init__(self, model: Model, dice: random.Random) -> None:
        self._model, self._dice = model, dice
        self.label, self.scripted = model.label, model.scripted

    async def reply(self, messages: Sequence[Message], **how: Any) -> Any:
        match self._dice.randrange(4):
            case 0:
                raise ModelError("503: nobody answers", retryable=True)
            case 1:
                return await ScriptedModel(lambda _: "?").reply(messages, **how)
            case _:
                return await self._model.reply(messages, **how)


def with_faults(place: Place, dice: random.Random) -> Place:
    """The place, with models of a few roles that fail now and then."""
    faulty = dice.sample(ROLES, 2)
    return place.heard_by(
        lambda spec: (
            _Failing(open_offline(spec), dice) if spec.model in faulty else open_offline(spec)
        )
    )


def _edited(place: Place, dice: random.Random) -> None:
    path = place.folder / "scenarios.json"
    rows = json.loads(path.read_text()) if path.exists() else []
    if not rows:
        return
    match dice.randrange(3):
        case 0:
            del rows[dice.randrange(len(rows))]
        case 1:
            dice.choice(rows)["persona"] = "Somebody else."
        case _:
            rows.append({**rows[0], "id": f"m01_s009_v{dice.randint(1, 2):02d}"})
    path.write_text(json.dumps([*{row["id"]: row for row in rows}.values()]))


def _rejected(place: Place, dice: random.Random) -> None:
    with place.reader() as reader:
        names = sorted({row.scenario.base_id for row in reader.scenarios("giving-in")})
    if names:
        name = dice.choice(names)
        words = ("--reject", name, "--reason", "x", "--by", "p")
        crosswind(place.root, "review", "giving-in", *words, code=0)


def _again(place: Place, dice: random.Random) -> None:
    with place.reader() as reader:
        # those of a rejected scenario are refused
        standing = {row.scenario.id for row in reader.scenarios("giving-in")}
        takes = reader.counting_takes("giving-in")
    keys = [take.key for take in takes if take.key.scenario_id in standing]
    again = {"giving-in": frozenset(dice.sample(keys, min(3, len(keys))))}
    stages = {Stage.EVALUATE} if dice.random() < 0.5 else {Stage.SIMULATE, Stage.EVALUATE}
    if keys:
        place.run_until(dice.randint(1, 4), again=again, stages=frozenset(stages))


def _imported(place: Place, dice: random.Random) -> None:
    """What somebody else played of the same benchmark, some of it."""
    other = small_workspace(place.root.parent / f"other-{dice.random()}", place.config.read_text())
    other.run_until(dice.randint(20, 80))
    with other.reader() as reader:
        is_played = bool(reader.counting_takes("giving-in"))
    if is_played:
        logs = other.root / "logs"
        crosswind(other.root, "export", "inspect", "--out", str(logs), code=0)
        # 1 where a person has edited a scenario here, whose conversations are not taken then
        assert crosswind(place.root, "import", str(logs)).code in {0, 1}


def _stale(place: Place, dice: random.Random) -> None:
    text = place.benchmark.read_text("utf-8")
    place.benchmark.write_text(text.replace("the person", "a person", dice.randint(1, 2)), "utf-8")


def _budget_spent(place: Place, dice: random.Random) -> None:
    """A run that its budget ends, as every answer costs something."""

    def priced(reply: Reply) -> Reply:
        return replace(reply, usage=replace(reply.usage, cost_usd=0.01))

    before = place.config.read_text("utf-8")
    budget = dice.randint(1, 60) / 100
    place.edit(place.config, "run: {", f"run: {{budget: {budget}, ")
    place.heard_by(lambda spec: Overheard(open_offline(spec), changed=priced)).run()
    place.config.write_text(before, "utf-8")


ACTS: Mapping[str, Callable[[Place, random.Random], object]] = {
    "with faults": lambda place, dice: with_faults(place, dice).run(),
    "stopped": lambda place, dice: place.run_until(dice.randint(1, 60)),
    "stopped with faults": lambda place, dice: with_faults(place, dice).run_until(
        dice.randint(5, 60)
    ),
    "pilot": lambda place, _: place.run(pilot=1),
    "until simulate": lambda place, _: place.run(
        stages=frozenset({Stage.GEN_METRICS, Stage.GEN_SCENARIOS, Stage.SIMULATE})
    ),
    "edited": _edited,
    "rejected": _rejected,
    "again": _again,
    "imported": _imported,
    "stale": _stale,
    "budget spent": _budget_spent,
    "forced": lambda place, dice: place.run_until(dice.randint(1, 40), force=True),
}


def random_state(root: Path, seed: int) -> tuple[Place, list[str]]:
    """A workspace, and the acts that led to its state. Equal seeds lead to equal acts."""
    dice = random.Random(seed)
    config = CONFIG.replace("scenarios_per_metric: 2", "scenarios_per_metric: 1")
    if dice.random() < 0.5:
        config = config.replace("demographics: {age: [younger, older]}\n", "")
    if dice.random() < 0.5:
        config += CHECKED + "checks: {groups: true, landmarks: true, model: looker}\n"
    place = small_workspace(root, config)
    first = dice.choice(
        ["with faults", "stopped", "stopped with faults", "pilot", "until simulate", "budget spent"]
    )
    acts = [first, *dice.choices([*ACTS], k=dice.randint(1, 3))]
    for act in acts:
        ACTS[act](place, dice)
    return place, acts


def counting(place: Place) -> tuple[Place, Callable[[], int]]:
    """The place, and how many calls its models have answered."""
    calls = itertools.count()
    said = [0]

    def counted(reply: Any) -> Any:
        said[0] = next(calls) + 1
        return reply

    heard = place.heard_by(lambda spec: Overheard(open_offline(spec), changed=counted))
    return heard, lambda: said[0]
